//! The device that wakes CPUs whose own event device has stopped, for the hosts of this crate.
//!
//! The core's [`Broadcast`] keeps which CPU sleeps until when. A [`Wakener`] adds the one device that never stops: when
//! it fires, by times of the kind `T`, and which CPU it interrupts. That is the CPU that programmed it last.

use std::cell::Cell;
use std::fmt;

use tickless_core::platform::CpuId;
use tickless_core::tick::{Broadcast, BroadcastExit, Busy, Carrier, Delivery, Entered};
use tickless_core::time::Instant;
use tickless_link::lock::RawLock;

/// Room for 4,096 CPUs.
const WORDS: usize = 64;

/// The CPUs that sleep deeply, and the device that wakes them.
pub struct Wakener<L: RawLock + Default, T: Copy + Ord> {
    broadcast: Broadcast<L, WORDS>,
    fires: Cell<Option<T>>,
    cpu: Cell<u32>,
}

impl<L: RawLock + Default, T: Copy + Ord> Wakener<L, T> {
    /// A wakener for CPUs that come online later. It does not fire before [`set_carrier`](Self::set_carrier).
    #[must_use]
    pub fn new() -> Self {
        Self {
            broadcast: Broadcast::new(),
            fires: Cell::new(None),
            cpu: Cell::new(0),
        }
    }

    /// Returns the time at which the device fires; `None` if it is not programmed.
    #[must_use]
    pub fn fires(&self) -> Option<T> {
        self.fires.get()
    }

    /// Returns the CPU that the device interrupts.
    #[must_use]
    pub fn cpu(&self) -> u32 {
        self.cpu.get()
    }

    /// Returns true if the device interrupts `cpu` at `now`.
    #[must_use]
    pub fn is_due(&self, cpu: u32, now: T) -> bool {
        self.cpu.get() == cpu && self.fires.get().is_some_and(|fires| fires <= now)
    }

    /// The device has fired.
    pub fn stop(&self) {
        self.fires.set(None);
    }

    /// Puts another device, or a timer, in the place of the one before, which `cpu` programs. `convert` says when a
    /// device fires that is programmed for an instant.
    pub fn set_carrier(
        &self,
        cpu: u32,
        carrier: Carrier,
        now: Instant,
        convert: impl FnOnce(Instant) -> T,
    ) {
        let first = self.broadcast.set_carrier(CpuId(cpu), carrier, now);
        self.program(cpu, first, convert);
    }

    /// `cpu` programs the device for `when`, which may be never.
    pub fn program(&self, cpu: u32, when: Instant, convert: impl FnOnce(Instant) -> T) {
        self.cpu.set(cpu);
        let fires = (!when.is_forever()).then(|| convert(when));
        self.fires.set(fires);
    }

    /// `cpu` takes part.
    pub fn online(&self, cpu: u32) {
        self.broadcast.online(CpuId(cpu), false);
    }

    /// `cpu` leaves, and its part in waking others goes to `heir`: the time for which it was programmed, if a timer of
    /// its wakes the others.
    pub fn offline(&self, cpu: u32, heir: u32) -> Option<Instant> {
        let carried = self.broadcast.offline(CpuId(cpu), CpuId(heir));
        if self.cpu.get() == cpu {
            self.cpu.set(heir);
        }
        carried
    }

    /// `cpu` is about to stop its device, whose next event is `event`.
    ///
    /// # Errors
    ///
    /// Why its device has to go on.
    pub fn enter(
        &self,
        cpu: u32,
        event: Instant,
        convert: impl FnOnce(Instant) -> T,
    ) -> Result<Entered, Busy> {
        let entered = self.broadcast.enter(CpuId(cpu), event)?;
        if let Entered::Program(when) = entered {
            self.program(cpu, when, convert);
        }
        Ok(entered)
    }

    /// `cpu` woke: what it does with its device.
    pub fn exit(&self, cpu: u32, now: Instant) -> BroadcastExit {
        self.broadcast.exit(CpuId(cpu), now)
    }

    /// Notes that `cpu` was interrupted. Returns true if the core has it down for a CPU whose device is stopped.
    pub fn interrupt(&self, cpu: u32) -> bool {
        self.broadcast.interrupt(CpuId(cpu))
    }

    /// The device, or the timer in its place, fired on `cpu`: which CPUs to wake, and when it has to fire next, for
    /// which it is not programmed yet.
    pub fn handle(&self, cpu: u32, now: Instant) -> Delivery<WORDS> {
        self.broadcast.handle(CpuId(cpu), now)
    }

    /// Writes which CPUs sleep deeply, as the core's dumps do.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn dump(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.broadcast.dump(out)
    }
}

impl<L: RawLock + Default, T: Copy + Ord> Default for Wakener<L, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L: RawLock + Default, T: Copy + Ord + fmt::Debug> fmt::Debug for Wakener<L, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Wakener")
            .field("fires", &self.fires)
            .field("cpu", &self.cpu)
            .finish_non_exhaustive()
    }
}

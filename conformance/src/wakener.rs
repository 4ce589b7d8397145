//! The device that wakes CPUs whose own event device has stopped, for the hosts of this crate.
//!
//! The core's [`Broadcast`] records which CPU sleeps until when. A [`Wakener`] adds the one device that never stops. It
//! records when that device fires, in times of the type `T`, and which CPU it interrupts, which is the CPU that
//! programmed it last.

use core::cell::Cell;
use core::fmt;

use tickless_core::platform::CpuId;
use tickless_core::tick::{Broadcast, BroadcastExit, Busy, Carrier, Delivery, Entered};
use tickless_core::time::Instant;
use tickless_link::lock::RawLock;

/// The number of words of a set of CPUs, which is enough for 4,096 CPUs.
const WORDS: usize = 64;

/// The sleeping CPUs whose device has stopped, and the device that wakes them.
pub struct Wakener<L: RawLock + Default, T: Copy + Ord> {
    broadcast: Broadcast<L, WORDS>,
    fires: Cell<Option<T>>,
    cpu: Cell<u32>,
}

impl<L: RawLock + Default, T: Copy + Ord> Wakener<L, T> {
    /// Makes a wakener for CPUs that come online later. The device does not fire before
    /// [`set_carrier`](Self::set_carrier) is called.
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

    /// Notes that the device has fired.
    pub fn stop(&self) {
        self.fires.set(None);
    }

    /// Replaces the device or the timer in its place; `cpu` programs the new one. `convert` returns the time at which a
    /// device fires that is programmed for a given instant.
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

    /// Programs the device for `when` on `cpu`; `when` may be never.
    pub fn program(&self, cpu: u32, when: Instant, convert: impl FnOnce(Instant) -> T) {
        self.cpu.set(cpu);
        let fires = (!when.is_forever()).then(|| convert(when));
        self.fires.set(fires);
    }

    /// Adds `cpu`.
    pub fn online(&self, cpu: u32) {
        self.broadcast.online(CpuId(cpu), false);
    }

    /// Removes `cpu`. If a timer of `cpu` woke the others, returns the time for which `heir` has to program a timer of
    /// its own.
    pub fn offline(&self, cpu: u32, heir: u32) -> Option<Instant> {
        let carried = self.broadcast.offline(CpuId(cpu), CpuId(heir));
        if self.cpu.get() == cpu {
            self.cpu.set(heir);
        }
        carried
    }

    /// Passes `event`, the next event of `cpu`, to the broadcast device, because `cpu` is about to stop its own device.
    ///
    /// # Errors
    ///
    /// The reason why the device of `cpu` has to keep running.
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

    /// Withdraws the event of `cpu`, which woke, and returns what `cpu` has to do with its own device.
    pub fn exit(&self, cpu: u32, now: Instant) -> BroadcastExit {
        self.broadcast.exit(CpuId(cpu), now)
    }

    /// Notes that `cpu` was interrupted. Returns true if the core considers the device of `cpu` as stopped.
    pub fn interrupt(&self, cpu: u32) -> bool {
        self.broadcast.interrupt(CpuId(cpu))
    }

    /// Handles an interrupt on `cpu` of the device, or of the timer in its place. Returns the CPUs to wake and the next
    /// time; the device is not yet programmed for that time.
    pub fn handle(&self, cpu: u32, now: Instant) -> Delivery<WORDS> {
        self.broadcast.handle(CpuId(cpu), now)
    }

    /// Writes the CPUs that sleep deeply, as the core's dumps do.
    ///
    /// # Errors
    ///
    /// The errors of `out`.
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

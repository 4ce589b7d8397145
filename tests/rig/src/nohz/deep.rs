//! CPUs that sleep so deeply that their own device stops, and the device that wakes them.
//!
//! What was programmed in a device that stops is lost. There is one broadcast device; its interrupt goes to the CPU
//! that programmed it last.

use std::cell::Cell;
use std::fmt;

use tickless_core::platform::CpuId;
use tickless_core::tick::{Broadcast, BroadcastExit, Busy, Carrier, Entered};
use tickless_core::time::Instant;
use tickless_sim::tables::PlainLock;

use crate::host::Host;
use crate::rig::Rig;

/// Room for 4,096 CPUs.
pub(super) const WORDS: usize = 64;

/// What one CPU does about deep sleep.
#[derive(Debug, Default)]
pub(super) struct Depth {
    /// Its governor chooses deep sleep whenever it may.
    pub(super) is_wanted: Cell<bool>,
    /// Its device is stopped.
    pub(super) is_deep: Cell<bool>,
    /// The interrupt by which a broadcast is delivered is on its way.
    pub(super) is_called: Cell<bool>,
    /// It came back late, and nothing is programmed until that interrupt comes.
    pub(super) awaits_call: Cell<bool>,
}

/// The broadcast device, and what was counted of it.
pub(super) struct Wakener {
    pub(super) broadcast: Broadcast<PlainLock, WORDS>,
    /// When it fires, by the true time.
    pub(super) fires_at: Cell<Option<i64>>,
    /// Where its interrupt goes.
    pub(super) cpu: Cell<u32>,
    pub(super) counts: Cell<DeepCounts>,
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeepCounts {
    /// Deep sleeps.
    pub entered: u64,
    /// Deep sleeps that were refused.
    pub refused: u64,
    /// Broadcasts that were delivered to other CPUs, one for each.
    pub delivered: u64,
    /// Times a CPU came back for another reason.
    pub woke_itself: u64,
    /// Times it came back when it was due and not called yet.
    pub woke_late: u64,
}

impl Wakener {
    pub(super) fn new() -> Self {
        Self {
            broadcast: Broadcast::new(),
            fires_at: Cell::new(None),
            cpu: Cell::new(0),
            counts: Cell::default(),
        }
    }

    fn program(&self, when: Instant) {
        let fires = (!when.is_forever()).then(|| when.as_nanos());
        self.fires_at.set(fires);
    }

    fn count(&self, change: impl FnOnce(&mut DeepCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }
}

impl fmt::Debug for Wakener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Wakener")
            .field("counts", &self.counts.get())
            .finish_non_exhaustive()
    }
}

impl<H: Host> Rig<H> {
    fn wakener(&self) -> &Wakener {
        &self.ticks_of_all().wakener
    }

    fn depth(&self, cpu: u32) -> &Depth {
        &self.ticking_cpu(cpu).depth
    }

    /// Lets `cpu` sleep deeply from now on, whenever its tick is stopped; or not.
    pub fn set_deep(&self, cpu: u32, is_wanted: bool) {
        self.depth(cpu).is_wanted.set(is_wanted);
    }

    /// Whether the device of `cpu` is stopped.
    #[must_use]
    pub fn is_deep(&self, cpu: u32) -> bool {
        self.depth(cpu).is_deep.get()
    }

    /// How often what happened.
    #[must_use]
    pub fn deep_counts(&self) -> DeepCounts {
        self.wakener().counts.get()
    }

    /// Whether nothing is programmed on some CPU, because an interrupt is on its way.
    pub(super) fn is_anybody_called(&self) -> bool {
        let cpus = &self.ticks_of_all().cpus;
        cpus.iter()
            .any(|cpu| cpu.depth.awaits_call.get() || cpu.depth.is_called.get())
    }

    /// Puts a new broadcast device into the place of the old one.
    pub fn replace_broadcast_device(&self, cpu: u32) {
        let now = self.monotonic();
        let wakener = self.wakener();
        wakener.cpu.set(cpu);
        let first = wakener
            .broadcast
            .set_carrier(CpuId(cpu), Carrier::Oneshot, now);
        wakener.program(first);
    }

    /// `cpu`, whose tick is stopped, is about to sleep.
    pub(super) fn go_deep(&self, cpu: u32) {
        if !self.depth(cpu).is_wanted.get() || self.is_deep(cpu) {
            return;
        }
        let event = self.armed(cpu);
        let wakener = self.wakener();
        match wakener.broadcast.enter(CpuId(cpu), event) {
            Ok(entered) => {
                if let Entered::Program(when) = entered {
                    wakener.cpu.set(cpu);
                    wakener.program(when);
                }
                self.depth(cpu).is_deep.set(true);
                self.stop_device(cpu);
                wakener.count(|counts| counts.entered += 1);
            }
            Err(Busy::TakesOver(_)) => panic!("the broadcast device is no timer"),
            Err(_) => wakener.count(|counts| counts.refused += 1),
        }
    }

    /// `cpu` wakes, for whatever reason, before anything else happens there.
    pub(super) fn leave_deep(&self, cpu: u32) {
        let wakener = self.wakener();
        let depth = self.depth(cpu);
        let on = wakener.broadcast.interrupt(CpuId(cpu));
        assert_eq!(
            on,
            self.is_deep(cpu),
            "the device of CPU {cpu} is on or off"
        );
        if !depth.is_deep.take() {
            return;
        }
        let event = self.armed(cpu);
        match wakener.broadcast.exit(CpuId(cpu), self.monotonic()) {
            BroadcastExit::Program => {
                self.restart_device(cpu);
                wakener.count(|counts| counts.woke_itself += 1);
            }
            BroadcastExit::SwitchOn => {
                self.on(cpu, || self.timers().switch_device_on(CpuId(cpu)));
                let is_late = !event.is_forever() && !depth.is_called.get();
                depth.awaits_call.set(is_late);
                wakener.count(|counts| counts.woke_late += u64::from(is_late));
            }
            BroadcastExit::WasAwake => panic!("CPU {cpu} is deep for itself alone"),
        }
    }

    /// `cpu` takes what came by broadcast: the broadcast device's own interrupt, and what others sent it.
    pub(super) fn take_broadcasts(&self, cpu: u32) {
        let wakener = self.wakener();
        let fires = wakener.fires_at.get();
        let is_due = fires.is_some_and(|at| at <= self.now());
        if is_due && wakener.cpu.get() == cpu {
            let delivery = wakener.broadcast.handle(CpuId(cpu), self.monotonic());
            wakener.program(delivery.program);
            for other in delivery.wake.iter() {
                self.depth(other.0).is_called.set(true);
                wakener.count(|counts| counts.delivered += 1);
            }
            if delivery.own {
                self.depth(cpu).is_called.set(true);
            }
        }
        if self.depth(cpu).is_called.take() {
            self.depth(cpu).awaits_call.set(false);
            // What its own device would have done.
            self.host().set_fires_at(cpu, Some(self.now()));
        }
    }

    /// When a broadcast wants `cpu` to be interrupted.
    pub(super) fn broadcast_for(&self, cpu: u32) -> Option<i64> {
        let wakener = self.wakener();
        let called = self.depth(cpu).is_called.get();
        let called = called.then(|| self.now());
        let fires = wakener.fires_at.get();
        let fires = fires.filter(|_| wakener.cpu.get() == cpu);
        [called, fires].into_iter().flatten().min()
    }

    /// Executes `body` as if the broadcast device were that of each CPU whose own is stopped.
    pub(super) fn with_broadcast_in_place(&self, body: impl FnOnce()) {
        let deep = || (0..self.cpus()).filter(|cpu| self.is_deep(*cpu));
        let set = |cpu, fires| self.host().set_fires_at(cpu, fires);
        deep().for_each(|cpu| set(cpu, self.wakener().fires_at.get()));
        body();
        deep().for_each(|cpu| set(cpu, None));
    }

    /// `cpu` comes online, or leaves and what it had to do goes to `heir`.
    pub(super) fn join_broadcast(&self, cpu: u32) {
        self.wakener().broadcast.online(CpuId(cpu), false);
    }

    pub(super) fn leave_broadcast(&self, cpu: u32, heir: u32) {
        let carried = self.wakener().broadcast.offline(CpuId(cpu), CpuId(heir));
        assert_eq!(carried, None, "the broadcast device is no timer");
        if self.wakener().cpu.get() == cpu {
            self.wakener().cpu.set(heir);
        }
        self.depth(cpu).is_called.set(false);
        self.depth(cpu).awaits_call.set(false);
    }
}

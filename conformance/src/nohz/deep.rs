//! CPUs that sleep so deeply that their own device stops, and the broadcast device that wakes them.
//!
//! A device that stops loses its programmed event. There is one broadcast device; its interrupt is delivered to the CPU
//! that programmed it last.

use tickless_core::platform::CpuId;
use tickless_core::tick::{BroadcastExit, Busy, Carrier};
use tickless_core::time::Instant;

use crate::host::Host;
use crate::rig::Rig;
use crate::tables::PlainLock;
use crate::ticks::{DeepCounts, Depth};
use crate::wakener::Wakener;

impl<H: Host> Rig<H> {
    fn wakener(&self) -> &Wakener<PlainLock, i64> {
        &self.ticks_of_all().wakener
    }

    fn count_deep(&self, change: impl FnOnce(&mut DeepCounts)) {
        let mut counts = self.deep_counts();
        change(&mut counts);
        self.ticks_of_all().deep_counts.set(counts);
    }

    fn depth(&self, cpu: u32) -> &Depth {
        &self.ticking_cpu(cpu).depth
    }

    /// Sets whether `cpu` sleeps deeply from now on whenever its tick is stopped.
    pub fn set_deep(&self, cpu: u32, is_wanted: bool) {
        self.depth(cpu).is_wanted.set(is_wanted);
    }

    /// Returns true if the device of `cpu` is stopped.
    #[must_use]
    pub fn is_deep(&self, cpu: u32) -> bool {
        self.depth(cpu).is_deep.get()
    }

    /// Returns the counts of deep sleeps and of their ends.
    #[must_use]
    pub fn deep_counts(&self) -> DeepCounts {
        self.ticks_of_all().deep_counts.get()
    }

    /// Returns true if some CPU has no programmed device because an interrupt to it is pending.
    pub(super) fn is_a_cpu_called(&self) -> bool {
        let cpus = &self.ticks_of_all().cpus;
        cpus.iter()
            .any(|cpu| cpu.depth.awaits_call.get() || cpu.depth.is_called.get())
    }

    /// Replaces the broadcast device by a new one.
    pub fn replace_broadcast_device(&self, cpu: u32) {
        let now = self.monotonic();
        self.wakener()
            .set_carrier(cpu, Carrier::Oneshot, now, Instant::as_nanos);
    }

    /// Lets `cpu`, whose tick is stopped, enter its deep sleep if that is wanted.
    pub(super) fn go_deep(&self, cpu: u32) {
        if !self.depth(cpu).is_wanted.get() || self.is_deep(cpu) {
            return;
        }
        let event = self.armed(cpu);
        match self.wakener().enter(cpu, event, Instant::as_nanos) {
            Ok(_) => {
                self.depth(cpu).is_deep.set(true);
                self.stop_device(cpu);
                self.count_deep(|counts| counts.entered += 1);
            }
            Err(Busy::TakesOver(_)) => panic!("the broadcast device is no timer"),
            Err(_) => self.count_deep(|counts| counts.refused += 1),
        }
    }

    /// Wakes `cpu` from deep sleep, for any reason, before anything else happens on it.
    pub(super) fn leave_deep(&self, cpu: u32) {
        let depth = self.depth(cpu);
        let on = self.wakener().interrupt(cpu);
        assert_eq!(
            on,
            self.is_deep(cpu),
            "the device of CPU {cpu} is on or off"
        );
        if !depth.is_deep.take() {
            return;
        }
        let event = self.armed(cpu);
        match self.wakener().exit(cpu, self.monotonic()) {
            BroadcastExit::Program => {
                self.restart_device(cpu);
                self.count_deep(|counts| counts.woke_itself += 1);
            }
            BroadcastExit::SwitchOn => {
                self.on(cpu, || self.timers().switch_device_on(CpuId(cpu)));
                let is_late = !event.is_forever() && !depth.is_called.get();
                depth.awaits_call.set(is_late);
                self.count_deep(|counts| counts.woke_late += u64::from(is_late));
            }
            BroadcastExit::WasAwake => panic!("CPU {cpu} is deep for itself alone"),
        }
    }

    /// Lets `cpu` take its broadcasts: the broadcast device's own interrupt, and the interrupts that other CPUs sent.
    pub(super) fn take_broadcasts(&self, cpu: u32) {
        let wakener = self.wakener();
        if wakener.is_due(cpu, self.now()) {
            let delivery = wakener.handle(cpu, self.monotonic());
            wakener.program(cpu, delivery.program, Instant::as_nanos);
            for other in delivery.wake.iter() {
                self.depth(other.0).is_called.set(true);
                self.count_deep(|counts| counts.delivered += 1);
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

    /// Returns the time at which a broadcast is to interrupt `cpu`.
    pub(super) fn broadcast_for(&self, cpu: u32) -> Option<i64> {
        let wakener = self.wakener();
        let called = self.depth(cpu).is_called.get();
        let called = called.then(|| self.now());
        let fires = wakener.fires().filter(|_| wakener.cpu() == cpu);
        [called, fires].into_iter().flatten().min()
    }

    /// Executes `body` while the broadcast device stands in for the device of each CPU whose own device is stopped.
    pub(super) fn with_broadcast_in_place(&self, body: impl FnOnce()) {
        let deep = || (0..self.cpus()).filter(|cpu| self.is_deep(*cpu));
        let set = |cpu, fires| self.host().set_fires_at(cpu, fires);
        deep().for_each(|cpu| set(cpu, self.wakener().fires()));
        body();
        deep().for_each(|cpu| set(cpu, None));
    }

    /// Adds `cpu`, which comes online, to the broadcast device. When a CPU goes offline, its duties there are passed to
    /// its heir.
    pub(super) fn join_broadcast(&self, cpu: u32) {
        self.wakener().online(cpu);
    }

    pub(super) fn leave_broadcast(&self, cpu: u32, heir: u32) {
        let carried = self.wakener().offline(cpu, heir);
        assert_eq!(carried, None, "the broadcast device is no timer");
        self.depth(cpu).is_called.set(false);
        self.depth(cpu).awaits_call.set(false);
    }
}

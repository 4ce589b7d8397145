//! The counters of a run.

use serde::Serialize;
use tickless_core::event::Flush;
use tickless_core::trace::Placement;

use crate::model::time::Picos;

/// The counters of a run. Each counts from the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Events of the simulator.
    pub events: u64,
    /// Coarse timers armed or modified under the lock.
    pub coarse_arms: u64,
    /// Coarse timers cancelled.
    pub coarse_cancels: u64,
    /// Coarse timers that fired.
    pub coarse_fires: u64,
    /// Coarse timers that another CPU fired.
    pub remote_fires: u64,
    /// Coarse timers whose task then ran on a CPU other than the CPU that fired them: "ping-pong" (spec C-3.8).
    pub ping_pongs: u64,
    /// Operations on timers that took no lock.
    pub lockless: u64,
    /// Exact timers started.
    pub exact_starts: u64,
    /// Starts of exact timers that were queued already.
    pub exact_restarts: u64,
    /// Starts of exact timers that kept their place after a comparison with their neighbours.
    pub exact_in_place: u64,
    /// Starts of exact timers that kept their place under their old, earlier key, without a comparison with their
    /// neighbours.
    pub exact_filed_early: u64,
    /// Starts of exact timers that kept their bucket of the far wheel.
    pub exact_far_in_slot: u64,
    /// Starts of exact timers whose time is counted: all starts except those of a tick that stops or restarts.
    pub timed_starts: u64,
    /// The total time of those starts.
    pub starting: Picos,
    /// Exact timers that moved to another CPU when they were started.
    pub exact_pushed: u64,
    /// Exact timers cancelled.
    pub exact_cancels: u64,
    /// Exact timers that fired.
    pub exact_fires: u64,
    /// Firings of timers on a clock that may be set.
    pub wall_fires: u64,
    /// Timer interrupts.
    pub interrupts: u64,
    /// Timer interrupts that found no due timer.
    pub spurious: u64,
    /// Writes to event devices.
    pub device_writes: u64,
    /// Device writes that came too late for an equality comparator, and were repeated.
    pub device_refused: u64,
    /// Reads of the clock to compute the distance to the event for a device write.
    pub device_clock_reads: u64,
    /// Interrupts that came before their device's deadline, by the clock of their CPU, if no clock changed in between.
    pub device_early: u64,
    /// The largest time by which such an interrupt was early.
    pub device_early_by: Picos,
    /// The largest delay of an interrupt after the time for which its device was written, if that time was ahead and no
    /// clock changed in between.
    pub device_late_by: Picos,
    /// Rearms that were deferred to the return to a task (FLUSH-1).
    pub flushes_to_task: u64,
    /// Rearms that were deferred to the entry into idle (FLUSH-3).
    pub flushes_to_idle: u64,
    /// Rearms that were deferred to a soft stage (FLUSH-4).
    pub flushes_before_soft: u64,
    /// Rearms that were deferred to the pick of a task (FLUSH-5).
    pub flushes_after_pick: u64,
    /// Rearms that were deferred to the extension of a slice (FLUSH-7).
    pub flushes_at_extension: u64,
    /// Ticks that fired.
    pub ticks: u64,
    /// Soft stages that ran at ticks.
    pub soft_stages: u64,
    /// Inter-processor interrupts that were sent.
    pub ipis: u64,
    /// Interrupts that the broadcast device sent in place of devices that had stopped.
    pub broadcasts: u64,
    /// CPUs whose timers another CPU fired.
    pub served: u64,
    /// Entries into idle in which a CPU stopped its tick.
    pub idle_entries: u64,
    /// Switches between tasks.
    pub switches: u64,
    /// Tasks that an idle CPU pulled from another one.
    pub pulled: u64,
    /// Tasks that moved to another CPU when they were woken.
    pub placed: u64,
    /// Tasks that were picked again, without a switch.
    pub picked_again: u64,
    /// Slices that were extended, because their tasks were in a critical section.
    pub extensions: u64,
    /// Extensions whose task left its section in time, and yielded the CPU.
    pub gave_way: u64,
    /// Tasks that had used their reserved runtime, and had to wait for the next.
    pub throttled: u64,
    /// Throttled tasks that got runtime again.
    pub replenished: u64,
    /// Interrupts that woke a CPU for a cancelled timer, because the wake-up was cheaper than writing the device.
    pub lazy_wakes: u64,
    /// Reads of the clock.
    pub clock_reads: u64,
    /// The total time of those reads.
    pub clock_reading: Picos,
    /// Reads of the slow counter itself. If reads are combined, the counter is read less often than the clock.
    pub slow_reads: u64,
    /// Waits of a CPU for a lock.
    pub lock_waits: u64,
    /// The total time of those waits.
    pub lock_waited: Picos,
}

impl Counts {
    /// Counts a start of an exact timer. `was_armed` is true if the timer was queued; `stood` says whether it kept its
    /// place.
    pub(crate) const fn started(&mut self, was_armed: bool, stood: Placement) {
        self.exact_starts += 1;
        if !was_armed {
            return;
        }
        self.exact_restarts += 1;
        match stood {
            Placement::Moved => {}
            Placement::InPlace => self.exact_in_place += 1,
            Placement::FiledEarly => self.exact_filed_early += 1,
            Placement::FarSlot => self.exact_far_in_slot += 1,
        }
    }

    /// Counts a rearm that was carried out at `point`.
    pub(crate) const fn flushed(&mut self, point: Flush) {
        match point {
            Flush::UserExit => self.flushes_to_task += 1,
            Flush::KernelExit => self.flushes_to_idle += 1,
            Flush::SoftWork => self.flushes_before_soft += 1,
            Flush::Switched | Flush::SameTask => self.flushes_after_pick += 1,
            Flush::SliceExtension => self.flushes_at_extension += 1,
            _ => {}
        }
    }

    /// Returns the number of operations on timers: arms, cancels, and operations that had nothing to do.
    #[must_use]
    pub const fn timer_operations(&self) -> u64 {
        self.coarse_arms
            + self.coarse_cancels
            + self.lockless
            + self.exact_starts
            + self.exact_cancels
    }
}

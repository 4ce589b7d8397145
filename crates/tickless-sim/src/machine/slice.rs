//! Time slices: an exact timer on each CPU that fires when the task that runs has had its share (spec 5).
//!
//! It is started when a task is picked while another waits behind it, or when one comes to wait and it is not queued.
//! Otherwise it is left alone: a timer of the task before fires early, finds nobody to run instead or too early a
//! moment, and is started again if it has to be (TICK-7, TICK-21). A CPU that becomes idle takes it out. Where it
//! moves, that is nearly always later, and it is lazy: the device is not written for it.
//!
//! How long a slice is, and whether anybody waits for its end, is the [run
//! queue's](crate::machine::scheduler::RunQueue) affair.

use tickless_core::hrtimer::{Restart, Start};
use tickless_core::platform::CpuId;

use crate::machine::fired::{self, Fired};
use crate::machine::machine::World;
use crate::machine::timers::Exact;
use crate::model::current_cpu;
use crate::model::time::Picos;

/// The end of the slice of whoever runs on a CPU.
#[derive(Debug)]
pub(crate) struct Slice {
    timer: Exact,
    /// When the task that runs was picked.
    picked: Picos,
    /// The timer fired.
    has_fired: bool,
}

impl World {
    /// The timer of the slices of `cpu`.
    pub(crate) fn new_slice(&self, cpu: u32) -> Slice {
        let setup = self.policy.rearm.lazy_setup();
        let timer = Exact::with_setup(&self.timers, setup, move |_| {
            fired::note(Fired::Slice(cpu));
            Restart::No
        });
        Slice {
            timer,
            picked: Picos::ZERO,
            has_fired: false,
        }
    }

    /// How long the task of `cpu` may run, from when it was picked, for those who wait.
    fn slice_of_current(&self, cpu: u32) -> Option<Picos> {
        let state = &self.cpus[cpu as usize];
        let task = state.current?;
        let priority = self.tasks[task as usize].priority;
        state.waiting.slice(priority)
    }

    /// A task was picked on `cpu`, which executes.
    pub(crate) fn begin_slice(&mut self, cpu: u32) {
        let length = self.slice_of_current(cpu);
        if let Some(slice) = &mut self.cpus[cpu as usize].slice {
            slice.picked = current_cpu::cursor();
            slice.has_fired = false;
            if let Some(length) = length {
                slice
                    .timer
                    .start(Start::at((slice.picked + length).instant()));
            }
        }
    }

    /// A task came to wait on `cpu`, which executes: if that is the first, the slice of the one that runs begins to
    /// count.
    pub(crate) fn somebody_waits(&mut self, cpu: u32) {
        let length = self.slice_of_current(cpu);
        if let (Some(slice), Some(length)) = (&self.cpus[cpu as usize].slice, length)
            && !slice.timer.pinned().is_queued()
        {
            let ends = (slice.picked + length).max(current_cpu::cursor());
            slice.timer.start(Start::at(ends.instant()));
        }
    }

    /// The timer of `cpu` fired.
    pub(crate) fn slice_fired(&mut self, cpu: u32) {
        if let Some(slice) = &mut self.cpus[cpu as usize].slice {
            slice.has_fired = true;
        }
    }

    /// Whether the task of `cpu`, which executes, has to make room for one that waited long enough.
    pub(crate) fn slice_is_over(&mut self, cpu: u32) -> bool {
        let Some(slice) = &mut self.cpus[cpu as usize].slice else {
            return false;
        };
        if !std::mem::take(&mut slice.has_fired) {
            return false;
        }
        let picked = slice.picked;
        let is_over = |length| current_cpu::cursor().instant() >= (picked + length).instant();
        let over = self.slice_of_current(cpu).is_some_and(is_over);
        if !over {
            self.somebody_waits(cpu);
        }
        over
    }

    /// Nothing is left to run on `cpu`, which executes, or it leaves.
    pub(crate) fn drop_slice(&mut self, cpu: u32) {
        if let Some(slice) = &mut self.cpus[cpu as usize].slice
            && slice.timer.pinned().is_queued()
        {
            slice.timer.cancel();
        }
    }

    /// `cpu`, which executes, is about to sleep: its device may be armed for a slice that is no more (spec LAZY-7).
    pub(crate) fn arm_exactly(&self, cpu: u32) {
        if self.cpus[cpu as usize].slice.is_some() {
            let _armed = self.timers.settle_armed(CpuId(cpu));
        }
    }
}

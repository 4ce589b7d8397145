//! Time slices: an exact timer on each CPU that fires when the running task has used up its slice (spec X-5).
//!
//! The timer is started when a task is picked while another task waits, or when a task is enqueued while the timer is
//! not queued. Otherwise the timer is left alone: a timer from an earlier task fires early, finds no other task to run
//! or fires before the end of the slice, and is started again if needed (TICK-7, TICK-21). A CPU that becomes idle
//! cancels the timer. When the timer moves, it nearly always moves later. The timer is lazy: the device is not written
//! for a move to a later time.
//!
//! The [run queue](crate::machine::scheduler::RunQueue) decides how long a slice is, and whether a task waits for its
//! end.

use std::rc::Rc;

use tickless_core::base::Timers;
use tickless_core::hrtimer::{Restart, Start};

use crate::baseline::Rearm;
use crate::machine::fired::{self, Fired};
use crate::machine::host::Host;
use crate::machine::timers::{Exact, Operations};
use crate::model::current_cpu;
use crate::model::time::Picos;

/// The end of the slice of the task that runs on a CPU.
#[derive(Debug)]
pub(crate) struct Slice {
    timer: Exact,
    /// The time at which the running task was picked.
    picked: Picos,
    has_fired: bool,
}

impl Slice {
    /// Makes the timer of the slices of `cpu`.
    pub(super) fn new(timers: &Rc<Timers<Host>>, rearm: Rearm, cpu: u32) -> Self {
        let timer = Exact::with_setup(timers, rearm.lazy_setup(), move |_| {
            fired::note(Fired::Slice(cpu));
            Restart::No
        });
        Self {
            timer,
            picked: Picos::ZERO,
            has_fired: false,
        }
    }

    /// Begins the slice of a task that was picked on the CPU, which executes. The task may run for `length` if another
    /// task waits.
    pub(super) fn begin(&mut self, length: Option<Picos>) {
        self.picked = current_cpu::cursor();
        self.has_fired = false;
        if let Some(length) = length {
            self.timer
                .start(Start::at((self.picked + length).instant()));
        }
    }

    /// Notes a task that waits on the CPU, which executes. With the first waiting task the slice of the running task,
    /// which is `length` long, begins to count.
    pub(super) fn count(&self, length: Picos) {
        if !self.timer.pinned().is_queued() {
            let ends = (self.picked + length).max(current_cpu::cursor());
            self.timer.start(Start::at(ends.instant()));
        }
    }

    /// Notes that the timer fired.
    pub(super) const fn fired(&mut self) {
        self.has_fired = true;
    }

    /// Returns true if the task of the CPU, which executes, has to yield the CPU to a task that waited long enough. The
    /// running task may run for `length` while another task waits.
    pub(super) fn is_over(&mut self, length: Option<Picos>) -> bool {
        if !std::mem::take(&mut self.has_fired) {
            return false;
        }
        let Some(length) = length else {
            return false;
        };
        let over = current_cpu::cursor().instant() >= (self.picked + length).instant();
        if !over {
            self.count(length);
        }
        over
    }

    /// Ends the slice of the CPU, which executes and has nothing left to run, or goes offline.
    pub(super) fn end(&self) {
        if self.timer.pinned().is_queued() {
            self.timer.cancel();
        }
    }
}

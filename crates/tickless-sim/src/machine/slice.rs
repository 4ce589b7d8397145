//! Time slices: an exact timer on each CPU that fires when the running task has had its slice (spec X-5).
//!
//! It is started when a task is picked while another waits behind it, or when one comes to wait and it is not queued.
//! Otherwise it is left alone: a timer of the task before fires early, finds no task to run instead or too early a
//! moment, and is started again if it has to be (TICK-7, TICK-21). A CPU that becomes idle takes it out. Where it
//! moves, that is nearly always later, and it is lazy: the device is not written for it.
//!
//! How long a slice is, and whether a task waits for its end, is the [run
//! queue's](crate::machine::scheduler::RunQueue) affair.

use std::rc::Rc;

use tickless_core::base::Timers;
use tickless_core::hrtimer::{Restart, Start};

use crate::baseline::Rearm;
use crate::machine::fired::{self, Fired};
use crate::machine::host::Host;
use crate::machine::timers::Exact;
use crate::model::current_cpu;
use crate::model::time::Picos;

/// The end of the slice of the task that runs on a CPU.
#[derive(Debug)]
pub(crate) struct Slice {
    timer: Exact,
    /// The time at which the running task was picked.
    picked: Picos,
    /// The timer fired.
    has_fired: bool,
}

impl Slice {
    /// The timer of the slices of `cpu`.
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

    /// A task was picked on the CPU, which executes; it may run for `length`, if another one waits.
    pub(super) fn begin(&mut self, length: Option<Picos>) {
        self.picked = current_cpu::cursor();
        self.has_fired = false;
        if let Some(length) = length {
            self.timer
                .start(Start::at((self.picked + length).instant()));
        }
    }

    /// A task came to wait on the CPU, which executes: if that is the first, the slice of the one that runs, which is
    /// `length` long, begins to count.
    pub(super) fn count(&self, length: Picos) {
        if !self.timer.pinned().is_queued() {
            let ends = (self.picked + length).max(current_cpu::cursor());
            self.timer.start(Start::at(ends.instant()));
        }
    }

    /// The timer fired.
    pub(super) const fn fired(&mut self) {
        self.has_fired = true;
    }

    /// Returns true if the task of the CPU, which executes, has to make room for one that waited long enough: it may
    /// run for `length` while another one waits.
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

    /// Ends the slice of the CPU, which executes and has nothing left to run, or leaves.
    pub(super) fn end(&self) {
        if self.timer.pinned().is_queued() {
            self.timer.cancel();
        }
    }
}

//! The tick that ends the slices of a worker's tasks, with the worker's two timers: one for the end of the slice, one
//! for the next replenishment.
//!
//! The timers belong to the worker's base, so they exist from the worker's begin to its end. Before and after, no tick
//! is started. `now` is the time up to which the run queue was accounted: a slice begins and ends at the clock readings
//! by which its task is charged.

use tickless_core::time::{Instant, Span};
use tickless_sched::deadline::RuntimeLeft;
use tickless_sched::hrtick::{HrTick, Reschedule, SliceTimer, Switches};
use tickless_sched::load::Load;
use tickless_sched::{FairQueue, RunTime};

use super::current;
use super::deadlines::Deadlines;
use super::header::{Job, Waiting};
use super::run_queue::RunQueue;
use super::tick::TickTimer;

#[cfg(test)]
mod tests;

/// The two timers of a worker.
#[derive(Debug)]
pub(crate) struct Timers {
    pub(crate) slice: TickTimer,
    pub(crate) bandwidth: TickTimer,
}

/// The slice tick of a worker.
#[derive(Debug)]
pub(crate) struct SliceTick {
    pub(super) hrtick: HrTick,
    /// The timers; `None` before the worker begins and after it ends.
    pub(super) timers: Option<Timers>,
    /// The number of slices that were extended.
    pub(super) extensions: u64,
}

impl SliceTick {
    pub(crate) const fn new(switches: Switches) -> Self {
        Self {
            hrtick: HrTick::new(switches),
            timers: None,
            extensions: 0,
        }
    }

    /// Ends the tick when the worker ends. Returns its timers, which the caller has to drop without the lock.
    pub(crate) fn close(&mut self) -> Option<Timers> {
        let timers = self.timers.take()?;
        self.hrtick.offline(&timers.slice);
        Some(timers)
    }

    /// Returns whether the calling thread is the worker.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        let timers = self.timers.as_ref();
        timers.is_some_and(|timers| timers.slice.is_local())
    }

    /// Counts the tick, if it fired since the last call; `is_fair` is true if the running task is of the fair class.
    #[inline]
    pub(crate) fn count_fired(&mut self, is_fair: bool) {
        if let Some(timers) = &self.timers
            && timers.slice.take_fired()
        {
            let _pick_follows = self.hrtick.fired(is_fair);
        }
    }

    /// Updates the tick when a task of the fair class begins to wait in `queue`. The running task may have been alone
    /// until now, without a tick. Returns true if its slice is over.
    #[inline]
    pub(crate) fn enqueued(&mut self, queue: &FairQueue<Waiting>, now: Instant) -> bool {
        if self.hrtick.fair_is_on()
            && let Some(timers) = &self.timers
            && let timer = timers.slice.at(now)
            && !self.hrtick.is_current(timer)
            && let Some(slice) = queue.slice()
        {
            let (slice, runnable) = (Some(slice), queue.runnable());
            let asked = (self.hrtick).enqueued(slice, runnable, Load::NONE, timer);
            return asked == Reschedule::Hard;
        }
        false
    }

    /// Starts the tick for a task of the fair class that was picked from `queue`, in which `runnable` tasks (two or
    /// more) could run.
    #[inline]
    pub(crate) fn start(&mut self, queue: &RunQueue, runnable: usize, job: &Job, now: Instant) {
        if let (Some(timers), Some(mut slice)) = (&self.timers, queue.fair.slice()) {
            let timer = timers.slice.at(now);
            if let Some(shortest) = queue.classes.shorter_than(job.metadata().class) {
                slice = slice.at_most(Span::from_nanos(shortest));
            }
            // A task is picked with a deadline ahead, so it is never over.
            let _never = (self.hrtick).picked(slice, runnable, Load::NONE, true, timer);
        }
    }

    /// Starts the tick for a picked task with a deadline.
    pub(crate) fn start_deadline(&mut self, left: RuntimeLeft, now: Instant) {
        if let Some(timers) = &self.timers {
            // A task is picked with runtime left, so it is never over.
            let _never = self.hrtick.picked_deadline(left, timers.slice.at(now));
        }
    }

    /// Starts the timer for the next replenishment of `deadlines`, if its time has changed. Only the worker can start
    /// it. `now` is the monotonic time at which the clock of the queue shows `run_time`.
    #[inline]
    pub(crate) fn start_bandwidth(
        &self,
        deadlines: &mut Deadlines,
        now: Instant,
        run_time: RunTime,
    ) {
        if let Some(timers) = &self.timers
            && let Some(at) = deadlines.settle_timer(now, run_time)
        {
            start_if_other(&timers.bandwidth, at);
        }
    }

    /// Returns whether the task that yields continues instead of a `schedule()`. If so, its tick is started and the
    /// device is programmed (FLUSH-7).
    pub(crate) fn extends(&mut self, is_fair: bool, now: Instant) -> bool {
        let (Some(timers), tick) = (&self.timers, &mut self.hrtick) else {
            return false;
        };
        let timer = timers.slice.at(now);
        let ticks = if is_fair {
            tick.fair_is_on()
        } else {
            tick.deadline_is_on()
        };
        let is_granted = current::grant_extension(|extension| extension.grant(ticks, tick, timer));
        self.extensions += u64::from(is_granted);
        is_granted
    }
}

/// Starts a timer, unless it is queued for that time already, because a start acquires the lock of the base.
#[inline]
fn start_if_other(timer: &impl SliceTimer, at: Instant) {
    if timer.queued() != Some(at) {
        timer.start(at);
    }
}

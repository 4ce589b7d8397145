//! The tick that ends the slices of a worker's tasks.
//!
//! Its timer belongs to the worker's base, so it exists from the worker's begin to its end. Before and after, no tick
//! is started. `now` is the time up to which the run queue was accounted: a slice begins and ends at the clock readings
//! by which its task is charged.

use tickless_core::time::{Instant, Span};
use tickless_sched::FairQueue;
use tickless_sched::hrtick::{HrTick, Reschedule, SliceTimer, Switches};
use tickless_sched::load::Load;

use super::current;
use super::header::{Job, Waiting};
use super::run_queue::RunQueue;
use super::tick::TickTimer;

/// The slice tick of a worker.
#[derive(Debug)]
pub(crate) struct SliceTick {
    pub(super) hrtick: HrTick,
    /// The timer; `None` before the worker begins and after it ends.
    pub(super) timer: Option<TickTimer>,
    /// The number of slices that were extended.
    pub(super) extensions: u64,
}

impl SliceTick {
    pub(crate) const fn new(switches: Switches) -> Self {
        Self {
            hrtick: HrTick::new(switches),
            timer: None,
            extensions: 0,
        }
    }

    /// Ends the tick when the worker ends. Returns its timer, which the caller has to drop without the lock.
    pub(crate) fn close(&mut self) -> Option<TickTimer> {
        let timer = self.timer.take()?;
        self.hrtick.offline(&timer);
        Some(timer)
    }

    /// Returns whether the calling thread is the worker.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        self.timer.as_ref().is_some_and(SliceTimer::is_local)
    }

    /// Counts the tick, if it fired since the last call.
    #[inline]
    pub(crate) fn count_fired(&mut self) {
        if let Some(timer) = &self.timer
            && timer.take_fired()
        {
            let _pick_follows = self.hrtick.fired(true);
        }
    }

    /// Updates the tick when a task begins to wait in `queue`. The running task may have been alone
    /// until now, without a tick. Returns true if its slice is over.
    #[inline]
    pub(crate) fn enqueued(&mut self, queue: &FairQueue<Waiting>, now: Instant) -> bool {
        if self.hrtick.fair_is_on()
            && let Some(timer) = &self.timer
            && let timer = timer.at(now)
            && !self.hrtick.is_current(timer)
            && let Some(slice) = queue.slice()
        {
            let (slice, runnable) = (Some(slice), queue.runnable());
            let asked = (self.hrtick).enqueued(slice, runnable, Load::NONE, timer);
            return asked == Reschedule::Hard;
        }
        false
    }

    /// Starts the tick for a task that was picked from `queue`, in which `runnable` tasks (two or
    /// more) could run.
    #[inline]
    pub(crate) fn start(&mut self, queue: &RunQueue, runnable: usize, job: &Job, now: Instant) {
        if let (Some(timer), Some(mut slice)) = (&self.timer, queue.fair.slice()) {
            let timer = timer.at(now);
            if let Some(shortest) = queue.classes.shorter_than(job.metadata().class) {
                slice = slice.at_most(Span::from_nanos(shortest));
            }
            // A task is picked with a deadline ahead, so it is never over.
            let _never = (self.hrtick).picked(slice, runnable, Load::NONE, true, timer);
        }
    }

    /// Returns whether the task that yields continues instead of a `schedule()`. If so, its tick is started and the
    /// device is programmed (FLUSH-7).
    pub(crate) fn extends(&mut self, now: Instant) -> bool {
        let (Some(timer), tick) = (&self.timer, &mut self.hrtick) else {
            return false;
        };
        let timer = timer.at(now);
        let ticks = tick.fair_is_on();
        let is_granted = current::grant_extension(|extension| extension.grant(ticks, tick, timer));
        self.extensions += u64::from(is_granted);
        is_granted
    }
}

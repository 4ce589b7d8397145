//! The timer of a worker's slice tick: an exact timer on the worker's own base.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;

use tickless_core::event::Flush;
use tickless_core::hrtimer::{Expired, Restart, Stage};
use tickless_core::time::{Instant, Monotonic};
use tickless_sched::hrtick::{SETUP, SliceTimer};

use crate::callback::hrtimer::{HrTimer, Setup};
use crate::host::registry::timers;
use crate::host::thread::{ThreadBase, with_thread};
use crate::time::virtual_time::clock::outside;

/// A callback that requests a hard reschedule: the worker's task yields at its next checkpoint.
type Callback = Box<dyn FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send>;

/// The timer of a slice tick. The lock of the worker's run queue protects it, except for its callback.
pub(crate) struct TickTimer {
    base: &'static ThreadBase,
    timer: Pin<Box<HrTimer<Callback>>>,
    /// The time for which the timer was started last; kept here, because reading it from the timer acquires the lock of
    /// the base.
    deadline: Cell<Instant>,
    /// True if the timer is not moved to a later time. It then fires early, and the schedule that follows starts it
    /// again.
    comes_early: bool,
    /// The time that the queue got with the event: a slice begins and ends at the clock reading by which its task is
    /// charged.
    now: Cell<Instant>,
}

impl TickTimer {
    /// Makes the timer of the worker on `base`.
    pub(crate) fn new(base: &'static ThreadBase) -> Self {
        // TICK-4: which task is next is not known, so nothing is started.
        let timer = Self::asking(base, SETUP, move || base.local().resched.tick());
        Self {
            // A switch that leaves it as it is costs less than one that moves it, and that it comes early costs one
            // schedule in each slice (TICK-7, TICK-8).
            comes_early: true,
            ..timer
        }
    }

    /// Makes a timer on `base` that ends no slice; when it fires the worker schedules.
    pub(crate) fn other(base: &'static ThreadBase) -> Self {
        let setup = Setup::new().stage(Stage::Hard);
        Self::asking(base, setup, move || base.local().resched.request())
    }

    fn asking(base: &'static ThreadBase, setup: Setup, ask: impl Fn() + Send + 'static) -> Self {
        let callback: Callback = Box::new(move |_| {
            ask();
            Restart::No
        });
        Self {
            base,
            timer: Box::pin(HrTimer::with_setup(setup, callback)),
            deadline: Cell::new(Instant::ZERO),
            comes_early: false,
            now: Cell::new(Instant::ZERO),
        }
    }

    /// Returns the timer, for a queue that was last updated at `now`.
    #[inline]
    pub(crate) fn at(&self, now: Instant) -> &Self {
        self.now.set(now);
        self
    }

    /// Returns whether the tick fired since the last call.
    pub(crate) fn take_fired(&self) -> bool {
        self.base.local().resched.take_tick()
    }
}

impl SliceTimer for TickTimer {
    #[inline]
    fn now(&self) -> Instant {
        self.now.get()
    }

    #[inline]
    fn queued(&self) -> Option<Instant> {
        // Only the worker starts it. Its callback runs in a turn of the worker, or in one that the expiry thread takes
        // for a worker that is stuck: then this may say that a tick is queued that fires at this moment.
        self.is_active().then(|| self.deadline.get())
    }

    #[inline]
    fn is_active(&self) -> bool {
        self.timer.as_ref().is_active()
    }

    #[inline]
    fn comes_early(&self) -> bool {
        self.comes_early
    }

    fn start(&self, at: Instant) {
        self.deadline.set(at);
        // Where the worker's other timers may go to another one, this one stays (TICK-1).
        // Slices go by the process's clock.
        let _ = outside(|| self.timer.as_ref().start_pinned(at));
    }

    fn cancel(&self) {
        // A callback that runs is not waited for: it costs one schedule for nothing.
        let _outcome = self.timer.as_ref().try_cancel();
    }

    fn is_local(&self) -> bool {
        with_thread(|thread| thread.is_own(self.base))
    }

    /// Makes the worker's task yield. The worker starts the tick when it picks a task, which may be the same again.
    fn kick(&self) {
        self.base.local().resched.request();
    }

    /// Returns `None`: no device interrupts the worker while it computes (LAZY-8).
    #[inline]
    fn fires(&self) -> Option<Instant> {
        None
    }

    fn settle(&self) {
        let _armed = timers().settle_armed(self.base.cpu());
    }

    fn flush(&self, place: Flush) {
        timers().flush_deferred(self.base.cpu(), place);
    }
}

impl fmt::Debug for TickTimer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TickTimer")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use tickless_core::time::Span;

    use super::*;
    use crate::Worker;
    use crate::host::lifecycle;
    use crate::host::remote::housekeeping;
    use crate::host::thread::now_lower;

    /// Returns the time `hours` hours from now.
    fn in_hours(hours: u64) -> Instant {
        now_lower().saturating_add(Span::from_secs(hours * 3_600))
    }

    /// Starts a timer for `at` that belongs to no tick.
    fn started(at: Instant) -> Pin<Box<HrTimer<Callback>>> {
        let callback: Callback = Box::new(|_| Restart::No);
        let timer = Box::pin(HrTimer::new(callback));
        let _ = timer.as_ref().start(at);
        timer
    }

    /// Returns whether the first timer of the base is for `at`.
    fn is_first(base: &ThreadBase, at: Instant) -> bool {
        timers().settle_armed(base.cpu()) == at
    }

    /// TICK-1: a thread that fires no timers of others, whose timers are put on a housekeeper's base.
    #[test]
    fn the_tick_stays_where_other_timers_go_to_a_housekeeper() {
        let (sender, began) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let housekeeper = thread::spawn(move || {
            let worker = Worker::new().expect("the thread is free");
            // What goes to it is not its first.
            let _first = started(in_hours(1));
            sender.send(worker.base().cpu()).expect("the test waits");
            let _sender_gone = ended.recv();
        });
        let housekeeping = began.recv().expect("it begins");
        let isolated = thread::spawn(move || {
            let own = with_thread(lifecycle::enter).expect("there are bases enough");
            housekeeping::send_to(own, Some(housekeeping));
            let (other, tick) = (started(in_hours(2)), TickTimer::other(own));
            assert!(timers().settle_armed(own.cpu()).is_forever(), "it went");
            for hours in [3, 2, 4] {
                // Idle, earlier, and later.
                let at = in_hours(hours);
                tick.start(at);
                assert!(is_first(own, at), "the tick is here");
            }
            drop((other, tick));
            housekeeping::send_to(own, None);
        });
        isolated.join().expect("it does not panic");
        drop(end);
        housekeeper.join().expect("it does not panic");
    }
}

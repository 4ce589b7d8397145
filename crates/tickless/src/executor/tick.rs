//! The timer of a worker's slice tick: an exact timer on the worker's own base.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;

use tickless_core::event::Flush;
use tickless_core::hrtimer::{Expired, Restart, Stage};
use tickless_core::time::{Instant, Monotonic, Span};
use tickless_sched::hrtick::{SETUP, SliceTimer};

use super::settings::Savings;
use crate::callback::hrtimer::{HrTimer, Setup};
use crate::host::registry::timers;
use crate::host::thread::{ThreadBase, with_thread};
use crate::time::virtual_time::clock::outside;

/// The shortest slice that a signal ends because another task asks for less at a time. Each costs system calls and the
/// signal, some microseconds of a virtual machine's each, which is charged to tasks that have short requests, too: with
/// 10 us between them such a task never again had less than its share, and four fifths of the CPU went with the ticks.
const SIGNALLED: Span = Span::from_micros(100);

/// Requests a hard reschedule: the worker's task gives way at its next checkpoint.
type Callback = Box<dyn FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send>;

/// The timer. Under the lock of the worker's run queue, but for its callback.
pub(crate) struct TickTimer {
    base: &'static ThreadBase,
    timer: Pin<Box<HrTimer<Callback>>>,
    /// Time that it was started for last: reading it from the timer takes the lock of the base.
    deadline: Cell<Instant>,
    /// True if it is not moved to a later time: it comes early then, and the schedule that follows starts it anew.
    comes_early: bool,
    /// A device fires for it, and is left as it is when the tick is moved to a later time.
    may_fire_early: bool,
    /// Slices are cut no shorter than this for the sake of short requests that wait.
    pub(crate) shortest: Span,
    /// Time that the queue got with the event: a slice begins and ends by the reading that its task is charged by.
    now: Cell<Instant>,
    #[cfg(feature = "internals")]
    stopwatch: super::start_cost::Stopwatch,
}

impl TickTimer {
    /// The timer of the worker on `base`. `has_signals` says that a signal ends slices; else checkpoints compare the
    /// counter.
    pub(crate) fn new(base: &'static ThreadBase, savings: Savings, has_signals: bool) -> Self {
        let make = if savings.lazy {
            |callback| HrTimer::with_setup(SETUP, callback)
        } else {
            |callback| HrTimer::writing_at_once(Setup::new().stage(Stage::Hard), callback)
        };
        // TICK-4: which task is next is not known, so nothing is started.
        let timer = Self::asking(base, make, move || base.local().resched.tick());
        Self {
            // Where checkpoints compare, a switch that leaves it as it is costs less than one that moves it, and that
            // it comes early costs one schedule in each slice (TICK-7, TICK-8).
            comes_early: !has_signals,
            may_fire_early: has_signals && savings.lazy,
            shortest: if has_signals { SIGNALLED } else { Span::ZERO },
            ..timer
        }
    }

    /// A timer that is none of a slice, on `base`: the worker schedules then.
    pub(crate) fn other(base: &'static ThreadBase) -> Self {
        let make = |callback| HrTimer::with_setup(Setup::new().stage(Stage::Hard), callback);
        Self::asking(base, make, move || base.local().resched.request())
    }

    fn asking(
        base: &'static ThreadBase,
        make: fn(Callback) -> HrTimer<Callback>,
        ask: impl Fn() + Send + 'static,
    ) -> Self {
        let callback: Callback = Box::new(move |_| {
            ask();
            Restart::No
        });
        Self {
            base,
            timer: Box::pin(make(callback)),
            deadline: Cell::new(Instant::ZERO),
            comes_early: false,
            may_fire_early: false,
            shortest: Span::ZERO,
            now: Cell::new(Instant::ZERO),
            #[cfg(feature = "internals")]
            stopwatch: super::start_cost::Stopwatch::default(),
        }
    }

    /// Returns the cost of starts.
    #[cfg(feature = "internals")]
    pub(crate) fn start_cost(&self) -> super::StartCost {
        self.stopwatch.sum()
    }

    /// The timer, for a queue that was last updated at `now`.
    #[inline]
    pub(crate) fn at(&self, now: Instant) -> &Self {
        self.now.set(now);
        self
    }

    /// The tick fired since this was asked last.
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
        let start = || {
            // Slices go by the process's clock.
            let _ = outside(|| self.timer.as_ref().start_pinned(at));
        };
        #[cfg(feature = "internals")]
        self.stopwatch.time(start);
        #[cfg(not(feature = "internals"))]
        start();
    }

    fn cancel(&self) {
        // A callback that runs is not waited for: it costs one schedule for nothing.
        let _outcome = self.timer.as_ref().try_cancel();
    }

    fn is_local(&self) -> bool {
        with_thread(|thread| thread.is_own(self.base))
    }

    /// The worker's task gives way, and the worker starts the tick when it picks a task, maybe the same again.
    fn kick(&self) {
        self.base.local().resched.request();
    }

    /// LAZY-8.
    #[inline]
    fn fires(&self) -> Option<Instant> {
        if !self.may_fire_early {
            return None;
        }
        let armed = self.base.armed();
        (!armed.is_forever()).then_some(armed)
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

    use super::*;
    use crate::Worker;
    use crate::host::lifecycle;
    use crate::host::remote::housekeeping;
    use crate::host::thread::now_lower;

    /// Returns the time so many hours from now on.
    fn in_hours(hours: u64) -> Instant {
        now_lower().saturating_add(Span::from_secs(hours * 3_600))
    }

    /// A timer that is none of a tick, for `at`.
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

    /// LAZY-8: where a signal ends slices the scheduler hears when the device fires, and may have that put right.
    #[test]
    fn a_device_that_was_left_too_early_can_be_settled() {
        let thread = thread::spawn(|| {
            let own = with_thread(lifecycle::enter).expect("there are bases enough");
            let [earlier, later] = [3, 4].map(in_hours);
            let signalled = TickTimer::new(own, Savings::default(), true);
            signalled.start(earlier);
            signalled.start(later);
            assert_eq!(signalled.fires(), Some(earlier), "it is lazy");
            signalled.settle();
            assert_eq!(signalled.fires(), Some(later));
            drop(signalled);
            let compared = TickTimer::new(own, Savings::default(), false);
            compared.start(earlier);
            assert_eq!(compared.fires(), None, "no device fires for it");
        });
        thread.join().expect("it does not panic");
    }

    /// The clocks of the kernel and of the library differ a little, and a POSIX timer that fired is not set any more.
    #[test]
    #[cfg_attr(portable_host, ignore = "no POSIX timers")]
    fn a_signal_that_comes_too_early_has_the_device_set_again() {
        let thread = thread::spawn(|| {
            let worker = Worker::new().expect("the thread is free");
            worker.begin_signals(false).expect("there are POSIX timers");
            let tick = TickTimer::new(worker.base(), Savings::default(), true);
            tick.start(in_hours(3));
            let writes = || worker.unparker().signal_counts().0;
            let written = writes();
            worker.base().local().device.signal.note_signal();
            assert!(worker.take_signalled());
            assert!(!worker.is_due_behind_signal(), "it is hours away");
            worker.set_behind_signal();
            assert_eq!(writes(), written + 1, "it is set again");
            assert!(!worker.take_signalled());
            worker.set_behind_signal();
            assert_eq!(writes(), written + 1, "once");
            worker.end_signals();
        });
        thread.join().expect("it does not panic");
    }

    /// what the saving is measured against writes the device at each change.
    #[test]
    fn without_the_saving_the_device_is_written_at_each_change() {
        let thread = thread::spawn(|| {
            let own = with_thread(lifecycle::enter).expect("there are bases enough");
            let [earlier, later] = [3, 4].map(in_hours);
            for lazy in [true, false] {
                let savings = Savings {
                    lazy,
                    ..Savings::default()
                };
                let tick = TickTimer::new(own, savings, true);
                tick.start(earlier);
                tick.start(later);
                let expected = if lazy { earlier } else { later };
                assert_eq!(own.armed(), expected, "lazy: {lazy}");
                drop(tick);
                let _armed = timers().settle_armed(own.cpu());
            }
        });
        thread.join().expect("it does not panic");
    }

    /// TICK-1: a thread that looks after no others, whose timers go to one that does.
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

//! The clock of a run queue, which stops during stolen time: time in which a worker could have run, but the system ran
//! other threads.
//!
//! A task is charged for the time in which the worker executes it. The system may take the CPU away from the worker:
//! for another process, because a real-time thread had its quota, or because a hypervisor ran another machine. The task
//! that is being polled does not run in that time. To charge the task would do harm twice. It would wait until all
//! other tasks together have had as much time. And a small task that wakes up meanwhile would wait for the tasks to
//! which that time is owed now. So the clock of a run queue stops during stolen time, as the clock of a kernel's run
//! queue stops during interrupts (spec X-5, [`RunClock`]).
//!
//! Time in which the worker's thread did not execute was stolen, unless the thread gave the CPU up. So each check
//! compares the progress of the monotonic clock with that of the thread's CPU time. If the two differ and the thread
//! never gave the CPU up since the last check (`getrusage` counts that), all of the difference was stolen. If the
//! thread gave the CPU up, because the worker was idle or a task chose to block the worker, only the time in which the
//! thread waited for a CPU counts as stolen: the second number of `/proc/thread-self/schedstat`.
//!
//! Only the worker reads these values from the kernel, at most once a millisecond, so a shorter theft is noticed up to
//! a millisecond late. The clock never goes back: if a task was charged too much by then, the next task is charged so
//! much less.
//!
//! Time that a hypervisor takes away is known if the hypervisor reports it to the kernel ("steal" in `/proc/stat`),
//! which then subtracts it from the CPU time of threads. Otherwise tasks are charged for this time. If the kernel does
//! not account the time that threads wait for a CPU, tasks are charged for all stolen time.
//!
//! [`RunClock`]: tickless_sched::load::RunClock

use std::ffi::c_long;

use tickless_core::time::{Clock, Instant, Span};
use tickless_sched::RunTime;

use crate::host::sys::clocks::{show, thread_executed};
use crate::host::sys::threads::{WaitAccount, times_given_up};

/// The shortest time between two readings from the kernel.
const EVERY: Span = Span::from_millis(1);

/// The age of a worker's last reading from which on the worker is requested to read again, before its tasks are
/// compared with others.
const STALE: Span = Span::from_millis(20);

/// The least difference that counts as stolen time, in nanoseconds. Shorter differences are interrupts, and the time
/// between the two readings of one check. They are not lost: they count when the difference has grown.
const NOTICED: u64 = 10_000;

/// The clock of a worker's run queue: the monotonic clock, minus the stolen time.
#[derive(Debug)]
pub(crate) struct StealClock<A = Kernel> {
    /// The account of the worker's thread; `None` before the worker begins, and if the kernel has no account.
    account: Option<A>,
    /// The time of the next reading; never if there is no account.
    next: Instant,
    /// The last reading, up to which the stolen time is known.
    before: ThreadTimes,
    total: Span,
    /// The time up to which the queue was accounted. Set by each reading; read when a task is queued while no task
    /// runs.
    pub(crate) updated_at: Instant,
}

/// The times of a thread at one moment, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadTimes {
    /// The time on a clock that never stops.
    passed: u64,
    /// The time that the thread executed.
    executed: u64,
    /// The time that the thread waited for a CPU.
    waited: u64,
    /// The number of times that the thread gave its CPU up.
    gave_up: c_long,
}

impl ThreadTimes {
    /// Returns the time that was stolen from `before` to this reading. The two readings differ by more than noise.
    fn stolen_since(self, before: Self) -> u64 {
        if self.gave_up == before.gave_up {
            self.missed_since(before)
        } else {
            self.waited.saturating_sub(before.waited)
        }
    }

    /// Returns the time from `before` to this reading in which the thread did not execute.
    fn missed_since(self, before: Self) -> u64 {
        let passed = self.passed.saturating_sub(before.passed);
        passed.saturating_sub(self.executed.saturating_sub(before.executed))
    }
}

/// A source of readings.
pub(crate) trait Account {
    /// Returns a reading, or `before` if the thread missed no more than noise since then; `None` if no reading can be
    /// had.
    fn read(&self, before: Option<ThreadTimes>) -> Option<ThreadTimes>;
}

impl StealClock {
    /// Opens the account of this thread.
    pub(crate) fn open(now: Instant) -> Self {
        Self::of(Kernel::open(), now)
    }
}

impl<A: Account> StealClock<A> {
    /// Creates the clock of a worker that has not begun: no time is stolen.
    pub(crate) const fn nothing() -> Self {
        Self {
            account: None,
            next: Instant::FOREVER,
            before: ThreadTimes {
                passed: 0,
                executed: 0,
                waited: 0,
                gave_up: 0,
            },
            total: Span::ZERO,
            updated_at: Instant::ZERO,
        }
    }

    fn of(account: Option<A>, now: Instant) -> Self {
        let before = account.as_ref().and_then(|account| account.read(None));
        let account = account.filter(|_| before.is_some());
        Self {
            next: account
                .as_ref()
                .map_or(Instant::FOREVER, |_| now.saturating_add(EVERY)),
            account,
            before: before.unwrap_or_default(),
            total: Span::ZERO,
            updated_at: now,
        }
    }

    /// Returns the run queue's clock at `now`. `is_own` is true if the worker itself reads the clock.
    ///
    /// For another thread the clock advances by at most a millisecond after the last check, because the time that was
    /// stolen since is not known. A clock that continued would have to stop for as long afterwards, and would charge no
    /// task meanwhile.
    // Always: a call takes as much as what is in it.
    #[inline(always)]
    pub(crate) fn run_time(&mut self, now: Instant, is_own: impl FnOnce() -> bool) -> RunTime {
        self.updated_at = now;
        if now >= self.next {
            if !is_own() {
                return self.shown(self.next);
            }
            self.look(now);
        }
        self.shown(now)
    }

    /// Returns [`run_time`](Self::run_time), if it can be calculated without a reading from the kernel.
    #[inline(always)]
    pub(crate) fn try_run_time_fast(&self, now: Instant) -> Option<RunTime> {
        (now < self.next).then(|| self.try_shown_fast(now))
    }

    /// Returns [`shown`](Self::shown) without a check. Before the first moment of the clock the result is a time far
    /// ahead, where [`shown`](Self::shown) returns the first moment.
    #[inline(always)]
    pub(crate) fn try_shown_fast(&self, at: Instant) -> RunTime {
        let shown = at.as_nanos().cast_unsigned();
        RunTime::from_nanos(shown.wrapping_sub(self.total.as_nanos()))
    }

    /// Returns the run queue's clock at `at`, by the stolen time that is known now.
    #[inline(always)]
    pub(crate) fn shown(&self, at: Instant) -> RunTime {
        // Monotonic time is not negative.
        let shown = at.as_nanos().cast_unsigned();
        RunTime::from_nanos(shown.saturating_sub(self.total.as_nanos()))
    }

    /// Returns whether the worker's last check was so long before `now` that the clock says little to another thread.
    pub(crate) fn is_stale(&self, now: Instant) -> bool {
        now.saturating_since(self.next) > STALE
    }

    /// Returns the stolen time that is known now.
    pub(crate) const fn total(&self) -> Span {
        self.total
    }

    #[cold]
    fn look(&mut self, now: Instant) {
        self.next = now.saturating_add(EVERY);
        let account = self.account.as_ref();
        if let Some(reading) = account.and_then(|account| account.read(Some(self.before))) {
            let stolen = reading.stolen_since(self.before);
            self.total = self.total.saturating_add(Span::from_nanos(stolen));
            self.before = reading;
        }
    }
}

/// The kernel's account of the calling thread.
#[derive(Debug)]
pub(crate) struct Kernel {
    waits: WaitAccount,
}

impl Kernel {
    fn open() -> Option<Self> {
        WaitAccount::open().map(|waits| Self { waits })
    }
}

impl Account for Kernel {
    fn read(&self, before: Option<ThreadTimes>) -> Option<ThreadTimes> {
        // The CPU time after the clock: what is stolen between the two comes up at the next look, once.
        let mut reading = ThreadTimes {
            passed: nanos(show(Clock::Monotonic))?,
            executed: nanos(thread_executed())?,
            ..ThreadTimes::default()
        };
        if let Some(before) = before
            && reading.missed_since(before) < NOTICED
        {
            return Some(before);
        }
        reading.waited = self.waits.waited()?;
        reading.gave_up = times_given_up()?;
        Some(reading)
    }
}

/// Returns the nanoseconds that a clock shows; `None` if a filter of system calls refuses the call. Reading the
/// monotonic clock usually needs no system call; reading a thread's CPU time needs one. Neither of these clocks is ever
/// negative.
fn nanos(shown: Option<i64>) -> Option<u64> {
    shown.map(|nanos| u64::try_from(nanos).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn at(micros: i64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    /// An account that returns the values that the test set.
    #[derive(Debug, Default)]
    struct Told(Cell<ThreadTimes>);

    impl Account for Told {
        fn read(&self, _before: Option<ThreadTimes>) -> Option<ThreadTimes> {
            Some(self.0.get())
        }
    }

    /// Returns the clock of a thread whose account returns `then` after the clock began.
    fn told(then: ThreadTimes) -> StealClock<Told> {
        let stolen = StealClock::of(Some(Told::default()), at(0));
        stolen.account.as_ref().expect("one was given").0.set(then);
        stolen
    }

    #[test]
    fn without_an_account_the_clock_is_the_monotonic_one() {
        let mut stolen = StealClock::<Kernel>::nothing();
        assert_eq!(stolen.run_time(at(5_000), || true).as_nanos(), 5_000_000);
    }

    #[test]
    fn what_was_stolen_is_taken_off_when_the_worker_asks_itself() {
        let mut stolen = told(ThreadTimes {
            passed: 10_000_000,
            executed: 8_500_000,
            ..ThreadTimes::default()
        });
        let shown =
            |stolen: &mut StealClock<Told>, now, own| stolen.run_time(now, || own).as_nanos();
        assert_eq!(shown(&mut stolen, at(999), true), 999_000, "too soon");
        assert!(!stolen.is_stale(at(10_000)) && stolen.is_stale(at(30_000)));
        assert_eq!(shown(&mut stolen, at(10_000), false), 1_000_000, "another");
        assert_eq!(shown(&mut stolen, at(10_000), true), 8_500_000);
        assert_eq!(shown(&mut stolen, at(10_001), false), 8_501_000);
        assert_eq!(shown(&mut stolen, at(12_000), true), 10_500_000, "once");
        assert_eq!(stolen.total(), Span::from_nanos(1_500_000));
    }

    /// The account of waiting does not include the time that a hypervisor took.
    #[test]
    fn all_of_it_is_stolen_from_a_thread_that_never_gave_its_cpu_up() {
        let before = ThreadTimes {
            passed: 1_000,
            executed: 1_000,
            waited: 7,
            gave_up: 3,
        };
        let later = ThreadTimes {
            passed: 5_001_000,
            executed: 1_001_000,
            waited: 500_007,
            ..before
        };
        assert_eq!(later.stolen_since(before), 4_000_000);
        let asleep = ThreadTimes {
            gave_up: 4,
            ..later
        };
        assert_eq!(asleep.stolen_since(before), 500_000, "it chose to");
        let coarse = ThreadTimes {
            executed: 9_000_000,
            ..later
        };
        assert_eq!(coarse.stolen_since(before), 0, "clocks that disagree");
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn a_thread_that_sleeps_was_not_stolen_from_for_as_long() {
        let Some(kernel) = Kernel::open() else {
            return;
        };
        let before = kernel.read(None).expect("an account");
        thread::sleep(Duration::from_millis(200));
        let after = kernel.read(Some(before)).expect("an account");
        assert!(after.missed_since(before) > 100_000_000, "{after:?}");
        assert_eq!(after.stolen_since(before), after.waited - before.waited);
    }
}

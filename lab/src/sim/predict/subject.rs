//! The subjects that execute a workload: a worker of this process, or one in virtual time.

use tickless::hrtimer::{Instant, Span};
use tickless::wheel::Tick;
use tickless_sim::process::{CoarseTimer, ExactTimer, Process, ProcessCounts, SleepTimer};

/// A worker, and another thread that is a stranger to its timers. Times are in nanoseconds since the subject was made.
pub(super) trait Subject {
    type Exact;
    type Sleep;
    type Coarse;
    /// A deadline of a sleep, made before the clock ticks.
    type Deadline: Copy;

    fn exact(&self) -> Self::Exact;
    fn sleep(&self) -> Self::Sleep;
    fn coarse(&self) -> Self::Coarse;

    fn start(&mut self, timer: &Self::Exact, at: i64);
    fn cancel(&mut self, timer: &Self::Exact);
    /// Begins a sleep, or begins a queued one again.
    fn begin(&mut self, timer: &mut Self::Sleep, after: i64);
    fn deadline(&self, at: i64) -> Self::Deadline;
    fn reset(&mut self, timer: &mut Self::Sleep, deadline: Self::Deadline);
    fn give_up(&mut self, timer: &mut Self::Sleep);
    /// Arms a timer for a tick of the clock.
    fn arm(&mut self, timer: &Self::Coarse, expiry: u64);
    fn modify(&mut self, timer: &Self::Coarse, expiry: u64);
    fn delete(&mut self, timer: &Self::Coarse);
    /// Makes the stranger cancel all of `timers`; returns the nanoseconds that the stranger spent.
    fn strangely_cancel(&mut self, timers: &[Self::Exact]) -> f64;

    /// Takes a turn; returns the number of timers that fired.
    fn turn(&mut self) -> u32;
    /// Sleeps until a timer is due, and takes a turn; returns the number of timers that fired.
    fn park(&mut self) -> u32;
    /// Spins until the time `at`, without sleeping.
    fn spin_until(&mut self, at: i64);

    fn now(&self) -> i64;
    /// Returns the time of the timers' clock when the subject was made.
    fn origin(&self) -> i64;
    /// Returns the tick in progress.
    fn tick(&self) -> u64;
    /// Returns the time that `body` spends, in nanoseconds, without sleep.
    fn spent(&mut self, body: impl FnOnce(&mut Self)) -> f64;
    fn counts(&self) -> ProcessCounts;
}

/// The length of a tick in user space, in nanoseconds: a millisecond.
pub(super) const TICK: i64 = 1_000_000;

impl Subject for Process {
    type Exact = ExactTimer;
    type Sleep = SleepTimer;
    type Coarse = CoarseTimer;
    type Deadline = Instant;

    fn exact(&self) -> ExactTimer {
        self.exact()
    }

    fn sleep(&self) -> SleepTimer {
        self.sleep()
    }

    fn coarse(&self) -> CoarseTimer {
        self.coarse()
    }

    fn start(&mut self, timer: &ExactTimer, at: i64) {
        self.start(timer, Instant::from_nanos(at));
    }

    fn cancel(&mut self, timer: &ExactTimer) {
        self.cancel(timer);
    }

    fn begin(&mut self, timer: &mut SleepTimer, after: i64) {
        self.begin(timer, Span::from_nanos(after.unsigned_abs()));
    }

    fn deadline(&self, at: i64) -> Instant {
        Instant::from_nanos(at)
    }

    fn reset(&mut self, timer: &mut SleepTimer, deadline: Instant) {
        self.reset(timer, deadline);
    }

    fn give_up(&mut self, timer: &mut SleepTimer) {
        self.drop_sleep(timer);
    }

    fn arm(&mut self, timer: &CoarseTimer, expiry: u64) {
        self.arm(timer, Tick(expiry));
    }

    fn modify(&mut self, timer: &CoarseTimer, expiry: u64) {
        self.modify(timer, Tick(expiry));
    }

    fn delete(&mut self, timer: &CoarseTimer) {
        self.delete(timer);
    }

    fn strangely_cancel(&mut self, timers: &[ExactTimer]) -> f64 {
        self.switch_to(1);
        let spent = self.spent(|process| {
            for timer in timers {
                process.cancel(timer);
            }
        });
        self.switch_to(0);
        spent
    }

    fn turn(&mut self) -> u32 {
        self.turn()
    }

    fn park(&mut self) -> u32 {
        self.park()
    }

    fn spin_until(&mut self, at: i64) {
        self.spin_until(Instant::from_nanos(at));
    }

    fn now(&self) -> i64 {
        self.now().as_nanos()
    }

    fn origin(&self) -> i64 {
        0
    }

    fn tick(&self) -> u64 {
        // Rounds down: the tick in progress.
        self.now().as_nanos().unsigned_abs() / TICK.unsigned_abs()
    }

    fn spent(&mut self, body: impl FnOnce(&mut Self)) -> f64 {
        let before = Self::spent(self);
        body(self);
        #[expect(clippy::cast_precision_loss, reason = "for printing")]
        {
            (Self::spent(self) - before).0 as f64 / 1_000.0
        }
    }

    fn counts(&self) -> ProcessCounts {
        self.counts()
    }
}

//! The clock of the library: the processor's counter, which follows the kernel's monotonic clock ([`Follower`]).
//!
//! The computed time stays within [`ERROR`] of the kernel's and never runs backwards, on one thread or between threads.
//! [`now`](Clock::now) can be compared between threads. [`now_upper`](LastReading::now_upper) and
//! [`now_lower`](LastReading::now_lower) are cheaper bounds, for deadlines and for what is due, so that no timer is
//! early. `docs/clocks.md` says how the clock follows the kernel, and when the counter is not used; each such reason is
//! a [`Refusal`]. Then the library reads the kernel's clock, and [combines](kernel) slow readings.

use std::sync::{Once, OnceLock};

use tickless_core::clock::follow::{self, Follower, Kept, Reference as _};
use tickless_core::time::Instant;

use anchor::Anchor;
use judge::{Judge, Judgement};
use kernel::Kernel;
#[cfg(test)]
use kernel::kernel_clock;

use super::kernel_time;
use super::sys::threads::around_forks;

mod anchor;
pub(crate) mod counter;
mod judge;
mod kernel;
mod reading;
mod refusal;

pub use follow::{ERROR, WINDOW};
pub(crate) use judge::Paused;
#[cfg(feature = "internals")]
pub(crate) use kernel::emulation;
pub(crate) use reading::LastReading;
pub use refusal::Refusal;

/// The time by which an unordered reading of the counter may be too early, in nanoseconds.
const SKEW: i64 = 32;

/// The clock of the process.
pub(crate) static CLOCK: Clock = Clock::new();

/// The library's clock: the follower of the kernel's clock, and the judge of the counter.
#[derive(Debug)]
pub(crate) struct Clock {
    kernel: Kernel,
    follower: Follower,
    judge: Judge,
    anchor: OnceLock<Anchor>,
}

impl Clock {
    const fn new() -> Self {
        Self {
            kernel: Kernel::new(),
            follower: Follower::new(),
            judge: Judge::new(),
            anchor: OnceLock::new(),
        }
    }

    /// Returns the time, comparable with that of any other thread.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        if let Some(now) = self.without_counter() {
            return now;
        }
        self.follower.now(counter::read_ordered, || self.ask())
    }

    /// Returns the time of the kernel's clock if no counter exists that could be used. `None` before the first reading,
    /// which finds out how the clock is best read.
    #[inline(always)]
    fn without_counter(&self) -> Option<Instant> {
        let asks = counter::SOURCE.is_none() && self.judge.is_settled();
        asks.then(|| Instant::from_nanos(self.kernel.nanos()))
    }

    /// Returns [`now`](Self::now) by the line that the thread has kept; `None` if the line does not reach.
    // Always, as `latest`: a call takes as much as half of the reading.
    #[inline(always)]
    fn kept_now(&self, kept: &Kept) -> Option<Instant> {
        self.follower.kept_now(kept, counter::read_ordered())
    }

    /// Returns [`now`](Self::now), and keeps the line.
    fn now_slow(&self, kept: &Kept) -> Instant {
        if let Some(now) = self.without_counter() {
            return now;
        }
        // Usually the line is over: what is kept is the one that the reading lays.
        let now = self.now();
        self.follower.keep(kept, SKEW);
        now
    }

    /// Returns a time that is over when the counter shows `cycles`, by the line that the thread has kept; `None` if the
    /// line does not reach.
    #[inline(always)]
    fn earliest(&self, kept: &Kept, cycles: u64) -> Option<Instant> {
        self.follower.kept_earliest(kept, cycles)
    }

    /// Returns [`earliest`](Self::earliest), if the line that was kept does not reach.
    fn earliest_slow(&self, kept: &Kept, cycles: u64) -> Instant {
        if let Some(now) = self.without_counter() {
            return now;
        }
        // As in `now_slow`.
        let (earliest, _) = self.follower.bounds(|| cycles, || self.ask());
        self.follower.keep(kept, SKEW);
        earliest
    }

    /// Returns a time that is not over yet when the counter shows `cycles`, by the line that the thread has kept;
    /// `None` if the line does not reach.
    #[inline(always)]
    fn latest(&self, kept: &Kept, cycles: u64) -> Option<Instant> {
        self.follower.kept_latest(kept, cycles)
    }

    /// Returns [`latest`](Self::latest), if the line that was kept does not reach.
    fn latest_slow(&self, kept: &Kept, cycles: u64) -> Instant {
        if let Some(now) = self.without_counter() {
            return now;
        }
        // As in `now_slow`.
        let (_, latest) = self.follower.bounds(|| cycles, || self.ask());
        self.follower.keep(kept, SKEW);
        Instant::from_nanos(latest.as_nanos().saturating_add(SKEW))
    }

    /// Returns the number of the line that is followed. The number changes whenever the kernel's clock was read.
    #[inline]
    pub(super) fn line_number(&self) -> u64 {
        self.follower.line_number()
    }

    /// Returns a number that stays the same until the clock is compared with the kernel's again; `None` if no counter
    /// exists and each reading reads the kernel's clock.
    #[inline]
    pub(super) fn moment(&self) -> Option<u64> {
        counter::SOURCE.map(|_| self.line_number())
    }

    /// Returns the start of the line that is followed; `None` if each reading reads the kernel's clock.
    #[inline]
    pub(super) fn recently(&self) -> Option<Instant> {
        self.follower.recently()
    }

    /// Reads the kernel's clock, unless another thread just did.
    #[cold]
    fn ask(&self) -> follow::Reading {
        let reading = self.follower.ask(&self.kernel);
        if let Some(asked) = &reading.asked {
            match self.judge.take(asked) {
                Judgement::GoOn => {}
                Judgement::Begin => {
                    Self::survive_forks();
                    self.kernel.read_alone();
                }
                Judgement::Follow(rate) => self.follower.follow(rate, &self.kernel),
                Judgement::Refuse => {
                    Self::survive_forks();
                    self.kernel.measure();
                }
                Judgement::GiveUp => {
                    self.kernel.measure();
                    self.follower.give_up(&self.kernel);
                }
            }
        }
        reading
    }

    /// Returns the anchor, which converts between instants of the standard library and instants of the core.
    #[inline]
    pub(crate) fn anchor(&self) -> &Anchor {
        self.anchor.get_or_init(Anchor::take)
    }

    /// Makes the clock continue in children of forks, whatever their kernel clock shows.
    pub(crate) fn survive_forks() {
        extern "C" fn child() {
            let by = kernel_time::after_fork();
            if let Some(anchor) = CLOCK.anchor.get() {
                anchor.shift(by);
            }
        }
        extern "C" fn prepare() {
            kernel_time::before_fork();
        }
        static ONCE: Once = Once::new();
        ONCE.call_once(|| around_forks(prepare, None, child));
    }

    /// Keeps other threads from judging the counter until the result is dropped. Used before a fork.
    pub(crate) fn pause(&self) -> Paused<'_> {
        self.judge.pause()
    }

    /// Forgets the other threads in the child of a fork, which has only this thread.
    pub(crate) fn forget_others(&self) {
        self.follower.forget_others();
    }
}

/// Returns the addresses of the clock in memory. A thread that reads the clock writes to these addresses once in each
/// [`WINDOW`].
#[cfg(feature = "internals")]
pub fn addresses() -> std::ops::Range<usize> {
    let clock = &raw const CLOCK;
    clock.addr()..clock.wrapping_add(1).addr()
}

/// Returns the cycles of the counter per second, or the reason why the counter is not used.
pub(crate) fn time_stamp_counter() -> Result<u64, Refusal> {
    let Some(rate) = CLOCK.follower.rate() else {
        return Err(CLOCK.judge.refusal());
    };
    let hertz = (1_000_000_000_u128 << 32) / u128::from(rate.max(1));
    Ok(u64::try_from(hertz).unwrap_or(u64::MAX))
}

/// Returns the counter value from which on a reading may say that `when` is over, or has to read the kernel's clock.
/// `None` if each reading reads the kernel's clock.
pub(crate) fn cycles_at(when: Instant) -> Option<u64> {
    CLOCK.follower.cycles_at(when)
}

/// Returns whether the kernel's clock is slow, so that readings of several threads are combined.
pub(crate) fn is_combined() -> bool {
    CLOCK.kernel.is_slow()
}

/// Returns the largest error of the clock at present, in nanoseconds; zero if each reading reads the kernel's clock.
pub(crate) fn error() -> u64 {
    CLOCK.follower.error().unwrap_or(0)
}

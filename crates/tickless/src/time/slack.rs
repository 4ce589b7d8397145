//! The slack of a timer: the lateness that its user allows.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tickless_core::time::{Instant, Span};

use crate::host::remote::reactor_turn;
use crate::host::thread::{Way, asked_last, with_thread};

/// The named slacks, accepted by every function that takes a slack.
///
/// Every other slack is a [`Duration`]. These have names because programs without a slack of their own use one of them:
/// the library's default, the precision of tokio, or that of the system's own calls.
///
/// ```
/// use std::time::Duration;
/// use tickless::time::{Precision, sleep, with_slack};
///
/// # futures::executor::block_on(async {
/// with_slack(Precision::Millisecond, async {
///     sleep(Duration::from_micros(50)).await;
///     // A single timer can be exact all the same.
///     sleep(Duration::from_micros(50)).slack(Precision::Exact).await;
/// })
/// .await;
/// # });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Precision {
    /// No slack, the default: each timer has a wake-up at its deadline.
    #[default]
    Exact,
    /// A slack of 1 ms: timers fire at whole milliseconds, as tokio's are meant to, or along with the tasks of an
    /// [attached](crate::tokio#slack) runtime. (The milliseconds are those of `CLOCK_MONOTONIC`; tokio counts from the
    /// start of its runtime.) tokio's timers are late by up to 2 ms, because tokio rounds up the deadline and then the
    /// time that it waits. A timer that may be as late as tokio's has a slack of 2 ms.
    Millisecond,
    /// A slack in proportion: a thousandth of the time from the start or reset of the timer to its deadline, but 50 µs
    /// at least and 5 ms at most. Linux gives the timeouts of `poll`, `select` and `epoll_wait` of ordinary threads the
    /// same proportion and the same minimum.
    Relative,
}

/// A slack: how late a timer may be. It is made of a [`Duration`] or a [`Precision`].
///
/// It is stored as nanoseconds plus one, so that the value for "no slack was set" takes no memory; the largest number
/// stands for a slack in proportion.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Slack(NonZeroU32);

impl From<Duration> for Slack {
    fn from(slack: Duration) -> Self {
        let nanos = u32::try_from(slack.as_nanos()).unwrap_or(u32::MAX);
        let longest = Self::RELATIVE.0.get() - 1;
        Self(NonZeroU32::MIN.saturating_add(nanos.min(longest - 1)))
    }
}

impl From<Precision> for Slack {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::Exact => Self::NONE,
            Precision::Millisecond => Self::from(Duration::from_millis(1)),
            Precision::Relative => Self::RELATIVE,
        }
    }
}

impl fmt::Debug for Slack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::RELATIVE {
            formatter.write_str("Relative")
        } else {
            Duration::from_nanos(self.nanos()).fmt(formatter)
        }
    }
}

impl Slack {
    pub(crate) const NONE: Self = Self(NonZeroU32::MIN);
    const RELATIVE: Self = Self(NonZeroU32::MAX);

    /// The part of the time to go that a slack in proportion is.
    const PART: u64 = 1_000;
    /// The shortest and the longest slack in proportion, in nanoseconds. The shortest is the timer slack with which
    /// Linux starts a process. The longest is less than the 100 ms of Linux: it is the lateness from which on an
    /// interval counts a tick as missed.
    const RELATIVE_RANGE: RangeInclusive<u64> = 50_000..=5_000_000;

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self == Self::NONE
    }

    const fn nanos(self) -> u64 {
        self.0.get() as u64 - 1
    }

    /// Returns the slack of a timer that has `left` to go.
    #[inline]
    pub(crate) fn of(self, left: Span) -> Span {
        Span::from_nanos(if self == Self::RELATIVE {
            let (least, most) = Self::RELATIVE_RANGE.into_inner();
            (left.as_nanos() / Self::PART).clamp(least, most)
        } else {
            self.nanos()
        })
    }

    /// Returns the latest time for a timer that may fire from `deadline` on, and that this thread starts.
    ///
    /// The result is the roundest possible point, at which timers of other threads fire too. If the thread fires timers
    /// along with its tasks, the result is the end of the slack: a round point would be half of a slack too early for
    /// half of the timers, and each timer would need a wake-up.
    #[inline]
    pub(crate) fn latest(self, deadline: Instant) -> Instant {
        let slack = if self == Self::RELATIVE {
            self.of(deadline.saturating_since(asked_last()))
        } else {
            Span::from_nanos(self.nanos())
        };
        if reactor_turn::is_taken_along() {
            deadline.saturating_add(slack)
        } else {
            deadline.roundest_within(slack)
        }
    }
}

thread_local! {
    // Without a destructor, so that reaching it is one addition to the thread pointer.
    static DEFAULT: Cell<Slack> = const { Cell::new(Slack::NONE) };
}

/// Returns the slack of timers of this thread for which no slack was set.
#[inline]
pub(crate) fn default() -> Slack {
    DEFAULT.get()
}

fn replace_default(slack: Slack) -> Slack {
    with_thread(|thread| thread.note(Way::Slack, !slack.is_none()));
    DEFAULT.replace(slack)
}

/// Sets the slack of timers that this thread queues from now on and that have [no slack of their
/// own](super::Sleep::slack). Returns the previous setting; a thread begins with [`Precision::Exact`].
///
/// A [`Sleep`](super::Sleep), [`Timeout`](super::Timeout) or [`Interval`](super::Interval) takes the slack when it is
/// queued for the first time, from the thread that polls it then, and keeps it. Inside of a [`with_slack`] the slack of
/// the `with_slack` counts; a slack that is set inside is undone when the inner future returns. Coarse timers and
/// timers with callbacks take no slack from the thread.
///
/// A slack of more than 4.29 s (2^32 - 3 ns) is clamped to this value.
///
/// In tokio this sets the slack for all threads of a runtime:
///
/// ```
/// use tickless::time::{Precision, set_thread_slack};
///
/// let runtime = tokio::runtime::Builder::new_multi_thread()
///     .on_thread_start(|| {
///         set_thread_slack(Precision::Relative);
///     })
///     .build();
/// # drop(runtime);
/// ```
pub fn set_thread_slack(slack: impl Into<Slack>) -> Slack {
    replace_default(slack.into())
}

/// Returns the slack of this thread's timers that have no slack of their own.
#[must_use]
pub fn thread_slack() -> Slack {
    default()
}

/// Sets the slack of all timers that `future` queues, on any thread that polls it, and that have [no slack of their
/// own](super::Sleep::slack). If one such future is inside of another, the inner slack counts.
///
/// Tasks that `future` spawns are polled outside of it, so their timers do not have its slack. A slack of more than
/// 4.29 s (2^32 - 3 ns) is clamped to this value.
///
/// # Cancellation
///
/// Dropping the returned future drops `future`.
///
/// # Cost
///
/// The future and 4 bytes; two loads and stores at each poll.
pub fn with_slack<F: Future>(slack: impl Into<Slack>, future: F) -> WithSlack<F> {
    WithSlack {
        slack: slack.into(),
        future,
    }
}

pin_project! {
    /// The future that [`with_slack`] returns.
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    #[derive(Debug)]
    pub struct WithSlack<F> {
        slack: Slack,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for WithSlack<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        /// Restores the thread's slack when it is dropped, also by a panic of the future.
        struct Restore(Slack);
        impl Drop for Restore {
            fn drop(&mut self) {
                replace_default(self.0);
            }
        }
        let this = self.project();
        let _restore = Restore(replace_default(*this.slack));
        this.future.poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(slack: impl Into<Slack>, left: u64) -> u64 {
        slack.into().of(Span::from_nanos(left)).as_nanos()
    }

    #[test]
    fn a_slack_is_kept_to_the_nanosecond_and_ends_at_four_seconds() {
        let longest = Duration::from_nanos(u64::from(u32::MAX) - 2);
        for (said, kept) in [
            (Duration::ZERO, Duration::ZERO),
            (Duration::from_nanos(1), Duration::from_nanos(1)),
            (longest, longest),
            (longest + Duration::from_nanos(1), longest),
            (Duration::MAX, longest),
        ] {
            let slack = Slack::from(said);
            assert_eq!(format!("{slack:?}"), format!("{kept:?}"));
            assert_eq!(u128::from(nanos(said, 0)), kept.as_nanos());
            assert_eq!(slack.is_none(), said.is_zero());
        }
    }

    #[test]
    fn a_slack_in_proportion_is_a_thousandth_within_limits() {
        for (left, slack) in [
            (0, 50_000),
            (50_000_999, 50_000),
            (51_000_999, 51_000),
            (1_000_000_000, 1_000_000),
            (5_000_000_000, 5_000_000),
            (u64::MAX, 5_000_000),
        ] {
            assert_eq!(nanos(Precision::Relative, left), slack);
        }
        let relative = Slack::from(Precision::Relative);
        assert_eq!(format!("{relative:?}"), "Relative");
        let deadline = asked_last().saturating_add(Span::from_secs(1));
        let latest = relative.latest(deadline).saturating_since(deadline);
        assert!(latest.as_nanos() <= 1_000_000);
    }

    #[test]
    fn what_it_chooses_is_within_it() {
        let deadlines = [i64::MIN, -1, 0, 1, 7_300_000, i64::MAX - 1, i64::MAX];
        for deadline in deadlines.map(Instant::from_nanos) {
            for said in [0, 1, 99, 1_000_000, 4_000_000_000, u64::MAX] {
                let latest = Slack::from(Duration::from_nanos(said)).latest(deadline);
                assert!(latest >= deadline);
                let chosen = latest.saturating_since(deadline);
                assert!(chosen.as_nanos() <= said.min(u64::from(u32::MAX)));
            }
        }
        let millisecond = Slack::from(Precision::Millisecond);
        let latest = millisecond.latest(Instant::from_nanos(7_300_000));
        assert_eq!(latest.as_nanos(), 8_000_000);
    }
}

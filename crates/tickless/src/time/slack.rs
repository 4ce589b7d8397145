//! The slack of a timer: the lateness that its user allows.

use std::cell::Cell;
use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tickless_core::time::{Instant, Span};

use crate::host::remote::reactor_turn;
use crate::host::thread::{Way, with_thread};

/// Two named amounts of slack, accepted by every function that takes a slack.
///
/// Every other slack is a [`Duration`]. These two have names because programs without a slack of their own use one of
/// them: the library's default, or the precision of tokio.
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
}

impl Precision {
    /// Returns the slack as a duration.
    #[must_use]
    pub const fn slack(self) -> Duration {
        match self {
            Self::Exact => Duration::ZERO,
            Self::Millisecond => Duration::from_millis(1),
        }
    }
}

impl From<Precision> for Duration {
    fn from(precision: Precision) -> Self {
        precision.slack()
    }
}

/// A slack as a timer stores it: nanoseconds plus one, so that the value for "no slack was set" takes no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slack(NonZeroU32);

impl Slack {
    pub(crate) const NONE: Self = Self(NonZeroU32::MIN);

    pub(crate) fn new(slack: Duration) -> Self {
        let nanos = u32::try_from(slack.as_nanos()).unwrap_or(u32::MAX);
        Self(NonZeroU32::MIN.saturating_add(nanos))
    }

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self == Self::NONE
    }

    const fn nanos(self) -> u64 {
        self.0.get() as u64 - 1
    }

    pub(crate) const fn duration(self) -> Duration {
        Duration::from_nanos(self.nanos())
    }

    /// Returns the latest time for a timer that may fire from `deadline` on, and that this thread starts.
    ///
    /// The result is the roundest possible point, at which timers of other threads fire too. If the thread fires timers
    /// along with its tasks, the result is the end of the slack: a round point would be half of a slack too early for
    /// half of the timers, and each timer would need a wake-up.
    #[inline]
    pub(crate) fn latest(self, deadline: Instant) -> Instant {
        let slack = Span::from_nanos(self.nanos());
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
/// own](super::Sleep::slack). Returns the previous setting; a thread begins with [`Duration::ZERO`].
///
/// A [`Sleep`](super::Sleep), [`Timeout`](super::Timeout) or [`Interval`](super::Interval) takes the slack when it is
/// queued for the first time, from the thread that polls it then, and keeps it. Inside of a [`with_slack`] the slack of
/// the `with_slack` counts; a slack that is set inside is undone when the inner future returns. Coarse timers and
/// timers with callbacks take no slack from the thread.
///
/// A slack of more than 4.29 s (2^32 - 2 ns) is clamped to this value.
///
/// In tokio this sets the slack for all threads of a runtime:
///
/// ```
/// use tickless::time::{Precision, set_thread_slack};
///
/// let runtime = tokio::runtime::Builder::new_multi_thread()
///     .on_thread_start(|| {
///         set_thread_slack(Precision::Millisecond);
///     })
///     .build();
/// # drop(runtime);
/// ```
pub fn set_thread_slack(slack: impl Into<Duration>) -> Duration {
    replace_default(Slack::new(slack.into())).duration()
}

/// Returns the slack of this thread's timers that have no slack of their own.
#[must_use]
pub fn thread_slack() -> Duration {
    default().duration()
}

/// Sets the slack of all timers that `future` queues, on any thread that polls it, and that have [no slack of their
/// own](super::Sleep::slack). If one such future is inside of another, the inner slack counts.
///
/// Tasks that `future` spawns are polled outside of it, so their timers do not have its slack. A slack of more than
/// 4.29 s (2^32 - 2 ns) is clamped to this value.
///
/// # Cancellation
///
/// Dropping the returned future drops `future`.
///
/// # Cost
///
/// The future and 4 bytes; two loads and stores at each poll.
pub fn with_slack<F: Future>(slack: impl Into<Duration>, future: F) -> WithSlack<F> {
    WithSlack {
        slack: Slack::new(slack.into()),
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

    #[test]
    fn a_slack_is_kept_to_the_nanosecond_and_ends_at_four_seconds() {
        let longest = Duration::from_nanos(u64::from(u32::MAX) - 1);
        for (said, kept) in [
            (Duration::ZERO, Duration::ZERO),
            (Duration::from_nanos(1), Duration::from_nanos(1)),
            (longest, longest),
            (longest + Duration::from_nanos(1), longest),
            (Duration::MAX, longest),
        ] {
            let slack = Slack::new(said);
            assert_eq!(slack.duration(), kept, "{said:?}");
            assert_eq!(slack.is_none(), said.is_zero());
        }
    }

    #[test]
    fn what_it_chooses_is_within_it() {
        let deadlines = [i64::MIN, -1, 0, 1, 7_300_000, i64::MAX - 1, i64::MAX];
        for deadline in deadlines.map(Instant::from_nanos) {
            for said in [0, 1, 99, 1_000_000, 4_000_000_000, u64::MAX] {
                let latest = Slack::new(Duration::from_nanos(said)).latest(deadline);
                assert!(latest >= deadline);
                let chosen = latest.saturating_since(deadline);
                assert!(chosen.as_nanos() <= said.min(u64::from(u32::MAX)));
            }
        }
        let millisecond = Slack::new(Precision::Millisecond.slack());
        let latest = millisecond.latest(Instant::from_nanos(7_300_000));
        assert_eq!(latest.as_nanos(), 8_000_000);
    }
}

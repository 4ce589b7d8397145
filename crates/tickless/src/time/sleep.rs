//! Futures that are ready at a certain time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tickless_core::hrtimer::{Sleeper, Start};
use tickless_core::time::{Instant as CoreInstant, Span};

use super::Instant;
use crate::host::seat::with_thread;
use crate::host::timers;

/// Waits until `deadline`.
///
/// The future is ready at once if `deadline` is over.
///
/// # Cancellation
///
/// Dropping the future cancels it; nothing else is needed.
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(deadline.to_core(), Phase::Idle)
}

/// Waits for `duration`, counted from this call.
///
/// Durations up to [`Duration::MAX`] are possible; more than 292 years are never over. Zero is ready at once.
///
/// ```
/// # futures::executor::block_on(async {
/// use std::time::{Duration, Instant};
///
/// let start = Instant::now();
/// tickless::time::sleep(Duration::from_micros(50)).await;
/// assert!(start.elapsed() >= Duration::from_micros(50));
/// # });
/// ```
///
/// # Cancellation
///
/// Dropping the future cancels it; nothing else is needed.
#[track_caller]
#[inline]
pub fn sleep(duration: Duration) -> Sleep {
    let clock = &timers().platform().clock;
    if duration.is_zero() {
        // Over at once: an upper bound on the time would be a moment later.
        let now = with_thread(|thread| thread.reading.at_earliest(clock));
        return Sleep::new(now, Phase::Over);
    }
    let now = with_thread(|thread| thread.reading.at_latest(clock));
    Sleep::new(now.saturating_add(Span::from(duration)), Phase::Fresh)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Made with a duration, never polled: the clock was read a moment ago and is not read again for the first poll.
    /// Should that moment have been long, the timer is armed in the past and fires at once.
    Fresh,
    /// Made with no time to wait for, never polled.
    Over,
    /// Made with a deadline, never polled: not queued.
    Idle,
    /// Reset since it was queued last, or before it ever was: not queued.
    Reset,
    /// Queued, unless it fired meanwhile.
    Armed,
    /// Its time has come.
    Elapsed,
}

pin_project! {
    /// What [`sleep`] and [`sleep_until`] return.
    ///
    /// It is queued at its first poll, on the thread that polls. It is [`Send`] and [`Sync`], and may be polled, reset
    /// and dropped anywhere; on the thread that polled it last that costs least. It is not [`Unpin`]: to use it in a
    /// loop or a `select!`, pin it with [`std::pin::pin!`] or [`Box::pin`].
    ///
    /// Polled again after it was ready, it is ready again.
    ///
    /// Cost: 112 bytes, no allocation.
    #[project(!Unpin)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Sleep {
        #[pin]
        sleeper: Sleeper,
        deadline: CoreInstant,
        phase: Phase,
    }

    impl PinnedDrop for Sleep {
        #[inline]
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if *this.phase == Phase::Armed {
                cancel(this.sleeper.as_ref());
            }
        }
    }
}

impl Sleep {
    #[inline]
    fn new(deadline: CoreInstant, phase: Phase) -> Self {
        Self {
            sleeper: Sleeper::new(),
            deadline,
            phase,
        }
    }

    /// The point at which the future is or was ready.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        Instant::from_core(self.deadline)
    }

    /// Whether the time is over.
    ///
    /// As in tokio, a sleep that was neither polled nor reset since it was made says `false`, whatever the time.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        match self.phase {
            Phase::Fresh | Phase::Over | Phase::Idle => false,
            Phase::Reset => is_over(self.deadline),
            // Not queued and not over: see `poll_elapsed`.
            Phase::Armed => !self.sleeper.is_queued() && is_over_exactly(self.deadline),
            Phase::Elapsed => true,
        }
    }

    /// Makes the future ready at `deadline` instead, whether or not it was ready before.
    ///
    /// The task that polled it last is woken then, without polling again. Moving a deadline a little costs two loads
    /// and a store if it keeps its place among the thread's other timers.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        let deadline = deadline.to_core();
        let this = self.project();
        *this.deadline = deadline;
        let start = Start::at(deadline);
        if *this.phase != Phase::Armed || !rearm(this.sleeper.as_ref(), start) {
            // Not queued, or it fired before: its waker is used up, so the task polls again anyway.
            *this.phase = Phase::Reset;
        }
    }

    #[inline]
    fn poll_elapsed(self: Pin<&mut Self>, context: &Context<'_>) -> Poll<()> {
        let this = self.project();
        match *this.phase {
            Phase::Elapsed => return Poll::Ready(()),
            Phase::Over => {}
            Phase::Fresh | Phase::Idle | Phase::Reset => {
                if *this.phase == Phase::Fresh || !is_over(*this.deadline) {
                    arm(this.sleeper, *this.deadline, context);
                    *this.phase = Phase::Armed;
                    return Poll::Pending;
                }
            }
            Phase::Armed => {
                // The clock decides, not only whether somebody came to fire it: a task that is polled all the time must
                // not wait for a driver that gets no turn.
                if this.sleeper.is_queued()
                    && !is_over(*this.deadline)
                    && wakes(this.sleeper.as_ref(), context)
                {
                    return Poll::Pending;
                }
                if !is_over_exactly(*this.deadline) {
                    // Neither queued nor over: another thread queued it, and the process is the child of a fork.
                    arm(this.sleeper, *this.deadline, context);
                    return Poll::Pending;
                }
                cancel(this.sleeper.as_ref());
            }
        }
        *this.phase = Phase::Elapsed;
        Poll::Ready(())
    }
}

// The three below are kept whole, out of the caller's code: they are the core's whole path in one piece.

#[inline(never)]
fn arm(sleeper: Pin<&mut Sleeper>, deadline: CoreInstant, context: &Context<'_>) {
    let waker = context.waker().clone();
    let old = timers().start_sleeper(sleeper, Start::at(deadline), waker);
    // Dropped here, after every lock was released: it may run foreign code.
    drop(old);
}

#[inline(never)]
fn rearm(sleeper: Pin<&Sleeper>, start: Start) -> bool {
    timers().restart_sleeper(sleeper, start)
}

#[inline(never)]
fn cancel(sleeper: Pin<&Sleeper>) {
    let waker = timers().cancel_sleeper(sleeper);
    // Dropped here, after every lock was released: it may run foreign code.
    drop(waker);
}

/// Whether `deadline` has passed.
#[inline]
fn is_over_exactly(deadline: CoreInstant) -> bool {
    is_over(deadline) || deadline <= timers().platform().clock.exact()
}

/// Whether `deadline` has certainly passed.
#[inline]
fn is_over(deadline: CoreInstant) -> bool {
    let clock = &timers().platform().clock;
    with_thread(|thread| thread.reading.at_earliest(clock)) >= deadline
}

/// Sees to it that the task of `context` is woken; `false` if the sleeper fired meanwhile.
fn wakes(sleeper: Pin<&Sleeper>, context: &Context<'_>) -> bool {
    match timers().sleeper_will_wake(sleeper, context.waker()) {
        Some(true) => true,
        // Cloned without a lock: it is foreign code. Should the sleeper fire meanwhile, it wakes the old task, which is
        // no loss: this poll finds it fired.
        Some(false) => timers()
            .set_sleeper_waker(sleeper, context.waker().clone())
            .is_ok(),
        None => false,
    }
}

impl Future for Sleep {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.poll_elapsed(context)
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Sleep")
            .field("deadline", &self.deadline())
            .field("is_elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}

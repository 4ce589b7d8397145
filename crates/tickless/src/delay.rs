//! What futures that are ready at a certain time have in common, whatever queue they wait in.
//!
//! A [`Delay`] is the state machine; an [`Alarm`] is what it waits in.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use tickless_core::time::{Instant, Span};

use crate::host::seat::with_thread;
use crate::host::timers;

/// A timer that wakes a task. It MAY be late, and MUST NOT be early.
pub(crate) trait Alarm {
    /// Makes one that waits for nothing.
    fn new() -> Self;

    /// Whether it waits to fire.
    fn is_queued(&self) -> bool;

    /// Queues it, or moves it if it is queued, and has `waker` woken. Returns the waker that it had.
    fn arm(self: Pin<&mut Self>, deadline: Instant, waker: Waker) -> Option<Waker>;

    /// Moves it and keeps its waker; `false`, and nothing is changed, if it is not queued any more.
    fn rearm(self: Pin<&Self>, deadline: Instant) -> bool;

    /// Takes it out and returns its waker. Never waits; afterwards it MAY be freed.
    fn cancel(self: Pin<&Self>) -> Option<Waker>;

    /// Whether it would wake the task of `waker`; `None` if it is not queued any more.
    fn will_wake(self: Pin<&Self>, waker: &Waker) -> Option<bool>;

    /// Has `waker` woken instead and returns the one before; hands `waker` back if it is not queued any more.
    fn set_waker(self: Pin<&Self>, waker: Waker) -> Result<Option<Waker>, Waker>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
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
    /// A deadline, and an alarm that is armed for it at the first poll.
    #[project(!Unpin)]
    pub(crate) struct Delay<A>
    where
        A: Alarm,
    {
        #[pin]
        alarm: A,
        deadline: Instant,
        phase: Phase,
    }

    impl<A> PinnedDrop for Delay<A>
    where
        A: Alarm,
    {
        #[inline]
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if *this.phase == Phase::Armed {
                cancel(this.alarm.as_ref());
            }
        }
    }
}

impl<A: Alarm> Delay<A> {
    #[inline]
    pub(crate) fn until(deadline: Instant) -> Self {
        Self::new(deadline, Phase::Idle)
    }

    #[inline]
    pub(crate) fn lasting(duration: Duration) -> Self {
        let clock = &timers().platform().clock;
        if duration.is_zero() {
            // Over at once: an upper bound on the time would be a moment later.
            let now = with_thread(|thread| thread.reading.at_earliest(clock));
            return Self::new(now, Phase::Over);
        }
        let now = with_thread(|thread| thread.reading.at_latest(clock));
        Self::new(now.saturating_add(Span::from(duration)), Phase::Fresh)
    }

    #[inline]
    fn new(deadline: Instant, phase: Phase) -> Self {
        Self {
            alarm: A::new(),
            deadline,
            phase,
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(crate) fn is_elapsed(&self) -> bool {
        match self.phase {
            Phase::Fresh | Phase::Over | Phase::Idle => false,
            Phase::Reset => is_over(self.deadline),
            // Not queued and not over: see `poll`.
            Phase::Armed => !self.alarm.is_queued() && is_over_exactly(self.deadline),
            Phase::Elapsed => true,
        }
    }

    #[inline]
    pub(crate) fn reset(self: Pin<&mut Self>, deadline: Instant) {
        let this = self.project();
        *this.deadline = deadline;
        if *this.phase != Phase::Armed || !this.alarm.as_ref().rearm(deadline) {
            // Not queued, or it fired before: its waker is used up, so the task polls again anyway.
            *this.phase = Phase::Reset;
        }
    }

    #[inline]
    pub(crate) fn poll(self: Pin<&mut Self>, context: &Context<'_>) -> Poll<()> {
        let this = self.project();
        match *this.phase {
            Phase::Elapsed => return Poll::Ready(()),
            Phase::Over => {}
            Phase::Fresh | Phase::Idle | Phase::Reset => {
                if *this.phase == Phase::Fresh || !is_over(*this.deadline) {
                    arm(this.alarm, *this.deadline, context);
                    *this.phase = Phase::Armed;
                    return Poll::Pending;
                }
            }
            Phase::Armed => {
                // The clock decides, not only whether somebody came to fire it: a task that is polled all the time must
                // not wait for a driver that gets no turn.
                if this.alarm.is_queued()
                    && !is_over(*this.deadline)
                    && wakes(this.alarm.as_ref(), context)
                {
                    return Poll::Pending;
                }
                if !is_over_exactly(*this.deadline) {
                    // Neither queued nor over: another thread queued it, and the process is the child of a fork.
                    arm(this.alarm, *this.deadline, context);
                    return Poll::Pending;
                }
                cancel(this.alarm.as_ref());
            }
        }
        *this.phase = Phase::Elapsed;
        Poll::Ready(())
    }
}

// The two below are kept whole, out of the caller's code: they are the core's whole path in one piece.

#[inline(never)]
fn arm<A: Alarm>(alarm: Pin<&mut A>, deadline: Instant, context: &Context<'_>) {
    let old = alarm.arm(deadline, context.waker().clone());
    // Dropped here, after every lock was released: it may run foreign code.
    drop(old);
}

#[inline(never)]
fn cancel<A: Alarm>(alarm: Pin<&A>) {
    let waker = alarm.cancel();
    // Dropped here, after every lock was released: it may run foreign code.
    drop(waker);
}

/// Whether `deadline` has passed.
#[inline]
fn is_over_exactly(deadline: Instant) -> bool {
    is_over(deadline) || deadline <= timers().platform().clock.exact()
}

/// Whether `deadline` has certainly passed.
#[inline]
fn is_over(deadline: Instant) -> bool {
    let clock = &timers().platform().clock;
    with_thread(|thread| thread.reading.at_earliest(clock)) >= deadline
}

/// Sees to it that the task of `context` is woken; `false` if the alarm fired meanwhile.
fn wakes<A: Alarm>(alarm: Pin<&A>, context: &Context<'_>) -> bool {
    match alarm.will_wake(context.waker()) {
        Some(true) => true,
        // Cloned without a lock: it is foreign code. Should the alarm fire meanwhile, it wakes the old task, which is
        // no loss: this poll finds it fired.
        Some(false) => alarm.set_waker(context.waker().clone()).is_ok(),
        None => false,
    }
}

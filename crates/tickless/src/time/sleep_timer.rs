//! The state machine of a sleep: a future that is ready at a deadline, for every kind of queue.
//!
//! A [`SleepTimer`] is a deadline and a [`SleepQueue`]: the exact or the coarse timer that waits. Each operation has
//! one fast path and one slow path: [`poll`](SleepTimer::poll) makes and starts a sleep at its final address,
//! [`reset`](SleepTimer::reset) pushes the sleep out in place, and dropping the sleep removes it from its queue and
//! destroys it in place.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use tickless_core::time::{Instant, Span};
use tickless_link::lazy_init::LazyInit;

use super::budget;
use super::slack::{self, Slack};
use super::sleep_queue::SleepQueue;
#[cfg(feature = "tokio-test-util")]
use super::virtual_time::companion;
use crate::host::clock::CLOCK;
use crate::host::registry::{timers, try_timers_fast};
use crate::host::remote::reactor_turn;
#[cfg(all(debug_assertions, feature = "tokio", not(feature = "tokio-test-util")))]
use crate::host::thread::check_unfollowed;
#[cfg(feature = "tokio-test-util")]
use crate::host::thread::look_at_tokio;
use crate::host::thread::{is_ahead_fast, shown_now_lower, shown_now_upper};
use crate::host::{blocked, wake};

mod in_queue;
#[cfg(feature = "worker")]
mod on_virtual_clock;
mod reset;
mod state;
mod waker;

use in_queue::{end, latest, queue, start_new};
use state::{Parts, SleepState, Timer};
pub(crate) use waker::wakes;
use waker::{keep, of_task};

pin_project! {
    /// A deadline, and a timer that is started for it at the first poll.
    ///
    /// In this order all data that a reset touches lies within 56 bytes: these fields, and the first fields of the
    /// timer.
    #[project(!Unpin)]
    #[repr(C)]
    pub(crate) struct SleepTimer<T>
    where
        T: SleepQueue,
    {
        deadline: Instant,
        #[pin]
        timer: Timer<T>,
    }

    impl<T> PinnedDrop for SleepTimer<T>
    where
        T: SleepQueue,
    {
        #[inline]
        fn drop(this: Pin<&mut Self>) {
            #[cfg(feature = "tokio-test-util")]
            companion::forget(std::ptr::from_ref(&*this).addr());
            if let Some(made) = this.project().timer.made()
                && made.stage() == SleepState::Armed
            {
                end(made);
            }
        }
    }
}

impl<T: SleepQueue> SleepTimer<T> {
    // Always, as all that makes one: what is returned through memory is copied from there.
    #[inline(always)]
    pub(crate) fn until(deadline: Instant) -> Self {
        Self::new(deadline, SleepState::Unmade)
    }

    #[inline(always)]
    pub(crate) fn lasting(duration: Duration) -> Self {
        if duration.is_zero() {
            // Over at once: an upper bound on the time would be a moment later.
            return Self::new(shown_now_lower(), SleepState::Unmade);
        }
        let now = shown_now_upper();
        Self::new(now.saturating_add(Span::from(duration)), SleepState::Fresh)
    }

    #[inline(always)]
    fn new(deadline: Instant, state: SleepState) -> Self {
        Self {
            deadline,
            timer: LazyInit::new(None, state),
        }
    }

    /// Sets the slack of the sleep, which holds from the next time that the sleep is queued.
    pub(crate) fn set_slack(self: Pin<&mut Self>, slack: Slack) {
        *self.project().timer.parts().0 = Some(slack);
    }

    /// Sets the slack as [`set_slack`](Self::set_slack) does, before the sleep is pinned.
    pub(crate) fn with_slack(mut self, slack: Slack) -> Self {
        *self.timer.note_mut() = Some(slack);
        self
    }

    /// Returns the slack of the sleep, or no slack if none was set and the sleep was never queued.
    pub(crate) fn slack(&self) -> Slack {
        self.timer.note().unwrap_or(Slack::NONE)
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(crate) fn is_elapsed(&self) -> bool {
        match self.timer.stage() {
            SleepState::Fresh | SleepState::Unmade => false,
            SleepState::Idle | SleepState::Virtual => is_over(self.deadline),
            // Not queued and not over: see `poll_slow`.
            SleepState::Armed => {
                !self.timer.get().is_some_and(T::is_queued) && is_over_slow(self.deadline)
            }
            SleepState::Elapsed => true,
        }
    }

    #[cfg(feature = "tokio-test-util")]
    pub(crate) fn poll(mut self: Pin<&mut Self>, context: &Context<'_>) -> Poll<()> {
        look_at_tokio();
        let polled = self.as_mut().poll_by_clock(context);
        let address = std::ptr::from_ref(&*self).addr();
        companion::polled(address, self.deadline, polled.is_pending(), context.waker());
        polled
    }

    #[cfg(not(feature = "tokio-test-util"))]
    #[inline]
    pub(crate) fn poll(self: Pin<&mut Self>, context: &Context<'_>) -> Poll<()> {
        let polled = self.poll_by_clock(context);
        #[cfg(all(debug_assertions, feature = "tokio"))]
        if polled.is_pending() {
            check_unfollowed();
        }
        polled
    }

    #[inline]
    fn poll_by_clock(mut self: Pin<&mut Self>, context: &Context<'_>) -> Poll<()> {
        let this = self.as_mut().project();
        let is_ahead = match this.timer.stage() {
            SleepState::Fresh => true,
            // The upper bound: by that it is filed, if it is coarse. The lower one, which decides whether it is over,
            // is asked for if this does not say it.
            SleepState::Unmade => shown_now_upper() < *this.deadline,
            SleepState::Armed => return self.poll_armed(context),
            _ => false,
        };
        if is_ahead {
            // Cloned before the fast path, because a call inside it would spill registers (decision 54).
            self.arm_new(context.waker().clone())
        } else {
            self.poll_slow(context)
        }
    }

    /// Starts a timer that was never polled and is not over. Nearly always its deadline is far ahead, and the thread
    /// runs no turn and has no virtual clock.
    #[inline(never)]
    fn arm_new(self: Pin<&mut Self>, waker: Waker) -> Poll<()> {
        if wake::can_fast_path() {
            let slack = self.timer.note().unwrap_or(Slack::NONE);
            self.arm_new_with(slack, waker)
        } else {
            self.arm_new_by_default(waker)
        }
    }

    /// Works as [`arm_new`](Self::arm_new), on a thread whose timers have a default slack, or that is not on the fast
    /// path for another reason.
    #[inline(never)]
    fn arm_new_by_default(self: Pin<&mut Self>, waker: Waker) -> Poll<()> {
        if T::HAS_SLACK && wake::can_fast_path_with_slack() {
            let slack = self.timer.note().unwrap_or_else(slack::default);
            self.arm_new_with(slack, waker)
        } else {
            self.arm(waker)
        }
    }

    #[inline(always)]
    fn arm_new_with(mut self: Pin<&mut Self>, slack: Slack, waker: Waker) -> Poll<()> {
        let this = self.as_mut().project();
        let times = (*this.deadline, latest::<T>(slack, *this.deadline));
        match start_new(this.timer, times, slack, waker) {
            Ok(()) => Poll::Pending,
            Err(waker) => self.arm(waker),
        }
    }

    /// Works as [`poll`](Self::poll), for a timer that was queued. Nearly always the timer is exact and far ahead, and
    /// a task polls it again on the thread where it waits.
    ///
    /// A timer that this thread has just pushed out is not compared with the clock, because the clock was read for the
    /// new deadline. If the new deadline is over, the timer fires all the same.
    #[inline(never)]
    fn poll_armed(mut self: Pin<&mut Self>, context: &Context<'_>) -> Poll<()> {
        let this = self.as_mut().project();
        let is_exact = !T::HAS_SLACK || *this.timer.note() == Some(Slack::NONE);
        if is_exact
            && wake::can_wait_fast()
            && let Some(timer) = this.timer.as_ref().armed()
            && let Some(timers) = try_timers_fast()
            && timer.try_wakes_fast(timers, context.waker())
            && is_ahead_fast(this.deadline)
        {
            return Poll::Pending;
        }
        self.poll_slow(context)
    }

    /// Works as [`poll`](Self::poll), for a timer that was polled before, or is over.
    #[inline(never)]
    fn poll_slow(mut self: Pin<&mut Self>, context: &Context<'_>) -> Poll<()> {
        #[cfg(feature = "worker")]
        if self.as_mut().waits_virtually(context.waker()) {
            return Poll::Pending;
        }
        let mut this = self.as_mut().project();
        let mut old = None;
        match this.timer.stage() {
            SleepState::Unmade | SleepState::Idle if !is_over(*this.deadline) => {
                let kept = this.timer.as_mut().idle_waker().and_then(Option::take);
                return self.arm(of_task(kept, context.waker()));
            }
            // It waited, on a virtual clock.
            SleepState::Virtual => {}
            // Ready without ever having waited.
            SleepState::Fresh | SleepState::Unmade | SleepState::Idle | SleepState::Elapsed => {
                if budget::is_spent(context.waker()) {
                    return Poll::Pending;
                }
            }
            SleepState::Armed => {
                wake::ensure_expiry_thread_again();
                blocked::polled(context.waker());
                let timer = this.timer.as_ref().armed();
                // The clock decides, not only whether a thread came to fire it: a task that is polled all the time must
                // not wait for an expiry thread that gets no turn.
                if let Some(timer) = timer
                    && timer.is_queued()
                {
                    let now = shown_now_lower();
                    if now < *this.deadline && wakes(timer, context) {
                        if T::HAS_SLACK && *this.timer.note() != Some(Slack::NONE) {
                            reactor_turn::take_along_soon(now);
                        }
                        return Poll::Pending;
                    }
                }
                if !is_over_slow(*this.deadline) {
                    // Neither queued nor over: another thread queued it, and the process is the child of a fork.
                    let kept = this.timer.as_mut().idle_waker().and_then(Option::take);
                    return self.arm(of_task(kept, context.waker()));
                }
                old = timer.and_then(|timer| timer.cancel(timers()));
            }
        }
        this.timer.as_mut().make(SleepState::Elapsed, T::new);
        this.timer.as_mut().set_stage(SleepState::Elapsed);
        keep(this.timer, old, context.waker());
        Poll::Ready(())
    }

    /// Starts a timer that is not queued, and makes it first if necessary. Returns `Ready` if a virtual clock has
    /// passed the deadline.
    #[inline(never)]
    fn arm(self: Pin<&mut Self>, waker: Waker) -> Poll<()> {
        let is_virtual = wake::ensure_expiry_thread_or_virtual();
        #[cfg(feature = "worker")]
        if is_virtual {
            return self.arm_virtual(waker);
        }
        blocked::polled(&waker);
        let mut this = self.project();
        let old = queue(this.timer.as_mut(), *this.deadline, waker);
        this.timer.set_stage(SleepState::Armed);
        // Dropped here, after every lock was released: it may run foreign code.
        drop(old);
        Poll::Pending
    }
}

/// Returns true if `deadline` has passed for a timer that is not queued; on the thread that fired the timer the
/// deadline has passed.
#[inline]
fn is_over_slow(deadline: Instant) -> bool {
    is_over(deadline) || CLOCK.now() >= deadline
}

/// Returns true if `deadline` has certainly passed.
#[inline]
fn is_over(deadline: Instant) -> bool {
    shown_now_lower() >= deadline
}

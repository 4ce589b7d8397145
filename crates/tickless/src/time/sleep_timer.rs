//! The state machine of a sleep: a future that is ready at a deadline, for every kind of queue.
//!
//! A [`SleepTimer`] is a deadline and a [`TimerQueue`]: the exact or the coarse timer that waits. Each operation has
//! one fast path and one slow path: [`poll`](SleepTimer::poll) makes and starts a sleep at its final address,
//! [`reset`](SleepTimer::reset) pushes the sleep out in place, and dropping the sleep removes it from its queue and
//! destroys it in place.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use tickless_core::base::TimerQueue;
use tickless_core::coarse::Tick;
use tickless_core::time::{Instant, Span};
use tickless_link::lazy_init::{LazyInit, Made};

use super::budget;
use super::slack::{self, Slack};
#[cfg(feature = "tokio-test-util")]
use super::virtual_time::companion;
use crate::host::clock::CLOCK;
use crate::host::registry::{timers, try_timers_fast};
use crate::host::remote::publish::{publish_earlier, publish_first};
use crate::host::remote::reactor_turn;
#[cfg(all(debug_assertions, feature = "tokio", not(feature = "tokio-test-util")))]
use crate::host::thread::check_unfollowed;
#[cfg(feature = "tokio-test-util")]
use crate::host::thread::look_at_tokio;
use crate::host::thread::{is_ahead_fast, shown_now_lower, shown_now_upper};
use crate::host::tick::{asked_last, now, tick_of};
use crate::host::{blocked, wake};

#[cfg(feature = "worker")]
mod on_virtual_clock;
mod reset;

tickless_link::stages! {
    /// The states of a [`SleepTimer`]. The timer is made where it is pinned, at the first poll or reset.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum SleepState {
        unmade {
            /// The timer has a duration and was never polled: the clock was read when the sleep was made and is not
            /// read again for the first poll. If the deadline is over by then, the timer is started in the past and
            /// fires at once.
            Fresh,
            /// The timer does not exist, because it was never polled or was destroyed: it is not queued.
            Unmade,
        }
        made {
            /// The timer is not queued, and got another deadline since it was queued last or before it was ever queued.
            Idle,
            /// The timer is queued, unless it fired meanwhile.
            Armed,
            /// The deadline of the timer has passed, and the poll of a task was ready. The timer keeps the waker of
            /// this task for a reset.
            Elapsed,
            /// The sleep is armed on a virtual clock, unless it fired there meanwhile. The timer of the host is idle,
            /// and keeps the ticket of the sleep.
            Virtual,
        }
    }
}

/// A timer with its state and its slack. The slack was set, or was taken from the thread when the timer was queued
/// first.
type Timer<T> = LazyInit<Option<Slack>, SleepState, T>;

/// A timer that exists and is armed.
type Armed<'t, T> = Made<'t, Option<Slack>, SleepState, T>;

/// Parts of a [`Timer`].
trait Parts<T> {
    /// Returns the timer if the state is armed.
    fn armed(self: Pin<&Self>) -> Option<Pin<&T>>;

    /// Returns the slot where the timer keeps a waker for its next start, if the timer exists and is not queued.
    fn idle_waker(self: Pin<&mut Self>) -> Option<&mut Option<Waker>>;
}

impl<T: TimerQueue> Parts<T> for Timer<T> {
    #[inline(always)]
    fn armed(self: Pin<&Self>) -> Option<Pin<&T>> {
        self.value().filter(|_| self.stage() == SleepState::Armed)
    }

    #[inline]
    fn idle_waker(self: Pin<&mut Self>) -> Option<&mut Option<Waker>> {
        self.parts().1.and_then(T::idle_waker)
    }
}

pin_project! {
    /// A deadline, and a timer that is started for it at the first poll.
    ///
    /// In this order all data that a reset touches lies within 56 bytes: these fields, and the first fields of the
    /// timer.
    #[project(!Unpin)]
    #[repr(C)]
    pub(crate) struct SleepTimer<T>
    where
        T: TimerQueue,
    {
        deadline: Instant,
        #[pin]
        timer: Timer<T>,
    }

    impl<T> PinnedDrop for SleepTimer<T>
    where
        T: TimerQueue,
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

impl<T: TimerQueue> SleepTimer<T> {
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
            // The upper bound: by that it is enqueued, if it is coarse. The lower one, which decides whether it is over,
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
        if T::IS_EXACT && wake::can_fast_path_with_slack() {
            let slack = self.timer.note().unwrap_or_else(slack::default);
            self.arm_new_with(slack, waker)
        } else {
            self.arm(waker)
        }
    }

    #[inline(always)]
    fn arm_new_with(mut self: Pin<&mut Self>, slack: Slack, waker: Waker) -> Poll<()> {
        let this = self.as_mut().project();
        let deadline = *this.deadline;
        let times = (deadline, latest::<T>(slack, deadline));
        let (Some(place), Some(timers)) = (this.timer.vacant(), try_timers_fast()) else {
            return self.arm(waker);
        };
        let state = (Some(slack), SleepState::Armed);
        // The lateness of a coarse sleep counts from the clock reading that gave its deadline.
        let ticks = (asked_last(), tick_of(deadline));
        match T::start_new(place, state, timers, times, ticks, waker) {
            Ok(is_first) => {
                // Else something that is due before was told already, and a thread comes for that.
                if is_first {
                    publish_first();
                }
                Poll::Pending
            }
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
        let is_exact = !T::IS_EXACT || *this.timer.note() == Some(Slack::NONE);
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
                        if T::IS_EXACT && *this.timer.note() != Some(Slack::NONE) {
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

/// Queues a timer, or moves it if it is queued, so that it wakes `waker`. Returns the previous waker of the timer.
#[inline(never)]
fn queue<T: TimerQueue>(
    timer: Pin<&mut Timer<T>>,
    deadline: Instant,
    waker: Waker,
) -> Option<Waker> {
    let (slack, made) = timer.make(SleepState::Idle, T::new);
    let slack = if T::IS_EXACT {
        *slack.get_or_insert_with(slack::default)
    } else {
        Slack::NONE
    };
    let (when, now) = when::<T>(deadline, slack);
    let old = made.start(timers(), when, waker);
    publish::<T>(now);
    old
}

/// Returns the argument of a start that fires at `deadline` or within `slack`, and the tick in progress if the timer is
/// coarse.
#[inline]
fn when<T: TimerQueue>(deadline: Instant, slack: Slack) -> (T::When, Tick) {
    let now = if T::IS_EXACT { Tick(0) } else { now() };
    let times = (deadline, latest::<T>(slack, deadline));
    (T::when(times, (now, tick_of(deadline))), now)
}

/// Ensures that a thread fires a timer in time that was started in the tick `now`. The start of an exact timer wrote the
/// device.
#[inline]
fn publish<T: TimerQueue>(now: Tick) {
    if !T::IS_EXACT {
        publish_earlier(now);
    }
}

/// Returns the latest time for a timer with `slack`.
#[inline]
fn latest<T: TimerQueue>(slack: Slack, deadline: Instant) -> Instant {
    if T::IS_EXACT && !slack.is_none() {
        wake::note_slack();
        slack.latest(deadline)
    } else {
        deadline
    }
}

/// Moves a timer and keeps its waker. Returns `false`, and changes nothing, if the timer is not queued any more.
#[inline(never)]
fn restart<T: TimerQueue>(timer: Pin<&T>, deadline: Instant, slack: Slack) -> bool {
    let (when, now) = when::<T>(deadline, slack);
    let is_queued = timer.restart(timers(), when);
    if is_queued {
        publish::<T>(now);
    }
    is_queued
}

/// Restarts a queued timer in place, on the fast path. Returns `false`, and changes nothing, otherwise.
#[inline(always)]
fn restart_in_place<T: TimerQueue>(timer: Pin<&T>, deadline: Instant, latest: Instant) -> bool {
    let Some(timers) = try_timers_fast() else {
        return false;
    };
    timer.restart_in_place(timers, (deadline, latest), tick_of(deadline))
}

/// Cancels an armed timer and drops it in place.
#[inline(never)]
fn end<T: TimerQueue>(armed: Armed<'_, T>) {
    // What is rare is a call at the end, so that no register is saved for it.
    let ended = armed.end(
        SleepState::Unmade,
        #[inline(always)]
        |timer| match try_timers_fast() {
            Some(timers) => T::try_end_fast(timer, timers),
            None => Err(timer),
        },
    );
    match ended {
        // Dropped here, after every lock was released: it may run foreign code.
        Ok(waker) => drop(waker),
        Err(armed) => end_slow(armed),
    }
}

#[inline(never)]
fn end_slow<T: TimerQueue>(armed: Armed<'_, T>) {
    let ended = armed.end(
        SleepState::Unmade,
        #[inline(always)]
        |timer| Ok(T::end(timer, timers())),
    );
    drop(ended);
}

/// Returns a waker of the task of `waker`: `kept` if it wakes this task, or else a clone.
#[inline]
fn of_task(kept: Option<Waker>, waker: &Waker) -> Waker {
    let kept = kept.filter(|kept| kept.will_wake(waker));
    kept.unwrap_or_else(|| waker.clone())
}

/// Stores a waker of the task of `waker` in a timer that is not queued; `old` is the previous waker, if the timer was
/// still queued.
#[inline]
fn keep<T: TimerQueue>(timer: Pin<&mut Timer<T>>, old: Option<Waker>, waker: &Waker) {
    if let Some(kept) = timer.idle_waker() {
        let old = old.or_else(|| kept.take());
        *kept = old.filter(|old| old.will_wake(waker));
        if kept.is_none() {
            *kept = Some(waker.clone());
        }
    }
}

/// Ensures that the timer wakes the task of `context`; returns `false` if the timer fired meanwhile.
pub(crate) fn wakes<C, T: TimerQueue<C>>(timer: Pin<&T>, context: &Context<'_>) -> bool {
    if timer.try_wakes_fast(timers(), context.waker()) {
        return true;
    }
    match timer.will_wake(timers(), context.waker()) {
        Some(true) => true,
        // Cloned without a lock: it is foreign code. Should the timer fire meanwhile, it wakes the old task, which is
        // no loss: this poll finds it fired.
        Some(false) => timer.set_waker(timers(), context.waker().clone()).is_ok(),
        None => false,
    }
}

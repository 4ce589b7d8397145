//! Sleepers, the timers that wake tasks: the common part of exact and coarse sleepers.

use core::pin::Pin;
use core::task::Waker;

use tickless_link::end::{Dropped, Dropping, End};
use tickless_link::entry::State;
use tickless_link::lazy_init::{Stage, Vacant};

use crate::base::guard::BaseGuard;
use crate::base::timers::Timers;
use crate::platform::{Platform, ThisCpu};
use crate::slots::geometry::Tick;
use crate::time::{Instant, Monotonic};
use crate::wheel::cpu_wheel::Now;

/// The text that dumps show in place of a callback for a timer that wakes a task.
pub const WAKES: &str = "wakes a task";

/// The member of an entry that wakes a task.
pub(crate) struct Wake;

/// The queue in which a task waits for a time of the clock `C`: the exact one, whose timers are
/// [`Sleeper`](crate::hrtimer::Sleeper)s, or the wheel, whose timers are [`WheelSleeper`](crate::coarse::WheelSleeper)s.
/// The operations are those of such a timer.
///
/// A sleeper has no callback, so no operation on it waits. Operations return the wakers that they remove; the caller
/// drops these wakers, because dropping a waker may run foreign code.
///
/// Starting, restarting and ending a timer each have a fast path and a slow path. The fast path may refuse, and changes
/// nothing then. Times are given as instants, of which the exact queue reads the earliest and the latest, and as ticks,
/// which the wheel reads.
pub trait TimerQueue<C = Monotonic>: Sized {
    /// True for the exact queue, whose timers may have slack. A wheel groups its timers anyway; the host publishes its
    /// first one.
    const IS_EXACT: bool;

    /// The time argument of [`start`](Self::start).
    type When: Copy;

    /// Makes an idle timer.
    fn new() -> Self;

    /// Returns the argument of a start that fires between the two instants or, on the wheel, after the end of the
    /// second tick; the first tick is the one in progress.
    fn when(times: (Instant<C>, Instant<C>), ticks: (Tick, Tick)) -> Self::When;

    /// Makes and starts a timer in one step, as [`start`](Self::start) would start a [new](Self::new) one, on the fast
    /// path: if it belongs into the far wheel of the executing CPU or on a wheel that this CPU keeps, and the lock can
    /// be taken without a call. The timer is made in its final place, with the note and the stage. Returns true if it
    /// is due before all others on its wheel, so that the thread that expires the wheel has to be notified.
    ///
    /// # Errors
    ///
    /// The waker, if the fast path is not possible; nothing was done.
    fn start_new<P: Platform, N, S: Stage>(
        place: Vacant<'_, N, S, Self>,
        state: (N, S),
        timers: &Timers<P>,
        times: (Instant<C>, Instant<C>),
        ticks: (impl Now, Tick),
        waker: Waker,
    ) -> Result<bool, Waker>;

    /// Moves a queued timer of the executing CPU to another time, on the fast path: if it stays in its bucket and the
    /// lock can be taken without a call. Returns `false`, and nothing changes, otherwise.
    ///
    /// Two threads may move the timer at the same time, or one thread may move it while another fires it. The deadline
    /// is written under the lock, so each thread sees the result of the previous operation.
    ///
    /// # Cost
    ///
    /// One lock section of the owner thread, with one comparison and one store to the timer.
    fn restart_in_place<P: Platform>(
        self: Pin<&Self>,
        timers: &Timers<P>,
        times: (Instant<C>, Instant<C>),
        tick: Tick,
    ) -> bool;

    /// Restarts a queued timer and keeps its waker; returns `false` if it is no longer queued.
    ///
    /// # Cost
    ///
    /// The cost of restarting a queued timer of its kind.
    fn restart<P: Platform>(self: Pin<&Self>, timers: &Timers<P>, when: Self::When) -> bool;

    /// [Cancels](Self::cancel) the timer and drops it in place, on the fast path: both in one step, if the lock can be
    /// taken without a call. Returns the waker of the timer.
    ///
    /// # Errors
    ///
    /// Returns the timer unchanged if this would cost as much as [`end`](Self::end).
    fn try_end_fast<'v, P: Platform>(
        living: Dropping<'v, Self>,
        timers: &Timers<P>,
    ) -> End<'v, Self, Option<Waker>>;

    /// Returns the waker that an idle timer keeps for its next start; `None` while the timer is queued.
    ///
    /// A start replaces this waker by its own.
    fn idle_waker(self: Pin<&mut Self>) -> Option<&mut Option<Waker>>;

    /// Returns the life-cycle state of the timer.
    #[doc(hidden)]
    fn state(&self) -> State;

    /// Returns true if the timer was never on a base.
    #[doc(hidden)]
    fn is_unbound(&self) -> bool;

    /// Locks the base of the executing CPU, and makes it the owner of an unbound timer.
    #[doc(hidden)]
    fn bind<'a, P: Platform>(
        self: Pin<&mut Self>,
        timers: &'a Timers<P>,
        me: ThisCpu<'a, P>,
    ) -> BaseGuard<'a, P>;

    /// Returns the waker slot if the timer is in the queue of the locked base that holds nearly all timers; `None` if
    /// the timer is in another queue.
    #[doc(hidden)]
    fn try_waker_fast<'a, P: Platform>(
        self: Pin<&'a Self>,
        guard: &'a mut BaseGuard<'_, P>,
    ) -> Option<&'a mut Option<Waker>>;

    /// Cancels and drops a timer of the locked base, which may be the base of any CPU. Returns the waker of the timer.
    ///
    /// # Errors
    ///
    /// As [`try_end_fast`](Self::try_end_fast).
    #[doc(hidden)]
    fn end_no_rearm<'v, P: Platform>(
        living: Dropping<'v, Self>,
        guard: &mut BaseGuard<'_, P>,
    ) -> End<'v, Self, Option<Waker>>;

    /// Locks the base that owns the timer.
    #[doc(hidden)]
    fn lock<'a, P: Platform>(
        self: Pin<&Self>,
        timers: &'a Timers<P>,
        me: Option<ThisCpu<'a, P>>,
    ) -> BaseGuard<'a, P>;

    /// Returns the waker slot of a timer of the locked base.
    #[doc(hidden)]
    fn waker<'a, P: Platform>(
        self: Pin<&'a Self>,
        guard: &'a mut BaseGuard<'_, P>,
    ) -> &'a mut Option<Waker>;

    /// Enqueues a timer of the locked base on the base on which it belongs.
    #[doc(hidden)]
    fn enqueue<'a, P: Platform>(
        self: Pin<&Self>,
        guard: &mut BaseGuard<'a, P>,
        when: Self::When,
        me: Option<ThisCpu<'a, P>>,
    );

    /// Dequeues a timer of the locked base if it is queued.
    #[doc(hidden)]
    fn dequeue<P: Platform>(
        self: Pin<&Self>,
        guard: &mut BaseGuard<'_, P>,
        me: Option<ThisCpu<'_, P>>,
    );

    /// Returns true if the timer is queued: it was started, and has neither fired nor been cancelled. Lock-free.
    #[inline]
    fn is_queued(&self) -> bool {
        self.state().is_queued()
    }

    /// Starts the timer, or restarts it if it is queued. When the timer fires, it wakes `waker`.
    ///
    /// Returns the previous waker of the timer.
    ///
    /// # Cost
    ///
    /// The cost of starting a timer of its kind.
    #[inline(never)]
    fn start<P: Platform>(
        mut self: Pin<&mut Self>,
        timers: &Timers<P>,
        when: Self::When,
        waker: Waker,
    ) -> Option<Waker> {
        let me = timers.platform.this_cpu();
        let mut guard = match me {
            // The lock is taken at once.
            Some(me) if self.as_ref().is_unbound() => self.as_mut().bind(timers, me),
            _ => self.as_ref().lock(timers, me),
        };
        let sleeper = self.as_ref();
        let old = sleeper.waker(&mut guard).replace(waker);
        sleeper.enqueue(&mut guard, when, me);
        old
    }

    /// Returns true if the timer is queued and would wake the task of `waker`; `None` if it is no longer queued.
    #[inline]
    fn will_wake<P: Platform>(self: Pin<&Self>, timers: &Timers<P>, waker: &Waker) -> Option<bool> {
        if !self.is_queued() {
            return None;
        }
        let mut guard = self.lock(timers, timers.platform.this_cpu());
        if !self.is_queued() {
            return None;
        }
        let waits_with = self.waker(&mut guard).as_ref();
        Some(waits_with.is_some_and(|old| old.will_wake(waker)))
    }

    /// Returns true if the fast path finds that the timer is queued on the executing CPU and would wake the task of
    /// `waker`. `false` means that the fast path could not determine it.
    ///
    /// # Cost
    ///
    /// One lock section of the owning base.
    // Always: a future that waits beside others is asked this whenever its task is woken.
    #[inline(always)]
    fn try_wakes_fast<P: Platform>(self: Pin<&Self>, timers: &Timers<P>, waker: &Waker) -> bool {
        let Some(me) = timers.platform.this_cpu_if_known() else {
            return false;
        };
        let Some(mut guard) = BaseGuard::try_lock_fast(timers, me) else {
            return false;
        };
        let kept = self
            .try_waker_fast(&mut guard)
            .and_then(|kept| kept.as_ref());
        kept.is_some_and(|kept| kept.will_wake(waker))
    }

    /// Replaces the waker by `waker`, and returns the previous waker.
    ///
    /// # Errors
    ///
    /// Returns `waker` if the timer has fired or was cancelled.
    fn set_waker<P: Platform>(
        self: Pin<&Self>,
        timers: &Timers<P>,
        waker: Waker,
    ) -> Result<Option<Waker>, Waker> {
        if !self.is_queued() {
            return Err(waker);
        }
        let mut guard = self.lock(timers, timers.platform.this_cpu());
        if !self.is_queued() {
            return Err(waker);
        }
        Ok(self.waker(&mut guard).replace(waker))
    }

    /// Cancels the timer and returns its waker. `None` if it is not queued.
    ///
    /// After the call the timer may be freed.
    #[inline(never)]
    fn cancel<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> Option<Waker> {
        if self.state().is_idle() {
            return None;
        }
        let me = timers.platform.this_cpu();
        let guard = self.lock(timers, me);
        self.cancel_locked(guard, me)
    }

    /// Cancels and drops the timer as [`try_end_fast`](Self::try_end_fast) does, on the slow path, which always
    /// succeeds.
    // Always: its caller is the call.
    #[inline(always)]
    fn end<'v, P: Platform>(
        living: Dropping<'v, Self>,
        timers: &Timers<P>,
    ) -> (Option<Waker>, Dropped<'v, Self>) {
        if living.as_ref().state().is_idle() {
            return (None, living.drop_in_place());
        }
        let me = timers.platform.this_cpu();
        let mut guard = living.as_ref().lock(timers, me);
        match Self::end_no_rearm(living, &mut guard) {
            Ok(ended) => ended,
            Err(living) => {
                let old = living.as_ref().cancel_locked(guard, me);
                (old, living.drop_in_place())
            }
        }
    }

    /// [Cancels](Self::cancel) a timer of the locked base.
    #[doc(hidden)]
    #[inline(never)]
    fn cancel_locked<P: Platform>(
        self: Pin<&Self>,
        mut guard: BaseGuard<'_, P>,
        me: Option<ThisCpu<'_, P>>,
    ) -> Option<Waker> {
        let old = self.waker(&mut guard).take();
        self.dequeue(&mut guard, me);
        old
    }
}

//! Sleepers, the timers that wake tasks: the common part of exact and coarse sleepers.
//!
//! Users call [`TaskTimer`]. [`Hooks`], implemented next to the type of each kind, defines how timers of that kind are
//! queued.

use core::pin::Pin;
use core::task::Waker;

use tickless_link::end::{Dropped, Dropping, End};

use crate::base::guard::BaseGuard;
use crate::base::timers::Timers;
use crate::platform::{Platform, ThisCpu};

pub(crate) use self::hooks::Hooks;

/// The text that dumps show in place of a callback for a timer that wakes a task.
pub const WAKES: &str = "wakes a task";

/// The member of an entry that wakes a task.
pub(crate) struct Wake;

/// A timer that wakes a task: an exact [`Sleeper`](crate::hrtimer::Sleeper) or a coarse
/// [`WheelSleeper`](crate::coarse::WheelSleeper).
///
/// A sleeper has no callback, so no operation on it waits. Operations return the wakers that they remove; the caller
/// drops these wakers, because dropping a waker may run foreign code.
pub trait TaskTimer: Hooks {
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
        let me = Self::executing_cpu(timers);
        let mut guard = match me {
            // The lock is taken at once.
            Some(me) if self.as_ref().is_unbound() => self.as_mut().bind(timers, me),
            _ => self.as_ref().lock(timers, me),
        };
        let sleeper = self.as_ref();
        let queue = sleeper.queue(&guard);
        let old = sleeper.waker(&mut guard, queue).replace(waker);
        sleeper.enqueue(&mut guard, queue, when, me);
        old
    }

    /// Restarts a queued timer and keeps its waker; returns `false` if it is no longer queued.
    ///
    /// # Cost
    ///
    /// The cost of restarting a queued timer of its kind.
    #[inline]
    fn restart<P: Platform>(self: Pin<&Self>, timers: &Timers<P>, when: Self::When) -> bool {
        self.requeue(timers, when)
    }

    /// Returns true if the timer is queued and would wake the task of `waker`; `None` if it is no longer queued.
    #[inline]
    fn will_wake<P: Platform>(self: Pin<&Self>, timers: &Timers<P>, waker: &Waker) -> Option<bool> {
        if !self.state().is_queued() {
            return None;
        }
        let mut guard = self.lock(timers, Self::executing_cpu(timers));
        if !self.state().is_queued() {
            return None;
        }
        let queue = self.queue(&guard);
        let waits_with = self.waker(&mut guard, queue).as_ref();
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
        if !self.state().is_queued() {
            return Err(waker);
        }
        let mut guard = self.lock(timers, Self::executing_cpu(timers));
        if !self.state().is_queued() {
            return Err(waker);
        }
        let queue = self.queue(&guard);
        Ok(self.waker(&mut guard, queue).replace(waker))
    }

    /// Cancels the timer and returns its waker. `None` if it is not queued.
    ///
    /// After the call the timer may be freed.
    #[inline(never)]
    fn cancel<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> Option<Waker> {
        if self.state().is_idle() {
            return None;
        }
        let me = Self::executing_cpu(timers);
        let guard = self.lock(timers, me);
        self.cancel_locked(guard, me)
    }

    /// [Cancels](Self::cancel) the timer and drops it in place, on the fast path: both in one step, if the lock can be
    /// taken without a call. Returns the waker of the timer.
    ///
    /// # Errors
    ///
    /// Returns the timer unchanged if the fast path cannot do it.
    // Always: every caller is a call of its own, and two in a row take a sixth more.
    #[inline(always)]
    fn try_end_fast<'v, P: Platform>(
        living: Dropping<'v, Self>,
        timers: &Timers<P>,
    ) -> End<'v, Self, Option<Waker>> {
        Self::try_end_local(living, timers)
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
        let me = Self::executing_cpu(timers);
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
        let queue = self.queue(&guard);
        let old = self.waker(&mut guard, queue).take();
        self.dequeue(&mut guard, queue, me);
        old
    }
}

impl<T: Hooks> TaskTimer for T {}

mod hooks {
    use core::pin::Pin;
    use core::task::Waker;

    use tickless_link::end::{Dropping, End};
    use tickless_link::entry::State;

    use crate::base::guard::BaseGuard;
    use crate::base::timers::Timers;
    use crate::platform::{Platform, ThisCpu};

    /// The queue operations of one kind of sleeper.
    pub trait Hooks: Sized {
        /// The time argument of `start`.
        type When: Copy;
        /// The identity of a queue of a base.
        type Queue: Copy;

        /// Returns the life-cycle state of the timer.
        fn state(&self) -> State;
        /// Returns true if the timer was never on a base.
        fn is_unbound(&self) -> bool;
        /// Returns the executing CPU.
        fn executing_cpu<P: Platform>(timers: &Timers<P>) -> Option<ThisCpu<'_, P>>;
        /// Locks the base of the executing CPU, and makes it the owner of an unbound timer.
        fn bind<'a, P: Platform>(
            self: Pin<&mut Self>,
            timers: &'a Timers<P>,
            me: ThisCpu<'a, P>,
        ) -> BaseGuard<'a, P>;
        /// Returns the waker slot if the timer is in the queue of the locked base that holds nearly all timers; `None`
        /// if the timer is in another queue.
        fn try_waker_fast<'a, P: Platform>(
            self: Pin<&'a Self>,
            guard: &'a mut BaseGuard<'_, P>,
        ) -> Option<&'a mut Option<Waker>>;
        /// Cancels and drops a timer of the executing CPU, and returns the waker of the timer.
        ///
        /// # Errors
        ///
        /// Returns the timer unchanged if this would cost as much as [`lock`](Self::lock) and
        /// [`dequeue`](Self::dequeue).
        fn try_end_local<'v, P: Platform>(
            living: Dropping<'v, Self>,
            timers: &Timers<P>,
        ) -> End<'v, Self, Option<Waker>>;
        /// Cancels and drops a timer of the locked base, which may be the base of any CPU. Returns the waker of the
        /// timer.
        ///
        /// # Errors
        ///
        /// As [`try_end_local`](Self::try_end_local).
        fn end_no_rearm<'v, P: Platform>(
            living: Dropping<'v, Self>,
            guard: &mut BaseGuard<'_, P>,
        ) -> End<'v, Self, Option<Waker>>;
        /// Locks the base that owns the timer.
        fn lock<'a, P: Platform>(
            self: Pin<&Self>,
            timers: &'a Timers<P>,
            me: Option<ThisCpu<'a, P>>,
        ) -> BaseGuard<'a, P>;
        /// Returns the queue of the locked base that owns the timer.
        fn queue<P: Platform>(self: Pin<&Self>, guard: &BaseGuard<'_, P>) -> Self::Queue;
        /// Returns the waker slot of the timer.
        fn waker<'a, P: Platform>(
            self: Pin<&'a Self>,
            guard: &'a mut BaseGuard<'_, P>,
            queue: Self::Queue,
        ) -> &'a mut Option<Waker>;
        /// Enqueues the timer on the base on which it belongs.
        fn enqueue<'a, P: Platform>(
            self: Pin<&Self>,
            guard: &mut BaseGuard<'a, P>,
            queue: Self::Queue,
            when: Self::When,
            me: Option<ThisCpu<'a, P>>,
        );
        /// Restarts the timer for another time if it is queued; otherwise returns false.
        fn requeue<P: Platform>(self: Pin<&Self>, timers: &Timers<P>, when: Self::When) -> bool;
        /// Dequeues the timer if it is queued.
        fn dequeue<P: Platform>(
            self: Pin<&Self>,
            guard: &mut BaseGuard<'_, P>,
            queue: Self::Queue,
            me: Option<ThisCpu<'_, P>>,
        );
    }
}

//! Timers that wake tasks: the common part of exact and coarse ones.
//!
//! [`TaskTimer`] is what users call. How each kind is queued is told by [`Hooks`], next to its type.

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
/// It has no callback, so no operation on it waits. The caller drops wakers that an operation returns, because dropping
/// one may run foreign code.
pub trait TaskTimer: Hooks {
    /// Starts the timer, or restarts it if it is queued. It wakes `waker` when it fires.
    ///
    /// Returns the waker that was there before.
    ///
    /// # Cost
    ///
    /// That of starting a timer of its kind.
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
    /// That of starting a queued timer of its kind.
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
    /// `waker`. `false` means that it did not find out.
    ///
    /// # Cost
    ///
    /// A lock section of its owner.
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

    /// Replaces the waker by `waker`, and returns the one before.
    ///
    /// # Errors
    ///
    /// The waker, when the timer fired or was cancelled.
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
    /// When this returns the timer may be freed.
    #[inline(never)]
    fn cancel<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> Option<Waker> {
        if self.state().is_idle() {
            return None;
        }
        let me = Self::executing_cpu(timers);
        let guard = self.lock(timers, me);
        self.cancel_locked(guard, me)
    }

    /// [Cancels](Self::cancel) the timer and drops it in its place, on the fast path: in one step, if the lock can be
    /// taken without a call. Returns the waker that the timer had.
    ///
    /// # Errors
    ///
    /// The timer, to which nothing was done, if it is not.
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

    /// Queue operations of one kind of timer that wakes a task.
    pub trait Hooks: Sized {
        /// Time argument of `start`.
        type When: Copy;
        /// Queue of a base.
        type Queue: Copy;

        /// The life cycle of the timer.
        fn state(&self) -> State;
        /// Returns true if it never was on a base.
        fn is_unbound(&self) -> bool;
        /// The CPU that executes.
        fn executing_cpu<P: Platform>(timers: &Timers<P>) -> Option<ThisCpu<'_, P>>;
        /// Locks the base of the executing CPU, and gives it a timer that is unbound.
        fn bind<'a, P: Platform>(
            self: Pin<&mut Self>,
            timers: &'a Timers<P>,
            me: ThisCpu<'a, P>,
        ) -> BaseGuard<'a, P>;
        /// Returns the waker slot, if the timer is queued where nearly all are on the locked base; `None` if it is
        /// elsewhere.
        fn try_waker_fast<'a, P: Platform>(
            self: Pin<&'a Self>,
            guard: &'a mut BaseGuard<'_, P>,
        ) -> Option<&'a mut Option<Waker>>;
        /// Cancels a timer of the executing CPU and ends it; the waker that it had.
        ///
        /// # Errors
        ///
        /// The timer, to which nothing was done, where that takes no less than [`lock`](Self::lock) and
        /// [`dequeue`](Self::dequeue).
        fn try_end_local<'v, P: Platform>(
            living: Dropping<'v, Self>,
            timers: &Timers<P>,
        ) -> End<'v, Self, Option<Waker>>;
        /// Cancels a timer of the locked base, whichever that is, and ends it; the waker that it had.
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
        /// Returns the waker slot.
        fn waker<'a, P: Platform>(
            self: Pin<&'a Self>,
            guard: &'a mut BaseGuard<'_, P>,
            queue: Self::Queue,
        ) -> &'a mut Option<Waker>;
        /// Queues it, on whichever base it belongs to.
        fn enqueue<'a, P: Platform>(
            self: Pin<&Self>,
            guard: &mut BaseGuard<'a, P>,
            queue: Self::Queue,
            when: Self::When,
            me: Option<ThisCpu<'a, P>>,
        );
        /// Gives it another time if it is queued; `false` if it is not.
        fn requeue<P: Platform>(self: Pin<&Self>, timers: &Timers<P>, when: Self::When) -> bool;
        /// Takes it out of its queue, if it is queued.
        fn dequeue<P: Platform>(
            self: Pin<&Self>,
            guard: &mut BaseGuard<'_, P>,
            queue: Self::Queue,
            me: Option<ThisCpu<'_, P>>,
        );
    }
}

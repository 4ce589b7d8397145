//! The runner, a thread that runs the expired timers of a base.

use core::task::Waker;

use tickless_link::lock::Guard;
use tickless_link::sync::Ordering;

use crate::base::cpu_base::CpuBase;
use crate::base::expirer::Expirer;
use crate::base::guard::BaseGuard;
use crate::base::overrun::Overrun;
use crate::base::timers::Timers;
use crate::platform::{Platform, ThisCpu};
use crate::trace::{Event, TimerId};

/// The thread that runs the expired timers of a base. The lock of the base is free while a callback runs.
pub(crate) struct Runner<'a, P: Platform> {
    pub(crate) timers: &'a Timers<P>,
    pub(crate) base: &'a CpuBase<P>,
    pub(crate) me: Option<ThisCpu<'a, P>>,
    expirer: &'a Expirer<P>,
    expiry: Option<Guard<'a, P::ExpiryLock, ()>>,
    pub(crate) fired: u32,
    is_soft: bool,
    /// True if a timer was restarted into the past in a pass that had already lasted for long; that timer is left for
    /// the next turn.
    pub(crate) leaves_late: bool,
    /// The last timer that was found to be overrun.
    pub(crate) overrun: Option<Overrun>,
}

/// The result of a pass over the queues of a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// All due timers were fired.
    All,
    /// The budget was used up, and due timers may be left.
    SomeOfThem,
}

/// The wakers of tasks whose timers fired in one section of the base lock, in the order of their firing.
///
/// To take the lock again for each timer would cost as much as to fire the timer. Each timer is idle when the lock is
/// released. So a task that is woken may see that other timers have fired too; their tasks are woken next.
pub(crate) struct Batch {
    wakers: [Option<Waker>; BATCH],
    len: usize,
}

/// The greatest number of wake-ups between two sections of the base lock. It bounds the delay of the first wake-up.
const BATCH: usize = 32;

impl Batch {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self {
            wakers: [const { None }; BATCH],
            len: 0,
        }
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) const fn is_full(&self) -> bool {
        self.len == BATCH
    }

    /// Calls `fill` to put wakers into the free places after the present wakers. `fill` returns the number of added
    /// wakers.
    #[inline]
    pub(crate) fn fill(&mut self, fill: impl FnOnce(&mut [Option<Waker>]) -> usize) {
        self.len += fill(&mut self.wakers[self.len..]);
    }

    /// Adds a waker. The batch must have a free place.
    #[inline]
    pub(crate) fn push(&mut self, waker: Option<Waker>) {
        let empty = core::mem::replace(&mut self.wakers[self.len], waker);
        debug_assert!(empty.is_none());
        // Nothing to be dropped, which would be asked for each of them.
        core::mem::forget(empty);
        self.len += 1;
    }

    /// Wakes all tasks of the batch, without the lock of the base.
    #[inline]
    pub(crate) fn wake_all<P: Platform>(&mut self, platform: &P) {
        let len = core::mem::take(&mut self.len);
        for waker in &mut self.wakers[..len] {
            if let Some(waker) = waker.take() {
                platform.wake(waker);
            }
        }
    }
}

impl<'a, P: Platform> Runner<'a, P> {
    pub(crate) fn new(
        timers: &'a Timers<P>,
        base: &'a CpuBase<P>,
        expirer: &'a Expirer<P>,
        soft: bool,
    ) -> Self {
        // The expiry lock comes before the base lock.
        let expiry = P::WAITING.sleeps(soft).then(|| expirer.lock.lock(None));
        Self {
            timers,
            base,
            me: timers.platform.this_cpu(),
            expirer,
            expiry,
            fired: 0,
            is_soft: soft,
            leaves_late: false,
            overrun: None,
        }
    }

    /// Returns the number of callbacks after which a turn over the exact queues ends.
    // Always: with equal budgets nothing is chosen.
    #[inline(always)]
    pub(crate) fn budget(&self) -> u32 {
        if self.is_soft {
            P::SOFT_BUDGET
        } else {
            P::EXPIRY_BUDGET
        }
    }

    pub(crate) fn lock(&self) -> BaseGuard<'a, P> {
        BaseGuard::lock(self.timers, self.base, self.me)
    }

    /// Returns true if threads wait for the callback that ran.
    #[inline]
    pub(crate) fn has_waiters(&self) -> bool {
        self.expirer.waiters.load(Ordering::Relaxed) != 0
    }

    /// Does the work between two callbacks without the lock of the base, and takes the lock again.
    // Always: else what is held goes through memory.
    #[inline(always)]
    pub(crate) fn after_callback(
        &mut self,
        held: BaseGuard<'a, P>,
        wakes: Option<Waker>,
    ) -> BaseGuard<'a, P> {
        if wakes.is_none() && !self.has_waiters() {
            return held;
        }
        self.between_callbacks(held, wakes)
    }

    #[cold]
    #[inline(never)]
    fn between_callbacks(
        &mut self,
        held: BaseGuard<'a, P>,
        wakes: Option<Waker>,
    ) -> BaseGuard<'a, P> {
        drop(held);
        self.let_waiters_in();
        self.wake(wakes);
        self.lock()
    }

    /// Wakes the task of a timer that has fired, and lets waiting cancellers run, without the lock of the base. Then
    /// takes the lock for the next timer.
    #[inline]
    pub(crate) fn after_wake_up(&mut self, wakes: Option<Waker>) -> BaseGuard<'a, P> {
        self.let_waiters_in();
        self.wake(wakes);
        self.lock()
    }

    /// Executes a callback of `timer`, without any lock.
    pub(crate) fn execute(&self, timer: TimerId, callback: &mut dyn FnMut()) {
        // Relaxed, here and below: written and read by this thread only, when a callback cancels its own timer. So it
        // needs no exchange, which waits for all stores before.
        let outer = self.me.map(|me| {
            let executing = &me.base.executing;
            let outer = executing.load(Ordering::Relaxed);
            executing.store(timer.0, Ordering::Relaxed);
            outer
        });
        self.timers.platform.call(callback);
        if let (Some(me), Some(outer)) = (self.me, outer) {
            me.base.executing.store(outer, Ordering::Relaxed);
        }
        if self.timers.platform.is_expiry_traced() {
            self.timers.platform.trace(Event::ExpireExit { timer });
        }
    }

    /// Lets threads that wait for a callback of this base continue before the next callback (spec CAN-6).
    fn let_waiters_in(&mut self) {
        if self.expiry.is_some() && self.has_waiters() {
            self.expiry = None;
            self.expiry = Some(self.expirer.lock.lock(None));
        }
    }

    fn wake(&self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.timers.platform.wake(waker);
        }
    }
}

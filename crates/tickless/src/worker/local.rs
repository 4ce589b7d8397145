//! A thread that runs its own timers: what workers and event loops have in common.

use std::marker::PhantomData;

use tickless_core::hierarchy::Leaving;
use tickless_core::time::Instant as CoreInstant;

use super::error::{IsolationError, StartError};
use crate::host::registry::timers;
use crate::host::remote::{housekeeping, publish, trees};
use crate::host::thread::{Kind, ThreadBase, at_earliest, turn_taken_by_this_thread, with_thread};
use crate::host::{device, idle, isolation, lifecycle, tick, turn};
use crate::time::Instant;

/// What becomes of global coarse timers that an isolated worker starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IsolatedTimers {
    /// They stay: the worker runs them itself. Arming is as cheap as always.
    #[default]
    Stay,
    /// They go to a worker that is not isolated, and fire there. Arming costs the lock of that worker's timers, and
    /// wakes it if it has to know.
    GoToHousekeeping,
}

/// What a turn did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "more may be due already"]
pub struct Turn {
    /// Timers that fired.
    pub fired: u32,
    /// When the next one does, if any.
    pub next: Option<Instant>,
    /// More is due already: the turn ended because it ran 4,096 callbacks. Take another soon.
    pub more: bool,
}

/// The timers of this thread, which a `Worker` or a `Driver` runs as long as it has this.
#[derive(Debug)]
pub(crate) struct LocalTimers {
    pub(crate) base: &'static ThreadBase,
    /// They belong to the thread.
    stays: PhantomData<*mut ()>,
}

impl LocalTimers {
    pub(crate) fn take(kind: Kind) -> Result<Self, StartError> {
        with_thread(|thread| {
            let base = lifecycle::enter(thread).ok_or(StartError::NoPlace)?;
            if base.local().kind() != Kind::Foreign {
                return Err(StartError::AlreadyTaken);
            }
            if kind == Kind::EventLoop {
                base.local().device.timerfd().map_err(StartError::Os)?;
            }
            base.local().set_kind(kind);
            trees::leave_foreign(base);
            if kind == Kind::Worker {
                trees::join(base);
                publish::republish_next_expiry(base);
            }
            let timers = Self {
                base,
                stays: PhantomData,
            };
            // It stands for what was started before, too.
            device::renew(base);
            thread.set_has_turns(true);
            Ok(timers)
        })
    }

    pub(crate) fn now(&self) -> CoreInstant {
        at_earliest()
    }

    /// A few loads and compares, and the clock. That others are to be looked after is noticed when the clock was
    /// compared with the kernel's, which is every 50 µs at the latest.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        with_thread(|thread| {
            let now = thread.reading.at_earliest();
            device::due(self.base) <= now || thread.reading.has_new_line() && self.look(now)
        })
    }

    #[cold]
    fn look(&self, now: CoreInstant) -> bool {
        turn::is_needed(self.base, now)
    }

    #[track_caller]
    pub(crate) fn turn(&self) -> Turn {
        assert_outside_of_callbacks();
        let done = turn::run_own(self.base, self.now());
        Turn {
            fired: done.fired,
            next: self.next_deadline(),
            more: done.more,
        }
    }

    /// Lets the worker go to sleep: until when it may. [`leave_idle`](Self::leave_idle) follows.
    pub(crate) fn enter_idle(&self) -> CoreInstant {
        timers().settle_armed(self.base.cpu());
        // Not what the base says: the device may be due for other reasons.
        let own = device::due_but_coarse(self.base);
        own.min(idle::enter(self.base, own))
    }

    /// Takes the worker out of those that look after each other, or puts it back.
    pub(crate) fn set_isolated(&self, isolated: bool) -> Result<(), IsolationError> {
        isolation::apply(self.base, isolated).map_err(|_| IsolationError::LastWorker)
    }

    pub(crate) fn set_isolated_timers(&self, policy: IsolatedTimers) {
        housekeeping::set_housekeeping_cpu(self.base, policy == IsolatedTimers::GoToHousekeeping);
    }

    pub(crate) fn is_isolated(&self) -> bool {
        !trees::takes_part(self.base)
    }

    /// The worker is awake.
    pub(crate) fn leave_idle(&self) {
        idle::leave(self.base);
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let mut next = timers().settle_armed(self.base.cpu());
        if !tick::first_due(self.base).is_forever() {
            next = next.min(tick::settle_first_due(self.base));
        }
        // What has no time of its own, as what the last turn left, is due at once.
        if device::due_but_coarse(self.base) < next {
            next = next.min(self.now());
        }
        (!next.is_forever()).then(|| Instant::from_core(next))
    }
}

impl Drop for LocalTimers {
    fn drop(&mut self) {
        let has_ended = with_thread(|thread| {
            thread.set_has_turns(false);
            thread.base().is_none()
        });
        if has_ended {
            // Leaked into what is dropped behind the thread's end: the base was given back.
            return;
        }
        let local = self.base.local();
        let was_event_loop = local.kind() == Kind::EventLoop;
        if !was_event_loop {
            housekeeping::set_housekeeping_cpu(self.base, false);
            isolation::end(self.base);
            let left = trees::leave(self.base, Leaving::Offline);
            debug_assert!(left.is_ok(), "a worker has joined: {left:?}");
        }
        // The thread lives on, so its timers stay; from here on the expiry thread comes for them.
        // Before the kind says so: the expiry thread, which may be finishing a turn for this base, publishes from then
        // on, and what it published outside of the tree would not be published again.
        trees::join_foreign(self.base);
        local.set_kind(Kind::Foreign);
        with_thread(|thread| thread.set_unattended(true));
        if was_event_loop {
            device::silence(self.base);
        }
        device::renew(self.base);
    }
}

/// Callbacks and wakers run inside of a turn.
#[inline]
#[track_caller]
pub(crate) fn assert_outside_of_callbacks() {
    assert!(
        turn_taken_by_this_thread().is_none(),
        "a thread cannot take a turn, park or block inside of a callback or waker: those run in its turn"
    );
}

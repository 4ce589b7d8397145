//! A thread that fires its own timers: the common part of workers and event loops.

use std::cell::Cell;
use std::marker::PhantomData;

use tickless_core::coarse::Tick;
use tickless_core::hierarchy::Leaving;
use tickless_core::time::Instant as CoreInstant;

use super::error::IsolationError;
use crate::host::isolation::state::Help;
use crate::host::registry::timers;
use crate::host::remote::{housekeeping, publish, trees};
use crate::host::thread::{
    ThreadBase, ThreadKind, now_lower, turn_taken_by_this_thread, with_thread,
};
use crate::host::{clock, device, idle, isolation, lifecycle, tick, turn};
use crate::start_error::StartError;
use crate::time::Instant;

/// The queue that receives the global coarse timers and the exact timers that an isolated worker starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IsolatedTimers {
    /// The timers stay on the isolated worker, which fires them itself. Arming costs nothing more.
    #[default]
    Stay,
    /// The timers move to a worker that is not isolated, and fire on it. The library prefers a worker that is awake,
    /// and on the same NUMA node. Arming costs the lock of that worker's timers, and a search among some workers if the
    /// last chosen worker sleeps. A coarse timer wakes the worker if the worker has to notice it. An exact timer stays
    /// on the isolated worker if it would be the first timer of the other worker, because a thread cannot program the
    /// sleep of another thread.
    GoToHousekeeping,
}

/// Enables or disables the moves of timers by [`IsolatedTimers`] for the whole process. If the moves are disabled, each
/// timer stays on the thread that starts it. They are enabled at first. Timers that are queued stay in their queue
/// until they are started again.
pub fn set_migration(enabled: bool) {
    timers().platform().set_migration(enabled);
}

/// Returns true if the moves of timers by [`IsolatedTimers`] are enabled.
#[must_use]
pub fn migration() -> bool {
    timers().platform().migration()
}

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "more may be due already"]
pub struct Turn {
    /// The number of timers that fired, including the timers that the background thread fired since the last turn
    /// because the thread took no turn in time.
    pub fired: u32,
    /// The deadline of the next timer; `None` if no timer is pending.
    pub next: Option<Instant>,
    /// True if more timers are due already: the turn ended because it ran 4,096 callbacks. Take another turn soon.
    pub more: bool,
}

/// The time of the first event at the last reading of the clock, and the counter value from which on this event may be
/// due.
///
/// Until the counter reaches this value, and while no other event is due first, a reading of the counter shows that
/// nothing is due: until then the clock does not deviate from the line that it follows ([`clock::cycles_at`]).
#[derive(Debug)]
struct NotDueBefore {
    exact: Cell<CoreInstant>,
    coarse: Cell<Option<Tick>>,
    until: Cell<u64>,
}

impl NotDueBefore {
    const fn unknown() -> Self {
        Self {
            exact: Cell::new(CoreInstant::FOREVER),
            coarse: Cell::new(None),
            until: Cell::new(0),
        }
    }

    #[inline]
    fn holds(&self, exact: CoreInstant, coarse: Option<Tick>) -> bool {
        exact == self.exact.get()
            && coarse == self.coarse.get()
            && clock::counter::read() < self.until.get()
    }

    fn note(&self, exact: CoreInstant, coarse: Option<Tick>) {
        let due = exact.min(coarse.map_or(CoreInstant::FOREVER, tick::instant_of));
        self.exact.set(exact);
        self.coarse.set(coarse);
        // Zero where each reading asks the kernel.
        self.until.set(clock::cycles_at(due).unwrap_or(0));
    }
}

/// The timers of this thread, which a `Worker` or a `Driver` runs as long as it has this value.
#[derive(Debug)]
pub(crate) struct LocalTimers {
    pub(crate) base: &'static ThreadBase,
    not_due_before: NotDueBefore,
    /// A marker that keeps the value on its thread.
    stays: PhantomData<*mut ()>,
}

impl LocalTimers {
    pub(crate) fn take(kind: ThreadKind) -> Result<Self, StartError> {
        with_thread(|thread| {
            let base = lifecycle::enter(thread).ok_or(StartError::NoPlace)?;
            if base.local().kind() != ThreadKind::Foreign {
                return Err(StartError::AlreadyTaken);
            }
            if kind == ThreadKind::EventLoop {
                base.local().device.timerfd().map_err(StartError::Os)?;
            }
            // Of a worker before.
            let _reported = base.local().remote.take_stuck_fired();
            base.local().set_kind(kind);
            trees::leave_foreign(base);
            if kind == ThreadKind::Worker {
                trees::join(base);
                publish::republish_next_expiry(base);
            }
            let timers = Self {
                base,
                not_due_before: NotDueBefore::unknown(),
                stays: PhantomData,
            };
            // It stands for what was started before, too.
            device::renew(base);
            thread.set_has_turns(true);
            Ok(timers)
        })
    }

    pub(crate) fn now(&self) -> CoreInstant {
        now_lower()
    }

    /// Returns true if the worker has something to do. The check takes a few loads, comparisons and a reading of the
    /// counter. The worker notices due timers of other workers when the clock is compared with the kernel's clock,
    /// which is every 50 µs at the latest.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let exact = device::due_but_coarse(self.base);
        let coarse = self.base.wheel_first_due();
        !self.not_due_before.holds(exact, coarse) && self.is_due_by_the_clock(exact, coarse)
    }

    #[inline(never)]
    fn is_due_by_the_clock(&self, exact: CoreInstant, coarse: Option<Tick>) -> bool {
        let is_due = with_thread(|thread| {
            let now = thread.reading.now_lower();
            exact <= now
                || coarse.is_some_and(|tick| tick::instant_of(tick) <= now)
                || thread.reading.has_new_line() && self.look(now)
        });
        if !is_due {
            self.not_due_before.note(exact, coarse);
        }
        is_due
    }

    /// Works as [`is_due`](Self::is_due), for a worker that is about to sleep. The worker is awake, so timers that may
    /// fire count as due, which saves the wake-up for them (spec OBJ-23).
    pub(crate) fn is_due_before_sleep(&self) -> bool {
        self.is_due() || self.base.may_fire_from() <= self.now()
    }

    /// Works as [`is_due`](Self::is_due), with a reading of the clock that the caller has.
    #[inline]
    pub(crate) fn is_due_at(&self, now: CoreInstant) -> bool {
        device::due(self.base) <= now
            || with_thread(|thread| thread.reading.has_new_line()) && self.look(now)
    }

    /// Takes a turn that leaves the rearm of the device to the caller, which flushes soon: a scheduler that is about to
    /// start timers itself.
    #[track_caller]
    pub(crate) fn turn_owing(&self, now: CoreInstant) {
        assert_outside_of_callbacks();
        // That more is due is seen when the caller looks next.
        let _more = turn::run_own_owing(self.base, now);
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

    /// Notes that the worker goes to sleep; returns the time until which it may sleep. The caller calls
    /// [`leave_idle`](Self::leave_idle) after the sleep.
    pub(crate) fn enter_idle(&self) -> CoreInstant {
        timers().settle_armed(self.base.cpu());
        // Not what the base says: the device may be due for other reasons.
        let own = device::due_but_coarse(self.base);
        own.min(idle::enter(self.base, own))
    }

    /// Removes the worker from the workers that fire each other's timers, or adds it again.
    pub(crate) fn set_isolated(&self, isolated: bool) -> Result<(), IsolationError> {
        isolation::apply(self.base, isolated).map_err(|_| IsolationError::LastWorker)
    }

    pub(crate) fn set_isolated_timers(&self, policy: IsolatedTimers) {
        housekeeping::set_housekeeping_cpu(self.base, policy == IsolatedTimers::GoToHousekeeping);
    }

    pub(crate) fn set_helped(&self, is_helped: bool) {
        let help = if is_helped { Help::Always } else { Help::Never };
        self.base.local().isolation.set_help(help);
        device::renew(self.base);
    }

    pub(crate) fn is_isolated(&self) -> bool {
        !trees::takes_part(self.base)
    }

    /// Notes that the worker is awake.
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
            // Leaked into what is dropped after the thread's end: the base was given back.
            return;
        }
        let local = self.base.local();
        let was_event_loop = local.kind() == ThreadKind::EventLoop;
        local.isolation.set_help(Help::UnlessIsolated);
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
        local.set_kind(ThreadKind::Foreign);
        with_thread(|thread| thread.set_unattended(true));
        if was_event_loop {
            device::silence(self.base);
        }
        device::renew(self.base);
    }
}

/// Panics if it is called in a callback or a waker, because these run inside of a turn.
#[inline]
#[track_caller]
pub(crate) fn assert_outside_of_callbacks() {
    assert!(
        turn_taken_by_this_thread().is_none(),
        "a thread cannot take a turn, park or block inside of a callback or waker: those run in its turn"
    );
}

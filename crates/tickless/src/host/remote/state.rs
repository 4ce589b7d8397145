//! The words of a base that other threads read and write to help its thread with timers.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use tickless_core::coarse::Tick;
use tickless_core::platform::CpuId;
use tickless_core::time::{Instant, Span};

use crate::host::doorbell::GRACE;

/// The state that a thread published: the due time of its wheel, the worker to which its global timers move, and the
/// reactor that rings for it.
#[derive(Debug)]
pub(crate) struct RemoteState {
    /// The first tick of the global wheel that was last published to the expiry thread, 0 if none.
    published: AtomicU64,
    /// The time until which the expiry thread does not check whether the worker is stuck, in nanoseconds.
    helped_until: AtomicI64,
    /// The time, in nanoseconds, by which the expiry thread wakes later than the first exact timer of a thread that
    /// fires its own timers: the grace, or 0 while the thread is stuck.
    lateness: AtomicI64,
    /// The time until which the expiry thread does not fire the exact timers of the thread, in nanoseconds.
    exact_not_before: AtomicI64,
    /// The time from which on the thread is stuck, in nanoseconds. Only the expiry thread uses it.
    stuck_since: AtomicI64,
    /// True while the thread takes a turn of its own.
    is_in_turn: AtomicBool,
    /// The number of timers that other threads fired in a turn for this thread.
    pulled: AtomicU64,
    /// The number of exact timers that the expiry thread fired in place of the thread.
    stuck_fired: AtomicU64,
    /// The number of these exact timers that no turn of the thread has reported yet.
    stuck_unreported: AtomicU32,
    /// The worker to which the global coarse timers of this worker move; [`NO_CPU`](Self::NO_CPU) if they stay.
    housekeeping_cpu: AtomicU32,
    /// The reactor that rings for this foreign thread; 0 if only the expiry thread fires its timers.
    reactor: AtomicU32,
}

impl RemoteState {
    const NO_CPU: u32 = u32::MAX;

    pub(crate) fn new() -> Self {
        Self {
            published: AtomicU64::new(0),
            helped_until: AtomicI64::new(0),
            lateness: AtomicI64::new(GRACE),
            exact_not_before: AtomicI64::new(0),
            stuck_since: AtomicI64::new(0),
            is_in_turn: AtomicBool::new(false),
            pulled: AtomicU64::new(0),
            stuck_fired: AtomicU64::new(0),
            stuck_unreported: AtomicU32::new(0),
            housekeeping_cpu: AtomicU32::new(Self::NO_CPU),
            reactor: AtomicU32::new(0),
        }
    }

    /// Returns the number of the reactor that rings for this foreign thread; `None` if only the expiry thread fires its
    /// timers.
    #[inline]
    pub(crate) fn reactor(&self) -> Option<NonZeroU32> {
        // Relaxed: the thread reads its own word; others read it with the base locked, or send a kick afterwards if it
        // changed.
        NonZeroU32::new(self.reactor.load(Ordering::Relaxed))
    }

    /// Sets the reactor. Called with the base locked, or while no timer of the base can be published.
    pub(crate) fn set_reactor(&self, reactor: Option<NonZeroU32>) {
        // Relaxed: see `reactor`.
        self.reactor
            .store(reactor.map_or(0, NonZeroU32::get), Ordering::Relaxed);
    }

    /// Returns the tick that was last published to the expiry thread.
    #[inline]
    pub(super) fn published(&self) -> Tick {
        // Relaxed: for the thread of the base; another one that starts a timer there tells the expiry thread each time.
        Tick(self.published.load(Ordering::Relaxed))
    }

    pub(super) fn set_published(&self, due: Tick) {
        // Relaxed: see `published`.
        self.published.store(due.0, Ordering::Relaxed);
    }

    /// Returns the time until which the expiry thread does not check the worker again.
    pub(super) fn helped_until(&self) -> Instant {
        // Relaxed: the expiry thread's own.
        Instant::from_nanos(self.helped_until.load(Ordering::Relaxed))
    }

    pub(super) fn set_helped_until(&self, until: Instant) {
        // Relaxed: the expiry thread's own.
        self.helped_until.store(until.as_nanos(), Ordering::Relaxed);
    }

    /// Returns the time by which the expiry thread wakes later than the first exact timer.
    #[inline]
    pub(crate) fn lateness(&self) -> Span {
        // Relaxed: a hint; an expiry thread that comes a grace later than it could still comes.
        Span::from_nanos(self.lateness.load(Ordering::Relaxed).unsigned_abs())
    }

    /// Returns whether the thread took no turn since the expiry thread fired its exact timers.
    pub(super) fn is_stuck(&self) -> bool {
        self.lateness().is_zero()
    }

    /// Marks the thread as stuck. From then on the expiry thread fires its timers in time.
    pub(super) fn set_stuck(&self, fired: u32) {
        // Relaxed, all: see `lateness`; and counts, of which the thread is told by the wake-up that follows.
        self.lateness.store(0, Ordering::Relaxed);
        self.stuck_unreported.fetch_add(fired, Ordering::Relaxed);
        self.stuck_fired
            .fetch_add(u64::from(fired), Ordering::Relaxed);
    }

    /// Returns the time from which on the thread is stuck.
    pub(super) fn stuck_since(&self) -> Instant {
        // Relaxed, here and below: the expiry thread's own.
        Instant::from_nanos(self.stuck_since.load(Ordering::Relaxed))
    }

    pub(super) fn set_stuck_since(&self, since: Instant) {
        self.stuck_since.store(since.as_nanos(), Ordering::Relaxed);
    }

    /// Counts timers that another thread fired in a turn for this thread.
    pub(super) fn count_pulled(&self, fired: u32) {
        if fired > 0 {
            // Relaxed: a count.
            self.pulled.fetch_add(u64::from(fired), Ordering::Relaxed);
        }
    }

    /// Returns the number of timers that other threads fired for this thread, including the times when it was stuck.
    pub(crate) fn pulled(&self) -> u64 {
        // Relaxed: a count.
        self.pulled.load(Ordering::Relaxed) + self.stuck_fired()
    }

    /// Returns the number of exact timers that the expiry thread fired in place of the thread.
    pub(crate) fn stuck_fired(&self) -> u64 {
        // Relaxed: a count.
        self.stuck_fired.load(Ordering::Relaxed)
    }

    /// Returns the number of timers that the expiry thread fired for the thread since the thread's last call, and
    /// resets it.
    #[inline]
    pub(crate) fn take_stuck_fired(&self) -> u32 {
        // Relaxed, both: see `set_stuck`. Loaded first, because it is 0 as a rule.
        if self.stuck_unreported.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.stuck_unreported.swap(0, Ordering::Relaxed)
    }

    /// Begins a turn of the thread itself.
    pub(in crate::host) fn begin_turn(&self) {
        // Relaxed: see `is_in_turn`.
        self.is_in_turn.store(true, Ordering::Relaxed);
    }

    /// Ends a turn of the thread itself, which is then not stuck.
    pub(in crate::host) fn end_turn(&self) {
        // Relaxed, both: see `is_in_turn` and `lateness`.
        self.is_in_turn.store(false, Ordering::Relaxed);
        self.lateness.store(GRACE, Ordering::Relaxed);
    }

    /// Returns whether the thread takes a turn of its own. Then the expiry thread does not fire its timers, however
    /// long a callback takes.
    pub(super) fn is_in_turn(&self) -> bool {
        // Relaxed: a hint. An expiry thread that comes while a turn begins waits for its callbacks at the expiry lock.
        self.is_in_turn.load(Ordering::Relaxed)
    }

    /// Returns the time until which the expiry thread does not fire the exact timers.
    pub(super) fn exact_not_before(&self) -> Instant {
        // Relaxed: the expiry thread's own.
        Instant::from_nanos(self.exact_not_before.load(Ordering::Relaxed))
    }

    pub(super) fn set_exact_not_before(&self, until: Instant) {
        // Relaxed: the expiry thread's own.
        self.exact_not_before
            .store(until.as_nanos(), Ordering::Relaxed);
    }

    /// Returns the worker to which the global coarse timers of this worker move; `None` if they stay.
    #[inline]
    pub(super) fn housekeeping_cpu(&self) -> Option<CpuId> {
        // Relaxed: a wish, and wherever a timer goes it is found.
        match self.housekeeping_cpu.load(Ordering::Relaxed) {
            Self::NO_CPU => None,
            number => Some(CpuId(number)),
        }
    }

    pub(super) fn set_housekeeping_cpu(&self, cpu: Option<CpuId>) {
        let number = cpu.map_or(Self::NO_CPU, |cpu| cpu.0);
        // Relaxed: see `housekeeping_cpu`.
        self.housekeeping_cpu.store(number, Ordering::Relaxed);
    }
}

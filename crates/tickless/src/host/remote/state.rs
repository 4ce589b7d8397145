//! The words of a base through which threads help each other with coarse timers.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use tickless_core::coarse::Tick;
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;

/// What a thread published of its wheels, to which worker its global timers go, and which reactor rings for it.
#[derive(Debug)]
pub(crate) struct RemoteState {
    /// The first tick of the global wheel for which the expiry thread was last told to come, 0 if none.
    published: AtomicU64,
    /// Until when the expiry thread does not look whether the worker is stuck, in nanoseconds.
    helped_until: AtomicI64,
    /// The worker that gets the global coarse timers that this one starts; [`NO_CPU`](Self::NO_CPU) if they stay.
    housekeeping_cpu: AtomicU32,
    /// The reactor that rings for this foreign thread, 0 if the expiry thread alone comes.
    reactor: AtomicU32,
}

impl RemoteState {
    const NO_CPU: u32 = u32::MAX;

    pub(crate) fn new() -> Self {
        Self {
            published: AtomicU64::new(0),
            helped_until: AtomicI64::new(0),
            housekeeping_cpu: AtomicU32::new(Self::NO_CPU),
            reactor: AtomicU32::new(0),
        }
    }

    /// The number of the reactor that rings for this foreign thread; `None` if the expiry thread alone comes.
    #[inline]
    pub(crate) fn reactor(&self) -> Option<NonZeroU32> {
        // Relaxed: the thread reads its own word; others read it with the base locked, or send a kick afterwards if it
        // changed.
        NonZeroU32::new(self.reactor.load(Ordering::Relaxed))
    }

    /// Called with the base locked, or while no timer can be published from it.
    pub(crate) fn set_reactor(&self, reactor: Option<NonZeroU32>) {
        // Relaxed: see `reactor`.
        self.reactor
            .store(reactor.map_or(0, NonZeroU32::get), Ordering::Relaxed);
    }

    /// The tick for which the expiry thread was last told to come.
    #[inline]
    pub(super) fn published(&self) -> Tick {
        // Relaxed: for the thread of the base; another one that starts a timer there tells the expiry thread each time.
        Tick(self.published.load(Ordering::Relaxed))
    }

    pub(super) fn set_published(&self, due: Tick) {
        // Relaxed: see `published`.
        self.published.store(due.0, Ordering::Relaxed);
    }

    /// Until when the expiry thread does not look again.
    pub(super) fn helped_until(&self) -> Instant {
        // Relaxed: the expiry thread's own.
        Instant::from_nanos(self.helped_until.load(Ordering::Relaxed))
    }

    pub(super) fn set_helped_until(&self, until: Instant) {
        // Relaxed: the expiry thread's own.
        self.helped_until.store(until.as_nanos(), Ordering::Relaxed);
    }

    /// The worker that gets the global coarse timers of this one, `None` if they stay.
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

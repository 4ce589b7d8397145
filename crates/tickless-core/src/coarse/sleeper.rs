//! Coarse timers that wake tasks.

use core::fmt;
use core::pin::Pin;
use core::task::Waker;

use tickless_link::const_unless_loom;
use tickless_link::emplace;
use tickless_link::end::{Dropping, End};
use tickless_link::entry::{Always, Entry, EntryRef, Expiry, Member, Owner, State};
use tickless_link::lazy_init::{Stage, Vacant};

use crate::base::guard::BaseGuard;
use crate::base::owner::kind_of;
use crate::base::sleeper::{TimerQueue, WAKES, Wake};
use crate::base::timers::Timers;
use crate::coarse::modify::Modify;
use crate::platform::{Platform, ThisCpu};
use crate::restart::Restart;
use crate::slots::geometry::Tick;
use crate::start_outcome::StartOutcome;
use crate::time::Instant;
use crate::wheel::cpu_wheel::Now;
use crate::wheel::family::{Coarse, ExpiryTick, Timeout, WheelKind};

impl Member<Coarse> for Wake {
    /// Waker of the task; `None` once the timer fired (spec SLP-1).
    type Guarded = Option<Waker>;

    const EXPIRY: Always<Self::Guarded, Option<Waker>> = Always::TAKEN;

    fn name() -> &'static str {
        WAKES
    }

    #[inline]
    fn expire(waker: &mut Option<Waker>) -> Expiry<Option<Waker>> {
        // As for the exact ones: idle before the task is woken, so that may free the timer at once.
        Expiry::Done(waker.take())
    }

    fn call(&mut self, _timeout: &mut Timeout) -> Restart {
        Restart::No
    }
}

/// A coarse timer that wakes a task; futures contain one.
///
/// A sleeper has no callback, so its deletion never waits.
///
/// Cost: 64 bytes on 64-bit targets.
pub struct WheelSleeper {
    entry: Entry<Coarse, Wake>,
}

tickless_link::project_entry!([] WheelSleeper [] entry: Entry<Coarse, Wake>);

impl WheelSleeper {
    const_unless_loom! {
        /// Makes an idle timer for the wheel of `kind`.
        #[must_use]
        pub const fn new(kind: WheelKind) -> Self {
            Self { entry: Entry::new((), kind, (), ExpiryTick::new(), None, Wake) }
        }
    }

    #[inline]
    pub(crate) fn erase(self: Pin<&Self>) -> EntryRef<'_, Coarse> {
        self.entry().erase()
    }
}

impl fmt::Debug for WheelSleeper {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("WheelSleeper")
            .field(&self.entry)
            .finish()
    }
}

impl TimerQueue for WheelSleeper {
    const IS_EXACT: bool = false;

    /// The tick in progress, and the tick that must be over when the timer fires.
    type When = (Tick, Tick);

    /// Makes a timer that is not pinned: a CPU that starts it or moves it takes it to its own wheel.
    #[inline]
    fn new() -> Self {
        Self::new(WheelKind::Global)
    }

    #[inline]
    fn when(_times: (Instant, Instant), ticks: (Tick, Tick)) -> (Tick, Tick) {
        ticks
    }

    #[inline(always)]
    fn start_new<P: Platform, N, S: Stage>(
        place: Vacant<'_, N, S, Self>,
        (note, stage): (N, S),
        timers: &Timers<P>,
        _times: (Instant, Instant),
        ticks: (impl Now, Tick),
        waker: Waker,
    ) -> Result<bool, Waker> {
        let Some(me) = timers.platform.this_cpu_if_known() else {
            return Err(waker);
        };
        let (kind, expiry) = (WheelKind::Global, ExpiryTick::of(ticks.1));
        timers.start_new(
            #[inline(always)]
            |waker| {
                let (kept, sleeper) = place.fill(
                    stage,
                    #[inline(always)]
                    |slot| {
                        emplace!(slot => Self {
                            ;
                            entry <- #[inline(always)] |entry| {
                                Entry::emplace(entry, (), kind, (), expiry, Some(waker), Wake)
                            },
                        })
                    },
                );
                *kept = note;
                sleeper.entry_mut()
            },
            kind,
            me,
            ticks,
            waker,
        )
    }

    /// Moves a timer that can stay in its slot; see
    /// [`WheelTimer::modify_in_slot`](crate::coarse::WheelTimer::modify_in_slot).
    #[inline]
    fn restart_in_place<P: Platform>(
        self: Pin<&Self>,
        timers: &Timers<P>,
        _times: (Instant, Instant),
        tick: Tick,
    ) -> bool {
        timers.modify_in_slot(self.erase(), tick)
    }

    #[inline]
    fn idle_waker(self: Pin<&mut Self>) -> Option<&mut Option<Waker>> {
        self.entry_mut().guarded_mut()
    }

    #[inline]
    fn state(&self) -> State {
        self.entry.state()
    }

    #[inline]
    fn is_unbound(&self) -> bool {
        self.entry.owner() == Owner::Unbound
    }

    #[inline]
    fn bind<'a, P: Platform>(
        self: Pin<&mut Self>,
        timers: &'a Timers<P>,
        me: ThisCpu<'a, P>,
    ) -> BaseGuard<'a, P> {
        let guard = BaseGuard::lock_own(timers, me);
        let kind = self.entry.tag();
        self.entry_mut()
            .bind(&guard.state.wheels[kind as usize].buckets);
        guard
    }

    /// Returns the waker slot of a timer that is on the wheel for which the timer was made.
    #[inline(always)]
    fn try_waker_fast<'a, P: Platform>(
        self: Pin<&'a Self>,
        guard: &'a mut BaseGuard<'_, P>,
    ) -> Option<&'a mut Option<Waker>> {
        let buckets = &mut guard.state.wheels[self.entry.tag() as usize].buckets;
        // An idle one belongs there still, and keeps a waker for the next time.
        let is_queued = self.entry.state().is_queued();
        self.entry().guarded(buckets).filter(|_| is_queued)
    }

    // Always, as what calls it.
    #[inline(always)]
    fn try_end_fast<'v, P: Platform>(
        living: Dropping<'v, Self>,
        timers: &Timers<P>,
    ) -> End<'v, Self, Option<Waker>> {
        Self::end_entry(
            living,
            #[inline(always)]
            |entry| timers.end_own(entry),
        )
    }

    #[inline(always)]
    fn end_no_rearm<'v, P: Platform>(
        living: Dropping<'v, Self>,
        guard: &mut BaseGuard<'_, P>,
    ) -> End<'v, Self, Option<Waker>> {
        let timers = guard.timers;
        let kind = living.as_ref().entry.tag();
        Self::end_entry(
            living,
            #[inline(always)]
            |entry| timers.end_locked(guard, entry, kind),
        )
    }

    // Always: sleeps are dropped by other threads all the time where tasks move.
    #[inline(always)]
    fn lock<'a, P: Platform>(
        self: Pin<&Self>,
        timers: &'a Timers<P>,
        me: Option<ThisCpu<'a, P>>,
    ) -> BaseGuard<'a, P> {
        timers.lock_base_of(self.erase(), me)
    }

    #[inline]
    fn waker<'a, P: Platform>(
        self: Pin<&'a Self>,
        guard: &'a mut BaseGuard<'_, P>,
    ) -> &'a mut Option<Waker> {
        let kind = kind_of(guard, self.erase());
        let buckets = &mut guard.state.wheels[kind as usize].buckets;
        self.entry()
            .guarded(buckets)
            .expect("the wheel that owns the timer is locked")
    }

    #[inline]
    fn enqueue<'a, P: Platform>(
        self: Pin<&Self>,
        guard: &mut BaseGuard<'a, P>,
        times: (Tick, Tick),
        me: Option<ThisCpu<'a, P>>,
    ) {
        let (timers, kind) = (guard.timers, kind_of(guard, self.erase()));
        timers.modify_locked(guard, self.erase(), kind, times, me);
    }

    #[inline]
    fn restart<P: Platform>(
        self: Pin<&Self>,
        timers: &Timers<P>,
        (now, expiry): (Tick, Tick),
    ) -> bool {
        timers.modify_entry(self.erase(), Modify::IfActive, now, expiry) == StartOutcome::Restarted
    }

    #[inline]
    fn dequeue<P: Platform>(
        self: Pin<&Self>,
        guard: &mut BaseGuard<'_, P>,
        _me: Option<ThisCpu<'_, P>>,
    ) {
        let kind = kind_of(guard, self.erase());
        guard.timers.dequeue(guard, self.erase(), kind);
    }
}

#[cfg(all(not(any(loom, shuttle)), target_pointer_width = "64"))]
const _: () = assert!(size_of::<WheelSleeper>() == 64);

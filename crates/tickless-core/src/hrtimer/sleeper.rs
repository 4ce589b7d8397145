//! Exact timers that wake tasks.

use core::fmt;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::Waker;

use tickless_link::const_unless_loom;
use tickless_link::emplace;
use tickless_link::end::{Dropping, End};
use tickless_link::entry::{Always, Entry, EntryRef, Expiry, Member, Owner, State};
use tickless_link::lazy_init::{Stage, Vacant};

use crate::base::guard::BaseGuard;
use crate::base::sleeper::{TimerQueue, WAKES, Wake};
use crate::base::timers::Timers;
use crate::exact::family::{ExpiryRange, Firing, Hr, Placement, Tag, Times};
use crate::hrtimer::timer::{Setup, Start};
use crate::platform::{Platform, ThisCpu};
use crate::restart::Restart;
use crate::slots::geometry::Tick;
use crate::start_outcome::StartError;
use crate::time::{ClockId, Deadline, Instant, Monotonic};
use crate::trace::StartMode;
use crate::wheel::cpu_wheel::Now;

impl Member<Hr> for Wake {
    /// Waker of the task; `None` once the timer fired (spec SLP-1).
    type Guarded = Option<Waker>;

    const EXPIRY: Always<Self::Guarded, Option<Waker>> = Always::TAKEN;

    fn name() -> &'static str {
        WAKES
    }

    #[inline]
    fn expire(waker: &mut Option<Waker>) -> Expiry<Option<Waker>> {
        // Taken under the lock: the timer is idle before its task is woken, so no thread ever waits for a wake-up to
        // end, and the woken task may free the timer at once.
        Expiry::Done(waker.take())
    }

    fn call(&mut self, _firing: &mut Firing<'_>) -> Restart {
        Restart::No
    }
}

/// A timer that wakes a task; futures contain one (spec, "sleepers").
///
/// A sleeper has no callback, so its cancellation never waits.
///
/// Cost: 96 bytes on 64-bit targets.
pub struct Sleeper<C = Monotonic> {
    entry: Entry<Hr, Wake>,
    clock: PhantomData<fn() -> C>,
}

tickless_link::project_entry!([C] Sleeper<C> [C: 'static] entry: Entry<Hr, Wake>);

impl<C: ClockId> Sleeper<C> {
    const_unless_loom! {
        /// Makes an idle timer that fires in the hard stage.
        #[must_use]
        pub const fn new() -> Self {
            Self::with_setup(Setup::new())
        }
    }

    const_unless_loom! {
        /// Makes an idle timer that fires at its deadline, and also whenever its clock is set: see
        /// [`Setup::fire_on_clock_set`]. The woken task finds out from the host which of the two happened.
        #[must_use]
        pub const fn new_for_clock_sets() -> Self {
            Self::with_setup(Setup::new().fire_on_clock_set())
        }
    }

    const_unless_loom! {
        const fn with_setup(setup: Setup) -> Self {
            let tag = Self::tag(setup);
            Self {
                entry: Entry::new(Deadline::FOREVER, tag, ExpiryRange::IDLE, (), None, Wake),
                clock: PhantomData,
            }
        }
    }

    const fn tag(setup: Setup) -> Tag {
        setup.leaving_early().tag::<C>(false)
    }

    /// Locks the base of the executing CPU, if the sleeper seems to be in its far wheel and the lock can be taken
    /// without a call.
    #[inline(always)]
    fn try_guard_fast<'a, P: Platform>(
        self: Pin<&Self>,
        timers: &'a Timers<P>,
    ) -> Option<BaseGuard<'a, P>> {
        let me = timers.platform.this_cpu_if_known()?;
        if self.entry.owner_behind(me.base.far_queue()) != 0 {
            // Another thread armed it, as a rule: its lock is needed, and not this CPU's.
            return None;
        }
        BaseGuard::try_lock_fast(timers, me)
    }

    #[inline]
    pub(crate) fn erase(self: Pin<&Self>) -> EntryRef<'_, Hr> {
        self.entry().erase()
    }
}

impl<C: ClockId> Default for Sleeper<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> fmt::Debug for Sleeper<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Sleeper").field(&self.entry).finish()
    }
}

impl<C: ClockId> TimerQueue<C> for Sleeper<C> {
    const IS_EXACT: bool = true;

    type When = Start<C>;

    #[inline]
    fn new() -> Self {
        Self::new()
    }

    #[inline]
    fn when((earliest, latest): (Instant<C>, Instant<C>), _ticks: (Tick, Tick)) -> Start<C> {
        Start::at(earliest).slack(latest.saturating_since(earliest))
    }

    // As `restart_in_place`.
    #[inline(always)]
    fn start_new<P: Platform, N, S: Stage>(
        place: Vacant<'_, N, S, Self>,
        (note, stage): (N, S),
        timers: &Timers<P>,
        (earliest, latest): (Instant<C>, Instant<C>),
        _ticks: (impl Now, Tick),
        waker: Waker,
    ) -> Result<bool, Waker> {
        let Some(me) = timers.platform.this_cpu_if_known() else {
            return Err(waker);
        };
        let tag = Self::tag(Setup::new());
        if !tag.may_stand_far() {
            return Err(waker);
        }
        let Some(mut guard) = BaseGuard::try_lock_fast(timers, me) else {
            return Err(waker);
        };
        // As in `restart_in_place`.
        let times = (Deadline::plain(earliest), Deadline::plain(latest));
        let (Some(earliest), Some(latest)) = times else {
            return Err(waker);
        };
        let (times, mode) = ((earliest, latest), StartMode::default());
        let head = ExpiryRange::new(earliest, latest);
        let Some(bucket) = timers.far_place(&mut guard, head, mode, me) else {
            return Err(waker);
        };
        let (kept, mut sleeper) = place.fill(
            stage,
            #[inline(always)]
            |slot| {
                emplace!(slot => Self {
                    clock: PhantomData;
                    entry <- #[inline(always)] |entry| {
                        Entry::emplace(entry, Deadline::FOREVER, tag, head, (), Some(waker), Wake)
                    },
                })
            },
        );
        *kept = note;
        if !guard
            .state
            .far
            .enqueue_unbound(sleeper.as_mut().entry_mut(), bucket)
        {
            // Cannot be: it was just made, and the wheel has the place.
            let kept = sleeper.idle_waker().and_then(Option::take);
            return kept.map_or(Ok(false), Err);
        }
        guard.note_enqueued_far(sleeper.as_ref().erase(), times, mode);
        Ok(false)
    }

    /// Moves a sleeper in the far wheel, whose bucket is due before the new times too.
    // Always: without slack, which callers know, it is a third less.
    #[inline(always)]
    fn restart_in_place<P: Platform>(
        self: Pin<&Self>,
        timers: &Timers<P>,
        (earliest, latest): (Instant<C>, Instant<C>),
        _tick: Tick,
    ) -> bool {
        if !Self::tag(Setup::new()).leaves_early() {
            return false;
        }
        let Some(me) = timers.platform.this_cpu_if_known() else {
            return false;
        };
        let Some(mut held) = BaseGuard::try_lock_fast(timers, me) else {
            return false;
        };
        // After the stores of the lock: before them, the compiler makes one question of this and the others.
        let times = (Deadline::plain(earliest), Deadline::plain(latest));
        let (Some(earliest), Some(latest)) = times else {
            return false;
        };
        // In the far wheel each sleeper leaves the device early.
        let mode = StartMode::default();
        timers.push_out(&mut held, self.erase(), (earliest, latest), mode, me)
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
        let index = self.entry.tag().queue();
        self.entry_mut().bind(&guard.state.queues[index].tree);
        guard
    }

    // Always, as what calls it.
    #[inline(always)]
    fn try_end_fast<'v, P: Platform>(
        living: Dropping<'v, Self>,
        timers: &Timers<P>,
    ) -> End<'v, Self, Option<Waker>> {
        match living.as_ref().try_guard_fast(timers) {
            Some(mut guard) => Self::end_no_rearm(living, &mut guard),
            None => Err(living),
        }
    }

    /// Checks the far wheel, which holds nearly all timers for which this function is called.
    #[inline(always)]
    fn try_waker_fast<'a, P: Platform>(
        self: Pin<&'a Self>,
        guard: &'a mut BaseGuard<'_, P>,
    ) -> Option<&'a mut Option<Waker>> {
        self.entry().guarded(guard.state.far.buckets_mut())
    }

    #[inline(always)]
    fn end_no_rearm<'v, P: Platform>(
        living: Dropping<'v, Self>,
        guard: &mut BaseGuard<'_, P>,
    ) -> End<'v, Self, Option<Waker>> {
        let timer = living.as_ref().erase().address();
        let far = &mut guard.state.far;
        let (waker, ended) = Self::end_entry(
            living,
            #[inline(always)]
            |entry| far.end(entry),
        )?;
        guard.note_taken_far(timer);
        Ok((waker, ended))
    }

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
        let entry = self.erase();
        let state = &mut *guard.state;
        if state.far.open(entry).is_some() {
            self.entry().guarded(state.far.buckets_mut())
        } else {
            let index = entry.tag().queue();
            self.entry().guarded(&mut state.queues[index].tree)
        }
        .expect("the base that owns the timer is locked")
    }

    #[inline]
    fn enqueue<'a, P: Platform>(
        self: Pin<&Self>,
        guard: &mut BaseGuard<'a, P>,
        start: Start<C>,
        me: Option<ThisCpu<'a, P>>,
    ) {
        let entry = self.erase();
        let timers = guard.timers;
        let times = timers.resolve(entry, &start.request);
        let _always =
            timers.start_locked(guard, entry, entry.state(), times, start.request.mode, me);
    }

    #[inline]
    fn restart<P: Platform>(self: Pin<&Self>, timers: &Timers<P>, start: Start<C>) -> bool {
        let entry = self.erase();
        if entry.state().is_idle() {
            return false;
        }
        let times = timers.resolve(entry, &start.request);
        let mode = start.request.mode;
        timers.start_sleeper(entry, times, mode)
    }

    #[inline]
    fn dequeue<P: Platform>(
        self: Pin<&Self>,
        guard: &mut BaseGuard<'_, P>,
        me: Option<ThisCpu<'_, P>>,
    ) {
        guard.timers.remove(guard, self.erase(), me);
    }
}

impl<P: Platform> BaseGuard<'_, P> {
    /// Notes that a sleeper was removed from the far wheel. The removal does not write the device: see
    /// `Timers::remove`.
    #[inline(always)]
    fn note_taken_far(&mut self, timer: usize) {
        if self.state.first_hint == timer {
            self.state.armed_early = true;
        }
        self.timers.note_cancelled(self, timer);
    }

    /// Notes the start of an idle timer that was enqueued in the far wheel.
    #[inline(always)]
    pub(super) fn note_enqueued_far(
        &mut self,
        entry: EntryRef<'_, Hr>,
        times: Times,
        mode: StartMode,
    ) {
        self.state.stats.note_start(Placement::Moved);
        let stood = (false, Placement::Moved);
        self.timers.trace_start(self, entry, times, mode, stood);
    }
}

impl<P: Platform> Timers<P> {
    /// Starts a sleeper again, if it is still queued. Returns true if the sleeper was queued.
    #[inline(never)]
    fn start_sleeper(&self, entry: EntryRef<'_, Hr>, times: Times, mode: StartMode) -> bool {
        let me = self.platform.this_cpu();
        let mut guard = self.lock_base_of(entry, me);
        let state = entry.state();
        if !state.is_queued() {
            return false;
        }
        let _always: Result<(), StartError> =
            self.start_locked(&mut guard, entry, state, times, mode, me);
        true
    }
}

#[cfg(all(not(any(loom, shuttle)), target_pointer_width = "64"))]
const _: () = assert!(size_of::<Sleeper>() == 96);

//! The start of an exact timer (spec ), and the choice of its queue (spec ).
//!
//! # Lazy requeue
//!
//! A timer is *filed* in its queue under a key. Usually that is its deadline. But most restarts push a timer out: the
//! idle timeout of a connection is started again at every packet and never fires. So a queued timer that is started for
//! later and is not the first of its queue stays where it is, filed too early, and only its deadline is written: one
//! cache line, no neighbour, no rebalancing. It is filed again when it comes to the front, once for any number of
//! restarts.
//!
//! - A timer is never filed later than its deadline, so nothing is found too late.
//! - The first timer of a queue is enqueued under its deadline, because the device is armed for that. An operation that
//!   makes another timer the first files it, and the one behind it, and so on, up to
//!   [`REFILES_MAX`](crate::exact::queues::REFILES_MAX) at a time; if there are more, the device fires early and goes
//!   on with them.
//! - A timer that is started for earlier than it is filed moves.
//!
//! `docs/decisions/0006-lazy-requeue.md` has the figures.

use core::pin::Pin;

use tickless_link::entry::{EntryRef, State};

use crate::base::guard::BaseGuard;
use crate::base::owner::{head_of, opened};
use crate::base::timers::Timers;
use crate::clock::SetSequence;
use crate::exact::family::{ExpiryRange, Hr, Placement, Times};
use crate::exact::far_wheel::Filing;
use crate::hrtimer::rearm::First;
use crate::hrtimer::timer::{Expired, HrTimer, Request, Start, TimerRef, When};
use crate::platform::{Platform, ThisCpu};
use crate::restart::Restart;
use crate::slots::geometry::DueSlot;
use crate::start_outcome::{StartError, StartOutcome};
use crate::time::{Clock, ClockId, Deadline, Instant, Offset, Span};
use crate::trace::{Event, StartMode, TimerId};

/// Device operation that a start requests (spec ).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Nothing,
    ProgramIfEarlier,
    ReevaluateAll,
}

impl<F, C> HrTimer<F, C>
where
    F: FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
    C: ClockId,
{
    /// Starts the timer, or restarts it if it is queued. Returns which of the two happened.
    ///
    /// A queued timer is moved; a timer whose callback runs is queued in addition. The timer is on the executing CPU
    /// afterwards, unless the host's policy sends it elsewhere or its callback is running elsewhere. A timer that was
    /// [shut down](Self::shutdown) does not change: [`StartOutcome::ShutDown`].
    ///
    /// # Panics
    ///
    /// When the timer belongs to another system of timers.
    ///
    /// # Interrupt context
    ///
    /// Callable in any context, from the timer's own callback too.
    ///
    /// # Cost
    ///
    /// One lock. For a timer that is far away: one removal and one insertion, O(1), or one store if it is pushed out.
    /// For a near one: a restart that keeps its place reads both neighbours and writes the timer; any other is one
    /// removal and one insertion, O(log n) in the near timers. The device is written once at most, and not if an
    /// earlier event is programmed.
    #[inline]
    pub fn start<P: Platform>(
        self: Pin<&Self>,
        timers: &Timers<P>,
        start: Start<C>,
    ) -> StartOutcome {
        self.timer_ref().start(timers, start)
    }

    /// Starts the timer as [`start`](Self::start) does, but refuses a time in the past. It is for times from a caller
    /// that is not trusted, so that they cost no interrupt (spec ). Returns [`StartOutcome::Started`] or
    /// [`StartOutcome::Restarted`].
    ///
    /// # Errors
    ///
    /// [`StartError::AlreadyExpired`] when the time is over; then the timer is not queued, and the caller completes the
    /// expiry. [`StartError::ShutDown`] when the timer was [shut down](Self::shutdown), whatever the time is.
    pub fn start_checked<P: Platform>(
        self: Pin<&Self>,
        timers: &Timers<P>,
        start: Start<C>,
    ) -> Result<StartOutcome, StartError> {
        let me = timers.platform.this_cpu();
        let mode = StartMode {
            checked: true,
            ..start.request.mode
        };
        let times = timers.resolve(self.erase(), &start.request);
        let mut held = timers.lock_base_of(self.erase(), me);
        let state = self.state();
        if state.is_shut() {
            return Err(StartError::ShutDown);
        }
        timers.start_locked(&mut held, self.erase(), state, times, mode, me)?;
        Ok(StartOutcome::of(state.is_queued()))
    }
}

impl<C: ClockId> TimerRef<'_, C> {
    /// Starts the timer as [`HrTimer::start`] does, without knowing the type of its closure. A host has this code once,
    /// not once for each closure.
    ///
    /// # Panics
    ///
    /// As [`HrTimer::start`].
    #[inline]
    pub fn start<P: Platform>(self, timers: &Timers<P>, start: Start<C>) -> StartOutcome {
        let entry = self.entry;
        let mode = start.request.mode;
        match start.request.when {
            When::At(earliest) => {
                let deadline = earliest.saturating_add(start.request.slack);
                timers.start_resolved(entry, (earliest, deadline), mode)
            }
            When::After(_) => timers.start_relative(entry, &start.request),
        }
    }

    /// Restarts a timer at `instant` without slack, as [`start`](Self::start) does, on the fast path: if it stays in
    /// its bucket of the executing CPU's far wheel, and the lock can be taken without a call. Returns `false`
    /// otherwise, and nothing changes.
    #[inline(always)]
    pub fn push_out<P: Platform>(
        self,
        timers: &Timers<P>,
        instant: Instant<C>,
        pinned: bool,
    ) -> bool {
        Deadline::plain(instant).is_some_and(|deadline| {
            timers.try_push_out_fast(self.entry, (deadline, deadline), mode_of(pinned))
        })
    }

    /// Starts an [idle](Self::is_fresh) timer at `instant` without slack, as [`start`](Self::start) does, on the fast
    /// path: if it goes to the executing CPU's far wheel, and the lock can be taken without a call. Returns `false`
    /// otherwise, and nothing changes.
    #[inline(always)]
    pub fn start_far<P: Platform>(
        self,
        timers: &Timers<P>,
        instant: Instant<C>,
        pinned: bool,
    ) -> bool {
        Deadline::plain(instant).is_some_and(|deadline| {
            timers.try_start_idle_fast(self.entry, (deadline, deadline), mode_of(pinned))
        })
    }

    /// Starts the timer at `instant` without slack, as [`start`](Self::start) does, without trying the fast paths
    /// [`push_out`](Self::push_out) and [`start_far`](Self::start_far).
    ///
    /// # Panics
    ///
    /// As [`HrTimer::start`].
    #[inline(always)]
    pub fn start_at<P: Platform>(
        self,
        timers: &Timers<P>,
        instant: Instant<C>,
        pinned: bool,
    ) -> StartOutcome {
        let deadline = Deadline::new(instant);
        timers.start_resolved(self.entry, (deadline, deadline), mode_of(pinned))
    }

    /// Returns true if the timer is idle and was not shut down. Lock-free; another CPU may have changed it since.
    #[inline]
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.entry.state().is_fresh()
    }

    /// Starts the timer as [`start`](Self::start) does, unless it is queued with this deadline or an earlier one:
    /// [`StartOutcome::Unchanged`].
    ///
    /// # Panics
    ///
    /// As [`HrTimer::start`].
    pub fn start_if_earlier<P: Platform>(
        self,
        timers: &Timers<P>,
        start: Start<C>,
    ) -> StartOutcome {
        let (entry, mode) = (self.entry, start.request.mode);
        let me = timers.platform.this_cpu();
        let times = timers.resolve(entry, &start.request);
        let mut held = timers.lock_base_of(entry, me);
        let state = entry.state();
        if state.is_shut() {
            return StartOutcome::ShutDown;
        }
        if state.is_queued() && times.1 >= head_of(&mut held, entry).deadline() {
            return StartOutcome::Unchanged;
        }
        let _always = timers.start_locked(&mut held, entry, state, times, mode, me);
        StartOutcome::of(state.is_queued())
    }
}

/// An absolute start that leaves the timer on the CPU that executes it, if it is pinned (spec LOC-11).
#[inline]
const fn mode_of(pinned: bool) -> StartMode {
    StartMode {
        relative: false,
        pinned,
        checked: false,
    }
}

impl<P: Platform> Timers<P> {
    #[inline(never)]
    fn start_relative(&self, entry: EntryRef<'_, Hr>, request: &Request) -> StartOutcome {
        self.start_resolved(entry, self.resolve(entry, request), request.mode)
    }

    /// Starts a timer for times that are known, wherever it is.
    #[inline(never)]
    pub(super) fn start_resolved(
        &self,
        entry: EntryRef<'_, Hr>,
        times: Times,
        mode: StartMode,
    ) -> StartOutcome {
        let me = self.platform.this_cpu();
        let mut held = self.lock_base_of(entry, me);
        let state = entry.state();
        if state.is_shut() {
            return StartOutcome::ShutDown;
        }
        let _always = self.start_locked(&mut held, entry, state, times, mode, me);
        StartOutcome::of(state.is_queued())
    }

    /// The two expiries that a request means for `entry`. Needs no lock: nothing of it depends on where the timer is.
    #[inline]
    pub(crate) fn resolve(&self, entry: EntryRef<'_, Hr>, request: &Request) -> Times {
        let earliest = match request.when {
            When::At(deadline) => deadline,
            When::After(span) => self.deadline_after(entry.tag().clock(), span),
        };
        (earliest, earliest.saturating_add(request.slack))
    }

    /// Starts an entry whose base is locked and whose state is `state`. Afterwards `held` is the base it is on now.
    ///
    /// All arguments travel in registers: it is the hottest path there is. The state is loaded once, by the caller.
    #[inline]
    pub(crate) fn start_locked<'a>(
        &'a self,
        held: &mut BaseGuard<'a, P>,
        entry: EntryRef<'_, Hr>,
        state: State,
        times: Times,
        mode: StartMode,
        me: Option<ThisCpu<'a, P>>,
    ) -> Result<(), StartError> {
        let index = entry.tag().queue();
        let timer = entry.address();
        let (earliest, deadline) = times;
        let was_cpu_first = held.state.first_hint == timer;
        let me = me.filter(|me| me.base.is_online());
        let was_armed = state.is_queued();

        let requeued = if self.keeps_base(held, state, was_cpu_first, mode.pinned, me) {
            requeue(held, entry, times)
        } else {
            let is_first = self.switch_base(held, entry, times, mode, me);
            Requeued {
                is_first,
                stood: Placement::Moved,
            }
        };
        held.state.stats.note_start(requeued.stood);
        self.trace_start(held, entry, times, mode, (was_armed, requeued.stood));
        let local = me.is_some_and(|me| core::ptr::eq(me.base, held.base));
        let action = self.decide(
            held,
            entry,
            deadline,
            was_cpu_first && local,
            requeued.is_first,
            me,
        );
        if mode.checked && action != Action::Nothing && self.is_over(held, index, earliest) {
            self.take_back(held, entry, action);
            return Err(StartError::AlreadyExpired);
        }
        match action {
            Action::Nothing => {}
            Action::ProgramIfEarlier => {
                let event = held.state.queues[index].offset.to_monotonic(deadline);
                let event = held.clamped(event);
                let first = First {
                    event,
                    timer,
                    slack: ExpiryRange::new(earliest, deadline).slack(),
                    soft: entry.tag().is_soft(),
                };
                held.program_if_earlier(first, local);
            }
            Action::ReevaluateAll => held.reevaluate(true),
        }
        Ok(())
    }

    #[inline]
    pub(super) fn trace_start(
        &self,
        held: &BaseGuard<'_, P>,
        entry: EntryRef<'_, Hr>,
        (earliest, deadline): Times,
        mode: StartMode,
        (was_armed, stood): (bool, Placement),
    ) {
        if self.platform.is_traced() {
            self.platform.trace(Event::Start {
                cpu: held.base.cpu(),
                timer: TimerId(entry.address()),
                code: entry.code_address(),
                clock: entry.tag().clock(),
                hard: deadline.as_nanos(),
                soft: earliest.as_nanos(),
                mode,
                was_armed,
                stood,
            });
        }
    }

    /// The deadline `span` from now on `clock`.
    #[inline]
    fn deadline_after(&self, clock: Clock, span: Span) -> Deadline {
        let mut now = self.platform.now_upper();
        let mut offset = Offset::NONE;
        if clock != Clock::Monotonic {
            // Not the copy of the base, which may be older than the last jump of the clock; and without refreshing
            // that, because then its queues would have to be evaluated.
            let (exact, offsets) = self.platform.now_and_offsets(SetSequence::UNSEEN);
            now = now.max(exact);
            offset = offsets.map_or(Offset::NONE, |(_, offsets)| offsets.of(clock));
        }
        offset.shown_at(now).saturating_add(span)
    }

    /// Returns true if an idle timer that is started on the locked base, that of the executing CPU, stays there and
    /// leaves the device as it is.
    ///
    /// One comparison answers three questions: while a rearm is owed, and while the CPU is offline, nothing counts as
    /// armed (INV-4), and every deadline is before that.
    #[inline(always)]
    pub(super) fn stays_no_rearm(
        &self,
        held: &BaseGuard<'_, P>,
        deadline: Deadline,
        mode: StartMode,
        me: ThisCpu<'_, P>,
    ) -> bool {
        !held.is_before_armed(deadline) && self.keeps_own(me, mode)
    }

    /// Returns true if a timer of the executing CPU that is not the first to fire stays there, if that takes no call:
    /// what [`keeps_base`](Self::keeps_base) asks, with less of an answer.
    #[inline(always)]
    pub(super) fn keeps_own(&self, me: ThisCpu<'_, P>, mode: StartMode) -> bool {
        !self.platform.migration_enabled()
            || mode.pinned
            || self.platform.try_keep_local_fast(me.base)
    }

    /// Returns where in the far wheel of the locked base, that of the executing CPU, an idle timer goes that never was
    /// on a base, with the times in `head`, if its start leaves the device as it is. `None`, and nothing was done, if
    /// it is not as simple as that, or takes a call.
    // Always: as a call, what it answers would go through memory.
    #[inline(always)]
    pub(super) fn far_place<'a>(
        &'a self,
        held: &mut BaseGuard<'a, P>,
        head: ExpiryRange,
        mode: StartMode,
        me: ThisCpu<'a, P>,
    ) -> Option<DueSlot> {
        if !self.stays_no_rearm(held, head.deadline(), mode, me) {
            return None;
        }
        held.state.far.try_place_fast(head, &self.platform)
    }

    /// Returns true if the timer stays on its base without further ado (spec ).
    #[inline]
    pub(super) fn keeps_base(
        &self,
        held: &BaseGuard<'_, P>,
        state: State,
        was_cpu_first: bool,
        pinned: bool,
        me: Option<ThisCpu<'_, P>>,
    ) -> bool {
        // Case 2 before case 1: a running timer cannot move, wherever it is (spec OBJ-15).
        if state.is_running() {
            return true;
        }
        let Some(me) = me else { return false };
        let local = core::ptr::eq(me.base, held.base);
        if !local {
            return false;
        }
        if !self.platform.migration_enabled() || was_cpu_first || pinned {
            return true;
        }
        self.platform.keep_local(me.base)
    }

    /// Decides which device operation a start needs.
    #[inline]
    fn decide(
        &self,
        held: &mut BaseGuard<'_, P>,
        entry: EntryRef<'_, Hr>,
        deadline: Deadline,
        was_cpu_first: bool,
        is_first: bool,
        me: Option<ThisCpu<'_, P>>,
    ) -> Action {
        if held.leave_to_rearm() {
            return Action::Nothing;
        }
        if entry.tag().leaves_early() && was_cpu_first {
            // Pushed out or taken back, a timeout leaves the device alone: see `settle_armed`.
            held.state.armed_early = true;
            return if is_first {
                Action::ProgramIfEarlier
            } else {
                Action::Nothing
            };
        }
        if !was_cpu_first {
            if me.is_some() {
                return if is_first {
                    Action::ProgramIfEarlier
                } else {
                    Action::Nothing
                };
            }
            if is_first {
                // An offline CPU had to queue remotely, and cannot write the remote device.
                self.kick(held.base, me);
            }
            return Action::Nothing;
        }
        if entry.tag().is_lazy() {
            let event = held.state.queues[entry.tag().queue()]
                .offset
                .to_monotonic(deadline);
            if held.base.armed() <= event {
                held.state.armed_early = true;
                return Action::Nothing;
            }
        }
        Action::ReevaluateAll
    }

    /// Returns true if the time of a checked start is over and nothing earlier is armed (spec USR-1).
    #[inline]
    fn is_over(&self, held: &mut BaseGuard<'_, P>, index: usize, earliest: Deadline) -> bool {
        let event = held.state.queues[index].offset.to_monotonic(earliest);
        event < held.base.armed() && event <= self.platform.now()
    }

    /// Removes what a checked start queued, without touching the device for it.
    #[cold]
    fn take_back(&self, held: &mut BaseGuard<'_, P>, entry: EntryRef<'_, Hr>, action: Action) {
        let state = &mut *held.state;
        if !(entry.tag().may_stand_far() && state.far.remove(&mut state.queues, entry)) {
            let was_first = opened(held, entry).remove() == Some(true);
            held.state.after_removal(entry.tag().queue(), was_first);
        }
        if self.platform.is_traced() {
            self.platform.trace(Event::StartExpired {
                timer: TimerId(entry.address()),
            });
        }
        if action == Action::ReevaluateAll {
            // It was first before, so another is first now (spec USR-2).
            held.reevaluate(true);
        }
    }
}

/// New place of a timer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requeued {
    pub(super) is_first: bool,
    pub(super) stood: Placement,
}

/// Queues a timer on the base where it is, and leaves it filed where it is if that will do (spec, and the module
/// documentation).
///
/// One operation: the device is never touched between leaving the old place and taking the new one (spec OBJ-18).
#[inline]
pub(super) fn requeue<P: Platform>(
    held: &mut BaseGuard<'_, P>,
    entry: EntryRef<'_, Hr>,
    times: Times,
) -> Requeued {
    let index = entry.tag().queue();
    let (earliest, deadline) = times;
    let may_stay = held.platform().updates_in_place();
    if entry.tag().may_stand_far() {
        let platform = held.platform();
        let state = &mut *held.state;
        let filing = Filing { times, may_stay };
        let stood = state.far.file(&mut state.queues, entry, filing, platform);
        return Requeued {
            is_first: held.is_before_armed(deadline),
            stood,
        };
    }
    let mut slot = opened(held, entry);
    *slot.head() = ExpiryRange::new(earliest, deadline);
    if !slot.state().is_queued() {
        let is_first = slot.insert(deadline);
        held.state.queues.after_insertion(index, is_first, deadline);
        return Requeued {
            is_first,
            stood: Placement::Moved,
        };
    }
    let was_first = slot.is_first();
    // The first timer is filed exactly: the device is armed for its key.
    if may_stay && !was_first && deadline >= slot.key() {
        return Requeued {
            is_first: false,
            stood: Placement::FiledEarly,
        };
    }
    if may_stay && slot.move_in_place(deadline) {
        if was_first {
            held.state.queues[index].first_deadline = deadline;
        }
        return Requeued {
            is_first: was_first,
            stood: Placement::InPlace,
        };
    }
    let is_first = slot.reposition(deadline);
    if is_first {
        held.state.queues[index].first_deadline = deadline;
    } else if was_first {
        held.state.reload_first(index);
    }
    Requeued {
        is_first,
        stood: Placement::Moved,
    }
}

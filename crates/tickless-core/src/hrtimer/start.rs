//! The start of an exact timer (spec ), and the choice of its queue (spec ).
//!
//! # Lazy requeue
//!
//! A timer is enqueued under a key, which usually is its deadline. But most restarts push a timer out: the idle timeout
//! of a connection is started again at every packet and never fires. So a queued timer that is restarted for later, and
//! is not the first of its queue, keeps its place and its key, which is then earlier than its deadline. The restart
//! writes only the deadline: one cache line, no neighbour, no rebalancing. The timer is requeued when it becomes the
//! first, once for any number of restarts.
//!
//! - The key of a timer is never later than its deadline, so no timer is found too late.
//! - The first timer of a queue is enqueued under its deadline, because the device is armed for its key. An operation
//!   that makes another timer the first requeues this timer if its key is earlier than its deadline, then the next
//!   timer that becomes the first, and so on. One operation requeues up to
//!   [`REFILES_MAX`](crate::exact::queues::REFILES_MAX) timers. If more timers have to be requeued, the device fires
//!   early and the interrupt continues.
//! - A timer that is started for a time before its key moves.
//!
//! `docs/decisions/0006-lazy-requeue.md` has the reasons.

use core::pin::Pin;

use tickless_link::entry::{EntryRef, State};

use crate::base::guard::BaseGuard;
use crate::base::owner::{head_of, opened};
use crate::base::timers::Timers;
use crate::clock::SetSequence;
use crate::cpu::CpuId;
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
    /// A queued timer is moved; a timer whose callback runs is queued in addition. Afterwards the timer is on the
    /// executing CPU, unless the host's policy chooses another CPU or the timer's callback runs on another CPU. A timer
    /// that was [shut down](Self::shutdown) does not change, and the result is [`StartOutcome::ShutDown`].
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
    /// For a near timer, a restart that keeps its place reads both neighbours and writes the timer. Any other start is
    /// one removal and one insertion, O(log n) in the number of near timers. The device is written at most once, and
    /// not if an earlier event is programmed.
    #[inline]
    pub fn start<P: Platform>(
        self: Pin<&Self>,
        timers: &Timers<P>,
        start: Start<C>,
    ) -> StartOutcome {
        self.timer_ref().start(timers, start)
    }

    /// Starts the timer as [`start`](Self::start) does, but refuses a time in the past. It is meant for times from an
    /// untrusted caller, so that a time in the past causes no interrupt (spec ). Returns
    /// [`StartOutcome::Started`] or [`StartOutcome::Restarted`].
    ///
    /// # Errors
    ///
    /// [`StartError::AlreadyExpired`] when the time has passed. Then the timer is not queued, and the caller completes
    /// the expiry. [`StartError::ShutDown`] when the timer was [shut down](Self::shutdown), for any time.
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
    /// Starts the timer as [`HrTimer::start`] does, without knowing the type of its closure. A host contains this code
    /// once, not once for each closure type.
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

    /// Restarts a timer at `instant` without slack, as [`start`](Self::start) does, on the fast path, if the timer
    /// stays in its bucket of the executing CPU's far wheel and the lock can be taken without a call. Otherwise nothing
    /// changes, and the call returns `false`.
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
    /// path, if the timer belongs into the executing CPU's far wheel and the lock can be taken without a call.
    /// Otherwise nothing changes, and the call returns `false`.
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

    /// Starts the timer as [`start`](Self::start) does, unless the timer is queued with this deadline or an earlier
    /// one. In that case the result is [`StartOutcome::Unchanged`].
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

/// Returns the mode of an absolute start. A pinned start leaves the timer on the executing CPU (spec LOC-11).
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

    /// Starts a timer for resolved times, on whichever CPU the timer is.
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

    /// Returns the soft and the hard expiry that a request means for `entry`. Needs no lock, because the result does
    /// not depend on the timer's base.
    #[inline]
    pub(crate) fn resolve(&self, entry: EntryRef<'_, Hr>, request: &Request) -> Times {
        let earliest = match request.when {
            When::At(deadline) => deadline,
            When::After(span) => self.deadline_after(entry.tag().clock(), span),
        };
        (earliest, earliest.saturating_add(request.slack))
    }

    /// Starts an entry whose base is locked and whose state is `state`. Afterwards `held` is the base on which the
    /// entry is.
    ///
    /// All arguments are passed in registers, because this is the hottest path. The caller loads the state once.
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
            let cpu = held.base.cpu();
            self.trace_start_slow(cpu, entry, (earliest, deadline), mode, (was_armed, stood));
        }
    }

    /// Reports a start; out of line, so that the caller has no place for the event on its stack.
    #[cold]
    #[inline(never)]
    fn trace_start_slow(
        &self,
        cpu: CpuId,
        entry: EntryRef<'_, Hr>,
        (earliest, deadline): Times,
        mode: StartMode,
        (was_armed, stood): (bool, Placement),
    ) {
        self.platform.trace(Event::Start {
            cpu,
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

    /// Returns true if an idle timer that is started on the locked base, which is the base of the executing CPU, stays
    /// on this base and the device need not be written.
    ///
    /// One comparison covers three cases. While a rearm is owed, and while the CPU is offline, nothing counts as armed
    /// (INV-4), so every deadline is before the armed value.
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

    /// Returns true if a timer of the executing CPU that is not the CPU's first event stays on this CPU, as far as that
    /// can be decided without a call. It is the check of [`keeps_base`](Self::keeps_base) for a fast path; false may
    /// mean that the answer is not known.
    #[inline(always)]
    pub(super) fn keeps_own(&self, me: ThisCpu<'_, P>, mode: StartMode) -> bool {
        !self.platform.migration_enabled()
            || mode.pinned
            || self.platform.try_keep_local_fast(me.base)
    }

    /// Returns the place, in the far wheel of the locked base, for an idle timer with the times in `head`. The base is
    /// the base of the executing CPU. Returns `None`, with nothing done, if the start has to write the device, if the
    /// timer does not stay on this CPU or does not belong into the far wheel, or if the answer takes a call.
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

    /// Returns true if the timer stays on its present base (spec ).
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

    /// Returns true if the time of a checked start has passed and no earlier event is armed (spec USR-1).
    #[inline]
    fn is_over(&self, held: &mut BaseGuard<'_, P>, index: usize, earliest: Deadline) -> bool {
        let event = held.state.queues[index].offset.to_monotonic(earliest);
        event < held.base.armed() && event <= self.platform.now()
    }

    /// Removes the timer that a checked start queued, without writing the device for it.
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

/// Queues a timer on its present base. A timer that may keep its place and its key keeps them (spec, and the
/// module documentation).
///
/// The requeue is one operation: the device is never written between the removal from the old place and the insertion
/// at the new place (spec OBJ-18).
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
        let stood = state
            .far
            .enqueue(&mut state.queues, entry, filing, platform);
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
    // The first timer is enqueued exactly: the device is armed for its key.
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

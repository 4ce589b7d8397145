//! The shortest paths of a start: timers of this CPU that are far, or stay where they are filed.
//!
//! What a program does with nearly all of its timers is to start one far ahead, to push it out, and to take it back
//! ([`cancel`](super::cancel)). Each takes one lock section of the owner, writes one line of the timer and at most
//! those of two neighbours, and leaves the device alone. So the questions that say whether it is as simple as that
//! come one after the other, the cheapest first; at the first "no" nothing was done.
//!
//! A host asks them [at hand](Timers::try_push_out_fast) first, in functions that make no call but at their end
//! (decision 54). The general start takes the lock once, asks them there, and hands the lock on to the long path.

use tickless_link::entry::{EntryRef, Owner, State};

use crate::base::guard::BaseGuard;
use crate::base::state::DeferredRearm;
use crate::base::timers::Timers;
use crate::exact::family::{ExpiryRange, Hr, Placement, Times};
use crate::exact::far_wheel::FarWheel;
use crate::mutant;
use crate::platform::{Platform, ThisCpu};
use crate::slots::geometry::Place;
use crate::start_outcome::StartOutcome;
use crate::trace::StartMode;

impl<P: Platform> Timers<P> {
    /// Starts a timer for a time that is known, in one lock section if it is on this CPU and stays there.
    #[inline(never)]
    pub(super) fn start_resolved(
        &self,
        entry: EntryRef<'_, Hr>,
        times: Times,
        mode: StartMode,
    ) -> StartOutcome {
        match self.start_own(entry, times, mode) {
            Ok(outcome) => outcome,
            Err(held) => self.start_slow(entry, times, mode, held),
        }
    }

    /// Starts a timer of this CPU where that takes less than a [start anywhere](Self::start_slow).
    ///
    /// Otherwise it has done nothing, and gives back the lock of this CPU if it took it.
    #[inline(always)]
    fn start_own(
        &self,
        entry: EntryRef<'_, Hr>,
        times: Times,
        mode: StartMode,
    ) -> Result<StartOutcome, Option<BaseGuard<'_, P>>> {
        let me = self.platform.this_cpu_if_known().ok_or(None)?;
        if !matches!(entry.owner(), Owner::Queue(id) if me.base.owns(id)) {
            return Err(None);
        }
        let mut held = BaseGuard::lock_own(self, me);
        // It may have left before the lock was ours: each of these asks whether it is here.
        if entry.state() == State::default() {
            let is_filed = self.file_idle(&mut held, entry, times, mode, me, |far, head| {
                far.place_now(head, &self.platform)
            });
            return if is_filed {
                Ok(StartOutcome::Started)
            } else {
                Err(Some(held))
            };
        }
        if self.start_queued(&mut held, entry, times, mode, me) {
            Ok(StartOutcome::Restarted)
        } else {
            Err(Some(held))
        }
    }

    /// Pushes out a far timer of this CPU that can stay in its slot, if the device stays as it is and the lock is to be
    /// had without a call: the shortest path there is, and what becomes of most timers.
    ///
    /// `false`, and nothing was done, if it is not as simple as that.
    // Always: a caller that does the rest by a call at its end saves no register for this.
    #[inline(always)]
    pub(crate) fn try_push_out_fast(
        &self,
        entry: EntryRef<'_, Hr>,
        times: Times,
        mode: StartMode,
    ) -> bool {
        if !self.platform.updates_in_place() {
            return false;
        }
        let Some(me) = self.platform.this_cpu_if_known() else {
            return false;
        };
        // Nearly all that are started again are there, so it is asked once, with the lock.
        let Some(mut held) = BaseGuard::try_lock_fast(self, me) else {
            return false;
        };
        self.push_out(&mut held, entry, times, mode, me)
    }

    /// Gives a far timer of the locked base, that of the executing CPU, other times, if it can stay in its slot with
    /// them and the device stays as it is: its bucket is due before its new times too, so that it stays behind the
    /// others that are due before. `false`, and nothing was done, if it is not as simple as that.
    // As above.
    #[inline(always)]
    fn push_out(
        &self,
        held: &mut BaseGuard<'_, P>,
        entry: EntryRef<'_, Hr>,
        times: Times,
        mode: StartMode,
        me: ThisCpu<'_, P>,
    ) -> bool {
        held.state.deferred == DeferredRearm::Clear
            && self.keeps_own(me, mode)
            && self.stays_in_slot(held, entry, times, mode)
    }

    /// Pushes the timer out as [`push_out`](Self::push_out) does, of a sleeper: in the far wheel each leaves the device
    /// early.
    #[inline(always)]
    pub(super) fn push_sleeper_out(
        &self,
        held: &mut BaseGuard<'_, P>,
        entry: EntryRef<'_, Hr>,
        times: Times,
        me: ThisCpu<'_, P>,
    ) -> bool {
        let mode = StartMode::default();
        held.state.deferred == DeferredRearm::Clear
            && self.keeps_own(me, mode)
            && self.stays_in_slot_no_rearm(held, entry, times, mode)
    }

    /// Pushes the timer out as [`push_out`](Self::push_out) does, of a timer that stays on this CPU, where no rearm is
    /// owed.
    #[inline(always)]
    fn stays_in_slot(
        &self,
        held: &mut BaseGuard<'_, P>,
        entry: EntryRef<'_, Hr>,
        (earliest, deadline): Times,
        mode: StartMode,
    ) -> bool {
        if held.state.first_hint == entry.address() && !entry.tag().leaves_early() {
            return false;
        }
        self.stays_in_slot_no_rearm(held, entry, (earliest, deadline), mode)
    }

    /// Checks as [`stays_in_slot`](Self::stays_in_slot) does, for a timer that leaves the device early or is not the
    /// first.
    #[inline(always)]
    fn stays_in_slot_no_rearm(
        &self,
        held: &mut BaseGuard<'_, P>,
        entry: EntryRef<'_, Hr>,
        (earliest, deadline): Times,
        mode: StartMode,
    ) -> bool {
        let head = ExpiryRange::new(earliest, deadline);
        if !held.state.far.push_out(entry, head) {
            return false;
        }
        if held.state.first_hint == entry.address() {
            // A CPU that is about to sleep asks for what is first by then.
            held.state.armed_early = true;
        }
        held.state.stats.note_start(Placement::FarSlot);
        self.trace_start(
            held,
            entry,
            (earliest, deadline),
            mode,
            (true, Placement::FarSlot),
        );
        true
    }

    /// Starts a timer of this CPU that is idle and goes to the far timers, under the conditions of
    /// [`try_push_out_fast`](Self::try_push_out_fast), and with the same answer.
    // As there.
    #[inline(always)]
    pub(super) fn try_start_idle_fast(
        &self,
        entry: EntryRef<'_, Hr>,
        (earliest, deadline): Times,
        mode: StartMode,
    ) -> bool {
        let Some(me) = self.platform.this_cpu_if_known() else {
            return false;
        };
        if entry.owner_behind(me.base.near_queue()) != 0 || entry.state() != State::default() {
            return false;
        }
        let Some(mut held) = BaseGuard::try_lock_fast(self, me) else {
            return false;
        };
        self.file_idle(
            &mut held,
            entry,
            (earliest, deadline),
            mode,
            me,
            #[inline(always)]
            |far, head| far.try_place_fast(head, &self.platform),
        )
    }

    /// Starts an idle timer of the locked base, that of the executing CPU, if it goes where `place` says, to the far
    /// timers, and leaves the device as it is; `false`, and nothing was done, if it does not.
    #[inline(always)]
    fn file_idle(
        &self,
        held: &mut BaseGuard<'_, P>,
        entry: EntryRef<'_, Hr>,
        (earliest, deadline): Times,
        mode: StartMode,
        me: ThisCpu<'_, P>,
        place: impl FnOnce(&mut FarWheel, ExpiryRange) -> Option<Place>,
    ) -> bool {
        // One that leaves the device early has left it so.
        if held.state.first_hint == entry.address() && !entry.tag().leaves_early() {
            return false;
        }
        if !self.stays_no_rearm(held, deadline, mode, me) {
            return false;
        }
        let head = ExpiryRange::new(earliest, deadline);
        let state = &mut *held.state;
        let Some(place) = place(&mut state.far, head) else {
            return false;
        };
        if !state.far.file_idle(&mut state.queues, entry, head, place) {
            return false;
        }
        held.note_filed_far(entry, (earliest, deadline), mode);
        true
    }

    /// Starts a queued timer of the locked base, that of the executing CPU, that can stay where it is filed or is far,
    /// if the device stays as it is; `false`, and nothing was done, if it is not as simple as that.
    #[inline(always)]
    pub(super) fn start_queued(
        &self,
        held: &mut BaseGuard<'_, P>,
        entry: EntryRef<'_, Hr>,
        times: Times,
        mode: StartMode,
        me: ThisCpu<'_, P>,
    ) -> bool {
        if !self.platform.updates_in_place()
            || held.state.deferred != DeferredRearm::Clear
            || !self.keeps_base(held, State::default(), false, mode.pinned, Some(me))
        {
            return false;
        }
        if self.stays_in_slot(held, entry, times, mode) {
            return true;
        }
        let was_cpu_first = held.state.first_hint == entry.address();
        let stood = if !held.state.far.holds(entry) {
            let stood = stays_behind_another(held, entry, times);
            stood.is_kept().then_some(stood)
        } else if was_cpu_first {
            // It could not stay in its slot, or others have to be looked at.
            None
        } else {
            self.start_far(held, entry, times)
        };
        let Some(stood) = stood else {
            return false;
        };
        held.state.stats.note_start(stood);
        self.trace_start(held, entry, times, mode, (true, stood));
        true
    }

    /// Files a far timer of the locked base, that of the executing CPU, anew, if it is far still; `None`, and nothing
    /// was done, if it is not, or the device has to know.
    #[inline]
    fn start_far(
        &self,
        held: &mut BaseGuard<'_, P>,
        entry: EntryRef<'_, Hr>,
        (earliest, deadline): Times,
    ) -> Option<Placement> {
        if held.is_before_armed(deadline) {
            return None;
        }
        let head = ExpiryRange::new(earliest, deadline);
        let has_moved = held.state.far.move_within(entry, head, &self.platform);
        has_moved.then_some(Placement::Moved)
    }
}

/// Leaves a timer in its tree where it is filed, if it waits behind another one and can stay there; then its times are
/// written. Nothing else is to be done for it: it is not the next event, and was not.
#[inline]
fn stays_behind_another<P: Platform>(
    held: &mut BaseGuard<'_, P>,
    entry: EntryRef<'_, Hr>,
    (earliest, deadline): Times,
) -> Placement {
    let queue = &mut held.state.queues[entry.tag().queue()];
    let Some(mut slot) = queue.tree.open(entry) else {
        return Placement::Moved;
    };
    if !slot.is_waiting_behind_another() {
        return Placement::Moved;
    }
    // Later than before, later than it is filed, or at least not earlier than the one before it: the cheapest question
    // first. If its new time is a far one, it may belong in the far wheel, behind those that have the same.
    let stood = if deadline >= slot.head().deadline() || deadline >= slot.key() {
        Placement::FiledEarly
    } else if (!entry.tag().may_stand_far() && slot.move_in_place(deadline))
        || mutant!("requeue-missing-when-earlier")
    {
        Placement::InPlace
    } else {
        return Placement::Moved;
    };
    *slot.head() = ExpiryRange::new(earliest, deadline);
    stood
}

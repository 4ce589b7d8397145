//! The shortest paths of a start: timers of this CPU that are far, or stay where they are filed.
//!
//! What a program does with nearly all of its timers is to start one far ahead, to push it out, and to take it back
//! ([`cancel`](super::cancel)). Each takes one lock section of the owner, writes one line of the timer and at most
//! those of two neighbours, and leaves the device alone. So the questions that say whether it is as simple as that
//! come one after the other, the cheapest first; at the first "no" nothing was done, and the long path gets the lock.

use tickless_link::entry::{EntryRef, Owner, State};

use crate::base::guard::BaseGuard;
use crate::base::state::DeferredRearm;
use crate::base::timers::Timers;
use crate::exact::family::{Head, Hr, Stood, Times};
use crate::mutant;
use crate::platform::{Platform, ThisCpu};
use crate::trace::StartMode;

impl<P: Platform> Timers<P> {
    /// Starts a timer for a time that is known; says whether it was queued.
    #[inline]
    pub(super) fn start_resolved(
        &self,
        entry: EntryRef<'_, Hr>,
        times: Times,
        mode: StartMode,
    ) -> bool {
        match self.push_out_at_hand(entry, times, mode) {
            Ok(()) => true,
            Err(held) => self.start_otherwise(entry, times, mode, held),
        }
    }

    /// As [`start_resolved`](Self::start_resolved), for a timer that seems to be idle.
    #[inline(always)]
    pub(super) fn start_idle(
        &self,
        entry: EntryRef<'_, Hr>,
        times: Times,
        mode: StartMode,
    ) -> bool {
        match self.start_idle_at_hand(entry, times, mode) {
            Ok(()) => false,
            Err(held) => self.start_queued(entry, times, mode, held),
        }
    }

    #[inline(never)]
    fn start_otherwise<'a>(
        &'a self,
        entry: EntryRef<'_, Hr>,
        times: Times,
        mode: StartMode,
        mut held: Option<BaseGuard<'a, P>>,
    ) -> bool {
        if held.is_none() {
            match self.start_idle_at_hand(entry, times, mode) {
                Ok(()) => return false,
                Err(locked) => held = locked,
            }
        }
        self.start_queued(entry, times, mode, held)
    }

    #[inline(never)]
    fn start_queued<'a>(
        &'a self,
        entry: EntryRef<'_, Hr>,
        times: Times,
        mode: StartMode,
        held: Option<BaseGuard<'a, P>>,
    ) -> bool {
        match self.start_at_hand(entry, times, mode, held) {
            Ok(()) => true,
            Err(held) => self.start_anywhere(entry, times, mode, held),
        }
    }

    /// Pushes out a far timer of this CPU that can stay in its slot, if the device stays as it is and the lock is to be
    /// had without a call: the shortest path there is, and what becomes of most timers.
    ///
    /// Otherwise it has done nothing, and gives back the lock of this CPU if it took it.
    // As a call, what it gives back would go through memory.
    #[inline(always)]
    pub(crate) fn push_out_at_hand(
        &self,
        entry: EntryRef<'_, Hr>,
        (earliest, deadline): Times,
        mode: StartMode,
    ) -> Result<(), Option<BaseGuard<'_, P>>> {
        if !self.platform.updates_in_place() {
            return Err(None);
        }
        let me = self.platform.this_cpu_if_known().ok_or(None)?;
        if entry.owner() != Owner::Queue(me.base.far_queue()) {
            return Err(None);
        }
        let mut held = BaseGuard::try_lock(self, me).ok_or(None)?;
        if self.push_out(&mut held, entry, (earliest, deadline), mode, me) {
            Ok(())
        } else {
            Err(Some(held))
        }
    }

    /// Gives a far timer of the locked base, that of the executing CPU, other times, if it can stay in its slot with
    /// them and the device stays as it is: its bucket is due before its new times too, so that it stays behind the
    /// others that are due before. `false`, and nothing was done, if it is not as simple as that.
    // As above.
    #[inline(always)]
    pub(super) fn push_out(
        &self,
        held: &mut BaseGuard<'_, P>,
        entry: EntryRef<'_, Hr>,
        (earliest, deadline): Times,
        mode: StartMode,
        me: ThisCpu<'_, P>,
    ) -> bool {
        if held.state.deferred != DeferredRearm::Clear
            || !self.keeps_base(held, State::default(), false, mode.pinned, Some(me))
        {
            return false;
        }
        let was_cpu_first = held.state.first_hint == entry.address();
        if was_cpu_first && !entry.tag().leaves_early() {
            return false;
        }
        if !held
            .state
            .far
            .push_out(entry, Head::new(earliest, deadline))
        {
            return false;
        }
        if was_cpu_first {
            // A CPU that is about to sleep asks for what is first by then.
            held.state.armed_early = true;
        }
        held.state.stats.note_start(Stood::FarSlot);
        self.trace_start(
            held,
            entry,
            (earliest, deadline),
            mode,
            (true, Stood::FarSlot),
        );
        true
    }

    /// Starts a timer of this CPU that is idle and goes to the far timers, under the conditions of
    /// [`push_out_at_hand`](Self::push_out_at_hand), and gives back the same.
    // As there.
    #[inline(always)]
    fn start_idle_at_hand(
        &self,
        entry: EntryRef<'_, Hr>,
        (earliest, deadline): Times,
        mode: StartMode,
    ) -> Result<(), Option<BaseGuard<'_, P>>> {
        let me = self.platform.this_cpu_if_known().ok_or(None)?;
        if entry.owner() != Owner::Queue(me.base.near_queue()) || entry.state() != State::default()
        {
            return Err(None);
        }
        let mut held = BaseGuard::try_lock(self, me).ok_or(None)?;
        if held.state.first_hint == entry.address()
            || !self.stays_quietly(&held, deadline, mode, me)
        {
            return Err(Some(held));
        }
        let head = Head::new(earliest, deadline);
        let state = &mut *held.state;
        let recently = || self.platform.recent_now_on(me.base);
        if !state
            .far
            .file_idle(&mut state.queues, entry, head, recently)
        {
            return Err(Some(held));
        }
        held.state.stats.note_start(Stood::Moved);
        self.trace_start(
            &held,
            entry,
            (earliest, deadline),
            mode,
            (false, Stood::Moved),
        );
        Ok(())
    }

    /// Starts a queued timer of this CPU that waits behind others and can stay where it is filed, or that is far, if
    /// the device stays as it is and the lock is to be had without a call; `held` is the lock of this CPU, if the
    /// caller has it. That a start is absolute is told apart before, because reading a clock needs registers that would
    /// have to be saved.
    ///
    /// Otherwise it has done nothing, and gives back the lock of this CPU if it took it.
    #[inline]
    pub(crate) fn start_at_hand<'a>(
        &'a self,
        entry: EntryRef<'_, Hr>,
        times: Times,
        mode: StartMode,
        held: Option<BaseGuard<'a, P>>,
    ) -> Result<(), Option<BaseGuard<'a, P>>> {
        if !self.platform.updates_in_place() {
            return Err(None);
        }
        let me = self.platform.this_cpu_if_known().ok_or(None)?;
        if !matches!(entry.owner(), Owner::Queue(id) if me.base.owns(id)) {
            return Err(held);
        }
        let held = held.or_else(|| BaseGuard::try_lock(self, me));
        let mut held = held.ok_or(None)?;
        if held.state.deferred != DeferredRearm::Clear
            || !self.keeps_base(&held, State::default(), false, mode.pinned, Some(me))
        {
            return Err(Some(held));
        }
        let was_cpu_first = held.state.first_hint == entry.address();
        let stood = if !held.state.far.holds(entry) {
            let stood = stays_behind_another(&mut held, entry, times);
            stood.is_kept().then_some(stood)
        } else if was_cpu_first {
            // It could not stay in its slot, or others have to be looked at.
            None
        } else {
            self.start_far(&mut held, entry, times, me)
        };
        let Some(stood) = stood else {
            return Err(Some(held));
        };
        held.state.stats.note_start(stood);
        self.trace_start(&held, entry, times, mode, (true, stood));
        Ok(())
    }

    /// Files a far timer of the locked base, that of the executing CPU, anew, if it is far still; `None`, and nothing
    /// was done, if it is not, or the device has to know.
    #[inline]
    fn start_far(
        &self,
        held: &mut BaseGuard<'_, P>,
        entry: EntryRef<'_, Hr>,
        (earliest, deadline): Times,
        me: ThisCpu<'_, P>,
    ) -> Option<Stood> {
        if held.is_before_armed(deadline) {
            return None;
        }
        let head = Head::new(earliest, deadline);
        let recently = || self.platform.recent_now_on(me.base);
        let has_moved = held.state.far.move_within(entry, head, recently);
        has_moved.then_some(Stood::Moved)
    }
}

/// Leaves a timer in its tree where it is filed, if it waits behind another one and can stay there; then its times are
/// written. Nothing else is to be done for it: it is not the next event, and was not.
#[inline]
fn stays_behind_another<P: Platform>(
    held: &mut BaseGuard<'_, P>,
    entry: EntryRef<'_, Hr>,
    (earliest, deadline): Times,
) -> Stood {
    let queue = &mut held.state.queues[entry.tag().queue()];
    let Some(mut slot) = queue.tree.open(entry) else {
        return Stood::Moved;
    };
    if !slot.is_waiting_behind_another() {
        return Stood::Moved;
    }
    // Later than before, later than it is filed, or at least not earlier than the one before it: the cheapest question
    // first. If its new time is a far one, it may belong in the far wheel, behind those that have the same.
    let stood = if deadline >= slot.head().deadline() || deadline >= slot.key() {
        Stood::FiledEarly
    } else if (!entry.tag().may_stand_far() && slot.move_in_place(deadline))
        || mutant!("requeue-missing-when-earlier")
    {
        Stood::InPlace
    } else {
        return Stood::Moved;
    };
    *slot.head() = Head::new(earliest, deadline);
    stood
}

//! The fast paths of a start, for timers of the executing CPU with a far deadline.
//!
//! Programs use nearly all of their timers in the same way: they start a timer far ahead, push it out, and cancel it
//! ([`cancel`](super::cancel)). Each of these operations takes one lock section of the owner, writes one cache line of
//! the timer and at most one line of each of two neighbours, and does not write the device. The conditions for a fast
//! path are checked one after the other, the cheapest first. When a condition does not hold, nothing has been done, and
//! the [slow path](Timers::start_resolved) begins again.
//!
//! A host tries the fast paths in functions that make a call only at their end (decision 54).

use tickless_link::entry::{EntryRef, State};

use crate::base::guard::BaseGuard;
use crate::base::state::DeferredRearm;
use crate::base::timers::Timers;
use crate::exact::family::{ExpiryRange, Hr, Placement, Times};
use crate::platform::{Platform, ThisCpu};
use crate::trace::StartMode;

impl<P: Platform> Timers<P> {
    /// Pushes out a far timer of this CPU that can stay in its slot, if the device need not be written and the lock can
    /// be taken without a call. Most restarts take this path.
    ///
    /// Returns `false`, with nothing done, if the fast path is not possible.
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
        // The device is armed for the first one, unless it leaves the device early.
        if held.state.first_hint == entry.address() && !entry.tag().leaves_early() {
            return false;
        }
        self.push_out(&mut held, entry, times, mode, me)
    }

    /// Gives a far timer of the locked base, which is the base of the executing CPU, other times, if the timer can stay
    /// in its slot and the device need not be written. The slot is due before the new times too, so the timer is
    /// cascaded in time. The timer either leaves the device early or is not the first. Returns `false`, with nothing
    /// done, if the fast path is not possible.
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
        if held.state.deferred != DeferredRearm::Clear || !self.keeps_own(me, mode) {
            return false;
        }
        let head = ExpiryRange::new(earliest, deadline);
        if !held.state.far.push_out(entry, head) {
            return false;
        }
        if held.state.first_hint == entry.address() {
            // A CPU that is about to sleep asks for what is first by then.
            held.state.armed_early = true;
        }
        held.state.stats.note_start(Placement::FarSlot);
        let stood = (true, Placement::FarSlot);
        self.trace_start(held, entry, (earliest, deadline), mode, stood);
        true
    }

    /// Starts an idle timer of this CPU in the far wheel, under the conditions of
    /// [`try_push_out_fast`](Self::try_push_out_fast) and with the same meaning of the result.
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
        // One that leaves the device early has left it so.
        if held.state.first_hint == entry.address() && !entry.tag().leaves_early() {
            return false;
        }
        let head = ExpiryRange::new(earliest, deadline);
        let Some(place) = self.far_place(&mut held, head, mode, me) else {
            return false;
        };
        let state = &mut *held.state;
        if !state
            .far
            .enqueue_idle(&mut state.queues, entry, head, place)
        {
            return false;
        }
        held.note_enqueued_far(entry, (earliest, deadline), mode);
        true
    }
}

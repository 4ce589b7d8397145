//! The fast paths of a start, for timers of the executing CPU that are far away or keep their place.
//!
//! Programs do three things with nearly all of their timers: they start one far ahead, push it out, and take it back
//! ([`cancel`](super::cancel)). Each takes one lock section of the owner, writes one line of the timer and at most
//! those of two neighbours, and leaves the device alone. So the questions that say whether it is as simple as that come
//! one after the other, the cheapest first; at the first "no" nothing was done, and the one [slow
//! path](Timers::start_resolved) begins anew.
//!
//! A host tries them in functions that make no call but at their end (decision 54).

use tickless_link::entry::{EntryRef, State};

use crate::base::guard::BaseGuard;
use crate::base::state::DeferredRearm;
use crate::base::timers::Timers;
use crate::exact::family::{ExpiryRange, Hr, Placement, Times};
use crate::platform::{Platform, ThisCpu};
use crate::trace::StartMode;

impl<P: Platform> Timers<P> {
    /// Pushes out a far timer of this CPU that can stay in its slot, if the device stays as it is and the lock is to be
    /// had without a call: most timers end so.
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
        // The device is armed for the first one, unless it leaves the device early.
        if held.state.first_hint == entry.address() && !entry.tag().leaves_early() {
            return false;
        }
        self.push_out(&mut held, entry, times, mode, me)
    }

    /// Gives a far timer of the locked base, that of the executing CPU, other times, if it can stay in its slot with
    /// them and the device stays as it is: its bucket is due before its new times too, so that it stays behind the
    /// others that are due before. The timer leaves the device early or is not the first. `false`, and nothing was
    /// done, if it is not as simple as that.
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
        // One that leaves the device early has left it so.
        if held.state.first_hint == entry.address() && !entry.tag().leaves_early() {
            return false;
        }
        let head = ExpiryRange::new(earliest, deadline);
        let Some(place) = self.far_place(&mut held, head, mode, me) else {
            return false;
        };
        let state = &mut *held.state;
        if !state.far.file_idle(&mut state.queues, entry, head, place) {
            return false;
        }
        held.note_filed_far(entry, (earliest, deadline), mode);
        true
    }
}

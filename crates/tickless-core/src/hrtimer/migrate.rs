//! The move of a timer to another CPU's base when the timer is started (spec ).

use tickless_link::entry::{EntryRef, Transit};

use crate::base::guard::BaseGuard;
use crate::base::owner::opened;
use crate::base::timers::Timers;
use crate::exact::family::{ExpiryRange, Hr, Times};
use crate::hrtimer::start::requeue;
use crate::platform::{Platform, ThisCpu};
use crate::time::Deadline;
use crate::trace::{Event, StartMode, TimerId};

impl<P: Platform> Timers<P> {
    /// Moves the timer to the base where it belongs and queues it there (spec LOC-4). Afterwards `held` is the new
    /// base. Returns true if the timer is the first of its queue.
    ///
    /// At most one base is locked at any time (spec LOC-3). During the move the timer names no owner, and a thread that
    /// looks for its owner waits.
    #[cold]
    pub(super) fn switch_base<'a>(
        &'a self,
        held: &mut BaseGuard<'a, P>,
        entry: EntryRef<'_, Hr>,
        times: Times,
        mode: StartMode,
        me: Option<ThisCpu<'a, P>>,
    ) -> bool {
        let index = entry.tag().queue();
        let (earliest, deadline) = times;
        let this = me.map(|me| me.base.cpu());
        let mut target = self.target(self.platform.pick_target(this, mode.pinned));
        if me.is_some_and(|me| core::ptr::eq(me.base, held.base) && core::ptr::eq(me.base, target))
        {
            return requeue(held, entry, times).is_first;
        }
        let from = held.base.cpu();
        let transit = depart(held, entry);
        loop {
            held.move_to(target, me);
            if suitable(held, index, deadline, me) {
                break;
            }
            // Back to the CPU that executes, which is always suitable, or to another that is online.
            target = match me {
                Some(me) => me.base,
                None => self.target(self.platform.pick_target(None, mode.pinned)),
            };
        }
        let head = ExpiryRange::new(earliest, deadline);
        let state = &mut *held.state;
        state.far.catch_up(&self.platform);
        let is_first = if let Some(place) = state.far.place_of(entry, head) {
            state.far.admit(transit, place, head);
            held.is_before_armed(deadline)
        } else {
            let tree = &mut state.queues[index].tree;
            let is_first = tree.admit(transit, deadline, |old| *old = head);
            state.queues.after_insertion(index, is_first, deadline);
            is_first
        };
        let to = held.base.cpu();
        if from != to {
            held.state.stats.arrived += 1;
            if self.platform.is_traced() {
                let timer = TimerId(entry.address());
                self.platform.trace(Event::Move { timer, from, to });
            }
        }
        is_first
    }
}

/// Removes an entry from the locked base for a move to another base.
fn depart<'e, P: Platform>(
    held: &mut BaseGuard<'_, P>,
    entry: EntryRef<'e, Hr>,
) -> Transit<'e, Hr> {
    if let Some(bucketed) = held.state.far.open(entry) {
        let (transit, left) = bucketed.depart();
        if let Some(left) = left {
            held.state.far.note_left(left);
        }
        return transit;
    }
    let slot = opened(held, entry);
    let was_queued = slot.state().is_queued();
    let was_first = slot.is_first();
    let transit = slot.depart();
    held.state
        .after_removal(entry.tag().queue(), was_queued && was_first);
    transit
}

/// Returns true if a timer may be queued on the locked base. That is so if the base belongs to the executing CPU, or if
/// the timer does not become the first event of the base. The first event of a remote base is not allowed, because a
/// remote device cannot be written (spec LOC-5, LOC-13, LOC-16).
fn suitable<P: Platform>(
    held: &BaseGuard<'_, P>,
    index: usize,
    deadline: Deadline,
    me: Option<ThisCpu<'_, P>>,
) -> bool {
    if !held.base.is_online() {
        return false;
    }
    let Some(me) = me else { return true };
    if core::ptr::eq(me.base, held.base) {
        return true;
    }
    held.state.queues[index].offset.to_monotonic(deadline) >= held.base.armed()
}

//! The sorted queues of a CPU, one for each clock and stage.

use tickless_link::entry::EntryRef;
use tickless_link::tree::Tree;

use crate::base::state::BaseState;
use crate::exact::family::Hr;
use crate::time::{Deadline, Instant, Offset};

/// Queues of a base: four clocks, hard and soft (spec Q-15).
pub(crate) const QUEUES: usize = 8;

/// The bits of the hard queues in an active mask.
pub(crate) const HARD: u8 = 0x0F;

/// The bits of the soft queues in an active mask.
pub(crate) const SOFT: u8 = 0xF0;

/// One queue of a base, on one clock, for one stage.
#[derive(Debug)]
pub(crate) struct ClockBase {
    pub(crate) tree: Tree<Hr>,
    /// The first key in the tree, `FOREVER` when it is empty (INV-6): finding the next event of a CPU touches no
    /// timer's memory (spec Q-7). It is the first deadline, but while many timers wait to be filed again: then it is
    /// earlier.
    pub(crate) first_deadline: Deadline,
    /// Copy of the offset of the clock, as of the base's last refresh (spec TIM-8).
    pub(crate) offset: Offset,
}

/// Timers that are filed again at a time: bounds the time for which the lock is held.
pub(crate) const REFILES_MAX: u32 = 16;

/// The set bits of a mask, lowest first, as of the call (spec Q-14).
#[inline]
pub(crate) fn bits(mut mask: u8) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        (mask != 0).then(|| {
            let index = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            index
        })
    })
}

/// As [`BaseState::minimum`], with one timer left out.
pub(crate) fn minimum_without(state: &BaseState, mask: u8, excluded: usize) -> Instant {
    let mut best = Instant::FOREVER;
    for index in bits(state.active & mask) {
        let queue = &state.queues[index];
        // The cached first is not later than what is behind it, so it rejects the whole queue (spec Q-24).
        let event = queue.offset.to_monotonic(queue.first_deadline);
        if event >= best {
            continue;
        }
        if queue.tree.first().map(EntryRef::<'_, Hr>::address) != Some(excluded) {
            best = event;
        } else {
            // Those behind it may be filed earlier than they are due, so all count that are filed before the best.
            queue.tree.for_each(1, |_, filed, head| {
                if queue.offset.to_monotonic(filed) >= best {
                    return false;
                }
                best = best.min(queue.offset.to_monotonic(head.deadline()));
                true
            });
        }
    }
    best
}

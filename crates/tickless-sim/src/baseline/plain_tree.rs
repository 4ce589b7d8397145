//! Exact timers in a sorted tree whose nodes do not know their neighbours: only what that costs more, the order is the
//! same.
//!
//! A timer that is started again cannot see whether it keeps its place, so it is always erased and inserted. And when
//! the first one fires, the next one is looked for from the top: a load for each level of a balanced tree. Those that
//! are cancelled are seldom the first, and are not charged for that.

use std::cell::Cell;

use tickless_core::trace::Event as Traced;

use crate::model::costs::Charges;
use crate::model::current_cpu;

/// Loads from the top of a balanced tree of so many to the leftmost.
const fn levels(queued: u64) -> u64 {
    (u64::BITS - queued.leading_zeros()) as u64
}

/// Charges what `event` costs more than in a tree with links. `queued` is how many timers the tree has.
pub(crate) fn charge(charges: &Charges, queued: &Cell<u64>, event: &Traced) {
    match *event {
        Traced::Start {
            was_armed,
            in_place,
            ..
        } => {
            queued.set(queued.get() + u64::from(!was_armed));
            if was_armed && in_place {
                current_cpu::charge(charges.tree_erase + charges.tree_insert);
            }
        }
        Traced::ExpireEntry { .. } => {
            // Timers that another CPU took away were counted there.
            queued.set(queued.get().saturating_sub(1));
            current_cpu::charge(charges.load * levels(queued.get()));
        }
        Traced::Cancel { .. } => queued.set(queued.get().saturating_sub(1)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::levels;

    #[test]
    fn a_tree_of_seven_has_three_levels() {
        assert_eq!([0, 1, 2, 3, 4, 7, 8].map(levels), [0, 1, 2, 2, 3, 3, 4]);
    }
}

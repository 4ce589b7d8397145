//! Exact timers in a sorted tree without links between neighbours: the order is the same, the cost is higher.
//!
//! A timer that is started again cannot see whether it keeps its place, so the core is told [to file each
//! anew](tickless_core::Platform::updates_in_place), and charged for taking it out and filing it. And when
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
        Traced::Start { was_armed, .. } => queued.set(queued.get() + u64::from(!was_armed)),
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

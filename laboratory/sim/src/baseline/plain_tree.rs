//! Exact timers in a sorted tree without links between neighbours: the order is the same, the cost is higher.
//!
//! A restarted timer cannot check whether it keeps its place. So the core [requeues each restarted
//! timer](tickless_core::Platform::updates_in_place), and is charged for removing the timer and enqueuing it. When the
//! first timer fires, the tree searches the next one from the root, which costs a load for each level of a balanced
//! tree. Cancelled timers are seldom the first, and are not charged for such a search.

use std::cell::Cell;

use tickless_core::trace::Event as Traced;

use crate::model::costs::Charges;
use crate::model::current_cpu;

/// Returns the number of loads from the root of a balanced tree of `queued` entries to the leftmost entry.
const fn levels(queued: u64) -> u64 {
    (u64::BITS - queued.leading_zeros()) as u64
}

/// Charges the additional cost of `event`, compared with a tree with links. `queued` is how many timers the tree has.
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

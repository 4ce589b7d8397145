//! Rebalancing: the textbook red-black algorithms (Cormen, Leiserson, Rivest, Stein, *Introduction to Algorithms*,
//! chapter 13), written once for both sides.
//!
//! Nothing here looks at keys or neighbour links: rotations keep the in-order sequence.

use super::{Branched, Side, Tree};
use crate::entry::{EntryRef, Link};

impl<F: Branched> Tree<F> {
    /// Restores rule (f) after `entry` was attached as a red leaf.
    pub(super) fn rebalance_after_link<'t>(&'t self, mut entry: EntryRef<'t, F>) {
        loop {
            let Some(mut parent) = self.follow(entry.parent_link().get()) else {
                entry.set_red(false);
                return;
            };
            if !parent.is_red() {
                return;
            }
            // A red entry is never the root.
            let Some(grandparent) = self.follow(parent.parent_link().get()) else {
                return;
            };
            let side = self.side_of(grandparent, parent);
            match self.child(grandparent, side.opposite()) {
                Some(uncle) if uncle.is_red() => {
                    parent.set_red(false);
                    uncle.set_red(false);
                    grandparent.set_red(true);
                    entry = grandparent;
                }
                _ => {
                    if self.child(parent, side.opposite()) == Some(entry) {
                        self.rotate(parent, side);
                        parent = entry;
                    }
                    parent.set_red(false);
                    grandparent.set_red(true);
                    self.rotate(grandparent, side.opposite());
                    return;
                }
            }
        }
    }

    /// Removes `entry` from the tree and restores rule (f). The links of `entry` itself stay as they were.
    pub(super) fn erase(&self, entry: EntryRef<'_, F>) {
        let left = self.child(entry, Side::Left);
        let right = self.child(entry, Side::Right);
        // `hole` is what moves up into the place that loses an entry, and `above` the parent of that place.
        let (hole, above, lost_black);
        let has_both = left.is_some() && right.is_some();
        match (left, right) {
            (Some(left), Some(right)) => {
                // The successor is known without a walk: with a right child it is the next neighbour. It has no left
                // child, leaves its own place, and takes over the place and the colour of `entry`.
                let Some(successor) = self.follow(entry.next.get()) else {
                    return;
                };
                lost_black = !successor.is_red();
                hole = self.child(successor, Side::Right);
                if successor == right {
                    above = Some(successor);
                } else {
                    above = self.follow(successor.parent_link().get());
                    self.replace(successor, successor.child_link(Side::Right).get());
                    successor.child_link(Side::Right).set(right.link());
                    right.parent_link().set(successor.link());
                }
                self.replace(entry, successor.link());
                successor.child_link(Side::Left).set(left.link());
                left.parent_link().set(successor.link());
                successor.set_red(entry.is_red());
            }
            (child, None) | (None, child) => {
                lost_black = !entry.is_red();
                hole = child;
                above = self.follow(entry.parent_link().get());
                self.replace(entry, child.and_then(EntryRef::link));
            }
        }
        if F::SUMMARISED {
            // Up to the successor, which stands in another place now, all are due; above it, those that changed.
            self.summarise_upwards(above, self.follow(entry.next.get()).filter(|_| has_both));
        }
        if lost_black {
            self.rebalance_after_erase(hole, above);
        }
    }

    /// Restores rule (f) where every path through `hole`, below `above`, lacks one black entry.
    fn rebalance_after_erase<'t>(
        &'t self,
        mut hole: Option<EntryRef<'t, F>>,
        mut above: Option<EntryRef<'t, F>>,
    ) {
        while let Some(parent) = above {
            if hole.is_some_and(|hole| hole.is_red()) {
                break;
            }
            // An empty hole is told from its sibling because the sibling cannot be empty: its side has a black more.
            let side = if self.child(parent, Side::Left) == hole {
                Side::Left
            } else {
                Side::Right
            };
            let Some(mut sibling) = self.child(parent, side.opposite()) else {
                return;
            };
            if sibling.is_red() {
                sibling.set_red(false);
                parent.set_red(true);
                self.rotate(parent, side);
                let Some(nephew) = self.child(parent, side.opposite()) else {
                    return;
                };
                sibling = nephew;
            }
            let is_red = |child: Option<EntryRef<'_, F>>| child.is_some_and(|child| child.is_red());
            let near = self.child(sibling, side);
            let far = self.child(sibling, side.opposite());
            if !is_red(near) && !is_red(far) {
                sibling.set_red(true);
                hole = Some(parent);
                above = self.follow(parent.parent_link().get());
                continue;
            }
            if !is_red(far)
                && let Some(near) = near
            {
                near.set_red(false);
                sibling.set_red(true);
                self.rotate(sibling, side.opposite());
                sibling = near;
            }
            sibling.set_red(parent.is_red());
            parent.set_red(false);
            if let Some(far) = self.child(sibling, side.opposite()) {
                far.set_red(false);
            }
            self.rotate(parent, side);
            return;
        }
        if let Some(hole) = hole {
            hole.set_red(false);
        }
    }

    /// Rotates `entry` down towards `side`. The child on the other side, which must exist, takes the place of `entry`.
    fn rotate(&self, entry: EntryRef<'_, F>, side: Side) {
        let Some(rising) = self.child(entry, side.opposite()) else {
            return;
        };
        let inner = self.child(rising, side);
        entry
            .child_link(side.opposite())
            .set(inner.and_then(EntryRef::link));
        if let Some(inner) = inner {
            inner.parent_link().set(entry.link());
        }
        self.replace(entry, rising.link());
        rising.child_link(side).set(entry.link());
        entry.parent_link().set(rising.link());
        if F::SUMMARISED {
            // Above them nothing changes: the subtree holds what it held.
            self.summarise(entry);
            self.summarise(rising);
        }
    }

    /// Puts `by` in the place of `entry` below the parent of `entry`, or at the root.
    fn replace(&self, entry: EntryRef<'_, F>, by: Link<F>) {
        let parent = entry.parent_link().get();
        match self.follow(parent) {
            None => self.root.set(by),
            Some(parent) => {
                let side = self.side_of(parent, entry);
                parent.child_link(side).set(by);
            }
        }
        if let Some(by) = self.follow(by) {
            by.parent_link().set(parent);
        }
    }

    #[inline]
    fn side_of(&self, parent: EntryRef<'_, F>, child: EntryRef<'_, F>) -> Side {
        if parent.child_link(Side::Left).get() == child.link() {
            Side::Left
        } else {
            Side::Right
        }
    }
}

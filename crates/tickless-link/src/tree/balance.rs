//! Rebalancing: the textbook red-black algorithms (Cormen, Leiserson, Rivest, Stein, *Introduction to Algorithms*,
//! chapter 13), written once for both sides.
//!
//! Nothing here looks at keys or neighbour links: rotations keep the in-order sequence.

use super::{Side, Tree};
use crate::entry::{EntryRef, Family, Link};

impl<F: Family> Tree<F> {
    /// Restores rule (f) after `entry` was attached as a red leaf.
    pub(super) fn rebalance_after_link<'t>(&'t self, mut entry: EntryRef<'t, F>) {
        loop {
            let Some(mut parent) = self.follow(entry.parent.get()) else {
                entry.red.set(false);
                return;
            };
            if !parent.red.get() {
                return;
            }
            // A red entry is never the root.
            let Some(grandparent) = self.follow(parent.parent.get()) else {
                return;
            };
            let side = self.side_of(grandparent, parent);
            match self.child(grandparent, side.opposite()) {
                Some(uncle) if uncle.red.get() => {
                    parent.red.set(false);
                    uncle.red.set(false);
                    grandparent.red.set(true);
                    entry = grandparent;
                }
                _ => {
                    if self.child(parent, side.opposite()) == Some(entry) {
                        self.rotate(parent, side);
                        parent = entry;
                    }
                    parent.red.set(false);
                    grandparent.red.set(true);
                    self.rotate(grandparent, side.opposite());
                    return;
                }
            }
        }
    }

    /// Takes `entry` out of the tree and restores rule (f). Its own links are left as they were.
    pub(super) fn erase(&self, entry: EntryRef<'_, F>) {
        let left = self.child(entry, Side::Left);
        let right = self.child(entry, Side::Right);
        // `hole` is what moves up into the place that loses an entry, and `above` the parent of that place.
        let (hole, above, lost_black);
        match (left, right) {
            (Some(left), Some(right)) => {
                // The successor is known without a walk: with a right child it is the next neighbour. It has no left
                // child, leaves its own place, and takes over the place and the colour of `entry`.
                let Some(successor) = self.follow(entry.next.get()) else {
                    return;
                };
                lost_black = !successor.red.get();
                hole = self.child(successor, Side::Right);
                if successor == right {
                    above = Some(successor);
                } else {
                    above = self.follow(successor.parent.get());
                    self.replace(successor, successor.children[Side::Right as usize].get());
                    successor.children[Side::Right as usize].set(right.link());
                    right.parent.set(successor.link());
                }
                self.replace(entry, successor.link());
                successor.children[Side::Left as usize].set(left.link());
                left.parent.set(successor.link());
                successor.red.set(entry.red.get());
            }
            (child, None) | (None, child) => {
                lost_black = !entry.red.get();
                hole = child;
                above = self.follow(entry.parent.get());
                self.replace(entry, child.and_then(EntryRef::link));
            }
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
            if hole.is_some_and(|hole| hole.red.get()) {
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
            if sibling.red.get() {
                sibling.red.set(false);
                parent.red.set(true);
                self.rotate(parent, side);
                let Some(nephew) = self.child(parent, side.opposite()) else {
                    return;
                };
                sibling = nephew;
            }
            let is_red =
                |child: Option<EntryRef<'_, F>>| child.is_some_and(|child| child.red.get());
            let near = self.child(sibling, side);
            let far = self.child(sibling, side.opposite());
            if !is_red(near) && !is_red(far) {
                sibling.red.set(true);
                hole = Some(parent);
                above = self.follow(parent.parent.get());
                continue;
            }
            if !is_red(far)
                && let Some(near) = near
            {
                near.red.set(false);
                sibling.red.set(true);
                self.rotate(sibling, side.opposite());
                sibling = near;
            }
            sibling.red.set(parent.red.get());
            parent.red.set(false);
            if let Some(far) = self.child(sibling, side.opposite()) {
                far.red.set(false);
            }
            self.rotate(parent, side);
            return;
        }
        if let Some(hole) = hole {
            hole.red.set(false);
        }
    }

    /// Turns `entry` down towards `side`; its other child, which must exist, takes its place.
    fn rotate(&self, entry: EntryRef<'_, F>, side: Side) {
        let Some(rising) = self.child(entry, side.opposite()) else {
            return;
        };
        let inner = self.child(rising, side);
        entry.children[side.opposite() as usize].set(inner.and_then(EntryRef::link));
        if let Some(inner) = inner {
            inner.parent.set(entry.link());
        }
        self.replace(entry, rising.link());
        rising.children[side as usize].set(entry.link());
        entry.parent.set(rising.link());
    }

    /// Puts `by` where `entry` hangs below its parent, or at the root.
    fn replace(&self, entry: EntryRef<'_, F>, by: Link<F>) {
        let parent = entry.parent.get();
        match self.follow(parent) {
            None => self.root.set(by),
            Some(parent) => {
                let side = self.side_of(parent, entry);
                parent.children[side as usize].set(by);
            }
        }
        if let Some(by) = self.follow(by) {
            by.parent.set(parent);
        }
    }

    #[inline]
    fn side_of(&self, parent: EntryRef<'_, F>, child: EntryRef<'_, F>) -> Side {
        if parent.children[Side::Left as usize].get() == child.link() {
            Side::Left
        } else {
            Side::Right
        }
    }
}

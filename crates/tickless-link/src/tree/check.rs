//! The check of all structural rules of a tree.

use super::{Branched, Side, Tree};
use crate::entry::EntryRef;

impl<F: Branched> Tree<F> {
    /// Checks all structural rules of the module documentation, in O(n).
    ///
    /// # Panics
    ///
    /// When a rule is broken, which is a bug in this crate.
    pub fn assert_valid(&self) {
        let mut count = 0;
        let mut previous: Option<EntryRef<'_, F>> = None;
        let mut current = self.first();
        while let Some(entry) = current {
            assert!(
                entry.belongs_to(self.id()),
                "a queued entry names this queue"
            );
            assert!(entry.state().is_queued(), "a linked entry is marked queued");
            assert!(
                self.follow(entry.previous.get()) == previous,
                "(c) neighbours agree"
            );
            if let Some(previous) = previous {
                assert!(
                    previous.key.get() <= entry.key.get(),
                    "(b) keys never decrease"
                );
                assert!(
                    previous.key.get() < entry.key.get() || previous.is_old() || !entry.is_old(),
                    "(b) what is marked old comes first among equals"
                );
            }
            if entry.is_in_run() {
                let is_behind_the_tree = previous.is_some_and(|previous| !previous.is_in_run());
                assert!(!is_behind_the_tree, "(h) the run is the beginning");
            } else {
                assert!(
                    self.in_order_successor(entry) == self.follow(entry.next.get()),
                    "(a) the line of neighbours is the order of the tree"
                );
            }
            previous = Some(entry);
            current = self.follow(entry.next.get());
            count += 1;
        }
        assert_eq!(count, self.len, "the length counts the entries");
        let root = self.follow(self.root.get());
        let end = if root.is_some() {
            self.last
        } else {
            assert!(self.last.is_none(), "(d) no last without a root");
            self.run_end
        };
        assert!(
            self.follow(end) == previous,
            "(d) last is where the line ends"
        );
        let run_end = self.follow(self.run_end);
        let first_of_tree = run_end.map_or(self.first, |end| end.next.get());
        assert!(
            root.is_some() == self.follow(first_of_tree).is_some(),
            "(d) no root exactly when empty"
        );
        assert!(
            run_end.is_some() == self.first().is_some_and(|first| first.is_in_run()),
            "(h) the run has an end exactly when there is one"
        );
        if let Some(root) = root {
            assert!(root.parent_link().get().is_none(), "the root has no parent");
            assert!(!root.is_red(), "(f) the root is black");
            assert!(
                Some(self.leftmost(root)) == self.follow(first_of_tree),
                "(d) the first of the tree is leftmost"
            );
        }
        self.assert_balanced();
        self.assert_summarised();
    }

    /// Checks rule (f), without recursion: walks up to the root from each entry that lacks a child.
    fn assert_balanced(&self) {
        let mut black_height = None;
        self.for_each(0, |entry, _, _| {
            let children = entry
                .branches
                .children
                .each_ref()
                .map(|child| self.follow(child.get()));
            for child in children.into_iter().flatten() {
                assert!(
                    self.follow(child.parent_link().get()) == Some(entry),
                    "a child knows its parent"
                );
                assert!(
                    !(entry.is_red() && child.is_red()),
                    "(f) no red child of a red entry"
                );
            }
            if !entry.is_in_run() && children.iter().any(Option::is_none) {
                let mut height = 0;
                let mut ancestor = Some(entry);
                while let Some(entry) = ancestor {
                    height += usize::from(!entry.is_red());
                    ancestor = self.follow(entry.parent_link().get());
                }
                assert_eq!(
                    *black_height.get_or_insert(height),
                    height,
                    "(f) black heights agree"
                );
            }
            true
        });
    }

    /// Returns the successor by the shape of the tree, for checking the neighbour links.
    fn in_order_successor<'t>(&'t self, entry: EntryRef<'t, F>) -> Option<EntryRef<'t, F>> {
        if let Some(right) = self.child(entry, Side::Right) {
            return Some(self.leftmost(right));
        }
        let mut below = entry;
        while let Some(parent) = self.follow(below.parent_link().get()) {
            if self.child(parent, Side::Left) == Some(below) {
                return Some(parent);
            }
            below = parent;
        }
        None
    }

    fn leftmost<'t>(&'t self, mut entry: EntryRef<'t, F>) -> EntryRef<'t, F> {
        while let Some(left) = self.child(entry, Side::Left) {
            entry = left;
        }
        entry
    }
}

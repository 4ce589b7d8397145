//! Scripted schedules on the real code, in which other CPUs run at a chosen step of one CPU. One thread executes all
//! CPUs, so each case is deterministic, and a lock that would be taken twice panics.

use std::rc::Rc;

use super::host::{Tree, idle_tree};
use crate::hierarchy::{GroupId, Step};

mod examples;
mod growth;
mod isolation;
mod membership;
mod random;
mod scenarios;

/// The groups of a tree of four CPUs in groups of two: CPUs 0 and 1, CPUs 2 and 3, and the root.
const LEFT: GroupId = GroupId(0);
const ROOT: GroupId = GroupId(2);

/// Makes the tree of spec C-4.13: four idle CPUs, two levels.
fn pairs() -> Rc<Tree<2>> {
    let tree = idle_tree(4);
    assert_eq!(tree.groups(), 3);
    assert_eq!(tree.root(), Some(ROOT));
    tree
}

impl<const WIDTH: usize> Tree<WIDTH> {
    /// Runs `body` in the middle of a CPU's operation, at the first step that `fits`.
    fn script(
        self: &Rc<Self>,
        fits: impl Fn(Step) -> bool + 'static,
        body: impl FnOnce(&Self) + 'static,
    ) {
        let tree = Rc::clone(self);
        self.host().when(fits, move || body(&tree));
    }

    /// Checks that the script ran, that the tree is consistent, and that no timer of an idle CPU is lost.
    fn check_all(&self) {
        assert!(
            self.host().script_is_done(),
            "the schedule never came about"
        );
        self.check_states();
        self.check_covered();
    }
}

//! Scripted schedules on the real code: at a chosen step of one CPU, other CPUs run. One thread executes them all, so
//! each case is the same every time, and a lock that would be taken twice panics.

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

/// Four idle CPUs, two levels: the tree of spec C-4.13.
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

    /// The script ran, nothing is inconsistent, and no timer of an idle CPU is lost.
    fn check_all(&self) {
        assert!(
            self.host().script_is_done(),
            "the schedule never came about"
        );
        self.check_states();
        self.check_covered();
    }
}

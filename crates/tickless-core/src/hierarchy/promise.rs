//! One promise for all.
//!
//! When all CPUs idle, whoever was the last wakes up for the tree. Others may follow it: a CPU that wakes while the
//! rest sleeps and finds nothing to do is the last one again. By the letter of the specification (4.7) it promises the
//! same time once more, and as it wakes at that time for nothing it goes on so for ever: a herd, one CPU larger with
//! each that ever woke. So a CPU whose time another one wakes up by in any case promises nothing.
//!
//! # Why that loses nothing
//!
//! A promise stands from the moment it is stored in the node until its CPU withdraws it, which it does before it looks
//! at the tree anew: when it leaves idle, rearms, serves or goes. Whoever relies on one has published its events first.
//! Both publishing at the root and looking at it happen under the root's lock:
//!
//! | relies | withdraws |
//! |---|---|
//! | publishes under the lock | withdraws |
//! | reads the promise | looks under the lock, when it idles, serves or goes |
//!
//! If the left one had the lock first, the right one finds what was published, and promises it or is awake for it. If
//! the right one had it first, the left one finds the promise withdrawn. A new root makes no difference: a CPU that is
//! below the old one comes by the old one's lock, and one that is not took its place after the old one's events had
//! been published in the new (spec 5.2). Loom: `a_promise_that_is_withdrawn_while_another_relies_on_it`.

use tickless_link::sync::Ordering;

use super::{CpuNode, Hierarchy, Sites, Step};
use crate::mutant;
use crate::platform::CpuId;
use crate::time::Instant;

impl<S: Sites<WIDTH>, const WIDTH: usize> Hierarchy<S, WIDTH> {
    /// Has `node`, which is locked and has published, promise to wake up at `cover`, unless that is nobody's business
    /// or another one does so anyway. Returns what it promised.
    pub(super) fn promise(&self, node: &CpuNode<S::Lock>, cover: Instant) -> Instant {
        let cpu = node.cpu();
        self.sites.step(Step::Promising { cpu, cover });
        let promised = if cover.is_forever() || self.is_covered(node, cover) {
            Instant::FOREVER
        } else {
            // Relaxed: a hint whom to ask.
            self.promiser.store(cpu.0, Ordering::Relaxed);
            cover
        };
        node.wakeup.set(promised);
        promised
    }

    /// Withdraws the promise of `node`, which is locked, or which nobody else may change meanwhile.
    pub(super) fn withdraw(&self, node: &CpuNode<S::Lock>) {
        if mutant!("hierarchy-promise-not-withdrawn") {
            return;
        }
        node.wakeup.set(Instant::FOREVER);
    }

    /// Whether another CPU wakes up by `cover`.
    fn is_covered(&self, node: &CpuNode<S::Lock>, cover: Instant) -> bool {
        // Relaxed: whoever it is, the promise is looked at itself.
        let other = CpuId(self.promiser.load(Ordering::Relaxed));
        other != node.cpu()
            && self
                .available_node(other)
                .is_some_and(|other| other.wakeup() <= cover)
    }
}

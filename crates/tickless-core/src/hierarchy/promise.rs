//! The promise of the last CPU that becomes idle: it wakes up for the timers of all, so that no other CPU needs to.
//!
//! When all CPUs idle, the last of them wakes up for the tree. Others may follow it: a CPU that wakes while the
//! rest sleeps and finds nothing to do is the last one again. By the letter of spec C-4.7 it promises the
//! same time once more, and as it wakes at that time for nothing it goes on so for ever: a herd, one CPU larger with
//! each that ever woke. So a CPU whose time another one wakes up by in any case promises nothing.
//!
//! # Why that loses nothing
//!
//! A promise stands from the moment it is stored in the node until its CPU withdraws it, which it does before it looks
//! at the tree anew: when it leaves idle, rearms, serves or goes. A CPU that relies on one has published its events
//! first. Both publishing at the root and looking at it happen under the root's lock:
//!
//! | relies | withdraws |
//! |---|---|
//! | publishes under the lock | withdraws |
//! | reads the promise | looks under the lock, when it idles, serves or goes |
//!
//! If the left one had the lock first, the right one finds what was published, and promises it or is awake for it. If
//! the right one had it first, the left one finds the promise withdrawn. Loom:
//! `a_promise_that_is_withdrawn_while_another_relies_on_it`.
//!
//! While the tree grows a walk may take the old root for the root. The event that it publishes there before the new
//! parent adopts the old root is brought to the new one, and CPUs below that are members only afterwards: they know it
//! when they promise. No CPU above knows an event that it publishes after that, so the CPU itself promises
//! ([`RootExpiry::is_known_to_all`]; `what_only_a_former_root_knows_is_promised_by_its_own_cpu`, which a random
//! schedule found).

use tickless_link::sync::Ordering;

use super::walk::RootExpiry;
use super::{CpuNode, Hierarchy, HierarchyHost, Step};
use crate::cpu::CpuId;
use crate::time::Instant;

impl<S: HierarchyHost<WIDTH>, const WIDTH: usize> Hierarchy<S, WIDTH> {
    /// Stores the promise of `node`, which is locked and has published, to wake up for its next event, unless there is
    /// none or another CPU wakes for it anyway. Returns the promised time.
    pub(super) fn promise(&self, node: &CpuNode<S::Lock>, cover: RootExpiry) -> Instant {
        let cpu = node.cpu();
        let time = cover.time;
        self.host.step(Step::Promising { cpu, cover: time });
        let is_covered = cover.is_known_to_all && self.is_covered(node, time);
        let promised = if time.is_forever() || is_covered {
            Instant::FOREVER
        } else {
            // Relaxed: a hint whom to ask.
            self.promiser.store(cpu.0, Ordering::Relaxed);
            time
        };
        self.set_wakeup(node, promised);
        promised
    }

    /// Withdraws the promise of `node`, which is locked, or which no other CPU may change meanwhile.
    pub(super) fn withdraw(&self, node: &CpuNode<S::Lock>) {
        self.set_wakeup(node, Instant::FOREVER);
    }

    /// Sets what `node` promises, which is locked, or as for [`withdraw`](Self::withdraw).
    pub(super) fn set_wakeup(&self, node: &CpuNode<S::Lock>, time: Instant) {
        node.wakeup.set(time);
        let cpu = node.cpu();
        self.host.step(Step::Wakeup { cpu, time });
    }

    /// Returns true if another CPU wakes up by `cover`.
    pub(super) fn is_covered(&self, node: &CpuNode<S::Lock>, cover: Instant) -> bool {
        // Relaxed: a hint which CPU it is; its promise is looked at itself.
        let other = CpuId(self.promiser.load(Ordering::Relaxed));
        other != node.cpu()
            && self
                .available_node(other)
                .is_some_and(|other| other.wakeup() <= cover)
    }
}

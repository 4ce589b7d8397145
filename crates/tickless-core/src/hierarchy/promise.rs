//! The promise of the last CPU that becomes idle. That CPU wakes up for the timers of all CPUs, so that no other CPU
//! has to.
//!
//! When all CPUs idle, the last of them wakes up for the tree. A CPU that wakes while all others sleep, and finds
//! nothing to do, becomes the last idle CPU again. By the letter of spec C-4.7 this CPU promises the same time too. It
//! then wakes at that time in vain, promises the next time, and so on for ever. Each CPU that ever woke would join this
//! herd. So a CPU makes no promise if another CPU has promised to wake up by the same time.
//!
//! # Why that loses nothing
//!
//! A promise holds from the moment at which it is stored in the node until its CPU withdraws it. The CPU withdraws the
//! promise before it reads the tree again: when it leaves idle, rearms, serves or leaves the tree. A CPU that relies on
//! a promise has published its events first. Publishing at the root and reading the root both happen under the root's
//! lock:
//!
//! | the CPU that relies on the promise | the CPU that withdraws it |
//! |---|---|
//! | publishes its events under the lock | withdraws the promise |
//! | reads the promise | reads the root under the lock, when it idles, serves or leaves |
//!
//! If the left CPU acquired the lock first, the right CPU finds the published events, and promises to wake up for them
//! or is awake. If the right CPU acquired the lock first, the left CPU finds the promise withdrawn. The loom case is
//! `a_promise_that_is_withdrawn_while_another_relies_on_it`.
//!
//! While the tree grows, a walk may treat the old root as the root. An event that the walk publishes there before the
//! new root adopts the old root is passed on to the new root. The other CPUs below the new root join the tree after
//! this adoption, so they read the event before they make a promise. If the walk publishes an event in the old root
//! after the adoption, the event does not reach the new root, and no CPU in another subtree sees it. The walking CPU
//! then makes the promise itself ([`RootExpiry::is_known_to_all`];
//! `what_only_a_former_root_knows_is_promised_by_its_own_cpu`, a case that a random schedule found).

use tickless_link::sync::Ordering;

use super::walk::RootExpiry;
use super::{CpuNode, Hierarchy, HierarchyHost, Step};
use crate::cpu::CpuId;
use crate::time::Instant;

impl<S: HierarchyHost<WIDTH>, const WIDTH: usize> Hierarchy<S, WIDTH> {
    /// Stores the promise of `node` to wake up at the time of `cover`, unless no event is pending or another CPU wakes
    /// up for it anyway. The node is locked and has published its event. Returns the promised time.
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

    /// Withdraws the promise of `node`. The node is locked, or no other CPU may change it meanwhile.
    pub(super) fn withdraw(&self, node: &CpuNode<S::Lock>) {
        self.set_wakeup(node, Instant::FOREVER);
    }

    /// Sets the time at which `node` promises to wake up, under the conditions of [`withdraw`](Self::withdraw).
    pub(super) fn set_wakeup(&self, node: &CpuNode<S::Lock>, time: Instant) {
        node.wakeup.set(time);
        let cpu = node.cpu();
        self.host.step(Step::Wakeup { cpu, time });
    }

    /// Returns true if another CPU has promised to wake up by `cover`.
    pub(super) fn is_covered(&self, node: &CpuNode<S::Lock>, cover: Instant) -> bool {
        // Relaxed: a hint which CPU it is; its promise is looked at itself.
        let other = CpuId(self.promiser.load(Ordering::Relaxed));
        other != node.cpu()
            && self
                .available_node(other)
                .is_some_and(|other| other.wakeup() <= cover)
    }
}

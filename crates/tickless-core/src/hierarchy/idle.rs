//! The steps of a CPU in the hierarchy when it becomes idle and when it is active again (spec C-4.4, C-4.5, C-4.7,
//! C-4.11).

use super::walk::RootExpiry;
use super::{CpuNode, Hierarchy, HierarchyHost, Step};
use crate::cpu::CpuId;
use crate::time::Instant;

impl<S: HierarchyHost<WIDTH>, const WIDTH: usize> Hierarchy<S, WIDTH> {
    /// Notes that `cpu` is about to be idle, and that its first global timer is due at `global`: [`Instant::FOREVER`]
    /// if `cpu` has no global timer, or if one of its other timers is due earlier. Returns the time at which the CPU
    /// has to wake up for the whole tree, its own global timers included; [`Instant::FOREVER`] if another CPU fires
    /// them.
    ///
    /// Called by `cpu` with its timer bases locked, so that `global` stays true. A CPU that is idle already calls
    /// [`rearm_from_idle`](Hierarchy::rearm_from_idle) instead. A CPU that is not available gets `global` back: it
    /// fires its own timers.
    ///
    /// If the result makes the CPU stay awake, the CPU MUST [leave idle](Hierarchy::leave_idle) again (R60).
    #[must_use = "the CPU has to wake up then"]
    pub fn enter_idle(&self, cpu: CpuId, global: Instant) -> Instant {
        let Some(node) = self.available_node(cpu) else {
            return global;
        };
        let mut guard = node.lock();
        if !node.is_available() {
            return global;
        }
        if node.is_idle() {
            drop(guard);
            return self.rearm_from_idle(cpu, global);
        }
        if !global.is_forever() {
            // Otherwise it stays ignored, as it is while the CPU is active.
            guard.set_ignored(false);
        }
        let cover = self.deactivate(&mut guard, global);
        guard.set_idle(true);
        let time = global;
        self.host.step(Step::Idle { cpu, time });
        self.promise(node, cover)
    }

    /// Notes that `cpu` runs work again. Called by the CPU, with or without its timer bases locked.
    ///
    /// An interrupt that only wakes the processor need not call this (spec C-3.5).
    pub fn leave_idle(&self, cpu: CpuId) {
        let Some(node) = self.available_node(cpu) else {
            return;
        };
        let mut guard = node.lock();
        if !node.is_available() || !node.is_idle() {
            return;
        }
        self.host.step(Step::Active { cpu });
        guard.set_idle(false);
        guard.set_ignored(true);
        self.withdraw(node);
        self.activate_node(node);
    }

    /// Notes that the first global timer of the idle `cpu` is due at `global` now. Returns the time at which the CPU
    /// has to wake up for the whole tree, as [`enter_idle`](Hierarchy::enter_idle) does.
    ///
    /// Called by `cpu` with its timer bases locked, whenever `cpu` may have armed a timer since the last call: after an
    /// interrupt, or after each start if `cpu` is a [foreign thread](super::Presence::Foreign). A foreign thread wakes
    /// up for no other CPU. If the result for a foreign thread is not [`Instant::FOREVER`], no CPU in the tree is
    /// awake. The host then MUST make an available CPU leave idle and enter idle again, and that CPU takes over the
    /// time. Each time is returned once: while the time stays the same, later results are [`Instant::FOREVER`].
    ///
    /// A call with [`Instant::FOREVER`] changes nothing. An event of `cpu` that is still published causes one useless
    /// check.
    #[must_use = "the CPU has to wake up then"]
    pub fn rearm_from_idle(&self, cpu: CpuId, global: Instant) -> Instant {
        let Some(node) = self.available_node(cpu) else {
            return global;
        };
        let mut guard = node.lock();
        if !node.is_available() {
            return global;
        }
        if global.is_forever() || (global == guard.state.time && !node.is_ignored()) {
            return node.wakeup();
        }
        let time = global;
        self.host.step(Step::NewTimer { cpu, time });
        self.withdraw(node);
        let cover = if guard.state.expiring_remotely {
            // The CPU that serves this one fetches the time afterwards and publishes it, under the same lock.
            RootExpiry::NONE
        } else {
            guard.set_ignored(false);
            self.republish(&mut guard, global)
        };
        if node.is_foreign() {
            cover.time
        } else {
            self.promise(node, cover)
        }
    }

    /// Returns the time at which the active `cpu` would have to wake up if it became idle now with its first global
    /// timer due at `global`.
    ///
    /// The result is a forecast for the idle governor. The call takes no lock and changes nothing, and the result may
    /// be wrong in both directions. The result is [`Instant::FOREVER`] if another CPU would fire the timers, or has
    /// promised to wake up by then. A governor takes the forecast as the latest time to wake up, so without this rule
    /// two CPUs would wake up for the same timer.
    #[must_use]
    pub fn peek(&self, cpu: CpuId, global: Instant) -> Instant {
        let Some(node) = self.available_node(cpu) else {
            return global;
        };
        let (mut next, mut slot) = (node.leaf(), node.slot());
        let mut first = global;
        while let Some(id) = next {
            let group = self.group(id);
            let state = group.state();
            if !state.accepts(slot) || state.active().len() > 1 {
                return Instant::FOREVER;
            }
            // Of all levels: what idle siblings want has not risen above the groups that this CPU keeps active, so the
            // root alone may be too late (Example 5, R16).
            first = first.min(group.first());
            next = group.parent();
            slot = group.slot();
        }
        if self.is_covered(node, first) {
            return Instant::FOREVER;
        }
        first
    }

    /// Marks the groups above `node` as active, from its leaf group upwards. The node is locked.
    pub(super) fn activate_node(&self, node: &CpuNode<S::Lock>) {
        if let Some(leaf) = node.leaf() {
            self.activate_from(leaf, node.slot());
        }
    }
}

//! The expiry of idle CPUs' timers by an awake CPU (spec C-3.6, C-4.9, C-4.10).

use super::walk::RootExpiry;
use super::{CpuNode, Hierarchy, HierarchyHost, Refusal, Step};
use crate::cpu::CpuId;
use crate::time::Instant;

/// The result of [`Hierarchy::serve_remote`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Pull {
    /// The number of CPUs whose timers were fired.
    pub served: u32,
    /// The number of events that turned out to be out of date.
    pub refused: u32,
    /// True if the budget is spent and more timers may be due. The caller MUST call again soon.
    pub has_more: bool,
}

impl<S: HierarchyHost<WIDTH>, const WIDTH: usize> Hierarchy<S, WIDTH> {
    /// Returns true if the calling `cpu` has to fire timers of idle CPUs at `now`. Takes no lock, so that each tick can
    /// call it.
    #[must_use]
    pub fn remote_work_due(&self, cpu: CpuId, now: Instant) -> bool {
        let Some(node) = self.available_node(cpu) else {
            return false;
        };
        if node.is_idle() {
            return now >= node.wakeup();
        }
        let (mut next, mut slot) = (node.leaf(), node.slot());
        while let Some(id) = next {
            let group = self.group(id);
            if !group.state().accepts(slot) {
                return false;
            }
            if now >= group.first() {
                return true;
            }
            next = group.parent();
            slot = group.slot();
        }
        false
    }

    /// Fires the timers of idle CPUs that are due at `now` and that the calling `cpu` is responsible for, as migrator
    /// or, while all CPUs are idle, because of its promise.
    ///
    /// Called without locks. Each callback and each check of a CPU takes one from `budget`. When the budget is zero the
    /// call returns, and the remaining timers stay due (spec C-D.6). The whole call uses the same `now`: timers that
    /// become due meanwhile wait for the next call.
    pub fn serve_remote(&self, cpu: CpuId, now: Instant, budget: &mut u32) -> Pull {
        let mut pull = Pull::default();
        let Some(node) = self.available_node(cpu) else {
            return pull;
        };
        let (mut next, mut slot) = (node.leaf(), node.slot());
        let Some(leaf) = next.map(|leaf| self.group(leaf)) else {
            return pull;
        };
        let has_promised = !node.wakeup().is_forever();
        if !leaf.state().accepts(slot) && !has_promised {
            return pull;
        }
        if has_promised {
            self.withdraw(node);
        }
        let mut cover = RootExpiry::NONE;
        'walk: while let Some(id) = next {
            let group = self.group(id);
            loop {
                // Each time: serving takes long, and another CPU may have the duty by now.
                if !group.state().accepts(slot) {
                    break 'walk;
                }
                if *budget == 0 {
                    // What is above has not been looked at: the next call goes on.
                    pull.has_more = true;
                    cover = RootExpiry::alone(now);
                    break 'walk;
                }
                let mut queue = group.queue.lock(None);
                let due = self.drop_ignored(&mut queue);
                self.first_changed(group, queue.first());
                let Some((child, event)) = due.filter(|(_, event)| event.time <= now) else {
                    // Of all groups, not of the highest: a root that is new may not have been told yet (R21).
                    let first = cover.time.min(group.first());
                    cover = RootExpiry {
                        time: first,
                        // Under the lock. No other CPU promises what a root that is new has not been told.
                        is_known_to_all: group.parent().is_none() && group.first() == first,
                    };
                    break;
                };
                // Before it is served, which publishes what is left. If it is refused, its owner publishes.
                queue.remove(child);
                self.first_changed(group, queue.first());
                drop(queue);
                if self.serve(event.cpu, now, budget) {
                    pull.served += 1;
                } else {
                    pull.refused += 1;
                }
            }
            next = group.parent();
            slot = group.slot();
        }
        let guard = node.lock();
        if node.is_available() && node.is_idle() && !node.is_foreign() {
            // In any case, so that a promise that another CPU kept does not wake this one for ever (R17). Of two that
            // served at the same moment one promises: else both would wake for the same times for ever.
            let _promised = self.promise(node, cover);
        }
        drop(guard);
        pull
    }

    /// Runs the due global timers of one CPU and publishes the CPU's next time. Returns false if the CPU need not be
    /// served.
    fn serve(&self, cpu: CpuId, now: Instant, budget: &mut u32) -> bool {
        let before = *budget;
        let refused = self.host.node(cpu).map_or_else(
            || Some(Refusal::NotAvailable),
            |node| self.serve_node(node, now, budget),
        );
        if *budget == before {
            // A look for nothing counts as well, so that no sequence of them goes on for ever (R20, PULL-5).
            *budget = before.saturating_sub(1);
        }
        refused.is_none()
    }

    fn serve_node(
        &self,
        node: &CpuNode<S::Lock>,
        now: Instant,
        budget: &mut u32,
    ) -> Option<Refusal> {
        let cpu = node.cpu();
        let mut guard = node.lock();
        let refused = if !node.is_available() {
            Some(Refusal::NotAvailable)
        } else if guard.state.expiring_remotely {
            Some(Refusal::AlreadyServed)
        } else if node.is_ignored() {
            Some(Refusal::Ignored)
        } else if now < guard.state.time {
            Some(Refusal::NotDue)
        } else {
            guard.state.expiring_remotely = true;
            self.withdraw(node);
            None
        };
        drop(guard);
        self.host.step(Step::Serving { cpu, refused });
        if refused.is_some() {
            return refused;
        }
        self.host.expire_global(cpu, now, budget);
        self.host.step(Step::Ran { cpu });
        // The bases first, by the order of locks. Fetching and publishing are one section of the node: else the CPU
        // could wake, arm and idle in between, and have its newer time overwritten (R59).
        let (held, global) = self.host.lock_bases(cpu);
        let mut guard = node.lock();
        drop(held);
        let next = (node.is_available() && node.is_idle()).then_some(global);
        if let Some(global) = next {
            // From what was fetched. The flag may stand since the CPU woke during the callbacks, and what it armed when
            // it was idle again was left to this publication (HAZARD-2, R53).
            guard.set_ignored(global.is_forever());
            self.publish_rest(&mut guard, global);
        }
        guard.state.expiring_remotely = false;
        drop(guard);
        self.host.step(Step::Served { cpu, next });
        None
    }
}

//! The three walks through the tree: the walk to active, the walk to idle, and the walk with a new event (spec C-4.4 to
//! C-4.7).

use tickless_link::lock::Guard;

use super::group::{GroupEvent, NodeGuard, Queue};
use super::{ChildSlot, CpuNode, Group, GroupId, Hierarchy, HierarchyHost, State, Step};
use crate::time::Instant;

/// The reasons why an event is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// The event's owner went idle, or armed a timer while idle.
    Owner,
    /// Another CPU served the event's owner, and the event is the owner's next one. The events that the old event hid
    /// must become visible (R58).
    AfterRemote,
}

/// Step of a walk: the group that the walk reached, and the child from which the walk reached it.
struct WalkStep<'h, G> {
    group: &'h G,
    slot: ChildSlot,
    /// The parent of the group, loaded once for the step (R27).
    parent: Option<GroupId>,
    /// The child, unless it is a CPU.
    child: Option<&'h G>,
}

/// Result of a walk: the time at which the CPU has to wake up.
#[derive(Clone, Copy, Debug)]
pub(super) struct RootExpiry {
    /// First time of the tree if the whole tree is idle; otherwise [`Instant::FOREVER`].
    pub(super) time: Instant,
    /// True if the walk reached the root, and that group was still the root after the events were in its queue. Then a
    /// CPU that reads the root finds the events, or the CPU that makes another root passes them on to the new root.
    pub(super) is_known_to_all: bool,
}

impl RootExpiry {
    pub(super) const NONE: Self = Self::alone(Instant::FOREVER);

    /// Creates the result for a time that no other CPU knows.
    pub(super) const fn alone(time: Instant) -> Self {
        Self {
            time,
            is_known_to_all: false,
        }
    }
}

/// Result of publishing an event, for the rest of the walk.
#[derive(Clone, Copy, Debug)]
struct Published {
    goes_on: bool,
    /// True if the group has no active child to handle the event. Then the walk must continue in any case (HAZARD-1).
    is_stranded: bool,
    cover: RootExpiry,
}

impl Published {
    const STOP: Self = Self {
        goes_on: false,
        is_stranded: false,
        cover: RootExpiry::NONE,
    };
}

impl<S: HierarchyHost<WIDTH>, const WIDTH: usize> Hierarchy<S, WIDTH> {
    /// Marks the child at `slot` of `id` active, and the groups above up to the first one that was active already.
    ///
    /// The walk reads nothing of the child, so the exchanges need no memory ordering beyond their own (spec C-4.4).
    pub(super) fn activate_from(&self, mut id: GroupId, mut slot: ChildSlot) {
        loop {
            let group = self.group(id);
            let old = self.change(group, slot, |old| Some(old.activated(slot)));
            group.set_ignored(true);
            if old.is_some_and(|old| old.migrator().is_some()) {
                // It was active already, so the groups above know.
                return;
            }
            let Some(parent) = group.parent() else {
                return;
            };
            slot = group.slot();
            id = parent;
        }
    }

    /// Marks the CPU of `guard` idle, and the groups above that become idle with it, and publishes `time` in the groups
    /// that need it. Returns the time at which the CPU has to wake up for the whole tree.
    pub(super) fn deactivate(
        &self,
        guard: &mut NodeGuard<'_, S::Lock>,
        time: Instant,
    ) -> RootExpiry {
        let Some(mut id) = guard.node.leaf() else {
            return RootExpiry::alone(time);
        };
        let mut slot = guard.node.slot();
        let mut child = None;
        loop {
            let group = self.group(id);
            let went_idle = self.clear(group, slot, child);
            let station = WalkStep {
                group,
                slot,
                // After the exchange: who linked a parent meanwhile either saw this state, or is seen here (ORDER-6).
                parent: group.parent(),
                child,
            };
            let published = self.publish(&station, guard, time, Reason::Owner);
            match station.parent {
                Some(parent) if went_idle || published.is_stranded => {
                    id = parent;
                    slot = group.slot();
                    child = Some(group);
                }
                _ => return published.cover,
            }
        }
    }

    /// Publishes the new `time` of the idle CPU of `guard` as far up as it matters. [`Instant::FOREVER`] means that the
    /// CPU has no timer. Returns the time at which the CPU has to wake up for the whole tree.
    pub(super) fn republish(
        &self,
        guard: &mut NodeGuard<'_, S::Lock>,
        time: Instant,
    ) -> RootExpiry {
        self.update(guard, time, Reason::Owner)
    }

    /// Publishes the next time of the CPU of `guard` after another CPU served that CPU.
    pub(super) fn publish_rest(&self, guard: &mut NodeGuard<'_, S::Lock>, time: Instant) {
        self.update(guard, time, Reason::AfterRemote);
    }

    fn update(
        &self,
        guard: &mut NodeGuard<'_, S::Lock>,
        time: Instant,
        reason: Reason,
    ) -> RootExpiry {
        let Some(mut id) = guard.node.leaf() else {
            return RootExpiry::alone(time);
        };
        let mut slot = guard.node.slot();
        let mut child = None;
        loop {
            let group = self.group(id);
            let station = WalkStep {
                group,
                slot,
                parent: group.parent(),
                child,
            };
            let published = self.publish(&station, guard, time, reason);
            match station.parent {
                Some(parent) if published.goes_on => {
                    id = parent;
                    slot = group.slot();
                    child = Some(group);
                }
                _ => return published.cover,
            }
        }
    }

    /// Makes a group visible in its new parent: marks an active group active in the parent, and publishes the first
    /// event of an idle group.
    ///
    /// Unlike elsewhere, walks that do not see the parent yet may change the child at any moment. So this function
    /// reads the child between the reading and the change of the parent's state, as a walk to idle does. If a walk from
    /// the child changed the parent in between, the exchange fails. A walk that follows later repairs the state that
    /// this function has stored.
    pub(super) fn adopt(&self, child: &Group<S::Lock, WIDTH>, id: GroupId) {
        let parent = self.group(id);
        let slot = child.slot();
        self.change(parent, slot, |old| {
            let is_active = child.state().is_active();
            self.host.step(Step::ChildRead {
                group: id,
                is_active,
            });
            is_active.then(|| old.activated(slot))
        });
        let station = WalkStep {
            group: parent,
            slot,
            parent: parent.parent(),
            child: Some(child),
        };
        self.publish_group(&station, child, Reason::AfterRemote);
    }

    /// Changes the state of a group by `transition`. Returns the old state; `None` if `transition` returned `None`.
    fn change(
        &self,
        group: &Group<S::Lock, WIDTH>,
        child: ChildSlot,
        transition: impl Fn(State) -> Option<State>,
    ) -> Option<State> {
        loop {
            let old = group.state();
            let new = transition(old)?;
            if group.exchange(old, new) {
                self.state_changed(group, child, old, new);
                return Some(old);
            }
        }
    }

    /// Marks the child at `slot` idle unless the child is active again. Returns true if the group became idle by this
    /// change.
    fn clear(
        &self,
        group: &Group<S::Lock, WIDTH>,
        slot: ChildSlot,
        child: Option<&Group<S::Lock, WIDTH>>,
    ) -> bool {
        let read_child = || {
            let is_active = child.is_some_and(|child| child.state().is_active());
            let group = group.id();
            self.host.step(Step::ChildRead { group, is_active });
            is_active
        };
        loop {
            // Acquire, in here: a CPU that activated the child and has been here since is seen in the child below; one
            // that comes here later repairs the bit (ORDER-2). Reading again after a failed exchange does so too
            // (ORDER-3).
            let old = group.state();
            self.host.step(Step::GroupRead { group: group.id() });
            let is_active = read_child();
            let new = if is_active {
                old.touched()
            } else {
                old.deactivated(slot, |left| self.policy.choose(left, slot))
            };
            if group.exchange(old, new) {
                self.state_changed(group, slot, old, new);
                return !is_active && old.migrator() == Some(slot) && new.migrator().is_none();
            }
        }
    }

    /// Sets the first time of a group whose queue is locked.
    pub(super) fn first_changed(&self, group: &Group<S::Lock, WIDTH>, first: Instant) {
        group.first.set(first);
        let group = group.id();
        self.host.step(Step::First { group, first });
    }

    fn state_changed(
        &self,
        group: &Group<S::Lock, WIDTH>,
        child: ChildSlot,
        old: State,
        new: State,
    ) {
        debug_assert!(new.is_valid(), "STATE-1, STATE-2: {old:?} became {new:?}");
        self.host.step(Step::State {
            group: group.id(),
            child,
            old,
            new,
        });
    }

    fn publish(
        &self,
        station: &WalkStep<'_, Group<S::Lock, WIDTH>>,
        guard: &mut NodeGuard<'_, S::Lock>,
        time: Instant,
        reason: Reason,
    ) -> Published {
        match station.child {
            Some(child) => self.publish_group(station, child, reason),
            None => self.publish_cpu(station, guard, time, reason),
        }
    }

    /// Publishes the first event of `child` in its parent, if `child` is idle.
    fn publish_group(
        &self,
        station: &WalkStep<'_, Group<S::Lock, WIDTH>>,
        child: &Group<S::Lock, WIDTH>,
        reason: Reason,
    ) -> Published {
        let group = station.group.id();
        self.host.step(Step::Publishing { group });
        let mut below = child.queue.lock(None);
        let queue = station.group.queue.lock(None);
        if child.state().is_active() {
            // It looks after itself, and publishes when it no longer does.
            return Published::STOP;
        }
        let event = self.drop_ignored(&mut below).map(|(_, head)| GroupEvent {
            child: Some(child.id()),
            ..head
        });
        self.first_changed(child, below.first());
        child.set_ignored(event.is_none());
        self.enqueue(station, queue, event, reason)
    }

    /// Publishes the first event of a CPU in its leaf.
    fn publish_cpu(
        &self,
        station: &WalkStep<'_, Group<S::Lock, WIDTH>>,
        guard: &mut NodeGuard<'_, S::Lock>,
        time: Instant,
        reason: Reason,
    ) -> Published {
        let node: &CpuNode<S::Lock> = guard.node;
        let is_root = station.parent.is_none();
        // With a parent, the next step locks this group and cleans its queue. At the root no CPU would, and the last
        // CPU would miss the times of the others (R15, Example 10).
        if node.is_ignored() && reason == Reason::Owner && !is_root {
            return Published::STOP;
        }
        let event = (!node.is_ignored()).then_some(GroupEvent {
            time,
            cpu: node.cpu(),
            child: None,
        });
        if event.is_some() {
            guard.state.time = time;
        }
        let group = station.group.id();
        self.host.step(Step::Publishing { group });
        let queue = station.group.queue.lock(None);
        self.enqueue(station, queue, event, reason)
    }

    /// Replaces the event of the child in the locked `queue` by `event`, and decides whether the walk continues.
    fn enqueue(
        &self,
        station: &WalkStep<'_, Group<S::Lock, WIDTH>>,
        mut queue: Guard<'_, S::Lock, Queue<WIDTH>>,
        event: Option<GroupEvent>,
        reason: Reason,
    ) -> Published {
        let &WalkStep { group, slot, .. } = station;
        // Under the lock (ORDER-4). If the last active child goes after this, its walk comes for the lock of this group
        // and finds the event; if it went before, this sees it. So one reading serves the question who takes over, and
        // whether anybody does (HAZARD-1).
        let state = group.state();
        match (event, queue.get_mut(slot)) {
            (Some(new), Some(old)) if old.time == new.time => {
                // The same time, but it may be another CPU's (Example 4, R18).
                old.cpu = new.cpu;
            }
            (Some(new), _) => queue.insert(slot, new),
            (None, _) => {
                queue.remove(slot);
            }
        }
        // No `Step::First`: the host learns the first time from `Step::Published`.
        group.first.set(queue.first());
        let mut published = Published {
            // A removed event may have hidden that of a sibling (Example 3, R58).
            goes_on: event.is_some() || (reason == Reason::AfterRemote && !state.is_active()),
            is_stranded: event.is_some() && station.parent.is_some() && !state.is_active(),
            cover: RootExpiry::NONE,
        };
        if station.parent.is_none() && !state.is_active() {
            published.goes_on = false;
            if reason == Reason::Owner {
                let head = self.drop_ignored(&mut queue);
                group.first.set(queue.first());
                published.cover = RootExpiry {
                    time: head.map_or(Instant::FOREVER, |(_, head)| head.time),
                    // Under the lock: who links a parent after this finds the events when it adopts the group.
                    is_known_to_all: group.parent().is_none(),
                };
            }
        }
        self.host.step(Step::Published {
            group: group.id(),
            child: slot,
            time: event.map_or(Instant::FOREVER, |event| event.time),
            cpu: event.map_or(crate::cpu::CpuId(u32::MAX), |event| event.cpu),
            first: group.first.get(),
            is_stranded: published.is_stranded,
        });
        published
    }

    /// Removes the ignored events from the head of a locked queue. Returns the first event that counts. The caller
    /// sets the group's first time.
    pub(super) fn drop_ignored(&self, queue: &mut Queue<WIDTH>) -> Option<(ChildSlot, GroupEvent)> {
        let mut head = queue.head();
        // At most once for each child.
        while let Some((slot, event)) = head {
            let is_ignored = match event.child {
                Some(child) => self.group(child).is_ignored(),
                None => self.host.node(event.cpu).is_none_or(CpuNode::is_ignored),
            };
            if !is_ignored {
                break;
            }
            queue.remove(slot);
            head = queue.head();
        }
        head
    }
}

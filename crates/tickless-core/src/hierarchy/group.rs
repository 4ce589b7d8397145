//! The nodes of the hierarchy: groups, and one leaf for each CPU (spec C-4.2).

use core::fmt;

use tickless_link::const_unless_loom;
use tickless_link::lock::{Guard, Lock, RawLock};
use tickless_link::sync::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::layout::NumaNode;
use super::state::{ChildSlot, State, WIDTH_MAX};
use crate::cpu::CpuId;
use crate::time::Instant;

/// The number of a group: its place in the host's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// A number that no group has, because it would be the number of the last of 2^32 groups.
pub(super) const NO_GROUP: u32 = u32::MAX;

/// A link to a parent, which is set once and never changed (spec TI3).
#[derive(Debug)]
struct Parent {
    group: AtomicU32,
    slot: AtomicU8,
}

impl Parent {
    const_unless_loom! {
        const fn none() -> Self {
            Self { group: AtomicU32::new(NO_GROUP), slot: AtomicU8::new(ChildSlot::FIRST.number()) }
        }
    }

    /// Returns the parent; `None` if the caller does not see a parent yet. Each step of a walk loads the parent once,
    /// because a second load may differ (R27).
    #[inline]
    fn get(&self) -> Option<GroupId> {
        // Acquire: pairs with the Release in `set`, so that the slot and the parent itself are there (spec ORDER-5).
        let group = self.group.load(Ordering::Acquire);
        (group != NO_GROUP).then_some(GroupId(group))
    }

    #[inline]
    fn slot(&self) -> ChildSlot {
        // Relaxed: written before the parent was published, and ordered by the load of that (spec ORDER-5).
        ChildSlot::new(self.slot.load(Ordering::Relaxed))
    }

    fn set(&self, group: GroupId, slot: ChildSlot) {
        // Relaxed: published by the store below.
        self.slot.store(slot.number(), Ordering::Relaxed);
        // Release: pairs with the Acquire in `get`; a CPU that sees the parent sees it complete (spec ORDER-5).
        self.group.store(group.0, Ordering::Release);
    }
}

/// A time that one CPU writes under a lock and other CPUs read without the lock.
#[derive(Debug)]
pub(super) struct SharedInstant(AtomicI64);

impl SharedInstant {
    const_unless_loom! {
        const fn forever() -> Self {
            Self(AtomicI64::new(Instant::<crate::time::Monotonic>::FOREVER.as_nanos()))
        }
    }

    #[inline]
    pub(super) fn get(&self) -> Instant {
        // Relaxed: a hint to look, or not to look yet; a CPU that acts on it takes the lock (spec ORDER-7).
        Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn set(&self, time: Instant) {
        // Relaxed: see `get`; CPUs that must not miss it read under the lock that is held here.
        self.0.store(time.as_nanos(), Ordering::Relaxed);
    }
}

/// An entry of a group's queue: the CPU to serve, the time at which to serve it, and the child that published the
/// entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupEvent {
    pub(super) time: Instant,
    pub(super) cpu: CpuId,
    /// The child group; `None` for a leaf, whose children are the CPUs themselves.
    pub(super) child: Option<GroupId>,
}

/// The events of the children of one group, by slot. With sixteen children at most, a search through all of them is
/// cheaper than any tree.
#[derive(Debug)]
pub(super) struct Queue<const WIDTH: usize> {
    events: [Option<GroupEvent>; WIDTH],
}

impl<const WIDTH: usize> Queue<WIDTH> {
    #[cfg(test)]
    pub(super) fn get(&self, slot: ChildSlot) -> Option<&GroupEvent> {
        self.events[slot.index()].as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: ChildSlot) -> Option<&mut GroupEvent> {
        self.events[slot.index()].as_mut()
    }

    pub(super) fn insert(&mut self, slot: ChildSlot, event: GroupEvent) {
        self.events[slot.index()] = Some(event);
    }

    pub(super) fn remove(&mut self, slot: ChildSlot) -> Option<GroupEvent> {
        self.events[slot.index()].take()
    }

    /// Returns the earliest event and its slot. Of several events with the same time it returns the event of the lowest
    /// slot.
    pub(super) fn head(&self) -> Option<(ChildSlot, GroupEvent)> {
        let mut first: Option<(u8, &GroupEvent)> = None;
        for (event, slot) in self.events.iter().zip(0_u8..) {
            if let Some(event) = event
                && first.is_none_or(|(_, first)| event.time < first.time)
            {
                first = Some((slot, event));
            }
        }
        first.map(|(slot, event)| (ChildSlot::new(slot), *event))
    }

    pub(super) fn first(&self) -> Instant {
        self.head()
            .map_or(Instant::FOREVER, |(_, event)| event.time)
    }
}

/// An inner node of the hierarchy. Groups are never freed: without CPUs they are merely inactive.
pub struct Group<L: RawLock, const WIDTH: usize> {
    state: AtomicU64,
    /// The first time of the queue, as the CPU that last changed the queue stored it. It is never later than the first
    /// event of the queue (spec C-4.6).
    pub(super) first: SharedInstant,
    parent: Parent,
    /// True if CPUs skip the event of this group in its parent's queue, because the group serves its events itself.
    ignored: AtomicBool,
    pub(super) queue: Lock<L, Queue<WIDTH>>,
    /// The number of children, changed under the construction lock.
    children: AtomicU8,
    id: GroupId,
    level: u8,
    node: NumaNode,
}

impl<L: RawLock + Default, const WIDTH: usize> Group<L, WIDTH> {
    const WIDTH_FITS: () = assert!(
        WIDTH >= 2 && WIDTH <= WIDTH_MAX,
        "a group has 2 to 16 children"
    );

    /// Makes a group without a parent. `reserved` slots are taken from the start (spec Example 8).
    pub(super) fn new(id: GroupId, level: u8, node: NumaNode, reserved: u8) -> Self {
        const { Self::WIDTH_FITS };
        let queue = Queue {
            events: [None; WIDTH],
        };
        Self {
            state: AtomicU64::new(State::IDLE.word()),
            first: SharedInstant::forever(),
            parent: Parent::none(),
            ignored: AtomicBool::new(true),
            queue: Lock::new(L::default(), queue),
            children: AtomicU8::new(reserved),
            id,
            level,
            node,
        }
    }
}

impl<L: RawLock, const WIDTH: usize> Group<L, WIDTH> {
    /// Returns the number of the group.
    #[must_use]
    pub const fn id(&self) -> GroupId {
        self.id
    }

    /// Returns the level of the group; leaf groups are on level 0.
    #[must_use]
    pub const fn level(&self) -> usize {
        self.level as usize
    }

    /// Returns the NUMA node of all CPUs of the group, if its level is below the cross-node level; otherwise the NUMA
    /// node of its first CPU.
    #[must_use]
    pub const fn node(&self) -> NumaNode {
        self.node
    }

    /// Returns the parent; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<GroupId> {
        self.parent.get()
    }

    /// Returns the place of the group in its parent.
    #[must_use]
    pub fn slot(&self) -> ChildSlot {
        self.parent.slot()
    }

    /// Returns the number of children of the group, reserved places included.
    #[must_use]
    pub fn children(&self) -> usize {
        // Relaxed: changed under the construction lock; readers without it only draw.
        usize::from(self.children.load(Ordering::Relaxed))
    }

    /// Returns the time of the first event, [`Instant::FOREVER`] if the group has none. The result may be too early,
    /// never too late.
    #[must_use]
    pub fn first(&self) -> Instant {
        self.first.get()
    }

    /// Returns the present state.
    #[inline]
    #[must_use]
    pub fn state(&self) -> State {
        // Acquire: pairs with the Release of `exchange`. A walk to idle reads the child after this, and sees it at
        // least as the one left it who brought the group into this state (spec ORDER-2, ORDER-3).
        State::from_word(self.state.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn exchange(&self, old: State, new: State) -> bool {
        // AcqRel on success: pairs with every other exchange of this word, so that walks through a group follow one
        // another (spec ORDER-1). Relaxed on failure: the caller reads again, with Acquire.
        self.state
            .compare_exchange(old.word(), new.word(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Returns the state, read so that each CPU that changes the state later sees all writes of the caller before this
    /// call (spec ORDER-6).
    pub(super) fn synchronise(&self) -> State {
        // AcqRel: Acquire to see an activation that is done; Release to hand the new parent to a later one.
        State::from_word(self.state.fetch_add(0, Ordering::AcqRel))
    }

    #[inline]
    pub(super) fn is_ignored(&self) -> bool {
        // Relaxed: a late look costs one useless service (spec C-4.4).
        self.ignored.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn set_ignored(&self, ignored: bool) {
        // Relaxed: raced for only by one who publishes an inactive group and one who activates it, and both orders
        // are harmless (spec C-4.6).
        self.ignored.store(ignored, Ordering::Relaxed);
    }

    /// Takes the next slot; `None` if all slots are taken. Called under the construction lock.
    pub(super) fn take_slot(&self) -> Option<ChildSlot> {
        let taken = self.children();
        if taken >= WIDTH {
            return None;
        }
        let slot = u8::try_from(taken).ok()?;
        // Relaxed: the construction lock orders those who change it.
        self.children.store(slot + 1, Ordering::Relaxed);
        Some(ChildSlot::new(slot))
    }

    /// Connects the group with its parent for ever. Called under the construction lock.
    pub(super) fn connect(&self, parent: GroupId, slot: ChildSlot) {
        self.parent.set(parent, slot);
    }
}

impl<L: RawLock, const WIDTH: usize> fmt::Debug for Group<L, WIDTH> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Group")
            .field("id", &self.id)
            .field("level", &self.level)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

/// State that the lock of a node protects.
#[derive(Debug)]
pub(super) struct NodeState {
    /// True while another CPU runs the global timers of this CPU (spec TI7).
    pub(super) expiring_remotely: bool,
    /// The time of the node's event when the event was last queued.
    pub(super) time: Instant,
}

/// The leaf of a CPU in the hierarchy. The host stores one leaf for each CPU, at an address that never changes.
pub struct CpuNode<L: RawLock> {
    cpu: CpuId,
    pub(super) state: Lock<L, NodeState>,
    leaf: Parent,
    /// True if the CPU is online and not isolated. Written under the lock.
    available: AtomicBool,
    /// True if the CPU counts as idle. Written under the lock, by the CPU itself.
    idle: AtomicBool,
    /// True for a foreign thread, which is never active: it publishes its timers, and other CPUs fire them. Written
    /// under the lock.
    foreign: AtomicBool,
    /// The time at which this idle CPU has promised to wake up for the whole tree. Written under the lock.
    pub(super) wakeup: SharedInstant,
    /// True if CPUs skip the event of this node, because the CPU fires its timers itself. Written under the lock of the
    /// node, read under the lock of the leaf group.
    ignored: AtomicBool,
}

impl<L: RawLock + Default> CpuNode<L> {
    /// Makes the leaf of `cpu`. The leaf is outside of the hierarchy until it is [prepared](super::Hierarchy::prepare).
    #[must_use]
    pub fn new(cpu: CpuId) -> Self {
        let state = NodeState {
            expiring_remotely: false,
            time: Instant::FOREVER,
        };
        Self {
            cpu,
            state: Lock::new(L::default(), state),
            leaf: Parent::none(),
            available: AtomicBool::new(false),
            idle: AtomicBool::new(true),
            foreign: AtomicBool::new(false),
            wakeup: SharedInstant::forever(),
            ignored: AtomicBool::new(true),
        }
    }
}

impl<L: RawLock> CpuNode<L> {
    /// Returns the CPU of the node.
    #[must_use]
    pub const fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// Returns the group of the node; `None` until the node is prepared.
    #[must_use]
    pub fn leaf(&self) -> Option<GroupId> {
        self.leaf.get()
    }

    /// Returns the place of the node in its group.
    #[must_use]
    pub fn slot(&self) -> ChildSlot {
        self.leaf.slot()
    }

    /// Returns true if the CPU takes part in the hierarchy.
    #[inline]
    #[must_use]
    pub fn is_available(&self) -> bool {
        // Relaxed: the CPU itself writes it, or another one under the lock of the node, which every CPU takes before
        // acting on a `true` that matters.
        self.available.load(Ordering::Relaxed)
    }

    /// Returns true if the CPU counts as idle.
    #[inline]
    #[must_use]
    pub fn is_idle(&self) -> bool {
        // Relaxed: read by the CPU that writes it, or under the lock; or by a CPU that looks for one that is awake, to
        // which either answer is as good as one of a moment ago.
        self.idle.load(Ordering::Relaxed)
    }

    /// Returns true if the CPU is a foreign thread, which fires no timers of other CPUs.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        // Relaxed: written under the availability lock, and read under it where it matters.
        self.foreign.load(Ordering::Relaxed)
    }

    /// Returns the time at which the CPU has promised to wake up for the whole tree; [`Instant::FOREVER`] without a
    /// promise.
    #[inline]
    #[must_use]
    pub fn wakeup(&self) -> Instant {
        self.wakeup.get()
    }

    #[inline]
    pub(super) fn is_ignored(&self) -> bool {
        // Relaxed: a CPU that drops events only by this flag does so for a CPU that publishes again; a late look costs
        // one refused service.
        self.ignored.load(Ordering::Relaxed)
    }

    /// Waits for the lock of the node and returns the guard. The guard has the operations that need the lock.
    pub(super) fn lock(&self) -> NodeGuard<'_, L> {
        NodeGuard {
            state: self.state.lock(None),
            node: self,
        }
    }

    pub(super) fn connect(&self, leaf: GroupId, slot: ChildSlot) {
        self.leaf.set(leaf, slot);
    }
}

impl<L: RawLock> fmt::Debug for CpuNode<L> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CpuNode")
            .field("cpu", &self.cpu)
            .field("available", &self.is_available())
            .field("idle", &self.is_idle())
            .field("wakeup", &self.wakeup())
            .finish_non_exhaustive()
    }
}

pub(super) struct NodeGuard<'a, L: RawLock> {
    pub(super) node: &'a CpuNode<L>,
    pub(super) state: Guard<'a, L, NodeState>,
}

impl<L: RawLock> NodeGuard<'_, L> {
    pub(super) fn set_available(&mut self, available: bool) {
        // Relaxed: written under the lock that the guard stands for, see `is_available`.
        self.node.available.store(available, Ordering::Relaxed);
    }

    pub(super) fn set_idle(&mut self, idle: bool) {
        // Relaxed: as above, see `is_idle`.
        self.node.idle.store(idle, Ordering::Relaxed);
    }

    pub(super) fn set_foreign(&mut self, foreign: bool) {
        // Relaxed: as above, see `is_foreign`.
        self.node.foreign.store(foreign, Ordering::Relaxed);
    }

    pub(super) fn set_ignored(&mut self, ignored: bool) {
        // Relaxed: as above, see `is_ignored`.
        self.node.ignored.store(ignored, Ordering::Relaxed);
    }
}

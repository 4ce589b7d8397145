//! The hierarchy's tables: the wheels of a rig.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::rc::Rc;

use tickless_core::base::{Frozen, Timers};
use tickless_core::coarse::Kind;
use tickless_core::hierarchy::{CpuNode, Group, GroupId, HierarchyHost, Layout, WIDTH_DEFAULT};
use tickless_core::platform::{CpuId, Platform};
use tickless_core::tick::TickCount;
use tickless_core::time::Instant;
use tickless_core::wheel::idle::wake_times;
use tickless_sim::tables::PlainLock;

use crate::host::Host;
use crate::rig::Parts;

/// The hierarchy's tables on top of a host.
pub struct Tables<H: Host> {
    parts: Rc<Parts<H>>,
    count: Rc<TickCount<PlainLock>>,
    nodes: Vec<CpuNode<PlainLock>>,
    /// They have to leave idle once.
    activated: Vec<Cell<bool>>,
    groups: Vec<OnceCell<Box<Group<PlainLock, WIDTH_DEFAULT>>>>,
}

impl<H: Host> Tables<H> {
    pub(super) fn new(
        parts: Rc<Parts<H>>,
        count: Rc<TickCount<PlainLock>>,
        layout: Layout,
    ) -> Self {
        let cpus = u32::try_from(parts.cpus.len()).expect("few CPUs");
        // A new CPU brings a group for each level at most, and as many may join an old root to the new one.
        let groups = cpus as usize * 2 * layout.levels();
        Self {
            parts,
            count,
            nodes: (0..cpus).map(|cpu| CpuNode::new(CpuId(cpu))).collect(),
            activated: (0..cpus).map(|_| Cell::new(false)).collect(),
            groups: (0..groups).map(|_| OnceCell::new()).collect(),
        }
    }

    fn timers(&self) -> &Timers<H::Platform> {
        self.parts.host.timers()
    }

    /// Whether `cpu` has to leave idle once; forgotten by asking.
    pub(super) fn take_activated(&self, cpu: u32) -> bool {
        self.activated[cpu as usize].take()
    }
}

impl<H: Host> HierarchyHost<WIDTH_DEFAULT> for Tables<H> {
    type Lock = PlainLock;
    type LockedBases<'a> = Frozen<'a, H::Platform>;

    fn node(&self, cpu: CpuId) -> Option<&CpuNode<PlainLock>> {
        self.nodes.get(cpu.0 as usize)
    }

    fn cpus(&self) -> u32 {
        u32::try_from(self.nodes.len()).expect("few CPUs")
    }

    fn group(&self, id: GroupId) -> &Group<PlainLock, WIDTH_DEFAULT> {
        self.groups[id.0 as usize]
            .get()
            .expect("the hierarchy asks only for groups that it placed")
    }

    fn reserve(&self, groups: u32) -> bool {
        groups as usize <= self.groups.len()
    }

    fn place(&self, id: GroupId, group: Group<PlainLock, WIDTH_DEFAULT>) {
        let placed = self.groups[id.0 as usize].set(Box::new(group));
        assert!(placed.is_ok(), "a number is given out once");
    }

    fn expire_global(&self, cpu: CpuId, _now: Instant, budget: &mut u32) {
        let now = self.count.now().tick;
        let pass = self.timers().run_wheel(cpu, Kind::Global, now, *budget);
        *budget -= pass.fired;
    }

    fn lock_bases(&self, cpu: CpuId) -> (Frozen<'_, H::Platform>, Instant) {
        let at = self.count.now();
        // One thread: nothing changes between this and the lock.
        let _settled = self.timers().wheel_next(cpu, at.tick);
        let base = self
            .timers()
            .platform()
            .base(cpu)
            .expect("every CPU has a base");
        let held = base.freeze(None);
        (held, wake_times(base.wheel_next_due(), at).global)
    }

    fn activate(&self, cpu: CpuId) {
        self.activated[cpu.0 as usize].set(true);
        self.timers().request_retrigger(cpu);
    }
}

impl<H: Host> fmt::Debug for Tables<H> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tables").finish_non_exhaustive()
    }
}

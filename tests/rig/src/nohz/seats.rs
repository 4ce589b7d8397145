//! The hierarchy's host: the wheels of a [`Machine`].

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::rc::Rc;

use tickless_core::base::Frozen;
use tickless_core::coarse::Kind;
use tickless_core::hierarchy::{CpuNode, Group, GroupId, HierarchyHost, Layout, WIDTH_DEFAULT};
use tickless_core::platform::CpuId;
use tickless_core::tick::TickCount;
use tickless_core::time::Instant;
use tickless_core::wheel::idle::wake_times;
use tickless_sim::tables::PlainLock;

use crate::machine::{Config, Host, Machine};

/// The hierarchy's tables on top of a machine.
pub struct Seats<C: Config> {
    machine: Machine<C>,
    count: Rc<TickCount<PlainLock>>,
    nodes: Vec<CpuNode<PlainLock>>,
    /// They have to leave idle once.
    activated: Vec<Cell<bool>>,
    groups: Vec<OnceCell<Box<Group<PlainLock, WIDTH_DEFAULT>>>>,
}

impl<C: Config> Seats<C> {
    pub(super) fn new(
        machine: Machine<C>,
        count: Rc<TickCount<PlainLock>>,
        layout: Layout,
    ) -> Self {
        let cpus = machine.cpus();
        // A new CPU brings a group for each level at most, and as many may join an old root to the new one.
        let groups = cpus as usize * 2 * layout.levels();
        Self {
            machine,
            count,
            nodes: (0..cpus).map(|cpu| CpuNode::new(CpuId(cpu))).collect(),
            activated: (0..cpus).map(|_| Cell::new(false)).collect(),
            groups: (0..groups).map(|_| OnceCell::new()).collect(),
        }
    }

    /// Whether `cpu` has to leave idle once; forgotten by asking.
    pub(super) fn take_activated(&self, cpu: u32) -> bool {
        self.activated[cpu as usize].take()
    }
}

impl<C: Config> HierarchyHost<WIDTH_DEFAULT> for Seats<C> {
    type Lock = PlainLock;
    type LockedBases<'a> = Frozen<'a, Host<C>>;

    fn node(&self, cpu: CpuId) -> Option<&CpuNode<PlainLock>> {
        self.nodes.get(cpu.0 as usize)
    }

    fn cpus(&self) -> u32 {
        self.machine.cpus()
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
        let pass = self
            .machine
            .timers()
            .run_wheel(cpu, Kind::Global, now, *budget);
        *budget -= pass.fired;
    }

    fn lock_bases(&self, cpu: CpuId) -> (Frozen<'_, Host<C>>, Instant) {
        let at = self.count.now();
        // One thread: nothing changes between this and the lock.
        let _settled = self.machine.timers().wheel_next(cpu, at.tick);
        let base = self.machine.base(cpu.0);
        let held = base.freeze(None);
        (held, wake_times(base.wheel_next_due(), at).global)
    }

    fn activate(&self, cpu: CpuId) {
        self.activated[cpu.0 as usize].set(true);
        self.machine.timers().request_retrigger(cpu);
    }
}

impl<C: Config> fmt::Debug for Seats<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Seats").finish_non_exhaustive()
    }
}

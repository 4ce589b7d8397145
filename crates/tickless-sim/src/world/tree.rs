//! Where the nodes and groups of the hierarchy lie, and what touching them costs.

use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;

use tickless_core::hierarchy::{
    CpuNode, Group, GroupId, Handover, Hierarchy, Layout, NumaNode, Sites, Slot, State, Step,
    WIDTH_DEFAULT,
};
use tickless_core::hrtimer::{Frozen, Timers};
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;
use tickless_core::wheel::Kind;
use tickless_core::wheel::idle::wake_times;

use super::host::{Host, WorldLock};
use super::meter::{self, Line};
use super::queue::What;
use super::topology::Topology;
use super::watch::Entry;

/// The hierarchy of a world.
pub(crate) type Tree = Hierarchy<Table>;

struct Place {
    group: Group<WorldLock, WIDTH_DEFAULT>,
    line: Line,
}

/// The tables.
pub(crate) struct Table {
    timers: Rc<Timers<Host>>,
    nodes: Vec<CpuNode<WorldLock>>,
    groups: Vec<OnceCell<Box<Place>>>,
}

impl Table {
    /// Makes the hierarchy of all CPUs. Nobody takes part yet.
    pub(crate) fn tree(timers: &Rc<Timers<Host>>, topology: &Topology, handover: Handover) -> Tree {
        let cpus = topology.cpus();
        let layout = Layout::new(cpus, topology.numa_nodes(), WIDTH_DEFAULT);
        // A new CPU brings a group for each level at most, and as many may join an old root to the new one.
        let groups = cpus as usize * 2 * layout.levels();
        let table = Self {
            timers: Rc::clone(timers),
            nodes: (0..cpus).map(|cpu| CpuNode::new(CpuId(cpu))).collect(),
            groups: (0..groups).map(|_| OnceCell::new()).collect(),
        };
        let tree = Hierarchy::new(table, layout, handover);
        for cpu in 0..cpus {
            let node = NumaNode(topology.place(cpu).node);
            tree.prepare(CpuId(cpu), node)
                .expect("there is room for every group");
        }
        tree
    }

    fn host(&self) -> &Host {
        self.timers.platform()
    }

    fn state_changed(&self, group: GroupId, child: Slot, old: State, new: State) {
        let host = self.host();
        let place = self.groups[group.0 as usize].get();
        let line = &place.expect("groups are placed before they are named").line;
        line.write(&host.ground, 1);
        meter::charge(host.ground.charges.exchange);
        let value = u64::from(new.active().bits()) << 32 | u64::from(group.0);
        let mut watch = host.watch.borrow_mut();
        watch.log(Entry::State, meter::cpu(), meter::cursor(), value);
        drop(watch);
        let migrator = host.has_one_migrator(group, new);
        if let Some(recorder) = &host.recorder {
            recorder.state_changed(group, (child, migrator), old, new);
        }
    }

    fn serving(&self, cpu: CpuId) {
        let me = meter::cpu();
        let mut watch = self.host().watch.borrow_mut();
        watch.counts.served += u64::from(cpu.0 != me);
        if cpu.0 != me {
            watch.is_undisturbed(me, || format!("it serves CPU {}", cpu.0));
        }
    }
}

impl Sites<WIDTH_DEFAULT> for Table {
    type Lock = WorldLock;
    type Held<'a> = Frozen<'a, Host>;

    #[inline]
    fn node(&self, cpu: CpuId) -> Option<&CpuNode<WorldLock>> {
        self.nodes.get(cpu.0 as usize)
    }

    fn cpus(&self) -> u32 {
        u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)
    }

    #[inline]
    fn group(&self, id: GroupId) -> &Group<WorldLock, WIDTH_DEFAULT> {
        let place = self.groups[id.0 as usize].get();
        &place
            .expect("groups are placed before they are named")
            .group
    }

    fn reserve(&self, groups: u32) -> bool {
        groups as usize <= self.groups.len()
    }

    fn place(&self, id: GroupId, group: Group<WorldLock, WIDTH_DEFAULT>) {
        let line = Line::default();
        let placed = self.groups[id.0 as usize].set(Box::new(Place { group, line }));
        assert!(placed.is_ok(), "a number is given out once");
    }

    fn expire_global(&self, cpu: CpuId, _now: Instant, budget: &mut u32) {
        let tick = self.host().tick_time().tick;
        let pass = self.timers.run_wheel(cpu, Kind::Global, tick, *budget);
        *budget = budget.saturating_sub(pass.fired);
    }

    fn lock_bases(&self, cpu: CpuId) -> (Frozen<'_, Host>, Instant) {
        use tickless_core::Platform;
        let at = self.host().tick_time();
        let _settled = self.timers.wheel_next(cpu, at.tick);
        let base = self.host().base(cpu).expect("who has a node has a base");
        let held = base.freeze(None);
        (held, wake_times(base.wheel_next_due(), at).global)
    }

    fn activate(&self, cpu: CpuId) {
        self.host().send(cpu.0, What::Activate);
    }

    // Inline: most steps are of no interest here, and each place tells one kind of them.
    #[inline]
    fn step(&self, step: Step) {
        match step {
            Step::State {
                group,
                child,
                old,
                new,
            } => self.state_changed(group, child, old, new),
            Step::Serving { cpu, refused: None } => self.serving(cpu),
            _ => {}
        }
        if let Some(recorder) = &self.host().recorder {
            recorder.stepped(step);
        }
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Table")
            .field("cpus", &self.nodes.len())
            .finish_non_exhaustive()
    }
}

//! The nodes and groups of a machine's hierarchy, with the cost of their cache lines.

use std::fmt;
use std::rc::Rc;

use tickless_conformance::tables::{CpuTimers, Tables, groups_max};
use tickless_core::base::{Frozen, Timers};
use tickless_core::coarse::WheelKind;
use tickless_core::hierarchy::{
    GroupId, Hierarchy, Layout, MigratorPolicy, NumaNode, State, Step, WIDTH_DEFAULT,
};
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;
use tickless_core::trace::Event;
use tickless_core::wheel::idle::wake_times;

use crate::machine::host::Host;
use crate::machine::queue::EventKind;
use crate::model::cost_model::{CacheLine, CostedLock};
use crate::model::current_cpu;
use crate::model::topology::Topology;
use crate::promise::trace_checker::Entry;
use crate::promise::{Promise, one_migrator};

pub(crate) type Tree = Hierarchy<Table>;

/// The tables of the hierarchy's nodes and groups.
pub(crate) type Table = Tables<GlobalTimers>;

/// The global timers of the CPUs, and the lines of the groups' states.
pub(crate) struct GlobalTimers {
    timers: Rc<Timers<Host>>,
    lines: Vec<CacheLine>,
}

/// Makes the hierarchy of all CPUs, none of which is online yet.
pub(crate) fn hierarchy(
    timers: &Rc<Timers<Host>>,
    topology: &Topology,
    policy: MigratorPolicy,
) -> Tree {
    let cpus = topology.cpus();
    let layout = Layout::new(cpus, topology.numa_nodes(), WIDTH_DEFAULT);
    let global = GlobalTimers {
        timers: Rc::clone(timers),
        lines: (0..groups_max(cpus, layout))
            .map(|_| CacheLine::default())
            .collect(),
    };
    let tree = Hierarchy::new(Table::with_timers(global, cpus, layout), layout, policy);
    for cpu in 0..cpus {
        let node = NumaNode(topology.place(cpu).node);
        tree.prepare(CpuId(cpu), node)
            .expect("there is room for every group");
    }
    tree
}

impl GlobalTimers {
    fn host(&self) -> &Host {
        self.timers.platform()
    }

    fn state_changed(&self, group: GroupId, new: State) {
        let host = self.host();
        self.lines[group.0 as usize].write(&host.model, 1);
        current_cpu::charge(host.model.charges.exchange);
        let value = u64::from(new.active().bits()) << 32 | u64::from(group.0);
        let mut checker = host.checker.borrow_mut();
        checker.log(
            Entry::State,
            current_cpu::cpu(),
            current_cpu::cursor(),
            value,
        );
        drop(checker);
        let migrator = new.migrator().map(|slot| 1 << slot.number());
        let active = u32::from(new.active().bits());
        let wrong = one_migrator::wrong_migrator(group.0, active, migrator);
        host.check(Promise::OneMigrator, current_cpu::cpu(), wrong);
    }

    fn serving(&self, cpu: CpuId) {
        let me = current_cpu::cpu();
        let mut checker = self.host().checker.borrow_mut();
        checker.counts.served += u64::from(cpu.0 != me);
        if cpu.0 != me {
            checker.serves(me, || format!("it serves CPU {}", cpu.0));
        }
    }
}

impl CpuTimers for GlobalTimers {
    type Lock = CostedLock;
    type LockedBases<'a> = Frozen<'a, Host>;

    fn expire_global(&self, cpu: CpuId, _now: Instant, budget: &mut u32) {
        let tick = self.host().tick_time().tick;
        let pass = self.timers.run_wheel(cpu, WheelKind::Global, tick, *budget);
        *budget = budget.saturating_sub(pass.fired);
    }

    fn lock_bases(&self, cpu: CpuId) -> (Frozen<'_, Host>, Instant) {
        use tickless_core::Port;
        let at = self.host().tick_time();
        let _settled = self.timers.wheel_next(cpu, at.tick);
        let base = self.host().base(cpu).expect("a CPU with a node has a base");
        let held = base.freeze(None);
        (held, wake_times(base.wheel_next_due(), at).global)
    }

    fn activate(&self, cpu: CpuId) {
        self.host().send(cpu.0, EventKind::Activate);
    }

    // Inline: most steps are of no interest here, and each place tells one kind of them.
    #[inline]
    fn step(&self, mut step: Step) {
        match &mut step {
            Step::State { group, new, .. } => {
                if self.host().breaks(Promise::OneMigrator) {
                    *new = new.without_migrator();
                }
                self.state_changed(*group, *new);
            }
            Step::Serving { cpu, refused: None } => self.serving(*cpu),
            _ => {}
        }
        if let Some(recorder) = &self.host().recorder {
            recorder.traced(Event::Hierarchy { tree: 0, step });
        }
    }
}

impl fmt::Debug for GlobalTimers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("GlobalTimers")
            .finish_non_exhaustive()
    }
}

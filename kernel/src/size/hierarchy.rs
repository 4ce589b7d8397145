//! The entry points of the migration hierarchy and of ticks that stop, to measure their size.
//!
//! # Safety
//!
//! *Placed*: the hierarchy stores each group once, before it reads the group.

use core::cell::UnsafeCell;
use core::hint::black_box;
use core::pin::Pin;

use tickless_core::base::Frozen;
use tickless_core::coarse::WheelKind;
use tickless_core::hierarchy::{
    CpuNode, Group, GroupId, Hierarchy, HierarchyHost, Layout, Leaving, MigratorPolicy, NumaNode,
    Presence, WIDTH_DEFAULT,
};
use tickless_core::hrtimer::{Expired, HrTimer, Restart};
use tickless_core::link::lock::SpinLock;
use tickless_core::platform::{CpuId, Port};
use tickless_core::tick::{CpuTick, Nohz, TickCount, TickDependencies};
use tickless_core::time::{Instant, Monotonic, Span};
use tickless_core::wheel::idle::wake_times;

use crate::{Core, Small};

const CPUS: usize = 64;
const GROUPS: usize = 10;

type OneGroup = Group<SpinLock, WIDTH_DEFAULT>;
type Tree = Hierarchy<Nodes>;
type TickTimer = HrTimer<fn(&mut Expired<'_, '_, Monotonic>) -> Restart>;

struct Nodes {
    core: Core,
    count: &'static TickCount<SpinLock>,
    nodes: [CpuNode<SpinLock>; CPUS],
    groups: [UnsafeCell<Option<OneGroup>>; GROUPS],
}

// SAFETY: *placed*.
unsafe impl Sync for Nodes {}

impl HierarchyHost<WIDTH_DEFAULT> for Nodes {
    type Lock = SpinLock;
    type LockedBases<'a> = Frozen<'a, Small>;

    fn node(&self, cpu: CpuId) -> Option<&CpuNode<SpinLock>> {
        self.nodes.get(cpu.0 as usize)
    }

    fn cpus(&self) -> u32 {
        CPUS as u32
    }

    fn group(&self, id: GroupId) -> &OneGroup {
        let group = self.groups[id.0 as usize].get();
        // SAFETY: *placed*.
        let group = unsafe { &*group };
        group.as_ref().expect("it was placed")
    }

    fn reserve(&self, groups: u32) -> bool {
        groups as usize <= GROUPS
    }

    fn place(&self, id: GroupId, group: OneGroup) {
        let place = self.groups[id.0 as usize].get();
        // SAFETY: *placed*.
        unsafe { *place = Some(group) };
    }

    fn expire_global(&self, cpu: CpuId, _now: Instant, budget: &mut u32) {
        let tick = self.count.now().tick;
        let pass = self.core.run_wheel(cpu, WheelKind::Global, tick, *budget);
        *budget = budget.saturating_sub(pass.fired);
    }

    fn lock_bases(&self, cpu: CpuId) -> (Frozen<'_, Small>, Instant) {
        let at = self.count.now();
        let _settled = self.core.wheel_next(cpu, at.tick);
        let base = self.core.platform().base(cpu).expect("it has a base");
        let held = base.freeze(None);
        (held, wake_times(base.wheel_next_due(), at).global)
    }

    fn activate(&self, cpu: CpuId) {
        if let Some(base) = self.core.platform().base(cpu) {
            self.core.platform().kick(base);
        }
    }
}

fn plant(
    place: &'static mut core::mem::MaybeUninit<Tree>,
    core: Core,
    count: &'static TickCount<SpinLock>,
) {
    let nodes = Nodes {
        core,
        count,
        nodes: core::array::from_fn(|cpu| CpuNode::new(CpuId(cpu as u32))),
        groups: [const { UnsafeCell::new(None) }; GROUPS],
    };
    let layout = Layout::new(CPUS as u32, 1, WIDTH_DEFAULT);
    let tree = place.write(Hierarchy::new(nodes, layout, MigratorPolicy::LowestBit));
    for cpu in 0..CPUS as u32 {
        let _room = tree.prepare(CpuId(cpu), NumaNode(0));
    }
}

fn join(tree: &'static Tree) -> bool {
    tree.set_available(CpuId(0), Presence::Awake).is_ok()
}

fn part(tree: &'static Tree) -> bool {
    tree.clear_available(CpuId(0), Leaving::Offline).is_ok()
}

/// Does the work of the end of each tick.
fn serve(tree: &'static Tree, now: Instant) {
    if tree.remote_work_due(CpuId(0), now) {
        let mut budget = u32::MAX;
        let _pull = tree.serve_remote(CpuId(0), now, &mut budget);
    }
}

fn with_tick(
    core: Core,
    tree: &'static Tree,
    tick: &mut CpuTick,
    timer: &'static TickTimer,
    now: Instant,
    act: u32,
) {
    let nohz = Nohz {
        timers: core,
        tree,
        count: tree.host().count,
        max_deferment: Span::from_secs(1),
    };
    let timer = Pin::static_ref(timer);
    match act {
        0 => nohz.online(tick, timer, now, Span::ZERO),
        1 => {
            let _outcome = nohz.tick(tick, now);
        }
        2 => {
            nohz.enter_idle(tick);
            let forecast = nohz.forecast(tick, TickDependencies::default());
            let _kept = nohz.stop(tick, timer, forecast);
        }
        3 => {
            let _counted = nohz.interrupt(tick, now);
        }
        _ => {
            let _kept = nohz.run_task(tick, timer, TickDependencies::default(), now);
        }
    }
}

/// Keeps all functions of this module in the image.
pub(crate) fn keep() {
    black_box([
        plant as *const (),
        join as *const (),
        part as *const (),
        serve as *const (),
        with_tick as *const (),
    ]);
}

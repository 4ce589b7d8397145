//! A host for tests, in which the timers of the CPUs are numbers. The host checks the rules of spec C-10.3.
//!
//! All three schedulers use this host: loom, shuttle, and no scheduler, with which a [script](Host::when) runs other
//! CPUs at chosen steps of one CPU.

use std::collections::BTreeSet;
#[cfg(not(any(loom, shuttle)))]
use std::rc::Rc;
use std::sync::{Mutex, OnceLock};
use std::vec::Vec;

use tickless_link::lock::{Guard, Lock};

use crate::cpu::CpuId;
use crate::hierarchy::{
    Child, CpuNode, Group, GroupId, Hierarchy, HierarchyHost, Layout, MigratorPolicy, NumaNode,
    Presence, Step,
};
use crate::time::Instant;

#[cfg(any(loom, shuttle))]
pub(super) use tickless_link::lock::ModelLock as TestLock;
#[cfg(not(any(loom, shuttle)))]
pub(super) type TestLock = tickless_link::lock::SoloLock<Unwatched>;

/// An observer that watches nothing, because the locks of the tests only have to detect that they are taken twice.
#[cfg(not(any(loom, shuttle)))]
#[derive(Debug, Default)]
pub(super) struct Unwatched;
#[cfg(not(any(loom, shuttle)))]
impl tickless_link::lock::Watcher for Unwatched {}

pub(super) type Tree<const WIDTH: usize> = Hierarchy<Host<WIDTH>, WIDTH>;

pub(super) const NEVER: Instant = Instant::FOREVER;

pub(super) fn at(time: i64) -> Instant {
    Instant::from_nanos(time)
}

/// The timer bases of one CPU, with global timers only.
#[derive(Debug, Default)]
pub(super) struct Bases {
    pub(super) timers: BTreeSet<i64>,
    /// The CPU's first local timer, which no other CPU may run.
    pub(super) own: Option<i64>,
    /// True if a run of these bases fires no timer, as when another CPU runs them for ever.
    pub(super) is_stuck: bool,
}

impl Bases {
    fn first(&self) -> Instant {
        let first = self.timers.first().copied();
        match (first, self.own) {
            // The CPU will be awake by then.
            (Some(global), Some(own)) if own <= global => NEVER,
            (Some(global), _) => at(global),
            (None, _) => NEVER,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fired {
    pub(super) cpu: u32,
    pub(super) time: i64,
    pub(super) now: i64,
}

/// A condition on a step, and the action for the first step that meets the condition.
#[cfg(not(any(loom, shuttle)))]
type Script = (
    std::boxed::Box<dyn Fn(Step) -> bool>,
    std::boxed::Box<dyn FnOnce()>,
);

pub(super) struct Host<const WIDTH: usize> {
    nodes: Vec<CpuNode<TestLock>>,
    bases: Vec<Lock<TestLock, Bases>>,
    groups: Vec<OnceLock<Group<TestLock, WIDTH>>>,
    /// The number of groups for which the host has storage.
    pub(super) room: Mutex<u32>,
    pub(super) fired: Mutex<Vec<Fired>>,
    pub(super) activated: Mutex<Vec<CpuId>>,
    #[cfg(not(any(loom, shuttle)))]
    pub(super) steps: core::cell::RefCell<Vec<Step>>,
    #[cfg(not(any(loom, shuttle)))]
    script: core::cell::RefCell<Vec<Script>>,
    /// True while a script runs. A step of a script starts no other script.
    #[cfg(not(any(loom, shuttle)))]
    is_scripted: core::cell::Cell<bool>,
}

impl<const WIDTH: usize> Host<WIDTH> {
    pub(super) fn new(cpus: u32) -> Self {
        let groups = 4 * cpus + 8;
        Self {
            nodes: (0..cpus).map(|cpu| CpuNode::new(CpuId(cpu))).collect(),
            bases: (0..cpus)
                .map(|_| Lock::new(TestLock::default(), Bases::default()))
                .collect(),
            groups: (0..groups).map(|_| OnceLock::new()).collect(),
            room: Mutex::new(groups),
            fired: Mutex::default(),
            activated: Mutex::default(),
            #[cfg(not(any(loom, shuttle)))]
            steps: core::cell::RefCell::default(),
            #[cfg(not(any(loom, shuttle)))]
            script: core::cell::RefCell::default(),
            #[cfg(not(any(loom, shuttle)))]
            is_scripted: core::cell::Cell::default(),
        }
    }

    pub(super) fn bases(&self, cpu: u32) -> Guard<'_, TestLock, Bases> {
        self.bases[cpu as usize].lock(None)
    }

    #[cfg(shuttle)]
    pub(super) fn node_exists(&self, cpu: u32) -> bool {
        (cpu as usize) < self.nodes.len()
    }

    #[cfg(not(any(loom, shuttle)))]
    pub(super) fn group_first(&self, id: GroupId) -> Instant {
        self.group(id).first()
    }

    #[cfg(not(shuttle))]
    pub(super) fn group_state(&self, id: GroupId) -> crate::hierarchy::State {
        self.group(id).state()
    }

    /// Runs `body` once, at the first step that `fits`, in the middle of an operation of a CPU. Scripts that were added
    /// later wait until this script has run.
    #[cfg(not(any(loom, shuttle)))]
    pub(super) fn when(
        &self,
        fits: impl Fn(Step) -> bool + 'static,
        body: impl FnOnce() + 'static,
    ) {
        let script = (
            std::boxed::Box::new(fits) as std::boxed::Box<dyn Fn(Step) -> bool>,
            std::boxed::Box::new(body) as std::boxed::Box<dyn FnOnce()>,
        );
        self.script.borrow_mut().push(script);
    }

    /// Returns true if every script has run. A schedule that never happened proves nothing.
    #[cfg(not(any(loom, shuttle)))]
    pub(super) fn script_is_done(&self) -> bool {
        self.script.borrow().is_empty()
    }
}

impl<const WIDTH: usize> HierarchyHost<WIDTH> for Host<WIDTH> {
    type Lock = TestLock;
    type LockedBases<'a> = Guard<'a, TestLock, Bases>;

    fn node(&self, cpu: CpuId) -> Option<&CpuNode<TestLock>> {
        self.nodes.get(cpu.0 as usize)
    }
    fn cpus(&self) -> u32 {
        u32::try_from(self.nodes.len()).expect("few")
    }
    fn group(&self, id: GroupId) -> &Group<TestLock, WIDTH> {
        self.groups[id.0 as usize].get().expect("it was placed")
    }
    fn reserve(&self, groups: u32) -> bool {
        groups <= *self.room.lock().unwrap()
    }
    fn place(&self, id: GroupId, group: Group<TestLock, WIDTH>) {
        assert!(id.0 < *self.room.lock().unwrap(), "there was no room");
        assert!(self.groups[id.0 as usize].set(group).is_ok());
    }
    fn expire_global(&self, cpu: CpuId, now: Instant, budget: &mut u32) {
        let now = now.as_nanos();
        loop {
            let mut bases = self.bases(cpu.0);
            let first = bases.timers.first().copied();
            let first = first.filter(|first| *first <= now && !bases.is_stuck);
            let Some(time) = first.filter(|_| *budget > 0) else {
                return;
            };
            bases.timers.remove(&time);
            drop(bases);
            *budget -= 1;
            let fired = Fired {
                cpu: cpu.0,
                time,
                now,
            };
            self.fired.lock().unwrap().push(fired);
        }
    }
    fn lock_bases(&self, cpu: CpuId) -> (Guard<'_, TestLock, Bases>, Instant) {
        let bases = self.bases(cpu.0);
        let first = bases.first();
        (bases, first)
    }
    fn activate(&self, cpu: CpuId) {
        self.activated.lock().unwrap().push(cpu);
    }
    fn step(&self, step: Step) {
        let _ = step;
        #[cfg(not(any(loom, shuttle)))]
        {
            self.steps.borrow_mut().push(step);
            let is_next = self
                .script
                .borrow()
                .first()
                .is_some_and(|(fits, _)| fits(step));
            if is_next && !self.is_scripted.replace(true) {
                let (_, body) = self.script.borrow_mut().remove(0);
                body();
                self.is_scripted.set(false);
            }
        }
    }
}

/// Makes a tree of `cpus` CPUs of one NUMA node. All are prepared, available and idle.
#[cfg(not(any(loom, shuttle)))]
pub(super) fn idle_tree<const WIDTH: usize>(cpus: u32) -> Rc<Tree<WIDTH>> {
    idle_tree_with(cpus, MigratorPolicy::LowestBit)
}

#[cfg(not(any(loom, shuttle)))]
pub(super) fn idle_tree_with<const WIDTH: usize>(
    cpus: u32,
    policy: MigratorPolicy,
) -> Rc<Tree<WIDTH>> {
    let tree = empty_tree(cpus, 1, policy);
    for cpu in 0..cpus {
        join(&tree, cpu, Presence::Idle);
    }
    Rc::new(tree)
}

/// Makes a tree for `cpus` CPUs on `nodes` NUMA nodes. No CPU is in the tree yet.
pub(super) fn empty_tree<const WIDTH: usize>(
    cpus: u32,
    nodes: u32,
    policy: MigratorPolicy,
) -> Tree<WIDTH> {
    let layout = Layout::new(cpus, nodes, WIDTH);
    Hierarchy::new(Host::new(cpus), layout, policy)
}

/// Makes `cpu` a member of the tree, on the first NUMA node.
pub(super) fn join<const WIDTH: usize>(tree: &Tree<WIDTH>, cpu: u32, presence: Presence) {
    tree.prepare(CpuId(cpu), NumaNode(0))
        .expect("there is room");
    tree.set_available(CpuId(cpu), presence)
        .expect("it is prepared");
}

/// Operations of CPUs, in the order in which a host does them.
impl<const WIDTH: usize> Tree<WIDTH> {
    pub(super) fn node(&self, cpu: u32) -> &CpuNode<TestLock> {
        self.host().node(CpuId(cpu)).expect("it is there")
    }

    /// Makes `cpu` commit to idle as in spec C-3.3, without the part about the tick. If `cpu` is idle already, it
    /// evaluates again.
    pub(super) fn idles(&self, cpu: u32) -> Instant {
        let (held, global) = self.host().lock_bases(CpuId(cpu));
        let cover = if self.node(cpu).is_idle() {
            self.rearm_from_idle(CpuId(cpu), global)
        } else {
            self.enter_idle(CpuId(cpu), global)
        };
        drop(held);
        cover
    }

    pub(super) fn wakes(&self, cpu: u32) {
        self.leave_idle(CpuId(cpu));
    }

    /// Arms a timer on `cpu`, by `cpu` itself. If `cpu` is idle, an interrupt arms the timer, and the CPU evaluates
    /// again.
    pub(super) fn arms(&self, cpu: u32, time: i64) -> Instant {
        self.host().bases(cpu).timers.insert(time);
        if self.node(cpu).is_idle() {
            self.idles(cpu)
        } else {
            NEVER
        }
    }

    /// Runs a tick of `cpu`, or, in idle, the interrupt for its promise.
    pub(super) fn ticks(&self, cpu: u32, now: i64) {
        let mut budget = u32::MAX;
        if !self.node(cpu).is_idle() {
            self.host().expire_global(CpuId(cpu), at(now), &mut budget);
        }
        if self.remote_work_due(CpuId(cpu), at(now)) {
            let pull = self.serve_remote(CpuId(cpu), at(now), &mut budget);
            assert!(!pull.has_more, "the budget is unlimited");
        }
        if self.node(cpu).is_idle() {
            let _cover = self.idles(cpu);
        }
    }

    pub(super) fn fired(&self) -> Vec<Fired> {
        core::mem::take(&mut *self.host().fired.lock().unwrap())
    }

    /// Checks STATE-1, STATE-2, STATE-4 and the shape. Called only while no CPU walks.
    pub(super) fn check_states(&self) {
        assert_eq!(self.check(), Ok(()));
        for id in (0..self.groups()).map(GroupId) {
            let group = self.host().group(id);
            let state = group.state();
            for child in self.children(id) {
                let (slot, expected) = match child {
                    Child::Cpu(cpu) => {
                        let node = self.node(cpu.0);
                        (node.slot(), node.is_available() && !node.is_idle())
                    }
                    Child::Group(below) => {
                        let below = self.host().group(below);
                        (below.slot(), below.state().is_active())
                    }
                };
                assert_eq!(
                    state.active().contains(slot),
                    expected,
                    "STATE-4: {child:?} in {group:?}"
                );
            }
        }
    }

    /// Checks PULL-2: for each finite time of an idle CPU, a CPU is awake and knows the time, or a CPU has promised to
    /// wake up by it. Called only while no CPU walks.
    pub(super) fn check_covered(&self) {
        let promised = (0..self.host().cpus())
            .map(|cpu| self.node(cpu))
            .filter(|node| node.is_available() && node.is_idle())
            .map(CpuNode::wakeup)
            .min()
            .unwrap_or(NEVER);
        for cpu in 0..self.host().cpus() {
            let node = self.node(cpu);
            let first = self.host().bases(cpu).first();
            if !node.is_available() || !node.is_idle() || first.is_forever() || promised <= first {
                continue;
            }
            assert!(
                self.is_listed(cpu, first),
                "PULL-2: {first:?} of CPU {cpu} is lost: {self:?}"
            );
        }
    }

    /// Returns true if `time` of `cpu`, or an earlier time, is queued at each level up to a group with an awake CPU.
    fn is_listed(&self, cpu: u32, time: Instant) -> bool {
        let node = self.node(cpu);
        let (mut next, mut slot, mut ignored) = (node.leaf(), node.slot(), node.is_ignored());
        while let Some(id) = next {
            let group = self.host().group(id);
            let queue = group.queue.lock(None);
            let is_queued = queue.get(slot).is_some_and(|event| event.time <= time);
            if !is_queued || ignored || group.first() > time {
                return false;
            }
            if group.state().is_active() {
                return true;
            }
            (next, slot, ignored) = (group.parent(), group.slot(), group.is_ignored());
        }
        false
    }

    /// Lets time run to `end`, with a tick at each moment, and checks that no timer of an idle CPU is late.
    #[cfg(not(loom))]
    pub(super) fn let_time_run(&self, from: i64, end: i64) {
        for now in from..=end {
            for cpu in 0..self.host().cpus() {
                let node = self.node(cpu);
                if !node.is_idle() || node.wakeup() <= at(now) {
                    self.ticks(cpu, now);
                }
            }
            for cpu in 0..self.host().cpus() {
                let first = self.host().bases(cpu).first();
                assert!(
                    first > at(now) || !self.node(cpu).is_available(),
                    "{first:?} of CPU {cpu} has not fired at {now}"
                );
            }
        }
    }
}

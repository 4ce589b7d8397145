//! The tables of a migration hierarchy, which store its nodes and groups for every host of this crate.
//!
//! A host of a [`Hierarchy`](tickless_core::hierarchy::Hierarchy) has two duties. The first, to keep nodes and groups,
//! is the same for all hosts and is implemented here: [`Tables`] reserve the memory when they are made, for one thread.
//! The second, to run timers on request, is implemented by each host: [`CpuTimers`].

use core::cell::OnceCell;
use core::fmt;

use tickless_core::hierarchy::{
    CpuNode, Group, GroupId, HierarchyHost, Layout, Step, WIDTH_DEFAULT,
};
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;
use tickless_link::lock::{RawLock, SoloLock, Watcher};

use crate::prelude::*;

/// A watcher that ignores all calls. Its lock still panics when it is acquired twice.
#[derive(Debug, Default)]
pub struct Unwatched;

impl Watcher for Unwatched {}

/// The lock of nodes and groups on hosts on which locks cost nothing.
pub type PlainLock = SoloLock<Unwatched>;

/// The timers of a hierarchy's CPUs. Each method corresponds to the method of [`HierarchyHost`] with the same name.
pub trait CpuTimers: Sized {
    /// The lock of nodes and groups.
    type Lock: RawLock + Default;

    /// The right to the timer bases of one CPU.
    type LockedBases<'a>
    where
        Self: 'a;

    /// Fires the global timers of `cpu` that are due at `now`.
    fn expire_global(&self, cpu: CpuId, now: Instant, budget: &mut u32);

    /// Locks the timer bases of `cpu` and returns the time of its first global timer.
    fn lock_bases(&self, cpu: CpuId) -> (Self::LockedBases<'_>, Instant);

    /// Makes `cpu` leave idle soon.
    fn activate(&self, cpu: CpuId);

    /// Reports a step that has happened or is about to happen.
    #[inline]
    fn step(&self, step: Step) {
        let _ = step;
    }
}

/// The nodes and groups of the CPUs of `T`.
pub struct Tables<T: CpuTimers, const WIDTH: usize = WIDTH_DEFAULT> {
    timers: T,
    nodes: Vec<CpuNode<T::Lock>>,
    groups: Vec<OnceCell<Box<Group<T::Lock, WIDTH>>>>,
}

/// Returns the largest number of groups that `layout` can need with CPUs 0 to `cpus - 1`.
#[must_use]
pub fn groups_max(cpus: u32, layout: Layout) -> usize {
    // A new CPU brings a group for each level at most, and as many may join an old root to the new one.
    (cpus as usize).saturating_mul(2 * layout.levels())
}

impl<T: CpuTimers, const WIDTH: usize> Tables<T, WIDTH> {
    /// Makes tables for CPUs 0 to `cpus - 1`, with space for all groups that `layout` can need.
    #[must_use]
    pub fn with_timers(timers: T, cpus: u32, layout: Layout) -> Self {
        Self {
            timers,
            nodes: (0..cpus).map(|cpu| CpuNode::new(CpuId(cpu))).collect(),
            groups: (0..groups_max(cpus, layout))
                .map(|_| OnceCell::new())
                .collect(),
        }
    }

    /// Returns the timers of the CPUs.
    #[must_use]
    pub const fn timers(&self) -> &T {
        &self.timers
    }
}

impl<T: CpuTimers, const WIDTH: usize> HierarchyHost<WIDTH> for Tables<T, WIDTH> {
    type Lock = T::Lock;
    type LockedBases<'a>
        = T::LockedBases<'a>
    where
        Self: 'a;

    #[inline]
    fn node(&self, cpu: CpuId) -> Option<&CpuNode<T::Lock>> {
        self.nodes.get(cpu.0 as usize)
    }

    fn cpus(&self) -> u32 {
        u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)
    }

    #[inline]
    fn group(&self, id: GroupId) -> &Group<T::Lock, WIDTH> {
        self.groups[id.0 as usize]
            .get()
            .expect("the hierarchy asks only for groups that it placed")
    }

    fn reserve(&self, groups: u32) -> bool {
        groups as usize <= self.groups.len()
    }

    fn place(&self, id: GroupId, group: Group<T::Lock, WIDTH>) {
        let placed = self.groups[id.0 as usize].set(Box::new(group));
        assert!(placed.is_ok(), "a number is given out once");
    }

    fn expire_global(&self, cpu: CpuId, now: Instant, budget: &mut u32) {
        self.timers.expire_global(cpu, now, budget);
    }

    fn lock_bases(&self, cpu: CpuId) -> (T::LockedBases<'_>, Instant) {
        self.timers.lock_bases(cpu)
    }

    fn activate(&self, cpu: CpuId) {
        self.timers.activate(cpu);
    }

    #[inline]
    fn step(&self, step: Step) {
        self.timers.step(step);
    }
}

impl<T: CpuTimers, const WIDTH: usize> fmt::Debug for Tables<T, WIDTH> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Tables")
            .field("cpus", &self.nodes.len())
            .finish_non_exhaustive()
    }
}

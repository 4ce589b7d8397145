//! The migration hierarchy: a tree through which awake CPUs fire the global timers of idle ones.
//!
//! A timer is armed where its user runs, and nothing is predicted. While that CPU is awake it expires its timers
//! itself. Before it idles it hands the *time* of its first global timer to the hierarchy, not the timer. An awake CPU
//! that is *migrator* for a part of the tree looks there once a tick, and pulls: it runs the timers of the idle CPU on
//! the spot. The last CPU to go idle promises to wake up at the earliest time known to the tree (spec C-3.1).
//!
//! # Shape
//!
//! ```text
//!                         Group  level 1        state: active children, migrator, sequence
//!                        /      \               queue: one event for each idle child
//!            Group  level 0      Group  level 0
//!            /    |    \          /    |
//!      CpuNode CpuNode CpuNode CpuNode CpuNode  wakeup: the promise of an idle CPU
//! ```
//!
//! A group has up to `WIDTH` children. It is active while any of them is, and then one of the active ones is its
//! migrator, which looks after the events of the others. An inactive group is itself an event in its parent's queue. So
//! events of idle CPUs rise only as far as a CPU is awake, and CPUs that go idle and leave idle in a busy group
//! touch no more than the state word of that group.
//!
//! # Use
//!
//! [`enter_idle`](Hierarchy::enter_idle) before a CPU sleeps, with the time of its first global timer; what it returns
//! is when the CPU has to wake up for others. [`leave_idle`](Hierarchy::leave_idle) when it runs work again.
//! [`rearm_from_idle`](Hierarchy::rearm_from_idle) when an idle CPU armed something.
//! [`remote_work_due`](Hierarchy::remote_work_due) at each tick, and if it says so
//! [`serve_remote`](Hierarchy::serve_remote). A thread that is no worker has a node that is always idle: it only
//! publishes, and is served.
//!
//! # Ground rules
//!
//! - Lock order: construction and availability; the timer bases of one CPU; the node of that CPU; groups, child before
//!   parent, two at a time (spec C-4.8). Callbacks run without any of them.
//! - The state word of a group is changed by exchange only, without its lock, and each change counts (STATE-3).
//! - A CPU that goes idle reads the group's state *before* the child's (ORDER-2).
//! - A publisher reads the group's state *under its lock* (ORDER-4): of two that race, the later sees what the earlier
//!   one left.
//! - A parent is set once and never changes (TI3). Each step of a walk loads it once (R27).
//! - A CPU that stores a live event in a group that is idle by then goes on upwards, also when another one took over
//!   before (HAZARD-1).
//! - A CPU that served another decides by the fetched state whether the event counts, not by an earlier value of the
//!   flag (HAZARD-2).
//! - The operations of one CPU are called by one thread at a time; `serve_remote` names the CPU that calls.
//!
//! # Cost
//!
//! Leaving idle takes the lock of the own node and one exchange for each level that was idle. Going idle takes the lock
//! of a group where there is an event to publish. The check at the tick takes no lock. Nothing is allocated.
//!
//! Requirement ids (STATE-1, ORDER-2, HAZARD-1, R52, ...) are those of spec C-4.

use core::fmt;

use tickless_link::lock::{Lock, RawLock};
use tickless_link::sync::{AtomicU8, AtomicU32, Ordering};

use crate::cpu::CpuId;

mod availability;
mod describe;
mod dump;
pub(crate) mod group;
mod grow;
mod host;
mod idle;
mod isolate;
mod layout;
mod promise;
mod serve;
pub(crate) mod state;
pub(crate) mod step;
#[cfg(test)]
mod tests;
mod walk;

pub use availability::{Leaving, Presence, Refused};
pub use describe::{Child, Misshapen};
pub use group::{CpuNode, Group, GroupId};
pub use grow::PrepareError;
pub use host::HierarchyHost;
pub use isolate::{Change, IsolationHost};
pub use layout::{LEVELS_MAX, Layout, NumaNode};
pub use serve::Pull;
pub use state::{ChildSlot, ChildSlots, MigratorPolicy, State, WIDTH_MAX};
pub use step::{Refusal, Step};

use self::grow::Shape;

/// The number of children of a group unless a host chooses another: a state word and its queue stay within a few cache
/// lines, and four levels reach 4,096 CPUs.
pub const WIDTH_DEFAULT: usize = 8;

/// A tree of groups. CPUs that must not fire each other's timers belong to different trees (spec C-4.15).
pub struct Hierarchy<S: HierarchyHost<WIDTH>, const WIDTH: usize = WIDTH_DEFAULT> {
    host: S,
    layout: Layout,
    /// A [`MigratorPolicy`].
    policy: AtomicU8,
    /// CPU that promised last to wake up for all; a hint.
    promiser: AtomicU32,
    /// The construction lock.
    shape: Lock<S::Lock, Shape>,
    /// The availability lock, around how many CPUs are available.
    available: Lock<S::Lock, u32>,
}

impl<S: HierarchyHost<WIDTH>, const WIDTH: usize> Hierarchy<S, WIDTH> {
    /// Makes a tree without CPUs.
    ///
    /// `layout` limits the height of the tree, for all CPUs that there may ever be.
    pub fn new(host: S, layout: Layout, policy: MigratorPolicy) -> Self {
        Self {
            host,
            layout,
            policy: AtomicU8::new(policy as u8),
            promiser: AtomicU32::new(u32::MAX),
            shape: Lock::new(S::Lock::default(), Shape::default()),
            available: Lock::new(S::Lock::default(), 0),
        }
    }

    /// Returns the host.
    #[inline]
    pub const fn host(&self) -> &S {
        &self.host
    }

    /// Returns the policy that chooses the next migrator.
    #[must_use]
    pub fn migrator_policy(&self) -> MigratorPolicy {
        // Relaxed: nothing but the choice depends on it.
        match self.policy.load(Ordering::Relaxed) {
            by if by == MigratorPolicy::LowestBit as u8 => MigratorPolicy::LowestBit,
            by if by == MigratorPolicy::LeastLoaded as u8 => MigratorPolicy::LeastLoaded,
            _ => MigratorPolicy::Rotating,
        }
    }

    /// Sets the policy that chooses the next migrator. Callable at any time; the present migrators stay.
    pub fn set_migrator_policy(&self, policy: MigratorPolicy) {
        // Relaxed: see `migrator_policy`.
        self.policy.store(policy as u8, Ordering::Relaxed);
    }

    /// Returns the layout, which bounds the height of the tree.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// The node of `cpu` if it takes part now.
    #[inline]
    fn available_node(&self, cpu: CpuId) -> Option<&CpuNode<S::Lock>> {
        self.host.node(cpu).filter(|node| node.is_available())
    }

    #[inline]
    fn group(&self, id: GroupId) -> &Group<S::Lock, WIDTH> {
        self.host.group(id)
    }
}

impl<S: HierarchyHost<WIDTH>, const WIDTH: usize> fmt::Debug for Hierarchy<S, WIDTH>
where
    S::Lock: RawLock,
{
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Hierarchy")
            .field("layout", &self.layout)
            .field("policy", &self.migrator_policy())
            .finish_non_exhaustive()
    }
}

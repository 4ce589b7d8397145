//! The migration hierarchy: a tree through which awake CPUs fire the global timers of idle ones.
//!
//! A timer is armed on the CPU on which its user runs. No code predicts which CPU will be awake when the timer is due.
//! While a CPU is awake it expires its timers itself. Before a CPU idles it publishes the *time* of its first global
//! timer in the hierarchy; the timer itself stays on the CPU. An awake CPU that is *migrator* for a part of the tree
//! checks that part once a tick, and runs the due timers of the idle CPUs in it. The last CPU that goes idle promises
//! to wake up at the earliest time known to the tree (spec C-3.1).
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
//! A group has up to `WIDTH` children. The group is active while any child is active. One of the active children is the
//! migrator of the group, which serves the events of the idle children. An inactive group has an event in its parent's
//! queue. So the event of an idle CPU rises only to the first group with an awake CPU. A CPU that enters or leaves idle
//! in a busy group touches only the state word of that group.
//!
//! # Use
//!
//! A CPU calls [`enter_idle`](Hierarchy::enter_idle) before it sleeps, with the time of its first global timer. The
//! result is the time at which the CPU has to wake up for others. The CPU calls [`leave_idle`](Hierarchy::leave_idle)
//! when it runs work again, and [`rearm_from_idle`](Hierarchy::rearm_from_idle) when it armed a timer while idle. At
//! each tick a CPU checks [`remote_work_due`](Hierarchy::remote_work_due), and calls
//! [`serve_remote`](Hierarchy::serve_remote) if the check returns true. A thread that is no worker has a node that is
//! always idle. It only publishes its timers, and other CPUs fire them.
//!
//! # Ground rules
//!
//! - Lock order: construction and availability; the timer bases of one CPU; the node of that CPU; groups, child before
//!   parent, two at a time (spec C-4.8). Callbacks run without any of these locks.
//! - The state word of a group is changed by compare-and-exchange only, without the lock of the group. Each change
//!   increments the sequence number (STATE-3).
//! - A CPU that goes idle reads the group's state *before* the child's state (ORDER-2).
//! - A publisher reads the group's state *under the lock of the group* (ORDER-4). So of two racing publishers the later
//!   one sees the state that the earlier one left.
//! - A parent is set once and never changes (TI3). Each step of a walk loads it once (R27).
//! - A CPU that stores a live event in a group that has become idle meanwhile continues its walk upwards, even if
//!   another CPU took over before (HAZARD-1).
//! - After a CPU served another CPU, the fetched state decides whether the event counts, not an earlier value of the
//!   flag (HAZARD-2).
//! - One thread at a time calls the operations of one CPU. The `cpu` argument of `serve_remote` is the calling CPU.
//!
//! # Cost
//!
//! Leaving idle takes the lock of the CPU's node and one exchange for each level that was idle. Going idle takes the
//! lock of each group in which the CPU publishes an event. The check at the tick takes no lock. No operation allocates
//! memory.
//!
//! Requirement ids (STATE-1, ORDER-2, HAZARD-1, R52, ...) are those of spec C-4.

use core::fmt;

use tickless_link::lock::{Lock, RawLock};
use tickless_link::sync::AtomicU32;

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

/// The default number of children of a group. With eight children a state word and its queue stay within a few cache
/// lines, and four levels reach 4,096 CPUs.
pub const WIDTH_DEFAULT: usize = 8;

/// A migration hierarchy: a tree of groups over CPUs. CPUs that must not fire each other's timers belong to different
/// trees (spec C-4.15).
pub struct Hierarchy<S: HierarchyHost<WIDTH>, const WIDTH: usize = WIDTH_DEFAULT> {
    host: S,
    layout: Layout,
    policy: MigratorPolicy,
    /// The CPU that last promised to wake up for all CPUs. It is a hint.
    promiser: AtomicU32,
    /// The construction lock.
    shape: Lock<S::Lock, Shape>,
    /// The availability lock, which protects the number of available CPUs.
    available: Lock<S::Lock, u32>,
}

impl<S: HierarchyHost<WIDTH>, const WIDTH: usize> Hierarchy<S, WIDTH> {
    /// Makes a tree without CPUs.
    ///
    /// `layout` limits the height of the tree. It is computed from all CPUs that may ever exist.
    pub fn new(host: S, layout: Layout, policy: MigratorPolicy) -> Self {
        Self {
            host,
            layout,
            policy,
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

    /// Returns the layout, which bounds the height of the tree.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the node of `cpu`, if `cpu` takes part in the hierarchy now.
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
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

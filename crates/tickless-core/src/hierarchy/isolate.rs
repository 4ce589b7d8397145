//! The set of isolated CPUs (spec C-5.4).
//!
//! A CPU joins and leaves the tree by itself, so a change of the set is work for several CPUs. All that are to join are
//! asked and waited for before the first is asked to leave: in between there are more CPUs that look after the idle,
//! not fewer.

use super::{Hierarchy, HierarchyHost, Refused};
use crate::cpu::CpuId;

/// A change of a CPU's part in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The isolation of the CPU ends.
    Join,
    /// The CPU becomes isolated.
    Leave,
}

/// The host's way to make CPUs carry out a change of the isolated set: work items in a kernel, requests to threads in
/// user space.
///
/// From the first call until the last no CPU goes online or offline, and the set is not changed by another call.
pub trait IsolationHost {
    /// Returns true if `cpu` is online. An offline CPU is left as it is; when it goes online, the host looks at the set
    /// before it lets the CPU join.
    fn is_online(&self, cpu: CpuId) -> bool;

    /// Returns true if the host wants `cpu` isolated.
    ///
    /// A host in which tasks without a tick go by the count of one CPU MUST say `false` for that (spec C-5.4).
    fn is_to_be_isolated(&self, cpu: CpuId) -> bool;

    /// Requests that `cpu` changes its part.
    ///
    /// There it is done by [`set_available`](Hierarchy::set_available), or by
    /// [`clear_available`](Hierarchy::clear_available) for [isolation](super::Leaving::Isolation). MAY return before it
    /// is done.
    fn ask(&mut self, cpu: CpuId, change: Change);

    /// Waits until `cpu` has changed its part. It is also called for a CPU that needed no request.
    ///
    /// # Errors
    ///
    /// The error that the CPU got when it tried.
    fn wait(&mut self, cpu: CpuId, change: Change) -> Result<(), Refused>;
}

impl<S: HierarchyHost<WIDTH>, const WIDTH: usize> Hierarchy<S, WIDTH> {
    /// Isolates the CPUs that `host` names, and ends the isolation of all others.
    ///
    /// Returns the number of CPUs that changed. Foreign threads, and CPUs that were never prepared, get no request.
    ///
    /// # Errors
    ///
    /// [`Refused::LastAvailable`] if no CPU that is online would be left to look after the others: nothing has changed
    /// then. Any other error is the first that a CPU returned, and those that were asked before it have changed.
    pub fn isolate_set(&self, host: &mut impl IsolationHost) -> Result<u32, Refused> {
        let stays = |cpu| self.concerns(host, cpu) && !host.is_to_be_isolated(cpu);
        if !self.all_cpus().any(stays) {
            return Err(Refused::LastAvailable);
        }
        let order = [Change::Join, Change::Leave];
        let mut changed = 0;
        for change in order {
            changed += self.change_all(host, change)?;
        }
        Ok(changed)
    }

    fn change_all(&self, host: &mut impl IsolationHost, change: Change) -> Result<u32, Refused> {
        let mut asked = 0;
        for cpu in self.all_cpus() {
            if self.has_to(host, cpu, change) {
                host.ask(cpu, change);
                asked += 1;
            }
        }
        let mut result = Ok(asked);
        for cpu in self.all_cpus() {
            // Not by what is: a CPU that was asked may have changed by now, and finished nothing else.
            if self.concerns(host, cpu) && host.is_to_be_isolated(cpu) == (change == Change::Leave)
            {
                result = result.and(host.wait(cpu, change).map(|()| asked));
            }
        }
        result
    }

    /// Returns true if the set decides on `cpu`.
    fn concerns(&self, host: &impl IsolationHost, cpu: CpuId) -> bool {
        let node = self.host.node(cpu);
        node.is_some_and(|node| node.leaf().is_some() && !node.is_foreign()) && host.is_online(cpu)
    }

    fn has_to(&self, host: &impl IsolationHost, cpu: CpuId, change: Change) -> bool {
        let takes_part = self.available_node(cpu).is_some();
        self.concerns(host, cpu)
            && host.is_to_be_isolated(cpu) == (change == Change::Leave)
            && takes_part == (change == Change::Leave)
    }

    fn all_cpus(&self) -> impl Iterator<Item = CpuId> + use<S, WIDTH> {
        (0..self.host.cpus()).map(CpuId)
    }
}

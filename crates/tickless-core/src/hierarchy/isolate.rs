//! The set of isolated CPUs (spec C-5.4).
//!
//! Each CPU joins and leaves the tree itself, so a change of the set is work for several CPUs. Joining CPUs go
//! first: no CPU is requested to leave until all joining CPUs have joined. So during the change more CPUs serve the
//! idle CPUs, not fewer.

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
/// From the first call until the last call no CPU goes online or offline, and no other call changes the set.
pub trait IsolationHost {
    /// Returns true if `cpu` is online. An offline CPU is not changed. When it goes online, the host checks the set
    /// before it lets the CPU join.
    fn is_online(&self, cpu: CpuId) -> bool;

    /// Returns true if the host wants `cpu` isolated.
    ///
    /// A host in which one CPU counts the ticks for tasks without a tick MUST return `false` for that CPU (spec C-5.4).
    fn is_to_be_isolated(&self, cpu: CpuId) -> bool;

    /// Requests that `cpu` joins or leaves the hierarchy.
    ///
    /// `cpu` carries out the request with [`set_available`](Hierarchy::set_available), or with
    /// [`clear_available`](Hierarchy::clear_available) for [isolation](super::Leaving::Isolation). This function MAY
    /// return before the request is carried out.
    fn ask(&mut self, cpu: CpuId, change: Change);

    /// Waits until `cpu` has joined or left. Also called for a CPU that needed no request.
    ///
    /// # Errors
    ///
    /// The error that the CPU got when it tried to join or leave.
    fn wait(&mut self, cpu: CpuId, change: Change) -> Result<(), Refused>;
}

impl<S: HierarchyHost<WIDTH>, const WIDTH: usize> Hierarchy<S, WIDTH> {
    /// Isolates the CPUs that `host` names, and ends the isolation of all others.
    ///
    /// Returns the number of CPUs that changed. Foreign threads, and CPUs that were never prepared, get no request.
    ///
    /// # Errors
    ///
    /// [`Refused::LastAvailable`] if no online CPU would remain to serve the others; nothing has changed then. Any
    /// other error is the first error that a CPU returned. The CPUs that got their request earlier have changed.
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

    /// Returns true if the set of isolated CPUs applies to `cpu`.
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

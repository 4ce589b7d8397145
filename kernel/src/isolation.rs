//! The set of isolated CPUs, which changes as a whole: the CPUs whose isolation ends join first. The kernel waits for
//! them, and then the others leave.
//!
//! The order, and the refusal of a set that leaves no CPU to serve the others, are the core's
//! ([`Hierarchy::isolate_set`](tickless_core::hierarchy::Hierarchy::isolate_set)). The kernel has each CPU change
//! itself: by a job, which the CPU executes when it idles.

use tickless_core::hierarchy::{Change, IsolationHost, Leaving, Presence, Refused};
use tickless_core::platform::CpuId;

use crate::arch;
use crate::arch::CPUS_MAX;
use crate::idle;
use crate::machine::{Machine, machine};

impl Machine {
    /// Isolates the CPUs for which `wanted` returns true, and ends the isolation of all others. Returns the number of
    /// CPUs that changed. Called by CPU 0, which sleeps meanwhile.
    ///
    /// A CPU that counts ticks for the tasks of others MUST NOT be isolated.
    ///
    /// # Errors
    ///
    /// [`Refused::LastAvailable`] if no CPU would remain to serve the others; nothing has changed then.
    pub(crate) fn isolate_set(&self, wanted: &dyn Fn(usize) -> bool) -> Result<u32, Refused> {
        self.tree.isolate_set(&mut Set {
            machine: self,
            wanted,
            asked: [None; CPUS_MAX],
        })
    }

    /// Joins or leaves the hierarchy, as the executing CPU, which is awake. An isolated CPU takes no timers of other
    /// CPUs, and gives its own timers away.
    fn change_isolation(&self, change: Change) {
        let local = self.host().here();
        let changed = match change {
            Change::Join => self.tree.set_available(self.here(), Presence::Awake),
            Change::Leave => self.tree.clear_available(self.here(), Leaving::Isolation),
        };
        match changed {
            Ok(()) => local.is_isolated.set(change == Change::Leave),
            Err(_) => local.is_refused.leave(),
        }
        local.available.set(u64::from(self.tree.available_cpus()));
    }
}

/// A change of the set that is in progress.
struct Set<'m> {
    machine: &'m Machine,
    wanted: &'m dyn Fn(usize) -> bool,
    /// The jobs that a CPU had finished when it was requested to change.
    asked: [Option<u64>; CPUS_MAX],
}

impl IsolationHost for Set<'_> {
    fn is_online(&self, cpu: CpuId) -> bool {
        self.machine.is_online(cpu.0 as usize)
    }

    fn is_to_be_isolated(&self, cpu: CpuId) -> bool {
        (self.wanted)(cpu.0 as usize)
    }

    fn ask(&mut self, cpu: CpuId, change: Change) {
        let cpu = cpu.0 as usize;
        let jobs = self.machine.host().local(cpu).jobs.get();
        self.asked[cpu] = Some(jobs);
        if cpu == arch::cpu() {
            self.machine.change_isolation(change);
            return;
        }
        self.machine.run_on(
            cpu,
            match change {
                Change::Join => || machine().change_isolation(Change::Join),
                Change::Leave => || machine().change_isolation(Change::Leave),
            },
        );
    }

    fn wait(&mut self, cpu: CpuId, _change: Change) -> Result<(), Refused> {
        let cpu = cpu.0 as usize;
        let Some(jobs) = self.asked[cpu] else {
            return Ok(());
        };
        let local = self.machine.host().local(cpu);
        if cpu != arch::cpu() {
            idle::until(|| local.jobs.get() != jobs);
        }
        if local.is_refused.take() {
            return Err(Refused::LastAvailable);
        }
        Ok(())
    }
}

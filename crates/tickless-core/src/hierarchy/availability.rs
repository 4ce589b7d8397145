//! CPUs that join and leave the hierarchy because they go online or offline, or because their isolation changes (spec
//! C-5.1 to C-5.4).

use super::{Hierarchy, HierarchyHost, Step};
use crate::cpu::CpuId;
use crate::time::Instant;

/// The way in which a CPU joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The CPU runs work.
    Awake,
    /// The CPU idles already.
    Idle,
    /// The thread is no worker, and will never be active. It publishes its first timer by
    /// [`rearm_from_idle`](Hierarchy::rearm_from_idle), and other CPUs fire its timers. It makes no promise, and is not
    /// counted among the CPUs that fire timers of others. A thread that sleeps until a timer is due and then fires
    /// timers is not foreign but [`Idle`](Self::Idle).
    Foreign,
}

/// The reasons why a CPU stops taking part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The CPU goes offline, and its timers move to another CPU.
    Offline,
    /// The CPU becomes isolated, and fires its own timers only.
    Isolation,
}

/// The reasons why a CPU cannot join or leave. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The CPU was never [prepared](Hierarchy::prepare).
    NotPrepared,
    /// The CPU is the last available CPU of the tree. The tree must keep one available CPU, which fires the timers of
    /// the others (spec XI1).
    LastAvailable,
}

impl core::fmt::Display for Refused {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str(match self {
            Self::NotPrepared => "the CPU was never prepared for the hierarchy",
            Self::LastAvailable => "the CPU is the last one that looks after idle ones",
        })
    }
}

impl core::error::Error for Refused {}

impl<S: HierarchyHost<WIDTH>, const WIDTH: usize> Hierarchy<S, WIDTH> {
    /// Makes `cpu` take part in the hierarchy. Has no effect if `cpu` takes part already.
    ///
    /// Called by `cpu` itself, or by another CPU if `cpu` executes nothing meanwhile.
    ///
    /// # Errors
    ///
    /// When `cpu` was never prepared.
    pub fn set_available(&self, cpu: CpuId, presence: Presence) -> Result<(), Refused> {
        let node = self.host.node(cpu).ok_or(Refused::NotPrepared)?;
        if node.leaf().is_none() {
            return Err(Refused::NotPrepared);
        }
        let mut available = self.available.lock(None);
        if node.is_available() {
            return Ok(());
        }
        let mut guard = node.lock();
        guard.set_idle(presence != Presence::Awake);
        guard.set_foreign(presence == Presence::Foreign);
        guard.set_ignored(true);
        self.set_wakeup(node, Instant::FOREVER);
        if presence == Presence::Awake {
            self.activate_node(node);
        }
        guard.set_available(true);
        let is_available = true;
        self.host.step(Step::Available { cpu, is_available });
        *available += u32::from(presence != Presence::Foreign);
        Ok(())
    }

    /// Ends the part of `cpu` in the hierarchy: from now on it fires its own timers only, is never migrator, and no
    /// other CPU fires its timers. Has no effect if `cpu` does not take part.
    ///
    /// Called by `cpu` itself, or by another CPU if `cpu` executes nothing meanwhile, without locks. Another CPU that
    /// is firing the timers of `cpu` finishes by itself. If the CPU had promised to wake up for others, another CPU of
    /// the tree is [activated](HierarchyHost::activate) and takes over (Example 9).
    ///
    /// [`isolate_set`](Hierarchy::isolate_set) isolates several CPUs at once.
    ///
    /// # Errors
    ///
    /// When `cpu` was never prepared, or when it is the last available CPU and leaves for isolation.
    pub fn clear_available(&self, cpu: CpuId, why: Leaving) -> Result<(), Refused> {
        let node = self.host.node(cpu).ok_or(Refused::NotPrepared)?;
        if node.leaf().is_none() {
            return Err(Refused::NotPrepared);
        }
        let mut available = self.available.lock(None);
        if !node.is_available() {
            return Ok(());
        }
        if why == Leaving::Isolation && *available == 1 && !node.is_foreign() {
            return Err(Refused::LastAvailable);
        }
        let mut guard = node.lock();
        if node.is_idle() {
            // A CPU gives up a promise by walking to idle, and only an active CPU can do that.
            self.activate_node(node);
        }
        guard.set_available(false);
        guard.set_ignored(true);
        self.withdraw(node);
        // Its own timers are its own from now on.
        let cover = self.deactivate(&mut guard, Instant::FOREVER);
        let is_available = false;
        self.host.step(Step::Available { cpu, is_available });
        drop(guard);
        *available -= u32::from(!node.is_foreign());
        let heir = if cover.time.is_forever() {
            None
        } else {
            self.first_available()
        };
        drop(available);
        if let Some(heir) = heir {
            self.host.activate(heir);
        }
        Ok(())
    }

    /// Returns the number of CPUs that can fire the timers of others.
    #[must_use]
    pub fn available_cpus(&self) -> u32 {
        *self.available.lock(None)
    }

    fn first_available(&self) -> Option<CpuId> {
        (0..self.host.cpus()).map(CpuId).find(|cpu| {
            self.available_node(*cpu)
                .is_some_and(|node| !node.is_foreign())
        })
    }
}

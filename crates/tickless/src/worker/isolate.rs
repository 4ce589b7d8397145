//! The set of isolated workers, which can change while the workers run.

use std::collections::BTreeMap;
use std::path::Path;

use super::builder::Workers;
use super::error::IsolateError;
use crate::host::isolation;
use crate::topology::{CpuSet, Topology};

impl<R> Workers<R> {
    /// [Isolates](crate::Worker::set_isolated) the workers on these CPUs, and ends the isolation of the others.
    ///
    /// The call first ends the isolation of workers, and waits for these workers. So meanwhile more workers, not fewer,
    /// can fire the coarse timers of sleeping workers. Workers that have ended, and workers that other code started, do
    /// not change.
    ///
    /// # Blocking
    ///
    /// Each worker that has to change does so in its next turn, and this call waits for the worker. Any thread may call
    /// this method. If a worker of the group calls it, the worker changes its own isolation during the call.
    ///
    /// # Errors
    ///
    /// [`IsolateError`] if the workers are not [pinned](crate::worker::Builder::pin), if one of the CPUs has no worker,
    /// or if no worker of the process would be left that is not isolated. Nothing has changed then, unless another
    /// worker ended or was isolated at the same moment.
    pub fn isolate(&self, cpus: &CpuSet) -> Result<(), IsolateError> {
        let used = self.used().ok_or(IsolateError::NotPinned)?;
        let without = cpus.difference(&used);
        if !without.is_empty() {
            return Err(IsolateError::NoWorkerThere {
                cpus: without,
                used,
            });
        }
        let wanted: BTreeMap<_, _> = self
            .places()
            .filter_map(|(occupancy, cpu)| Some((occupancy.base().cpu(), (occupancy, cpu?))))
            .map(|(base, (occupancy, cpu))| (base, (occupancy, cpus.contains(cpu))))
            .collect();
        isolation::change_set(&wanted).map_err(|_| IsolateError::LastWorker)
    }

    /// Reads which CPUs the kernel keeps free of other work, [isolates](Self::isolate) the workers on them, and returns
    /// these CPUs.
    ///
    /// The call repeats the work of [`Builder::isolate_like_the_system`](super::Builder::isolate_like_the_system) at
    /// the start, for settings that change at run time: isolated partitions of control groups ([`Topology::isolated`]).
    /// The library does not follow such changes by itself. A program calls this when the kernel reports a change: the
    /// kernel wakes a `poll` for `POLLPRI`, and an inotify watch for modification, of the file `cpuset.cpus.partition`
    /// of the group that is the partition. A change in a group that this process cannot see shows only in
    /// `cpuset.cpus.isolated` of the root group; call this from time to time for such changes.
    ///
    /// The call does not follow: partitions, if this process can read neither the root of the control groups nor its
    /// own group, as in many containers; load balancing that was switched off in version 1 of the control groups; CPUs
    /// that go offline, on which the kernel ends the pinning of a worker; interrupts and kernel threads.
    ///
    /// # Errors
    ///
    /// As [`isolate`](Self::isolate), and if a file of the kernel cannot be understood. The workers that were isolated
    /// stay isolated.
    pub fn isolate_like_the_system(&self) -> Result<CpuSet, IsolateError> {
        self.isolate_like(Path::new("/"))
    }

    pub(crate) fn isolate_like(&self, root: &Path) -> Result<CpuSet, IsolateError> {
        let used = self.used().ok_or(IsolateError::NotPinned)?;
        let quiet = Topology::read_quiet(root).map_err(IsolateError::Topology)?;
        let isolated = quiet.intersection(&used);
        self.isolate(&isolated)?;
        Ok(isolated)
    }

    /// Returns the CPUs to which the workers are pinned.
    fn used(&self) -> Option<CpuSet> {
        self.places().map(|(_, cpu)| cpu).collect()
    }
}

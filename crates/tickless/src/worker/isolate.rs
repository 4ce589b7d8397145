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
    /// Workers whose isolation ends go first, and are waited for, so that there are more of them in between that look
    /// after those that sleep, not fewer. Workers that have ended, and those that other code started, stay as they are.
    ///
    /// # Blocking
    ///
    /// Each worker that has to change does so in its next turn, and this call waits for it. Any thread may call it,
    /// also one of the workers, which changes its own isolation meanwhile.
    ///
    /// # Errors
    ///
    /// When the workers are not [pinned](crate::worker::Builder::pin) or none is on one of the CPUs; when no worker of
    /// the process would be left that is not isolated. Nothing has changed then, unless another worker ended or was
    /// isolated at the same moment.
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
    /// It repeats what [`Builder::isolate_like_the_system`](super::Builder::isolate_like_the_system) does at the start,
    /// for settings that change at run time: isolated partitions of control groups ([`Topology::isolated`]). The
    /// library does not follow such changes by itself. A program calls this when the kernel reports a change: the
    /// kernel wakes a `poll` for `POLLPRI`, and an inotify watch for modification, of the file `cpuset.cpus.partition`
    /// of the group that is the partition. A change in a group that this process cannot see shows only in
    /// `cpuset.cpus.isolated` of the root group; call this from time to time for such changes.
    ///
    /// Not followed: partitions of which neither the root of the control groups nor the process's own group can be read
    /// here, as in many containers; load balancing that was switched off in version 1 of the control groups; CPUs that
    /// go offline, on which the kernel takes the pinning from a worker; interrupts and kernel threads.
    ///
    /// # Errors
    ///
    /// As [`isolate`](Self::isolate), and when a file of the kernel cannot be understood. The workers that were
    /// isolated stay so.
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

    /// The CPUs that the workers are pinned to.
    fn used(&self) -> Option<CpuSet> {
        self.places().map(|(_, cpu)| cpu).collect()
    }
}

//! The CPUs, the priority and the policy with which the system schedules a worker's thread.

use super::error::{PRIORITIES, ScheduleError};
use super::worker::Worker;
use crate::host::sys::threads;
use crate::topology::CpuSet;

impl Worker {
    /// Restricts the worker's thread to `cpus` from now on. The restriction stays when the thread is no longer a
    /// worker.
    ///
    /// ```
    /// use tickless::Worker;
    /// use tickless::topology::Topology;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let machine = Topology::read()?;
    /// let allowed = machine.allowed().unwrap_or(machine.online());
    /// let worker = Worker::new()?;
    /// worker.pin(&allowed.iter().take(1).collect())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ScheduleError::NoCpus`] for an empty set. [`ScheduleError::Pin`] if the system refuses, usually because the
    /// process may only use other CPUs, or because `cpus` are not online. The thread keeps its CPUs then.
    ///
    /// # Cost
    ///
    /// One system call; the thread moves at once if it runs on another CPU.
    pub fn pin(&self, cpus: &CpuSet) -> Result<(), ScheduleError> {
        keep_on(cpus)
    }

    /// Sets the real-time priority of the worker's thread, 1 to 99, of which the highest runs first (`SCHED_FIFO`);
    /// `None` ends the real-time priority (`SCHED_OTHER`). The priority stays when the thread is no longer a worker.
    ///
    /// No other thread runs on the CPU while the worker has something to do, unless its priority is higher. Threads
    /// that the worker starts get no such priority (`SCHED_RESET_ON_FORK`). On systems other than Linux:
    ///
    /// - On Windows the priorities 1 to 33 are one level above normal, 34 to 66 are two levels above, and higher
    ///   priorities are `TIME_CRITICAL`.
    /// - On macOS and the BSDs the priority is scaled to the range of the system's `SCHED_FIFO`; started threads
    ///   inherit it.
    /// - On other systems the result is an error of the kind [`Unsupported`](std::io::ErrorKind::Unsupported).
    ///
    /// ```
    /// use tickless::Worker;
    ///
    /// let worker = Worker::new()?;
    /// if let Err(refused) = worker.set_realtime_priority(Some(80)) {
    ///     println!("going on without: {refused}");
    /// }
    /// # Ok::<(), tickless::StartError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ScheduleError::PriorityOutOfRange`] if `priority` is not from 1 to 99. [`ScheduleError::Priority`] if the
    /// system refuses the priority: the process needs the capability `CAP_SYS_NICE`, or a limit `RLIMIT_RTPRIO` that is
    /// high enough. The thread keeps its previous priority then.
    ///
    /// # Cost
    ///
    /// One system call.
    pub fn set_realtime_priority(&self, priority: Option<u8>) -> Result<(), ScheduleError> {
        prioritise(priority)
    }
}

/// Keeps this thread on `cpus`.
fn keep_on(cpus: &CpuSet) -> Result<(), ScheduleError> {
    if cpus.is_empty() {
        return Err(ScheduleError::NoCpus);
    }
    threads::pin(cpus.iter()).map_err(|error| ScheduleError::Pin {
        cpus: cpus.clone(),
        error,
    })
}

/// Gives this thread a real-time priority, or ends the real-time priority.
pub(super) fn prioritise(priority: Option<u8>) -> Result<(), ScheduleError> {
    if let Some(priority) = priority
        && !PRIORITIES.contains(&priority)
    {
        return Err(ScheduleError::PriorityOutOfRange { priority });
    }
    threads::set_realtime_priority(priority).map_err(|error| ScheduleError::Priority {
        priority,
        limit: threads::realtime_limit(),
        error,
    })
}

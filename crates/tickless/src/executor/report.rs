//! The report on a task that keeps its worker for too long.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use crate::shown::Shown;

/// A report on a task whose present poll lasts longer than [`Builder::stuck_after`](super::Builder::stuck_after).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stuck {
    /// The name of the task, if it has one.
    pub name: Option<Arc<str>>,
    /// The place in the source where the task was spawned.
    pub spawned_at: &'static Location<'static>,
    /// The number of the worker.
    pub worker: usize,
    /// A lower bound of the time that the present poll has lasted.
    pub polled_for: Duration,
    /// The number of tasks that wait for the same worker.
    pub waiting: usize,
}

impl fmt::Display for Stuck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Shown(self.name.as_deref().unwrap_or("without a name"));
        write!(
            formatter,
            "the task {name}, spawned at {}, has kept worker {} for {:?}, and {} wait behind it: it should call \
             tickless::coop::checkpoint().await, or compute in spawn_blocking",
            self.spawned_at, self.worker, self.polled_for, self.waiting
        )
    }
}

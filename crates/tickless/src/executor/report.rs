//! A task that keeps its worker, as it is reported.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// A task that kept its worker for longer than [`Builder::stuck_after`](super::Builder::stuck_after) without coming to
/// an end of its poll.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stuck {
    /// The name of the task, if it has one.
    pub name: Option<Arc<str>>,
    /// The place in the source where the task was spawned.
    pub spawned_at: &'static Location<'static>,
    /// The worker, by number.
    pub worker: usize,
    /// The time that the present poll has lasted at least.
    pub polled_for: Duration,
    /// Tasks that wait behind it.
    pub waiting: usize,
}

impl fmt::Display for Stuck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().unwrap_or("without a name");
        write!(
            formatter,
            "the task {name}, spawned at {}, has kept worker {} for {:?}, and {} wait behind it: it should call \
             tickless::coop::checkpoint().await, or compute in spawn_blocking",
            self.spawned_at, self.worker, self.polled_for, self.waiting
        )
    }
}

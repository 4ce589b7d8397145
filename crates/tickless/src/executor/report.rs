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
    /// What the task is called, if it has a name.
    pub name: Option<Arc<str>>,
    /// Where it was spawned.
    pub spawned_at: &'static Location<'static>,
    /// The worker, by number.
    pub worker: usize,
    /// For how long it has been polled, at least.
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

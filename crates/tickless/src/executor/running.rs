//! The task that a worker polls, as the worker's watch timer sees it.
//!
//! The watch timer runs while the worker has something to do. It checks the worker periodically, and ends when it finds
//! the worker with nothing to do. The worker then starts the timer again with the next task.

use std::time::Duration;

use tickless_core::time::Instant;

use super::header::{Header, Job, Origin};

/// The task that is being polled.
#[derive(Debug)]
pub(crate) struct Task {
    /// The address of the task's header, which is compared and never dereferenced.
    address: usize,
    origin: Origin,
    since: Instant,
    /// True if the task was reported because it keeps the worker.
    is_reported: bool,
}

/// The running task, and the state of its watch timer.
#[derive(Debug, Default)]
pub(crate) struct Running {
    pub(super) task: Option<Task>,
    /// True if a watch timer is pending.
    pub(super) is_watched: bool,
}

impl Task {
    #[inline(never)]
    fn of(header: &Header, since: Instant) -> Self {
        Self {
            address: header.address(),
            origin: header.origin.clone(),
            since,
            is_reported: false,
        }
    }

    /// Records that the task of `header` is polled from `since` on. Neither this task nor the previous one has a name,
    /// like most tasks, so no reference to a name is counted or dropped.
    #[inline]
    pub(crate) fn become_unnamed(&mut self, header: &Header, since: Instant) {
        self.address = header.address();
        self.origin.location = header.origin.location;
        self.since = since;
        self.is_reported = false;
    }
}

impl Running {
    /// Begins the poll of the picked task at `now`. Returns true if it is the same task as before.
    #[inline(always)]
    pub(crate) fn begin(&mut self, job: &Job, now: Instant) -> bool {
        let header = job.metadata();
        let address = header.address();
        let is_same = self.task.as_ref().is_some_and(|it| it.address == address);
        match self.unnamed() {
            Some(task) if header.origin.name.is_none() => task.become_unnamed(header, now),
            _ => self.task = Some(Task::of(header, now)),
        }
        is_same
    }

    /// Returns the running task, if it has no name.
    #[inline(always)]
    pub(crate) fn unnamed(&mut self) -> Option<&mut Task> {
        let task = self.task.as_mut();
        task.filter(|it| it.origin.name.is_none())
    }

    /// Returns whether a watch timer has to be started, because none is pending.
    #[inline]
    pub(crate) fn needs_watch(&mut self) -> bool {
        !std::mem::replace(&mut self.is_watched, true)
    }

    /// Checks the worker for its watch timer. Returns true if the timer continues, because a task runs or `has_work`.
    pub(crate) fn goes_on(&mut self, has_work: bool) -> bool {
        self.is_watched = self.task.is_some() || has_work;
        self.is_watched
    }

    /// Returns the running task and the duration of its poll, if that is `least` or longer. Returns each poll at most
    /// once.
    pub(crate) fn stuck(&mut self, now: Instant, least: Duration) -> Option<(Origin, Duration)> {
        let task = self.task.as_mut().filter(|it| !it.is_reported)?;
        let polled_for = Duration::from_nanos(now.saturating_since(task.since).as_nanos());
        task.is_reported = polled_for >= least;
        (task.is_reported).then(|| (task.origin.clone(), polled_for))
    }
}

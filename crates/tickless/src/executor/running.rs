//! The task that a worker polls, as the watch of the worker sees it.
//!
//! A watch goes while the worker has something to do. It looks at the worker again and again, and ends when it finds
//! it with nothing to do; the worker starts the next one.

use std::time::Duration;

use tickless_core::time::Instant;

use super::header::{Header, Job, Origin};

/// The task that is being polled.
#[derive(Debug)]
pub(crate) struct Task {
    /// The address of its header, compared and never followed.
    address: usize,
    origin: Origin,
    since: Instant,
    /// True if the task was reported, because it keeps the worker.
    is_reported: bool,
}

/// The running task, and its watch.
#[derive(Debug, Default)]
pub(crate) struct Running {
    pub(super) task: Option<Task>,
    /// True if a watch goes.
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

    /// The task of `header` is polled from `since` on. Neither this one nor that has a name, as most tasks: there is
    /// none to be counted, and none to be dropped.
    #[inline]
    pub(crate) fn become_unnamed(&mut self, header: &Header, since: Instant) {
        self.address = header.address();
        self.origin.location = header.origin.location;
        self.since = since;
        self.is_reported = false;
    }
}

impl Running {
    /// Begins the poll of the picked task at `now`. Returns true if it is the same as before.
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

    /// Returns whether a watch has to be started: none goes.
    #[inline]
    pub(crate) fn needs_watch(&mut self) -> bool {
        !std::mem::replace(&mut self.is_watched, true)
    }

    /// The watch looks. Returns true if it goes on, because a task runs or `has_work`.
    pub(crate) fn goes_on(&mut self, has_work: bool) -> bool {
        self.is_watched = self.task.is_some() || has_work;
        self.is_watched
    }

    /// Returns the running task and how long it has been polled, once, if that is `least` or longer.
    pub(crate) fn stuck(&mut self, now: Instant, least: Duration) -> Option<(Origin, Duration)> {
        let task = self.task.as_mut().filter(|it| !it.is_reported)?;
        let polled_for = Duration::from_nanos(now.saturating_since(task.since).as_nanos());
        task.is_reported = polled_for >= least;
        (task.is_reported).then(|| (task.origin.clone(), polled_for))
    }
}

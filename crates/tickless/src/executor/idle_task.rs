//! A task that is never polled, for tests of queues.

use std::panic::Location;

use async_task::{Builder, Task};

use super::header::{Entity, Header, Job, Origin, Terms};
use super::shared::Handle;

/// Creates a task that starts on `worker`.
pub(super) fn with_handle(
    shared: Handle,
    worker: usize,
    name: Option<&'static str>,
    entity: Entity,
    terms: Terms,
) -> (Job, Task<(), Header>) {
    let origin = Origin {
        name: name.map(Into::into),
        location: Location::caller(),
    };
    let header = Header::new(shared, worker, false, entity, 21, terms, origin);
    Builder::new()
        .metadata(header)
        .spawn(|_| std::future::pending(), |_| {})
}

/// Creates a task of the fair class as [`with_handle`] does; its handle is not awaited.
pub(super) fn sharing(
    shared: Handle,
    worker: usize,
    name: Option<&'static str>,
    entity: Entity,
) -> Job {
    let (job, task) = with_handle(shared, worker, name, entity, Terms::Share);
    task.detach();
    job
}

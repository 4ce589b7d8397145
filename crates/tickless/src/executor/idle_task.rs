//! A task that is never polled, for tests of queues.

use std::panic::Location;

use async_task::Builder;

use super::header::{Entity, Header, Job, Origin};
use super::shared::Handle;

/// Creates a task that starts on `worker`; its handle is not awaited.
pub(super) fn sharing(
    shared: Handle,
    worker: usize,
    name: Option<&'static str>,
    entity: Entity,
) -> Job {
    let origin = Origin {
        name: name.map(Into::into),
        location: Location::caller(),
    };
    let header = Header::new(shared, worker, false, entity, 21, origin);
    let (job, task) = Builder::new()
        .metadata(header)
        .spawn(|_| std::future::pending::<()>(), |_| {});
    task.detach();
    job
}

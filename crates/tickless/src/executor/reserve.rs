//! The choice of the worker for a task with a deadline.
//!
//! Reservations are partitioned: each reservation and its task belong to one worker. If each deadline equals its
//! period, earliest deadline first on each worker keeps all reservations that are admitted to that worker. One global
//! queue over all workers would not keep them (Dhall and Liu, *On a Real-Time Scheduling Problem*, 1978). The price is
//! that a task is refused if all workers together have enough free bandwidth for it, but no worker alone has. A task is
//! admitted to the worker with the most free bandwidth, so that the other workers keep their free bandwidth.

use super::deadline::Deadline;
use super::header::Terms;
use super::shared::Handle;

/// Admits a task to the worker with the most free bandwidth, or to `home` among equals. That worker is the first
/// result.
pub(crate) fn admit_least_loaded(
    executor: &Handle,
    home: usize,
    deadline: Deadline,
) -> (usize, Terms) {
    let count = executor.places.len();
    let room = |worker: &usize| executor.places[*worker].lock().queue.deadlines.admitted();
    // Another thread may take the room between the two locks: then this one is refused, as if it had come later.
    let worker = (0..count)
        .map(|step| (home + step) % count)
        .filter(|&worker| executor.places[worker].takes_tasks())
        .min_by_key(room)
        .unwrap_or(home);
    (worker, admit_on(executor, worker, deadline))
}

/// Admits a task to the worker with the number `worker`.
pub(crate) fn admit_on(executor: &Handle, worker: usize, deadline: Deadline) -> Terms {
    let mut scheduler = executor.places[worker].lock();
    match scheduler.queue.deadlines.admit(deadline.reservation()) {
        Ok(server) => Terms::Reservation(Box::pin(server)),
        Err(rejected) => Terms::Rejected(Box::new(rejected)),
    }
}

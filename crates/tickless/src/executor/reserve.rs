//! The choice of the worker for a task with a deadline.
//!
//! Reservations are partitioned: each belongs to one worker, and the task with it. With deadlines that are the periods,
//! earliest deadline first on each worker keeps all that is admitted there; across workers it would not (Dhall and Liu,
//! *On a Real-Time Scheduling Problem*, 1978).
//! The price is that a task is refused although its part is free on all workers together, but on none of them alone.
//! The worker with the most room is taken, which leaves the others what they have.

use super::deadline::Deadline;
use super::header::Terms;
use super::shared::Handle;

/// Admits a task to the worker that has the most room, which is the first answer; to `home` among equals.
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

/// Admits a task to this worker.
pub(crate) fn admit_on(executor: &Handle, worker: usize, deadline: Deadline) -> Terms {
    let mut scheduler = executor.places[worker].lock();
    match scheduler.queue.deadlines.admit(deadline.reservation()) {
        Ok(server) => Terms::Reservation(Box::pin(server)),
        Err(rejected) => Terms::Rejected(Box::new(rejected)),
    }
}

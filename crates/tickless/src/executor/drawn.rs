//! Ready tasks in the random order that a seed determines, in place of the fair queue.
//!
//! The fair queue orders tasks by the time that they used, which differs from run to run. With a seed the next task is
//! chosen at random from the ready tasks, and the choices depend only on the seed: one seed gives one schedule. The
//! executor has one worker.
//!
//! # Ground rules
//!
//! - Any thread queues tasks. Only the worker takes them.
//! - No task is dropped or polled under the lock.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::header::Job;
use crate::time::virtual_time::draw::Draw;

/// The queue of the ready tasks.
pub(crate) struct DrawnQueue {
    state: Mutex<State>,
    is_deadlocked: AtomicBool,
}

struct State {
    ready: Vec<Job>,
    draw: Draw,
    is_closed: bool,
}

impl DrawnQueue {
    /// Makes an empty queue whose order `draw` determines.
    pub(crate) fn new(draw: Draw) -> Self {
        Self {
            state: Mutex::new(State {
                ready: Vec::new(),
                draw,
                is_closed: false,
            }),
            is_deadlocked: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a task.
    ///
    /// # Errors
    ///
    /// Returns the task if the queue is closed.
    pub(crate) fn push(&self, job: Job) -> Result<(), Job> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(job);
        }
        state.ready.push(job);
        Ok(())
    }

    /// Removes one of the ready tasks, which the seed chooses; `None` if no task is ready.
    pub(crate) fn draw(&self) -> Option<Job> {
        let mut state = self.lock();
        let State { ready, draw, .. } = &mut *state;
        (!ready.is_empty()).then(|| ready.swap_remove(draw.below(ready.len())))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().ready.is_empty()
    }

    /// Closes the queue, which then refuses tasks. Returns the tasks that wait.
    pub(crate) fn close(&self) -> Vec<Job> {
        let mut state = self.lock();
        state.is_closed = true;
        std::mem::take(&mut state.ready)
    }

    /// Notes that all tasks wait for ever.
    pub(crate) fn set_deadlocked(&self) {
        // Relaxed, both: the worker's own thread reads it after the end of its loop.
        self.is_deadlocked.store(true, Ordering::Relaxed);
    }

    #[cfg_attr(
        not(feature = "macros"),
        expect(dead_code, reason = "the attributes alone draw")
    )]
    pub(crate) fn is_deadlocked(&self) -> bool {
        self.is_deadlocked.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for DrawnQueue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DrawnQueue").finish_non_exhaustive()
    }
}

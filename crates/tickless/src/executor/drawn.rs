//! Ready tasks in the random order that a seed determines, in place of the fair queue.
//!
//! The fair queue orders tasks by the time that they used, which differs from run to run. With a seed the next task is
//! chosen at random from the ready tasks, and the choices depend only on the seed: one seed gives one schedule.
//!
//! # Several workers
//!
//! One worker has the *turn*: it chooses a task, and then, from the same seed, the worker that polls the task. That
//! worker has the turn from then on. The other workers wait. So tasks move between threads as on any executor with
//! several workers, but no two tasks run at the same time: the seed determines the order of their steps.
//!
//! # Ground rules
//!
//! - Any thread queues tasks. Only the worker that has the turn takes them.
//! - No task is dropped or polled under the lock.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::header::Job;
use crate::time::virtual_time::draw::Draw;

/// The queue of the ready tasks.
pub(crate) struct DrawnQueue {
    state: Mutex<State>,
    workers: usize,
    /// The worker that has the turn. The value changes under the lock.
    turn: AtomicUsize,
    is_deadlocked: AtomicBool,
}

/// The result of a choice.
pub(crate) enum Drawn {
    /// The calling worker polls this task.
    Mine(Job),
    /// The named worker has the turn, and a task to poll.
    Other(usize),
    /// No task is ready.
    Nothing,
}

struct State {
    ready: Vec<Job>,
    /// The task that was chosen for the worker that has the turn.
    handed: Option<Job>,
    draw: Draw,
    is_closed: bool,
}

impl DrawnQueue {
    /// Makes an empty queue for so many workers, whose order `draw` determines.
    pub(crate) fn new(draw: Draw, workers: usize) -> Self {
        Self {
            state: Mutex::new(State {
                ready: Vec::new(),
                handed: None,
                draw,
                is_closed: false,
            }),
            workers,
            turn: AtomicUsize::new(0),
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

    /// Returns the worker that has the turn.
    pub(crate) fn turn(&self) -> usize {
        // SeqCst: a thread that queues a task and then reads this wakes the worker that has the turn, or the worker
        // that gets it finds the task when it draws.
        self.turn.load(Ordering::SeqCst)
    }

    /// Chooses one of the ready tasks, for the worker that has the turn.
    pub(crate) fn draw(&self, worker: usize) -> Drawn {
        let mut state = self.lock();
        if let Some(job) = state.handed.take() {
            return Drawn::Mine(job);
        }
        let State { ready, draw, .. } = &mut *state;
        if ready.is_empty() {
            return Drawn::Nothing;
        }
        let job = ready.swap_remove(draw.below(ready.len()));
        let header = job.metadata();
        if self.workers > 1 && !header.is_local {
            header.set_worker(draw.below(self.workers));
        }
        let drawn = if self.workers > 1 {
            header.worker()
        } else {
            worker
        };
        if drawn == worker {
            return Drawn::Mine(job);
        }
        state.handed = Some(job);
        // SeqCst: see `turn`.
        self.turn.store(drawn, Ordering::SeqCst);
        Drawn::Other(drawn)
    }

    pub(crate) fn is_empty(&self) -> bool {
        let state = self.lock();
        state.ready.is_empty() && state.handed.is_none()
    }

    /// Closes the queue, which then refuses tasks. Returns the tasks that wait.
    pub(crate) fn close(&self) -> Vec<Job> {
        let mut state = self.lock();
        state.is_closed = true;
        let mut waiting = std::mem::take(&mut state.ready);
        waiting.extend(state.handed.take());
        waiting
    }

    /// Notes that all tasks wait for ever.
    pub(crate) fn set_deadlocked(&self) {
        // Relaxed, both: the worker's own thread reads it behind the end of its loop.
        self.is_deadlocked.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_deadlocked(&self) -> bool {
        self.is_deadlocked.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for DrawnQueue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DrawnQueue").finish_non_exhaustive()
    }
}

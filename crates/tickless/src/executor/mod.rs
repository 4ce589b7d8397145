//! A fair executor: tasks with weights and slices, on workers with timers of their own.
//!
//! ```
//! use std::time::Duration;
//! use tickless::Executor;
//! use tickless::task::{Spec, Weight};
//!
//! let executor = Executor::builder().workers(2).build()?;
//! let sum = executor.block_on(async {
//!     let slow = tickless::task::spawn_with(Spec::new().name("slow").weight(Weight::UNIT.times(2)), async {
//!         tickless::time::sleep(Duration::from_micros(200)).await;
//!         1
//!     });
//!     let quick = tickless::task::spawn(async { 2 });
//!     Ok::<_, tickless::task::JoinError>(slow.await? + quick.await?)
//! })?;
//! assert_eq!(sum, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Order of tasks
//!
//! Each worker serves its tasks by [earliest eligible virtual deadline](tickless_sched::fair): a task of twice the
//! [`Weight`](task::Weight) gets twice the time, and a task with a shorter [`Slice`](task::Slice) is served sooner, at
//! the same share. A worker that would idle pulls a task from another worker, and the task keeps its lag. Every 10 ms
//! busy workers compare the service of their tasks, and move tasks so that each task gets the share that it would get
//! from a single queue: on two workers, three equal tasks that compute get two thirds of a worker each. A task that is
//! entitled to more than one worker gets one worker.
//!
//! A task runs until it waits, or until a [checkpoint](coop) finds that another task should run. A task that computes
//! without a checkpoint keeps its worker: the executor [reports](Builder::on_stuck) the task, other workers pull the
//! other tasks of this worker, and the timers of other workers still fire.
//!
//! # Costs
//!
//! | | costs |
//! |---|---|
//! | spawning a task | one allocation, the lock of a queue, an insertion of O(log n) |
//! | waking a task | the lock of its worker's queue, an insertion; a system call if a worker has to be woken for it |
//! | a switch | a short hold of the queue's lock, a reading of the clock; for the slice tick usually a comparison |
//! | a [checkpoint](coop) | two loads, and a reading of the counter |
//! | the end of a slice | nothing |
//!
//! # Wakers, signals and forks
//!
//! Wakers work from any thread and at any time, also after the end of the executor. Wakers acquire locks, so a signal
//! handler must not use a waker: let the handler write to a pipe or set a flag that a task reads.
//!
//! The child of a fork has none of the workers. In the child the executor accepts no tasks: a spawned task is cancelled
//! at once. Wakers of the parent's tasks do nothing in the child, and a wait in the child for such a task never ends. A
//! task that forks continues in the child until its poll ends, and a function of
//! [`spawn_blocking`](Executor::spawn_blocking) continues until it returns. Then the child ends with status 0, by
//! `_exit`, even if it started other threads. So execute another program or end the process before that.
//!
//! # Reading and writing
//!
//! Workers that park also wait for descriptors: see [`io`]. Futures that need no certain runtime, like the futures of
//! the crate `async-io`, work as well, with a thread of their own.

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use builder::Builder;
pub use join::{JoinError, JoinHandle};
pub use report::Stuck;
pub use settings::PanicPolicy;
#[cfg(feature = "internals")]
pub use settings::Rounds;
use shared::Handle;
use spec::Spec;
pub use stats::ExecutorStats;

use crate::worker::Workers;

mod balance;
mod block_on;
mod blocking;
mod builder;
mod classes;
mod context;
pub mod coop;
mod current;
mod drawn;
mod drawn_context;
mod header;
mod idle;
#[cfg(test)]
mod idle_task;
pub mod io;
mod job;
mod join;
mod keeper;
mod lifetime;
mod listing;
#[cfg(feature = "macros")]
pub(crate) mod on_thread;
mod own;
mod polled;
mod remote;
mod report;
mod run_queue;
mod running;
mod scheduler;
mod settings;
mod shared;
mod slice_tick;
mod spawn;
mod spec;
mod stats;
mod steal_clock;
mod steal_order;
pub mod task;
mod task_list;
mod tick;
mod watch;
mod work;
mod worker_context;

/// An executor that shares its workers among tasks by weight.
///
/// See the [module documentation](self).
///
/// # Dropping
///
/// [Shuts down](Self::shutdown) without waiting for tasks: unfinished tasks are cancelled. The drop waits for the polls
/// in progress, unless a poll itself drops the executor. Functions that `spawn_blocking` began continue to their end.
pub struct Executor {
    shared: Handle,
    workers: Mutex<Option<Workers<()>>>,
}

impl Executor {
    /// Returns the default settings; [`Builder::build`] starts the executor.
    pub fn builder() -> Builder {
        Builder::new()
    }

    fn new(shared: Handle, workers: Workers<()>) -> Self {
        Self {
            shared,
            workers: Mutex::new(Some(workers)),
        }
    }

    /// Spawns a task, with the default weight and the slice of the executor.
    ///
    /// A task that a worker spawns begins on that worker. Tasks that other threads spawn begin on each worker in turn.
    ///
    /// # Cancellation
    ///
    /// The task continues when the handle is dropped; [`JoinHandle::abort`] ends it. A task that is spawned after a
    /// [shutdown](Self::shutdown) began is cancelled at once.
    ///
    /// # Cost
    ///
    /// The cost is one allocation, and the lock of the worker's queue.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        spawn::spawn(
            Arc::clone(&self.shared),
            Spec::new(),
            Location::caller(),
            future,
        )
    }

    /// Spawns a task with a [`Weight`](task::Weight), a [`Slice`](task::Slice), or a [`Spec`] of both.
    #[track_caller]
    pub fn spawn_with<F>(&self, spec: impl Into<Spec>, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        spawn::spawn(
            Arc::clone(&self.shared),
            spec.into(),
            Location::caller(),
            future,
        )
    }

    /// Runs `function`, which may block, on a thread of the executor's pool.
    ///
    /// A job waits for other jobs to end when all [`Builder::blocking_threads`] are busy.
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, function: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        spawn::spawn_blocking(Arc::clone(&self.shared), Location::caller(), function)
    }

    /// Runs a future on this thread to its end, while the workers run the tasks. The future need not be [`Send`].
    ///
    /// Meanwhile the thread is a [`Worker`](crate::Worker), and fires its own timers. A thread that is a worker already
    /// stays that worker.
    ///
    /// # Panics
    ///
    /// If a task calls `block_on`: the task would keep its worker from the work that the task waits for. Use `await` in
    /// the task, or call `block_on` in [`spawn_blocking`](Self::spawn_blocking). Also if a timer's callback or a waker
    /// calls `block_on`.
    ///
    /// # Exit handlers
    ///
    /// An exit handler of the process may call `block_on`, even if a task or a callback called `exit`. The thread that
    /// called `exit` is no worker from then on: the other workers steal its tasks, and poll the tasks that the handler
    /// spawns. If there is no other worker, a task that the handler spawns is cancelled at once, as after a
    /// [shutdown](Self::shutdown), and earlier tasks do not continue: wait for them with a timeout.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _entered = context::enter(&self.shared);
        let _is_told = self.shared.exits_here();
        block_on::block_on(future, &self.shared.runtime)
    }

    /// Ends the executor: it accepts no new tasks, waits for the present tasks up to `patience`, and cancels the rest.
    /// Returns the number of cancelled tasks.
    ///
    /// | thing | its end |
    /// |---|---|
    /// | a task | is waited for; after `patience` its future is dropped, its handle returns a cancellation |
    /// | a task that is polled at that time | ends its poll, and is dropped; the shutdown waits for the drop |
    /// | a timer of a worker | stays queued, and fires on the library's expiry thread |
    /// | a blocking job that has not begun | is waited for, and is cancelled after `patience` |
    /// | a blocking job that has begun | is waited for; after `patience` it continues to its end by itself |
    ///
    /// A second call has no effect. A call in the child of a fork has no effect either. A call by a task of this
    /// executor does not wait, because that task would wait for itself.
    pub fn shutdown(&self, patience: Duration) -> usize {
        if !self.shared.is_here() {
            return 0;
        }
        self.shared.lifetime.close();
        let own = spawn::is_on(&self.shared);
        let deadline = Instant::now().checked_add(patience);
        let is_over = || self.shared.lifetime.tasks() == 0;
        if !own {
            self.shared.settings.over.wait(deadline, is_over);
        }
        let left = self.shared.lifetime.tasks();
        self.stop(own);
        left
    }

    fn stop(&self, is_own: bool) {
        if !self.shared.is_here() {
            return;
        }
        self.shared.stop();
        self.shared.pool.close();
        self.shared.runtime.clock().close();
        let workers = self
            .workers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(workers) = workers
            && !is_own
        {
            // A worker's own code does not panic; what is foreign is caught.
            let _ended = workers.join();
        }
    }

    /// Returns the counters of the executor; in the child of a fork they are zero. [`metrics`](crate::metrics) has the
    /// counters of each worker's timers.
    #[must_use]
    pub fn stats(&self) -> ExecutorStats {
        self.shared.stats()
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.stop(spawn::is_on(&self.shared));
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Executor")
            .field("workers", &self.shared.places.len())
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}

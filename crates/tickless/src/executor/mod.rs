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
//! # Who runs when
//!
//! Each worker serves its tasks by [earliest eligible virtual deadline](tickless_sched::fair): a task of twice the
//! [`Weight`](task::Weight) gets twice the time, and a task with a shorter [`Slice`](task::Slice) is served sooner, at
//! the same share. A worker that would idle pulls a task from another worker, and the task keeps its lag. Every 10 ms
//! busy workers compare the service of their tasks, and move tasks so that each task gets the share that it would get
//! from a single queue: three equal tasks that compute get two thirds of a worker each on two workers. A task that is
//! entitled to more than one worker gets one.
//!
//! A task with a [`Deadline`](task::Deadline) gets its reserved runtime in each period, before all tasks without
//! one, and no more. The executor admits the task only if it can keep that reservation.
//!
//! A task runs until it waits, or until it finds at a [checkpoint](coop) that it should give way. A task that computes
//! without a checkpoint keeps its worker: the executor [reports](Builder::on_stuck) the task, other workers pull its
//! neighbours, and the timers of other workers go on.
//!
//! # What costs what
//!
//! | | costs |
//! |---|---|
//! | spawning a task | one allocation, the lock of a queue, an insertion of O(log n) |
//! | waking one | the lock of its worker's queue, an insertion; a system call if a worker has to be woken for it |
//! | a switch | a short hold of the queue's lock, a reading of the clock; the tick is a comparison as a rule |
//! | a [checkpoint](coop) | two loads, and with [`Preemption::Counter`] a reading of the counter |
//! | the end of a slice | with [`Preemption::Signal`] a signal and a `timer_settime`, else nothing |
//!
//! # Wakers, signals and forks
//!
//! Wakers work from any thread, at any time, after the end of the executor too. They take locks, so a signal handler
//! must not use one: let it write to a pipe or set a flag that a task looks at.
//!
//! The child of a fork has none of the workers. There the executor takes no tasks: a spawned task is cancelled at once.
//! Wakers of the parent's tasks do nothing in the child, and a wait for such a task never ends. A task that forks goes
//! on in the child until its poll ends, and a function of [`spawn_blocking`](Executor::spawn_blocking) until it
//! returns. Then the child ends with status 0, by `_exit`, whatever other threads it started: execute another program
//! or end the process before that.
//!
//! # Reading and writing
//!
//! Workers that park wait for descriptors too: see [`io`]. A future that is tied to no runtime, like those of the crate
//! `async-io`, works as well, with a thread of its own.

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use builder::Builder;
pub use join::{JoinError, JoinHandle};
pub use report::Stuck;
pub use settings::{PanicPolicy, Preemption};
#[cfg(feature = "internals")]
pub use settings::{Rounds, Savings};
use shared::Handle;
use spec::Spec;
#[cfg(feature = "internals")]
pub use start_cost::StartCost;
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
mod deadline;
mod deadlines;
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
mod on_base;
#[cfg(feature = "macros")]
pub(crate) mod on_thread;
mod own;
mod polled;
mod remote;
mod report;
mod reserve;
mod run_queue;
mod running;
mod scheduler;
mod settings;
mod shared;
mod slice_tick;
mod spawn;
mod spec;
#[cfg(feature = "internals")]
mod start_cost;
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
/// [Shuts down](Self::shutdown) without waiting for tasks: those that are not over are cancelled. The drop waits for
/// the polls that are under way, unless it happens in one of them; what `spawn_blocking` began goes on to its end.
pub struct Executor {
    shared: Handle,
    workers: Mutex<Option<Workers<()>>>,
}

impl Executor {
    /// Returns the default settings; [`Builder::build`] starts the executor.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Returns whether the tasks, whose order a seed draws, wait for ever.
    #[cfg_attr(
        not(feature = "macros"),
        expect(dead_code, reason = "the attributes alone draw")
    )]
    pub(crate) fn is_deadlocked(&self) -> bool {
        let drawn = self.shared.drawn.as_ref();
        drawn.is_some_and(drawn::DrawnQueue::is_deadlocked)
    }

    fn new(shared: Handle, workers: Workers<()>) -> Self {
        Self {
            shared,
            workers: Mutex::new(Some(workers)),
        }
    }

    /// Spawns a task, with the default weight and the slice of the executor.
    ///
    /// The task begins on the worker that spawns it. Tasks from other threads begin on each worker in turn.
    ///
    /// # Cancellation
    ///
    /// The task goes on when the handle is dropped; [`JoinHandle::abort`] ends it. After a [shutdown](Self::shutdown)
    /// began it is cancelled at once.
    ///
    /// # Cost
    ///
    /// One allocation, and the lock of the worker's queue.
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

    /// Spawns a task with a [`Weight`](task::Weight), a [`Slice`](task::Slice), a [`Deadline`](task::Deadline), or a
    /// [`Spec`] of several.
    ///
    /// A task whose deadline no worker has room for is never polled, and [its handle returns an
    /// error](JoinError::rejected); [`try_spawn_with`](Self::try_spawn_with) returns the error at once.
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

    /// Spawns a task with a [`Deadline`](task::Deadline), or returns an error if no worker can keep the deadline.
    ///
    /// The task is admitted to the worker with the most room, and stays there. That worker must have room for all of
    /// it: two tasks of 60 % need two workers.
    ///
    /// # Errors
    ///
    /// When no worker has room: the requested bandwidth, the admitted bandwidth where the most room is, and [the
    /// limit](Builder::deadline_limit). The future is dropped. The same task may be admitted later, when
    /// another is over.
    #[track_caller]
    pub fn try_spawn_with<F>(
        &self,
        spec: impl Into<Spec>,
        future: F,
    ) -> Result<JoinHandle<F::Output>, task::Rejected>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let spawned = spawn::spawn(
            Arc::clone(&self.shared),
            spec.into(),
            Location::caller(),
            future,
        );
        spawned.rejected().map_or(Ok(spawned), Err)
    }

    /// Runs `function`, which may block, on a thread of the executor's pool.
    ///
    /// Jobs wait for each other when [`Builder::blocking_threads`] are busy.
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
    /// The thread is a [`Worker`](crate::Worker) meanwhile, and fires its own timers; if it is a worker already, it
    /// stays that one.
    ///
    /// # Panics
    ///
    /// If a task calls it: the task would keep its worker from the work that the task waits for. Use `await` there, or
    /// call it in [`spawn_blocking`](Self::spawn_blocking). Also if a timer's callback or a waker calls it.
    ///
    /// # Exit handlers
    ///
    /// An exit handler of the process may call it, even if a task or a callback called `exit`. The thread that called
    /// `exit` is no worker from then on: the other workers steal its tasks, and poll the tasks that the handler spawns.
    /// If there is no other worker, a task that the handler spawns is cancelled at once, as after a
    /// [shutdown](Self::shutdown), and earlier tasks do not go on: wait for them with a timeout.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _entered = context::enter(&self.shared);
        let _is_told = self.shared.exits_here();
        block_on::block_on(future, &self.shared.runtime)
    }

    /// Ends the executor: it takes no more tasks, waits for the present ones up to `patience`, and cancels the rest.
    /// Returns the number of cancelled tasks.
    ///
    /// | what | becomes of it |
    /// |---|---|
    /// | a task | is waited for; when the patience is over its future is dropped, its handle says it is cancelled |
    /// | a task that is polled then | ends its poll, and is dropped; the shutdown waits for that |
    /// | a timer of a worker | stays queued, and fires on the library's expiry thread |
    /// | a blocking job that did not begin | is waited for, and cancelled when the patience is over |
    /// | a blocking job that did | is waited for, and goes on to its end by itself when the patience is over |
    ///
    /// A second call has no effect, and neither has a call in the child of a fork. A call by a task of this executor
    /// does not wait, because that task would wait for itself.
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

    /// Returns the counters of the executor; in the child of a fork they are zero.
    #[must_use]
    pub fn stats(&self) -> ExecutorStats {
        self.shared.stats()
    }

    /// Returns the duration of the workers' starts of their ticks since the workers began, system calls included.
    #[cfg(feature = "internals")]
    #[must_use]
    pub fn start_cost(&self) -> StartCost {
        self.shared.start_cost()
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

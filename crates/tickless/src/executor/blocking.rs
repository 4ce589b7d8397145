//! The pool of threads for blocking calls; it grows on demand, up to a limit.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::header::Job;
use super::job::{discard, run};
use crate::host::process;
use crate::host::sys::threads;
use crate::time::virtual_time::runtime::Runtime;

/// The time for which a thread waits for the next job before it ends.
const KEEP: Duration = Duration::from_secs(10);

/// The threads of the pool, shared by the executor and the threads themselves.
#[derive(Clone, Debug)]
pub(crate) struct Pool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The runtime whose virtual time the jobs hold.
    runtime: Arc<Runtime>,
    most: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    waiting: usize,
    closed: bool,
}

impl Pool {
    /// Makes a pool without threads, of at most `most` threads at a time.
    pub(crate) fn new(most: usize, runtime: Arc<Runtime>) -> Self {
        Self(Arc::new(Inner {
            runtime,
            most: most.max(1),
            state: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a job, and starts a thread for it if no thread waits and the limit allows another one. A job that no
    /// thread can ever execute is dropped, and its handle reports a cancellation.
    pub(crate) fn push(&self, job: Job) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            discard(job);
            return;
        }
        self.0.runtime.hold();
        state.jobs.push_back(job);
        if state.waiting >= state.jobs.len() {
            drop(state);
            self.0.changed.notify_one();
            return;
        }
        if state.threads >= self.0.most {
            return;
        }
        state.threads += 1;
        drop(state);
        let pool = self.clone();
        let started = thread::Builder::new()
            .name("tickless-blocking".into())
            .spawn(move || pool.work());
        if started.is_err() {
            self.refused();
        }
    }

    /// Handles a thread that the system refused: the other threads execute the job, and without other threads the job
    /// is dropped.
    fn refused(&self) {
        let mut state = self.lock();
        state.threads -= 1;
        let orphans = if state.threads == 0 {
            std::mem::take(&mut state.jobs)
        } else {
            VecDeque::new()
        };
        drop(state);
        self.discard_all(orphans);
    }

    /// Drops jobs that were queued.
    fn discard_all(&self, jobs: VecDeque<Job>) {
        for job in jobs {
            discard(job);
            self.0.runtime.release();
        }
    }

    /// Executes jobs on a thread of the pool until the thread ends.
    fn work(&self) {
        let forks = process::forks();
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                run(job);
                if process::forks() != forks {
                    // The job forked. What is queued is the parent's, and the lock may be held by one of its threads.
                    threads::end_child();
                }
                // After the wake-up of what waits for the job.
                self.0.runtime.release();
                state = self.lock();
                continue;
            }
            if state.closed {
                break;
            }
            state.waiting += 1;
            let (again, waited) = self
                .0
                .changed
                .wait_timeout(state, KEEP)
                .unwrap_or_else(PoisonError::into_inner);
            state = again;
            state.waiting -= 1;
            if waited.timed_out() && state.jobs.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }

    /// Closes the pool: no further job begins, and running jobs continue to their end.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let jobs = std::mem::take(&mut state.jobs);
        drop(state);
        self.0.changed.notify_all();
        self.discard_all(jobs);
    }
}

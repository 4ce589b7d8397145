//! The signals between a run and the measuring threads that it started.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use crate::failure::Failure;

/// The signals between a run and its threads: the value that the threads receive at the start, the end, and the cause
/// of an early end.
#[derive(Debug)]
pub(crate) struct Signals<T, B> {
    pub(crate) told: OnceLock<T>,
    over: AtomicBool,
    broken: Mutex<Option<B>>,
}

impl<T, B> Default for Signals<T, B> {
    fn default() -> Self {
        Self {
            told: OnceLock::new(),
            over: AtomicBool::new(false),
            broken: Mutex::new(None),
        }
    }
}

impl<T, B: Copy> Signals<T, B> {
    pub(crate) fn end(&self) {
        // Relaxed: a flag that is looked at again and again.
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        // Relaxed: as above.
        self.over.load(Ordering::Relaxed)
    }

    /// Ends the run. The first thread that ends the run gives the cause by `broken`.
    pub(crate) fn end_with(&self, broken: impl FnOnce() -> B) {
        self.end();
        let mut first = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(broken);
    }

    /// Returns the cause of an early end.
    pub(crate) fn broken(&self) -> Option<B> {
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the failure of a run whose thread cannot be started.
pub(crate) fn not_started(error: std::io::Error) -> Failure {
    Failure::Machine(format!("cannot start a thread: {error}"))
}

pub(crate) fn broke_down() -> Failure {
    Failure::Machine("a measuring thread broke down".to_owned())
}

/// Waits for a thread that measures.
pub(crate) fn join<T>(thread: JoinHandle<T>) -> Result<T, Failure> {
    thread.join().map_err(|_| broke_down())
}

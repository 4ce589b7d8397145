//! Ctrl-C ends a run early and leaves a whole report; a second one ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Failure;

/// Whether the run was asked to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    flag: Arc<AtomicBool>,
}

/// What a shell shows for a process that SIGINT ended.
const KILLED: i32 = 128 + SIGINT;

impl Interrupt {
    /// From here on, the first signal only sets the flag.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // Registered first, so that it sees the flag as the signal before left it.
            flag::register_conditional_shutdown(signal, KILLED, Arc::clone(&interrupt.flag))
                .and_then(|_| flag::register(signal, Arc::clone(&interrupt.flag)))
                .map_err(|error| Failure::Machine(format!("cannot catch Ctrl-C: {error}")))?;
        }
        Ok(interrupt)
    }

    pub(crate) fn is_requested(&self) -> bool {
        // Relaxed: a flag that is looked at again and again.
        self.flag.load(Ordering::Relaxed)
    }
}

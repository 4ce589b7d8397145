//! The handling of Ctrl-C, of `kill`, and of a terminal that closes: the first such signal ends a run early, with a
//! whole report; a second one ends the process.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Failure;

/// The flag that is set when the user asks the run to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    flag: Arc<AtomicBool>,
    /// True if the next signal ends the process.
    impatient: Arc<AtomicBool>,
    noticed: Arc<OnceLock<()>>,
}

/// Signals that come so soon after the first one count as the same request: `timeout` sends each signal twice.
const SAME: Duration = Duration::from_millis(500);

/// The exit status that a shell shows for a process that signal 0 would end; the number of the signal is added.
const KILLED: i32 = 128;

impl Interrupt {
    /// Installs a handler that only sets the flag. SIGHUP stays ignored if it was: `nohup` lets a run outlive its
    /// terminal in this way.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let interrupt = Self::default();
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            if signal == SIGHUP && is_ignored(signal) {
                continue;
            }
            let killed = KILLED + signal;
            flag::register_conditional_shutdown(signal, killed, Arc::clone(&interrupt.impatient))
                .and_then(|_| flag::register(signal, Arc::clone(&interrupt.flag)))
                .map_err(|error| Failure::Machine(format!("cannot catch Ctrl-C: {error}")))?;
        }
        Ok(interrupt)
    }

    /// Returns true if a signal came. Later ones do not end the process.
    pub(crate) fn is_set(&self) -> bool {
        // Relaxed: a flag that is looked at again and again.
        self.flag.load(Ordering::Relaxed)
    }

    pub(crate) fn is_requested(&self) -> bool {
        let requested = self.is_set();
        if requested {
            self.noticed.get_or_init(|| {
                let impatient = Arc::clone(&self.impatient);
                let wait = move || {
                    thread::sleep(SAME);
                    // Relaxed: as above.
                    impatient.store(true, Ordering::Relaxed);
                };
                // Without the thread, only SIGKILL is left to those in a hurry.
                let _detached = thread::Builder::new().spawn(wait);
            });
        }
        requested
    }
}

/// Returns true if the process ignores `signal`. Without /proc the answer is false.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

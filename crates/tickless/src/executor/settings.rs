//! The settings of an executor.

use std::fmt;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tickless_core::platform::Platform;
use tickless_sched::hrtick::Switches;

use super::report::Stuck;
use super::spec::Slice;
use super::stats::Count;
use crate::host::process::Host;

/// The reaction to a panic in a task whose [`JoinHandle`](super::JoinHandle) has been dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PanicPolicy {
    /// The executor counts the panic, which the panic hook has reported, and all other tasks continue.
    #[default]
    Ignore,
    /// The executor shuts down: every other task is cancelled.
    ShutDown,
}

/// A function that executes the rounds of a worker: the function receives one round and may call that round any number
/// of times.
#[cfg(feature = "internals")]
pub type Rounds = fn(&mut dyn FnMut());

/// The function that is called for a task that keeps its worker.
pub(crate) type OnStuck = Box<dyn Fn(&Stuck) + Send + Sync>;

/// The settings of an executor.
pub(crate) struct Settings {
    pub(crate) hrtick: bool,
    pub(crate) slice: Slice,
    pub(crate) blocking_threads: usize,
    pub(crate) panic: PanicPolicy,
    pub(crate) stuck_after: Duration,
    pub(crate) on_stuck: OnStuck,
    pub(crate) stuck: Count,
    pub(crate) panics: Count,
    pub(crate) over: Over,
    #[cfg(feature = "internals")]
    pub(crate) rounds: Option<Rounds>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Settings")
            .field("hrtick", &self.hrtick)
            .field("slice", &self.slice)
            .finish_non_exhaustive()
    }
}

/// The state in which a shutdown waits for the last task to finish.
#[derive(Debug, Default)]
pub(crate) struct Over {
    lock: Mutex<()>,
    changed: Condvar,
}

impl Over {
    /// Notifies the shutdown that a task or thread may have finished for which the shutdown waits.
    pub(crate) fn notify(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Waits until `is_over` returns true, or until `deadline`. Returns true if `is_over` did. `None` waits for ever.
    pub(crate) fn wait(&self, deadline: Option<Instant>, is_over: impl Fn() -> bool) -> bool {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            // Looked at under the lock, which `notify` takes after the change: none is missed.
            if is_over() {
                return true;
            }
            let Some(deadline) = deadline else {
                lock = self
                    .changed
                    .wait(lock)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(lock, left);
            lock = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Settings {
    /// Returns the defaults for the platform `P`: a tick where it is worth its cost (TICK-3).
    fn of<P: Platform>() -> Self {
        let worth = Switches::of::<P>();
        Self {
            hrtick: worth.fair,
            slice: Slice::DEFAULT,
            blocking_threads: 64,
            panic: PanicPolicy::default(),
            stuck_after: Duration::from_millis(100),
            on_stuck: Box::new(report),
            stuck: Count::default(),
            panics: Count::default(),
            over: Over::default(),
            #[cfg(feature = "internals")]
            rounds: None,
        }
    }

    /// Returns the switches of the tick.
    pub(crate) const fn switches(&self) -> Switches {
        if self.hrtick {
            Switches::ON
        } else {
            Switches::OFF
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::of::<Host>()
    }
}

#[expect(
    clippy::print_stderr,
    reason = "what the user did not ask to be called for"
)]
fn report(stuck: &Stuck) {
    eprintln!("{stuck}");
}

#[cfg(test)]
mod tests {
    use tickless_core::platform::NullPlatform;

    use super::*;

    /// TICK-3.
    #[test]
    fn the_tick_is_on_where_the_rearm_is_deferred() {
        const { assert!(Host::DEFERRED_REARM && !NullPlatform::DEFERRED_REARM) };
        assert_eq!(Settings::default().switches(), Switches::ON);
        assert_eq!(Settings::of::<NullPlatform>().switches(), Switches::OFF);
    }
}

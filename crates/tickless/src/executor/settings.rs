//! The settings of an executor.

use std::fmt;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tickless_core::platform::Platform;
use tickless_sched::deadline::Bandwidth;
use tickless_sched::hrtick::Switches;

use super::report::Stuck;
use super::spec::Slice;
use super::stats::Count;
use crate::host::process::Host;

/// The way in which a task that computes learns that its slice is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Preemption {
    /// Checkpoints compare the processor's counter with the deadline of the worker's first timer. No timer has to be
    /// programmed; a checkpoint reads the counter.
    #[default]
    Counter,
    /// A POSIX timer of each worker sends it a signal (`SIGURG`), whose handler sets a flag. A checkpoint reads the
    /// flag; setting the timer is a system call, which deferred and lazy rearming saves. System calls of tasks may be
    /// interrupted, and are restarted where the kernel can.
    ///
    /// A worker that the system refuses a timer for works as with [`Counter`](Self::Counter).
    Signal,
}

/// The reaction to a panic in a task that has no [`JoinHandle`](super::JoinHandle) any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PanicPolicy {
    /// The executor counts the panic, which the panic hook has reported, and all other tasks go on.
    #[default]
    Ignore,
    /// The executor shuts down: every other task is cancelled.
    ShutDown,
}

/// A function that executes the rounds of a worker: it receives one round and may call it as often as it likes.
#[cfg(feature = "internals")]
pub type Rounds = fn(&mut dyn FnMut());

/// Function that is called for a task that keeps its worker.
pub(crate) type OnStuck = Box<dyn Fn(&Stuck) + Send + Sync>;

/// Settings of an executor.
pub(crate) struct Settings {
    pub(crate) preemption: Preemption,
    pub(crate) hrtick: bool,
    pub(crate) deadline_hrtick: bool,
    /// Limit for the sum of one worker's reservations.
    pub(crate) deadline_limit: Bandwidth,
    pub(crate) slice: Slice,
    pub(crate) blocking_threads: usize,
    pub(crate) panic: PanicPolicy,
    pub(crate) stuck_after: Duration,
    pub(crate) on_stuck: OnStuck,
    pub(crate) stuck: Count,
    pub(crate) panics: Count,
    pub(crate) over: Over,
    pub(crate) savings: Savings,
    #[cfg(feature = "internals")]
    pub(crate) rounds: Option<Rounds>,
}

/// Savings that make the tick cheap; all of them, but in experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "internals"),
    expect(unreachable_pub, reason = "public with that feature")
)]
#[expect(clippy::struct_excessive_bools, reason = "each is varied on its own")]
pub struct Savings {
    /// True if the device stays as it is when the tick moves later or is cancelled (spec ).
    pub lazy: bool,
    /// True if an interrupt and the scheduling decision behind it share one rearm (spec ).
    pub deferred: bool,
    /// True if the device is programmed with an absolute time, which saves a reading of the clock (spec ).
    pub coupled: bool,
    /// True if a tick stays as it is when it is queued within 5 µs of its new time (TICK-16).
    pub filter: bool,
}

impl Default for Savings {
    fn default() -> Self {
        Self {
            lazy: true,
            deferred: true,
            coupled: true,
            filter: true,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Settings")
            .field("preemption", &self.preemption)
            .field("hrtick", &self.hrtick)
            .field("slice", &self.slice)
            .finish_non_exhaustive()
    }
}

/// State in which a shutdown waits for the last task.
#[derive(Debug, Default)]
pub(crate) struct Over {
    lock: Mutex<()>,
    changed: Condvar,
}

impl Over {
    /// Notifies the shutdown that a task or thread that it waits for may be over.
    pub(crate) fn notify(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Waits until `is_over` says so, or until `deadline`. Returns true if it said so. `None` waits for ever.
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
    /// Returns the defaults for the platform `P`: ticks where they are worth it (TICK-3).
    fn of<P: Platform>() -> Self {
        let worth = Switches::of::<P>();
        Self {
            preemption: Preemption::default(),
            hrtick: worth.fair,
            deadline_hrtick: worth.deadline,
            deadline_limit: Bandwidth::percent(95),
            slice: Slice::DEFAULT,
            blocking_threads: 64,
            panic: PanicPolicy::default(),
            stuck_after: Duration::from_millis(100),
            on_stuck: Box::new(report),
            stuck: Count::default(),
            panics: Count::default(),
            over: Over::default(),
            savings: Savings::default(),
            #[cfg(feature = "internals")]
            rounds: None,
        }
    }

    /// Returns the ticks that there are.
    pub(crate) const fn switches(&self) -> Switches {
        Switches {
            fair: self.hrtick,
            deadline: self.deadline_hrtick,
            filter: self.savings.filter,
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
    fn both_ticks_are_on_where_the_rearm_is_deferred() {
        const { assert!(Host::DEFERRED_REARM && !NullPlatform::DEFERRED_REARM) };
        assert_eq!(Settings::default().switches(), Switches::ON);
        assert_eq!(Settings::of::<NullPlatform>().switches(), Switches::OFF);
    }
}

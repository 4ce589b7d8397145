//! A coarse timer of each worker that finds a task whose poll lasts too long.
//!
//! The timer is pending while the worker has something to do. The timer ends when it finds the worker with nothing to
//! do, and the worker starts it again with the next task that the worker picks. Both decisions are made under the lock
//! of the run queue, so that no task is polled without the timer, no matter how late the worker picks the task. A
//! worker that computes takes no turn, and then another worker or the expiry thread fires its coarse timers. So when a
//! task keeps its worker, another thread, which is not blocked, fires the timer.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::report::Stuck;
use super::scheduler::Scheduler;
use super::shared::{Handle, Shared};
use crate::callback::wheel::{self, Restart, Timeout, WheelKind, WheelTimer};
use crate::host::thread::now_lower;
use crate::time::virtual_time::clock::outside;

type Callback = Box<dyn FnMut(&mut Timeout) -> Restart + Send>;

/// The watch timer of one worker.
pub(crate) struct BlockedTimer {
    timer: Pin<Box<WheelTimer<Callback>>>,
    period: Duration,
}

impl BlockedTimer {
    pub(crate) fn new(shared: &Handle, worker: usize) -> Self {
        let period = (shared.settings.stuck_after / 2).max(wheel::TICK);
        let shared = Arc::downgrade(shared);
        let callback: Callback = Box::new(move |timeout| {
            if look(&shared, worker) {
                timeout.set_expiry_after(wheel::ticks(period));
                Restart::Yes
            } else {
                Restart::No
            }
        });
        Self {
            timer: Box::pin(WheelTimer::with_kind(WheelKind::Global, callback)),
            period,
        }
    }

    /// Starts the timer for a queue that needs a watch. No timer is pending, or only the return of its last callback is
    /// outstanding.
    #[cold]
    pub(crate) fn begin(&self) {
        let _ = outside(|| self.timer.as_ref().start(self.period));
    }
}

/// Checks a worker. Returns true if the worker has something to do.
fn look(shared: &Weak<Shared>, worker: usize) -> bool {
    let Some(shared) = shared.upgrade() else {
        return false;
    };
    let now = now_lower();
    let place = &shared.places[worker];
    let mut found = None;
    let is_busy = place.with(|Scheduler { queue, running, .. }| {
        let stuck = running.stuck(now, shared.settings.stuck_after);
        found = stuck.map(|(origin, polled_for)| Stuck {
            name: origin.name,
            spawned_at: origin.location,
            worker,
            polled_for,
            waiting: queue.waiting(),
        });
        running.goes_on(queue.has_work())
    });
    if place.waiting() > 0 || shared.reactor.is_unattended() {
        shared.notify_idle(worker);
    }
    if let Some(stuck) = found {
        shared.settings.stuck.add_one_remote();
        (shared.settings.on_stuck)(&stuck);
    }
    is_busy
}

impl fmt::Debug for BlockedTimer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BlockedTimer")
            .field("period", &self.period)
            .finish_non_exhaustive()
    }
}

//! The published due time of a thread's first coarse timer; another thread reads it to fire the timer in time.
//!
//! A worker publishes this time at the end of a turn and when it starts a timer. The worker wakes the expiry thread if
//! that thread would sleep until more than a tick after the published time ([`stuck`](super::stuck) has the reason).
//! Publishing only ever makes the time earlier, so that a worker which takes its turns costs the expiry thread one
//! useless wake-up in each period. A worker that ends its sleep publishes nothing, so the expiry thread also wakes for
//! sleeping workers. Any other thread sets its [`device`].

use tickless_core::coarse::{Tick, WheelKind as Wheel};
use tickless_core::time::{Instant, Span};

use super::{housekeeping, trees};
use crate::host::registry::base;
use crate::host::thread::{ThreadBase, ThreadKind, with_thread};
use crate::host::tick::{TICK, instant_of, now};
use crate::host::{device, wake};

/// Returns the time from which on a timer on the global wheel of `base` that has not fired counts as stranded.
pub(super) fn grace(base: &ThreadBase) -> Option<Instant> {
    let due = instant_of(base.wheel_due(Wheel::Global)?);
    Some(due.saturating_add(Span::from_nanos(TICK)))
}

/// Makes another thread wake in time for a timer that this thread just started, in the tick `now` or the next tick.
#[inline]
pub(crate) fn publish_earlier(now: Tick) {
    with_thread(|thread| {
        let Some(own) = thread.base() else {
            // Enqueued with the expiry thread.
            wake::wake_for_kicks();
            return;
        };
        if own.local().kind() == ThreadKind::Worker {
            match housekeeping::housekeeper(own).and_then(base) {
                Some(housekeeper) => republish_next_expiry(housekeeper),
                None => publish_started(own, now),
            }
        } else {
            device::changed_own(own);
        }
    });
}

/// Publishes as [`publish_earlier`] does, for a timer that is due before all others on its wheel. The calling thread
/// has not read the clock.
#[cold]
#[inline(never)]
pub(crate) fn publish_first() {
    // Whether what was told before has passed is asked of the present.
    publish_earlier(now());
}

/// Publishes as [`republish_next_expiry`] does, for the worker on `base`, which is this thread and started a timer in
/// the tick `now`.
///
/// Usually there is nothing to do: another timer is due earlier, its due time was published too, and that time is not
/// over. Until then only the worker's own turn, which ends by [`republish_next_expiry`], removes that due time from the
/// wheel. So if the expiry thread went to sleep since, it sleeps at most until that time.
#[inline]
fn publish_started(base: &ThreadBase, now: Tick) {
    let published = base.local().remote.published();
    if published <= now
        || base
            .wheel_due(Wheel::Global)
            .is_some_and(|due| due < published)
    {
        republish_next_expiry(base);
    }
}

/// Makes the expiry thread fire the coarse timers if the worker on `base` does not.
pub(crate) fn republish_next_expiry(base: &ThreadBase) {
    let due = base.wheel_due(Wheel::Global).unwrap_or(Tick(0));
    base.local().remote.set_published(due);
    if let Some(grace) = grace(base)
        && wake::SLEEPS_UNTIL.is_after(grace.as_nanos())
        && trees::takes_part(base)
    {
        wake::wake();
    }
}

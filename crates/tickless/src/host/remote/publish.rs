//! The published due time of a thread's first coarse timer; another thread reads it to fire the timer in time.
//!
//! A worker tells the expiry thread at the end of a turn, and when it starts something, if the expiry thread means to
//! sleep for longer than a tick beyond that ([`stuck`](super::stuck) says why). The published time only ever becomes
//! earlier, so that a worker which takes its turns costs the expiry thread one wake-up for nothing in each period. A
//! worker that leaves its sleep tells nothing, so the expiry thread means to come for those that sleep, too. Any other
//! thread sets its [`device`].

use tickless_core::coarse::{Tick, WheelKind as Wheel};
use tickless_core::time::{Instant, Span};

use super::{housekeeping, trees};
use crate::host::registry::base;
use crate::host::thread::{ThreadBase, ThreadKind, with_thread};
use crate::host::tick::{TICK, instant_of, now};
use crate::host::{device, wake};

/// Returns the time at which a timer on the global wheel of `base` that is not fired by then counts as stranded.
pub(super) fn grace(base: &ThreadBase) -> Option<Instant> {
    let due = instant_of(base.wheel_due(Wheel::Global)?);
    Some(due.saturating_add(Span::from_nanos(TICK)))
}

/// Sees to it that a thread comes in time for what this thread started just now, in the tick `now` or the one after.
#[inline]
pub(crate) fn publish_earlier(now: Tick) {
    with_thread(|thread| {
        let Some(own) = thread.base() else {
            // Filed with the expiry thread.
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

/// Publishes as [`publish_earlier`] does, for a timer that is due before everything else on its wheel, by a thread that
/// has not read the clock.
#[cold]
#[inline(never)]
pub(crate) fn publish_first() {
    // Whether what was told before has passed is asked of the present.
    publish_earlier(now());
}

/// Publishes as [`republish_next_expiry`] does, for the worker on `base`, this thread, which started something in the
/// tick `now`.
///
/// Usually there is nothing to do: something else is due earlier, that too was published, and its time has not come.
/// Until then nothing but the worker's own turn, which ends by [`republish_next_expiry`], makes the wheel forget that
/// it is due; so whenever the expiry thread went to sleep since, it meant to wake up for that.
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

/// Sees to it that the expiry thread comes if the worker on `base` does not.
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

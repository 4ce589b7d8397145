//! The steps of a worker that goes to sleep or wakes up, for coarse timers. They decide until when the worker may
//! sleep, for its own timers and for those of other threads.

use tickless_core::time::Instant;
use tickless_core::wheel::idle::wake_times;

use super::registry::timers;
use super::remote::trees;
use super::thread::{ThreadBase, now_lower};
use super::tick::{first_due, tick_time};

/// Prepares the worker on `base` for sleep. Returns the time until which the worker may sleep, for its own wheels and
/// for those of others.
///
/// From then on other threads fire the timers of its global wheel, if the worker takes part in the hierarchy, unless it
/// wakes by itself within a tick, at `wakes_at`.
pub(crate) fn enter(base: &ThreadBase, wakes_at: Instant) -> Instant {
    let (cpu, now) = (base.cpu(), now_lower());
    let at = tick_time(now);
    if wakes_at <= now.saturating_add(at.period) {
        // It wakes within a tick, so it counts as awake.
        return first_due(base);
    }
    let mut until = Instant::FOREVER;
    timers().wheel_enter_idle(cpu, at.tick, |next| {
        let times = wake_times(next, at);
        until = times.local;
        if !times.may_idle {
            return false;
        }
        until = until.min(trees::workers().enter_idle(cpu, times.global));
        if until > now.saturating_add(at.period) {
            return true;
        }
        // Awake, as far as others are concerned (R60).
        trees::workers().leave_idle(cpu);
        false
    });
    until
}

/// Records that the worker on `base` is awake.
pub(crate) fn leave(base: &ThreadBase) {
    timers().wheel_leave_idle(base.cpu());
    trees::workers().leave_idle(base.cpu());
}

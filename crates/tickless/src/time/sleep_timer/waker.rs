//! The waker of a sleep. It wakes the task that polled last; the timer keeps it, and it is cloned only when this task
//! changes.

use std::pin::Pin;
use std::task::{Context, Waker};

use tickless_core::base::TaskTimer;

use super::super::sleep_queue::SleepQueue;
use super::state::{Parts, Timer};
use crate::host::registry::timers;

/// Returns a waker of the task of `waker`: `kept` if it wakes this task, or else a clone.
#[inline]
pub(super) fn of_task(kept: Option<Waker>, waker: &Waker) -> Waker {
    let kept = kept.filter(|kept| kept.will_wake(waker));
    kept.unwrap_or_else(|| waker.clone())
}

/// Stores a waker of the task of `waker` in a timer that is not queued; `old` is the previous waker, if the timer was
/// still queued.
#[inline]
pub(super) fn keep<T: SleepQueue>(timer: Pin<&mut Timer<T>>, old: Option<Waker>, waker: &Waker) {
    if let Some(kept) = timer.idle_waker() {
        let old = old.or_else(|| kept.take());
        *kept = old.filter(|old| old.will_wake(waker));
        if kept.is_none() {
            *kept = Some(waker.clone());
        }
    }
}

/// Ensures that the timer wakes the task of `context`; returns `false` if the timer fired meanwhile.
pub(crate) fn wakes<T: TaskTimer>(timer: Pin<&T>, context: &Context<'_>) -> bool {
    if timer.try_wakes_fast(timers(), context.waker()) {
        return true;
    }
    match timer.will_wake(timers(), context.waker()) {
        Some(true) => true,
        // Cloned without a lock: it is foreign code. Should the timer fire meanwhile, it wakes the old task, which is
        // no loss: this poll finds it fired.
        Some(false) => timer.set_waker(timers(), context.waker().clone()).is_ok(),
        None => false,
    }
}

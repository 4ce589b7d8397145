//! The waker of a sleep: the one of the task that polled last, kept in the timer and cloned only where that task
//! changes.

use std::pin::Pin;
use std::task::{Context, Waker};

use tickless_core::base::TaskTimer;

use super::super::sleep_queue::SleepQueue;
use super::state::{Parts, Timer};
use crate::host::registry::timers;

/// A waker of the task of `waker`: `kept`, if that is one.
#[inline]
pub(super) fn of_task(kept: Option<Waker>, waker: &Waker) -> Waker {
    let kept = kept.filter(|kept| kept.will_wake(waker));
    kept.unwrap_or_else(|| waker.clone())
}

/// Stores a waker of the task of `waker` in a timer that is not queued; `old` is the one it had, if it was queued
/// still.
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

/// Sees to it that the task of `context` is woken; `false` if the timer fired meanwhile.
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

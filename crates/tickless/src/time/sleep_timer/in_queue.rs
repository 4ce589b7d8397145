//! The functions that start, queue, move and destroy the timer of a sleep in its queue.
//!
//! Each function chooses the slack and the base, calls the queue and publishes the deadline. No function polls or reads
//! the state of the sleep.

use std::pin::Pin;
use std::task::Waker;

use tickless_core::time::Instant;

use super::super::slack::{self, Slack};
use super::super::sleep_queue::SleepQueue;
use super::state::{Armed, SleepState, Timer};
use crate::host::registry::{timers, try_timers_fast};
use crate::host::wake;

/// Makes a timer that was never polled at its final address, and starts it there.
///
/// # Errors
///
/// The waker, if the fast path is not possible; nothing was changed.
#[inline(always)]
pub(super) fn start_new<T: SleepQueue>(
    timer: Pin<&mut Timer<T>>,
    (deadline, latest): (Instant, Instant),
    slack: Slack,
    waker: Waker,
) -> Result<(), Waker> {
    let Some(vacant) = timer.vacant() else {
        return Err(waker);
    };
    T::start_new(
        #[inline(always)]
        |new| {
            let (note, made) = vacant.fill(
                SleepState::Armed,
                #[inline(always)]
                |place| T::emplace(place, new),
            );
            *note = Some(slack);
            made
        },
        deadline,
        latest,
        waker,
    )
}

/// Queues a timer, or moves it if it is queued, so that it wakes `waker`. Returns the previous waker of the timer.
#[inline(never)]
pub(super) fn queue<T: SleepQueue>(
    timer: Pin<&mut Timer<T>>,
    deadline: Instant,
    waker: Waker,
) -> Option<Waker> {
    let (slack, made) = timer.make(SleepState::Idle, T::new);
    let slack = if T::HAS_SLACK {
        *slack.get_or_insert_with(slack::default)
    } else {
        Slack::NONE
    };
    let when = T::when(deadline, latest::<T>(slack, deadline));
    let old = made.start(timers(), when, waker);
    T::publish(when);
    old
}

/// Returns the latest time for a timer with `slack`.
#[inline]
pub(super) fn latest<T: SleepQueue>(slack: Slack, deadline: Instant) -> Instant {
    if T::HAS_SLACK && !slack.is_none() {
        wake::note_slack();
        slack.latest(deadline)
    } else {
        deadline
    }
}

/// Moves a timer and keeps its waker. Returns `false`, and changes nothing, if the timer is not queued any more.
#[inline(never)]
pub(super) fn restart<T: SleepQueue>(timer: Pin<&T>, deadline: Instant, slack: Slack) -> bool {
    let when = T::when(deadline, latest::<T>(slack, deadline));
    let is_queued = timer.restart(timers(), when);
    if is_queued {
        T::publish(when);
    }
    is_queued
}

/// Cancels an armed timer and drops it in place.
#[inline(never)]
pub(super) fn end<T: SleepQueue>(armed: Armed<'_, T>) {
    // What is rare is a call at the end, so that no register is saved for it.
    let ended = armed.end(
        SleepState::Unmade,
        #[inline(always)]
        |timer| match try_timers_fast() {
            Some(timers) => T::try_end_fast(timer, timers),
            None => Err(timer),
        },
    );
    match ended {
        // Dropped here, after every lock was released: it may run foreign code.
        Ok(waker) => drop(waker),
        Err(armed) => end_slow(armed),
    }
}

#[inline(never)]
fn end_slow<T: SleepQueue>(armed: Armed<'_, T>) {
    let ended = armed.end(
        SleepState::Unmade,
        #[inline(always)]
        |timer| Ok(T::end(timer, timers())),
    );
    drop(ended);
}

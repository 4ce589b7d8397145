//! Workers that are awake but take no turns.
//!
//! A kernel has interrupts: whatever a program computes, timers fire. A worker has its turns, and while it computes for
//! a second nobody comes for its coarse timers, nor for those of sleeping workers that it is to look after. So the
//! background driver does, a tick later: it wakes a tick after the first coarse timer of any worker is due, and runs
//! what is still there (DESIGN 7, point 7).
//!
//! A worker tells the driver at the end of a turn, and when it arms something, if the driver means to sleep for longer
//! than that. What is told is only ever earlier, so that a worker which takes its turns costs the driver one wake-up
//! for nothing in each period. A worker that leaves its sleep tells nothing, so the driver means to come for those that
//! sleep, too.

use std::sync::atomic::Ordering;

use tickless_core::time::{Instant, Span};
use tickless_core::wheel::{Kind as Wheel, Tick};

use super::{expiry_thread as background, trees as tree};
use crate::host::coarse::{TICK, instant_of, pull};
use crate::host::thread::{self as seat, Kind, Seat};
use crate::host::{TURN_BUDGET, turn};

/// When a timer that is not fired by then counts as stranded.
fn grace(seat: &Seat) -> Option<Instant> {
    let due = instant_of(seat.wheel_due(Wheel::Global)?);
    Some(due.saturating_add(Span::from_nanos(TICK)))
}

/// As [`watch`], for the worker on `seat`, this thread, which armed something in the tick `now`.
///
/// Usually there is nothing to do: something else is due earlier, that too was watched for, and its time has not come.
/// Until then nothing but the worker's own turn, which ends by [`watch`], makes the wheel forget that it is due; so
/// whenever the driver went to sleep since, it meant to wake up for that.
#[inline]
pub(crate) fn watch_armed(seat: &Seat, now: Tick) {
    // Relaxed: see `watch`.
    let watched = Tick(seat.local().watched.load(Ordering::Relaxed));
    if watched <= now
        || seat
            .wheel_due(Wheel::Global)
            .is_some_and(|due| due < watched)
    {
        watch(seat);
    }
}

/// Sees to it that the driver comes if the worker on `seat` does not.
pub(crate) fn watch(seat: &Seat) {
    let due = seat.wheel_due(Wheel::Global).unwrap_or(Tick(0));
    // Relaxed: for the thread of the seat; another one that arms there tells the driver each time.
    seat.local().watched.store(due.0, Ordering::Relaxed);
    if let Some(grace) = grace(seat)
        && background::PROMISE.outlasts(grace.as_nanos())
        && tree::takes_part(seat)
    {
        background::wake();
    }
}

/// The workers that others look after.
pub(crate) fn members() -> impl Iterator<Item = &'static Seat> {
    seat::seats().filter(|seat| seat.local().kind() == Kind::Worker && tree::takes_part(seat))
}

/// When the driver has to look, at the latest.
///
/// Also while all workers sleep: one that wakes up, or should have, may be held up before it tells anything.
pub(crate) fn first() -> Instant {
    let mut first = Instant::FOREVER;
    for seat in members() {
        // What was looked at, and is due still, cannot be helped sooner.
        let not_before = Instant::from_nanos(seat.local().stuck_until.load(Ordering::Relaxed));
        if let Some(grace) = grace(seat) {
            first = first.min(grace.max(not_before));
        }
    }
    first
}

/// Runs what is stranded at `now`.
pub(crate) fn rescue(now: Instant) {
    if first() > now {
        return;
    }
    for seat in members() {
        if grace(seat).is_some_and(|grace| grace <= now) {
            turn::as_turn_of(seat::background(), || pull(seat.cpu(), now, TURN_BUDGET));
            // Relaxed: the driver's own.
            let later = now.saturating_add(Span::from_nanos(TICK));
            seat.local()
                .stuck_until
                .store(later.as_nanos(), Ordering::Relaxed);
        }
    }
}

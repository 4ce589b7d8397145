//! The functions for timers of either kind, exact or coarse.

use std::ffi::c_int;

use tickless::hrtimer::Clock;

use crate::clock::{after, deadline, put, shown, span};
use crate::errno::{Errno, answer};
use crate::head::{Delay, Head, State};
use crate::place::ThreadPlace;
use crate::structure::{Structure, find};

#[inline(always)]
pub(crate) fn start(head: &Head, place: &ThreadPlace, delay: u64) -> Result<c_int, Errno> {
    // The time of day may be set at any time, so a delay means nothing on it.
    if head.clock == Clock::Realtime {
        return Err(Errno::INVAL);
    }
    let delay = span(delay)?;
    let deadline = after(shown(head.clock), delay)?;
    head.delay.set(Some(Delay::new(delay)));
    Ok(c_int::from(place.start(head, deadline)))
}

#[inline(always)]
pub(crate) fn start_at(head: &Head, place: &ThreadPlace, at: u64) -> Result<c_int, Errno> {
    let deadline = deadline(at)?;
    head.delay.set(None);
    Ok(c_int::from(place.start(head, deadline)))
}

pub(crate) fn restart(head: &Head, place: &ThreadPlace) -> Result<c_int, Errno> {
    start(head, place, head.delay.get().ok_or(Errno::INVAL)?.nanos())
}

/// Starts the timer at `pointer` for the first time in the future that is whole intervals after its last deadline.
/// Writes the number of intervals that have passed.
///
/// # Safety
///
/// `pointer` is null, or the memory of a whole `S`; `passed` is null, or may be written.
pub(crate) unsafe fn forward<S: Structure>(
    pointer: *const S,
    interval: u64,
    passed: *mut u64,
) -> c_int {
    answer(|| {
        // SAFETY: the caller says so.
        let found = unsafe { find(pointer) }?;
        let count = start_ahead(found.head, found.place, interval)?;
        if passed.is_null() {
            return Ok(0);
        }
        // SAFETY: the caller says so.
        unsafe { put(passed, count) }
    })
}

/// Writes the deadline of the timer at `pointer`.
///
/// # Safety
///
/// `pointer` is null, or the memory of a whole `S`; `at` is null, or may be written.
pub(crate) unsafe fn expires<S: Structure>(pointer: *const S, at: *mut u64) -> c_int {
    answer(|| {
        // SAFETY: the caller says so.
        let found = unsafe { find(pointer) }?;
        // SAFETY: the caller says so.
        unsafe { put(at, found.head.deadline.get()) }
    })
}

/// Starts the timer for the first time in the future that is whole intervals after its last deadline. Returns the
/// number of intervals that have passed.
fn start_ahead(head: &Head, place: &ThreadPlace, interval: u64) -> Result<u64, Errno> {
    let interval = span(interval)?;
    if interval == 0 {
        return Err(Errno::INVAL);
    }
    if head.state.get() != State::Idle {
        return Err(Errno::BUSY);
    }
    let (last, now) = (head.deadline.get(), shown(head.clock));
    let passed = now.saturating_sub(last) / interval;
    let intervals = passed.checked_add(1).ok_or(Errno::OVERFLOW)?;
    let ahead = interval.checked_mul(intervals).ok_or(Errno::OVERFLOW)?;
    let deadline = after(last, ahead)?;
    place.start(head, deadline);
    Ok(passed)
}

#[inline(always)]
pub(crate) fn cancel(head: &Head, place: &ThreadPlace) -> c_int {
    c_int::from(place.take_back(head))
}

pub(crate) fn try_cancel(head: &Head, place: &ThreadPlace) -> Result<c_int, Errno> {
    if place.is_running(head) {
        return Err(Errno::BUSY);
    }
    Ok(cancel(head, place))
}

pub(crate) fn cancel_sync(head: &Head, place: &ThreadPlace) -> Result<c_int, Errno> {
    if place.is_running(head) {
        return Err(Errno::DEADLK);
    }
    Ok(cancel(head, place))
}

pub(crate) fn pending(head: &Head) -> c_int {
    c_int::from(head.state.get() != State::Idle)
}

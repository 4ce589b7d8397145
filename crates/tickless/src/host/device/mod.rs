//! What the device of a thread stands for.
//!
//! The device of a thread is what brings whichever thread looks after its timers in time: a worker's own sleep, the
//! timer file descriptor of an event loop, the time that a foreign thread publishes in its [tree], the
//! sleep of the background driver. Whatever it is, it stands for all that can be due:
//!
//! | | kept in |
//! |---|---|
//! | the first exact timer | `deadline`, as the base wrote it |
//! | the first coarse timer | what the wheels publish |
//! | a kick | `kicked` |
//! | soft timers that the last turn left | `soft_raised`, since `left_over` |
//!
//! A device that is set from one of them alone forgets the others, which is how timers get lost.
//!
//! # Ground rules
//!
//! - [`due`] alone says what a device stands for, and nothing outside this module sets one.
//! - A change of what [`due`] looks at, and of what the thread is, is followed by [`changed`] or [`set`], with the base
//!   of the thread locked. So of two changes the later one sees the earlier one, and the device is set for both.
//! - A thread that becomes another kind says so first, and [sets](renew) its new device then. A change before that is
//!   seen by the setting, one after it sees the new kind.
//! - Only a [`kick`] takes no lock, because its sender may hold one. How it gets along with the others says
//!   [`Kick`](super::kick::Kick).
//! - A turn ends by setting the device anew, whatever fired: what it was set for is used up.
//!
//! # Cost
//!
//! A foreign thread's device is only ever made earlier by a change. The driver makes it later when it came for it;
//! taking it back would not keep the driver asleep. So a timeout that is armed and cancelled over and over costs the
//! driver one wake-up for nothing in each period, not one for each.

use std::sync::atomic::Ordering;

use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
use tickless_core::time::Instant;

use super::remote::{expiry_thread as background, trees as tree};
use super::thread::{Kind, Local, Seat, with_thread};
use super::{coarse, os};

/// When something on `seat` is due: its device fires then, or before. Lock-free; exact with the base locked, and for
/// the thread that looks after the seat and is ordered behind the last change.
#[inline]
pub(crate) fn due(seat: &Seat) -> Instant {
    due_but_coarse(seat).min(coarse::first_due(seat))
}

/// As [`due`], without the coarse timers, which others may look after.
#[inline]
pub(crate) fn due_but_coarse(seat: &Seat) -> Instant {
    let local = seat.local();
    if local.kicked.is_raised() {
        return Instant::ZERO;
    }
    // Relaxed, all: see `due`.
    let exact = local.deadline.load(Ordering::Relaxed);
    let first = if local.soft_raised.load(Ordering::Relaxed) {
        exact.min(local.left_over.load(Ordering::Relaxed))
    } else {
        exact
    };
    Instant::from_nanos(first)
}

/// The base programmed `when` for its exact timers. Called with it locked.
#[inline]
pub(super) fn write(seat: &Seat, when: Instant) {
    // Relaxed: see `due`.
    seat.local()
        .deadline
        .store(when.as_nanos(), Ordering::Relaxed);
    changed(seat);
}

/// Sets the device, if it does not stand for what is due by now. Called with the base of `seat` locked.
#[inline]
pub(super) fn changed(seat: &Seat) {
    let local = seat.local();
    // Relaxed: written with the base locked, or by the thread itself, which sets the device afterwards.
    let set_for = || Instant::from_nanos(local.set_for.load(Ordering::Relaxed));
    let stands = match local.kind() {
        Kind::EventLoop => due(seat) == set_for(),
        Kind::Foreign => due(seat) >= set_for(),
        Kind::Worker | Kind::Background | Kind::Free => false,
    };
    if !stands {
        set(seat);
    }
}

/// As [`changed`], for the seat of this thread, with no lock held.
#[inline]
pub(super) fn changed_own(seat: &Seat) {
    // Relaxed: a thread that sets the device meanwhile locked the base after this thread's change, and saw it, or
    // before it, which this thread saw when it locked the base.
    let set_for = seat.local().set_for.load(Ordering::Relaxed);
    if due(seat).as_nanos() < set_for {
        changed_slowly(seat);
    }
}

#[cold]
fn changed_slowly(seat: &Seat) {
    let _held = coarse::freeze(seat);
    changed(seat);
}

/// Sets the device of an event loop at the end of a turn, which [used it up](use_up).
pub(super) fn end_turn(seat: &Seat) {
    let _held = coarse::freeze(seat);
    changed(seat);
}

/// Sets the device of `seat`, whatever it is set for: when the thread became another kind, or was looked after.
pub(crate) fn renew(seat: &Seat) {
    let _held = coarse::freeze(seat);
    // A kick that met the thread as what it was before made another device due. What is asked for is due here too.
    let _seen_by_due = seat.local().kicked.was_raised_meanwhile();
    set(seat);
}

/// Sets the device of `seat` for what is due. Called with its base locked.
#[inline]
fn set(seat: &Seat) {
    match seat.local().kind() {
        Kind::Free => {}
        Kind::Worker => {
            // The thread computes until when it sleeps before it does. The driver finishes what it began when the seat
            // was a foreign thread's, and the worker may be asleep.
            if with_thread(|thread| thread.seat().is_none_or(|own| !std::ptr::eq(own, seat))) {
                seat.local().parker.unpark();
            }
        }
        Kind::EventLoop => set_timerfd(seat),
        Kind::Foreign => publish(seat),
        Kind::Background => {
            if background::PROMISE.publish(&seat.local().set_for, due(seat).as_nanos()) {
                background::wake();
            }
        }
    }
}

/// Notes that the device is set for what is due now, which the caller sees to. Called with the base of `seat` locked.
pub(super) fn note_set(seat: &Seat) -> Instant {
    let due = due(seat);
    // Relaxed: see `changed`.
    seat.local()
        .set_for
        .store(due.as_nanos(), Ordering::Relaxed);
    due
}

/// The event loop on `seat`, this thread, took what its descriptor was set for: the turn that follows sets it anew.
pub(crate) fn use_up(seat: &Seat) {
    // Relaxed: see `changed`.
    seat.local()
        .set_for
        .store(Local::USED_UP, Ordering::Relaxed);
}

/// Tells the tree, and the driver if it sleeps for longer. Called with the base of `seat` locked.
fn publish(seat: &Seat) {
    let cover = tree::guests().rearm_from_idle(seat.cpu(), note_set(seat));
    // Otherwise a thread in the tree is awake, and finds it before it sleeps.
    if !cover.is_forever() && !background::PROMISE.covers(cover.as_nanos()) {
        background::wake();
    }
}

/// Asks whichever thread looks after `seat` for a turn, in which it looks at the queues.
pub(crate) fn kick(seat: &Seat) {
    let local = seat.local();
    local.kicked.raise();
    match local.kind() {
        Kind::Free => {}
        Kind::Worker => {
            local.parker.unpark();
        }
        Kind::EventLoop => write_timerfd(seat, Instant::ZERO),
        Kind::Foreign | Kind::Background => background::wake_for_the_asked(),
    }
}

fn set_timerfd(seat: &Seat) {
    write_timerfd(seat, note_set(seat));
    if seat.local().kicked.was_raised_meanwhile() {
        write_timerfd(seat, Instant::ZERO);
    }
}

/// The event loop on `seat` is one no longer. Its descriptor stays open for the next one, and must not wake it.
pub(crate) fn silence(seat: &Seat) {
    // A thread that sets the device from here on finds the new kind.
    let _held = coarse::freeze(seat);
    write_timerfd(seat, Instant::FOREVER);
}

/// Programs the timer file descriptor of an event loop.
fn write_timerfd(seat: &Seat, when: Instant) {
    // Made before the seat became an event loop's.
    let Some(fd) = seat.local().device.existing() else {
        return;
    };
    // A deadline of zero would disarm it (spec CPL-11).
    let value = os::timespec(Instant::from_nanos(when.as_nanos().max(1)));
    let zero = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let new = Itimerspec {
        it_interval: zero,
        it_value: value.unwrap_or(zero),
    };
    // It fails only for a descriptor or a time that is none; both come from here.
    let _cannot_fail = timerfd_settime(fd, TimerfdTimerFlags::ABSTIME, &new);
}

//! The device of a thread: a wake-up that takes the place of a timer interrupt.
//!
//! The device of a thread is what brings the thread that expires its timers in time: a worker's own sleep, the timer
//! file descriptor of an event loop, the time that a foreign thread publishes in its [tree](super::remote::trees) and
//! by which the expiry thread or a [reactor](super::remote::reactors) wakes, the sleep of the expiry
//! thread. Whatever it is, it stands for all that can be due ([`DeviceState`](state::DeviceState)):
//!
//! | | kept in |
//! |---|---|
//! | the first exact timer | `programmed`, as the base wrote it |
//! | the first coarse timer | what the wheels publish |
//! | a kick | `kick` |
//! | soft timers that the last turn left | `soft_raised`, since `left_over` |
//!
//! A device that is set from one of them alone forgets the others, which is how timers get lost.
//!
//! # Ground rules
//!
//! - [`due`] alone decides the time that a device stands for, and no other module sets one.
//! - A change of what [`due`] looks at, and of the kind of a thread, is followed by [`changed`] or [`set`], with the
//!   base of the thread locked. So of two changes the later one sees the earlier one, and the device is set for both.
//! - A thread that becomes another kind says so first, and [sets](renew) its new device then. A change before that is
//!   seen by the setting, one after it sees the new kind.
//! - Only a [`kick`] takes no lock, because its sender may hold one. How it gets along with the others says
//!   [`Kick`](super::kick::Kick).
//! - A turn ends by setting the device anew, whatever fired: what it was set for is used up.
//!
//! # Cost
//!
//! A foreign thread's device is only ever made earlier by a change. The expiry thread makes it later when it came for
//! it; taking it back would not keep the expiry thread asleep. So a timeout that is started and cancelled over and over
//! costs the expiry thread one wake-up for nothing in each period, not one for each.

pub(crate) mod signal;
pub(super) mod state;

use std::ffi::c_int;

use tickless_core::time::Instant;

use super::remote::{reactors, trees};
use super::sys::timers;
use super::thread::{ThreadBase, ThreadKind, lock, now_lower, with_thread};
use super::{kernel_time, tick, wake};

/// Returns the time at which `base` has something due: its device fires then, or before. Lock-free; exact with the base
/// locked, and for the thread that looks after the base and is ordered behind the last change.
// Always: a call takes as much as what is in it.
#[inline(always)]
pub(crate) fn due(base: &ThreadBase) -> Instant {
    due_but_coarse(base).min(tick::first_due(base))
}

/// Returns the time as [`due`] does, without the coarse timers, which other threads may look after.
#[inline]
pub(crate) fn due_but_coarse(base: &ThreadBase) -> Instant {
    base.local().device.due()
}

/// The base programmed `when` for its exact timers. Called with it locked.
#[inline]
pub(super) fn write(base: &ThreadBase, when: Instant) {
    base.local().device.program(when);
    changed(base);
}

/// Sets the device, if it does not stand for what is due by now. Called with `base` locked.
#[inline]
fn changed(base: &ThreadBase) {
    let set_for = || base.local().device.set_for();
    let stands = match base.local().kind() {
        ThreadKind::EventLoop => due(base) == set_for(),
        ThreadKind::Foreign => due(base) >= set_for(),
        // The runtime of the clock looks before it lets time pass.
        ThreadKind::VirtualClock => true,
        ThreadKind::Worker | ThreadKind::ExpiryThread | ThreadKind::Free => false,
    };
    if !stands {
        set(base);
    }
}

/// Works as [`changed`], for the base of this thread, with no lock held.
#[inline]
pub(super) fn changed_own(base: &ThreadBase) {
    // A thread that sets the device meanwhile locked the base after this thread's change, and saw it, or before it,
    // which this thread saw when it locked the base.
    if due(base) < base.local().device.set_for() {
        changed_slow(base);
    }
}

#[cold]
fn changed_slow(base: &ThreadBase) {
    let _locked = lock(base);
    changed(base);
}

/// Sets the device of an event loop at the end of a turn, which [used it up](use_up).
pub(super) fn end_turn(base: &ThreadBase) {
    changed_slow(base);
}

/// Sets the device of `base`, whatever it is set for: when the thread became another kind, or was looked after.
pub(crate) fn renew(base: &ThreadBase) {
    let _locked = lock(base);
    // A kick that met the thread as what it was before made another device due. What is asked for is due here too.
    let _seen_by_due = base.local().device.kick.was_raised_meanwhile();
    set(base);
}

/// Sets the device of `base` for what is due. Called with it locked.
#[inline]
fn set(base: &ThreadBase) {
    match base.local().kind() {
        ThreadKind::Free | ThreadKind::VirtualClock => {}
        ThreadKind::Worker => {
            // The thread computes until when it sleeps before it does. The expiry thread finishes what it began when
            // the base was a foreign thread's, and the worker may be asleep.
            let local = base.local();
            if with_thread(|thread| thread.is_own(base)) {
                local.device.signal.set(due_but_coarse(base), now_lower);
            } else {
                local.resched.request();
                local.parker.unpark();
            }
            watch(base);
        }
        ThreadKind::EventLoop => {
            set_timerfd(base);
            watch(base);
        }
        ThreadKind::Foreign => publish(base),
        ThreadKind::ExpiryThread => {
            if base
                .local()
                .device
                .publish_to(&wake::SLEEPS_UNTIL, due(base))
            {
                wake::wake();
            }
        }
    }
}

/// Requests that the expiry thread comes if the thread on `base`, which runs its own timers, does not. Called with
/// `base` locked.
///
/// Without a fence: the expiry thread looks a second time after it went to sleep
/// ([`stuck`](super::remote)), and sees what was written while it did.
#[inline]
fn watch(base: &ThreadBase) {
    let local = base.local();
    let due = local.device.exact_due();
    if !due.is_forever() {
        let late = due.saturating_add(local.remote.lateness());
        if !wake::SLEEPS_UNTIL.wakes_by(late.as_nanos()) {
            watch_slow(base, late);
        }
    }
}

#[cold]
fn watch_slow(base: &ThreadBase, late: Instant) {
    if !base.local().isolation.is_left_alone() && wake::SLEEPS_UNTIL.is_after(late.as_nanos()) {
        wake::wake();
    }
}

/// Notes that the device is set for what is due now, which the caller sees to. Called with `base` locked.
pub(super) fn note_set(base: &ThreadBase) -> Instant {
    let due = due(base);
    base.local().device.note_set(due);
    due
}

/// The event loop on `base`, this thread, took what its descriptor was set for: the turn that follows sets it anew.
pub(crate) fn use_up(base: &ThreadBase) {
    base.local().device.use_up();
}

/// Notifies the tree, and the expiry thread if it sleeps for longer. Called with `base` locked.
fn publish(base: &ThreadBase) {
    let due = note_set(base);
    if let Some(reactor) = reactors::of(base) {
        return reactor.publish(base.cpu(), due);
    }
    let first = trees::foreign().rearm_from_idle(base.cpu(), due);
    // Otherwise a thread in the tree is awake, and finds it before it sleeps.
    if !first.is_forever() && !wake::SLEEPS_UNTIL.wakes_by(first.as_nanos()) {
        wake::wake();
    }
}

/// Requests a turn of the thread that looks after `base`, in which it looks at the queues.
pub(crate) fn kick(base: &ThreadBase) {
    let local = base.local();
    local.device.kick.raise();
    match local.kind() {
        ThreadKind::Free | ThreadKind::VirtualClock => {}
        ThreadKind::Worker => {
            local.resched.request();
            local.parker.unpark();
        }
        ThreadKind::EventLoop => write_timerfd(base, Instant::ZERO),
        ThreadKind::Foreign | ThreadKind::ExpiryThread => wake::wake_for_kicks(),
    }
}

/// The signal of a worker's timer came to this thread. A signal handler: it takes no lock.
pub(crate) extern "C" fn on_signal(_: c_int) {
    with_thread(|thread| {
        let Some(base) = thread.base() else { return };
        let local = base.local();
        if local.device.signal.is_on() {
            local.device.signal.note_signal();
            local.resched.request();
        }
    });
}

fn set_timerfd(base: &ThreadBase) {
    write_timerfd(base, note_set(base));
    if base.local().device.kick.was_raised_meanwhile() {
        write_timerfd(base, Instant::ZERO);
    }
}

/// The event loop on `base` is one no longer. Its descriptor stays open for the next one, and must not wake it.
pub(crate) fn silence(base: &ThreadBase) {
    // A thread that sets the device from here on finds the new kind.
    let _locked = lock(base);
    write_timerfd(base, Instant::FOREVER);
}

/// Programs the timer file descriptor of an event loop.
fn write_timerfd(base: &ThreadBase, when: Instant) {
    // Made before the thread became an event loop's.
    let Some(fd) = base.local().device.timerfd.existing() else {
        return;
    };
    timers::set(fd, kernel_time::until(when));
}

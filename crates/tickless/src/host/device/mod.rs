//! The device of a thread: a wake-up that takes the place of a timer interrupt.
//!
//! The device of a thread wakes the thread that expires its timers in time. The device of a worker is the worker's own
//! sleep, and the device of an event loop is its timer file descriptor. The device of a foreign thread is the time that
//! the thread publishes in its [tree](super::remote::trees), and by which the expiry thread or a
//! [reactor](super::remote::reactors) wakes. The device of the expiry thread is its sleep. Each device is set for the
//! earliest of all events that can be due ([`DeviceState`](state::DeviceState)):
//!
//! | event | kept in |
//! |---|---|
//! | the first exact timer | `programmed`, as the base wrote it |
//! | the first coarse timer | the published next expiry of the wheels |
//! | a kick | `kick` |
//! | soft timers that the last turn did not fire | `soft_raised`, since `left_over` |
//!
//! A device that is set from one of these events alone forgets the other events, and their timers are lost.
//!
//! # Ground rules
//!
//! - [`due`] alone decides the time for which a device is set, and no other module sets a device.
//! - After a change of a value that [`due`] reads, or of the kind of a thread, the changing thread calls [`changed`] or
//!   [`set`], with the base of the thread locked. So the later of two changes sees the earlier change, and the device
//!   is set for both.
//! - A thread that changes its kind first writes the new kind, and then [sets](renew) its new device. The setting sees
//!   each change before it, and each change after it sees the new kind.
//! - Only a [`kick`] acquires no lock, because its sender may hold a lock. [`Kick`](super::kick::Kick) says how a kick
//!   works together with the other changes.
//! - A turn ends by setting the device again, whatever fired, because the time for which the device was set is used up.
//!
//! # Cost
//!
//! A change only ever moves a foreign thread's device to an earlier time. The expiry thread moves the device to a later
//! time when it wakes for it; moving it to a later time before that would not keep the expiry thread asleep. So a
//! timeout that is started and cancelled again and again costs the expiry thread one useless wake-up in each period,
//! not one for each start.

pub(super) mod state;

use tickless_core::time::Instant;

use super::remote::{reactors, trees};
use super::sys::timers;
use super::thread::{ThreadBase, ThreadKind, lock, with_thread};
use super::{kernel_time, tick, wake};

/// Returns the time at which something on `base` is due: its device fires at this time, or earlier. Lock-free. The
/// result is exact with the base locked, and for the thread that expires the base's timers and is ordered after the
/// last change.
// Always: a call takes as much as what is in it.
#[inline(always)]
pub(crate) fn due(base: &ThreadBase) -> Instant {
    due_but_coarse(base).min(tick::first_due(base))
}

/// Returns the time as [`due`] does, without the coarse timers, which other threads may fire.
#[inline]
pub(crate) fn due_but_coarse(base: &ThreadBase) -> Instant {
    base.local().device.due()
}

/// Sets the device after the base programmed `when` for its exact timers. Called with the base locked.
#[inline]
pub(super) fn write(base: &ThreadBase, when: Instant) {
    base.local().device.program(when);
    changed(base);
}

/// Sets the device, if it is not set for the events that are pending now. Called with `base` locked.
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

/// Sets the device of an event loop at the end of a turn, which [used up](use_up) the previous setting.
pub(super) fn end_turn(base: &ThreadBase) {
    changed_slow(base);
}

/// Sets the device of `base`, whatever it is set for. Called when the kind of the thread has changed, or after another
/// thread expired its timers.
pub(crate) fn renew(base: &ThreadBase) {
    let _locked = lock(base);
    // A kick that met the thread as what it was before made another device due. What is asked for is due here too.
    let _seen_by_due = base.local().device.kick.was_raised_meanwhile();
    set(base);
}

/// Sets the device of `base` for the next due event. Called with `base` locked.
#[inline]
fn set(base: &ThreadBase) {
    match base.local().kind() {
        ThreadKind::Free | ThreadKind::VirtualClock => {}
        ThreadKind::Worker => {
            // The thread computes until when it sleeps before it does. The expiry thread finishes what it began when
            // the base was a foreign thread's, and the worker may be asleep.
            let local = base.local();
            if !with_thread(|thread| thread.is_own(base)) {
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

/// Requests that the expiry thread fires the timers of `base` if the thread on `base`, which fires its own timers, does
/// not. Called with `base` locked.
///
/// The function needs no fence: the expiry thread checks a second time after it went to sleep
/// ([`stuck`](super::remote)), and sees the words that were written meanwhile.
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

/// Records that the device is set for the next due event; the caller sets it. Called with `base` locked.
pub(super) fn note_set(base: &ThreadBase) -> Instant {
    let due = due(base);
    base.local().device.note_set(due);
    due
}

/// Marks the setting of the device as used up. The event loop on `base`, which is this thread, consumed it, and the
/// turn that follows sets the device again.
pub(crate) fn use_up(base: &ThreadBase) {
    base.local().device.use_up();
}

/// Publishes the due time to the tree, and wakes the expiry thread if it sleeps for longer. Called with `base` locked.
fn publish(base: &ThreadBase) {
    let due = note_set(base);
    if let Some(reactor) = reactors::of(base) {
        return reactor.publish(base, due);
    }
    reactors::ask_again(base, due);
    let first = trees::foreign().rearm_from_idle(base.cpu(), due);
    // Otherwise a thread in the tree is awake, and finds it before it sleeps.
    if !first.is_forever() && !wake::SLEEPS_UNTIL.wakes_by(first.as_nanos()) {
        wake::wake();
    }
}

/// Requests a turn of the thread that fires the timers of `base`. In that turn the thread checks the queues.
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

fn set_timerfd(base: &ThreadBase) {
    write_timerfd(base, note_set(base));
    if base.local().device.kick.was_raised_meanwhile() {
        write_timerfd(base, Instant::ZERO);
    }
}

/// Silences the descriptor of a thread on `base` that is no longer an event loop. The descriptor stays open for the
/// next event loop, and must not wake this one.
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

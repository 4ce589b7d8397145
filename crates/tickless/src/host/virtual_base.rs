//! The base of a virtual clock, which belongs to no thread: the clock's timers with callbacks wait there.
//!
//! The core knows timers by the CPU that they are on, and each CPU has one time. So a virtual clock has a CPU of its
//! own. A thread of its runtime [visits](visit) that base to start a timer, and takes a [turn](fn@turn) for it when the
//! clock says so. Cancelling needs no visit: it finds the base by the timer.
//!
//! # Ground rules
//!
//! - The core reads the virtual clock while a thread visits the base or takes its turn, and at no other time.
//! - The device of the base wakes no thread: the runtime asks for [what is first](first_due) before its time passes.
//! - The base is in no tree, so the expiry thread does not look at it.

use tickless_core::event::Flush;
use tickless_core::time::Instant;

use super::isolation::state::Help;
use super::registry::{self, timers};
use super::thread::{Left, ThreadBase, ThreadKind, with_thread};
use super::turn::{self, Done};
use super::{device, tick, wake};

/// Occupies a base for a virtual clock; `None` when all are taken.
pub(crate) fn take() -> Option<&'static ThreadBase> {
    let timers = timers();
    let base = registry::take()?;
    let local = base.local();
    local.count_occupant();
    local.device.forget();
    local.isolation.set_help(Help::UnlessIsolated);
    with_clock(|| {
        timers.wheel_online(base.cpu(), tick::core_now());
        timers.cpu_online(base.cpu());
    });
    local.set_kind(ThreadKind::VirtualClock);
    Some(base)
}

/// Gives `base` back. What is queued there goes to the expiry thread, and by the process's clock from here on.
pub(crate) fn give_back(base: &'static ThreadBase) {
    if timers().pending(base.cpu()) > 0 {
        wake::ensure_expiry_thread();
    }
    base.local().set_kind(ThreadKind::Free);
    timers().cpu_offline(base.cpu());
    timers().wheel_offline(base.cpu(), tick::now());
    device::renew(registry::of_expiry_thread());
    registry::give_back(base);
}

/// Executes `body` on `base`, by the virtual clock that users of this thread see: what it starts waits there.
pub(crate) fn visit<R>(base: &'static ThreadBase, body: impl FnOnce() -> R) -> R {
    /// Undoes the visit when it is dropped, also by a panic of the body.
    struct Home(Left);
    impl Drop for Home {
        fn drop(&mut self) {
            with_thread(|thread| thread.go_home(&self.0));
        }
    }
    let timers = timers();
    let _home = Home(with_thread(|thread| thread.visit(base, timers)));
    with_clock(body)
}

/// Calls the callbacks that are due on `base` at `now`, by the virtual clock that users of this thread see.
pub(crate) fn turn(base: &'static ThreadBase, now: Instant) -> Done {
    with_clock(|| turn::run(base, now))
}

/// Returns the time at which the first timer of `base` is due, exactly.
pub(crate) fn first_due(base: &'static ThreadBase) -> Instant {
    visit(base, || {
        timers().flush_deferred(base.cpu(), Flush::TurnEnd);
        timers().settle_armed(base.cpu());
        device::due_but_coarse(base).min(tick::settle_first_due(base))
    })
}

/// Executes `body` while the core goes by the virtual clock that users of this thread see.
fn with_clock<R>(body: impl FnOnce() -> R) -> R {
    /// Undoes the visit when it is dropped, also by a panic of the body.
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            with_thread(|thread| thread.set_on_virtual_base(self.0));
        }
    }
    let _restore = Restore(with_thread(|thread| thread.set_on_virtual_base(true)));
    body()
}

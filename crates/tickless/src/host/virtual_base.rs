//! The base of a virtual clock, which belongs to no thread, and holds the clock's timers with callbacks.
//!
//! In the core each timer belongs to a CPU, and each CPU has one time. So a virtual clock has a CPU of its own. A
//! thread of the clock's runtime [visits](visit) the base of that CPU to start a timer, and takes a [turn](fn@turn) for
//! the base when a timer is due by the clock. Cancelling needs no visit, because the timer refers to the base.
//!
//! # Ground rules
//!
//! - The core reads the virtual clock while a thread visits the base or takes its turn, and at no other time.
//! - The device of the base wakes no thread: the runtime reads the [time of the first timer](first_due) before it
//!   advances its clock.
//! - The base is in no tree, so the expiry thread does not serve it.

use tickless_core::event::Flush;
use tickless_core::time::Instant;

use super::isolation::state::Help;
use super::registry::{self, timers};
use super::thread::{Left, ThreadBase, ThreadKind, with_thread};
use super::turn::{self, Done};
use super::{device, tick, wake};

/// Occupies a base for a virtual clock; `None` if all bases are occupied.
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

/// Frees `base`. From then on the expiry thread fires the timers that are queued there, by the process's clock.
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

/// Executes `body` on `base`, by the virtual clock that users of this thread see. Timers that `body` starts are queued
/// on `base`.
pub(crate) fn visit<R>(base: &'static ThreadBase, body: impl FnOnce() -> R) -> R {
    /// A guard that ends the visit when it is dropped, also by a panic of the body.
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

/// Executes `body` while the core uses the virtual clock that users of this thread see.
fn with_clock<R>(body: impl FnOnce() -> R) -> R {
    /// A guard that makes the core use its previous clock again when it is dropped, also by a panic of the body.
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            with_thread(|thread| thread.set_on_virtual_base(self.0));
        }
    }
    let _restore = Restore(with_thread(|thread| thread.set_on_virtual_base(true)));
    body()
}

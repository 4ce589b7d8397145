//! A turn: the expiry of a thread's timers. On other hosts a timer interrupt and its soft stage do this work.

use tickless_core::coarse::{PassEnd, WheelKind as Wheel};
use tickless_core::event::Flush;
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;

#[cfg(feature = "worker")]
use super::isolation;
use super::process::TURN_BUDGET;
use super::registry::timers;
use super::remote::{publish, trees};
use super::thread::{ThreadBase, ThreadKind, with_thread};
use super::tick::tick_of;
use super::{blocked, device, overrun, wake};

/// The result of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// The number of timers that fired.
    pub(crate) fired: u32,
    /// True if more timers are due, because the budget is spent.
    pub(crate) more: bool,
}

/// Fires the timers that are due on `base` at `now`. Called by the thread that expires timers for the base.
pub(super) fn run(base: &'static ThreadBase, now: Instant) -> Done {
    as_turn_of(base, || take(base, now, Rearm::AtTheEnd))
}

/// Fires the exact timers that are due on `base` at `now`, for a thread that fires its own timers but is stuck. The
/// thread's kicks stay pending for the thread.
pub(super) fn run_stuck(base: &'static ThreadBase, now: Instant) -> Done {
    as_turn_of(base, || {
        let mut done = Done::default();
        take_exact(base, now, Rearm::AtTheEnd, &mut done);
        done
    })
}

/// The code that carries out the rearm that an interrupt deferred (spec ).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rearm {
    /// The turn carries out the rearm, at its end.
    AtTheEnd,
    /// The caller of the turn carries out the rearm, at its next flush point.
    IsOwed,
}

/// Works as [`run`], for the thread of `base` itself. A worker also fires the timers of other threads.
pub(crate) fn run_own(base: &'static ThreadBase, now: Instant) -> Done {
    own(base, now, Rearm::AtTheEnd)
}

/// Works as [`run_own`], and leaves the rearm to the caller: a scheduler that is about to start its tick, and then
/// carries out the rearm.
pub(crate) fn run_own_owing(base: &'static ThreadBase, now: Instant) -> Done {
    own(base, now, Rearm::IsOwed)
}

fn own(base: &'static ThreadBase, now: Instant, rearm: Rearm) -> Done {
    /// A guard that records the end of the turn for the expiry thread, also by a panic.
    struct End(&'static ThreadBase);
    impl Drop for End {
        fn drop(&mut self) {
            self.0.local().remote.end_turn();
        }
    }
    base.local().remote.begin_turn();
    let _end = End(base);
    as_turn_of(base, || {
        let mut done = take(base, now, rearm);
        // A thread that waits for its timers to fire is told of these too.
        done.fired += base.local().remote.take_stuck_fired();
        wake::replace_missing(now);
        if base.local().kind() == ThreadKind::Worker {
            if is_needed(base, now) {
                done.more |= expire_remote(base, now);
            }
            publish::republish_next_expiry(base);
        }
        done
    })
}

/// Executes `turn` as a turn of `base`. Callbacks can find out whose turn it is.
pub(super) fn as_turn_of<R>(base: &ThreadBase, turn: impl FnOnce() -> R) -> R {
    /// A guard that restores the executing CPU when it is dropped, also by a panic of the turn.
    struct Restore(Option<CpuId>);
    impl Drop for Restore {
        fn drop(&mut self) {
            with_thread(|thread| thread.replace_turn(self.0));
            blocked::turn_ends();
        }
    }
    let _restore = Restore(with_thread(|thread| thread.replace_turn(Some(base.cpu()))));
    turn()
}

fn take(base: &'static ThreadBase, now: Instant, rearm: Rearm) -> Done {
    let cpu = base.cpu();
    if base.local().device.kick.take() {
        timers().retrigger(cpu);
        #[cfg(feature = "worker")]
        isolation::obey(base);
    }
    let mut done = take_coarse(cpu, now);
    take_exact(base, now, rearm, &mut done);
    if base.local().kind() == ThreadKind::EventLoop {
        device::end_turn(base);
    }
    done
}

/// Executes the part of a turn for the wheels of `cpu`.
fn take_coarse(cpu: CpuId, now: Instant) -> Done {
    let (mut done, now) = (Done::default(), tick_of(now));
    if timers().wheel_is_due(cpu, now) {
        for wheel in Wheel::ALL {
            let pass = timers().run_wheel(cpu, wheel, now, TURN_BUDGET);
            done.fired += pass.fired;
            done.more |= pass.end == PassEnd::Budget;
        }
    }
    done
}

/// Executes the part of a turn for exact timers.
fn take_exact(base: &'static ThreadBase, now: Instant, rearm: Rearm, done: &mut Done) {
    let (cpu, device) = (base.cpu(), &base.local().device);
    // The thread is awake, so what may fire costs no wake-up now, and would cost one later (spec OBJ-23).
    let may_fire = base.may_fire_from() <= now;
    if !may_fire && !device.has_exact_work(now) {
        return;
    }
    let mut exact_more = false;
    if device.take_programmed(now) | may_fire {
        let report = timers().interrupt(cpu);
        done.fired += report.fired;
        exact_more |= report.more;
        report.overrun.iter().for_each(overrun::report);
    }
    while device.take_soft() {
        // FLUSH-10: before soft callbacks, which may take long.
        flush(base);
        let soft = timers().soft_interrupt(cpu);
        done.fired += soft.fired;
        soft.overrun.iter().for_each(overrun::report);
        if soft.more {
            // Raised again already; the rest is for the next turn.
            exact_more = true;
            break;
        }
    }
    if rearm == Rearm::AtTheEnd {
        flush(base);
    }
    done.more |= exact_more;
    if exact_more {
        device.leave_over(now);
    }
}

/// Executes the flush at the end of a turn (FLUSH-10).
fn flush(base: &'static ThreadBase) {
    timers().flush_deferred(base.cpu(), Flush::TurnEnd);
}

/// Returns whether the worker on `base` has to fire timers of other workers at `now`. Lock-free.
pub(crate) fn is_needed(base: &ThreadBase, now: Instant) -> bool {
    trees::workers().remote_work_due(base.cpu(), now)
}

/// Fires the coarse timers of sleeping workers that are due at `now`, as far as the worker on `base`, which is this
/// thread, is responsible for them. Returns true if more timers are due.
fn expire_remote(base: &ThreadBase, now: Instant) -> bool {
    let mut budget = TURN_BUDGET;
    let pull = trees::workers().serve_remote(base.cpu(), now, &mut budget);
    pull.has_more
}

//! Help for workers that are awake but take no turns.
//!
//! A kernel has interrupts: whatever a program computes, timers fire. A worker has its turns, and while it computes for
//! a second it comes neither for its own coarse timers nor for those of sleeping workers that it is to look after. So
//! the expiry thread does, a tick later: it wakes a tick after the first coarse timer of any worker is due
//! ([`publish`](super::publish)), and runs what is still there.
//!
//! # Exact timers
//!
//! The same holds for the exact timers of a thread that runs its own, a worker or one with an event loop: it may block
//! where the library does not see it, on a timer that only its own turn would fire. A grace after its first exact timer
//! was due the expiry thread fires it, and from there on comes in time, until the thread takes a turn. While the thread
//! is in a turn its callbacks are its own business. Isolated workers are helped if they asked for that.
//!
//! The thread tells the expiry thread of a deadline when it sets its [`device`], by one load as a rule and without a
//! fence: of two threads that miss each other then, the expiry thread goes to sleep for too long. So it wakes up once
//! more a grace later, while there are such threads, and looks again.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use tickless_core::time::{Instant, Span};

use super::expire::pull;
use super::publish::grace;
use super::trees::members;
use crate::host::doorbell::GRACE;
use crate::host::process::TURN_BUDGET;
use crate::host::registry::bases;
use crate::host::thread::ThreadBase;
use crate::host::tick::TICK;
use crate::host::{device, registry, turn};

/// Time without a turn of a thread before that is reported. A loaded machine keeps threads from their CPUs for a while,
/// which is no fault of the program.
const REPORT_AFTER: Span = Span::from_millis(1_000);

/// Returns the time at which the expiry thread has to look, at the latest.
///
/// Also while all workers sleep: one that wakes up, or should have, may be held up before it tells anything.
pub(super) fn first() -> Instant {
    let mut first = Instant::FOREVER;
    for base in members() {
        // What was looked at, and is due still, cannot be helped sooner.
        let not_before = base.local().remote.helped_until();
        if let Some(grace) = grace(base) {
            first = first.min(grace.max(not_before));
        }
    }
    watched().fold(first, |first, base| first.min(exact(base)))
}

/// Returns whether there are threads whose exact timers the expiry thread watches.
pub(super) fn watches() -> bool {
    watched().next().is_some()
}

fn watched() -> impl Iterator<Item = &'static ThreadBase> {
    bases().filter(|base| {
        let local = base.local();
        local.kind().runs_its_own() && !local.isolation.is_left_alone()
    })
}

/// Returns the time at which the expiry thread comes for the exact timers of `base`, which runs its own.
fn exact(base: &ThreadBase) -> Instant {
    let local = base.local();
    let due = local.device.exact_due();
    if due.is_forever() {
        return due;
    }
    let late = due.saturating_add(local.remote.lateness());
    late.max(local.remote.exact_not_before())
}

/// Runs what is stranded at `now`.
pub(super) fn rescue(now: Instant) {
    if first() > now {
        return;
    }
    for base in members() {
        if grace(base).is_some_and(|grace| grace <= now) {
            turn::as_turn_of(registry::of_expiry_thread(), || {
                pull(base.cpu(), now, TURN_BUDGET)
            });
            let later = now.saturating_add(Span::from_nanos(TICK));
            base.local().remote.set_helped_until(later);
        }
    }
    for base in watched() {
        if exact(base) <= now {
            rescue_exact(base, now);
        }
    }
}

/// Fires the exact timers of a thread that should have done so itself, unless it is about to.
fn rescue_exact(base: &'static ThreadBase, now: Instant) {
    let remote = &base.local().remote;
    if remote.is_in_turn() {
        let later = now.saturating_add(Span::from_nanos(GRACE.unsigned_abs()));
        return remote.set_exact_not_before(later);
    }
    if remote.is_stuck() {
        if now >= remote.stuck_since().saturating_add(REPORT_AFTER) {
            report();
        }
    } else {
        remote.set_stuck_since(now);
    }
    // Before the turn: what a task that it wakes starts is watched without a grace.
    remote.set_stuck(0);
    let done = turn::run_stuck(base, now);
    remote.set_stuck(done.fired);
    // The thread may wait by now for what the turn did or left undone, or be of another kind.
    device::renew(base);
    if done.fired > 0 {
        // An event loop waits for a descriptor that nothing is due for any more: a turn tells it what fired.
        device::kick(base);
    }
    if exact(base) <= now {
        // Another thread is at it, or the budget is spent.
        remote.set_exact_not_before(now.saturating_add(Span::from_nanos(TICK)));
    }
}

/// Reports once for the process that a thread blocks where its timers do not fire.
#[cold]
fn report() {
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    // Relaxed: the expiry thread alone reports.
    if !IS_REPORTED.swap(true, Ordering::Relaxed) {
        // A closed stream is no reason to stop.
        let _written = writeln!(
            std::io::stderr(),
            "tickless: a thread that runs its own timers (`Worker`, `Driver`, or a worker of an `Executor`) takes no \
             turns; the background thread fires its timers meanwhile (`Stats::stuck_expired`)"
        );
    }
}

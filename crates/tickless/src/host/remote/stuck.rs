//! Help for workers that are awake but take no turns.
//!
//! A kernel has interrupts: timers fire whatever a program computes. A worker fires timers only in its turns. While it
//! computes for a second, it fires neither its own coarse timers nor the timers of the sleeping workers for which it is
//! responsible. So the expiry thread fires them, a tick later: it wakes a tick after the first coarse timer of any
//! worker is due ([`publish`](super::publish)), and fires the timers that are still pending.
//!
//! # Exact timers
//!
//! The same holds for the exact timers of a thread that fires its own timers, which is a worker or a thread with an
//! event loop. Such a thread may block in code that the library does not see, on a timer that only the thread's own
//! turn would fire. The expiry thread fires the first exact timer a grace after it was due, and from then on fires the
//! thread's exact timers in time, until the thread takes a turn. It does not fire them while the thread is in a turn.
//! Isolated workers get this help if they requested it.
//!
//! The thread notifies the expiry thread of a deadline when it sets its [`device`], usually by one load and without a
//! fence. So the two threads may miss each other's writes, and the expiry thread then sleeps for too long. Therefore,
//! while there are such threads, the expiry thread wakes up once more a grace later, and checks the deadlines again.

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

/// The time without a turn after which a thread is reported. A loaded machine keeps threads from their CPUs for a
/// while, which is no fault of the program.
const REPORT_AFTER: Span = Span::from_millis(1_000);

/// Returns the latest time at which the expiry thread has to check the workers.
///
/// This holds also while all workers sleep, because a worker that wakes up, or should have, may be delayed before it
/// publishes a time.
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

/// Returns the time at which the expiry thread has to fire the exact timers of `base`, whose thread fires its own
/// timers.
fn exact(base: &ThreadBase) -> Instant {
    let local = base.local();
    let due = local.device.exact_due();
    if due.is_forever() {
        return due;
    }
    let late = due.saturating_add(local.remote.lateness());
    late.max(local.remote.exact_not_before())
}

/// Fires the timers that are stranded at `now`.
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

/// Fires the exact timers of a thread that should have fired them itself, unless the thread is about to.
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

/// Reports, once for the process, that a thread blocks in code in which its timers do not fire.
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

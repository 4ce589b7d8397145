//! Help for workers that are awake but take no turns.
//!
//! A kernel has interrupts: whatever a program computes, timers fire. A worker has its turns, and while it computes for
//! a second it comes neither for its own coarse timers nor for those of sleeping workers that it is to look after. So
//! the expiry thread does, a tick later: it wakes a tick after the first coarse timer of any worker is due
//! ([`publish`](super::publish)), and runs what is still there.

use tickless_core::time::{Instant, Span};

use super::expire::pull;
use super::publish::grace;
use super::trees::members;
use crate::host::process::TURN_BUDGET;
use crate::host::tick::TICK;
use crate::host::{registry, turn};

/// When the expiry thread has to look, at the latest.
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
    first
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
}

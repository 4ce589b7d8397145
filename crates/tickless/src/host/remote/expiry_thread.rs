//! The expiry thread: it expires for threads that do not do it themselves.
//!
//! It sleeps until the earliest deadline of all of them, and runs the callbacks. What is due, and what is first, the
//! [tree](super::trees) of these threads tells it. What starts and wakes it is [`wake`]. For threads that have a
//! [reactor](super::reactors) it comes if that does not.

use tickless_core::time::Instant;

use super::expire::{take_along, take_turn_for};
use super::{reactor_turn, reactors, stuck, trees};
use crate::host::device;
use crate::host::doorbell::GRACE;
use crate::host::process::{Host, TURN_BUDGET};
use crate::host::registry::{self, bases, timers};
use crate::host::sys::threads;
use crate::host::thread::{Kind, now_lower, with_thread};
use crate::host::wake::{self, Body, SLEEPS_UNTIL};

impl Body for Host {
    fn settle() {
        reactor_turn::settle();
    }

    fn run() {
        threads::remove_timer_slack();
        let own = registry::of_expiry_thread();
        with_thread(|thread| thread.occupy(own, timers()));
        trees::join_expiry_thread();
        loop {
            SLEEPS_UNTIL.awake();
            let tree = trees::foreign();
            tree.leave_idle(own.cpu());
            let mut more = service_kicks();
            if device::due(own) <= now() {
                more |= take_turn_for(own).more;
            }
            let mut budget = TURN_BUDGET;
            more |= tree.serve_remote(own.cpu(), now(), &mut budget).has_more;
            more |= take_along(None, now());
            stuck::rescue(now());
            reactor_turn::stand_in();
            let first = tree.enter_idle(own.cpu(), Instant::FOREVER);
            let until = first.as_nanos().min(earliest());
            if more || until <= now().as_nanos() {
                continue;
            }
            if SLEEPS_UNTIL.sleep(until, earliest) {
                let again = now().as_nanos().saturating_add(GRACE);
                // Threads that run their own timers tell of theirs without a fence (`stuck`).
                let again = (again < until && stuck::watches()).then_some(again);
                let parker = &own.local().parker;
                SLEEPS_UNTIL.park(until, again, earliest, |until| {
                    parker.park(Instant::from_nanos(until))
                });
            }
        }
    }
}

/// Takes a turn for every base that was kicked; says whether more is due.
fn service_kicks() -> bool {
    if !wake::take_kicks() {
        return false;
    }
    let mut more = false;
    for base in bases() {
        let local = base.local();
        let is_looked_after = matches!(local.kind(), Kind::Foreign | Kind::ExpiryThread);
        if is_looked_after && local.device.kick.is_raised() {
            if local.remote.reactor().is_none() {
                more |= take_turn_for(base).more;
            }
            // A thread with a reactor is published as due now.
            device::renew(base);
        }
    }
    more
}

/// Returns the time for which the expiry thread wakes up besides the foreign threads, in nanoseconds.
fn earliest() -> i64 {
    // Its own first timer is ordered by the fences of `SLEEPS_UNTIL`. Coarse timers come here from threads that end,
    // and those kick.
    let own = device::due(registry::of_expiry_thread());
    own.min(stuck::first()).as_nanos().min(reactors::first())
}

fn now() -> Instant {
    now_lower()
}

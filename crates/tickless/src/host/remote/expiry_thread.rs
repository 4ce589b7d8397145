//! The expiry thread: it fires the timers of threads that do not fire their own.
//!
//! It sleeps until the earliest deadline of all these threads, and runs the callbacks. The [tree](super::trees) of
//! these threads has the first deadline and the due timers. The module [`wake`] has the handle that starts and wakes
//! the expiry thread. If threads have a [reactor](super::reactors), the expiry thread fires their timers only if the
//! reactor does not.
//!
//! A program that runs in an event loop of JavaScript has one thread and no expiry thread. The event loop calls this
//! module when something is due, and the module does the same work.

use tickless_core::time::Instant;

use super::expire::{take_along, take_turn_for};
use super::{reactor_turn, reactors, stuck, trees};
use crate::host::device;
use crate::host::doorbell::GRACE;
use crate::host::process::{Host, TURN_BUDGET};
use crate::host::registry::{self, bases, timers};
#[cfg(event_host)]
use crate::host::sys::events;
use crate::host::sys::threads;
use crate::host::thread::{ThreadKind, now_lower, with_thread};
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
            let Some(until) = round() else { continue };
            let again = now().as_nanos().saturating_add(GRACE);
            // Threads that run their own timers tell of theirs without a fence (`stuck`).
            let again = (again < until && stuck::watches()).then_some(again);
            let parker = &own.local().parker;
            SLEEPS_UNTIL.park(until, again, earliest, |until| {
                parker.park(Instant::from_nanos(until))
            });
        }
    }

    #[cfg(event_host)]
    fn begin() {
        trees::join_expiry_thread();
    }

    #[cfg(event_host)]
    fn called() {
        // Rounds that found more to do: the event loop has its turn in between.
        let until = (0..ROUNDS_MAX).find_map(|_| round());
        let left = until.map_or(0, |until| until.saturating_sub(now().as_nanos()));
        if until != Some(i64::MAX) {
            events::call_in(left, Self::called);
        }
    }
}

/// The number of rounds that one call of an event loop runs.
#[cfg(event_host)]
const ROUNDS_MAX: u32 = 4;

/// Fires the due timers of other threads. Returns the time until which the expiry thread may sleep; `None` if there is
/// more to do.
fn round() -> Option<i64> {
    let own = registry::of_expiry_thread();
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
    let may_sleep = !more && until > now().as_nanos() && SLEEPS_UNTIL.sleep(until, earliest);
    may_sleep.then_some(until)
}

/// Takes a turn for every base that was kicked. Returns whether more timers are due.
fn service_kicks() -> bool {
    if !wake::take_kicks() {
        return false;
    }
    let mut more = false;
    for base in bases() {
        let local = base.local();
        let is_looked_after =
            matches!(local.kind(), ThreadKind::Foreign | ThreadKind::ExpiryThread);
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

/// Returns the time, in nanoseconds, at which the expiry thread has to wake up for other reasons than the timers of
/// foreign threads.
fn earliest() -> i64 {
    // Its own first timer is ordered by the fences of `SLEEPS_UNTIL`. Coarse timers come here from threads that end,
    // and those kick.
    let own = device::due(registry::of_expiry_thread());
    own.min(stuck::first()).as_nanos().min(reactors::first())
}

fn now() -> Instant {
    now_lower()
}

//! The background driver: the thread that expires for threads that do not do it themselves.
//!
//! It is started when the first such thread arms a timer, sleeps until the earliest deadline of all of them, and runs
//! the callbacks. It looks at every seat at each wake-up, which is a load for each thread that has timers.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tickless_core::time::Instant;

use super::handover::Promise;
use super::seat::{self, Kind};
use super::{ask, os, timers, turn};

/// Until when the driver sleeps.
pub(crate) static PROMISE: Promise = Promise::new();

/// The driver runs, or is about to.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// Stack of the driver: it runs callbacks and wakers of others.
const STACK: usize = 1 << 20;

/// Wakes the driver, and starts it if it does not run.
///
/// # Panics
///
/// When the thread cannot be started: timers would never fire.
pub(crate) fn wake() {
    if let Err(error) = ensure_running() {
        panic!("tickless cannot start its driver thread, so no timer would fire: {error}");
    }
    seat::background().local().parker.unpark();
}

/// Starts the driver, if it does not run yet.
pub(crate) fn ensure_running() -> io::Result<()> {
    // Relaxed: the exchange below decides who starts it.
    if RUNNING.load(Ordering::Relaxed) {
        return Ok(());
    }
    start()
}

#[cold]
fn start() -> io::Result<()> {
    // AcqRel: one starter. The thread itself orders everything that follows.
    if RUNNING.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    let spawned = thread::Builder::new()
        .name("tickless-driver".to_owned())
        .stack_size(STACK)
        .spawn(run);
    if let Err(error) = spawned {
        RUNNING.store(false, Ordering::Release);
        return Err(error);
    }
    Ok(())
}

/// Notes that the driver is gone with the other threads: the child of a fork.
pub(super) fn forget() {
    RUNNING.store(false, Ordering::Release);
    PROMISE.gone();
}

fn run() {
    os::remove_timer_slack();
    seat::sit_in_background();
    loop {
        PROMISE.awake();
        let mut more = false;
        let start = now();
        for seat in seat::seats() {
            if matches!(seat.local().kind(), Kind::Foreign | Kind::Background)
                && turn::is_due(seat, start)
            {
                more |= turn::run(seat, now()).more;
                if matches!(seat.local().kind(), Kind::Worker | Kind::EventLoop) {
                    // It became one during that turn, and may wait by now for what it did or left undone.
                    ask(seat);
                }
            }
        }
        let until = earliest();
        if more || until <= now().as_nanos() {
            continue;
        }
        if PROMISE.sleep(until, earliest) {
            seat::background()
                .local()
                .parker
                .park(Instant::from_nanos(until));
        }
    }
}

/// The earliest deadline of all seats that the driver looks after.
fn earliest() -> i64 {
    seat::seats()
        .filter(|seat| matches!(seat.local().kind(), Kind::Foreign | Kind::Background))
        .map(|seat| {
            if turn::is_asked(seat) {
                return i64::MIN;
            }
            // Relaxed: ordered by the fences of the promise.
            seat.local().deadline.load(Ordering::Relaxed)
        })
        .min()
        .unwrap_or(Promise::NEVER)
}

fn now() -> Instant {
    timers().platform().clock.exact()
}

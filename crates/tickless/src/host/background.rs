//! The background driver: the thread that expires for threads that do not do it themselves.
//!
//! It is started when the first such thread arms a timer, sleeps until the earliest deadline of all of them, and runs
//! the callbacks. What is due, and what is first, the [tree] of these threads tells it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tickless_core::time::Instant;

use super::handover::Promise;
use super::seat::{self, Kind, Seat};
use super::{TURN_BUDGET, ask, coarse, os, stuck, timers, tree, turn};

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

/// Somebody asked for a look at the queues of a thread that the driver looks after.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Has the driver look at all seats that were asked for.
pub(super) fn wake_for_the_asked() {
    // Release: pairs with the exchange in `run`: who sees it sees which seat is meant.
    ASKED.store(true, Ordering::Release);
    wake();
}

fn run() {
    os::remove_timer_slack();
    seat::sit_in_background();
    tree::seat_the_driver();
    let background = seat::background();
    loop {
        PROMISE.awake();
        let tree = tree::guests();
        tree.leave_idle(background.cpu());
        let mut more = look_after_the_asked();
        if turn::is_due(background, now()) {
            more |= look_after(background).more;
        }
        let mut budget = TURN_BUDGET;
        more |= tree
            .serve_remote(background.cpu(), now(), &mut budget)
            .has_more;
        stuck::rescue(now());
        let cover = tree.enter_idle(background.cpu(), Instant::FOREVER);
        let until = cover.as_nanos().min(earliest());
        if more || until <= now().as_nanos() {
            continue;
        }
        if PROMISE.sleep(until, earliest) {
            background.local().parker.park(Instant::from_nanos(until));
        }
    }
}

/// Takes a turn for every thread that somebody asked for one for; says whether more is due.
fn look_after_the_asked() -> bool {
    // AcqRel: see `wake_for_the_asked`.
    if !ASKED.swap(false, Ordering::AcqRel) {
        return false;
    }
    let mut more = false;
    for seat in seat::seats() {
        let kind = seat.local().kind();
        if matches!(kind, Kind::Foreign | Kind::Background) && turn::is_asked(seat) {
            more |= look_after(seat).more;
        }
    }
    more
}

/// Takes a turn for the thread on `seat`.
pub(super) fn look_after(seat: &'static Seat) -> turn::Done {
    // Relaxed: a wrong answer costs one look for nothing.
    let tenants = seat.local().tenants.load(Ordering::Relaxed);
    let done = turn::run(seat, now());
    coarse::retell(seat);
    let runs_its_own = matches!(seat.local().kind(), Kind::Worker | Kind::EventLoop);
    if runs_its_own && tenants == seat.local().tenants.load(Ordering::Relaxed) {
        // It began to do so during that turn, and may wait by now for what the turn did or left undone.
        ask(seat);
    }
    done
}

/// What the driver wakes up for besides its guests.
fn earliest() -> i64 {
    own_deadline().min(stuck::first().as_nanos())
}

/// When the driver's own first timer is due.
fn own_deadline() -> i64 {
    let own = seat::background();
    if turn::is_asked(own) {
        return i64::MIN;
    }
    // Relaxed: ordered by the fences of the promise. Coarse timers come here from threads that end, and those ask.
    let exact = own.local().deadline.load(Ordering::Relaxed);
    exact.min(coarse::first_due(own).as_nanos())
}

fn now() -> Instant {
    timers().platform().clock.exact()
}

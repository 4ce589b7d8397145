//! The background driver: the thread that expires for threads that do not do it themselves.
//!
//! It is started when the first such thread arms a timer, sleeps until the earliest deadline of all of them, and runs
//! the callbacks. What is due, and what is first, the [tree] of these threads tells it.
//!
//! # When it cannot be started
//!
//! The system may refuse the thread. A thread that arms a timer for which the driver is needed starts it *before* the
//! timer is queued, so that it can be told by a panic that leaves nothing behind ([`demand`]). At other places the
//! driver turns out to be needed with timers queued and locks held, and nobody can be told: a thread ends, a worker
//! becomes an ordinary thread, a process forks. Then the driver is *missing*. Everything stays queued and published as
//! it is, and whoever uses timers next tries again: a thread that arms one or polls one, a worker at the end of a turn.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use tickless_core::time::Instant;
use tickless_link::sync::CachePadded;

use super::{stuck, trees as tree};
use crate::host::sleep_protocol::Promise;
use crate::host::thread::{self as seat, Kind, Seat, Thread, with_thread};
use crate::host::{TURN_BUDGET, device, os, timers, turn};

/// Until when the driver sleeps.
pub(crate) static PROMISE: Promise = Promise::new();

/// The driver runs, or is about to.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// The driver is needed and does not run: the system refused it a thread, or it stayed behind at a fork. Changed with
/// [`STARTING`] locked.
///
/// On cache lines of its own: every arm reads it, and nearly nobody writes it.
static MISSING: CachePadded<AtomicBool> = CachePadded(AtomicBool::new(false));

/// Held by the thread that tries to start the driver. Locked behind base locks.
static STARTING: Mutex<()> = Mutex::new(());

/// When a worker may try next to start a driver that is missing, in nanoseconds.
static RETRY_AT: AtomicI64 = AtomicI64::new(0);

/// How long workers leave a driver alone that could not be started, in nanoseconds: an attempt costs as much as many
/// turns.
const RETRY_AFTER: i64 = 10_000_000;

/// Stack of the driver: it runs callbacks and wakers of others.
const STACK: usize = 1 << 20;

/// Wakes the driver, and starts it if it does not run.
///
/// Called with locks held and timers queued, so that it must not panic: if there is no thread to be had the driver is
/// missing from here on, and those who can be told are ([`demand`]).
pub(crate) fn wake() {
    // Relaxed, both: `start` looks again. Who finds it missing leaves the next attempt to those who can be told.
    if !RUNNING.load(Ordering::Relaxed) && (is_missing() || start().is_err()) {
        return;
    }
    seat::background().local().parker.unpark();
}

/// Starts the driver, if it does not run yet.
pub(crate) fn ensure_running() -> io::Result<()> {
    // Relaxed: `start` decides.
    if RUNNING.load(Ordering::Relaxed) && !is_missing() {
        return Ok(());
    }
    start()
}

#[cold]
fn start() -> io::Result<()> {
    // The driver takes the first seat, which is made with them.
    let _made = timers();
    let _one_at_a_time = starting();
    // Relaxed, and so below: the lock orders it, and the thread itself everything that follows.
    if !RUNNING.load(Ordering::Relaxed) {
        let spawned = thread::Builder::new()
            .name("tickless-driver".to_owned())
            .stack_size(STACK)
            .spawn(run);
        if let Err(error) = spawned {
            MISSING.store(true, Ordering::Relaxed);
            return Err(error);
        }
        RUNNING.store(true, Ordering::Relaxed);
    }
    MISSING.store(false, Ordering::Relaxed);
    Ok(())
}

/// Whether the driver runs, or is about to: to be shown.
pub(crate) fn is_running() -> bool {
    // Relaxed: of some moment.
    RUNNING.load(Ordering::Relaxed)
}

/// Keeps others from starting the driver, until the result is dropped.
pub(crate) fn starting() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a driver is needed and does not run.
#[inline]
pub(crate) fn is_missing() -> bool {
    // Relaxed: a thread that needs the driver for what it queued itself reads what it wrote, or finds it running.
    MISSING.load(Ordering::Relaxed)
}

/// Sees to it that the driver runs before this thread arms a timer for which it is needed. Nothing is queued yet, so
/// this is where a program is told.
///
/// # Panics
///
/// When it cannot be started.
#[inline]
pub(crate) fn demand() {
    if is_missing() || with_thread(|thread| thread.unattended.get()) {
        demand_slowly();
    }
}

/// As [`demand`], for a timer that is queued: it stays queued if this panics.
#[inline]
pub(crate) fn demand_again() {
    if is_missing() {
        demand_slowly();
    }
}

#[cold]
fn demand_slowly() {
    let kind = with_thread(Thread::seat).map(|seat| seat.local().kind());
    // Others run their own timers, and look after a missing driver in their turns.
    let needed = !matches!(kind, Some(Kind::Worker | Kind::EventLoop));
    if needed && let Err(error) = ensure_running() {
        if with_thread(Thread::is_at_its_end) || thread::panicking() {
            // A panic would end the process. The timer stays queued for a later driver.
            return;
        }
        panic!(
            "tickless cannot start its background thread, so the timers of this thread would never fire: {error}; \
             `tickless::init` returns this as an error"
        );
    }
    with_thread(|thread| thread.unattended.set(false));
}

/// Tries to start a driver that is missing, for timers of threads that ended; at the end of a turn of a worker.
#[inline]
pub(crate) fn replace_missing(now: Instant) {
    if is_missing() {
        replace_slowly(now);
    }
}

#[cold]
fn replace_slowly(now: Instant) {
    // Relaxed: a pace.
    if RETRY_AT.load(Ordering::Relaxed) <= now.as_nanos() {
        RETRY_AT.store(
            now.as_nanos().saturating_add(RETRY_AFTER),
            Ordering::Relaxed,
        );
        let _tried = ensure_running();
    }
}

/// Notes that the driver is gone with the other threads: the child of a fork.
pub(crate) fn forget() {
    // Relaxed, both: there is no other thread.
    RUNNING.store(false, Ordering::Relaxed);
    MISSING.store(false, Ordering::Relaxed);
    PROMISE.gone();
}

/// Somebody asked for a look at the queues of a thread that the driver looks after.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Has the driver look at all seats that were asked for.
pub(crate) fn wake_for_the_asked() {
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
        if device::due(background) <= now() {
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
        if matches!(kind, Kind::Foreign | Kind::Background) && seat.local().kicked.is_raised() {
            more |= look_after(seat).more;
            device::renew(seat);
        }
    }
    more
}

/// Takes a turn for the thread on `seat`.
pub(crate) fn look_after(seat: &'static Seat) -> turn::Done {
    // Relaxed: a wrong answer costs one look for nothing.
    let tenants = seat.local().tenants.load(Ordering::Relaxed);
    let done = turn::run(seat, now());
    let runs_its_own = matches!(seat.local().kind(), Kind::Worker | Kind::EventLoop);
    if runs_its_own && tenants == seat.local().tenants.load(Ordering::Relaxed) {
        // It began to do so during that turn, and may wait by now for what the turn did or left undone.
        device::kick(seat);
    }
    done
}

/// What the driver wakes up for besides its guests.
fn earliest() -> i64 {
    own_deadline().min(stuck::first().as_nanos())
}

/// When the driver's own first timer is due.
fn own_deadline() -> i64 {
    // Ordered by the fences of the promise. Coarse timers come here from threads that end, and those ask.
    device::due(seat::background()).as_nanos()
}

fn now() -> Instant {
    timers().platform().clock.exact()
}

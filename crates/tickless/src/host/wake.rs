//! The handle of the expiry thread: it starts the thread, wakes it, and publishes the end of its sleep.
//!
//! The [expiry thread](super::remote::expiry_thread) fires the timers of threads that do not fire their own. It is
//! started when the first such thread needs it. Its work is implemented in a higher layer, as the [`Body`] of the host.
//!
//! # When the thread cannot be started
//!
//! The system may refuse the thread. If a timer needs the expiry thread, the thread that starts the timer first starts
//! the expiry thread, *before* the timer is queued. So a panic can report the error and leaves no timer queued
//! ([`ensure_expiry_thread`]). At other places the expiry thread may become necessary with timers queued and locks
//! held, where no caller can get an error: when a thread ends, when a worker becomes an ordinary thread, and when a
//! process forks. If the system refuses the thread there, the expiry thread is *missing*. All timers stay queued and
//! published. A later thread tries again: a thread that starts or polls a timer and has not recorded yet that the
//! expiry thread runs, or a worker at the end of a turn. A thread that fires its own timers needs no expiry thread for
//! them. Any other thread records once that the expiry thread runs. The record stays true until the process ends, and a
//! fork clears the record of the remaining thread. So the fast paths check only this record of the thread itself.
//!
//! # Ground rules
//!
//! - `STARTING` is acquired after base locks, and held while the thread is started; `RUNNING` and `MISSING` change
//!   under this lock.
//! - [`wake`] and [`wake_for_kicks`] may be called with any lock of the host held but `STARTING`. They do not panic.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tickless_core::time::Instant;
use tickless_link::sync::CachePadded;

use super::process::Host;
#[cfg(not(event_host))]
use super::registry;
use super::registry::timers;
use super::sleep_protocol::SleepDeadline;
#[cfg(event_host)]
use super::sys::events;
#[cfg(feature = "tokio-test-util")]
use super::thread::look_at_tokio;
use super::thread::{Thread, with_thread};

/// The time until which the expiry thread sleeps.
pub(crate) static SLEEPS_UNTIL: SleepDeadline = SleepDeadline::new();

/// True if the expiry thread runs, or is about to run.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// True if the expiry thread is needed and does not run, because the system refused the thread, or because a fork made
/// this process without it.
///
/// The flag is on cache lines of its own, because starts of timers read it, and threads rarely write it.
static MISSING: CachePadded<AtomicBool> = CachePadded(AtomicBool::new(false));

/// True if a timer was given slack in this process.
static SLACK_IN_USE: AtomicBool = AtomicBool::new(false);

/// The lock of the thread that tries to start the expiry thread.
static STARTING: Mutex<()> = Mutex::new(());

/// The time from which on a worker may try again to start a missing expiry thread, in nanoseconds.
static RETRY_AT: AtomicI64 = AtomicI64::new(0);

/// True if a thread was kicked whose queues the expiry thread has to check.
static KICKED: AtomicBool = AtomicBool::new(false);

/// The time between two attempts of workers to start a missing expiry thread, in nanoseconds. An attempt costs as much
/// as many turns.
const RETRY_AFTER: i64 = 10_000_000;

/// The size of the expiry thread's stack; the thread runs callbacks and wakers of others.
#[cfg(not(event_host))]
const STACK: usize = 1 << 20;

/// The body of the expiry thread, which a higher layer implements for the host.
pub(super) trait Body {
    /// Runs the expiry thread. It never returns.
    #[cfg_attr(
        event_host,
        expect(dead_code, reason = "an event loop calls in place of a thread")
    )]
    fn run();

    /// Prepares the calls of [`called`](Self::called).
    #[cfg(event_host)]
    fn begin();

    /// Fires the timers that are due. An event loop calls this when a timer is due, or earlier.
    #[cfg(event_host)]
    fn called();

    /// Prepares a thread that starts its first timer, because the thread may belong to a runtime that fires its timers.
    fn settle();
}

/// Wakes the expiry thread, and starts it if it does not run.
///
/// The function is called with locks held and timers queued, so it must not panic. If the system refuses the thread,
/// the expiry thread is missing from then on. Functions that can report this to their caller do so
/// ([`ensure_expiry_thread`]).
pub(crate) fn wake() {
    // Relaxed, both: `start` looks again. A caller that finds it missing leaves the next attempt to
    // `ensure_expiry_thread`.
    if !RUNNING.load(Ordering::Relaxed) && (is_missing() || start().is_err()) {
        return;
    }
    #[cfg(event_host)]
    events::call_in(0, Host::called);
    #[cfg(not(event_host))]
    registry::of_expiry_thread().local().parker.unpark();
}

/// Starts the expiry thread, if it does not run yet.
pub(crate) fn ensure_running() -> io::Result<()> {
    // Relaxed: `start` decides.
    if RUNNING.load(Ordering::Relaxed) && !is_missing() {
        return Ok(());
    }
    start()
}

#[cold]
fn start() -> io::Result<()> {
    // The expiry thread occupies the first base, which is made with the timers.
    let _made = timers();
    let _one_at_a_time = starting();
    // Relaxed, and so below: the lock orders it, and the thread itself everything that follows.
    if !RUNNING.load(Ordering::Relaxed) {
        if let Err(error) = spawn() {
            MISSING.store(true, Ordering::Relaxed);
            return Err(error);
        }
        RUNNING.store(true, Ordering::Relaxed);
    }
    MISSING.store(false, Ordering::Relaxed);
    Ok(())
}

#[cfg(not(event_host))]
fn spawn() -> io::Result<()> {
    std::thread::Builder::new()
        .name("tickless-expiry".to_owned())
        .stack_size(STACK)
        .spawn(Host::run)
        .map(drop)
}

/// Prepares the calls of the event loop, which replace the thread.
#[cfg(event_host)]
#[expect(clippy::unnecessary_wraps, reason = "a thread may be refused")]
fn spawn() -> io::Result<()> {
    Host::begin();
    Ok(())
}

/// Returns whether the expiry thread runs, or is about to run. Used for display.
pub(crate) fn is_running() -> bool {
    // Relaxed: of some moment.
    RUNNING.load(Ordering::Relaxed)
}

/// Keeps other threads from starting the expiry thread, until the result is dropped.
pub(super) fn starting() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether an expiry thread is needed and does not run.
#[inline]
fn is_missing() -> bool {
    // Relaxed: a thread that needs it for what it queued itself reads what it wrote, or finds the expiry thread
    // running.
    MISSING.load(Ordering::Relaxed)
}

/// Ensures that the expiry thread runs before this thread starts a timer for which it is needed. No timer is queued
/// yet, so the function can report the error by a panic.
///
/// # Panics
///
/// If the expiry thread cannot be started.
#[inline]
pub(crate) fn ensure_expiry_thread() {
    if !has_expirer() {
        ensure_expiry_thread_slow();
    }
}

/// Works as [`ensure_expiry_thread`], for a sleep. Returns true if the sleep waits for a virtual clock instead, and
/// needs no thread.
#[inline]
pub(crate) fn ensure_expiry_thread_or_virtual() -> bool {
    with_thread(Thread::is_unattended_or_virtual) && demand_unless_virtual()
}

#[cold]
fn demand_unless_virtual() -> bool {
    let is_virtual = is_virtual();
    if !is_virtual {
        ensure_expiry_thread();
    }
    is_virtual
}

/// Returns whether users of this thread see a virtual clock.
#[inline]
pub(crate) fn is_virtual() -> bool {
    with_thread(Thread::is_virtual)
}

/// Returns whether it is known that a thread fires the timers of this thread, so that the expiry thread need not be
/// started.
#[inline]
pub(crate) fn has_expirer() -> bool {
    !with_thread(Thread::is_unattended)
}

/// Returns whether a timer with a callback may be started on this thread without starting the expiry thread.
#[inline]
pub(crate) fn may_start_callback() -> bool {
    #[cfg(feature = "tokio-test-util")]
    look_at_tokio();
    !with_thread(Thread::is_unattended_or_virtual)
}

/// Works as [`ensure_expiry_thread`], for a timer with a callback.
///
/// # Panics
///
/// As [`ensure_expiry_thread`] does, and also on a thread with a virtual clock, because the callback would be called by
/// another clock.
#[inline]
pub(crate) fn ensure_expiry_thread_for_callback() {
    if !may_start_callback() {
        ensure_for_callback_slow();
    }
}

#[cold]
fn ensure_for_callback_slow() {
    // While the thread panics another panic would end the process.
    assert!(
        !is_virtual() || std::thread::panicking(),
        "this timer with a callback goes by the process's clock, and the clock of this runtime is paused or was. It \
         goes by that unless it is a local one, or too many threads and clocks have timers: await a sleep of \
         `tickless::time` in its place, or start it on another thread"
    );
    ensure_expiry_thread();
}

/// Returns whether a sleep that is polled on this thread for the first time may be started at once: a thread will fire
/// it, this thread is not in a turn, and there is no default slack for sleeps without a slack of their own.
#[inline]
pub(crate) fn can_fast_path() -> bool {
    with_thread(Thread::can_fast_path)
}

/// Works as [`can_fast_path`], for a sleep whose slack is known.
#[inline]
pub(crate) fn can_fast_path_with_slack() -> bool {
    with_thread(Thread::can_fast_path_with_slack)
}

/// Returns whether a queued sleep of this thread can continue to wait in its queue: the conditions of
/// [`can_fast_path_with_slack`] hold, and the expiry thread runs if it is needed.
#[inline]
pub(crate) fn can_wait_fast() -> bool {
    can_fast_path_with_slack() && !is_missing()
}

/// Works as [`ensure_expiry_thread`], for a queued timer, which stays queued if the function panics.
#[inline]
pub(crate) fn ensure_expiry_thread_again() {
    if is_missing() {
        ensure_expiry_thread_slow();
    }
}

#[cold]
fn ensure_expiry_thread_slow() {
    let kind = with_thread(Thread::base).map(|base| base.local().kind());
    // Threads that run their own timers look after a missing expiry thread in their turns.
    let needed = kind.is_none_or(|kind| !kind.runs_its_own());
    if needed && let Err(error) = ensure_running() {
        if with_thread(Thread::is_at_its_end) || std::thread::panicking() {
            // A panic would end the process. The timer stays queued for a later expiry thread.
            return;
        }
        panic!(
            "tickless cannot start its background thread, so the timers of this thread would never fire: {error}; \
             `tickless::init` returns this as an error"
        );
    }
    with_thread(|thread| thread.set_unattended(false));
    if needed {
        Host::settle();
    }
}

/// Tries to start a missing expiry thread, for timers of threads that ended. Called at the end of a worker's turn.
#[inline]
pub(super) fn replace_missing(now: Instant) {
    if is_missing() {
        replace_slow(now);
    }
}

#[cold]
fn replace_slow(now: Instant) {
    // Relaxed: a pace.
    if RETRY_AT.load(Ordering::Relaxed) <= now.as_nanos() {
        RETRY_AT.store(
            now.as_nanos().saturating_add(RETRY_AFTER),
            Ordering::Relaxed,
        );
        let _tried = ensure_running();
    }
}

/// Records that the expiry thread does not exist in the child of a fork.
pub(super) fn forget() {
    // Relaxed, both: there is no other thread.
    RUNNING.store(false, Ordering::Relaxed);
    MISSING.store(false, Ordering::Relaxed);
    SLEEPS_UNTIL.gone();
}

/// Records that there are timers with slack, before the first such timer is queued.
#[inline]
pub(crate) fn note_slack() {
    // Relaxed, both: an expiry thread that does not see it yet wakes once more, for the hard expiry. Loaded first, so
    // that threads do not write the line over and over.
    if !SLACK_IN_USE.load(Ordering::Relaxed) {
        SLACK_IN_USE.store(true, Ordering::Relaxed);
    }
}

/// Returns whether there ever were timers with slack.
pub(super) fn is_slack_in_use() -> bool {
    // Relaxed: see `note_slack`.
    SLACK_IN_USE.load(Ordering::Relaxed)
}

/// Makes the expiry thread take a turn for each kicked base that it serves.
pub(super) fn wake_for_kicks() {
    // Release: pairs with the exchange in `take_kicks`: the expiry thread that sees it sees which base is meant.
    KICKED.store(true, Ordering::Release);
    wake();
}

/// Returns whether a base was kicked since the expiry thread last called this.
pub(super) fn take_kicks() -> bool {
    // AcqRel: see `wake_for_kicks`.
    KICKED.swap(false, Ordering::AcqRel)
}

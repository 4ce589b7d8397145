//! The handle of the expiry thread: it starts the thread, wakes it, and publishes the end of its sleep.
//!
//! The [expiry thread](super::remote::expiry_thread) expires for threads that do not do it themselves. It is started
//! when the first such thread needs it. Its work stands above this room, as the [`Body`] of the host.
//!
//! # When it cannot be started
//!
//! The system may refuse the thread. A thread that starts a timer for which the expiry thread is needed has it run
//! *before* the timer is queued, so that a panic can tell the program and leaves nothing behind
//! ([`ensure_expiry_thread`]). At other places the expiry thread turns out to be needed with timers queued and locks
//! held, where no caller can be told: a thread ends, a worker becomes an ordinary thread, a process forks. Then the
//! expiry thread is *missing*. Everything stays queued and published as it is, and the next thread that uses timers
//! tries again: one that starts or polls one and was not told yet that it is attended, or a worker at the end of a
//! turn. A thread that runs its own timers needs no other for what it starts; one that does not and was told knows that
//! the expiry thread runs: that ends with the process alone, and a fork tells the thread that is left anew. So the
//! shortest paths ask for no more than what the thread itself knows.
//!
//! # Ground rules
//!
//! - `STARTING` is locked behind base locks, and held while the thread is started; `RUNNING` and `MISSING` change under
//!   it.
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

/// The expiry thread runs, or is about to.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// The expiry thread is needed and does not run: the system refused it a thread, or it stayed behind at a fork.
///
/// On cache lines of its own: starts of timers read it, and hardly any thread writes it.
static MISSING: CachePadded<AtomicBool> = CachePadded(AtomicBool::new(false));

/// A timer was given slack in this process.
static SLACK_IN_USE: AtomicBool = AtomicBool::new(false);

/// The lock that the thread holds which tries to start the expiry thread.
static STARTING: Mutex<()> = Mutex::new(());

/// Time at which a worker may try next to start an expiry thread that is missing, in nanoseconds.
static RETRY_AT: AtomicI64 = AtomicI64::new(0);

/// A thread was kicked whose queues the expiry thread is to look at.
static KICKED: AtomicBool = AtomicBool::new(false);

/// Time that workers leave an expiry thread alone that could not be started, in nanoseconds: an attempt costs as much
/// as many turns.
const RETRY_AFTER: i64 = 10_000_000;

/// Stack of the expiry thread: it runs callbacks and wakers of others.
#[cfg(not(event_host))]
const STACK: usize = 1 << 20;

/// Body of the expiry thread, implemented for the host by the room that knows it.
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

    /// Runs what is due: an event loop calls it then, or earlier.
    #[cfg(event_host)]
    fn called();

    /// Prepares a thread that starts its first timer: it may belong to a runtime that looks after it.
    fn settle();
}

/// Wakes the expiry thread, and starts it if it does not run.
///
/// Called with locks held and timers queued, so that it must not panic: if there is no thread to be had the expiry
/// thread is missing from here on, and callers that can be told are ([`ensure_expiry_thread`]).
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

/// Prepares the calls of the event loop, which come in place of a thread.
#[cfg(event_host)]
#[expect(clippy::unnecessary_wraps, reason = "a thread may be refused")]
fn spawn() -> io::Result<()> {
    Host::begin();
    Ok(())
}

/// Returns whether the expiry thread runs, or is about to: for display.
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

/// Sees to it that the expiry thread runs before this thread starts a timer for which it is needed. Nothing is queued
/// yet, so this is where a program is told.
///
/// # Panics
///
/// When it cannot be started.
#[inline]
pub(crate) fn ensure_expiry_thread() {
    if !has_expirer() {
        ensure_expiry_thread_slow();
    }
}

/// Works as [`ensure_expiry_thread`], for a sleep; true if it waits for a virtual clock instead, and needs no thread.
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

/// Returns whether it is known that a thread expires the timers of this one, so that nothing is to be
/// demanded.
#[inline]
pub(crate) fn has_expirer() -> bool {
    !with_thread(Thread::is_unattended)
}

/// Returns whether a timer with a callback may be started on this thread, with nothing to be demanded.
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
/// On a thread with a virtual clock too: the callback would come by another one.
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

/// Returns whether a sleep that is polled on this thread for the first time may be started at once: it will be expired,
/// no turn of this thread is waited for, and a sleep without a slack of its own has none.
#[inline]
pub(crate) fn can_fast_path() -> bool {
    with_thread(Thread::can_fast_path)
}

/// Returns whether a sleep of this thread that is queued waits for its thread's timers as before: as
/// [`can_fast_path`], and the expiry thread runs if it is needed.
#[inline]
pub(crate) fn can_wait_fast() -> bool {
    can_fast_path() && !is_missing()
}

/// Works as [`ensure_expiry_thread`], for a timer that is queued: it stays queued if this panics.
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

/// Tries to start an expiry thread that is missing, for timers of threads that ended; at the end of a worker's turn.
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

/// Notes that the expiry thread is gone with the other threads: the child of a fork.
pub(super) fn forget() {
    // Relaxed, both: there is no other thread.
    RUNNING.store(false, Ordering::Relaxed);
    MISSING.store(false, Ordering::Relaxed);
    SLEEPS_UNTIL.gone();
}

/// Notes that there are timers with slack, before the first one is queued.
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

/// Makes the expiry thread take a turn for each base with a kick that it serves.
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

//! Callbacks that block on a timer which only their own thread could fire.
//!
//! A callback or waker may poll a sleep: executors that run tasks inside of a waker do. It must not *block* until the
//! sleep is ready, because the thread that runs the callback would also have to fire the sleep's timer. On the expiry
//! thread a blocked callback would stop the timers of all ordinary threads, without any error. The library's own
//! functions that block panic in a callback; other executors do not detect that they run in a callback.
//!
//! # Mechanism
//!
//! A poll inside of a turn that leaves a sleep pending makes the thread a *suspect* until the turn ends. A watcher,
//! started with the first suspect of the process, checks the suspects a few times a second. A suspect that was asleep
//! all the time between two checks, in the same turn, blocks; the watcher finds this by the kernel's count of how often
//! a thread was switched off. The watcher wakes the task that polled, and the next poll in that turn panics. This panic
//! ends the callback like any other panic, and the thread's timers continue to fire.
//!
//! A callback may also call `exit`. Exit handlers run on the same thread in the same turn, and may sleep. In an exit
//! handler the panic would abort the process, and the exit code would be lost. So in a thread that is ending, a poll
//! pauses for [`PAUSE`] and wakes the task itself. The sleep then ends by the clock, which each poll reads.
//!
//! # Limits
//!
//! A thread-local value marks the end of a thread: `exit` of glibc drops this value before it calls handlers. The
//! destructor of a younger thread-local value runs before that drop, so a callback that blocks in such a destructor
//! panics. `exit` of musl drops no thread-local value. There an exit handler of the library marks the end. So a handler
//! panics if it was registered after the first use of a timer, because it is called before the library's handler.
//!
//! The expiry thread fires the timers of a worker that does not fire them in time. If a callback of such a timer calls
//! `exit`, the exact timers of the worker do not fire while the handlers run, and a handler that waits for a task of
//! that worker waits for ever.
//!
//! The other timers of the thread wait until the watcher notices the block, for two or three times [`EVERY`]. A
//! callback that computes is never taken for blocked, however long it computes, because its thread is not asleep. If
//! `/proc` cannot be read, or the watcher cannot be started, no block is noticed.
//!
//! # Ground rules
//!
//! Foreign code (a waker that is cloned, woken or dropped) runs without the locks of this module.

use std::cell::{Cell, OnceCell};
use std::fs;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use super::registry::timers;
use super::suspicion::Suspicion;
use super::sys::threads;
use super::thread::{Thread, turn_taken_by_this_thread, with_thread};

/// The period in which the watcher checks the suspects.
const EVERY: Duration = Duration::from_millis(50);

/// The pause of a poll in an exit handler that a callback called: a sleep ends late by up to this time.
const PAUSE: Duration = Duration::from_micros(200);

/// The size of the watcher's stack; the watcher runs wakers.
const STACK: usize = 1 << 18;

/// A thread that the watcher checks.
#[derive(Debug)]
struct Suspect {
    /// The thread; `None` if the kernel refuses to tell its number. The thread is then never found to block.
    thread: Option<NonZeroU32>,
    /// The suspicion of turns in which a poll left a sleep pending.
    suspicion: Suspicion,
    /// The turn in which the thread was found to block.
    blocked_in: AtomicU64,
    /// The waker of the task that polled last.
    waker: Mutex<Option<Waker>>,
}

thread_local! {
    // Without a destructor: looked at at the end of each turn.
    static IS_SUSPECT: Cell<bool> = const { Cell::new(false) };
    static OWN: OnceCell<Arc<Suspect>> = const { OnceCell::new() };
}

/// The suspects that the watcher checks.
#[derive(Debug)]
struct Suspects {
    /// The suspects that were added since the last check of the watcher.
    new: Vec<Arc<Suspect>>,
    is_watched: bool,
}

static WATCH: Mutex<Suspects> = Mutex::new(Suspects {
    new: Vec::new(),
    is_watched: false,
});
static CAME: Condvar = Condvar::new();

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records that this thread polled a sleep of the task of `waker`, and that the sleep is pending.
///
/// # Panics
///
/// If the watcher found that the thread blocked in this callback.
#[inline]
pub(crate) fn polled(waker: &Waker) {
    if turn_taken_by_this_thread().is_some() {
        polled_in_a_turn(waker);
    }
}

#[cold]
fn polled_in_a_turn(waker: &Waker) {
    if with_thread(Thread::is_at_its_end) {
        threads::nap(PAUSE);
        return waker.wake_by_ref();
    }
    let own = OWN.try_with(|own| {
        Arc::clone(own.get_or_init(|| {
            Arc::new(Suspect {
                thread: threads::thread_id(),
                suspicion: Suspicion::new(),
                blocked_in: AtomicU64::new(0),
                waker: Mutex::new(None),
            })
        }))
    });
    let Ok(own) = own else { return };
    let turn = own.suspicion.turn();
    // Acquire: pairs with the Release of the watcher, as the wake-up that it sent does.
    assert!(
        turn.is_none_or(|turn| own.blocked_in.load(Ordering::Acquire) != turn),
        "a callback or waker blocks on a timer that cannot fire before it returns: the thread {:?} runs callbacks and \
         timers alike",
        thread::current().name().unwrap_or("that it is on")
    );
    let known = lock(&own.waker)
        .as_ref()
        .map(|known| known.will_wake(waker));
    if known != Some(true) {
        let new = Some(waker.clone());
        let old = std::mem::replace(&mut *lock(&own.waker), new);
        drop(old);
    }
    if turn.is_none() {
        IS_SUSPECT.set(true);
        if own.suspicion.begin() {
            list(own);
        }
    }
}

/// Adds a suspect to the list that the watcher checks.
fn list(suspect: Arc<Suspect>) {
    let mut watch = lock(&WATCH);
    watch.new.push(suspect);
    if !watch.is_watched {
        let watcher = thread::Builder::new()
            .name("tickless-watcher".to_owned())
            .stack_size(STACK);
        watch.is_watched = watcher.spawn(watch_for_ever).is_ok();
    }
    CAME.notify_one();
}

/// Ends the suspicion at the end of the turn.
#[inline]
pub(super) fn turn_ends() {
    if IS_SUSPECT.get() {
        clear();
    }
}

#[cold]
fn clear() {
    IS_SUSPECT.set(false);
    let own = OWN.try_with(|own| own.get().cloned()).ok().flatten();
    if let Some(own) = own {
        own.suspicion.end();
        let waker = lock(&own.waker).take();
        // Its destructor is foreign code, and a turn may be unwinding.
        timers().platform().guard(|| drop(waker));
    }
}

/// The state that the watcher shares, locked by this thread.
pub(super) struct Paused {
    _watch: MutexGuard<'static, Suspects>,
}

/// Keeps other threads from the list of suspects until the result is dropped.
pub(super) fn pause() -> Paused {
    Paused {
        _watch: lock(&WATCH),
    }
}

/// Forgets the watcher, which does not exist in the child of a fork.
pub(super) fn forget() {
    let mut watch = lock(&WATCH);
    watch.is_watched = false;
    // Not dropped: their wakers may belong to threads that do not exist here.
    std::mem::forget(std::mem::take(&mut watch.new));
}

/// The kernel's counts for a thread that was asleep in a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sleeping {
    turn: u64,
    switches: [u64; 2],
}

impl Sleeping {
    /// Returns the counts; `None` if the thread is not asleep, its turn has ended, or the kernel does not provide them.
    fn of(suspect: &Suspect) -> Option<Self> {
        let turn = suspect.suspicion.turn()?;
        let path = format!("/proc/self/task/{}/status", suspect.thread?);
        let switches = switches_of_sleeper(&fs::read_to_string(path).ok()?)?;
        Some(Self { turn, switches })
    }
}

/// Returns the numbers of times that a sleeping thread was switched off, voluntarily and involuntarily; `None` if the
/// thread is not asleep.
fn switches_of_sleeper(status: &str) -> Option<[u64; 2]> {
    let value = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.map(|line| line.trim_start_matches(':').trim())
    };
    let is_asleep = value("State")?.starts_with('S');
    let count = |key| value(key)?.parse().ok();
    let switches = [
        count("voluntary_ctxt_switches")?,
        count("nonvoluntary_ctxt_switches")?,
    ];
    is_asleep.then_some(switches)
}

fn watch_for_ever() {
    let mut watched: Vec<(Arc<Suspect>, Option<Sleeping>)> = Vec::new();
    loop {
        let mut watch = lock(&WATCH);
        while watched.is_empty() && watch.new.is_empty() {
            watch = CAME.wait(watch).unwrap_or_else(PoisonError::into_inner);
        }
        watched.extend(watch.new.drain(..).map(|suspect| (suspect, None)));
        drop(watch);
        watched.retain_mut(|(suspect, last)| {
            let now = Sleeping::of(suspect);
            if let Some(now) = &now
                && last.as_ref() == Some(now)
            {
                expose(suspect, now.turn);
            }
            *last = now;
            suspect.suspicion.turn().is_some() || !suspect.suspicion.leave()
        });
        threads::nap(EVERY);
    }
}

/// Makes the next poll in `turn` panic, and wakes the polled task.
fn expose(suspect: &Suspect, turn: u64) {
    // Release: pairs with the Acquire of `polled`.
    suspect.blocked_in.store(turn, Ordering::Release);
    let waker = lock(&suspect.waker).take();
    if let Some(waker) = waker {
        timers().platform().guard(|| waker.wake());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_whether_a_thread_sleeps_and_how_often_it_was_switched_off() {
        let asleep = "Name:\tx\nState:\tS (sleeping)\nvoluntary_ctxt_switches:\t12\n\
                      nonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(switches_of_sleeper(asleep), Some([12, 3]));
        let runs = asleep.replace("S (sleeping)", "R (running)");
        assert_eq!(switches_of_sleeper(&runs), None);
        assert_eq!(switches_of_sleeper("State:\tS (sleeping)\n"), None);
        assert_eq!(switches_of_sleeper(""), None);
    }
}

//! Callbacks that block on a timer which only their own thread could fire.
//!
//! A callback or waker may poll a sleep: executors that run tasks inside of a waker do. It must not *block* until the
//! sleep is ready, because the thread that runs callbacks is the one that would fire it. On the expiry thread that
//! would stop the timers of all ordinary threads, and nothing would say so. The library's own ways to block panic in a
//! callback; other executors do not know where they are.
//!
//! # Mechanism
//!
//! A poll inside of a turn that leaves a sleep pending makes the thread a *suspect* until the turn ends. A watcher,
//! started with the first suspect of the process, looks at suspects a few times a second. One that was asleep all the
//! time between two looks, in the same turn, blocks: the kernel counts how often a thread was switched off. The watcher
//! wakes the task that polled, and the next poll in that turn panics. The panic ends the callback as any does, and the
//! thread's timers go on.
//!
//! A callback may also call `exit`, whose handlers run on the same thread in the same turn, and may sleep. There the
//! panic would abort the process in place of its exit code. So in a thread that is at its end a poll pauses for
//! [`PAUSE`] and wakes the task itself: the sleep ends by the clock, which each poll asks.
//!
//! # Limits
//!
//! The end is known by a thread-local value, which `exit` of glibc drops before it calls handlers. A destructor of a
//! younger thread-local value runs before that: a callback that blocks there panics. `exit` of musl drops none: an exit
//! handler of the library's own tells, so a handler that was registered behind the first use of a timer, and is called
//! before it, panics.
//!
//! The expiry thread fires the timers of a worker that does not come to it. If such a callback calls `exit`, the exact
//! timers of the worker stand still while the handlers run, and a handler that waits for a task of that worker waits
//! for ever.
//!
//! The other timers of the thread wait until it is noticed, for two or three times [`EVERY`]. A callback that computes,
//! however long, is no suspect's: it is not asleep. Where `/proc` cannot be read, or the watcher cannot be started,
//! nothing is noticed.
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

/// Period of the watcher's looks at suspects.
const EVERY: Duration = Duration::from_millis(50);

/// The pause of a poll in an exit handler that a callback is in: a sleep ends late by as much.
const PAUSE: Duration = Duration::from_micros(200);

/// Stack of the watcher: it runs wakers.
const STACK: usize = 1 << 18;

/// A thread, as the watcher knows it.
#[derive(Debug)]
struct Suspect {
    /// `None` where the kernel refuses to say it: the thread is never found to block.
    thread: Option<NonZeroU32>,
    /// Suspicion of turns in which a poll left a sleep pending.
    suspicion: Suspicion,
    /// The turn in which it was found to block.
    blocked_in: AtomicU64,
    /// Waker of the task that polled last.
    waker: Mutex<Option<Waker>>,
}

thread_local! {
    // Without a destructor: looked at at the end of each turn.
    static IS_SUSPECT: Cell<bool> = const { Cell::new(false) };
    static OWN: OnceCell<Arc<Suspect>> = const { OnceCell::new() };
}

/// Suspects that the watcher looks at.
#[derive(Debug)]
struct Suspects {
    /// Suspects that came since the watcher looked last.
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

/// Notes that a sleep of the task of `waker` was polled by this thread and is pending.
///
/// # Panics
///
/// When the thread was found to block in a callback since.
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

/// Adds a suspect to the list that the watcher looks at.
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

/// The turn ends.
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

/// State that the watcher shares, held by this thread.
pub(super) struct Paused {
    _watch: MutexGuard<'static, Suspects>,
}

/// Keeps others from the list of suspects until the result is dropped.
pub(super) fn pause() -> Paused {
    Paused {
        _watch: lock(&WATCH),
    }
}

/// The watcher is gone with the other threads: the child of a fork.
pub(super) fn forget() {
    let mut watch = lock(&WATCH);
    watch.is_watched = false;
    // Not dropped: their wakers may belong to threads that do not exist here.
    std::mem::forget(std::mem::take(&mut watch.new));
}

/// Counts of the kernel for a thread that was asleep in a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sleeping {
    turn: u64,
    switches: [u64; 2],
}

impl Sleeping {
    /// `None` if the thread is not asleep, its turn is over, or the kernel does not tell.
    fn of(suspect: &Suspect) -> Option<Self> {
        let turn = suspect.suspicion.turn()?;
        let path = format!("/proc/self/task/{}/status", suspect.thread?);
        let switches = switches_of_sleeper(&fs::read_to_string(path).ok()?)?;
        Some(Self { turn, switches })
    }
}

/// Returns the number of times that a thread was switched off, of its own will and not, if it is asleep.
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

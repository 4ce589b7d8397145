//! The recording of a trace: each base has a ring, into which the thread on the base puts the events that the core
//! reports.
//!
//! A full ring keeps its events, and further events are lost. So a trace is complete up to the first loss, and can be
//! checked up to there. A trace that had lost its beginning could not be checked, because it would not show which
//! timers were queued.
//!
//! # The order of events
//!
//! Each event gets the next number. The core reports all events but expiries under the lock of the timer's base, so
//! that the numbers of two events of one timer are in the order in which the events happened. An expiry is reported
//! without the lock, but [reserves](reserve) its number under the lock. An event that is lost also has a number, which
//! is missing in all rings. Events after the first missing number are not evaluated.
//!
//! # The flight recorder
//!
//! The flight recorder is a recording of expiries alone, whose rings keep the last events, not the first ones. Its
//! numbers order the events, and gaps mean nothing. It has the place of the one recording.
//!
//! # Ground rules
//!
//! - The thread on a base puts events into the base's ring. Threads without a base share the ring of the expiry thread.
//!   The thread that ends the recording removes the events. Each thread holds the ring's lock, which is the last in the
//!   order of locks, only while it copies. A thread tries the lock [`TRIES`] times and no more, because in the child of
//!   a fork the holder of the lock may not exist.
//! - There is one recording at a time. The number of its first event identifies it.

use std::cell::Cell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use tickless_core::time::Instant;
use tickless_core::trace::{Event, TimerId};

/// The number of attempts to acquire the lock of a ring. Threads hold the lock while they copy; a holder that is
/// preempted meanwhile costs one event.
const TRIES: u32 = 1_000;

/// True while all events are recorded.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// True while expiries are recorded: in a recording, and by the flight recorder.
static IS_EXPIRY_ON: AtomicBool = AtomicBool::new(false);
/// True if the present recording has the events of the hierarchies.
static HAS_HIERARCHY: AtomicBool = AtomicBool::new(false);
/// True from before a recording begins until it has ended.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);
/// The number of the next event, counted over all recordings. Never 0, which is the number of the recording in a ring
/// that was never used.
static NEXT: AtomicU64 = AtomicU64::new(1);
/// The number of the first event of the present recording.
static FIRST: AtomicU64 = AtomicU64::new(0);
/// The number of events that fit into a ring.
static CAPACITY: AtomicUsize = AtomicUsize::new(0);
/// The number of events that are lost.
static LOST: AtomicU64 = AtomicU64::new(0);
/// The bounds of the flight recorder in nanoseconds, which is there while they are less than `u64::MAX`.
static LATE_MAX: AtomicU64 = AtomicU64::new(u64::MAX);
static CALLBACK_MAX: AtomicU64 = AtomicU64::new(u64::MAX);
/// The first breach that was not taken yet, and the thread that takes it.
static BREACH: Mutex<Option<Breach>> = Mutex::new(None);
static WATCHER: Mutex<Option<thread::Thread>> = Mutex::new(None);

thread_local! {
    /// The number and the time of an expiry that this thread is about to report. The type has no destructor.
    static RESERVED: Cell<Option<(u64, Instant)>> = const { Cell::new(None) };
    /// When the callback that this thread executes began, and its timer. The type has no destructor.
    static BEGAN: Cell<Option<(Instant, TimerId)>> = const { Cell::new(None) };
}

/// What the flight recorder was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Breach {
    /// A timer fired, or its callback began, so long after its deadline.
    Late(Duration),
    /// A callback, or the wake-up of a task, took so long.
    LongCallback(Duration),
    /// The first timer of the thread with this [number](crate::inspect::Thread::number) is overdue by so long, and has
    /// not fired.
    Overdue(u32, Duration),
}

/// An event, its number in the order of all events, and its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) number: u64,
    pub(crate) time: Instant,
    /// The base of the thread that executed; `None` if it has none.
    pub(crate) cpu: Option<u32>,
    pub(crate) event: Event,
}

/// The events of a base.
#[derive(Debug)]
pub(crate) struct Ring(Mutex<Kept>);

#[derive(Debug)]
struct Kept {
    /// The number of the recording to which the entries belong.
    first: u64,
    entries: Vec<Entry>,
    /// The index of the oldest entry in a full ring of the flight recorder.
    oldest: usize,
    /// The time of the last entry.
    last: Instant,
}

/// Returns whether events are recorded.
#[inline]
pub(crate) fn is_on() -> bool {
    // Relaxed: an event is in the trace or not. A thread that takes a lock from one that saw the switch on sees it on,
    // so that what happens under a lock after a recorded event is recorded.
    IS_ON.load(Ordering::Relaxed)
}

/// Returns whether expiries are recorded.
#[inline]
pub(super) fn is_expiry_on() -> bool {
    // Relaxed: see `is_on`.
    IS_EXPIRY_ON.load(Ordering::Relaxed)
}

/// Returns whether events of the hierarchies are recorded.
#[cfg(feature = "tracepoints")]
#[inline]
pub(super) fn has_hierarchy() -> bool {
    // Relaxed: see `is_on`.
    is_on() && HAS_HIERARCHY.load(Ordering::Relaxed)
}

/// Reserves the number of an expiry at `time`, which this thread reports next.
pub(super) fn reserve(time: Instant) {
    // Relaxed: what orders two events is the lock that both threads hold while they draw.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    RESERVED.set(Some((number, time)));
}

/// Begins a recording with `capacity` events in each ring: of all events, with those of the hierarchies if
/// `has_hierarchy`, or of the last expiries if that is `None`. Returns the number of its first event; `None` if another
/// recording is in progress.
pub(crate) fn begin(capacity: usize, has_hierarchy: Option<bool>) -> Option<u64> {
    // Acquire: pairs with the Release in `end`, so that what follows is after the end of the last recording.
    if IS_TAKEN.swap(true, Ordering::Acquire) {
        return None;
    }
    // Relaxed, all: the Release of the first number publishes them, and that of the switch.
    let first = NEXT.fetch_add(1, Ordering::Relaxed);
    CAPACITY.store(capacity, Ordering::Relaxed);
    LOST.store(0, Ordering::Relaxed);
    HAS_HIERARCHY.store(has_hierarchy == Some(true), Ordering::Relaxed);
    // Release: pairs with the Acquire in `Ring::take`.
    FIRST.store(first, Ordering::Release);
    // Release, both: pair with the base locks that are taken next, see `is_on`.
    IS_ON.store(has_hierarchy.is_some(), Ordering::Release);
    IS_EXPIRY_ON.store(true, Ordering::Release);
    Some(first)
}

/// Returns the number of the next event.
#[cfg(feature = "tracepoints")]
pub(crate) fn next() -> u64 {
    // Relaxed: the caller has locked each base since what it asks about.
    NEXT.load(Ordering::Relaxed)
}

/// Stops recording events. Returns the number after the last event.
pub(crate) fn halt() -> u64 {
    // Relaxed, all: a thread that has seen the switch on draws its number a moment later, and its event is none of
    // this recording, or before, and then it is waited for.
    IS_ON.store(false, Ordering::Relaxed);
    IS_EXPIRY_ON.store(false, Ordering::Relaxed);
    NEXT.load(Ordering::Relaxed)
}

/// Returns the number of events of the present recording that are lost.
#[cfg(feature = "tracepoints")]
pub(crate) fn lost() -> u64 {
    // Relaxed: a count.
    LOST.load(Ordering::Relaxed)
}

/// Ends the recording, so that another one can begin.
pub(crate) fn end() {
    // Release: pairs with the Acquire in `begin`.
    IS_TAKEN.store(false, Ordering::Release);
}

/// Ends the recording of the parent, in the child of a fork.
pub(super) fn forget() {
    // Relaxed, all: there is one thread.
    IS_ON.store(false, Ordering::Relaxed);
    IS_EXPIRY_ON.store(false, Ordering::Relaxed);
    LATE_MAX.store(u64::MAX, Ordering::Relaxed);
    CALLBACK_MAX.store(u64::MAX, Ordering::Relaxed);
    IS_TAKEN.store(false, Ordering::Relaxed);
}

/// Makes this thread the one that is told of breaches of the bounds; with `None`, it is told no longer.
pub(crate) fn set_watcher(bounds: Option<(Duration, Duration)>) {
    let nanos = |bound: Duration| u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
    let (late, callback) = bounds.unwrap_or((Duration::MAX, Duration::MAX));
    let own = thread::current();
    let mut watcher = lock(&WATCHER);
    if bounds.is_none() && watcher.as_ref().is_some_and(|other| other.id() != own.id()) {
        // Its recorder ended in its own function, and another one has begun.
        return;
    }
    *watcher = bounds.map(|_| own);
    drop(watcher);
    *lock(&BREACH) = None;
    // Relaxed, both: each is a bound of its own.
    LATE_MAX.store(nanos(late), Ordering::Relaxed);
    CALLBACK_MAX.store(nanos(callback), Ordering::Relaxed);
}

/// Takes the first breach since the last call.
pub(crate) fn take_breach() -> Option<Breach> {
    lock(&BREACH).take()
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks whether an expiry at `time` breaks a bound of the flight recorder. A callback that ran inside of another one
/// ends the measurement of the outer one. A tick takes `tick` nanoseconds.
pub(super) fn watch(time: Instant, event: &Event, tick: u64) {
    // Relaxed, both: each is a bound of its own.
    let (late_max, callback_max) = (
        LATE_MAX.load(Ordering::Relaxed),
        CALLBACK_MAX.load(Ordering::Relaxed),
    );
    let nanos = |amount: i64| Duration::from_nanos(amount.max(0).unsigned_abs());
    let begins = |timer, late: Duration| {
        BEGAN.set(Some((time, timer)));
        (late.as_nanos() > u128::from(late_max)).then_some(Breach::Late(late))
    };
    let breach = match *event {
        Event::ExpireEntry {
            timer, now, hard, ..
        } => begins(timer, nanos(now.saturating_sub(hard))),
        Event::WheelExpire { timer, timeout, .. } => {
            let ticks = timeout.now.0.saturating_sub(timeout.due.0);
            begins(timer, Duration::from_nanos(ticks.saturating_mul(tick)))
        }
        Event::ExpireExit { timer } => {
            let began = BEGAN.take().filter(|(_, began)| *began == timer);
            let took =
                began.map(|(began, _)| nanos(time.as_nanos().saturating_sub(began.as_nanos())));
            took.filter(|took| took.as_nanos() > u128::from(callback_max))
                .map(Breach::LongCallback)
        }
        _ => None,
    };
    if let Some(breach) = breach {
        tell(breach);
    }
}

/// Keeps the first breach, and wakes the thread that takes it. Never waits: in the child of a fork the holder of a lock
/// may not exist, and a breach while another one is told is not told.
#[cold]
fn tell(breach: Breach) {
    if let Ok(mut first) = BREACH.try_lock() {
        first.get_or_insert(breach);
    }
    if let Ok(watcher) = WATCHER.try_lock()
        && let Some(watcher) = &*watcher
    {
        watcher.unpark();
    }
}

impl Ring {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Kept {
            first: 0,
            entries: Vec::new(),
            oldest: 0,
            last: Instant::ZERO,
        }))
    }

    fn lock(&self) -> Option<MutexGuard<'_, Kept>> {
        for _ in 0..TRIES {
            match self.0.try_lock() {
                Ok(kept) => return Some(kept),
                // A copy that panicked has added nothing.
                Err(TryLockError::Poisoned(kept)) => return Some(kept.into_inner()),
                Err(TryLockError::WouldBlock) => spin_loop(),
            }
        }
        None
    }

    /// Records an event of the executing thread.
    pub(super) fn take(&self, cpu: Option<u32>, time: Instant, event: Event) {
        // Acquire: pairs with the Release in `begin`: the capacity is that of this recording.
        let first = FIRST.load(Ordering::Acquire);
        let is_expiry = matches!(event, Event::ExpireEntry { .. } | Event::WheelExpire { .. });
        let reserved = is_expiry.then(|| RESERVED.take()).flatten();
        // Relaxed: see `reserve`.
        let (number, time) =
            reserved.unwrap_or_else(|| (NEXT.fetch_add(1, Ordering::Relaxed), time));
        if number < first {
            return;
        }
        let kept = self.lock().is_some_and(|mut kept| {
            kept.prepare(first) && {
                // Threads that occupy the base one after the other may know the time by different readings.
                kept.last = kept.last.max(time);
                let time = kept.last;
                kept.add(Entry {
                    number,
                    time,
                    cpu,
                    event,
                })
            }
        });
        if !kept {
            // Relaxed: a count.
            LOST.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Moves the entries of the recording that began with `first` to `out`.
    #[cfg(feature = "tracepoints")]
    pub(crate) fn drain(&self, first: u64, out: &mut Vec<Entry>) {
        let Some(mut kept) = self.lock() else { return };
        if kept.first == first {
            out.append(&mut kept.entries);
        }
    }

    /// Copies the entries of the flight recorder that began with `first` to `out`.
    pub(crate) fn copy(&self, first: u64, out: &mut Vec<Entry>) {
        let Some(kept) = self.lock() else { return };
        if kept.first == first {
            out.extend_from_slice(&kept.entries);
        }
    }

    /// Frees the memory of the ring.
    pub(crate) fn clear(&self) {
        if let Some(mut kept) = self.lock() {
            kept.entries = Vec::new();
        }
    }
}

impl Kept {
    /// Adds an entry; in the flight recorder, in place of the oldest one if the ring is full. False if it is lost.
    fn add(&mut self, entry: Entry) -> bool {
        if self.entries.len() < self.entries.capacity() {
            self.entries.push(entry);
        } else if is_on() || self.entries.is_empty() {
            return false;
        } else {
            self.entries[self.oldest] = entry;
            self.oldest = (self.oldest + 1) % self.entries.len();
        }
        true
    }

    /// Prepares the ring for the recording that began with `first`; false if there is no memory.
    fn prepare(&mut self, first: u64) -> bool {
        if self.first == first {
            return true;
        }
        // Relaxed: see `take`.
        let capacity = CAPACITY.load(Ordering::Relaxed);
        self.first = first;
        self.oldest = 0;
        self.last = Instant::ZERO;
        self.entries.clear();
        self.entries.shrink_to(capacity);
        self.entries.try_reserve_exact(capacity).is_ok()
    }
}

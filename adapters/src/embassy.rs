//! The time driver of embassy for a process, with its timer queue.
//!
//! A program that enables this feature links the driver: `embassy_time::{Timer, Ticker, with_timeout}` work in any
//! executor, and are exact to a tick. No feature of embassy-time that brings a driver of its own (`std`, `wasm`,
//! `mock-driver`) may be enabled at the same time. A tick is a microsecond by default; with embassy-time's feature
//! `tick-hz-1_000_000_000` a tick is a nanosecond.
//!
//! # Mechanism
//!
//! A queue holds the deadlines of all tasks in the order of time, and one [`HrTimer`] is armed for the earliest of
//! them. As in embassy's own queues, a task has one deadline, the earliest that it requested: when the task is polled
//! again, that deadline moves and no second deadline is added.
//!
//! # Cost
//!
//! Adding a deadline costs a lock and O(log n), and a start of the timer if the deadline is the earliest. The number of
//! tasks has no limit.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use embassy_time_driver::{Driver, TICK_HZ, time_driver_impl};
use tickless::hrtimer::{self, Expired, HrTimer, Instant, Monotonic, Restart};

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// The time driver that the program links; embassy-time calls it.
#[derive(Debug)]
struct Process;

time_driver_impl!(static DRIVER: Process = Process);

impl Driver for Process {
    fn now(&self) -> u64 {
        ticks(hrtimer::now::<Monotonic>())
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        // The code of a waker, here its clone and its drop, runs without the lock: it may panic, or use the driver.
        let waker = waker.clone();
        let mut queue = queue();
        let (is_earliest, unneeded) = queue.add(at, waker);
        if is_earliest {
            queue.arm();
        }
        drop(queue);
        drop(unneeded);
    }
}

/// Returns the number of whole ticks that are over at `now`.
fn ticks(now: Instant<Monotonic>) -> u64 {
    let nanos = u128::from(now.as_nanos().max(0).unsigned_abs());
    u64::try_from(nanos * u128::from(TICK_HZ) / NANOS_PER_SEC).unwrap_or(u64::MAX)
}

/// Returns the instant at which tick `at` begins, rounded so that [`ticks`] of this instant is at least `at`. A tick
/// that is too far away to be represented never begins.
fn instant(at: u64) -> Instant<Monotonic> {
    let nanos = (u128::from(at) * NANOS_PER_SEC).div_ceil(u128::from(TICK_HZ));
    Instant::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// The identity of a waker: wakers of the same task have equal identities.
type Identity = (usize, usize);

fn identity(waker: &Waker) -> Identity {
    (
        waker.data().addr(),
        std::ptr::from_ref(waker.vtable()).addr(),
    )
}

/// The queue of tasks that wait for a wake-up.
#[derive(Debug, Default)]
struct Queue {
    /// The wakers in the order of time, and of arming among equals.
    order: BTreeMap<(u64, u64), Waker>,
    /// The key of each task in `order`. The waker that `order` keeps prevents the identity of the task from being
    /// reused.
    places: HashMap<Identity, (u64, u64)>,
    /// The number of deadlines added so far.
    count: u64,
}

impl Queue {
    /// Adds a deadline. Returns true if this deadline is now the earliest, and the waker that the queue does not need:
    /// that of the later one of the task's two deadlines.
    fn add(&mut self, at: u64, waker: Waker) -> (bool, Option<Waker>) {
        let identity = identity(&waker);
        let mut unneeded = None;
        if let Some(&place) = self.places.get(&identity) {
            if place.0 <= at {
                return (false, Some(waker));
            }
            unneeded = self.order.remove(&place);
        }
        let place = (at, self.count);
        self.count += 1;
        self.places.insert(identity, place);
        self.order.insert(place, waker);
        (self.order.keys().next() == Some(&place), unneeded)
    }

    /// Removes the earliest deadline that is due at `now`, and returns its waker.
    fn take_due(&mut self, now: u64) -> Option<Waker> {
        let entry = self.order.first_entry()?;
        if entry.key().0 > now {
            return None;
        }
        let waker = entry.remove();
        self.places.remove(&identity(&waker));
        Some(waker)
    }

    /// Starts the timer for the earliest deadline.
    fn arm(&self) {
        if let Some(&(at, _)) = self.order.keys().next() {
            // Nothing shuts the timer down, which is all that a start can be refused for.
            let _ = TIMER.as_ref().start(instant(at));
        }
    }
}

type Callback = fn(&mut Expired<'_, '_, Monotonic>) -> Restart;

static QUEUE: LazyLock<Mutex<Queue>> = LazyLock::new(Mutex::default);
static TIMER: LazyLock<Pin<Box<HrTimer<Callback>>>> =
    LazyLock::new(|| Box::pin(HrTimer::new(expire as Callback)));

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the timer for the earliest deadline when it is dropped.
struct Arms;

impl Drop for Arms {
    fn drop(&mut self) {
        queue().arm();
    }
}

/// Wakes all tasks whose deadlines are due, without holding the lock, and restarts the timer for the next deadline.
///
/// If a waker panics, the library catches the panic behind this function and counts it, and the timer is started for
/// the deadlines that are left.
fn expire(_: &mut Expired<'_, '_, Monotonic>) -> Restart {
    let _arms = Arms;
    let now = Process.now();
    loop {
        let due = queue().take_due(now);
        let Some(waker) = due else {
            return Restart::No;
        };
        waker.wake();
    }
}

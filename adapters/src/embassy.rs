//! The time driver of embassy in a process, with its queue.
//!
//! A program that has this feature links the driver: `embassy_time::{Timer, Ticker, with_timeout}` work in any
//! executor, and are exact to a tick. No feature of embassy-time that brings a driver of its own (`std`, `wasm`,
//! `mock-driver`) may be there besides. A tick is a microsecond unless the program chooses: with embassy-time's feature
//! `tick-hz-1_000_000_000` it is a nanosecond.
//!
//! # How it is built
//!
//! One [`HrTimer`] stands for all: it waits for the earliest of the deadlines, which are ordered by time. A task has
//! one deadline, the earliest that it asked for, as embassy's own queues have it: to poll it again moves that, and adds
//! none.
//!
//! # Cost
//!
//! O(log n) for a deadline, a lock, and a start of the timer if it is the earliest. The number of tasks has no limit.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use embassy_time_driver::{Driver, TICK_HZ, time_driver_impl};
use tickless::hrtimer::{self, Expired, HrTimer, Instant, Monotonic, Restart};

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// The driver that the program links.
#[derive(Debug)]
struct Process;

time_driver_impl!(static DRIVER: Process = Process);

impl Driver for Process {
    fn now(&self) -> u64 {
        ticks(hrtimer::now::<Monotonic>())
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        let mut queue = queue();
        if queue.add(at, waker) {
            queue.arm();
        }
    }
}

/// Whole ticks that are over at `now`.
fn ticks(now: Instant<Monotonic>) -> u64 {
    let nanos = u128::from(now.as_nanos().max(0).unsigned_abs());
    u64::try_from(nanos * u128::from(TICK_HZ) / NANOS_PER_SEC).unwrap_or(u64::MAX)
}

/// Returns the begin of tick `at`, which is never before the tick is over by [`ticks`]. A tick that is too far away
/// never comes.
fn instant(at: u64) -> Instant<Monotonic> {
    let nanos = (u128::from(at) * NANOS_PER_SEC).div_ceil(u128::from(TICK_HZ));
    Instant::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// Distinguishes wakers; two of one task are equal.
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
    /// The place of each task in `order`. Its waker, which is kept there, keeps its identity from being used again.
    places: HashMap<Identity, (u64, u64)>,
    /// The number of deadlines so far.
    count: u64,
}

impl Queue {
    /// Adds a deadline; true if it is the earliest now.
    fn add(&mut self, at: u64, waker: &Waker) -> bool {
        let identity = identity(waker);
        if let Some(&place) = self.places.get(&identity) {
            if place.0 <= at {
                return false;
            }
            self.order.remove(&place);
        }
        let place = (at, self.count);
        self.count += 1;
        self.places.insert(identity, place);
        self.order.insert(place, waker.clone());
        self.order.keys().next() == Some(&place)
    }

    /// Takes the earliest of those that are due at `now`.
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

/// Wakes all tasks that are due, without the lock, and waits for the next.
fn expire(_: &mut Expired<'_, '_, Monotonic>) -> Restart {
    let now = Process.now();
    loop {
        let mut queue = queue();
        match queue.take_due(now) {
            Some(waker) => {
                drop(queue);
                waker.wake();
            }
            None => {
                queue.arm();
                return Restart::No;
            }
        }
    }
}

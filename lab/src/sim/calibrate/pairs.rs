//! The costs of two threads, on different CPUs or on the same one: lines, locks, wake-ups, switches.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use tickless::internals::Linux;
use tickless::{Parking, Unparker, Worker};
use tickless_link::bias::BiasedLock;
use tickless_link::lock::Lock;

use super::alone::{lateness, warm_up};
use super::figure::Figure;
use crate::failure::Failure;
use crate::scheduling;

/// Hand-overs in a round: a round takes some ten microseconds, so that most rounds are not disturbed.
const TURNS: u32 = 100;

/// The sleep of a thread before it is woken: long enough for its CPU to idle.
const NAP: Duration = Duration::from_micros(300);

/// The time and the number of rounds for a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) rounds: usize,
    pub(super) time: Duration,
}

impl Budget {
    /// Measures rounds until there are enough, or the time is over.
    pub(super) fn collect(self, mut round: impl FnMut() -> f64) -> Option<Figure> {
        let end = StdInstant::now() + self.time;
        let mut rounds = Vec::new();
        while rounds.len() < self.rounds && (rounds.len() < 3 || StdInstant::now() < end) {
            rounds.push(round());
        }
        Figure::of(rounds)
    }
}

/// A word that shares its cache lines with no other data.
#[repr(align(128))]
#[derive(Default)]
struct Alone(AtomicU32);

/// Executes `partner` on a thread on `cpu` until `main` returns. A flag tells the partner the end; `stop` is called
/// after the flag is set, for partners that sleep.
fn with_partner<R>(
    cpu: u32,
    partner: impl FnOnce(&AtomicBool) + Send,
    main: impl FnOnce() -> R,
    stop: impl FnOnce(),
) -> Result<R, Failure> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (ready, is_ready) = mpsc::channel();
        let is_over = &is_over;
        scope.spawn(move || {
            let pinned = scheduling::pin(cpu, "--cpus");
            let is_pinned = pinned.is_ok();
            let _main_waits = ready.send(pinned);
            if is_pinned {
                partner(is_over);
            }
        });
        let pinned = is_ready
            .recv()
            .expect("the thread says whether it runs there");
        let result = pinned.map(|()| main());
        // Release: what the main thread did is before the partner's end.
        is_over.store(true, Ordering::Release);
        stop();
        result
    })
}

/// Measures the time of a cache-line transfer from the CPU of this thread to `cpu`.
pub(super) fn line(cpu: u32, budget: Budget) -> Result<Option<Figure>, Failure> {
    let word = Alone::default();
    let partner = |is_over: &AtomicBool| {
        // Acquire: see `with_partner`.
        while !is_over.load(Ordering::Acquire) {
            let seen = word.0.load(Ordering::Acquire);
            if seen % 2 == 1 {
                word.0.store(seen + 1, Ordering::Release);
            } else {
                spin_loop();
            }
        }
    };
    let mut sent = 0;
    let main = || {
        budget.collect(|| {
            let start = StdInstant::now();
            for _ in 0..TURNS {
                word.0.store(sent + 1, Ordering::Release);
                sent += 2;
                while word.0.load(Ordering::Acquire) != sent {
                    spin_loop();
                }
            }
            nanos(start.elapsed()) / f64::from(TURNS)
        })
    };
    let figure = with_partner(cpu, partner, main, || {})?;
    // There and back.
    Ok(figure.map(|figure| figure.times(0.5)))
}

/// Measures the time of a lock hand-over to or from `cpu`, where another thread waits for the lock.
pub(super) fn hand(cpu: u32, budget: Budget) -> Result<Option<Figure>, Failure> {
    let lock: Lock<BiasedLock<Linux>, u32> = Lock::new(BiasedLock::new(), 0);
    /// Acquires the lock once. Returns true if it was the turn of `mine`, and passes the turn on.
    fn take_turn(lock: &Lock<BiasedLock<Linux>, u32>, mine: u32) -> bool {
        let mut turn = lock.lock(None);
        let is_mine = *turn % 2 == mine;
        *turn += u32::from(is_mine);
        is_mine
    }
    let partner = |is_over: &AtomicBool| {
        while !is_over.load(Ordering::Acquire) {
            take_turn(&lock, 1);
        }
    };
    let main = || {
        budget.collect(|| {
            let start = StdInstant::now();
            let mut turns = 0;
            while turns < TURNS {
                turns += u32::from(take_turn(&lock, 0));
            }
            nanos(start.elapsed()) / f64::from(TURNS)
        })
    };
    let figure = with_partner(cpu, partner, main, || {})?;
    Ok(figure.map(|figure| figure.times(0.5)))
}

/// The costs of waking a thread.
pub(super) struct Wakes {
    /// The cost for the thread that wakes the other one.
    pub(super) send: Option<Figure>,
    /// The time from the wake-up until the woken thread runs.
    pub(super) latency: Option<Figure>,
}

/// A worker that records the times at which it was woken.
struct Woken {
    origin: StdInstant,
    times: AtomicU32,
    at: AtomicU64,
    unparker: OnceLock<Unparker>,
}

impl Woken {
    fn new() -> Self {
        Self {
            origin: StdInstant::now(),
            times: AtomicU32::new(0),
            at: AtomicU64::new(0),
            unparker: OnceLock::new(),
        }
    }

    /// Returns the nanoseconds since this value was made.
    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn times(&self) -> u32 {
        // Acquire: pairs with the Release in `note`.
        self.times.load(Ordering::Acquire)
    }

    fn note(&self) {
        // Relaxed: published by the count.
        self.at.store(self.now(), Ordering::Relaxed);
        self.times.fetch_add(1, Ordering::Release);
    }

    /// Makes the calling thread the worker that is woken, and publishes its handle.
    fn begin(&self) -> Worker {
        let worker = Worker::new().expect("a new thread is no worker yet");
        warm_up(&worker);
        let _once = self.unparker.set(worker.unparker());
        worker
    }

    /// Returns the handle that wakes the worker, as soon as the worker is ready.
    fn unparker(&self) -> &Unparker {
        loop {
            match self.unparker.get() {
                Some(unparker) => return unparker,
                None => thread::yield_now(),
            }
        }
    }

    /// Wakes the worker, so that it checks whether the measurement is over.
    fn stop(&self) {
        if let Some(unparker) = self.unparker.get() {
            unparker.unpark();
        }
    }
}

/// Measures waking a worker on `cpu` that sleeps, or one that polls.
pub(super) fn wakes(cpu: u32, sleeps: bool, budget: Budget) -> Result<Wakes, Failure> {
    let woken = Woken::new();
    let partner = |is_over: &AtomicBool| {
        let worker = woken.begin();
        while !is_over.load(Ordering::Acquire) {
            if sleeps {
                let _nothing_is_armed = worker.park();
            } else if !worker.was_unparked() {
                spin_loop();
                continue;
            }
            woken.note();
        }
    };
    let mut sends = Vec::new();
    let main = || {
        let unparker = woken.unparker();
        budget.collect(|| {
            pause(NAP);
            let seen = woken.times();
            let start = woken.now();
            unparker.unpark();
            sends.push(difference(woken.now(), start));
            while woken.times() == seen {
                spin_loop();
            }
            difference(woken.at.load(Ordering::Relaxed), start)
        })
    };
    let latency = with_partner(cpu, partner, main, || woken.stop())?;
    Ok(Wakes {
        send: Figure::of(sends),
        latency,
    })
}

/// Measures the cost of waking a sleeping worker of the same CPU.
pub(super) fn wake(worker: &Worker, cpu: u32, budget: Budget) -> Result<Option<Figure>, Failure> {
    let woken = Woken::new();
    let back = worker.unparker();
    let partner = |is_over: &AtomicBool| {
        let worker = woken.begin();
        while !is_over.load(Ordering::Acquire) {
            let _nothing_is_armed = worker.park();
            woken.note();
            back.unpark();
        }
    };
    let main = || {
        let unparker = woken.unparker();
        budget.collect(|| {
            // Until the other one sleeps for certain.
            thread::sleep(NAP);
            let (seen, start) = (woken.times(), woken.now());
            unparker.unpark();
            let sent = difference(woken.now(), start);
            while woken.times() == seen {
                let _nothing_is_due = worker.park();
            }
            sent
        })
    };
    with_partner(cpu, partner, main, || woken.stop())
}

/// Measures the cost of a switch from this thread to another thread of the same CPU.
pub(super) fn switch(cpu: u32, budget: Budget) -> Result<Option<Figure>, Failure> {
    let turns = Alone::default();
    let partner = |is_over: &AtomicBool| {
        while !is_over.load(Ordering::Acquire) {
            // Relaxed: counts for a thread on the same CPU.
            turns.0.fetch_add(1, Ordering::Relaxed);
            thread::yield_now();
        }
    };
    let main = || {
        budget.collect(|| {
            let (before, start) = (turns.0.load(Ordering::Relaxed), StdInstant::now());
            thread::yield_now();
            let took = nanos(start.elapsed());
            // There and back, if the other one had one turn.
            if turns.0.load(Ordering::Relaxed) == before.wrapping_add(1) {
                took / 2.0
            } else {
                f64::NAN
            }
        })
    };
    with_partner(cpu, partner, main, || {})
}

/// Measures the lateness of a polling worker for its timer.
pub(super) fn polled_lateness(cpu: u32, budget: Budget) -> Result<Option<Figure>, Failure> {
    thread::scope(|scope| {
        let measuring = scope.spawn(|| {
            scheduling::pin(cpu, "--cpus")?;
            let worker =
                Worker::with_parking(Parking::Spin).expect("a new thread is no worker yet");
            warm_up(&worker);
            Ok(budget.collect(|| lateness(&worker, NAP)))
        });
        measuring.join().expect("it does not panic")
    })
}

#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn difference(later: u64, earlier: u64) -> f64 {
    later.saturating_sub(earlier) as f64
}

fn pause(time: Duration) {
    let end = StdInstant::now() + time;
    while StdInstant::now() < end {
        spin_loop();
    }
}

fn nanos(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

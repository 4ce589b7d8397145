//! The costs of a thread that runs alone: clocks, loads, locks, and the operations on its own timers.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant as StdInstant};

use rustix::time::{ClockId, clock_gettime};
use tickless::Worker;
use tickless::hrtimer::{Expired, HrTimer, Instant, Monotonic, Restart, Span, Start};
use tickless::internals::Linux;
use tickless::wheel::{Tick, Timeout, WheelKind, WheelTimer};
use tickless_link::bias::{BiasedLock, Owner, REBIAS_AFTER};
use tickless_link::lock::Lock;
use tickless_sim::random::Random;

use super::figure::each;

/// The times of one round, by name.
pub(super) type Round = BTreeMap<&'static str, f64>;

type Exact = Pin<Box<HrTimer<fn(&mut Expired<'_, '_, Monotonic>) -> Restart>>>;
type Coarse = Pin<Box<WheelTimer<fn(&mut Timeout) -> Restart>>>;

/// Operations of a short round: some microseconds.
const SHORT: usize = 1_000;
/// Timers that are operated on, and as many that stay queued meanwhile.
const TIMERS: usize = 256;
/// Lines of the ring that loads follow: the ring fits the nearest cache.
const RING: usize = 64;
/// A delay so long that no timer fires.
const FAR: i64 = 10_000_000_000_000;

/// A line that holds the index of the next line.
#[repr(align(64))]
struct Linked(usize);

/// The objects that the rounds work on.
pub(super) struct Bench<'w> {
    worker: &'w Worker,
    ring: Vec<Linked>,
    shared: AtomicU64,
    bits: Vec<u64>,
    lock: Lock<BiasedLock<Linux>, u64>,
    token: Owner,
    /// The first deadline of the timers that stay queued, which are a microsecond apart.
    origin: i64,
    waiting: Vec<Exact>,
    own: Vec<Exact>,
    coarse: Vec<Coarse>,
    order: Vec<usize>,
    odd: bool,
}

fn exact() -> Exact {
    Box::pin(HrTimer::new(|_| Restart::No))
}

fn at(nanos: i64) -> Start {
    Start::at(Instant::from_nanos(nanos))
}

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns all indices below `count`, in random order.
fn shuffled(count: usize) -> Vec<usize> {
    Random::new(7).permutation(count)
}

impl<'w> Bench<'w> {
    pub(super) fn new(worker: &'w Worker) -> Self {
        let order = shuffled(TIMERS);
        let mut ring: Vec<Linked> = (0..RING).map(|_| Linked(0)).collect();
        let walk = shuffled(RING);
        for (here, next) in walk.iter().zip(walk.iter().cycle().skip(1)) {
            ring[*here].0 = *next;
        }
        let lock = Lock::new(BiasedLock::new(), 0);
        let token = lock.raw().claim().expect("no other thread knows it");
        for _ in 0..=REBIAS_AFTER {
            *lock.lock(Some(token)) += 1;
        }
        let origin = tickless::hrtimer::now::<Monotonic>().as_nanos() + FAR;
        let waiting: Vec<_> = (0..TIMERS).map(|_| exact()).collect();
        for (place, timer) in order.iter().zip(&waiting) {
            let _ = timer.as_ref().start(at(origin + signed(*place) * 1_000));
        }
        let plain: fn(&mut Timeout) -> Restart = |_| Restart::No;
        Self {
            worker,
            ring,
            shared: AtomicU64::new(0),
            bits: vec![0x5A5A_A5A5_F00F_0FF0; 16],
            lock,
            token,
            origin,
            waiting,
            own: (0..TIMERS).map(|_| exact()).collect(),
            coarse: (0..TIMERS)
                .map(|_| Box::pin(WheelTimer::with_kind(WheelKind::Local, plain)))
                .collect(),
            order,
            odd: false,
        }
    }

    /// Measures one round of all costs, which takes some hundred microseconds.
    pub(super) fn round(&mut self) -> Round {
        let mut round = Round::new();
        self.machine(&mut round);
        self.clocks(&mut round);
        self.exact_timers(&mut round);
        self.coarse_timers(&mut round);
        round
    }

    fn machine(&self, round: &mut Round) {
        let load = each(SHORT, || {
            let mut place = black_box(0);
            for _ in 0..SHORT {
                place = self.ring[place].0;
            }
            black_box(place);
        });
        round.insert("load", load);
        let swap = each(SHORT, || {
            for value in 0..SHORT as u64 {
                // Relaxed: on x86 an exchange is a full barrier whatever it is called, and no other thread looks.
                black_box(self.shared.swap(value, Ordering::Relaxed));
            }
        });
        round.insert("exchange", swap);
        let lock = each(SHORT, || {
            for _ in 0..SHORT {
                *black_box(self.lock.lock(Some(self.token))) += 1;
            }
        });
        round.insert("lock", lock);
        let found = self
            .bits
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum();
        let step = each(found, || {
            let mut best = u64::MAX;
            for (index, word) in self.bits.iter().enumerate() {
                let mut left = black_box(*word);
                while left != 0 {
                    let cpu = index as u64 * 64 + u64::from(left.trailing_zeros());
                    left &= left - 1;
                    if black_box(cpu) < best {
                        best = cpu;
                    }
                }
            }
            black_box(best);
        });
        round.insert("search_step", step);
    }

    fn clocks(&self, round: &mut Round) {
        let ahead = Duration::from_secs(5);
        let counter = each(SHORT, || {
            for _ in 0..SHORT {
                // Never polled: what is left of it is the reading.
                drop(black_box(tickless::time::sleep(ahead)));
            }
        });
        round.insert("counter", counter);
        let exact = each(SHORT, || {
            for _ in 0..SHORT {
                black_box(StdInstant::now());
            }
        });
        round.insert("kernel clock", exact);
        let slow = each(SHORT / 10, || {
            for _ in 0..SHORT / 10 {
                // Unlike the monotonic one, this clock is always read by a system call.
                black_box(clock_gettime(ClockId::ThreadCPUTime));
            }
        });
        round.insert("slow_counter", slow);
        let due = each(SHORT, || {
            for _ in 0..SHORT {
                black_box(self.worker.is_due());
            }
        });
        round.insert("is due", due);
        let turn = each(SHORT / 10, || {
            for _ in 0..SHORT / 10 {
                let _nothing_more = black_box(self.worker.turn());
            }
        });
        round.insert("turn", turn);
    }

    fn exact_timers(&mut self, round: &mut Round) {
        self.odd = !self.odd;
        let wiggle = if self.odd { 1 } else { -1 };
        // Not the first one, which is what the device is armed for.
        let in_place = each(TIMERS - 1, || {
            for (place, timer) in self.order.iter().zip(&self.waiting) {
                if *place > 0 {
                    let deadline = self.origin + signed(*place) * 1_000 + wiggle;
                    let _ = timer.as_ref().start(at(deadline));
                }
            }
        });
        round.insert("start in place", in_place);
        let between = |place: usize| self.origin + signed(place) * 1_000 + 500;
        let fresh = each(TIMERS, || {
            for (place, timer) in self.order.iter().zip(&self.own) {
                let _ = timer.as_ref().start(at(between(*place)));
            }
        });
        round.insert("start", fresh);
        let cancel = each(TIMERS, || {
            for timer in &self.own {
                black_box(timer.as_ref().cancel());
            }
        });
        round.insert("cancel", cancel);
        self.device(round);
    }

    /// Measures writes of the device: the first timer of all gets a slightly different time, or the same.
    fn device(&self, round: &mut Round) {
        let first = &self.own[0];
        let before = self.origin - 1_000_000;
        let _ = first.as_ref().start(at(before));
        let write = each(TIMERS, || {
            for step in 0..signed(TIMERS) {
                let _ = first.as_ref().start(at(before + step % 2));
            }
        });
        round.insert("start first", write);
        let stay = each(TIMERS, || {
            for _ in 0..TIMERS {
                let _ = first.as_ref().start(at(before + 1));
            }
        });
        round.insert("start same", stay);
        first.as_ref().cancel();
    }

    fn coarse_timers(&self, round: &mut Round) {
        let now = tickless::wheel::now().0;
        let arm = each(TIMERS, || {
            for (place, timer) in self.order.iter().zip(&self.coarse) {
                let expiry = Tick(now + 5_000 + 300 * *place as u64);
                let armed = timer.as_ref().start_if_idle(expiry).has_armed();
                debug_assert!(armed, "it was not armed");
            }
        });
        round.insert("arm", arm);
        let delete = each(TIMERS, || {
            for timer in &self.coarse {
                black_box(timer.as_ref().cancel_queued());
            }
        });
        round.insert("delete", delete);
    }

    /// Measures the firing of coarse timers, for which a tick has to pass: it takes some milliseconds.
    pub(super) fn fire(&self) -> f64 {
        let expiry = Tick(tickless::wheel::now().0 + 1);
        for timer in &self.coarse {
            let armed = timer.as_ref().start_if_idle(expiry).has_armed();
            debug_assert!(armed, "it was not armed");
        }
        while tickless::wheel::now().0 <= expiry.0 + 1 {
            std::hint::spin_loop();
        }
        // A thread that had the CPU meanwhile took the caches too.
        let waiting = self
            .coarse
            .iter()
            .filter(|timer| timer.as_ref().is_active());
        black_box(waiting.count());
        each(TIMERS, || {
            let _nothing_more = black_box(self.worker.turn());
        })
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        self.lock.raw().disown(self.token);
    }
}

/// Returns the lateness of a sleeping worker for its timer, on a CPU that has nothing else to do.
pub(super) fn lateness(worker: &Worker, sleep: Duration) -> f64 {
    let timer = exact();
    let before = tickless::hrtimer::now::<Monotonic>();
    let deadline = before.as_nanos() + i64::try_from(sleep.as_nanos()).unwrap_or(0);
    let _ = timer.as_ref().start(at(deadline));
    while worker.park().fired == 0 {}
    let late = tickless::hrtimer::now::<Monotonic>().as_nanos() - deadline;
    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    {
        late as f64
    }
}

/// Returns the processor time of this thread for a sleep of the kernel's, in which the library has no part.
pub(super) fn sleep(time: Duration) -> f64 {
    let before = cpu_time();
    std::thread::sleep(time);
    cpu_time() - before
}

/// Returns the processor time of this thread so far, in nanoseconds.
pub(in crate::sim) fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    {
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    }
}

/// Lets the library measure the rate of the time-stamp counter, which it does over the first 20 ms of use.
pub(in crate::sim) fn warm_up(worker: &Worker) {
    let end = StdInstant::now() + Duration::from_millis(200);
    while tickless::clock::time_stamp_counter() == Err(tickless::clock::Refusal::Calibrating)
        && StdInstant::now() < end
    {
        let timer = exact();
        let _ = timer
            .as_ref()
            .start(Start::after(Span::from_nanos(1_000_000)));
        while worker.park().fired == 0 {}
    }
}

//! What is measured.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tickless::Worker;
use tickless::hrtimer::{Expired, HrTimer, Instant as CoreInstant, Monotonic, Restart, Start, now};

use crate::harness::{Group, Options, Random, time};
use crate::limit::{Line, Map};

mod lateness;
mod locks;

/// A function that measures a set of groups.
pub(crate) type Measure = fn(&Options) -> Vec<Group>;

/// All sets, by name.
pub(crate) const ALL: &[(&str, Measure)] = &[
    ("restart-in-place", restart_in_place),
    ("restart-with-a-move", restart_with_a_move),
    ("sleep", sleep),
    ("timeout-ready", timeout_ready),
    ("two-threads", two_threads),
    ("poll", poll),
    ("base-lock", locks::measure),
    ("lateness", lateness::measure),
];

/// Far enough that nothing fires while it is measured.
const FAR: i64 = 10_000_000_000_000;

type PlainTimer = HrTimer<fn(&mut Expired<'_, '_, Monotonic>) -> Restart>;

fn plain_timer() -> Pin<Box<PlainTimer>> {
    Box::pin(HrTimer::new(|_| Restart::No))
}

fn at(nanos: i64) -> Start {
    Start::at(CoreInstant::from_nanos(nanos))
}

/// Lets the library measure the rate of the time-stamp counter, which it does over the first 20 ms of use.
fn warm_up(worker: &Worker) {
    let end = Instant::now() + Duration::from_millis(200);
    while tickless::clock::time_stamp_counter() == Err(tickless::clock::Refusal::Calibrating)
        && Instant::now() < end
    {
        worker.block_on(tickless::time::sleep(Duration::from_millis(1)));
    }
}

fn worker() -> Worker {
    let worker = Worker::new().expect("this thread is no worker yet");
    warm_up(&worker);
    worker
}

/// Start of a queued timer that keeps its place, against reading both neighbours and writing the node.
///
/// Deadlines are computed from the index on both sides, so that no table of them costs cache misses of its own.
fn restart_in_place(options: &Options) -> Vec<Group> {
    const SPACING: i64 = 1_000;
    const LIMIT: &str = "limit: read both neighbours, write the node";
    let _worker = worker();
    let mut groups = Vec::new();
    for pending in [1_000, 10_000, 100_000, 1_000_000] {
        let origin = now::<Monotonic>().as_nanos() + FAR;
        let deadline = |index: usize| origin + i64::try_from(index).unwrap_or(0) * SPACING;
        let timers: Vec<_> = (0..pending).map(|_| plain_timer()).collect();
        for (index, timer) in timers.iter().enumerate() {
            timer.as_ref().start(at(deadline(index)));
        }
        let line = Line::new(pending, origin, SPACING);
        let order = Random(7).permutation(pending);
        let repeats = options.operations(2_000_000).div_ceil(pending as u64);
        let operations = repeats * pending as u64;
        let wiggle = Cell::new(1);
        let each_round = |visit: &dyn Fn(usize, i64)| {
            time(operations, || {
                for _ in 0..repeats {
                    wiggle.set(-wiggle.get());
                    for &index in &order {
                        visit(index, wiggle.get());
                    }
                }
            })
        };
        let group = Group::measure(
            "start of a queued timer that stays in place",
            pending as u64,
            options,
            vec![
                (
                    "tickless",
                    Box::new(|| {
                        each_round(&|index, wiggle| {
                            timers[index].as_ref().start(at(deadline(index) + wiggle))
                        })
                    }),
                ),
                (
                    LIMIT,
                    Box::new(|| {
                        each_round(&|index, wiggle| line.visit(index, deadline(index) + wiggle))
                    }),
                ),
            ],
        );
        groups.push(group.at_most(1.5, LIMIT));
    }
    groups
}

/// How a timer moves.
#[derive(Clone, Copy, Debug)]
enum Move {
    /// Past a few neighbours, as when it is pushed out by a small step.
    Near,
    /// Behind all others, as a timeout that is armed afresh.
    ToTheEnd,
    /// Anywhere.
    Anywhere,
}

impl Move {
    const fn name(self) -> &'static str {
        match self {
            Self::Near => "past a few neighbours",
            Self::ToTheEnd => "behind all others, as a timeout that is pushed out",
            Self::Anywhere => "anywhere",
        }
    }
}

/// Which timer moves next, and where to. Both sides of a comparison run the same sequence.
struct Moves {
    random: Random,
    kind: Move,
    deadlines: Vec<i64>,
    origin: i64,
    width: i64,
    end: i64,
}

impl Moves {
    fn new(kind: Move, pending: usize, origin: i64, width: i64) -> Self {
        let mut random = Random(11);
        let deadlines = (0..pending)
            .map(|_| origin + random_below(&mut random, width))
            .collect();
        Self {
            random,
            kind,
            deadlines,
            origin,
            width,
            end: origin + width,
        }
    }

    fn next(&mut self) -> (usize, i64, i64) {
        let index = self.random.index(self.deadlines.len());
        let old = self.deadlines[index];
        let spacing = self.width / i64::try_from(self.deadlines.len()).unwrap_or(1);
        self.end += 1;
        let new = match self.kind {
            Move::Near => old + 1 + random_below(&mut self.random, 4 * spacing),
            Move::ToTheEnd => self.end,
            Move::Anywhere => self.origin + random_below(&mut self.random, self.width),
        };
        self.deadlines[index] = new;
        (index, old, new)
    }
}

/// Start of a queued timer that changes its place, against a sorted map.
fn restart_with_a_move(options: &Options) -> Vec<Group> {
    let _worker = worker();
    let mut groups = Vec::new();
    for kind in [Move::Near, Move::ToTheEnd, Move::Anywhere] {
        for pending in [1_000, 100_000, 1_000_000] {
            groups.push(restart_with(options, kind, pending));
        }
    }
    groups
}

fn restart_with(options: &Options, kind: Move, pending: usize) -> Group {
    const MAP: &str = "BTreeMap<(deadline, id)>";
    let origin = now::<Monotonic>().as_nanos() + FAR;
    let moves = || RefCell::new(Moves::new(kind, pending, origin, 1_000_000_000));
    let (ours, theirs) = (moves(), moves());
    let timers: Vec<_> = (0..pending).map(|_| plain_timer()).collect();
    for (timer, deadline) in timers.iter().zip(&ours.borrow().deadlines) {
        timer.as_ref().start(at(*deadline));
    }
    let map = RefCell::new(Map::new(&theirs.borrow().deadlines));
    let operations = options.operations(200_000);
    let group = Group::measure(
        format!("start of a queued timer that moves {}", kind.name()),
        pending as u64,
        options,
        vec![
            (
                "tickless",
                Box::new(|| {
                    time(operations, || {
                        for _ in 0..operations {
                            let (index, _, new) = ours.borrow_mut().next();
                            timers[index].as_ref().start(at(new));
                        }
                    })
                }),
            ),
            (
                MAP,
                Box::new(|| {
                    time(operations, || {
                        for _ in 0..operations {
                            let (index, old, new) = theirs.borrow_mut().next();
                            map.borrow_mut().restart(index, old, new);
                        }
                    })
                }),
            ),
        ],
    );
    group.at_most(0.5, MAP)
}

fn random_below(random: &mut Random, limit: i64) -> i64 {
    i64::try_from(random.below(limit.unsigned_abs())).unwrap_or(0)
}

/// Polls a future once where it was made, and drops it.
macro_rules! poll_once {
    ($future:expr) => {{
        let mut future = pin!($future);
        let mut context = Context::from_waker(Waker::noop());
        black_box(future.as_mut().poll(&mut context).is_pending());
    }};
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("a runtime can be built")
}

/// How long the timers last that are armed and cancelled.
#[derive(Clone, Copy)]
enum Durations {
    /// All alike, as the timeouts of one kind of connection.
    Fixed,
    /// Anything up to a thousand seconds.
    Random,
}

impl Durations {
    fn next(self, random: &mut Random) -> Duration {
        match self {
            Self::Fixed => Duration::from_secs(500),
            Self::Random => Duration::from_micros(1_000_000 + random.below(1_000_000_000)),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "all of 500 s",
            Self::Random => "of up to 1,000 s",
        }
    }
}

/// Arm and cancel of a sleep, its clock reading included, against tokio's.
fn sleep(options: &Options) -> Vec<Group> {
    let mut groups = Vec::new();
    for pending in [0_usize, 1_000, 100_000, 1_000_000] {
        for durations in [Durations::Fixed, Durations::Random] {
            if pending == 0 && matches!(durations, Durations::Random) {
                continue;
            }
            groups.push(sleep_with(options, pending, durations));
        }
    }
    groups
}

fn sleep_with(options: &Options, pending: usize, durations: Durations) -> Group {
    let worker = worker();
    let runtime = runtime();
    let _entered = runtime.enter();
    let mut context = Context::from_waker(Waker::noop());
    let mut random = Random(17);
    let mut ours: Vec<_> = (0..pending)
        .map(|_| Box::pin(tickless::time::sleep(Durations::Random.next(&mut random))))
        .collect();
    let mut theirs: Vec<_> = (0..pending)
        .map(|_| Box::pin(tokio::time::sleep(Durations::Random.next(&mut random))))
        .collect();
    for (ours, theirs) in ours.iter_mut().zip(&mut theirs) {
        assert!(ours.as_mut().poll(&mut context).is_pending());
        assert!(theirs.as_mut().poll(&mut context).is_pending());
    }
    let operations = options.operations(200_000);
    let group = Group::measure(
        format!("arm and cancel of a sleep, {}", durations.name()),
        pending as u64,
        options,
        vec![
            (
                "tickless",
                Box::new(|| {
                    let mut random = Random(19);
                    time(operations, || {
                        for _ in 0..operations {
                            poll_once!(tickless::time::sleep(durations.next(&mut random)));
                        }
                    })
                }),
            ),
            (
                "tokio, multi-thread runtime",
                Box::new(|| {
                    let mut random = Random(19);
                    time(operations, || {
                        for _ in 0..operations {
                            poll_once!(tokio::time::sleep(durations.next(&mut random)));
                        }
                    })
                }),
            ),
        ],
    );
    drop(ours);
    drop(worker);
    if pending <= 1_000 {
        group.at_most(0.5, "tokio, multi-thread runtime")
    } else {
        group
    }
}

/// A future inside a timeout that is ready at its first poll.
fn timeout_ready(options: &Options) -> Vec<Group> {
    let _worker = worker();
    let runtime = runtime();
    let _entered = runtime.enter();
    let operations = options.operations(1_000_000);
    let limit = Duration::from_secs(5);
    vec![Group::measure(
        "timeout around a future that is ready at once",
        0,
        options,
        vec![
            (
                "tickless",
                Box::new(|| {
                    time(operations, || {
                        for _ in 0..operations {
                            poll_once!(tickless::time::timeout(limit, async {}));
                        }
                    })
                }),
            ),
            (
                "tokio, multi-thread runtime",
                Box::new(|| {
                    time(operations, || {
                        for _ in 0..operations {
                            poll_once!(tokio::time::timeout(limit, async {}));
                        }
                    })
                }),
            ),
        ],
    )]
}

/// Arms and cancels on `threads` threads at once, each a worker; nanoseconds for one operation of one thread.
fn on_threads(threads: usize, operations: u64, prepare: fn() -> Box<dyn FnMut()>) -> f64 {
    let barrier = Arc::new(Barrier::new(threads));
    let handles: Vec<_> = (0..threads)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            std::thread::spawn(move || {
                let mut operation = prepare();
                for _ in 0..operations / 10 {
                    operation();
                }
                barrier.wait();
                time(operations, || (0..operations).for_each(|_| operation()))
            })
        })
        .collect();
    let each = handles
        .into_iter()
        .map(|handle| handle.join().expect("no panic"));
    #[expect(clippy::cast_precision_loss, reason = "few threads")]
    {
        each.sum::<f64>() / threads as f64
    }
}

fn arm_and_cancel_on_a_worker() -> Box<dyn FnMut()> {
    let worker = worker();
    Box::new(move || {
        let _ = &worker;
        poll_once!(tickless::time::sleep(Duration::from_secs(5)));
    })
}

fn arm_and_cancel_in_tokio() -> Box<dyn FnMut()> {
    static SHARED: std::sync::OnceLock<tokio::runtime::Runtime> = std::sync::OnceLock::new();
    let handle = SHARED.get_or_init(runtime).handle().clone();
    Box::new(move || {
        let _entered = handle.enter();
        poll_once!(tokio::time::sleep(Duration::from_secs(5)));
    })
}

/// Whether two threads slow each other down.
fn two_threads(options: &Options) -> Vec<Group> {
    let operations = options.operations(500_000);
    let ours = Group::measure(
        "arm and cancel of a sleep, per thread",
        0,
        options,
        vec![
            (
                "tickless",
                Box::new(|| on_threads(2, operations, arm_and_cancel_on_a_worker)),
            ),
            (
                "tickless, one thread alone",
                Box::new(|| on_threads(1, operations, arm_and_cancel_on_a_worker)),
            ),
            (
                "tokio, two threads",
                Box::new(|| on_threads(2, operations / 4, arm_and_cancel_in_tokio)),
            ),
            (
                "tokio, one thread alone",
                Box::new(|| on_threads(1, operations / 4, arm_and_cancel_in_tokio)),
            ),
        ],
    );
    vec![ours.threads(2).at_most(1.05, "tickless, one thread alone")]
}

/// "Is anything due?" with nothing due.
fn poll(options: &Options) -> Vec<Group> {
    let worker = worker();
    let timer = plain_timer();
    timer
        .as_ref()
        .start(at(now::<Monotonic>().as_nanos() + FAR));
    let operations = options.operations(2_000_000);
    let counter = Mutex::new(());
    let group = Group::measure(
        "is anything due? with a timer pending and nothing due",
        1,
        options,
        vec![
            (
                "tickless",
                Box::new(|| {
                    time(operations, || {
                        for _ in 0..operations {
                            black_box(worker.is_due());
                        }
                    })
                }),
            ),
            (
                "std::time::Instant::now() alone",
                Box::new(|| {
                    time(operations, || {
                        for _ in 0..operations {
                            black_box(Instant::now());
                        }
                    })
                }),
            ),
            (
                "sleep(5 s) made and dropped: the clock alone",
                Box::new(|| {
                    time(operations, || {
                        for _ in 0..operations {
                            drop(black_box(tickless::time::sleep(Duration::from_secs(5))));
                        }
                    })
                }),
            ),
            (
                "std::sync::Mutex, lock and unlock alone",
                Box::new(|| {
                    time(operations, || {
                        for _ in 0..operations {
                            drop(black_box(counter.lock()));
                        }
                    })
                }),
            ),
        ],
    );
    timer.as_ref().cancel();
    vec![group]
}

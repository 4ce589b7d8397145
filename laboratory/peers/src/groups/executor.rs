//! A comparison of executors on the same futures: tasks that begin and end, tasks that wake each other, and a task with
//! deadlines beside tasks that compute.

use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use tickless::Executor;

use crate::rounds::{Group, subjects};

pub(crate) const TOKIO: &str = "tokio, current-thread runtime";
pub(crate) const WITHOUT: &str = "tickless without the tick";

/// Two tasks that wake each other alternately.
#[derive(Default)]
struct Rally {
    hits: AtomicUsize,
    wakers: [Mutex<Option<Waker>>; 2],
}

impl Rally {
    /// Plays one side of the rally: `rounds` hits.
    async fn play(self: Arc<Self>, side: usize, rounds: usize) {
        for round in 0..rounds {
            poll_fn(|context| {
                if self.hits.load(Ordering::Acquire) == 2 * round + side {
                    return Poll::Ready(());
                }
                *self.wakers[side].lock().expect("no panic") = Some(context.waker().clone());
                Poll::Pending
            })
            .await;
            self.hits.fetch_add(1, Ordering::Release);
            let other = self.wakers[1 - side].lock().expect("no panic").take();
            if let Some(waker) = other {
                waker.wake();
            }
        }
    }
}

/// A handle that spawns tasks on the measured executor.
pub(crate) trait Spawn: Copy + Send + 'static {
    fn spawn(
        self,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send;
    /// The call that the documentation recommends to a task that computes for long.
    fn checkpoint() -> impl Future<Output = ()> + Send;
    fn sleep_until(deadline: Instant) -> impl Future<Output = ()> + Send;
}

#[derive(Clone, Copy)]
pub(crate) struct Ours;

impl Spawn for Ours {
    fn spawn(
        self,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send {
        let task = tickless::task::spawn(future);
        async { task.await.expect("it ends") }
    }

    fn checkpoint() -> impl Future<Output = ()> + Send {
        tickless::coop::checkpoint()
    }

    fn sleep_until(deadline: Instant) -> impl Future<Output = ()> + Send {
        tickless::time::sleep(deadline.saturating_duration_since(Instant::now()))
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Tokios;

impl Spawn for Tokios {
    fn spawn(
        self,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send {
        let task = tokio::spawn(future);
        async { task.await.expect("it ends") }
    }

    fn checkpoint() -> impl Future<Output = ()> + Send {
        tokio::task::consume_budget()
    }

    fn sleep_until(deadline: Instant) -> impl Future<Output = ()> + Send {
        tokio::time::sleep_until(deadline.into())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count of operations")]
fn nanos_each(start: Instant, operations: u64) -> f64 {
    start.elapsed().as_nanos() as f64 / operations as f64
}

pub(crate) async fn empty_tasks(spawn: impl Spawn, operations: u64) -> f64 {
    let start = Instant::now();
    for _ in 0..operations {
        spawn
            .spawn(async {
                black_box(());
            })
            .await;
    }
    nanos_each(start, operations)
}

/// Plays `pairs` rallies at the same time, and returns the time of one hit in nanoseconds.
pub(crate) async fn rallies(spawn: impl Spawn, pairs: usize, operations: u64) -> f64 {
    let rounds = usize::try_from(operations).unwrap_or(usize::MAX);
    let start = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..pairs {
        let rally = Arc::new(Rally::default());
        for side in 0..2 {
            tasks.push(spawn.spawn(Arc::clone(&rally).play(side, rounds)));
        }
    }
    for task in tasks {
        task.await;
    }
    nanos_each(start, 2 * operations * pairs as u64)
}

/// The distance of the deadlines of the task beside those that compute.
const PERIOD: Duration = Duration::from_millis(2);
/// The number of tasks that compute, and how long each of them computes between two checkpoints.
const HOGS: usize = 8;
const CHUNK: Duration = Duration::from_micros(10);

/// Waits for `ticks` deadlines beside tasks that compute, and returns the median lateness in nanoseconds.
async fn beside_hogs<S: Spawn>(spawn: S, ticks: u64) -> f64 {
    let over = Arc::new(AtomicBool::new(false));
    let hogs: Vec<_> = (0..HOGS)
        .map(|_| {
            let over = Arc::clone(&over);
            spawn.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    while start.elapsed() < CHUNK {
                        black_box(());
                    }
                    S::checkpoint().await;
                }
            })
        })
        .collect();
    let mut late = Vec::new();
    let mut deadline = Instant::now();
    for _ in 0..ticks.max(10) {
        // From its own time on, or a task that was kept for long would have its next deadlines at once.
        deadline = (deadline + PERIOD).max(Instant::now());
        S::sleep_until(deadline).await;
        late.push(deadline.elapsed());
    }
    over.store(true, Ordering::Relaxed);
    for hog in hogs {
        hog.await;
    }
    late.sort_unstable();
    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    {
        late[late.len() / 2].as_nanos() as f64
    }
}

fn ours(hrtick: bool) -> Executor {
    let builder = Executor::builder().workers(1).hrtick(hrtick);
    builder.build().expect("there are threads enough")
}

pub(crate) fn tokios() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime can be built")
}

/// The parts of the group.
pub(crate) const EMPTY: &str = "an empty task: spawned, run, awaited";
pub(crate) const SWITCH: &str = "two tasks wake each other";
pub(crate) const PAIRS: &str = "two pairs wake each other: one waits always";
pub(crate) const LATE: &str = "a tick each 2 ms beside eight that compute: how late";

/// Measures the three executors on the same work.
fn compare<F, G>(
    group: &mut Group<'_>,
    part: &'static str,
    on_ours: impl Fn() -> F,
    on_tokios: impl Fn() -> G,
) where
    F: Future<Output = f64> + Send + 'static,
    G: Future<Output = f64> + Send + 'static,
{
    let (with, without) = (ours(true), ours(false));
    let mut builder = tokio::runtime::Builder::new_current_thread();
    if part == LATE {
        builder.enable_time();
    }
    let tokios = builder.build().expect("a runtime can be built");
    let run = |executor: &Executor| {
        let task = executor.spawn(on_ours());
        executor.block_on(task).expect("it ends")
    };
    let mut subjects = subjects![
        "tickless" => run(&with),
        TOKIO => tokios.block_on(async { tokio::spawn(on_tokios()).await.expect("it ends") }),
    ];
    // Without the tick no task that computes would let the one with deadlines run.
    if part != LATE {
        subjects.push((WITHOUT, Box::new(|| [run(&without)])));
    }
    group.measure([(part, 0, 1)], subjects);
}

/// Measures tasks on one worker.
pub(super) fn measure(group: &mut Group<'_>) {
    let operations = group.operations(200_000);
    let spawned = || empty_tasks(Ours, operations);
    compare(group, EMPTY, spawned, || empty_tasks(Tokios, operations));
    for (part, pairs) in [(SWITCH, 1), (PAIRS, 2)] {
        let ours = || rallies(Ours, pairs, operations);
        compare(group, part, ours, || rallies(Tokios, pairs, operations));
    }
    let ticks = group.operations(500);
    let late = || beside_hogs(Ours, ticks);
    compare(group, LATE, late, || beside_hogs(Tokios, ticks));
}

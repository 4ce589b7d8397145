//! Tasks on one worker of the executor, and tokio's on its current-thread runtime: a task that begins and ends, and
//! switches.
//!
//! The count here is that of a round of the worker: the way to the task that is next, its poll, and all that the task
//! does. Tokio's rounds cannot be had one by one, so there it is many operations within one call, in a runtime without
//! a clock; what the call itself takes is lost among them.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

use tickless::Executor;
use tickless::executor::Rounds;

use super::{Aim, Operation, counted};
use crate::groups::executor::{Ours, Spawn, Tokios, empty_tasks, rallies, tokios};

/// The prefix of the names of these operations, tokio's too.
pub(super) const PREFIX: &str = "executor, ";

const EMPTY: &str = "executor, an empty task: spawned, run, awaited";
const SWITCH: &str = "executor, two tasks wake each other, each time";
const WITH_TICK: &str = "executor, two pairs wake each other, each time: one waits always";
const WITHOUT_TICK: &str = "executor, the same without the tick";
const TOKIO_EMPTY: &str = "executor, tokio, empty task";
const TOKIO_SWITCH: &str = "executor, tokio, two tasks";

/// Operations until locks are biased, buffers as long as they get, and the rate of the counter is known.
const WARM_UP: u64 = 15_000;
/// Operations that are counted.
const COUNTED: u64 = 401;
/// One of so many is counted. Other threads look at a worker that is busy for long, as one below an emulator always is,
/// and its locks are ordinary for some thousand operations then: operations in a row would all be of one kind. The
/// number has no factor in common with those of tasks, so that it is not the same task each time.
const EVERY: u64 = 61;
/// Operations of tokio's that are counted as one.
const MANY: u64 = 10_000;

pub(super) fn operations() -> [Operation; 4] {
    let row = |name, peer: Option<_>, aim| Operation {
        name,
        batch: 1,
        peer: peer.map(|peer| (peer, MANY)),
        aim,
    };
    [
        row(EMPTY, Some(TOKIO_EMPTY), Aim::OfPeer(120)),
        row(SWITCH, Some(TOKIO_SWITCH), Aim::OfPeer(120)),
        row(WITH_TICK, None, Aim::Of(WITHOUT_TICK, 105)),
        row(WITHOUT_TICK, None, Aim::None),
    ]
}

/// Executes an operation, ours or tokio's, `many` times between two counts.
pub(super) fn execute(name: &str, many: u64) {
    tickless::internals::emulate_clock();
    let operations = 3 * (WARM_UP + COUNTED * EVERY);
    match name {
        EMPTY => on_a_worker(
            true,
            |round| thrice(round, 2),
            empty_tasks(Ours, operations),
        ),
        SWITCH => on_a_worker(true, |round| thrice(round, 1), rallies(Ours, 1, operations)),
        WITH_TICK | WITHOUT_TICK => on_a_worker(
            name == WITH_TICK,
            |round| thrice(round, 1),
            // Each has the hits of two pairs.
            rallies(Ours, 2, operations / 2),
        ),
        TOKIO_EMPTY => in_tokio(|| empty_tasks(Tokios, many)),
        // Two hits for each operation.
        TOKIO_SWITCH => in_tokio(|| rallies(Tokios, 1, many / 2)),
        _ => unreachable!("the name is one of the table"),
    }
}

/// Executes an operation of so many rounds three times and counts the last, when the worker is warm. While callgrind
/// wrote down what it counted so much time passed that the first asks the kernel for it; the second checks the result,
/// and prepares the state that the next one begins with.
fn thrice(round: &mut dyn FnMut(), rounds: u64) {
    static EXECUTED: AtomicU64 = AtomicU64::new(0);
    let mut operation = || (0..rounds).for_each(|_| round());
    operation();
    operation();
    // Relaxed: one worker counts.
    let executed = EXECUTED.fetch_add(1, Ordering::Relaxed);
    let is_warm = (WARM_UP..WARM_UP + COUNTED * EVERY).contains(&executed);
    if is_warm && executed.is_multiple_of(EVERY) {
        counted(&mut operation);
    } else {
        operation();
    }
}

fn on_a_worker(hrtick: bool, rounds: Rounds, work: impl Future<Output = f64> + Send + 'static) {
    let builder = Executor::builder().workers(1).hrtick(hrtick).rounds(rounds);
    let executor = builder.build().expect("there are threads enough");
    let _nanos = executor.block_on(executor.spawn(work)).expect("it ends");
}

fn in_tokio<F: Future<Output = f64> + Send + 'static>(work: impl Fn() -> F) {
    let runtime = tokios();
    let run = || {
        let work = work();
        runtime.block_on(async { Tokios.spawn(async { _ = work.await }).await });
    };
    for _ in 0..3 {
        run();
        counted(&mut || run());
    }
}

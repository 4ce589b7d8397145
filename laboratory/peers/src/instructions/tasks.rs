//! Tasks on one worker of the executor, and on the current-thread runtime of tokio: tasks that begin and end, and
//! switches between tasks.
//!
//! The count is that of a round of the worker: the choice of the next task, its poll, and the work of the task. Rounds
//! of tokio cannot be executed one by one. So for tokio many operations within one call are counted, in a runtime
//! without a clock; the cost of the call itself is negligible.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

use tickless::Executor;
use tickless::executor::Rounds;

use super::operation::{Aim, Operation, counted};
use crate::groups::executor::{Ours, Spawn, Tokios, empty_tasks, rallies, tokios};

/// The prefix of the names of these operations, also of those of tokio.
pub(super) const PREFIX: &str = "executor, ";

const EMPTY: &str = "executor, an empty task: spawned, run, awaited";
const SWITCH: &str = "executor, two tasks wake each other, each time";
const WITH_TICK: &str = "executor, two pairs wake each other, each time: one waits always";
const WITHOUT_TICK: &str = "executor, the same without the tick";
const TOKIO_EMPTY: &str = "executor, tokio, empty task";
const TOKIO_SWITCH: &str = "executor, tokio, two tasks";

/// The number of operations until locks are biased, buffers have their full length, and the rate of the counter is
/// known.
const WARM_UP: u64 = 15_000;
const COUNTED: u64 = 401;
/// One of this many operations is counted. Other threads inspect a worker that is busy for long, as a worker in an
/// emulator always is, and then its locks are ordinary for some thousand operations. Consecutive operations would all
/// have the same kind of lock. The number has no common factor with the numbers of tasks, so that the counted operation
/// is not always of the same task.
const EVERY: u64 = 61;
/// The number of operations of tokio that are counted together.
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

/// Executes an operation of `rounds` rounds three times and counts the last execution, when the worker is warm. While
/// callgrind wrote its counts, so much time passed that the first execution reads the kernel's clock. The second
/// execution checks the result, and prepares the state for the third.
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

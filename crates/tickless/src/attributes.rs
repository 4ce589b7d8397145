//! The functions that `#[tickless::test]` and `#[tickless::main]` call.

use std::future::Future;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{ExitCode, Termination};

use crate::Executor;
use crate::executor::on_thread;

/// Runs a test on this thread, or on several workers if the attribute has a number of workers.
#[track_caller]
pub fn test<F>(is_paused: bool, workers: Option<usize>, body: fn() -> F) -> F::Output
where
    F: Future + 'static,
    F::Output: 'static,
{
    match workers {
        None | Some(1) => on_thread::run(is_paused, None, body),
        Some(workers) => several(Some(workers), body),
    }
}

/// The environment variable with the seed to replay.
const REPLAY: &str = "TICKLESS_SEED";

/// Runs a test once for each of `seeds`, or for the one seed in the environment. `name` stands in the printed command
/// that replays a failure.
#[track_caller]
pub fn seeds<F>(seeds: Range<u64>, name: &str, body: fn() -> F)
where
    F: Future + 'static,
    F::Output: Termination + 'static,
{
    each(seeds, name, |seed| on_thread::run(true, Some(seed), body));
}

#[track_caller]
fn each<T: Termination>(seeds: Range<u64>, name: &str, run: impl Fn(u64) -> T) {
    let seeds = match std::env::var(REPLAY) {
        Err(_) => seeds,
        Ok(seed) => match seed.parse::<u64>() {
            Ok(seed) if seed < u64::MAX => seed..seed + 1,
            _ => panic!("{REPLAY} is no number of a seed: {seed:?}"),
        },
    };
    for seed in seeds {
        let run = AssertUnwindSafe(|| run(seed));
        let payload = match catch_unwind(run).map(Termination::report) {
            Ok(ExitCode::SUCCESS) => continue,
            Ok(_) => None,
            Err(payload) => Some(payload),
        };
        say(format_args!(
            "the schedule of seed {seed} fails; to replay it: {REPLAY}={seed} cargo test {name}"
        ));
        match payload {
            Some(payload) => resume_unwind(payload),
            None => panic!("the test returned an error"),
        }
    }
}

/// Prints a line in a way that the test harness captures.
#[expect(clippy::print_stderr, reason = "the output of a test that fails")]
fn say(line: std::fmt::Arguments<'_>) {
    eprintln!("{line}");
}

/// Runs the body of a program's `main`.
#[track_caller]
pub fn main<F>(is_paused: bool, workers: Option<usize>, body: fn() -> F) -> F::Output
where
    F: Future + 'static,
    F::Output: 'static,
{
    if is_paused {
        return on_thread::run(true, None, body);
    }
    several(workers, body)
}

/// Runs a future on this thread, while the given number of workers run the tasks that it spawns.
#[track_caller]
fn several<F: Future>(workers: Option<usize>, body: fn() -> F) -> F::Output {
    let mut builder = Executor::builder();
    if let Some(workers) = workers {
        builder = builder.workers(workers);
    }
    match builder.build() {
        Ok(executor) => executor.block_on(body()),
        Err(error) => panic!("the executor cannot be started: {error}"),
    }
}

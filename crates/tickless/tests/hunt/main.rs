//! A test with random rounds of executors, local tasks, ends, aborts and wakes: no round may hang or leave a future
//! behind.
//!
//! Each round builds up to three executors, makes random scripts for tasks on them, and lets threads that belong to no
//! executor wake, abort, spawn and wait at the same time. Then the executors end, in random orders and ways, from
//! outside and from tasks of other executors. Values that tasks hold, wakers and panics take random actions when they
//! are dropped or called. A round is over when every value is dropped and every handle reports the end of its task. If
//! a round takes too long, a watchdog ends the process and prints the command that repeats the random choices of the
//! round.
//!
//! The system chooses the order of the threads, so a seed repeats the random choices and not the run.
//!
//! `cargo xtask check --only hunt` runs this test for ten minutes, or for `TICKLESS_HUNT_SECONDS`, `cargo test` for some
//! seconds.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it tells what it drew"
)]

mod round;
mod script;
mod world;

use std::any::Any;
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use world::{COUNTS, Deed};

/// The time that the test looks for hangs, unless `TICKLESS_HUNT_SECONDS` sets another time.
const SECONDS: u64 = 3;
/// The time that a round may take. Most rounds take a few milliseconds.
const PATIENCE: u64 = 60;

/// The seed of the present round.
static SEED: AtomicU64 = AtomicU64::new(0);
/// The number of rounds that were begun.
static ROUNDS: AtomicU64 = AtomicU64::new(0);

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

#[test]
fn executors_end_and_leave_nothing_behind() {
    let seconds = Duration::from_secs(setting("TICKLESS_HUNT_SECONDS", SECONDS));
    let first = setting("TICKLESS_HUNT_SEED", 1);
    // The same round over and over, in place of one after the other for some time.
    let again = setting("TICKLESS_HUNT_AGAIN", 0);
    report_panics();
    thread::spawn(watch);
    let began = Instant::now();
    let mut rounds = 0;
    while rounds < again || (again == 0 && (rounds == 0 || began.elapsed() < seconds)) {
        let seed = if again > 0 {
            first
        } else {
            first.wrapping_add(rounds)
        };
        SEED.store(seed, Ordering::SeqCst);
        ROUNDS.fetch_add(1, Ordering::SeqCst);
        round::run(seed);
        rounds += 1;
    }
    let counts = Deed::ALL.into_iter().zip(&COUNTS);
    let counts: Vec<String> = counts
        .map(|(deed, count)| format!("{} {}", count.load(Ordering::SeqCst), deed.name()))
        .collect();
    println!(
        "{rounds} rounds from seed {first} in {:.0} s, 0 hangs, 0 leaks: {}",
        began.elapsed().as_secs_f64(),
        counts.join(", ")
    );
}

/// Installs a panic hook that ends the process at a panic which no script caused, and prints nothing for panics of
/// scripts.
fn report_panics() {
    panic::set_hook(Box::new(|info| {
        if !is_drawn(info.payload()) {
            eprintln!("\n{info}\n{}", std::backtrace::Backtrace::force_capture());
            replay("a panic that was not drawn");
        }
    }));
}

/// Returns true if the scripts cause the panic: either a panic of a script, or a panic of the library because a
/// randomly chosen thread is no worker.
fn is_drawn(payload: &(dyn Any + Send)) -> bool {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.is_some_and(|text| {
        text == world::PANIC
            || text.starts_with("no executor runs this code: ")
            || text.starts_with("no worker runs this code: ")
            || text.contains("task cannot block")
    })
}

/// Ends the process if a round takes too long.
fn watch() {
    let patience = Duration::from_secs(setting("TICKLESS_PATIENCE", PATIENCE));
    let (mut last, mut since) = (0, Instant::now());
    loop {
        thread::sleep(Duration::from_millis(250));
        let now = ROUNDS.load(Ordering::SeqCst);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if since.elapsed() > patience {
            eprintln!("{}", world::left());
            replay("a round does not end");
        }
    }
}

fn replay(what: &str) -> ! {
    let seed = SEED.load(Ordering::SeqCst);
    eprintln!(
        "{what}: TICKLESS_HUNT_SEED={seed} TICKLESS_HUNT_AGAIN=1000 \
         cargo test --release -p tickless --test hunt -- --nocapture"
    );
    std::process::exit(2);
}

//! Measures timers of this system and tokio's timers: the lateness of sleeps of 500 µs, and the cost of timers.
//!
//! `cargo run --release -p tickless --example lateness`; with `--features portable` on Linux by the portable host,
//! under wine by `xtask/on.sh wine`. All candidates are measured in turn in each round, so a change of the machine's
//! speed affects all of them. A ratio is our value divided by tokio's value of the same round: below 1 is better.
#![expect(clippy::print_stdout, reason = "it shows what it measured")]

use std::error::Error;
use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tickless::{Worker, time};
use tokio::runtime::Runtime;

/// The number of rounds, in each of which every candidate has its turn, and the numbers of sleeps and timers of a turn.
const ROUNDS: usize = 21;
const SLEEPS: usize = 20;
const TIMERS: u32 = 5_000;
const LENGTH: Duration = Duration::from_micros(500);
const AFTER: Duration = Duration::from_secs(500);

fn main() -> Result<(), Box<dyn Error>> {
    let worker = Worker::new()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    sleeps(&worker, &runtime)?;
    prices(&worker, &runtime);
    Ok(())
}

/// Prints the lateness of sleeps: on the library's own thread, on a worker, and with other libraries.
fn sleeps(worker: &Worker, runtime: &Runtime) -> Result<(), Box<dyn Error>> {
    let (ask, asked) = mpsc::channel::<()>();
    let (say, said) = mpsc::channel::<Duration>();
    // A thread that is no worker: the library's own thread fires for it.
    let foreign = std::thread::spawn(move || {
        while asked.recv().is_ok() {
            let late = late(|| futures::executor::block_on(time::sleep(LENGTH)));
            if say.send(late).is_err() {
                break;
            }
        }
    });
    let names = [
        "tickless, a thread",
        "tickless, a worker",
        "tokio::time",
        "std::thread::sleep",
    ];
    let mut all: [Vec<Duration>; 4] = Default::default();
    for _ in 0..ROUNDS * SLEEPS {
        ask.send(())?;
        all[0].push(said.recv()?);
        all[1].push(late(|| worker.block_on(time::sleep(LENGTH))));
        all[2].push(late(|| {
            runtime.block_on(async { tokio::time::sleep(LENGTH).await })
        }));
        all[3].push(late(|| std::thread::sleep(LENGTH)));
    }
    drop(ask);
    foreign.join().map_err(|_| "the thread panicked")?;
    let count = ROUNDS * SLEEPS;
    println!("late after {count} sleeps of {LENGTH:?}, in microseconds (less is better)");
    println!("{:30} {:>8} {:>8} {:>8}", "", "p10", "p50", "p90");
    for (name, late) in names.iter().zip(&all) {
        let mut micros: Vec<f64> = late.iter().map(|late| late.as_secs_f64() * 1e6).collect();
        micros.sort_by(f64::total_cmp);
        let at = |percent: usize| micros[micros.len() * percent / 100];
        println!("{name:30} {:>8.0} {:>8.0} {:>8.0}", at(10), at(50), at(90));
    }
    println!("\n{HEADER}");
    let p50 = all.map(|late| late.chunks(SLEEPS).map(p50).collect::<Vec<_>>());
    Row {
        name: "late, p50, a thread",
        limit: 0.2,
    }
    .print(&p50[0], &p50[2]);
    Row {
        name: "late, p50, a worker",
        limit: 0.2,
    }
    .print(&p50[1], &p50[2]);
    Ok(())
}

/// Returns the median of some times, in nanoseconds.
fn p50(late: &[Duration]) -> f64 {
    let nanos: Vec<f64> = late.iter().map(|late| late.as_secs_f64() * 1e9).collect();
    Spread::of(nanos).median
}

/// Prints the cost of arming and dropping a timer, and of moving a timer to a later deadline.
fn prices(worker: &Worker, runtime: &Runtime) {
    let mut nanos: [Vec<f64>; 6] = Default::default();
    for _ in 0..ROUNDS {
        worker.block_on(async {
            nanos[0].push(each(|_| arm(pin!(time::sleep(AFTER)))));
            let mut sleep = pin!(time::sleep(AFTER));
            arm(sleep.as_mut());
            let first = sleep.deadline();
            nanos[2].push(each(|number| sleep.as_mut().reset(first + number)));
            nanos[4].push(each(|_| sleep.as_mut().reset(time::Instant::now() + AFTER)));
        });
        runtime.block_on(async {
            use tokio::time::{Instant, sleep};

            nanos[1].push(each(|_| arm(pin!(sleep(AFTER)))));
            let mut sleep = pin!(sleep(AFTER));
            arm(sleep.as_mut());
            let first = sleep.deadline();
            nanos[3].push(each(|number| sleep.as_mut().reset(first + number)));
            nanos[5].push(each(|_| sleep.as_mut().reset(Instant::now() + AFTER)));
        });
    }
    let rows = [
        "arm and drop",
        "reset to a later deadline",
        "reset to 500 s from now",
    ];
    for (name, both) in rows.into_iter().zip(nanos.chunks(2)) {
        Row { name, limit: 0.7 }.print(&both[0], &both[1]);
    }
}

/// Polls a timer once.
fn arm<F: Future<Output = ()>>(timer: Pin<&mut F>) {
    let mut context = Context::from_waker(Waker::noop());
    assert!(black_box(timer).poll(&mut context).is_pending(), "early");
}

/// Returns the time in nanoseconds that a call of `use_timer` takes. Each call gets one more millisecond.
fn each(mut use_timer: impl FnMut(Duration)) -> f64 {
    let start = Instant::now();
    for number in 0..TIMERS {
        use_timer(black_box(Duration::from_millis(number.into())));
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(TIMERS)
}

/// Returns the lateness of `sleep`, which is never early.
fn late(sleep: impl FnOnce()) -> Duration {
    let start = Instant::now();
    sleep();
    let elapsed = start.elapsed();
    assert!(elapsed >= LENGTH, "early: {elapsed:?}");
    elapsed.saturating_sub(LENGTH)
}

const HEADER: &str = "nanoseconds, medians           tickless    tokio    ratio   (min to max)";

/// A line of the comparison with tokio.
struct Row {
    name: &'static str,
    /// The required ratio, which the measured ratio must not exceed.
    limit: f64,
}

impl Row {
    fn print(&self, ours: &[f64], theirs: &[f64]) {
        let ratios = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs);
        let ratio = Spread::of(ratios.collect());
        let verdict = if ratio.median <= self.limit {
            "holds"
        } else {
            "MISSED"
        };
        println!(
            "{:30} {:>8.1} {:>8.1} {:>8.2}   ({:.2} to {:.2}), at most {}: {verdict}",
            self.name,
            Spread::of(ours.to_vec()).median,
            Spread::of(theirs.to_vec()).median,
            ratio.median,
            ratio.min,
            ratio.max,
            self.limit
        );
    }
}

/// The median of some figures, with the smallest and the largest.
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let at = |index: usize| figures.get(index).copied().unwrap_or(f64::NAN);
        Self {
            median: at(figures.len() / 2),
            min: at(0),
            max: at(figures.len().saturating_sub(1)),
        }
    }
}

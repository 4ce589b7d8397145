//! `tickless timers`: the library's report on the timers of a process, shown for a process that has some timers.
//!
//! The library writes no file from which other processes could read its timers. A program shows its own timers, with
//! `tickless::dump` and `tickless::stats`; this command is such a program.

mod data;

use std::fmt::Write;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use clap::Args;
use fastrand::Rng;
use tickless::hrtimer::{Expired, HrTimer, Realtime, Restart, Setup, Span, Start, now};
use tickless::time::Sleep;
use tickless::wheel::{WheelKind, WheelTimer};
use tickless::{Stats, Worker, inspect};

use crate::failure::{CheckVerdict, Failure};
use crate::output::{self, Screen};
use crate::units;

/// The live state of timers, in the layout of /proc/timer_list.
///
/// The report is the output of tickless::dump, followed by the counts of tickless::stats; a program of yours can show
/// its own timers in the same way. Shown here are the timers of this very process: workers with timeouts that were
/// armed and mostly cancelled, a sleep in a tokio runtime whose reactor rings for it, and timers of a thread that is no
/// worker: exact timers, a far timer, and a timer on each wheel. Callbacks are named by their types.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Workers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: u32,

    /// Timers that each worker arms; nine of ten are cancelled
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    timers: u32,

    /// Number that decides on the deadlines
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Show where timers and the code of their callbacks lie in memory
    #[arg(long)]
    addresses: bool,

    #[command(flatten)]
    output: output::Options,
}

const EXAMPLES: &str = "\
Each thread with timers counts as a CPU; number 0 is the expiry thread of the library, which fires the timers of threads
that are no workers. Clock 0 is the monotonic one, clock 1 the real time.

Examples:
  tickless timers
  tickless timers --workers 1 --timers 1000 --json - | jq .stats
  tickless timers --json - | jq '.threads[] | {name, role, pending: (.timers | length)}'
  tickless timers --json - | jq '.reactors[] | {number, served_by, rings_at_ns}'";

/// The number of timers of which one is kept and the others are cancelled.
const KEPT_OF: u32 = 10;
/// The shortest time to a deadline. Deadlines lie between a second and a minute ahead, so that no timer fires before it
/// is shown.
const NEAREST: Duration = Duration::from_secs(1);
const FARTHEST: Duration = Duration::from_secs(60);
/// The time for which each worker lets a timer fire again and again.
const BUSY: Duration = Duration::from_millis(5);
const PERIOD: Duration = Duration::from_millis(1);

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    let json = output::prepare_json(&arguments.output)?;
    tickless::init()
        .map_err(|error| Failure::Machine(format!("cannot start the library: {error}")))?;
    let (ready, readiness) = mpsc::channel();
    let mut workers = Vec::new();
    for number in 0..arguments.workers {
        let random = Rng::with_seed(arguments.seed.wrapping_add(u64::from(number)));
        let (ready, timers) = (ready.clone(), arguments.timers);
        let (leave, stay) = mpsc::channel::<()>();
        let thread = thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn(move || work(timers, random, &ready, &stay));
        let thread =
            thread.map_err(|error| Failure::Machine(format!("cannot start a worker: {error}")))?;
        workers.push((thread, leave));
    }
    for _ in 0..arguments.workers {
        // A worker that broke down has said so on standard error.
        let heard = readiness.recv().unwrap_or(Ok(()));
        heard.map_err(|error| Failure::Machine(format!("cannot make a worker: {error}")))?;
    }
    let runtime = Attached::start()?;
    let setup = |_: &mut Expired<'_, '_, Realtime>| Restart::No;
    let by_the_clock = Box::pin(HrTimer::with_setup(Setup::new(), setup));
    let in_an_hour = now::<Realtime>().saturating_add(Span::from_millis(3_600_000));
    let _ = by_the_clock.as_ref().start(Start::at(in_an_hour));
    let on_no_worker = Box::pin(HrTimer::new(|_| Restart::No));
    let _ = on_no_worker
        .as_ref()
        .start(Start::after(Span::from_secs(30)));
    let _far = queued_sleep(FARTHEST * 60);
    let coarse = WheelKind::ALL.map(|kind| Box::pin(WheelTimer::with_kind(kind, |_| Restart::No)));
    for timer in &coarse {
        let _ = timer.as_ref().start(FARTHEST);
    }

    let mut dump = String::new();
    let dumped = if arguments.addresses {
        inspect::dump_with_addresses(&mut dump)
    } else {
        inspect::dump(&mut dump)
    };
    dumped.map_err(|error| Failure::Machine(format!("cannot dump: {error}")))?;
    let (snapshot, stats) = (inspect::snapshot(), tickless::stats());
    for (thread, leave) in workers {
        drop(leave);
        let _panics_are_shown = thread.join();
    }
    runtime.end();
    if let Some(json) = json {
        json.write_json(&data::document(&snapshot, &stats))?;
    }
    Screen::new(&arguments.output).print(&format!("{dump}\n{}", table(&stats)))?;
    Ok(CheckVerdict::Passed)
}

/// Runs a worker: it arms some timers that fire, cancels many timers, and leaves a few timers queued for the report.
fn work(
    timers: u32,
    mut random: Rng,
    ready: &mpsc::Sender<Result<(), tickless::StartError>>,
    stay: &mpsc::Receiver<()>,
) {
    let worker = match Worker::new() {
        Ok(worker) => worker,
        Err(error) => {
            let _heard = ready.send(Err(error));
            return;
        }
    };
    worker.block_on(async {
        let mut interval = tickless::time::interval(PERIOD);
        for _ in 0..BUSY.as_millis() / PERIOD.as_millis() {
            interval.tick().await;
        }
    });
    let mut kept = Vec::new();
    for number in 0..timers {
        let after = NEAREST + (FARTHEST - NEAREST).mul_f64(random.f64());
        let nanos = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        let timer = Box::pin(HrTimer::new(|_| Restart::No));
        let _ = timer.as_ref().start(Start::after(Span::from_nanos(nanos)));
        if number % KEPT_OF == 0 {
            kept.push(timer);
        }
    }
    let _heard = ready.send(Ok(()));
    // Ends with an error when it was looked at.
    let _looked_at = stay.recv();
}

/// Returns a queued sleep that wakes no task when it ends.
fn queued_sleep(duration: Duration) -> Pin<Box<Sleep>> {
    let mut sleep = Box::pin(tickless::time::sleep(duration));
    let _pending = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    sleep
}

/// A runtime, and the thread that drives it. The runtime's reactor rings for the runtime's timers.
struct Attached {
    thread: thread::JoinHandle<()>,
    leave: tokio::sync::oneshot::Sender<()>,
}

impl Attached {
    /// Starts the runtime, and waits until one of its timers has fired and another one is queued for the report.
    fn start() -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::Machine(format!("cannot start a runtime: {error}"))
        };
        let built = tickless::tokio::Builder::new_current_thread().build();
        let runtime = built.map_err(|error| failed(&error))?;
        let (ready, readiness) = mpsc::channel();
        let (leave, stay) = tokio::sync::oneshot::channel();
        let live = async move {
            tickless::time::sleep(PERIOD).await;
            let _kept = queued_sleep(FARTHEST);
            let _heard = ready.send(());
            let _looked_at = stay.await;
        };
        let thread = thread::Builder::new()
            .name("runtime".to_owned())
            .spawn(move || runtime.block_on(live));
        let thread = thread.map_err(|error| failed(&error))?;
        // One that broke down has said so on standard error.
        let _ready = readiness.recv();
        Ok(Self { thread, leave })
    }

    fn end(self) {
        drop(self.leave);
        let _panics_are_shown = self.thread.join();
    }
}

fn rows(stats: &Stats) -> [(&'static str, u64); 19] {
    [
        ("threads", stats.threads),
        ("pending", stats.pending),
        ("starts", stats.starts),
        ("in_place", stats.in_place),
        ("filed_early", stats.filed_early),
        ("far_in_slot", stats.far_in_slot),
        ("expired", stats.expired),
        ("cancelled", stats.cancelled),
        ("moved", stats.moved),
        ("interrupts", stats.interrupts),
        ("spurious", stats.spurious),
        ("device_writes", stats.device_writes),
        ("clamped", stats.clamped),
        ("clock_sets", stats.clock_sets),
        ("told_of_sets", stats.told_of_sets),
        ("panics", stats.panics),
        ("reactor_expired", stats.reactor_expired),
        ("fallback_expired", stats.fallback_expired),
        ("reactor_sets", stats.reactor_sets),
    ]
}

fn table(stats: &Stats) -> String {
    let mut out = String::from("Since the process began:\n");
    for (name, count) in rows(stats) {
        // Writing to a string cannot fail.
        let _infallible = writeln!(
            out,
            "  {:17}{:>10}",
            name.replace('_', " "),
            units::count(count)
        );
    }
    out
}

//! `tickless noise`: oslat's measurement of this library's polling workers, with its options and its output.
//!
//! A thread on each CPU does nothing but poll its worker and read a counter. The time between two readings is normally
//! the time of one turn of the loop, a few tens of nanoseconds. When the time is longer, another thread or an interrupt
//! took the difference. The measured time includes the worker's poll, because the poll is part of the loop. With
//! `--against bare`, the same loop without the worker takes turns on the same threads, so that the cost of the poll can
//! be separated.

mod arguments;
mod counter;
mod gaps;
mod json;
mod print;
mod report;
mod thread;

use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tickless::Stats;

pub(crate) use arguments::Arguments;
use arguments::Plan;
use counter::Counter;
use thread::{Break, Crew, Measured};

use crate::failure::{CheckVerdict, Failure};
use crate::interrupt::Interrupt;
use crate::output::{self, Progress, Screen};
use crate::page;
use crate::tracing::Tracing;
use crate::{scheduling, units};

/// The time between two checks whether the run is to end.
const LOOK: Duration = Duration::from_millis(50);

/// A finished run: its plan and its gaps.
struct Finished<'r> {
    plan: &'r Plan,
    counter: &'r Counter,
    began: SystemTime,
    /// The bias in microseconds.
    bias: u64,
    threads: Vec<Measured>,
    /// The thread that found a gap above the limit of `-T`.
    broken: Option<Break>,
    /// The library's counters before and after the run.
    stats: (Stats, Stats),
}

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    let plan = Arc::new(arguments.settle()?);
    check_memory(&plan)?;
    let options = arguments.output();
    let json = output::prepare_json(&options)?;
    let report = page::prepare(arguments.report.as_ref())?;
    let screen = Screen::new(&options);
    let progress = Progress::new(&options);
    let interrupt = Interrupt::catch()?;
    scheduling::pin(plan.main_cpu, "-C")?;
    let counter = Counter::choose()?;
    let tracing = Arc::new(Tracing::open(&plan.tracefs));
    let say = |text: &str| match arguments.quiet {
        true => Ok(()),
        false => screen.print(text),
    };
    screen.print(&print::title())?;
    say(&print::head(&plan))?;
    if let Some(complaint) = tracing.complaint().filter(|_| plan.threshold.is_some()) {
        screen.print(&format!("# {complaint}\n"))?;
    }

    let began = SystemTime::now();
    let before = tickless::stats();
    let mut crew = Crew::start(&plan, &counter, &tracing)?;
    watch(&mut crew, &interrupt, |crew, _| {
        progress.show("preheating");
        crew.is_preheated()
    });
    progress.show("");
    let bias = if plan.bias {
        counter.rate().micros(crew.shortest().unwrap_or(0))
    } else {
        0
    };
    if plan.bias {
        screen.print(&print::bias(bias))?;
    }
    say("Test starts...\n")?;
    crew.measure(bias);
    watch(&mut crew, &interrupt, |crew, passed| {
        progress.show(&print::progress(&plan, passed, crew.longest()));
        crew.is_over()
    });
    drop(progress);
    let (threads, broken) = crew.finish()?;
    if let Some(broken) = &broken {
        // Standard error may be closed; the exit code says it too.
        let _closed = std::io::stderr().write_all(print::threshold(&plan, broken).as_bytes());
    }
    say("Test completed.\n\n")?;
    let finished = Finished {
        plan: &plan,
        counter: &counter,
        began,
        bias,
        threads,
        broken,
        stats: (before, tickless::stats()),
    };
    if let Some(json) = json {
        json.write_json(&json::of(&finished))?;
    }
    if let Some(report) = report {
        report.write(report::of(&finished)?.as_bytes())?;
    }
    screen.print(&print::summary(&finished))?;
    Ok(CheckVerdict::from_passed(finished.broken.is_none()))
}

/// Waits until `is_done` returns true for the time that has passed, and ends the threads early if the user interrupts.
fn watch(
    crew: &mut Crew,
    interrupt: &Interrupt,
    mut is_done: impl FnMut(&mut Crew, Duration) -> bool,
) {
    let start = Instant::now();
    while !is_done(crew, start.elapsed()) {
        if interrupt.is_requested() {
            crew.end();
        }
        std::thread::sleep(LOOK);
    }
}

/// Refuses to use more memory than the machine has.
fn check_memory(plan: &Plan) -> Result<(), Failure> {
    let needed = plan.all_memory();
    let Some(available) = available_memory().filter(|available| needed > *available) else {
        return Ok(());
    };
    let mebibytes = |bytes: u64| units::count(bytes.div_ceil(1 << 20));
    Err(Failure::Machine(format!(
        "{} need {} MiB for the workload, two buffers of -m each, and the machine has {} MiB left; use less, or fewer \
         CPUs",
        units::counted(plan.threads() as u64, "thread"),
        mebibytes(needed),
        mebibytes(available),
    )))
}

/// Returns the free memory in bytes, if the kernel reports it.
fn available_memory() -> Option<u64> {
    let told = fs::read_to_string("/proc/meminfo").ok()?;
    let line = told
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

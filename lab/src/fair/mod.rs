//! `tickless fair`: shares and wake-ups of tasks that compute, serve and tick at the same time.
//!
//! The tasks are the same code for all runtimes. The code is generic over the two operations that tasks use: a
//! checkpoint, and a sleep until a time. Runtimes do not disturb each other: each is built on a fresh thread, and
//! dropped before the next one begins.

mod arguments;
mod html;
mod json;
mod marks;
mod mix;
mod print;
mod result;
mod runtime;
mod stage;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fastrand::Rng;
use rustix::time::{ClockId, clock_gettime};

pub(crate) use arguments::Arguments;
use arguments::Plan;
use result::{Part, Row};
use runtime::{Missing, Subject};
use stage::{Stage, Work};

use crate::failure::{CheckVerdict, Failure};
use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::output::{self, Progress, Screen};
use crate::{crew, page, units};

/// The time between two checks whether the run is to end.
const LOOK: Duration = Duration::from_millis(20);

/// The time limit for a runtime to end after all its tasks should have finished. A runtime that takes longer lost a
/// wake-up.
const PATIENCE: Duration = Duration::from_secs(10);

/// A finished run: its plan and its rows.
#[derive(Debug)]
struct Finished<'r> {
    plan: &'r Plan,
    machine: Machine,
    began: SystemTime,
    took: Duration,
    interrupted: bool,
    /// A row for each runtime, in the order of the plan.
    rows: Vec<Row>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    let plan = arguments.settle()?;
    let json = output::prepare_json(&arguments.output)?;
    let report = page::prepare(arguments.report.as_ref())?;
    let screen = Screen::new(&arguments.output);
    let progress = Progress::new(&arguments.output);
    let interrupt = Interrupt::catch()?;
    let (began, start) = (SystemTime::now(), Instant::now());
    let mut rows: Vec<Row> = plan
        .subjects
        .iter()
        .map(|subject| Row::new(*subject))
        .collect();
    rounds(&plan, &mut rows, &interrupt, &progress)?;
    drop(progress);
    let finished = Finished {
        plan: &plan,
        machine: Machine::read(),
        began,
        took: start.elapsed(),
        interrupted: interrupt.is_requested(),
        rows,
    };
    // The files before the table: a reader that closes standard output early has them nevertheless.
    if let Some(json) = json {
        json.write_json(&json::of(&finished))?;
    }
    let found = print::report(&finished)?;
    if let Some(report) = report {
        report.write(found.page().as_bytes())?;
    }
    screen.print(&found.text())?;
    finished.verdict()
}

/// Runs each runtime once in each round, in changing order.
fn rounds(
    plan: &Plan,
    rows: &mut [Row],
    interrupt: &Interrupt,
    progress: &Progress,
) -> Result<(), Failure> {
    let work = Work::calibrate();
    let mut random = Rng::with_seed(plan.seed);
    let part = plan.settling + plan.duration;
    for round in 1..=plan.rounds {
        let mut places: Vec<usize> = (0..rows.len()).collect();
        random.shuffle(&mut places);
        for place in places {
            let row = &mut rows[place];
            if interrupt.is_requested() {
                return Ok(());
            }
            if row.missing.is_some() {
                continue;
            }
            let name = row.subject.name();
            let stage = Stage::new(&plan.mix, work, plan.settling, plan.duration);
            let began = Instant::now();
            let ran = part_of(row.subject, stage, random.u64(..), interrupt, || {
                let passed = units::progress(began.elapsed(), part);
                progress.show(&format!(
                    "round {round} of {}, {name}: {passed}",
                    plan.rounds
                ));
            })?;
            match ran {
                Ok(part) => row.parts.extend(part),
                Err(why) => row.missing = Some(why),
            }
        }
    }
    Ok(())
}

/// Runs one runtime's part of a round; returns nothing if the run was ended before the part began.
fn part_of(
    subject: Subject,
    stage: Stage,
    seed: u64,
    interrupt: &Interrupt,
    show: impl Fn(),
) -> Result<Result<Option<Part>, Missing>, Failure> {
    let stage = Arc::new(stage);
    let (jobs, doors) = stage.jobs();
    let sender = {
        let stage = Arc::clone(&stage);
        let thread = thread::Builder::new().name("requests".to_owned());
        thread.spawn(move || stage.send_requests(&doors, seed))
    };
    let sender = sender.map_err(crew::not_started)?;
    let runner = {
        let stage = Arc::clone(&stage);
        let thread = thread::Builder::new().name("runtime".to_owned());
        thread.spawn(move || subject.run(&stage, jobs))
    };
    let runner = runner.map_err(crew::not_started)?;
    let wait_until = |time: Instant| {
        while !runner.is_finished() && Instant::now() < time {
            if interrupt.is_requested() {
                stage.stop();
            }
            show();
            thread::sleep(LOOK.min(time.saturating_duration_since(Instant::now())));
        }
        (Instant::now(), processor_time(ClockId::ProcessCPUTime))
    };
    let first = wait_until(stage.begin());
    let last = wait_until(stage.end());
    wait_until(Instant::now() + PATIENCE);
    stage.stop();
    if !runner.is_finished() {
        // The thread is left behind: what a runtime waits for cannot be taken from it.
        return Ok(Err(format!(
            "it hung: its tasks were not over {} behind their end",
            units::time(PATIENCE)
        )));
    }
    let ran = runner
        .join()
        .unwrap_or_else(|_| Err("it panicked".to_owned()));
    crew::join(sender)?;
    if let Err(why) = ran {
        return Ok(Err(why));
    }
    let passed = last.0.saturating_duration_since(first.0);
    let used = last.1.saturating_sub(first.1);
    let part = Part::new(&stage, passed, used);
    Ok(Ok((last.0 > stage.begin()).then_some(part)))
}

/// Returns the processor time of this process, all its threads together, or of the calling thread.
fn processor_time(of: ClockId) -> Duration {
    let time = clock_gettime(of);
    let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
    seconds + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

impl Finished<'_> {
    /// Returns the verdict of the checks.
    fn verdict(&self) -> Result<CheckVerdict, Failure> {
        if self.rows.iter().all(|row| row.missing.is_some()) {
            let reasons = self.rows.iter().filter_map(Row::complaint);
            return Err(Failure::Machine(format!(
                "no runtime runs here: {}",
                reasons.collect::<Vec<_>>().join("; ")
            )));
        }
        Ok(CheckVerdict::from_passed(self.rows.iter().all(Row::holds)))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn as_nanos<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(nanos(*time))
}

fn as_nanos_if_any<S: serde::Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.serialize_u64(nanos(*time)),
        None => serializer.serialize_none(),
    }
}

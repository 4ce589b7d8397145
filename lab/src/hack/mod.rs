//! `tickless hack`: hackbench's measurement, on tasks of this library's executor.
//!
//! The command measures precise slices off and on, with and without each mechanism that saves writes of the clock event
//! device. The sources of the mechanisms never published this matrix. Each configuration gets an executor of its own,
//! which is dropped before the next configuration begins.

mod arguments;
mod baseline;
mod executor;
mod features;
mod html;
mod json;
mod marks;
mod print;
mod result;
mod traffic;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fastrand::Rng;

pub(crate) use arguments::Arguments;
use arguments::{Plan, Tasks};
use result::{Other, Row};
use traffic::Shared;

use crate::failure::{CheckVerdict, Failure};
use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::output::{self, Progress, Screen};
use crate::{crew, page, units};

/// The time between two checks whether the run is to end.
const LOOK: Duration = Duration::from_millis(20);

/// A finished run: its plan and its rows.
#[derive(Debug)]
struct Finished<'r> {
    plan: &'r Plan,
    machine: Machine,
    began: SystemTime,
    took: Duration,
    interrupted: bool,
    /// Messages that did not arrive.
    lost: u64,
    rows: Vec<Row>,
    others: Vec<Other>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    let plan = arguments.settle()?;
    let json = output::prepare_json(&arguments.output)?;
    let report = page::prepare(arguments.report.as_ref())?;
    let screen = Screen::new(&arguments.output);
    let progress = Progress::new(&arguments.output);
    let interrupt = Interrupt::catch()?;
    let mut finished = Finished {
        plan: &plan,
        machine: Machine::read(),
        began: SystemTime::now(),
        took: Duration::ZERO,
        interrupted: false,
        lost: 0,
        rows: plan
            .configurations
            .iter()
            .map(|features| Row::new(*features))
            .collect(),
        others: others(&plan),
    };
    let start = Instant::now();
    finished.measure(&interrupt, &progress)?;
    finished.took = start.elapsed();
    finished.interrupted = interrupt.is_requested();
    drop(progress);
    // The files before the table: a reader that closes standard output early has them nevertheless.
    if let Some(json) = json {
        json.write_json(&json::of(&finished))?;
    }
    let found = print::report(&finished)?;
    if let Some(report) = report {
        report.write(found.page().as_bytes())?;
    }
    screen.print(&found.text())?;
    Ok(CheckVerdict::from_passed(finished.lost == 0))
}

const TOKIO: &str = "tokio";
const HACKBENCH: &str = "hackbench";

fn others(plan: &Plan) -> Vec<Other> {
    let through = if plan.pipe {
        "tokio's pipes"
    } else {
        "the same channels"
    };
    let kind = match plan.hackbench {
        Tasks::Processes => "processes",
        Tasks::Threads => "threads",
    };
    let pipes = if plan.pipe { "pipes" } else { "sockets" };
    vec![
        Other::new(
            TOKIO,
            format!(
                "the same tasks on tokio's multi-thread runtime of {}, through {through}",
                units::counted(plan.workers as u64, "worker")
            ),
        ),
        Other::new(
            HACKBENCH,
            format!(
                "hackbench itself with {kind} and {pipes}, on as many CPUs as the kernel gives it: context, no peer"
            ),
        ),
    ]
}

/// The place of a run in the results.
#[derive(Clone, Copy, Debug)]
enum Place {
    Row(usize),
    Other(usize),
}

impl Finished<'_> {
    /// Runs each configuration and baseline once in each round, in changing order.
    fn measure(&mut self, interrupt: &Interrupt, progress: &Progress) -> Result<(), Failure> {
        let program = baseline::find_hackbench();
        let mut random = Rng::with_seed(self.plan.seed);
        let rows = (0..self.rows.len()).map(Place::Row);
        let mut places: Vec<Place> = rows
            .chain((0..self.others.len()).map(Place::Other))
            .collect();
        for round in 1..=self.plan.rounds {
            random.shuffle(&mut places);
            for place in places.clone() {
                if interrupt.is_requested() {
                    return Ok(());
                }
                let name = match place {
                    Place::Row(row) => self.rows[row].features.name(),
                    Place::Other(other) => self.others[other].name.to_owned(),
                };
                progress.show(&format!("round {round} of {}, {name}", self.plan.rounds));
                match place {
                    Place::Row(row) => self.configuration(row, interrupt)?,
                    Place::Other(other) => self.other(other, &program, interrupt)?,
                }
            }
        }
        Ok(())
    }

    fn configuration(&mut self, row: usize, interrupt: &Interrupt) -> Result<(), Failure> {
        let features = self.rows[row].features;
        let plan = self.plan.clone();
        let (ran, is_whole) = Self::watched(interrupt, move |shared| {
            let ran = executor::run(&plan, features, shared);
            ran.map(|ran| (ran, shared.received()))
        })?;
        let failed = |why| Failure::Machine(format!("cannot run the executor: {why}"));
        let (ran, received) = ran.map_err(failed)?;
        if is_whole {
            self.count_lost(received);
            self.rows[row].runs.push(ran);
        }
        Ok(())
    }

    fn other(
        &mut self,
        other: usize,
        program: &Result<PathBuf, String>,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        if self.others[other].missing.is_some() {
            return Ok(());
        }
        let plan = self.plan.clone();
        let is_tokio = self.others[other].name == TOKIO;
        let program = program.clone();
        let (took, is_whole) = Self::watched(interrupt, move |shared| {
            if is_tokio {
                return baseline::tokio(&plan, shared).map(|took| (took, shared.received()));
            }
            let took = baseline::hackbench(&program?, &plan, shared)?;
            // It counts its messages itself.
            Ok((took, plan.traffic.messages()))
        })?;
        match took {
            Ok((took, received)) if is_whole => {
                self.count_lost(received);
                self.others[other].seconds.push(took.as_secs_f64());
            }
            Ok(_) => {}
            Err(_) if interrupt.is_requested() => {}
            Err(why) => self.others[other].missing = Some(why),
        }
        Ok(())
    }

    fn count_lost(&mut self, received: u64) {
        self.lost += self.plan.traffic.messages().saturating_sub(received);
    }

    /// Calls `run` on a thread of its own, and ends it early if the user interrupts. Also returns whether it ran to its
    /// end.
    fn watched<R: Send + 'static>(
        interrupt: &Interrupt,
        run: impl FnOnce(&Arc<Shared>) -> Result<R, String> + Send + 'static,
    ) -> Result<(Result<R, String>, bool), Failure> {
        let shared = Arc::new(Shared::default());
        let runner = {
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new().name("hack".to_owned());
            thread
                .spawn(move || run(&shared))
                .map_err(crew::not_started)?
        };
        while !runner.is_finished() {
            if interrupt.is_requested() {
                shared.stop();
            }
            thread::sleep(LOOK);
        }
        let ran = runner.join();
        let ran = ran.unwrap_or_else(|_| Err("it panicked".to_owned()));
        Ok((ran, !shared.is_stopped()))
    }
}

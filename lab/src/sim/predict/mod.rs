//! `tickless sim predict`: a profile's predictions for this machine, compared with measurements.

mod real;
mod report;
mod subject;
mod workloads;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tickless::topology::Topology;
use tickless_sim::{Process, ProcessCounts, Profile};

use super::calibrate::{self, Effort, Figure};
use super::input;
use crate::failure::{CheckVerdict, Failure};
use crate::machine::Machine;
use crate::output::{self, Progress, Screen};
use crate::page;
use real::Real;
use workloads::{Disturbed, Workload};

/// Executes workloads on this machine and on a simulated one, and compares the results.
///
/// The workloads are those of the benchmarks, and workers that sleep. The same code executes each workload twice: on a
/// worker of this process, and on a worker in virtual time, where each operation has the cost from the profile. The
/// costs were measured one by one, under other conditions; the column "made of" names the costs that a prediction adds
/// up.
///
/// Checked: counts (timers put into their queue, removed, kept in place; writes of the device; sleeps that ended, as
/// the kernel counts them) are equal. Times should be within 25 %. The output names times that are not, but the exit
/// code is 0: other programs make times longer, and with very many timers the caches of the machine decide, which the
/// simulator does not model. The kernel's scheduler influences the counts of a worker that sleeps. So a run is
/// repeated, fifty times at most and with longer sleeps, if the machine was so late that the worker missed the next
/// deadline, or if the kernel counted other sleeps than predicted. Counts that still differ then differ because of the
/// library, unless the kernel took the CPU from the worker in each of these runs.
///
/// It takes about 4 seconds on a quiet machine, one with --quick; without --profile, calibration takes additional time.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Profile of this machine: a file, or local for local.toml [default: calibrates first]
    #[arg(long, value_name = "PROFILE")]
    profile: Option<input::Chosen>,

    #[command(flatten)]
    effort: Effort,

    /// Write a page with plots to this file
    #[arg(long, value_name = "OUT.html", value_parser = crate::page::file())]
    report: Option<PathBuf>,

    #[command(flatten)]
    output: output::Options,
}

const EXAMPLES: &str = "\
Examples:
  tickless sim predict
      Calibrates, and compares
  tickless sim calibrate && tickless sim predict --profile local
  tickless sim predict --quick --json - | jq '.rows[] | select(.counts_equal | not)'
  tickless sim predict --json - | jq '.rows[] | {workload, ratio, holds}'

Exit codes: 0 all counts are equal, whatever the times are, 1 one is not, 2 bad arguments or a bad profile, 3 the
machine lacks something, or disturbed every run of a workload.";

/// The relative error within which times should be predicted.
const WITHIN: f64 = 0.25;

/// The number of times that a disturbed run is repeated.
const ATTEMPTS: u32 = 50;
/// The number of attempts after which the sleeps in the workload are doubled.
const PATIENCE: u32 = 8;

/// The numbers of passes and rounds of a run.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// The number of passes over all workloads: a temporary slowdown of the machine then slows all workloads.
    passes: usize,
    /// Rounds of a workload in a pass.
    rounds: usize,
    has_large: bool,
}

const WHOLE: Size = Size {
    passes: 5,
    rounds: 40,
    has_large: true,
};

const QUICK: Size = Size {
    passes: 2,
    rounds: 5,
    has_large: false,
};

/// A workload, predicted and measured. Times are in nanoseconds.
#[derive(Debug, Serialize)]
struct Row {
    workload: &'static str,
    timers: usize,
    made_of: &'static str,
    counts: Both<ProcessCounts>,
    counts_equal: bool,
    ns: Both<f64>,
    /// The medians of the fastest quarter of the rounds, and of the slower half.
    measured_spread: [f64; 2],
    /// The prediction divided by the measurement.
    ratio: f64,
    holds: bool,
    /// The part of the time that the prediction is known to leave out.
    leaves_out: &'static str,
}

#[derive(Debug, Serialize)]
struct Both<T> {
    predicted: T,
    measured: T,
}

#[derive(Debug, Serialize)]
struct Document<'r> {
    machine: &'r Machine,
    profile: &'r Profile,
    counts_equal: bool,
    times_that_hold: usize,
    rows: &'r [Row],
}

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    let json = output::prepare_json(&arguments.output)?;
    let page = page::prepare(arguments.report.as_ref())?;
    let topology = Topology::read().map_err(|error| Failure::Machine(error.to_string()))?;
    let cpus = calibrate::cpus(&arguments.effort, &topology)?;
    let given = arguments.profile.as_ref().map(input::Chosen::read);
    let machine = Machine::read();
    let progress = Progress::new(&arguments.output);
    let profile = match given.transpose()? {
        Some(profile) => profile,
        None => calibrate::measure(&arguments.effort, &machine, &progress)?,
    };
    let size = if arguments.effort.quick { QUICK } else { WHOLE };
    let rows = compare(&profile, &cpus, size, &progress)?;
    drop(progress);
    let counts_equal = rows.iter().all(|row| row.counts_equal);
    if let Some(json) = json {
        json.write_json(&Document {
            machine: &machine,
            profile: &profile,
            counts_equal,
            times_that_hold: rows.iter().filter(|row| row.holds).count(),
            rows: &rows,
        })?;
    }
    let findings = report::of(&machine, &profile, &rows)?;
    if let Some(page) = page {
        page.write(findings.page().as_bytes())?;
    }
    Screen::new(&arguments.output).print(&findings.text())?;
    Ok(CheckVerdict::from_passed(counts_equal))
}

fn compare(
    profile: &Profile,
    cpus: &[u32],
    size: Size,
    progress: &Progress,
) -> Result<Vec<Row>, Failure> {
    let has_two = cpus.len() > 1 && profile.topology.cpus() > 1;
    let is_done = |workload: &&Workload| {
        (size.has_large || !workload.is_large()) && (has_two || !workload.needs_stranger())
    };
    let workloads = workloads::ALL.iter().filter(is_done);
    let mut runs: Vec<_> = workloads
        .map(|workload| Runs::new(Foretold::of(*workload, profile, size.rounds)))
        .collect();
    for pass in 1..=size.passes {
        for runs in &mut runs {
            let name = runs.foretold.workload.name();
            progress.show(&format!("pass {pass} of {}: {name}", size.passes));
            runs.add(cpus, size.rounds)?;
        }
    }
    runs.into_iter().map(row).collect()
}

/// The prediction: counts and times of a worker in virtual time.
#[derive(Clone, Debug)]
struct Foretold {
    workload: Workload,
    counts: ProcessCounts,
    times: Vec<f64>,
}

impl Foretold {
    fn of(workload: Workload, profile: &Profile, rounds: usize) -> Self {
        let mut process = Process::new(profile);
        let times = workloads::run(workload, &mut process, rounds, workloads::GAP)
            .expect("nothing comes late by itself in virtual time");
        Self {
            workload,
            counts: process.counts(),
            times,
        }
    }
}

/// The runs of a workload on this machine.
#[derive(Clone, Debug)]
struct Runs {
    foretold: Foretold,
    counts: Vec<ProcessCounts>,
    times: Vec<f64>,
    disturbed: u32,
}

impl Runs {
    fn new(foretold: Foretold) -> Self {
        Self {
            foretold,
            counts: Vec::new(),
            times: Vec::new(),
            disturbed: 0,
        }
    }

    /// Executes the workload on a worker of this process, on a thread of its own, until a run is not disturbed.
    fn add(&mut self, cpus: &[u32], rounds: usize) -> Result<(), Failure> {
        let workload = self.foretold.workload;
        while self.disturbed < ATTEMPTS {
            // The counts are the same however far apart the deadlines are.
            let gap = workloads::GAP << (self.disturbed / PATIENCE).min(5);
            if let Ok(measured) = attempt(workload, cpus, rounds, gap)?
                && self.judge(&measured.counts, measured.is_preempted)
            {
                self.counts.push(measured.counts);
                self.times.extend(measured.times);
                return Ok(());
            }
            self.disturbed += 1;
        }
        Err(Failure::Machine(format!(
            "the machine disturbed {ATTEMPTS} runs of \"{}\": try again when it has less to do",
            workload.name()
        )))
    }

    /// Returns true if `counts` say something about the library. The kernel influences the counts of timers that fire,
    /// so these count if they are as predicted, or if they still differ in the last attempt and the kernel did not
    /// preempt the worker.
    fn judge(&self, counts: &ProcessCounts, is_preempted: bool) -> bool {
        !self.foretold.workload.waits_for_time()
            || *counts == self.foretold.counts
            || (self.disturbed + 1 == ATTEMPTS && !is_preempted)
    }
}

fn row(runs: Runs) -> Result<Row, Failure> {
    let Foretold {
        workload,
        counts: predicted,
        times: foretold,
    } = runs.foretold;
    // One that differs, if there is any.
    let mut all = runs.counts.into_iter();
    let differs = all.clone().find(|counts| *counts != predicted);
    let figures = Figure::of(foretold).zip(Figure::of(runs.times));
    let (Some(counts), Some((foretold, time))) = (differs.or(all.next()), figures) else {
        let wrong = format!("\"{}\" has no rounds", workload.name());
        return Err(Failure::Machine(wrong));
    };
    let foretold = foretold.value;
    Ok(Row {
        workload: workload.name(),
        timers: workload.timers,
        made_of: workload.made_of(),
        counts_equal: differs.is_none(),
        counts: Both {
            predicted,
            measured: counts,
        },
        ns: Both {
            predicted: foretold,
            measured: time.value,
        },
        measured_spread: [time.low, time.high],
        ratio: foretold / time.value,
        holds: (foretold - time.value).abs() <= WITHIN * time.value,
        leaves_out: workload.leaves_out(),
    })
}

/// A run of a workload on this machine.
#[derive(Debug)]
struct Measured {
    counts: ProcessCounts,
    times: Vec<f64>,
    /// True if the kernel took the CPU from the worker during the run.
    is_preempted: bool,
}

type Attempt = Result<Measured, Disturbed>;

fn attempt(workload: Workload, cpus: &[u32], rounds: usize, gap: i64) -> Result<Attempt, Failure> {
    let (cpu, other) = (cpus[0], *cpus.get(1).unwrap_or(&cpus[0]));
    let run = || {
        let mut real = Real::new(cpu, other)?;
        let rounds = workloads::run(workload, &mut real, rounds, gap);
        let (counts, is_preempted) = (subject::Subject::counts(&real), real.is_preempted());
        Ok(rounds.map(|times| Measured {
            counts,
            times,
            is_preempted,
        }))
    };
    std::thread::scope(|scope| {
        let running = scope.spawn(run);
        running
            .join()
            .map_err(|_| Failure::Machine(format!("\"{}\" panicked", workload.name())))?
    })
}

#[cfg(test)]
mod tests {
    use super::{ATTEMPTS, Foretold, Runs, workloads};
    use tickless_sim::ProcessCounts;

    fn runs(name: &str) -> Runs {
        let workload = workloads::ALL
            .into_iter()
            .find(|workload| workload.name() == name);
        Runs::new(Foretold {
            workload: workload.expect("there is one"),
            counts: ProcessCounts::default(),
            times: Vec::new(),
        })
    }

    #[test]
    fn counts_that_the_kernel_decided_are_tried_again_and_reported_at_last() {
        let other = ProcessCounts {
            wakes: 9,
            ..ProcessCounts::default()
        };
        let mut sleeps = runs("sleep, push out, give up");
        assert!(sleeps.judge(&ProcessCounts::default(), false));
        assert!(!sleeps.judge(&other, false));
        sleeps.disturbed = ATTEMPTS - 1;
        assert!(
            sleeps.judge(&other, false),
            "a difference that stays is told"
        );
        assert!(!sleeps.judge(&other, true), "a preemption may explain it");
        assert!(sleeps.judge(&ProcessCounts::default(), true));
        assert!(!runs("fire an exact timer").judge(&other, false));
        assert!(!runs("fire a coarse timer").judge(&other, false));
        assert!(
            runs("start in place").judge(&other, true),
            "a worker whose timers do not fire counts for itself"
        );
    }
}

//! `tickless clock`: the cost of reading the time on this machine, and the sources that can be trusted.
//!
//! The verdict comes from the core's watchdog: [`FrequencyCheck`](tickless_core::clock::watchdog::FrequencyCheck)
//! against the kernel's monotonic clock, and an exchange of readings between CPUs.

mod arguments;
mod json;
mod measure;
mod report;
mod source;
mod watch;

use std::time::{Duration, Instant};

use tickless::clock::{Refusal, time_stamp_counter};
use tickless_core::clock::watchdog::CounterVerdict as Judged;

pub(crate) use arguments::Arguments;
use arguments::Plan;
use measure::{Drift, Pursuit, Skew};
use source::{KernelSources, Source, Unit, WallClock};
use watch::Follower;

use crate::failure::{CheckVerdict, Failure};
use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::output::{self, Progress, Screen};
use crate::page;

/// The time between two checks of the rates, and of the signal that ends the run.
const CHECK: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(50);
/// The time limit for the library to measure the counter's rate. The measurement takes 20 ms unless the thread does not
/// get the CPU.
const PATIENCE: Duration = Duration::from_secs(1);

/// The results for one source. A figure is `None` if it was not measured, or does not apply.
#[derive(Debug)]
struct Row {
    source: Source,
    alone: Option<f64>,
    contended: Option<f64>,
    resolution: Option<f64>,
    pursuit: Option<Pursuit>,
    skews: Vec<Skew>,
}

/// The verdict on a source, as a word and a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Judgement {
    word: &'static str,
    reason: Option<String>,
}

/// A finished run: the results for all sources.
#[derive(Debug)]
struct Finished<'r> {
    plan: &'r Plan,
    machine: Machine,
    kernel: KernelSources,
    /// The rate of the time-stamp counter, in hertz.
    rate: Result<u64, Refusal>,
    rows: Vec<Row>,
    wall_clocks: Vec<WallClock>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    let plan = arguments.settle()?;
    let json = output::prepare_json(&arguments.output)?;
    let page = page::prepare(arguments.report.as_ref())?;
    let screen = Screen::new(&arguments.output);
    let progress = Progress::new(&arguments.output);
    let interrupt = Interrupt::catch()?;
    let rate = rate()?;
    let mut finished = Finished {
        plan: &plan,
        machine: Machine::read(),
        kernel: KernelSources::read(),
        rate,
        rows: source::all().into_iter().map(Row::new).collect(),
        wall_clocks: source::wall_clocks(),
    };
    finished.measure(&interrupt, &progress)?;
    drop(progress);
    let found = report::of(&finished)?;
    // The page before the table: a reader that closes standard output early has it nevertheless.
    if let Some(page) = page {
        page.write(found.page().as_bytes())?;
    }
    screen.print(&found.text())?;
    let mut followed = None;
    if let Some(duration) = plan.watch {
        let mut follower = Follower::new(&finished);
        follower.follow(duration, &interrupt, &screen)?;
        followed = Some(follower);
    }
    if let Some(json) = json {
        json.write_json(&json::of(&finished, followed.as_ref()))?;
    }
    let is_bad = finished
        .rows
        .iter()
        .any(|row| row.judge(&finished.rate).word == BAD)
        || followed.is_some_and(|follower| follower.has_seen_bad());
    Ok(CheckVerdict::from_passed(!is_bad))
}

/// Returns the rate of the time-stamp counter, as the library measures it in its first 20 ms.
fn rate() -> Result<Result<u64, Refusal>, Failure> {
    let worker = tickless::Worker::new()
        .map_err(|error| Failure::Machine(format!("cannot make a worker: {error}")))?;
    let start = Instant::now();
    loop {
        match time_stamp_counter() {
            Err(Refusal::Calibrating) if start.elapsed() < PATIENCE => {
                // Reads the clock, which is what calibrates it.
                let _nothing_armed = worker.is_due();
            }
            settled => return Ok(settled),
        }
    }
}

impl Finished<'_> {
    fn measure(&mut self, interrupt: &Interrupt, progress: &Progress) -> Result<(), Failure> {
        let hertz = self.rate.clone().ok();
        for row in &mut self.rows {
            if interrupt.is_requested() {
                return Ok(());
            }
            progress.show(&format!("reading {}", row.source.name));
            let cost = measure::cost_alone(&row.source);
            row.alone = Some(cost);
            row.resolution = measure::resolution(&row.source, cost, hertz);
            row.pursuit = Pursuit::new(&row.source, row.resolution, hertz);
        }
        let mut next = Instant::now();
        let end = next + self.plan.measure;
        self.check(&mut next);
        for place in 0..self.rows.len() {
            if interrupt.is_requested() {
                return Ok(());
            }
            let row = &mut self.rows[place];
            progress.show(&format!("reading {} on all CPUs", row.source.name));
            row.contended = Some(measure::cost_contended(&row.source, &self.plan.cpus)?);
            let is_fine = row.resolution.is_some_and(|step| step <= measure::STEP_MAX);
            let is_compared = row.source.is_ordered && is_fine;
            if let Some(pursuit) = row.pursuit.as_ref().filter(|_| is_compared) {
                row.skews = measure::skews(&row.source, pursuit.counter(), &self.plan.cpus)?;
            }
            self.check(&mut next);
        }
        progress.show("measuring the drift");
        while Instant::now() < end && !interrupt.is_requested() {
            std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
            self.check(&mut next);
        }
        next = Instant::now();
        self.check(&mut next);
        Ok(())
    }

    /// Checks the rates, if a check is due.
    fn check(&mut self, next: &mut Instant) {
        if Instant::now() < *next {
            return;
        }
        for row in &mut self.rows {
            if let Some(pursuit) = &mut row.pursuit {
                let _kept_by_it = pursuit.step();
            }
        }
        *next = Instant::now() + CHECK;
    }
}

const GOOD: &str = "good";
const BAD: &str = "bad";
const INCONCLUSIVE: &str = "inconclusive";
const NOT_JUDGED: &str = "not judged";

impl Row {
    fn new(source: Source) -> Self {
        Self {
            source,
            alone: None,
            contended: None,
            resolution: None,
            pursuit: None,
            skews: Vec::new(),
        }
    }

    fn drift(&self) -> Option<Drift> {
        self.pursuit.as_ref()?.drift()
    }

    /// Returns the largest skew that was measured.
    fn skew(&self) -> Option<&Skew> {
        let known = self.skews.iter().filter(|skew| skew.ahead.is_finite());
        known.max_by(|one, other| one.ahead.abs().total_cmp(&other.ahead.abs()))
    }

    fn judge(&self, rate: &Result<u64, Refusal>) -> Judgement {
        if let (Unit::Cycles, Err(refusal)) = (self.source.unit, rate) {
            return Judgement::new(NOT_JUDGED, refusal.to_string());
        }
        if self.source.unit == Unit::CpuNanos {
            let reason = "no time that passes";
            return Judgement::new(NOT_JUDGED, reason.to_owned());
        }
        let lags = self.skews.iter().find_map(|skew| match skew.verdict {
            Judged::Bad(reason) => Some(reason),
            _ => None,
        });
        let rate = self.pursuit.as_ref().and_then(Pursuit::verdict);
        match (lags, rate) {
            // An administrator, or a daemon, may have set it within the interval.
            (None, Some(Judged::Bad(reason))) if self.source.is_set => {
                Judgement::new(INCONCLUSIVE, format!("it {reason}, or was set"))
            }
            (Some(reason), _) | (None, Some(Judged::Bad(reason))) => {
                Judgement::new(BAD, format!("it {reason}"))
            }
            (_, Some(Judged::Good { .. })) => Judgement {
                word: GOOD,
                reason: self.unsure(),
            },
            (_, Some(Judged::Inconclusive(doubt))) => {
                Judgement::new(INCONCLUSIVE, doubt.to_string())
            }
            (_, None) => Judgement::new(NOT_JUDGED, "the run ended before".to_owned()),
        }
    }

    /// Returns the reservation about a source that is good.
    fn unsure(&self) -> Option<String> {
        if !self.source.is_ordered {
            return Some("within one thread: it is not ordered".to_owned());
        }
        let doubt = self.skews.iter().find_map(|skew| match skew.verdict {
            Judged::Inconclusive(doubt) => Some(doubt),
            _ => None,
        });
        doubt.map(|doubt| format!("on each CPU; {doubt}"))
    }
}

impl Judgement {
    fn new(word: &'static str, reason: String) -> Self {
        Self {
            word,
            reason: Some(reason),
        }
    }
}

//! `tickless sim run`: one scenario.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tickless_sim::world::record::{End, Header, Record, SharedSink, Sink};
use tickless_sim::world::{self, Outcome, Picos, Scenario};

use super::input::{self, Chosen, Input};
use super::timeline::{Part, Picture, Window};
use super::trace::Writer;
use super::{page, parallel, report, summary};
use crate::failure::{Failure, Verdict};
use crate::output::{self, OutFile, Place, Progress, Screen};
use crate::units;

/// Runs a scenario: a machine, its policies, and what runs on it.
///
/// The file is TOML; docs/simulator.md describes it. Times have a unit, CPUs are named as in 0,4-7, all, isolated or
/// housekeeping, and unknown keys are refused.
///
/// Checked: every promise of the library, at each event or every 10 ms of virtual time.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = examples())]
pub(crate) struct Arguments {
    /// Scenario; `-` is standard input
    #[arg(value_name = "FILE.toml")]
    file: Input,

    /// Number that decides on everything that is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Machine to run on, instead of the one that the scenario names: a file, a name, or local for local.toml
    #[arg(long, value_name = "PROFILE")]
    profile: Option<Chosen>,

    /// Run it twice, and check that both runs are identical to the byte
    #[arg(long)]
    twice: bool,

    /// Write everything that happens to this file, for `tickless verify`; `-` is standard output
    #[arg(long, value_name = "OUT.jsonl")]
    trace: Option<Place>,

    /// Write a page with plots to this file
    #[arg(long, value_name = "OUT.html")]
    report: Option<PathBuf>,

    /// Draw what happened from this moment on, instead of around what was broken first or the latest timer
    #[arg(long, value_name = "TIME", value_parser = moment, requires = "report")]
    timeline_from: Option<Picos>,

    /// Draw as much of it
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "4ms", requires = "report")]
    timeline_for: Duration,

    #[command(flatten)]
    output: output::Options,
}

fn examples() -> String {
    format!(
        "\
Profiles that come with the command: {}

Examples:
  tickless sim run crates/tickless-sim/scenarios/network.toml
  tickless sim run my.toml --seed 7 --twice
  tickless sim run my.toml --profile local
      On a machine like this one, after tickless sim calibrate
  tickless sim run my.toml --report my.html
  tickless sim run my.toml --report my.html --timeline-from 30ms --timeline-for 500us
  tickless sim run my.toml --trace - | tickless verify -
  tickless sim run my.toml --json - | jq .outcome.counts.remote_fires
  sed 's/cpus = 8/cpus = 64/' my.toml | tickless sim run -

Exit codes: 0 every promise was kept, 1 one was broken, 2 bad arguments or a bad file.",
        input::profiles()
    )
}

/// What is written as JSON. Times are picoseconds.
#[derive(Debug, Serialize)]
struct Document<'r> {
    scenario: &'r Scenario,
    holds: bool,
    outcome: &'r Outcome,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let profile = arguments.profile.as_ref().map(Chosen::read);
    let scenario = input::scenario(&arguments.file, profile.transpose()?.as_ref())?;
    let traces_to_screen = arguments.trace == Some(Place::StandardOutput);
    if traces_to_screen && arguments.output.json == Some(Place::StandardOutput) {
        return Err(Failure::Input(
            "--trace - and --json - would mix; give one of them a file name".to_owned(),
        ));
    }
    if let Some(from) = arguments
        .timeline_from
        .filter(|from| *from >= scenario.duration)
    {
        return Err(Failure::Input(format!(
            "--timeline-from {from}: the run is over after {}; give an earlier moment",
            scenario.duration
        )));
    }
    let report = page::prepare(arguments.report.as_ref())?;
    let json = output::prepare_json(&arguments.output)?;
    let trace = arguments.trace.as_ref().map(OutFile::prepare).transpose()?;
    let (outcome, picture) = {
        let progress = Progress::new(&arguments.output);
        progress.show(&format!(
            "{} of {} on {} CPUs",
            scenario.duration, scenario.name, scenario.cpus
        ));
        let work = || recorded(&scenario, arguments, trace);
        parallel::apart(work)
            .map_err(|story| Failure::Machine(format!("the simulator panicked: {story}")))??
    };
    if let Some(report) = report {
        report.write(
            report::of(&scenario, &outcome, picture.as_ref(), arguments.twice)?.as_bytes(),
        )?;
    }
    if let Some(json) = json {
        json.write_json(&Document {
            scenario: &scenario,
            holds: outcome.holds(),
            outcome: &outcome,
        })?;
    }
    if !traces_to_screen {
        let mut text = summary::text(&scenario, &outcome);
        if arguments.twice && outcome.holds() {
            text.push_str("Both runs were identical.\n");
        }
        Screen::new(&arguments.output).print(&text)?;
    }
    Ok(Verdict::from_held(outcome.holds()))
}

/// A moment of a run, from 0 on.
fn moment(text: &str) -> Result<Picos, String> {
    Picos::parse(text)
        .ok_or_else(|| format!("{text:?} is no moment: write a number and a unit, such as 5ms"))
}

/// Runs it, with whatever of it is to be recorded.
fn recorded(
    scenario: &Scenario,
    arguments: &Arguments,
    trace: Option<OutFile>,
) -> Result<(Outcome, Option<Picture>), Failure> {
    let writer = trace.map(|file| Rc::new(RefCell::new(Writer::new(file))));
    let window = |from: Option<Picos>| {
        let length = u64::try_from(arguments.timeline_for.as_nanos()).unwrap_or(u64::MAX);
        let from = from.map(Picos::as_nanos);
        Rc::new(RefCell::new(Window::new(Part { from, length })))
    };
    let mut drawn = (arguments.report.is_some()).then(|| window(arguments.timeline_from));
    let sinks = writer.iter().map(|one| Rc::clone(one) as SharedSink);
    let sinks = sinks.chain(drawn.iter().map(|one| Rc::clone(one) as SharedSink));
    let outcome = run_with(scenario, arguments, sinks.collect());
    if let Some(writer) = writer.and_then(Rc::into_inner) {
        writer.into_inner().finish()?;
    }
    let is_asked = arguments.timeline_from.is_some();
    if let Some(first) = outcome
        .violations
        .first()
        .filter(|_| drawn.is_some() && !is_asked)
    {
        // The same run once more, because nobody knew that this would be the interesting moment.
        let before = arguments.timeline_for * 3 / 4;
        let before = Picos::from_nanos(u64::try_from(before.as_nanos()).unwrap_or(u64::MAX));
        let again = window(Some(first.at.saturating_sub(before)));
        let _same = world::run_recorded(scenario, arguments.seed, Rc::clone(&again) as SharedSink);
        drawn = Some(again);
    }
    let picture = drawn.and_then(Rc::into_inner);
    Ok((
        outcome,
        picture.and_then(|window| window.into_inner().picture()),
    ))
}

fn run_with(scenario: &Scenario, arguments: &Arguments, mut sinks: Vec<SharedSink>) -> Outcome {
    let seed = arguments.seed;
    let sink = match sinks.len() {
        0 if arguments.twice => return world::run_twice(scenario, seed),
        0 => return world::run(scenario, seed),
        1 => sinks.remove(0),
        _ => Rc::new(RefCell::new(Several(sinks))) as SharedSink,
    };
    if arguments.twice {
        world::run_twice_recorded(scenario, seed, sink)
    } else {
        world::run_recorded(scenario, seed, sink)
    }
}

/// Tells all of them.
struct Several(Vec<SharedSink>);

impl Sink for Several {
    fn begin(&mut self, header: &Header) {
        self.0.iter().for_each(|one| one.borrow_mut().begin(header));
    }

    fn take(&mut self, record: &Record) {
        self.0.iter().for_each(|one| one.borrow_mut().take(record));
    }

    fn end(&mut self, end: End) {
        self.0.iter().for_each(|one| one.borrow_mut().end(end));
    }
}

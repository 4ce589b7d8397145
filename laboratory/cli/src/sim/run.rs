//! `tickless sim run`: runs one scenario.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tickless_sim::record::{End, Header, Record, SharedSink, Sink};
use tickless_sim::{Outcome, Picos, Scenario};

use super::input::{self, Chosen, Input};
use super::timeline::{Part, Picture, Window};
use super::trace::{Size, Tally, Writer};
use super::{parallel, report, scenarios, summary};
use crate::failure::{CheckVerdict, Failure};
use crate::output::{self, OutFile, Place, Progress, Screen};
use crate::table::{Align, table};
use crate::{stream, units};

/// Runs a scenario: a machine, its policies, and its workloads.
///
/// The file is TOML; laboratory/docs/simulator.md describes it. Times have a unit, CPUs are named as in 0,4-7, all, isolated or
/// housekeeping, and unknown keys are refused.
///
/// Checked: every promise of the library, at each event or every 10 ms of virtual time.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = examples())]
pub(crate) struct Arguments {
    /// Scenario: a file, or the name of one that comes with the command; `-` is standard input
    #[arg(value_name = "FILE.toml", required_unless_present = "list")]
    file: Option<Input>,

    /// List the scenarios that come with the command
    #[arg(long, exclusive = true)]
    list: bool,

    /// Seed of all random decisions
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Machine to run on, instead of that of the scenario: a file or a name
    #[arg(long, value_name = "PROFILE")]
    profile: Option<Chosen>,

    /// Run it twice, and check that both runs are identical to the byte
    #[arg(long)]
    twice: bool,

    /// Write all events to this file, for `tickless verify`; `-` is standard output
    ///
    /// It is compressed if the name ends in .gz. A second of a large machine may be several gigabytes. A run that is ended
    /// leaves nothing.
    #[arg(long, value_name = "OUT.jsonl")]
    trace: Option<Place>,

    /// Write a page with the figures and a picture of a part of the run to this file
    #[arg(long, value_name = "OUT.html", value_parser = crate::page::file())]
    report: Option<PathBuf>,

    /// Draw the run from this moment on, instead of around the first broken promise or the latest timer
    #[arg(long, value_name = "TIME", value_parser = moment, requires = "report")]
    timeline_from: Option<Picos>,

    /// Length of the part of the run that is drawn
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "4ms", requires = "report")]
    timeline_for: Duration,

    #[command(flatten)]
    output: output::Options,
}

fn examples() -> String {
    format!(
        "\
Scenarios that come with the command, see --list: {}
Profiles that come with the command: {}

Examples:
  tickless sim run network
  tickless sim run my.toml --seed 7 --twice
  tickless sim run my.toml --report my.html
  tickless sim run my.toml --report my.html --timeline-from 30ms --timeline-for 500us
  tickless sim run my.toml --trace - | tickless verify -
  tickless sim run my.toml --json - | jq .outcome.counts.remote_fires
  sed 's/cpus = 8/cpus = 64/' my.toml | tickless sim run -

Exit codes: 0 every promise was kept, 1 one was broken, 2 bad arguments or a bad file.",
        scenarios::names(),
        input::profiles()
    )
}

/// The document for JSON, with times in picoseconds.
#[derive(Debug, Serialize)]
struct Document<'r> {
    scenario: &'r Scenario,
    holds: bool,
    outcome: &'r Outcome,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    let profile = arguments.profile.as_ref().map(Chosen::read);
    let Some(file) = &arguments.file else {
        return list();
    };
    let scenario = input::scenario(file, profile.transpose()?.as_ref())?;
    let traces_to_screen = arguments.trace == Some(Place::StandardOutput);
    if let Some(from) = arguments
        .timeline_from
        .filter(|from| *from >= scenario.duration)
    {
        return Err(Failure::Input(format!(
            "--timeline-from {from}: the run is over after {}; give an earlier moment",
            scenario.duration
        )));
    }
    let mut others = Vec::new();
    if let Input::File(path) = file {
        others.push(("the scenario", Some(Place::File(path.clone()))));
    }
    if let Some(Chosen::File(path)) = &arguments.profile {
        others.push(("--profile", Some(Place::File(path.clone()))));
    }
    let report = arguments.report.clone().map(Place::File);
    others.push(("--trace", arguments.trace.clone()));
    others.push(("--report", report.clone()));
    let json = output::prepare_json_beside(&others, &arguments.output)?;
    let report = report.as_ref().map(OutFile::prepare).transpose()?;
    if let Some(place) = &arguments.trace {
        stream::check_name(place)?;
    }
    let trace = arguments.trace.as_ref().map(OutFile::prepare).transpose()?;
    let Done {
        outcome,
        picture,
        size,
    } = awaited(&scenario, arguments, trace)?;
    if let Some(report) = report {
        let page = report::of(&scenario, &outcome, picture.as_ref(), arguments.twice);
        report.write(page.as_bytes())?;
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
        if let Some(size) = size {
            text.push_str(&traced(size));
        }
        Screen::new(&arguments.output).print(&text)?;
    }
    Ok(CheckVerdict::from_passed(outcome.holds()))
}

/// The result of a run.
struct Done {
    outcome: Outcome,
    picture: Option<Picture>,
    size: Option<Size>,
}

/// The time between two looks at the progress.
const LOOK: Duration = Duration::from_millis(100);

/// Runs the scenario on a thread of its own, and shows its progress meanwhile.
fn awaited(
    scenario: &Scenario,
    arguments: &Arguments,
    trace: Option<OutFile>,
) -> Result<Done, Failure> {
    let (tell, told) = mpsc::channel();
    let tally = Arc::new(Tally::default());
    let work = {
        let (scenario, arguments) = (scenario.clone(), arguments.clone());
        let tally = Arc::clone(&tally);
        move || {
            let _heard = tell.send(Box::new(recorded(&scenario, &arguments, trace, &tally)));
        }
    };
    let thread = thread::Builder::new().name("run".to_owned()).spawn(work);
    let thread =
        thread.map_err(|error| Failure::Machine(format!("cannot start a thread: {error}")))?;
    let progress = Progress::new(&arguments.output);
    loop {
        progress.show(&doing(scenario, &tally));
        match told.recv_timeout(LOOK) {
            Ok(done) => return *done,
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
    drop(progress);
    let story = parallel::story(thread);
    Err(Failure::Machine(format!("the simulator panicked: {story}")))
}

fn doing(scenario: &Scenario, tally: &Tally) -> String {
    let (time, bytes) = tally.now();
    let of = format!(
        "{} of {} on {}",
        scenario.duration,
        scenario.name,
        units::counted(scenario.cpus.into(), "CPU")
    );
    match bytes {
        0 => of,
        bytes => format!(
            "{} of {of}, trace {}",
            units::nanos(Picos::from_nanos(time).min(scenario.duration).as_nanos() as f64),
            units::bytes(bytes)
        ),
    }
}

fn traced(size: Size) -> String {
    format!(
        "Trace: {}, {}.\n",
        units::counted(size.lines, "line"),
        units::bytes(size.bytes)
    )
}

fn list() -> Result<CheckVerdict, Failure> {
    let rows = scenarios::SHIPPED
        .iter()
        .map(|one| vec![one.name.to_owned(), one.about()]);
    let text = table(
        &["scenario", ""],
        &[Align::Left, Align::Left],
        rows.collect(),
    );
    output::print(text.as_bytes())?;
    Ok(CheckVerdict::Passed)
}

/// Parses a moment of a run, from 0 on.
fn moment(text: &str) -> Result<Picos, String> {
    Picos::parse(text)
        .ok_or_else(|| format!("{text:?} is no moment: write a number and a unit, such as 5ms"))
}

/// Runs the scenario, and records the trace and the timeline if they are requested.
fn recorded(
    scenario: &Scenario,
    arguments: &Arguments,
    trace: Option<OutFile>,
    tally: &Arc<Tally>,
) -> Result<Done, Failure> {
    let writer = trace.zip(arguments.trace.as_ref());
    let writer = writer.map(|(file, place)| {
        let writer = Writer::new(file, place, Arc::clone(tally));
        Rc::new(RefCell::new(writer))
    });
    let window = |from: Option<Picos>| {
        let length = u64::try_from(arguments.timeline_for.as_nanos()).unwrap_or(u64::MAX);
        let from = from.map(Picos::as_nanos);
        Rc::new(RefCell::new(Window::new(Part { from, length })))
    };
    let mut drawn = (arguments.report.is_some()).then(|| window(arguments.timeline_from));
    let sinks = writer.iter().map(|one| Rc::clone(one) as SharedSink);
    let sinks = sinks.chain(drawn.iter().map(|one| Rc::clone(one) as SharedSink));
    let outcome = run_with(scenario, arguments, sinks.collect());
    let writer = writer.and_then(Rc::into_inner);
    let size = writer.map(|writer| writer.into_inner().finish());
    let size = size.transpose()?;
    let is_asked = arguments.timeline_from.is_some();
    if let Some(first) = outcome
        .violations
        .first()
        .filter(|_| drawn.is_some() && !is_asked)
    {
        // The same run once more, because only its end told which moment is the interesting one.
        let before = arguments.timeline_for * 3 / 4;
        let before = Picos::from_nanos(u64::try_from(before.as_nanos()).unwrap_or(u64::MAX));
        let again = window(Some(first.at.saturating_sub(before)));
        let _same =
            tickless_sim::run_recorded(scenario, arguments.seed, Rc::clone(&again) as SharedSink);
        drawn = Some(again);
    }
    let picture = drawn.and_then(Rc::into_inner);
    Ok(Done {
        outcome,
        picture: picture.and_then(|window| window.into_inner().picture()),
        size,
    })
}

fn run_with(scenario: &Scenario, arguments: &Arguments, mut sinks: Vec<SharedSink>) -> Outcome {
    let seed = arguments.seed;
    let sink = match sinks.len() {
        0 if arguments.twice => return tickless_sim::run_twice(scenario, seed),
        0 => return tickless_sim::run(scenario, seed),
        1 => sinks.remove(0),
        _ => Rc::new(RefCell::new(Several(sinks))) as SharedSink,
    };
    if arguments.twice {
        tickless_sim::run_twice_recorded(scenario, seed, sink)
    } else {
        tickless_sim::run_recorded(scenario, seed, sink)
    }
}

/// Passes each event on to several recorders.
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

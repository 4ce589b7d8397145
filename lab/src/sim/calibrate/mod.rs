//! `tickless sim calibrate`: a profile of this machine, measured in user space.

mod alone;
mod costs;
mod figure;
mod pairs;
mod shape;

use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use tickless::Worker;
use tickless::topology::{CpuSet, Topology};
use tickless_sim::{Costs, Distance, Picos, Profile};

pub(super) use alone::{cpu_time, warm_up};
pub(super) use figure::Figure;

use crate::failure::{CheckVerdict, Failure};
use crate::machine::Machine;
use crate::output::{self, OutFile, Place, Progress, Screen};
use crate::scheduling;
use crate::table::{Align, table};
use costs::{Alone, Measured};
use pairs::Budget;
use shape::Shape;

/// Measures the costs of operations on this machine, and writes them as a profile.
///
/// Everything is measured in user space, on the library as programs use it: clocks, loads, lines and locks between
/// CPUs, waking and switching threads, and the paths of timer operations without lock, clock and queue, by subtraction.
/// Costs that user space cannot measure, for example interrupts, are taken from a profile that comes with the command,
/// and their source says so. Other programs can only make an operation slower, so each cost is measured in many short
/// rounds, and the figure `use` is the median of the faster half. The medians of the fastest quarter and of the slower
/// half are `low` and `high`.
///
/// It takes about 5 seconds on a quiet machine, one with --quick; two CPUs are kept busy meanwhile.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// File to write the profile to; `-` is standard output, and then nothing else is printed there
    #[arg(short, long, value_name = "FILE.toml", default_value = LOCAL)]
    output: OsString,

    #[command(flatten)]
    effort: Effort,

    #[command(flatten)]
    options: output::Options,
}

/// The name of the file for this machine's profile, unless the user names another.
pub(super) const LOCAL: &str = "local.toml";

/// The CPUs to measure on, and the amount of measuring.
#[derive(Clone, Debug, Args)]
pub(super) struct Effort {
    /// CPUs to measure on, such as 0,2-3: the first of them, and others for the costs between two CPUs [default: all
    /// that this process may use]
    #[arg(long, value_name = "LIST")]
    pub(super) cpus: Option<String>,

    /// Measure a tenth of the rounds
    #[arg(long)]
    pub(super) quick: bool,
}

const EXAMPLES: &str = "\
Examples:
  tickless sim calibrate
      Writes local.toml
  tickless sim run crates/tickless-sim/scenarios/network.toml --profile local
      A scenario on a machine like this one; one that names the profile \"local\" finds it too
  tickless sim calibrate --cpus 2-3 --quick -o - | less
  tickless sim predict --profile local
      What the profile foretells of this machine, and what comes true

Exit codes: 0 done, 2 bad arguments, 3 the machine lacks something that was asked for.";

/// The document for JSON, with times in picoseconds.
#[derive(Debug, Serialize)]
struct Document<'r> {
    machine: &'r Machine,
    seconds: f64,
    profile: &'r Profile,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    let place = Place::from(arguments.output.clone());
    let json = arguments.options.json.as_ref();
    if place == Place::StandardOutput && json == Some(&Place::StandardOutput) {
        let wrong = "both -o and --json want standard output; give one of them a file";
        return Err(Failure::Input(wrong.to_owned()));
    }
    let file = OutFile::prepare(&place)?;
    let json = output::prepare_json(&arguments.options)?;
    let name = match &place {
        Place::File(path) => path.file_stem().unwrap_or(path.as_os_str()),
        Place::StandardOutput => Path::new(LOCAL).file_stem().unwrap_or_default(),
    };
    let machine = Machine::read();
    let start = Instant::now();
    let mut profile = measure(
        &arguments.effort,
        &machine,
        &Progress::new(&arguments.options),
    )?;
    profile.name = name.to_string_lossy().into_owned();
    let seconds = start.elapsed().as_secs_f64();
    file.write(profile.to_toml().as_bytes())?;
    if let Some(json) = json {
        json.write_json(&Document {
            machine: &machine,
            seconds,
            profile: &profile,
        })?;
    }
    if place != Place::StandardOutput {
        let mut text = summary(&profile);
        // Writing to a string cannot fail.
        let _infallible = writeln!(
            text,
            "\nMeasured in {seconds:.1} s; written to {}.",
            Path::new(&arguments.output).display()
        );
        Screen::new(&arguments.options).print(&text)?;
    }
    Ok(CheckVerdict::Passed)
}

fn summary(profile: &Profile) -> String {
    let costs = Costs::NAMES.iter().filter_map(|name| {
        let cost = profile.costs.get(name)?;
        Some(vec![
            (*name).to_owned(),
            cost.value.to_string(),
            format!("{} to {}", cost.low, cost.high),
            format!("{:?}", cost.mark),
            cost.source.clone(),
        ])
    });
    let states = profile.idle.iter().map(|state| {
        vec![
            format!("idle: {}", state.name),
            state.exit.to_string(),
            String::new(),
            format!("{:?}", state.mark),
            state.source.clone(),
        ]
    });
    let head = ["cost", "use", "spread", "mark", "source"];
    let aligns = [
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Left,
        Align::Left,
    ];
    let rows = costs.chain(states).collect();
    format!("{}\n\n{}", profile.about, table(&head, &aligns, rows))
}

/// Returns the CPUs to measure on, as the user selected them.
pub(super) fn cpus(effort: &Effort, topology: &Topology) -> Result<Vec<u32>, Failure> {
    let allowed = topology.allowed().unwrap_or(topology.online());
    let allowed = allowed.intersection(topology.online());
    let set = match &effort.cpus {
        None => allowed,
        Some(list) => CpuSet::parse_within(list, &allowed)
            .map_err(|error| Failure::Input(format!("--cpus: {error}")))?,
    };
    if set.is_empty() {
        let wrong = "--cpus: there is no CPU to measure on; name one that this process may use";
        return Err(Failure::Input(wrong.to_owned()));
    }
    Ok(set.iter().collect())
}

/// Measures this machine, and returns its profile.
pub(super) fn measure(
    effort: &Effort,
    machine: &Machine,
    progress: &Progress,
) -> Result<Profile, Failure> {
    let topology = Topology::read().map_err(|error| Failure::Machine(error.to_string()))?;
    let cpus = cpus(effort, &topology)?;
    std::thread::scope(|scope| {
        let measuring = scope.spawn(|| measured(effort, &cpus, &topology, machine, progress));
        measuring
            .join()
            .map_err(|_| Failure::Machine("the measurement panicked".to_owned()))?
    })
}

/// The sleep of a thread whose lateness is measured.
const NAP: Duration = Duration::from_micros(300);

/// The sleep of a thread whose own processor time for a sleep is measured: long enough for other threads to replace its
/// data in the caches.
const LONG_NAP: Duration = Duration::from_millis(5);

fn measured(
    effort: &Effort,
    cpus: &[u32],
    topology: &Topology,
    machine: &Machine,
    progress: &Progress,
) -> Result<Profile, Failure> {
    let cpu = cpus[0];
    scheduling::pin(cpu, "--cpus")?;
    let worker = Worker::new().map_err(|error| Failure::Machine(error.to_string()))?;
    warm_up(&worker);
    let share = if effort.quick { 10 } else { 1 };
    let mut measured = Measured::new(machine);
    let mut alone = Alone::default();
    alone_on(&worker, 1_000 / share, &mut alone, progress);
    let budget = Budget {
        rounds: 1_000 / share,
        time: Duration::from_millis(500) / u32::try_from(share).unwrap_or(1),
    };
    progress.show("sleeping");
    let late = budget.collect(|| alone::lateness(&worker, NAP));
    let polls = pairs::polled_lateness(cpu, budget)?;
    measured.fires(late, polls);
    let sleeps = budget.collect(|| alone::sleep(LONG_NAP));
    progress.show("switching between threads");
    let wake = pairs::wake(&worker, cpu, budget)?;
    measured.switches(wake, pairs::switch(cpu, budget)?);
    for distance in [
        Distance::Core,
        Distance::Cache,
        Distance::Socket,
        Distance::Remote,
    ] {
        let is_there = |other: &&u32| shape::distance(topology, cpu, **other) == distance;
        let Some(other) = cpus.iter().skip(1).find(is_there) else {
            continue;
        };
        progress.show(&format!("from CPU {cpu} to CPU {other}"));
        let pair = (cpu, *other);
        let (line, hand) = (pairs::line(*other, budget)?, pairs::hand(*other, budget)?);
        measured.lines(distance, pair, line, hand);
        let asleep = pairs::wakes(*other, true, budget)?;
        let awake = pairs::wakes(*other, false, budget)?;
        measured.wakes(distance, pair, &asleep, &awake);
    }
    // Again, in case other programs slowed the machine down meanwhile.
    alone_on(&worker, 1_000 / share, &mut alone, progress);
    measured.alone(alone);
    measured.parks(sleeps, LONG_NAP);
    let shape = Shape::of(topology);
    let idle = shape::idle_states(
        cpu,
        measured.idle_exit(),
        Picos::from_nanos(u64::try_from(NAP.as_nanos()).unwrap_or(0)),
        measured.other(),
    );
    Ok(measured.into_profile(
        format!(
            "{}, measured in user space on CPU {}{}",
            machine.summary(),
            cpus.iter()
                .map(u32::to_string)
                .collect::<Vec<_>>()
                .join(","),
            shape.remark
        ),
        shape.topology,
        idle,
    ))
}

/// Measures rounds of the costs of a thread that is alone, at one moment of the measurement.
fn alone_on(worker: &Worker, rounds: usize, alone: &mut Alone, progress: &Progress) {
    let mut bench = alone::Bench::new(worker);
    for _ in 0..10 {
        let _warms_up = bench.round();
    }
    for round in 0..rounds {
        if round % 100 == 0 {
            progress.show(&format!("round {round} of {rounds}"));
        }
        alone.rounds.push(bench.round());
    }
    let fires = (0..rounds.div_ceil(20)).map(|_| bench.fire());
    alone.fires.extend(fires);
}

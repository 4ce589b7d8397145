//! `tickless sim fuzz`: scenarios drawn from seeds, every promise checked.

mod failed;

use clap::Args;
use serde::Serialize;
use tickless_sim::world::draw::Draft;
use tickless_sim::world::{self, Canary, Outcome, Promise, Scenario};

use super::parallel::{self, Done};
use crate::failure::{Failure, Verdict};
use crate::interrupt::Interrupt;
use crate::output::{self, Progress, Screen};
use crate::units;
use failed::Failed;

/// Draws scenarios, one from each seed, and runs them with every checker on.
///
/// Drawn are the machine, its size, which CPUs are isolated, and up to five workloads with their figures; the policies
/// are those of the library. A scenario that breaks a promise is printed as a file, and then made smaller for as long
/// as it breaks the same promise: without workloads, on half the CPUs, for half as long.
///
/// Checked: every promise of the library, and that the simulator does not panic.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// How many seeds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,

    /// The first of them
    #[arg(long, value_name = "K", default_value_t = 0)]
    from: u64,

    /// Run each twice, and check that both runs are identical to the byte
    #[arg(long)]
    twice: bool,

    /// Break this promise on purpose, to see that it is found
    #[arg(long, value_name = "NAME", hide = true, value_parser = canary)]
    canary: Option<Canary>,

    #[command(flatten)]
    output: output::Options,
}

const EXAMPLES: &str = "\
Examples:
  tickless sim fuzz --seeds 1000
  tickless sim fuzz --seeds 200 --from 1000 --twice
  tickless sim fuzz --seeds 1000000 --json found.json
      Ctrl-C ends it early, with what was found by then.

Exit codes: 0 every promise was kept, 1 one was broken, 2 bad arguments.";

/// Seeds that are given out at a time; between two lots it can be interrupted.
const LOT: u64 = 64;
/// Failures after which no more seeds are tried: one usually explains the others.
const FAILURES_MAX: usize = 10;

fn canary(name: &str) -> Result<Canary, String> {
    let promise = Promise::ALL.into_iter().find(|one| one.name() == name);
    promise.map(Canary).ok_or_else(|| {
        let known = Promise::ALL.map(Promise::name).join(", ");
        format!("there is no promise {name:?}; one of {known}")
    })
}

/// What is written as JSON.
#[derive(Debug, Serialize)]
struct Document<'f> {
    tickless_version: &'static str,
    from: u64,
    /// How many were tried.
    seeds: u64,
    twice: bool,
    holds: bool,
    failures: &'f [Failed],
}

/// How each draft is run.
#[derive(Clone, Copy, Debug)]
struct Trial {
    twice: bool,
    canary: Option<Canary>,
}

impl Trial {
    /// Runs it on the calling thread.
    fn outcome(self, draft: &Draft) -> Outcome {
        let scenario = Scenario::from_toml(&draft.to_toml(), "drawn.toml");
        let mut scenario =
            scenario.unwrap_or_else(|error| panic!("a wrong file was drawn: {error}"));
        scenario.canary = self.canary;
        if self.twice {
            world::run_twice(&scenario, draft.seed)
        } else {
            world::run(&scenario, draft.seed)
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let end = arguments.from.checked_add(arguments.seeds).ok_or_else(|| {
        Failure::Input(format!(
            "--from {} and --seeds {} go beyond the last seed, {}",
            arguments.from,
            arguments.seeds,
            u64::MAX
        ))
    })?;
    let json = output::prepare_json(&arguments.output)?;
    let screen = Screen::new(&arguments.output);
    let interrupt = Interrupt::catch()?;
    screen.print(&head(arguments))?;
    let (failures, next) =
        parallel::without_stories(|| tried(arguments, end, &interrupt, &screen))?;
    let tried = next - arguments.from;
    if let Some(json) = json {
        json.write_json(&Document {
            tickless_version: env!("CARGO_PKG_VERSION"),
            from: arguments.from,
            seeds: tried,
            twice: arguments.twice,
            holds: failures.is_empty(),
            failures: &failures,
        })?;
    }
    let what = match failures.len() as u64 {
        0 => "every promise was kept".to_owned(),
        broken => format!("{} FAILED", units::count(broken)),
    };
    let early = if next < end { ", ended early" } else { "" };
    screen.print(&format!(
        "{} tried{early}: {what}\n",
        units::counted(tried, "seed")
    ))?;
    Ok(Verdict::from_held(failures.is_empty()))
}

fn head(arguments: &Arguments) -> String {
    let twice = if arguments.twice { ", each twice" } else { "" };
    format!(
        "tickless {}, seeds {} to {}{twice}\n",
        env!("CARGO_PKG_VERSION"),
        arguments.from,
        arguments.from + (arguments.seeds - 1)
    )
}

/// Tries the seeds up to `end`: what failed, and the first seed that was not tried.
fn tried(
    arguments: &Arguments,
    end: u64,
    interrupt: &Interrupt,
    screen: &Screen,
) -> Result<(Vec<Failed>, u64), Failure> {
    let trial = Trial {
        twice: arguments.twice,
        canary: arguments.canary,
    };
    let progress = Progress::new(&arguments.output);
    let mut failures = Vec::new();
    let mut next = arguments.from;
    while next < end && failures.len() < FAILURES_MAX && !interrupt.is_requested() {
        let lot = LOT.min(end - next);
        let first = next;
        let work = |number: usize| trial.outcome(&Draft::of(first + number as u64));
        let lot_size = usize::try_from(lot).unwrap_or(1);
        let mut results = parallel::each(lot_size, work, |done, _| {
            let done = first - arguments.from + done as u64;
            progress.show(&format!(
                "{} of {}",
                units::count(done),
                units::counted(arguments.seeds, "seed")
            ));
        });
        next += lot;
        for (seed, result) in (first..).zip(results.drain(..)) {
            if holds(&result) || failures.len() == FAILURES_MAX {
                continue;
            }
            progress.show(&format!("making the scenario of seed {seed} smaller"));
            let failed = Failed::of(&Draft::of(seed), trial, &result);
            progress.show("");
            screen.print(&failed.text(arguments))?;
            failures.push(failed);
        }
    }
    Ok((failures, next))
}

fn holds(result: &Done<Outcome>) -> bool {
    result.as_ref().is_ok_and(Outcome::holds)
}

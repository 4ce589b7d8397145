//! `tickless sim fuzz`: runs random scenarios from seeds, and checks every promise.

mod drawn;
mod failed;
mod found;

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use serde::Serialize;
use tickless_sim::draw::Draft;
use tickless_sim::{Canary, Outcome, Promise};

use super::parallel::{self, Done};
use crate::failure::{CheckVerdict, Failure};
use crate::interrupt::Interrupt;
use crate::output::{self, Progress, Screen};
use crate::units;
use drawn::Drawn;
use failed::{Failed, Trial};
use found::{Directory, Found, Group};

/// Draws random scenarios, one from each seed, and runs them with every checker on.
///
/// A scenario has a random machine with its size, its devices and counter, the stand-in for devices that stop in deep
/// idle, the isolated CPUs, and up to five workloads with their figures. A quarter of the scenarios have random faults,
/// too. The policies are those of the library. The search continues until the seeds or the time are used up, even after
/// failures.
///
/// Failures are grouped by the broken promise and the class of machine. The first scenario of a group is printed as a
/// file, and then made smaller as long as it breaks the same promise: without workloads, on half the CPUs, for half as
/// long. The output ends with the number of scenarios of each class.
///
/// Checked: every promise of the library, and that the simulator does not panic.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
#[group(id = "budget", required = true, multiple = true, args = ["seeds", "time"])]
pub(crate) struct Arguments {
    /// Number of seeds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,

    /// Length of the search, such as 60s; with --seeds, the search ends at the limit that it reaches first
    #[arg(long = "for", id = "time", value_name = "TIME", value_parser = units::duration)]
    time: Option<Duration>,

    /// First seed, or `fresh` for one that has not been tried: the time in microseconds
    #[arg(long, value_name = "K", default_value = "0", value_parser = From::parse)]
    from: From,

    /// Run each scenario twice, and check that both runs are identical to the byte
    #[arg(long)]
    twice: bool,

    /// Keep the scenarios that fail in this directory, as PROMISE-SEED.toml, and their smallest forms next to them
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,

    /// Break this promise on purpose, to see that the search finds it
    #[arg(long, value_name = "NAME", hide = true, value_parser = canary)]
    canary: Option<Canary>,

    #[command(flatten)]
    output: output::Options,
}

const EXAMPLES: &str = "\
Examples:
  tickless sim fuzz --seeds 1000
  tickless sim fuzz --for 60s --from fresh --save found
      Seeds that were never tried before
  tickless sim fuzz --seeds 200 --from 1000 --twice
  tickless sim fuzz --seeds 1000000 --json found.json
      Ctrl-C ends it early, with what was found by then.

Exit codes: 0 every promise was kept, 1 one was broken, 2 bad arguments.";

/// The number of seeds in a lot. Between two lots the search can be interrupted, and the time can run out.
const LOT: u64 = 64;

/// The first seed.
#[derive(Clone, Copy, Debug)]
enum From {
    Seed(u64),
    Fresh,
}

impl From {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "fresh" {
            return Ok(Self::Fresh);
        }
        let seed = text.parse().map(Self::Seed);
        seed.map_err(|_| format!("{text:?} is no seed: write a number, or fresh"))
    }

    /// Returns the first seed. Fresh seeds of two runs do not overlap, because a seed takes longer than a microsecond.
    fn first(self) -> u64 {
        match self {
            Self::Seed(seed) => seed,
            Self::Fresh => {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                now.map_or(0, |now| u64::try_from(now.as_micros()).unwrap_or(0))
            }
        }
    }
}

fn canary(name: &str) -> Result<Canary, String> {
    let promise = Promise::ALL.into_iter().find(|one| one.name() == name);
    promise.map(Canary).ok_or_else(|| {
        let known = Promise::ALL.map(Promise::name).join(", ");
        format!("there is no promise {name:?}; one of {known}")
    })
}

/// The document for JSON.
#[derive(Debug, Serialize)]
struct Document<'f> {
    tickless_version: &'static str,
    from: u64,
    /// The number of seeds that were tried.
    seeds: u64,
    twice: bool,
    holds: bool,
    groups: Vec<Group>,
    failures: &'f [Failed],
    drawn: Vec<drawn::Row>,
}

/// The seeds to try.
#[derive(Clone, Copy, Debug)]
struct Budget {
    from: u64,
    /// The end of the seeds: the number after the last seed.
    end: u64,
    /// The time after which no lot begins, except for the first one.
    until: Option<Instant>,
}

impl Budget {
    fn of(arguments: &Arguments) -> Result<Self, Failure> {
        let from = arguments.from.first();
        let end = match arguments.seeds {
            None => u64::MAX,
            Some(seeds) => from.checked_add(seeds).ok_or_else(|| {
                Failure::Input(format!(
                    "--from {from} and --seeds {seeds} go beyond the last seed, {}",
                    u64::MAX
                ))
            })?,
        };
        // Longer than a clock goes is for ever.
        let until = arguments.time;
        let until = until.and_then(|time| Instant::now().checked_add(time));
        Ok(Self { from, end, until })
    }

    fn is_over(&self, next: u64) -> bool {
        next >= self.end || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    let budget = Budget::of(arguments)?;
    let directory = arguments
        .save
        .as_deref()
        .map(Directory::prepare)
        .transpose()?;
    let json = output::prepare_json(&arguments.output)?;
    let screen = Screen::new(&arguments.output);
    let interrupt = Interrupt::catch()?;
    screen.print(&head(arguments, budget))?;
    let mut hunt = Hunt {
        arguments,
        screen: &screen,
        progress: Progress::new(&arguments.output),
        directory,
        found: Found::default(),
        drawn: Drawn::default(),
        failures: Vec::new(),
        next: budget.from,
    };
    parallel::without_stories(|| hunt.try_all(budget, &interrupt))?;
    let tried = hunt.next - budget.from;
    if let Some(json) = json {
        json.write_json(&Document {
            tickless_version: env!("CARGO_PKG_VERSION"),
            from: budget.from,
            seeds: tried,
            twice: arguments.twice,
            holds: hunt.failures.is_empty(),
            groups: hunt.found.groups(),
            failures: &hunt.failures,
            drawn: hunt.drawn.rows(),
        })?;
    }
    screen.print(&hunt.end(budget, interrupt.is_requested()))?;
    Ok(CheckVerdict::from_passed(hunt.failures.is_empty()))
}

fn head(arguments: &Arguments, budget: Budget) -> String {
    let twice = if arguments.twice { ", each twice" } else { "" };
    let to = match arguments.seeds {
        None => "on".to_owned(),
        Some(seeds) => format!("to {}", budget.from + (seeds - 1)),
    };
    let time = arguments.time.map_or_else(String::new, |time| {
        format!(", for {} at most", units::time(time))
    });
    format!(
        "tickless {}, seeds {} {to}{twice}{time}\n",
        env!("CARGO_PKG_VERSION"),
        budget.from,
    )
}

/// A search: the seeds tried so far, and the failures.
struct Hunt<'a> {
    arguments: &'a Arguments,
    screen: &'a Screen,
    progress: Progress,
    directory: Option<Directory>,
    found: Found,
    drawn: Drawn,
    failures: Vec<Failed>,
    /// The first seed that was not tried.
    next: u64,
}

impl Hunt<'_> {
    fn trial(&self) -> Trial {
        Trial {
            twice: self.arguments.twice,
            canary: self.arguments.canary,
        }
    }

    fn try_all(&mut self, budget: Budget, interrupt: &Interrupt) -> Result<(), Failure> {
        while self.next == budget.from || !budget.is_over(self.next) {
            if interrupt.is_requested() {
                break;
            }
            let first = self.next;
            let lot = LOT.min(budget.end - first);
            let trial = self.trial();
            let work = |number: usize| trial.outcome(&Draft::of(first + number as u64));
            let results = parallel::each(usize::try_from(lot).unwrap_or(1), work, |done, _| {
                let done = units::count(first - budget.from + done as u64);
                let of = self.arguments.seeds.map_or_else(
                    || "seeds".to_owned(),
                    |seeds| format!("of {}", units::counted(seeds, "seed")),
                );
                let broken = units::count(self.found.len());
                self.progress.show(&format!("{done} {of}, {broken} failed"));
            });
            self.next += lot;
            for (seed, result) in (first..).zip(&results) {
                self.judge(&Draft::of(seed), result)?;
            }
        }
        Ok(())
    }

    fn judge(&mut self, draft: &Draft, result: &Done<Outcome>) -> Result<(), Failure> {
        self.drawn.count(draft, holds(result));
        if holds(result) {
            return Ok(());
        }
        let mut failed = Failed::of(draft, result);
        if self.found.note(failed.cause(), draft.seed) {
            let seed = draft.seed;
            self.progress
                .show(&format!("making the scenario of seed {seed} smaller"));
            failed.shrink(draft, self.trial(), result);
        }
        self.progress.show("");
        self.screen.print(&failed.text(self.trial()))?;
        if let Some(directory) = &self.directory {
            directory.keep(&failed)?;
        }
        self.failures.push(failed);
        Ok(())
    }

    /// Formats the end of the output.
    fn end(&self, budget: Budget, is_interrupted: bool) -> String {
        let broken = self.found.len();
        let what = match broken {
            0 => "every promise was kept".to_owned(),
            broken => format!("{} FAILED", units::count(broken)),
        };
        let is_early = is_interrupted && !budget.is_over(self.next);
        let early = if is_early { ", ended early" } else { "" };
        let tried = units::counted(self.next - budget.from, "seed");
        let mut text = format!("\n{}", self.drawn.table());
        if broken > 0 {
            text += &format!("\n{}", self.found.table());
            if let Some(directory) = &self.arguments.save {
                text += &format!("The scenarios are in {}.\n", directory.display());
            }
        }
        text + &format!("\n{tried} tried from {}{early}: {what}\n", budget.from)
    }
}

fn holds(result: &Done<Outcome>) -> bool {
    result.as_ref().is_ok_and(Outcome::holds)
}

//! `tickless sim run`: one scenario.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tickless_sim::world::{self, Outcome, Scenario};

use super::input::{self, Input};
use super::{page, parallel, report, summary};
use crate::failure::{Failure, Verdict};
use crate::output::{self, Progress, Screen};

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

    /// Machine to run on, instead of the one that the scenario names
    #[arg(long, value_name = "FILE.toml")]
    profile: Option<PathBuf>,

    /// Run it twice, and check that both runs are identical to the byte
    #[arg(long)]
    twice: bool,

    /// Write a page with plots to this file
    #[arg(long, value_name = "OUT.html")]
    report: Option<PathBuf>,

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
  tickless sim run my.toml --report my.html
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
    let profile = arguments.profile.as_deref().map(input::profile);
    let scenario = input::scenario(&arguments.file, profile.transpose()?.as_ref())?;
    let report = page::prepare(arguments.report.as_ref())?;
    let json = output::prepare_json(&arguments.output)?;
    let outcome = {
        let progress = Progress::new(&arguments.output);
        progress.show(&format!(
            "{} of {} on {} CPUs",
            scenario.duration, scenario.name, scenario.cpus
        ));
        let work = if arguments.twice {
            world::run_twice
        } else {
            world::run
        };
        parallel::apart(|| work(&scenario, arguments.seed))
            .map_err(|story| Failure::Machine(format!("the simulator panicked: {story}")))?
    };
    if let Some(report) = report {
        report.write(report::of(&scenario, &outcome, arguments.twice)?.as_bytes())?;
    }
    if let Some(json) = json {
        json.write_json(&Document {
            scenario: &scenario,
            holds: outcome.holds(),
            outcome: &outcome,
        })?;
    }
    let mut text = summary::text(&scenario, &outcome);
    if arguments.twice && outcome.holds() {
        text.push_str("Both runs were identical.\n");
    }
    Screen::new(&arguments.output).print(&text)?;
    Ok(Verdict::from_held(outcome.holds()))
}

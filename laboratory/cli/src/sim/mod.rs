//! `tickless sim`: machines in virtual time, for questions about machines that the user does not own.
//!
//! The simulation itself is in the crate `tickless_sim`; this module has the files, threads and figures.

mod fuzz;
mod headline;
mod input;
mod parallel;
mod report;
mod run;
mod scenarios;
mod summary;
mod timeline;
pub(crate) mod trace;

use clap::{Args, Subcommand};

use crate::failure::{CheckVerdict, Failure};

/// Simulates machines of up to 4,096 CPUs, with the library on them.
///
/// The wheel, hierarchy and exact timers are the library's own code. Time, devices, interrupts and costs are simulated,
/// from profiles in which every number names its source. The same seed gives the same run, to the byte. Every promise
/// of the library is checked in every run.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  tickless sim run network
      One scenario
  tickless sim headline
      What the sources claim, and what comes of it here
  tickless sim fuzz --seeds 1000
      Scenarios that are drawn from seeds

Exit codes: 0 done and every promise was kept, 1 one was broken, 2 bad arguments or input,
3 the machine lacks something.";

#[derive(Clone, Debug, Subcommand)]
enum Command {
    Run(run::Arguments),
    Headline(headline::Arguments),
    Fuzz(fuzz::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    match &arguments.command {
        Command::Run(arguments) => run::run(arguments),
        Command::Headline(arguments) => headline::run(arguments),
        Command::Fuzz(arguments) => fuzz::run(arguments),
    }
}

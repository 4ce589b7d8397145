//! The options of `tickless latency`: those of cyclictest that most runs give, and some more.

mod plan;

use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};

use super::subject::Subject;
use crate::output::Place;
use crate::scheduling::Policy;
use crate::units;
pub(super) use plan::{Placement, Plan};

/// Lateness of timers as cyclictest measures it, with its options and its output.
///
/// Each thread is a tickless::Worker that waits for the next multiple of its interval and measures how late it wakes.
/// With --against, other ways to wait take turns with the worker on the same thread, in the same run.
///
/// Without -l and -D it runs until Ctrl-C. Checked: no timer was early.
#[derive(Clone, Debug, Args)]
#[command(disable_help_flag = true, after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Pin thread N to CPU N, or thread by thread to the CPUs of this list
    #[arg(short, long, value_name = "CPUSET", num_args = 0..=1, default_missing_value = "")]
    affinity: Option<String>,

    /// Stop when a latency is above this limit; 0 for never
    #[arg(short, long, value_name = "USEC")]
    breaktrace: Option<u64>,

    /// Leave the power management of the machine alone
    #[arg(long, alias = "laptop")]
    default_system: bool,

    /// Difference between the intervals of one thread and the next [default: 500, or 0 with -h]
    #[arg(short, long, value_name = "USEC", value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    distance: Option<u64>,

    /// Length of the run: seconds, or a number with ms, s, m, h or d; 0 for no end
    #[arg(short = 'D', long, value_name = "TIME", value_parser = units::seconds_or_endless)]
    duration: Option<Duration>,

    /// Print a histogram, microsecond by microsecond up to this one
    #[arg(short = 'h', long, value_name = "USEC", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    histogram: Option<u64>,

    /// Interval of the first thread
    #[arg(
        short,
        long,
        value_name = "USEC",
        default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000)
    )]
    interval: u64,

    /// Write the result as JSON to this file; `-` is standard output, and then nothing else is printed there
    #[arg(long, value_name = "PATH")]
    json: Option<Place>,

    /// Loops; the run ends when the first thread has done them [default: endless]
    #[arg(
        short,
        long,
        value_name = "LOOPS",
        default_value_t = 0,
        hide_default_value = true
    )]
    loops: u64,

    /// Keep all memory in RAM
    #[arg(short, long)]
    mlockall: bool,

    /// Print nanoseconds
    #[arg(short = 'N', long)]
    nsecs: bool,

    /// Real-time priority of the threads; 0 is the default of real-time policies, 2
    #[arg(short, long, value_name = "PRIO", value_parser = clap::value_parser!(u8).range(..=99))]
    priority: Option<u8>,

    /// Scheduling policy of the threads [default: fifo with -p, else other]
    #[arg(long, value_name = "NAME")]
    policy: Option<Policy>,

    /// Print only the summary at the end
    #[arg(short, long)]
    pub(super) quiet: bool,

    /// One thread on each CPU: -a -t
    #[arg(short = 'S', long, conflicts_with_all = ["threads", "affinity"])]
    smp: bool,

    /// Threads; without a number, one a CPU [default: 1]
    #[arg(
        short,
        long,
        value_name = "NUM",
        num_args = 0..=1,
        default_missing_value = "0",
        value_parser = clap::value_parser!(u32).range(0..=1024)
    )]
    threads: Option<u32>,

    /// Timer that the threads wait with
    #[arg(long, value_name = "SUBJECT", default_value = "sleep")]
    timer: Subject,

    /// Subject that takes turns with the timer, or several with commas between them
    #[arg(long, value_name = "SUBJECT", value_delimiter = ',')]
    against: Vec<Subject>,

    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

const EXAMPLES: &str = "\
Examples:
  tickless latency -D 10
      One thread, every millisecond, for ten seconds.
  tickless latency -t -a -p 80 -m -i 200 -D 1m -q
      A thread on each CPU with a real-time priority, every 200 us.
  tickless latency -i 200 -l 20000 -q --against timerfd,tokio
      Compared with a bare timerfd loop and with tokio, turn by turn.
  tickless latency -D 10 -q -h 100 --json - | jq .thread
      The shape of cyclictest's --json.

Exit codes: 0 all checks held, 1 a timer was early, 2 bad arguments, 3 the machine lacks something. Ctrl-C ends the
run, with a whole summary; so does a latency above -b, as there.";

impl ValueEnum for Subject {
    fn value_variants<'a>() -> &'a [Self] {
        Self::ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.name()).help(self.explanation()))
    }
}

#[cfg(test)]
mod tests;

//! The options of `tickless latency`: those of cyclictest that make sense here, and some more.

mod elsewhere;
mod plan;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};

use super::subject::Subject;
use crate::output::Place;
use crate::scheduling::Policy;
use crate::units;
use elsewhere::Elsewhere;
pub(super) use plan::{Align, Placement, Plan, Spikes};

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

    /// Wake thread N this long after the thread before it, with a common start of all threads
    #[arg(
        short = 'A',
        long,
        value_name = "USEC",
        conflicts_with = "secaligned",
        value_parser = clap::value_parser!(u64).range(..=1_000_000)
    )]
    aligned: Option<u64>,

    /// Stop when a latency is above this limit; 0 for never
    #[arg(short, long, value_name = "USEC")]
    breaktrace: Option<u64>,

    /// Clock: 0 for CLOCK_MONOTONIC, which is the only one
    #[arg(short, long, value_name = "CLOCK", default_value = "0", value_parser = clock)]
    clock: u8,

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

    /// Print a histogram as -h does, with a column for all threads together
    #[arg(
        short = 'H',
        long,
        value_name = "USEC",
        conflicts_with = "histogram",
        value_parser = clap::value_parser!(u64).range(1..=1_000_000)
    )]
    histofall: Option<u64>,

    /// Write the histogram to this file
    #[arg(long, value_name = "PATH")]
    histfile: Option<PathBuf>,

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

    /// Time within which CPUs have to leave their idle states, in microseconds (/dev/cpu_dma_latency)
    #[arg(long, value_name = "USEC", default_value_t = 0)]
    latency: u32,

    /// Loops; the run ends when the first thread has done them [default: endless]
    #[arg(
        short,
        long,
        value_name = "LOOPS",
        default_value_t = 0,
        hide_default_value = true
    )]
    loops: u64,

    /// CPUs that the main thread may run on, which measures nothing
    #[arg(long, value_name = "CPUSET")]
    mainaffinity: Option<String>,

    /// Keep all memory in RAM
    #[arg(short, long)]
    mlockall: bool,

    /// Show new figures on a terminal only when there is a new maximum
    #[arg(short = 'M', long, alias = "refresh_on_max")]
    refresh_on_max: bool,

    /// Print nanoseconds
    #[arg(short = 'N', long)]
    nsecs: bool,

    /// Print only the largest of each RED values of -v
    #[arg(short, long, value_name = "RED", value_parser = clap::value_parser!(u64).range(1..))]
    oscope: Option<u64>,

    /// Real-time priority of the first thread; 0 is the default of real-time policies, 2
    #[arg(short, long, value_name = "PRIO", value_parser = clap::value_parser!(u8).range(..=99))]
    priority: Option<u8>,

    /// Scheduling policy of the threads [default: fifo with -p, else other]
    #[arg(long, value_name = "NAME")]
    policy: Option<Policy>,

    /// Give each thread a priority one below that of the thread before
    #[arg(long, requires = "priority")]
    priospread: bool,

    /// Print only the summary at the end
    #[arg(short, long)]
    pub(super) quiet: bool,

    /// Count the interval from the last wake-up rather than from the last deadline
    #[arg(short, long)]
    relative: bool,

    /// Print the resolution of the clock
    #[arg(short = 'R', long)]
    pub(super) resolution: bool,

    /// Begin at a full second of the clock, and wake thread N this long after the thread before it
    #[arg(
        long,
        value_name = "USEC",
        num_args = 0..=1,
        default_missing_value = "0",
        value_parser = clap::value_parser!(u64).range(..=1_000_000)
    )]
    secaligned: Option<u64>,

    /// One thread on each CPU: -a -t
    #[arg(short = 'S', long, conflicts_with_all = ["threads", "affinity"])]
    smp: bool,

    /// List each latency above this limit at the end
    #[arg(long, value_name = "USEC", value_parser = clap::value_parser!(u64).range(1..))]
    spike: Option<u64>,

    /// Number of latencies in the list of --spike
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    spike_nodes: u32,

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

    /// Mark and stop the kernel's tracing when a latency is above -b
    #[arg(long, requires = "breaktrace")]
    tracemark: bool,

    /// Directory of the kernel's tracing
    #[arg(long, value_name = "DIR", default_value = "/sys/kernel/tracing")]
    tracefs: PathBuf,

    /// Write output at once, as is always done
    #[arg(short, long)]
    unbuffered: bool,

    /// Print each latency as thread:cycle:latency
    #[arg(short, long)]
    verbose: bool,

    /// Timer that the threads wait with
    #[arg(long, value_name = "SUBJECT", default_value = "sleep")]
    timer: Subject,

    /// Subject that takes turns with the timer, or several with commas between them
    #[arg(long, value_name = "SUBJECT", value_delimiter = ',')]
    against: Vec<Subject>,

    #[command(flatten)]
    elsewhere: Elsewhere,

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

Not supported of cyclictest: -c 1, -F, -s, -x, --smi, --dbg_cyclictest.

Exit codes: 0 all checks held, 1 a timer was early, 2 bad arguments, 3 the machine lacks something. Ctrl-C ends the
run, with a whole summary; so does a latency above -b, as there.";

/// Parses the number of a clock; of cyclictest's clocks only `CLOCK_MONOTONIC` exists here.
fn clock(text: &str) -> Result<u8, String> {
    match text {
        "0" => Ok(0),
        "1" => Err(
            "CLOCK_REALTIME is not supported: deadlines are those of CLOCK_MONOTONIC, which is 0"
                .to_owned(),
        ),
        _ => Err("0 is CLOCK_MONOTONIC, and the only one".to_owned()),
    }
}

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

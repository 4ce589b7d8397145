//! The options of `tickless hack`: those of hackbench that make sense here, and some more.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use super::features::Features;
use super::traffic::Traffic;
use crate::failure::Failure;
use crate::output;
use crate::units;

/// Cost of messages as hackbench measures it, on tasks of this library's executor: groups of tasks that send each other
/// messages.
///
/// In each group every sender sends the same number of messages to every receiver. The load runs with precise slices
/// (hrtick) off and on, and with and without each mechanism that saves writes of the clock event device: lazy and
/// deferred rearm, updates in place, coupled programming, and the filter of small moves. The device is a POSIX timer of
/// each worker; its programmings are system calls, which are counted. Rounds are interleaved. tokio takes part in each
/// round, and so does hackbench itself if it is installed.
///
/// Checked: every message arrived. Judged below the table, without any effect on the exit code: the promises of precise
/// slices for device writes, run time, spurious interrupts, updates in place and the cost of a start.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Groups of tasks
    #[arg(
        short,
        long,
        value_name = "N",
        default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    groups: u32,

    /// Senders of each group, and as many receivers
    #[arg(
        short,
        long,
        value_name = "N",
        default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    fds: u32,

    /// Messages from each sender to each receiver of its group [default: 100, or 5 with --quick]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    loops: Option<u32>,

    /// Bytes of each message
    #[arg(short = 's', long, value_name = "BYTES", default_value = "100", value_parser = size)]
    datasize: usize,

    /// Send through pipes of the kernel instead of channels in memory
    #[arg(short, long)]
    pipe: bool,

    /// Run hackbench itself with threads
    #[arg(short = 'T', long, conflicts_with = "process")]
    threads: bool,

    /// Run hackbench itself with processes, which is its default
    #[arg(short = 'P', long)]
    process: bool,

    /// Workers [default: one a CPU]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    workers: Option<u32>,

    /// Means by which the end of a slice reaches a task
    #[arg(long, value_name = "DEVICE", default_value = "signal")]
    device: Device,

    /// Run with precise slices, without them, or both
    #[arg(long, value_name = "WHEN", default_value = "both")]
    hrtick: When,

    /// Configurations to run: all, or only those with everything on and with everything off
    #[arg(long, value_name = "WHICH", default_value = "all")]
    matrix: Matrix,

    /// Rounds; each runs every configuration once [default: 3, or 1 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// One round with few messages, unless -l and --rounds say otherwise
    #[arg(long)]
    quick: bool,

    /// Number that decides the order of the configurations
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Write a page with plots to this file
    #[arg(long, visible_alias = "html", value_name = "OUT.html", value_parser = crate::page::file())]
    pub(super) report: Option<PathBuf>,

    #[command(flatten)]
    pub(super) output: output::Options,
}

const EXAMPLES: &str = "\
Examples:
  tickless hack
      10 groups of 40 tasks, 400,000 messages, in each configuration.
  tickless hack -p -s 8 --matrix ends --report hack.html
      Messages of 8 bytes through pipes, with everything on and with everything off. They leave less to save: the
      ratio of device writes was 0.063, which misses the mark of 0.04, where channels had 0.003 (commit 5e8c08e).
  tickless hack --device counter
      Slices that end by comparing the counter: there is no device to write.
  tickless hack -q --json - | jq .device_writes_ratio
      For scripts.

Exit codes: 0 every message arrived, 1 some did not, 2 bad arguments, 3 the machine lacks something.
Ctrl-C ends the run, with a whole report of what ran.";

/// The means by which the end of a slice reaches a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Device {
    /// A POSIX timer of each worker sends it a signal
    Signal,
    /// Checkpoints compare the counter
    Counter,
}

/// One of two choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum When {
    Off,
    On,
    Both,
}

/// The configurations that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Matrix {
    All,
    Ends,
}

/// The tasks of hackbench itself: processes or threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tasks {
    Processes,
    Threads,
}

/// The settings of a run, with every default computed.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) traffic: Traffic,
    pub(super) pipe: bool,
    pub(super) hackbench: Tasks,
    pub(super) workers: usize,
    pub(super) device: Device,
    pub(super) configurations: Vec<Features>,
    pub(super) rounds: u32,
    pub(super) seed: u64,
}

const LOOPS: (u32, u32) = (100, 5);
const ROUNDS: (u32, u32) = (3, 1);
/// The largest number of tasks; a larger number is taken for a mistake.
const TASKS_MAX: usize = 1_000_000;
/// The capacity of a pipe in bytes; a longer message would not fit a channel either.
const SIZE_MAX: u64 = 64 << 10;

impl Arguments {
    /// Computes every default, and refuses settings that are impossible.
    pub(super) fn settle(&self) -> Result<Plan, Failure> {
        let number = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
        let of = |(whole, quick)| if self.quick { quick } else { whole };
        let traffic = Traffic {
            groups: number(self.groups),
            fds: number(self.fds),
            loops: self.loops.unwrap_or(of(LOOPS)).into(),
            size: self.datasize,
        };
        if traffic.tasks() > TASKS_MAX {
            return Err(Failure::Input(format!(
                "--groups {} of --fds {} are {} tasks; {} are the most",
                self.groups,
                self.fds,
                units::count(traffic.tasks() as u64),
                units::count(TASKS_MAX as u64)
            )));
        }
        if self.pipe {
            check_descriptors(&traffic)?;
        }
        let switches: &[bool] = match self.hrtick {
            When::Off => &[false],
            When::On => &[true],
            When::Both => &[false, true],
        };
        let configurations = switches.iter().flat_map(|&hrtick| match self.matrix {
            Matrix::All => Features::matrix(hrtick),
            Matrix::Ends => vec![Features::all(true, hrtick), Features::all(false, hrtick)],
        });
        Ok(Plan {
            traffic,
            pipe: self.pipe,
            hackbench: if self.threads {
                Tasks::Threads
            } else {
                Tasks::Processes
            },
            workers: self.workers.map_or_else(
                || std::thread::available_parallelism().map_or(1, usize::from),
                number,
            ),
            device: self.device,
            configurations: configurations.collect(),
            rounds: self.rounds.unwrap_or(of(ROUNDS)),
            seed: self.seed,
        })
    }
}

/// Refuses to open more pipes than the process may.
fn check_descriptors(traffic: &Traffic) -> Result<(), Failure> {
    /// The descriptors of the process in addition to those of pipes.
    const OTHERS: u64 = 64;
    let needed = traffic.tasks() as u64 + OTHERS;
    match getrlimit(Resource::Nofile).current {
        Some(limit) if needed > limit => Err(Failure::Machine(format!(
            "{} pipes need {} file descriptors, and this process may have {}; use fewer --groups or --fds, or raise \
             the limit (ulimit -n)",
            units::count(traffic.tasks() as u64 / 2),
            units::count(needed),
            units::count(limit)
        ))),
        _ => Ok(()),
    }
}

fn size(text: &str) -> Result<usize, String> {
    match units::size(text)? {
        0 => Err(format!(
            "{text:?} is no message at all: 1 byte is the least"
        )),
        bytes if bytes <= SIZE_MAX => Ok(usize::try_from(bytes).unwrap_or(usize::MAX)),
        _ => Err(format!(
            "{text:?} is too much: 64K is the most, which is what a pipe holds"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{Arguments, Plan, Tasks};
    use clap::{Args, FromArgMatches};

    fn settled(line: &str) -> Result<Plan, String> {
        let command = Arguments::augment_args(clap::Command::new("hack"));
        let matches = command.try_get_matches_from(line.split_whitespace());
        let matches = matches.map_err(|error| error.to_string())?;
        let arguments = Arguments::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        arguments.settle().map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_defaults_are_those_of_hackbench() {
        let plan = settled("hack").expect("fine");
        assert_eq!(plan.traffic.messages(), 400_000);
        assert_eq!((plan.traffic.tasks(), plan.traffic.size), (400, 100));
        assert_eq!(plan.configurations.len(), 14);
        assert_eq!(plan.hackbench, Tasks::Processes);
    }

    #[test]
    fn options_choose_configurations() {
        let plan = settled("hack -T --hrtick on --matrix ends --quick -s 8").expect("fine");
        let names: Vec<String> = plan.configurations.iter().map(|one| one.name()).collect();
        assert_eq!(names, ["all on", "all off"]);
        assert!(plan.configurations.iter().all(|one| one.hrtick));
        assert_eq!((plan.traffic.loops, plan.rounds), (5, 1));
        assert_eq!(plan.hackbench, Tasks::Threads);
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        for (line, says) in [
            ("hack -g 10000 -f 10000", "1,000,000 are the most"),
            ("hack -s 0", "1 byte is the least"),
            ("hack -s 1M", "64K is the most"),
            ("hack -T -P", "cannot be used with"),
            ("hack -g 0", "0 is not in"),
        ] {
            let error = settled(line).expect_err(line);
            assert!(error.contains(says), "{error}");
        }
    }
}

//! The options of `tickless noise`: those of oslat that make sense here, and some more.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use tickless::topology::{CpuSet, Topology};

use crate::failure::Failure;
use crate::output::{Options, Place};
use crate::units;

/// Disturbance of a polling worker as oslat measures it, with its options and its output.
///
/// On each CPU a thread spins: it polls its tickless::Worker for due timers, reads the time-stamp counter, and counts
/// the time that the turn took. A turn that takes longer than usual lost time to interrupts, other threads, the
/// machine's host, or the worker.
///
/// Checked: no turn took longer than -T.
#[derive(Clone, Debug, Args)]
#[command(version, disable_version_flag = true, after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Buckets of the histogram, of a microsecond each
    #[arg(
        short,
        long,
        value_name = "N",
        default_value_t = 32,
        value_parser = clap::value_parser!(u16).range(4..=1024)
    )]
    bucket_size: u16,

    /// Begin the buckets at the shortest time that a turn of the loop takes, as found while preheating
    #[arg(short = 'B', long)]
    bias: bool,

    /// CPUs to measure, such as 1,3-7, 4-N or all [default: the isolated ones, or else all but the first]
    #[arg(short, long, value_name = "LIST")]
    cpu_list: Option<String>,

    /// CPU of the main thread [default: the first that is not measured]
    #[arg(short = 'C', long, value_name = "CPU")]
    cpu_main_thread: Option<u32>,

    /// Length of the run: seconds, or a number with ms, s, m, h or d [default: 1s]
    #[arg(short = 'D', long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,

    /// Write the result as JSON to this file; `-` is standard output, and then nothing else is printed there
    #[arg(long, value_name = "PATH")]
    json: Option<Place>,

    /// Write a page with plots to this file
    #[arg(long, value_name = "OUT.html", value_parser = crate::page::file())]
    pub(super) report: Option<PathBuf>,

    /// Real-time priority (SCHED_FIFO) of the threads
    #[arg(short = 'f', long, value_name = "PRIO", value_parser = clap::value_parser!(u8).range(1..=99))]
    rtprio: Option<u8>,

    /// Memory that the workload copies from, and to, such as 4K or 1M [default: 4K]
    #[arg(short = 'm', long, value_name = "SIZE", value_parser = size)]
    workload_mem: Option<usize>,

    /// Print only the summary at the end
    #[arg(short, long)]
    pub(super) quiet: bool,

    /// Preheat for a tenth of a second rather than a second, and run for half a second unless -D says how long
    #[arg(long)]
    quick: bool,

    /// Preheat on the first CPU only; for CPUs whose frequency is fixed
    #[arg(short, long)]
    single_preheat: bool,

    /// Stop when a turn took longer than this, stop the kernel's tracing with a mark, and exit with 1
    #[arg(short = 'T', long, value_name = "USEC", value_parser = clap::value_parser!(u64).range(1..))]
    trace_threshold: Option<u64>,

    /// Directory of the kernel's tracing
    #[arg(long, value_name = "DIR", default_value = "/sys/kernel/tracing")]
    tracefs: PathBuf,

    /// Work of a thread in each turn besides polling
    #[arg(short, long, value_name = "WORKLOAD", default_value = "no")]
    workload: Workload,

    /// Leave out empty buckets
    #[arg(short, long)]
    zero_omit: bool,

    /// Give each worker a timer of its own with this period, such as 100us [default: none]
    #[arg(long, value_name = "TIME", value_parser = period)]
    tick: Option<Duration>,

    /// Loop that takes turns with the worker on the same threads
    #[arg(long, value_name = "SUBJECT")]
    against: Option<Against>,

    /// Print version
    #[arg(short, long, action = ArgAction::Version)]
    version: Option<bool>,
}

const EXAMPLES: &str = "\
Examples:
  tickless noise --quick
      The isolated CPUs, or all but the first, for half a second.
  tickless noise -c 1-N -D 1m -z -f 80
      All CPUs but the first for a minute, with a real-time priority.
  tickless noise -D 10 -z --tick 100us --against bare
      What the worker and its timer cost, beside the same loop without it.
  tickless noise -D 10 -q --json - | jq .thread
      The shape of oslat's --json.

Exit codes: 0 done, 1 a turn took longer than -T, 2 bad arguments, 3 the machine lacks something.
Ctrl-C ends the run, with a whole summary.";

/// The work of a thread in each turn besides polling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Workload {
    /// No work
    No,
    /// Copies memory
    Memmove,
}

/// The loops that can take turns with the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Against {
    /// The same loop without the worker: what oslat measures itself
    Bare,
}

/// The reasons why these CPUs are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Named,
    Isolated,
    AllButFirst,
}

impl Reason {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Isolated => "isolated",
            Self::AllButFirst => "all-but-first",
        }
    }

    pub(super) fn explanation(self) -> &'static str {
        match self {
            Self::Named => "as named by -c",
            Self::Isolated => "those that the system isolates",
            Self::AllButFirst => "all but the first, as the system isolates none; choose with -c",
        }
    }
}

/// The settings of a run, with every default computed.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) cpus: CpuSet,
    pub(super) reason: Reason,
    /// The measured CPUs that the system isolates.
    pub(super) isolated: CpuSet,
    pub(super) main_cpu: u32,
    pub(super) duration: Duration,
    pub(super) preheat: Duration,
    pub(super) single_preheat: bool,
    pub(super) buckets: usize,
    pub(super) bias: bool,
    pub(super) zero_omit: bool,
    pub(super) priority: Option<u8>,
    pub(super) workload: Workload,
    /// The size of each of the two buffers of each thread, in bytes.
    pub(super) memory: usize,
    /// The limit of a gap, in microseconds.
    pub(super) threshold: Option<u64>,
    pub(super) tracefs: PathBuf,
    pub(super) tick: Option<Duration>,
    pub(super) against_bare: bool,
}

impl Plan {
    pub(super) fn threads(&self) -> usize {
        self.cpus.len()
    }

    /// Returns the memory of all buffers, in bytes.
    pub(super) fn all_memory(&self) -> u64 {
        let buffers = 2 * self.threads();
        let memory = self.memory.saturating_mul(buffers);
        u64::try_from(memory).unwrap_or(u64::MAX)
    }
}

/// The default of `-m`, in bytes.
const MEMORY: usize = 4 << 10;
const MEMORY_MAX: usize = 1 << 30;

impl Arguments {
    /// Returns the options that all commands have; `-q` has another meaning here.
    pub(super) fn output(&self) -> Options {
        Options {
            json: self.json.clone(),
            quiet: false,
        }
    }

    /// Computes every default, and refuses settings that are impossible.
    pub(super) fn settle(&self) -> Result<Plan, Failure> {
        let machine = Topology::read().map_err(|error| Failure::Machine(error.to_string()))?;
        self.settle_on(&machine)
    }

    fn settle_on(&self, machine: &Topology) -> Result<Plan, Failure> {
        if self.workload == Workload::No && self.workload_mem.is_some() {
            return Err(Failure::Input(
                "--workload-mem is memory for a workload: add -w memmove, or leave it out"
                    .to_owned(),
            ));
        }
        // A wrong argument is named before what the machine lacks.
        let named = self.named_main_cpu(machine)?;
        let (cpus, reason) = self.cpus(machine)?;
        let (preheat, duration) = if self.quick {
            (Duration::from_millis(100), Duration::from_millis(500))
        } else {
            (Duration::from_secs(1), Duration::from_secs(1))
        };
        let memory = match self.workload {
            Workload::No => 0,
            Workload::Memmove => self.workload_mem.unwrap_or(MEMORY),
        };
        Ok(Plan {
            main_cpu: named.unwrap_or_else(|| main_cpu(machine, &cpus)),
            isolated: cpus.intersection(machine.isolated()),
            cpus,
            reason,
            duration: self.duration.unwrap_or(duration),
            preheat,
            single_preheat: self.single_preheat,
            buckets: usize::from(self.bucket_size),
            bias: self.bias,
            zero_omit: self.zero_omit,
            priority: self.rtprio,
            workload: self.workload,
            memory,
            threshold: self.trace_threshold,
            tracefs: self.tracefs.clone(),
            tick: self.tick,
            against_bare: self.against.is_some(),
        })
    }

    fn cpus(&self, machine: &Topology) -> Result<(CpuSet, Reason), Failure> {
        if let Some(list) = &self.cpu_list {
            // Not only those that the process may run on: isolated ones are not among them, and can be asked for.
            let cpus = CpuSet::parse_within(list, machine.online())
                .map_err(|error| Failure::Input(format!("--cpu-list: {error}")))?;
            return Ok((cpus, Reason::Named));
        }
        let isolated = machine.isolated().intersection(machine.online());
        if !isolated.is_empty() {
            return Ok((isolated, Reason::Isolated));
        }
        let usable = usable(machine);
        let first: CpuSet = usable.first().into_iter().collect();
        let others = usable.difference(&first);
        if others.is_empty() {
            return Err(Failure::Machine(format!(
                "there is no CPU to measure: none is isolated, and this process may use CPU {first} only, which \
                 everything else needs too; give it a second CPU, or measure that one all the same with -c {first}"
            )));
        }
        Ok((others, Reason::AllButFirst))
    }

    fn named_main_cpu(&self, machine: &Topology) -> Result<Option<u32>, Failure> {
        match self.cpu_main_thread {
            Some(cpu) if !machine.online().contains(cpu) => Err(Failure::Input(format!(
                "--cpu-main-thread: CPU {cpu} is not one of this machine, which has {}",
                machine.online()
            ))),
            named => Ok(named),
        }
    }
}

/// Returns the CPU for the main thread: one that is not measured, if one exists.
fn main_cpu(machine: &Topology, measured: &CpuSet) -> u32 {
    let usable = usable(machine);
    let free = usable.difference(measured).first();
    free.or(usable.first()).unwrap_or(0)
}

/// Returns the CPUs on which the process may run.
fn usable(machine: &Topology) -> CpuSet {
    let allowed = machine.allowed().unwrap_or(machine.online());
    allowed.intersection(machine.online())
}

/// Parses a duration as oslat does: seconds, or a number with a unit, whose letters may be capitals.
fn duration(text: &str) -> Result<Duration, String> {
    match text.trim().strip_suffix(['S', 'M', 'H', 'D']) {
        Some(_) => units::duration_or_seconds(&text.to_ascii_lowercase()),
        None => units::duration_or_seconds(text),
    }
}

/// Parses a period. A worker whose period is too short only fires its timer, and measures nothing else.
fn period(text: &str) -> Result<Duration, String> {
    const SHORTEST: Duration = Duration::from_micros(1);
    let period = units::duration(text)?;
    if period < SHORTEST {
        return Err(format!("{text:?} is too short: 1us is the shortest period"));
    }
    Ok(period)
}

/// Parses the size of a buffer.
fn size(text: &str) -> Result<usize, String> {
    match units::size(text).map(usize::try_from)? {
        Ok(0) => Err(format!(
            "{text:?} is no memory at all: leave -w out for no workload"
        )),
        Ok(bytes) if bytes <= MEMORY_MAX => Ok(bytes),
        _ => Err(format!("{text:?} is too much: 1G is the most")),
    }
}

#[cfg(test)]
mod tests;

//! The options of `tickless clock`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tickless::topology::{CpuSet, Topology};

use crate::failure::Failure;
use crate::{output, units};

/// Cost of reading the time on this machine, and sources of it that can be trusted.
///
/// The command reads every source of time of this machine: the time-stamp counter with and without order, the clocks of
/// this library and of the standard library, the clocks of the kernel through the vDSO and by a system call, and
/// hardware clocks that can be opened. The output shows the cost of a read alone and while all CPUs read, the smallest
/// step, the drift against the kernel's monotonic clock, the difference between the readings of two CPUs, and a verdict
/// with its reason.
///
/// Checked: no source is bad.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Time over which the drift is measured, or for which --watch follows it: seconds, or a number with ms, s, m, h or
    /// d [default: 1s; with --watch until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = units::duration_or_seconds)]
    seconds: Option<Duration>,

    /// Follow the clock afterwards, with a line each second: drift, offset of this library's clock from the kernel's,
    /// verdict
    #[arg(long)]
    pub(super) watch: bool,

    /// CPUs on which the clocks are read and compared, such as 0-3 or 0,2 [default: all that this process may use]
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,

    /// Write a page with a plot to this file
    #[arg(long, value_name = "OUT.html", value_parser = crate::page::file())]
    pub(super) report: Option<PathBuf>,

    #[command(flatten)]
    pub(super) output: output::Options,
}

const EXAMPLES: &str = "\
Examples:
  tickless clock
      What a read costs here, and what is wrong with which source.
  tickless clock --seconds 10
      The drift to a fraction of a part in a million.
  tickless clock --watch
      Follows the drift until Ctrl-C.
  tickless clock --report clock.html
      The same as a page.
  tickless clock --json - | jq '.sources[] | {name, alone: .cost_ns.alone, verdict}'

Drift: by how many parts in a million a source is faster than CLOCK_MONOTONIC. The kernel steers that one, so that an
unsteered one drifts by as much as its crystal is wrong. That of the time-stamp counter is by the rate at which this
library reads it, which it measured in its first 20 ms.
Skew: how far ahead the copy of the second CPU is, and how far off that may be. It is half of the difference of both
ways that a reading takes from CPU to CPU.
Verdict: bad is what no delay explains: a rate that is off by more than 500 ppm, or a reading that is behind one that
another CPU handed over. Everything else that looks wrong is inconclusive.

Exit codes: 0 done and no source is bad, 1 one is, 2 bad arguments, 3 the machine lacks something.
Ctrl-C ends the run, with a report of what was measured.";

/// The settings of a run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) cpus: CpuSet,
    /// The least time over which the drift is measured.
    pub(super) measure: Duration,
    /// `None` if the clocks are not followed; else the length of the time for which they are followed, without an end
    /// if the inner value is `None`.
    pub(super) watch: Option<Option<Duration>>,
}

const MEASURE: Duration = Duration::from_secs(1);

impl Arguments {
    pub(super) fn settle(&self) -> Result<Plan, Failure> {
        let machine = Topology::read().map_err(|error| Failure::Machine(error.to_string()))?;
        let online = machine.online();
        let cpus = match &self.cpus {
            Some(list) => CpuSet::parse_within(list, online)
                .map_err(|error| Failure::Input(format!("--cpus: {error}")))?,
            None => machine.allowed().unwrap_or(online).intersection(online),
        };
        Ok(Plan {
            cpus,
            measure: self.seconds.filter(|_| !self.watch).unwrap_or(MEASURE),
            watch: self.watch.then_some(self.seconds),
        })
    }
}

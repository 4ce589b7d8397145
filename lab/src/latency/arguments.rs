//! The options, which are cyclictest's as far as they make sense here.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use tickless::topology::{CpuSet, Topology};

use super::subject::Subject;
use crate::failure::Failure;
use crate::output::{Options, Place};
use crate::scheduling::Policy;
use crate::units;

/// How late timers fire: what cyclictest measures, with its options and its output.
///
/// Each thread is a tickless::Worker that waits for the next multiple of its interval and looks how late it is. With
/// --against, other ways to wait take turns with it on the same thread, in the same run.
///
/// Without -l and -D it runs until Ctrl-C. Checked: no timer was early, and no latency above -b.
#[derive(Clone, Debug, Args)]
#[command(disable_help_flag = true, after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Pin thread N to CPU N, or thread by thread to the CPUs of this list
    #[arg(short, long, value_name = "CPUSET", num_args = 0..=1, default_missing_value = "")]
    affinity: Option<String>,

    /// Stop when a latency is above this, and exit with 1
    #[arg(short, long, value_name = "USEC", value_parser = clap::value_parser!(u64).range(1..))]
    breaktrace: Option<u64>,

    /// Leave the power management of the machine alone
    #[arg(long, alias = "laptop")]
    default_system: bool,

    /// How much longer the interval of each thread is than the one before [default: 500, or 0 with -h]
    #[arg(short, long, value_name = "USEC", value_parser = clap::value_parser!(u64).range(0..=100_000))]
    distance: Option<u64>,

    /// Length of the run: seconds, or a number with ms, s, m, h or d
    #[arg(short = 'D', long, value_name = "TIME", value_parser = units::duration_or_seconds)]
    duration: Option<Duration>,

    /// Print a histogram, microsecond by microsecond up to this one
    #[arg(short = 'h', long, value_name = "USEC", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    histogram: Option<u64>,

    /// The same with a column for all threads together
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
        value_parser = clap::value_parser!(u64).range(1..=1_000_000)
    )]
    interval: u64,

    /// Write the result as JSON to this file; `-` is standard output, and then nothing else is printed there
    #[arg(long, value_name = "PATH")]
    json: Option<Place>,

    /// How fast CPUs have to leave their idle states, in microseconds (/dev/cpu_dma_latency)
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

    /// Keep all memory in RAM
    #[arg(short, long)]
    mlockall: bool,

    /// Show new figures on a terminal only when there is a new maximum
    #[arg(short = 'M', long, alias = "refresh_on_max")]
    refresh_on_max: bool,

    /// Print nanoseconds
    #[arg(short = 'N', long)]
    nsecs: bool,

    /// Real-time priority of the threads
    #[arg(short, long, value_name = "PRIO", value_parser = clap::value_parser!(u8).range(1..=99))]
    priority: Option<u8>,

    /// Scheduling policy of the threads [default: fifo with -p, else other]
    #[arg(long, value_name = "NAME")]
    policy: Option<Policy>,

    /// Give each thread a priority one below that of the one before
    #[arg(long, requires = "priority")]
    priospread: bool,

    /// Print only the summary at the end
    #[arg(short, long)]
    pub(super) quiet: bool,

    /// Count the interval from the last wake-up rather than from the last deadline
    #[arg(short, long)]
    relative: bool,

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

    /// What the threads wait with
    #[arg(long, value_name = "SUBJECT", default_value = "sleep")]
    timer: Subject,

    /// What takes turns with it: one subject, or several with commas between them
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

Exit codes: 0 all checks held, 1 a timer was early or a latency above -b, 2 bad arguments, 3 the machine lacks
something. Ctrl-C ends the run, with a whole summary.";

/// Everything that a run needs, with every default worked out.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) threads: Vec<Seat>,
    pub(super) policy: Policy,
    pub(super) subjects: Vec<Subject>,
    pub(super) duration: Option<Duration>,
    pub(super) loops: Option<u64>,
    pub(super) relative: bool,
    pub(super) limit: Option<Duration>,
    /// Of a microsecond each; 0 for no histogram.
    pub(super) buckets: usize,
    pub(super) histogram_of_all: bool,
    pub(super) histogram_file: Option<Place>,
    pub(super) power_management: Option<u32>,
    pub(super) lock_memory: bool,
    pub(super) refresh_on_max: bool,
    pub(super) in_nanos: bool,
}

/// Where and how one thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) cpu: Option<u32>,
    pub(super) priority: u8,
    pub(super) interval: Duration,
}

impl Arguments {
    /// The options that all commands have. `-q` means something else here.
    pub(super) fn output(&self) -> Options {
        Options {
            json: self.json.clone(),
            quiet: false,
        }
    }

    /// Works out every default, and refuses what cannot be done.
    pub(super) fn settle(&self) -> Result<Plan, Failure> {
        let policy = self.policy()?;
        let mut subjects = vec![self.timer];
        for &subject in &self.against {
            if subjects.contains(&subject) {
                let name = subject.name();
                return Err(Failure::Input(format!(
                    "{name} is measured twice; name each way to wait once in --timer and --against"
                )));
            }
            subjects.push(subject);
        }
        let buckets = self.histogram.or(self.histofall).unwrap_or(0);
        if self.histfile.is_some() && buckets == 0 {
            return Err(Failure::Input(
                "--histfile needs a histogram: add -h USEC, its longest latency".to_owned(),
            ));
        }
        Ok(Plan {
            threads: self.places(buckets > 0)?,
            policy,
            subjects,
            duration: self.duration,
            loops: (self.loops > 0).then_some(self.loops),
            relative: self.relative,
            limit: self.breaktrace.map(Duration::from_micros),
            buckets: usize::try_from(buckets).unwrap_or(usize::MAX),
            histogram_of_all: self.histofall.is_some(),
            histogram_file: self.histfile.clone().map(Place::File),
            power_management: (!self.default_system).then_some(self.latency),
            lock_memory: self.mlockall,
            refresh_on_max: self.refresh_on_max,
            in_nanos: self.nsecs,
        })
    }

    fn policy(&self) -> Result<Policy, Failure> {
        match (self.policy, self.priority) {
            (None, None) => Ok(Policy::Other),
            (None, Some(_)) => Ok(Policy::Fifo),
            (Some(policy), Some(_)) if !policy.is_real_time() => Err(Failure::Input(format!(
                "the policy {} has no priorities; use --policy fifo or rr, or leave out -p",
                policy.name()
            ))),
            (Some(policy), None) if policy.is_real_time() => Err(Failure::Input(format!(
                "the policy {} needs a priority: add -p 1 to 99",
                policy.name()
            ))),
            (Some(policy), _) => Ok(policy),
        }
    }

    fn places(&self, with_histogram: bool) -> Result<Vec<Seat>, Failure> {
        let machine = Topology::read().map_err(|error| Failure::Machine(error.to_string()))?;
        let usable = machine.allowed().unwrap_or(machine.online());
        let usable = usable.intersection(machine.online());
        let all = u32::try_from(usable.len()).unwrap_or(u32::MAX);
        let threads = match self.threads {
            None if self.smp => all,
            None => 1,
            Some(0) => all,
            Some(threads) => threads,
        };
        let cpus = self.cpus(&usable)?;
        let interval = Duration::from_micros(self.interval);
        let distance = self
            .distance
            .unwrap_or(if with_histogram { 0 } else { 500 });
        let first = self.priority.unwrap_or(0);
        let spread = u32::from(self.priospread && !with_histogram);
        Ok((0..threads)
            .map(|number| {
                let lower = u8::try_from(number * spread).unwrap_or(u8::MAX);
                Seat {
                    cpu: nth(&cpus, number),
                    priority: first.saturating_sub(lower).max(first.min(1)),
                    interval: interval + Duration::from_micros(distance) * number,
                }
            })
            .collect())
    }

    /// The CPUs that threads are pinned to; none if they are not.
    fn cpus(&self, usable: &CpuSet) -> Result<Vec<u32>, Failure> {
        let list = match &self.affinity {
            None if !self.smp => return Ok(Vec::new()),
            None => "",
            Some(list) => list.as_str(),
        };
        if list.is_empty() {
            return Ok(usable.iter().collect());
        }
        let cpus = CpuSet::parse_within(list, usable)
            .map_err(|error| Failure::Input(format!("--affinity: {error}")))?;
        Ok(cpus.iter().collect())
    }
}

/// The CPU of a thread, when threads are dealt to CPUs in turn.
fn nth(cpus: &[u32], number: u32) -> Option<u32> {
    let number = usize::try_from(number).unwrap_or(0);
    let place = number.checked_rem(cpus.len())?;
    cpus.get(place).copied()
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
mod tests {
    use super::{Arguments, Seat, nth};
    use clap::{Args, FromArgMatches};
    use std::time::Duration;

    fn parsed(line: &str) -> Result<Arguments, String> {
        let command = Arguments::augment_args(clap::Command::new("latency"));
        let matches = command.try_get_matches_from(line.split_whitespace());
        let matches = matches.map_err(|error| error.to_string())?;
        Arguments::from_arg_matches(&matches).map_err(|error| error.to_string())
    }

    fn refused(line: &str) -> String {
        let refusal = parsed(line).and_then(|arguments| {
            let settled = arguments.settle().map_err(|failure| failure.to_string());
            settled.map(|_| ())
        });
        refusal.expect_err(line)
    }

    #[test]
    fn threads_differ_by_the_distance_and_by_priority() {
        let arguments = parsed("latency -t3 -i 200 -d 50 -p 80 --priospread").unwrap();
        let plan = arguments.settle().unwrap();
        let place = |priority, micros| Seat {
            cpu: None,
            priority,
            interval: Duration::from_micros(micros),
        };
        assert_eq!(
            plan.threads,
            [place(80, 200), place(79, 250), place(78, 300)]
        );
    }

    #[test]
    fn a_histogram_makes_all_threads_alike() {
        let plan = parsed("latency -t 2 -h 40 -p5 --priospread").unwrap();
        let plan = plan.settle().unwrap();
        assert_eq!(plan.threads[0], plan.threads[1]);
        assert_eq!(plan.buckets, 40);
    }

    #[test]
    fn threads_are_dealt_to_cpus_in_turn() {
        let dealt: Vec<_> = (0..4).map(|number| nth(&[3, 5, 8], number)).collect();
        assert_eq!(dealt, [Some(3), Some(5), Some(8), Some(3)]);
        assert_eq!(nth(&[], 7), None);
    }

    #[test]
    fn nonsense_is_refused_with_what_would_be_right() {
        for (line, says) in [
            ("latency --policy fifo", "add -p 1 to 99"),
            ("latency --policy other -p 3", "has no priorities"),
            ("latency -p 100", "1..=99"),
            ("latency -a 99999", "99999"),
            ("latency -a 3-1", "did you mean \"1-3\"?"),
            ("latency -i 0", "1..=1000000"),
            ("latency --histfile x", "add -h USEC"),
            ("latency --against sleep", "measured twice"),
            ("latency --timer sundial", "possible values"),
            ("latency -S -t", "cannot be used with"),
        ] {
            let error = refused(line);
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}

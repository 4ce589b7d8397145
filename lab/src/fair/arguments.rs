//! The options of `tickless fair`, and the settings that follow from them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::mix::{Mix, Preset};
use super::runtime::Subject;
use crate::failure::Failure;
use crate::output;
use crate::units;

/// Shares of the processor: tasks that compute, serve and tick at the same time, on this library's executor and on
/// others.
///
/// Each runtime runs the same tasks, as its users would write them. The runtimes run one after the other, round after
/// round in changing order, so that disturbances of the machine hit all alike. The command measures the share that each
/// task got of its entitlement by weight, the most that it was ahead or behind, the lateness of tasks that waited, and
/// the processor time.
///
/// Checked: no tick of this library was early, and with precise slices each of its tasks ran. Judged after the
/// conclusions, without any effect on the exit code: the promises of this library for the mixes one, ten and many
/// (shares), periodic (lateness compared with tokio), and queues (compared with clockworker), as long as the options do
/// not change their tasks.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Prepared mix of tasks; the options below change it
    #[arg(short, long, value_name = "MIX", default_value = "periodic")]
    mix: Preset,

    /// Tasks that compute and never wait
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    hogs: Option<u32>,

    /// The weights of these tasks, 1 to 1000, such as 1,2,4; dealt out in turn
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    weights: Option<Vec<u32>>,

    /// Computing time of such a task between two checkpoints
    #[arg(long, value_name = "TIME", value_parser = chunk)]
    chunk: Option<Duration>,

    /// Tasks that serve requests, which come from another thread at random times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    servers: Option<u32>,

    /// Weight of each server
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    server_weight: Option<u32>,

    /// Requests a second to each server
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: Option<u32>,

    /// Computing time of a request
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    serve: Option<Duration>,

    /// Tasks that wait for a time, again and again
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    periodic: Option<u32>,

    /// Weight of each periodic task
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    periodic_weight: Option<u32>,

    /// Time between two ticks of a periodic task
    #[arg(long, value_name = "TIME", value_parser = period)]
    period: Option<Duration>,

    /// Computing time of each tick
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    cost: Option<Duration>,

    /// Workers of each runtime [default: one a CPU]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    workers: Option<u32>,

    /// Request size of each task, if the runtime supports request sizes [default: the runtime's own]
    #[arg(long, value_name = "TIME", value_parser = slice)]
    slice: Option<Duration>,

    /// Runtimes, with commas between them [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    runtimes: Option<Vec<Subject>>,

    /// Length of each runtime's part of a round: seconds, or a number with a unit [default: 2s]
    #[arg(short = 'D', long, value_name = "TIME", value_parser = units::duration_or_seconds)]
    duration: Option<Duration>,

    /// Rounds; each runs every runtime once [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// One round of a tenth of a second, unless -D and --rounds say otherwise
    #[arg(long)]
    quick: bool,

    /// Number that decides when requests come, and the order of the runtimes
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Write a page with plots to this file
    #[arg(long, visible_alias = "html", value_name = "OUT.html", value_parser = crate::page::file())]
    pub(super) report: Option<PathBuf>,

    #[command(flatten)]
    pub(super) output: output::Options,
}

const EXAMPLES: &str = "\
Times are numbers with a unit: ns, us, ms, s.

Examples:
  tickless fair
      A periodic task of 200 us beside 8 that compute, on every runtime.
  tickless fair --mix ten -w 1 -D 10s --report fair.html
      Shares of 10 tasks over 10 s.
  tickless fair --mix queues
      What clockworker can do too: one worker, queues with shares.
  tickless fair --hogs 4 --weights 1,8 --servers 2 --rate 1000 --quick
      A mix of one's own.
  tickless fair -q --json - | jq '.subjects[] | {name, worst: .share_error.worst}'
      For scripts.

Exit codes: 0 all checks held, 1 one failed, 2 bad arguments, 3 no runtime runs here.
Ctrl-C ends the run, with a whole report.";

/// The settings of a run, with every default computed.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) preset: Preset,
    pub(super) mix: Mix,
    pub(super) subjects: Vec<Subject>,
    pub(super) duration: Duration,
    /// The time for each runtime to settle. Nothing is measured in this time.
    pub(super) settling: Duration,
    pub(super) rounds: u32,
    pub(super) seed: u64,
}

const DURATION: Duration = Duration::from_secs(2);
const QUICK: Duration = Duration::from_millis(100);
const ROUNDS: u32 = 3;
/// The least and the greatest settling time. Less is not enough to spawn all tasks, and more has no benefit.
const SETTLING: (Duration, Duration) = (Duration::from_millis(30), Duration::from_millis(300));
/// The largest load of the tasks that wait: with more, tasks that compute get nothing, and there is nothing to share.
const ASKED_MAX: f64 = 0.9;

impl Arguments {
    /// Computes every default, and refuses settings that are impossible.
    pub(super) fn settle(&self) -> Result<Plan, Failure> {
        let mut mix = self.mix.mix();
        let set = |place: &mut usize, value: Option<u32>| {
            if let Some(value) = value {
                *place = usize::try_from(value).unwrap_or(usize::MAX);
            }
        };
        set(&mut mix.hogs, self.hogs);
        set(&mut mix.servers.count, self.servers);
        set(&mut mix.periodic.count, self.periodic);
        set(&mut mix.workers, self.workers);
        if mix.workers == 0 {
            mix.workers = std::thread::available_parallelism().map_or(1, usize::from);
        }
        if let Some(weights) = &self.weights {
            mix.hog_weights.clone_from(weights);
        }
        mix.chunk = self.chunk.unwrap_or(mix.chunk);
        mix.slice = self.slice.or(mix.slice);
        mix.servers.weight = self.server_weight.unwrap_or(mix.servers.weight);
        mix.servers.rate = self.rate.unwrap_or(mix.servers.rate);
        mix.servers.cost = self.serve.unwrap_or(mix.servers.cost);
        mix.periodic.weight = self.periodic_weight.unwrap_or(mix.periodic.weight);
        mix.periodic.period = self.period.unwrap_or(mix.periodic.period);
        mix.periodic.cost = self.cost.unwrap_or(mix.periodic.cost);
        let (duration, rounds) = if self.quick {
            (QUICK, 1)
        } else {
            (DURATION, ROUNDS)
        };
        let duration = self.duration.unwrap_or(duration);
        let plan = Plan {
            preset: self.mix,
            mix,
            subjects: self.subjects()?,
            settling: (duration / 5).clamp(SETTLING.0, SETTLING.1),
            duration,
            rounds: self.rounds.unwrap_or(rounds),
            seed: self.seed,
        };
        plan.check()?;
        Ok(plan)
    }

    fn subjects(&self) -> Result<Vec<Subject>, Failure> {
        let Some(named) = &self.runtimes else {
            return Ok(Subject::ALL.to_vec());
        };
        for (place, subject) in named.iter().enumerate() {
            if named[..place].contains(subject) {
                return Err(Failure::Input(format!(
                    "--runtimes names {} twice; once is enough",
                    subject.name()
                )));
            }
        }
        Ok(named.clone())
    }
}

impl Plan {
    /// Returns true if the tasks are those of the preset mix, on any number of workers.
    pub(super) fn has_preset_tasks(&self) -> bool {
        let preset = Mix {
            workers: self.mix.workers,
            ..self.preset.mix()
        };
        self.mix == preset
    }

    fn check(&self) -> Result<(), Failure> {
        let refuse = |message: String| Err(Failure::Input(message));
        let mix = &self.mix;
        if mix.tasks() == 0 {
            return refuse(
                "there is no task: give some --hogs, --servers or --periodic ones".to_owned(),
            );
        }
        if mix.hogs > 0 && self.duration < mix.chunk * 10 {
            return refuse(format!(
                "--chunk {} is too long for --duration {}: a task that computes needs ten checkpoints at least",
                units::time(mix.chunk),
                units::time(self.duration)
            ));
        }
        if mix.periodic.count > 0 && self.duration < mix.periodic.period {
            return refuse(format!(
                "--period {} is longer than --duration {}: no tick would come",
                units::time(mix.periodic.period),
                units::time(self.duration)
            ));
        }
        let asked = mix.asked_by_sleepers() / mix.workers as f64;
        if asked > ASKED_MAX {
            return refuse(format!(
                "servers and periodic tasks ask for {:.0} % of {}, which leaves nothing to share: lower --rate, \
                 --serve, --cost or their number, or raise --period or --workers",
                asked * 100.0,
                units::counted(mix.workers as u64, "worker")
            ));
        }
        Ok(())
    }
}

/// Parses the length of a chunk. A chunk that is shorter than a reading of the clock would measure only the reading.
fn chunk(text: &str) -> Result<Duration, String> {
    within(text, "chunk", "1us", Duration::from_micros(1))
}

fn period(text: &str) -> Result<Duration, String> {
    within(text, "period", "10us", Duration::from_micros(10))
}

fn slice(text: &str) -> Result<Duration, String> {
    within(text, "slice", "10us", Duration::from_micros(10))
}

/// Parses a time of at least `shortest`, and at most a second.
fn within(
    text: &str,
    what: &str,
    shortest_text: &str,
    shortest: Duration,
) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(1);
    let time = units::duration(text)?;
    if time < shortest {
        return Err(format!(
            "{text:?} is too short: {shortest_text} is the shortest {what}"
        ));
    }
    if time > LONGEST {
        return Err(format!("{text:?} is too long: 1s is the longest {what}"));
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::{Arguments, Plan};
    use clap::{Args, FromArgMatches};
    use std::time::Duration;

    fn settled(line: &str) -> Result<Plan, String> {
        let command = Arguments::augment_args(clap::Command::new("fair"));
        let matches = command.try_get_matches_from(line.split_whitespace());
        let matches = matches.map_err(|error| error.to_string())?;
        let arguments = Arguments::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        arguments.settle().map_err(|failure| failure.to_string())
    }

    #[test]
    fn options_change_the_mix_that_is_ready_made() {
        let plan = settled("fair --mix queues --hogs 3 --weights 1,5 --period 2ms").expect("fine");
        assert_eq!(plan.mix.weights(), [1, 5, 1]);
        assert_eq!(plan.mix.periodic.period, Duration::from_millis(2));
        assert_eq!((plan.mix.workers, plan.mix.periodic.weight), (1, 4));
        assert!(!plan.has_preset_tasks());
        let plan = settled("fair --quick --rounds 4").expect("fine");
        assert!(plan.has_preset_tasks());
        assert_eq!((plan.duration.as_millis(), plan.rounds), (100, 4));
        assert!(plan.mix.workers > 0);
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        for (line, says) in [
            ("fair --hogs 0 --periodic 0", "there is no task"),
            ("fair --chunk 50ms --quick", "ten checkpoints"),
            ("fair --period 1s --quick", "no tick would come"),
            ("fair -w 1 --cost 190us", "leaves nothing to share"),
            ("fair --runtimes tokio,tokio", "twice"),
        ] {
            let error = settled(line).expect_err(line);
            assert!(error.contains(says), "{error}");
        }
    }
}

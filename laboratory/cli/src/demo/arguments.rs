//! The options of `tickless demo`, and the settings that follow from them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::subject::Arm;
use crate::failure::Failure;
use crate::output::{self, Place};
use crate::units;

/// A real server under a real load, on `tokio::time` and on `tickless::time`, side by side in one run.
///
/// The server is hyper on tokio, the clients are TCP connections on loopback. Every connection has an idle timeout,
/// which each request re-arms, and hyper's header timeout. Some clients fall silent, so that idle timeouts fire. Some
/// clients never finish a header, so that header timeouts fire. Two clients ask for answers that take longer than the
/// idle timeout, which must not end them. A paced sender sends a datagram every 200 us.
///
/// The same load runs once a round for each column, in changing order, so that disturbances of the machine hit all runs alike:
/// with tokio::time; with tickless::time in the same kind of runtime, with nothing set up, so that the runtime's reactor
/// fires the timers; in a detached runtime, whose timers the library's own thread fires; with slack, so that timers
/// share wake-ups; and with the paced sender on a tickless::Worker thread of its own. A build with
/// RUSTFLAGS="--cfg tokio_unstable" has a column for tokio's alternative timer, too.
///
/// A figure counts as better (or worse) than tokio's only if three rounds or more have both figures, and it was better
/// (or worse) in each of its rounds than tokio's in any round. The line "better, worse" counts such figures, and
/// the report names them. ± is half of the range of a figure's rounds. A ratio is ours / tokio's: below 1 is better.
///
/// Checked, by the server's std::time::Instant: no tick and no timeout was early, every client that waited for its
/// timeout was closed by it, and every answer came to its end. A failed check names its column.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Length of the whole run: seconds, or a number with a unit
    #[arg(short = 'D', long, value_name = "TIME", default_value = "20s", value_parser = units::duration_or_seconds)]
    duration: Duration,

    /// Rounds; each runs the load once with each kind of timer [default: as many as the time allows, 5 at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    connections: u32,

    /// Requests a second, of all clients together
    #[arg(
        long,
        value_name = "N",
        default_value_t = 8000,
        value_parser = clap::value_parser!(u32).range(1..=10_000_000)
    )]
    rate: u32,

    /// Time between two datagrams of the paced sender
    #[arg(long, value_name = "TIME", default_value = "200us", value_parser = units::duration)]
    pace: Duration,

    /// Slack of the timers that have one [default: a thousandth of the time to go, 50us at least and 5ms at most]
    ///
    /// tokio rounds a deadline up to the next millisecond, and rounds the wait until then up as well, so its timers are
    /// late by up to 2ms.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    slack: Option<Duration>,

    /// The report, one HTML file
    #[arg(
        long,
        value_name = "PATH",
        default_value = "tickless-demo.html",
        value_parser = crate::page::file(),
        conflicts_with = "no_report"
    )]
    report: PathBuf,

    /// Write no report
    #[arg(long)]
    no_report: bool,

    #[command(flatten)]
    pub(crate) output: output::Options,
}

const EXAMPLES: &str = "\
Times are numbers with a unit: ns, us, ms, s, m, h, d.

Examples:
  tickless demo
      Twenty seconds, a table of 15 lines, and the report tickless-demo.html.
  tickless demo --duration 60s --connections 8000
      Longer and larger.
  tickless demo --slack 2ms
      With timers that may be as late as tokio's are.
  tickless demo --duration 4s --no-report --json - | jq .arms[].figures.paced_p99_ns
      For scripts.

Exit codes: 0 all checks held, 1 one failed, 2 bad arguments, 3 the machine lacks something.
Ctrl-C ends the run early, with a whole report.";

/// The settings of a run, with every default computed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Settings {
    #[serde(rename = "duration_ns", serialize_with = "as_nanos")]
    pub(crate) duration: Duration,
    pub(crate) rounds: u32,
    /// The length of one arm's part of a round.
    #[serde(rename = "part_ns", serialize_with = "as_nanos")]
    pub(crate) part: Duration,
    /// The time in which connections are made and the machine settles. Nothing is measured in this time.
    #[serde(rename = "ramp_ns", serialize_with = "as_nanos")]
    pub(crate) ramp: Duration,
    pub(crate) connections: u32,
    pub(crate) silent: u32,
    pub(crate) slow: u32,
    pub(crate) requests_per_second: u32,
    #[serde(rename = "spacing_ns", serialize_with = "as_nanos")]
    pub(crate) spacing: Duration,
    #[serde(rename = "idle_timeout_ns", serialize_with = "as_nanos")]
    pub(crate) idle: Duration,
    #[serde(rename = "header_timeout_ns", serialize_with = "as_nanos")]
    pub(crate) header: Duration,
    #[serde(rename = "pace_ns", serialize_with = "as_nanos")]
    pub(crate) pace: Duration,
    /// The slack of the arm that has slack; `None` for slack in proportion.
    #[serde(rename = "slack_ns", serialize_with = "as_nanos_if_any")]
    pub(crate) slack: Option<Duration>,
    /// The threads of each server: one for each CPU.
    pub(crate) threads: usize,
    #[serde(skip)]
    pub(crate) report: Option<Place>,
}

fn as_nanos<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

#[expect(clippy::ref_option, reason = "serde has it so")]
fn as_nanos_if_any<S: serde::Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => as_nanos(time, serializer),
        None => serializer.serialize_none(),
    }
}

/// Clients of a hundred that fall silent, and that never finish a header; at least one of each.
const SILENT: u32 = 10;
const SLOW: u32 = 2;
#[expect(clippy::cast_possible_truncation, reason = "six at most")]
const ARMS: u32 = Arm::COUNT as u32;
/// The least length of an arm's part of a round, long enough for its timeouts to fire.
const PART: Duration = Duration::from_millis(800);
const ROUNDS_MAX: u32 = 5;
/// The share of a part that is for making connections, and for the machine to settle afterwards.
const RAMP: f64 = 0.2;
/// The share of a part in which connections are made and the machine settles.
const RAMP_MAX: Duration = Duration::from_secs(1);
/// The time that both ends together take for a connection, generously.
const CONNECT: Duration = Duration::from_micros(100);
/// The time of the connection, the requests and the closing of a client that waits for a timeout, without the timeout itself.
pub(crate) const EPISODE: Duration = Duration::from_millis(40);
const IDLE: Duration = Duration::from_millis(300);
/// The share of a short part that the idle timeout takes.
const IDLE_SHARE: f64 = 0.3;
/// The time that a part allows for its header timeouts, as a multiple of the header timeout.
const SPARE: f64 = 1.1;
/// The ratio of the idle timeout to the time between two requests, and of the header timeout to the idle timeout.
const PATIENCE: f64 = 1.5;
/// The least pace: with less, a paced sender is a busy loop on any machine.
const PACE_MIN: Duration = Duration::from_micros(1);
/// The largest slack, about the length of a part of a round: with more slack, timers would fire in the next part. (The
/// library accepts four times as much.)
const SLACK_MAX: Duration = Duration::from_secs(1);

impl Arguments {
    /// Computes every default, and refuses settings that are impossible.
    pub(crate) fn settle(&self) -> Result<Settings, Failure> {
        let share = |percent: u32| (self.connections * percent).div_ceil(100);
        let (silent, slow) = (share(SILENT), share(SLOW));
        let active = self.connections - silent - slow;
        let spacing = Duration::from_secs(1) * active / self.rate;
        let rounds = self.rounds.unwrap_or_else(|| self.rounds_that_fit(spacing));
        let part = self.duration / rounds / ARMS;
        let ramp = part.mul_f64(RAMP).min(RAMP_MAX);
        let ramp = ramp.max(CONNECT * self.connections);
        let short = IDLE.min(part.mul_f64(IDLE_SHARE));
        let idle = spacing.mul_f64(PATIENCE).max(short);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let settings = Settings {
            duration: self.duration,
            rounds,
            part,
            ramp,
            connections: self.connections,
            silent,
            slow,
            requests_per_second: self.rate,
            spacing,
            idle,
            header: idle.mul_f64(PATIENCE),
            pace: self.pace,
            slack: self.slack,
            threads: cpus,
            report: (!self.no_report).then(|| Place::from(self.report.clone().into_os_string())),
        };
        settings.check()?;
        Ok(settings)
    }

    /// Returns the number of rounds that fit the run. Each part has to be long enough for its timeouts.
    fn rounds_that_fit(&self, spacing: Duration) -> u32 {
        let header = spacing.mul_f64(PATIENCE * PATIENCE);
        let after_ramp = needed_after_ramp(header);
        let settling = after_ramp.div_f64(1.0 - RAMP).min(after_ramp + RAMP_MAX);
        let shortest = settling.max(after_ramp + CONNECT * self.connections);
        // An idle timeout that is a share of the part makes all but this share of it longer, too.
        let rest = 1.0 - RAMP - IDLE_SHARE * PATIENCE * SPARE;
        let shortest = shortest.max(EPISODE.div_f64(rest)).max(PART);
        let fit = self.duration.as_nanos() / (shortest * ARMS).as_nanos();
        u32::try_from(fit).unwrap_or(u32::MAX).clamp(1, ROUNDS_MAX)
    }
}

/// Returns the time in which the timeouts of a part fire, with some reserve.
fn needed_after_ramp(header: Duration) -> Duration {
    header.mul_f64(SPARE) + EPISODE
}

impl Settings {
    fn check(&self) -> Result<(), Failure> {
        let refuse = |message: String| Err(Failure::Input(message));
        if self.pace < PACE_MIN {
            return refuse(format!(
                "--pace {} is faster than any thread can be woken; use 1us or more",
                units::time(self.pace)
            ));
        }
        if let Some(slack) = self.slack.filter(|slack| *slack > SLACK_MAX) {
            return refuse(format!(
                "--slack {} is longer than timers are late by choice; use {} or less",
                units::time(slack),
                units::time(SLACK_MAX)
            ));
        }
        let needed = self.ramp + needed_after_ramp(self.header);
        if self.part < needed {
            let whole = needed * ARMS * self.rounds;
            return refuse(format!(
                "a header timeout of {} does not fit into {} of load at a time, with {} to connect {} clients; \
                 use --duration {}s or more, fewer --rounds, fewer --connections or a higher --rate",
                units::time(self.header),
                units::time(self.part),
                units::time(self.ramp),
                units::count(self.connections.into()),
                whole.as_secs() + 1
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{ARMS, Arguments, Settings};
    use clap::{Args, FromArgMatches};
    use std::time::Duration;

    fn settled(line: &str) -> Result<Settings, String> {
        let command = Arguments::augment_args(clap::Command::new("demo"));
        let matches = command.try_get_matches_from(line.split_whitespace());
        let matches = matches.map_err(|error| error.to_string())?;
        let arguments = Arguments::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        arguments.settle().map_err(|failure| failure.to_string())
    }

    #[test]
    fn all_parts_together_take_as_long_as_the_run() {
        for (line, rounds) in [
            ("demo", 5),
            ("demo --rate 4000", 2),
            ("demo -D 4", 1),
            ("demo --connections 8000", 1),
            ("demo -D 1 --connections 10", 1),
            ("demo -D 1h --rate 100", 5),
            ("demo --rounds 2", 2),
        ] {
            let settings = settled(line).expect(line);
            assert_eq!(settings.rounds, rounds, "{line}");
            let whole = settings.part * ARMS * settings.rounds;
            let lost = settings.duration - whole;
            assert!(lost < Duration::from_micros(1), "{line}: {lost:?}");
            assert!(settings.ramp + settings.header < settings.part, "{line}");
            assert!(settings.idle >= settings.spacing.mul_f64(1.2), "{line}");
            assert!(settings.header > settings.idle, "{line}");
        }
    }

    #[test]
    fn what_fits_as_one_round_is_not_refused_for_want_of_more() {
        let mut refused = 0;
        for seconds in 1..40 {
            for load in [
                "",
                " --connections 10 --rate 5",
                " --connections 8000",
                " --rate 1000",
            ] {
                let line = format!("demo -D {seconds}{load}");
                let bare = settled(&format!("{line} --rounds 1"));
                assert_eq!(settled(&line).is_ok(), bare.is_ok(), "{line}");
                refused += u32::from(bare.is_err());
            }
        }
        assert!(
            (1..100).contains(&refused),
            "{refused} of 156 are too short"
        );
    }
}

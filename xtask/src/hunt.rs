//! The hunt: random rounds of executors and their ends, for as long as the user wants to wait.
//!
//! The rounds are a test of the library (`tests/hunt`). When the test is called as a test, it draws rounds for some
//! seconds. This task sets the time and the seed.

use std::path::Path;

use clap::Args;

use crate::invocation::Invocation;

/// Draws executors, local tasks, ends, aborts and wakes until a round hangs, leaves something behind, or time is over.
///
/// Each round is drawn from a seed of its own, which is one more than the seed of the round before. The order in which
/// threads run differs from run to run, so a failure prints the command that draws the same round a thousand times.
/// Exits with 1 if a round failed.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The length of the hunt in seconds, building not counted.
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seconds: u64,
    /// The seed of the first round.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Runs only the round of that seed, this number of times, instead of for a time.
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    rounds: Option<u64>,
}

/// Runs `cargo xtask hunt`.
pub(crate) fn main(root: &Path, arguments: &Arguments) -> Result<(), String> {
    let line = line(arguments);
    println!("   $ {line}");
    line.run(root)
}

fn line(arguments: &Arguments) -> Invocation {
    let test = ["test", "--release", "-p", "tickless", "--test", "hunt"];
    let line = Invocation::cargo(&test)
        .args(&["--", "--nocapture"])
        .variable("TICKLESS_HUNT_SEED", arguments.seed.to_string());
    match arguments.rounds {
        Some(rounds) => line.variable("TICKLESS_HUNT_AGAIN", rounds.to_string()),
        None => line.variable("TICKLESS_HUNT_SECONDS", arguments.seconds.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Arguments, line};

    #[test]
    fn a_hunt_is_a_test_with_a_time_or_one_round_again() {
        let shown = |rounds| {
            let arguments = Arguments {
                seconds: 60,
                seed: 7,
                rounds,
            };
            line(&arguments).to_string()
        };
        let command = "cargo test --release -p tickless --test hunt -- --nocapture";
        assert_eq!(
            shown(None),
            format!("TICKLESS_HUNT_SEED=7 TICKLESS_HUNT_SECONDS=60 {command}")
        );
        assert_eq!(
            shown(Some(9)),
            format!("TICKLESS_HUNT_SEED=7 TICKLESS_HUNT_AGAIN=9 {command}")
        );
    }
}

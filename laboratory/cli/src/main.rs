//! The `tickless` command, which shows, measures and inspects the behaviour of the library.
//!
//! This crate has arguments, printing and reports, but no mechanism: all measurements use the library's public
//! interface.
//!
//! Without the feature `full` the command holds the demo alone, which builds in a fraction of the time. It lists all
//! other commands, and starts a build that has them when one is called.

#![cfg_attr(
    not(feature = "full"),
    expect(dead_code, reason = "the demo uses a part of what commands share")
)]

#[cfg(feature = "full")]
mod bench;
mod demo;
mod failure;
#[cfg(any(test, not(feature = "full")))]
mod handover;
mod hash;
mod histogram;
#[cfg(feature = "full")]
mod instance;
mod interrupt;
#[cfg(feature = "full")]
mod latency;
mod machine;
mod output;
mod page;
#[cfg(all(test, feature = "full"))]
#[path = "../../../xtask/src/page_blocks.rs"]
mod page_blocks;
mod plot;
#[cfg(feature = "full")]
mod record;
#[cfg(feature = "full")]
mod rt_tests;
#[cfg(feature = "full")]
mod scheduling;
mod shown;
#[cfg(feature = "full")]
mod sim;
mod spread;
#[cfg(feature = "full")]
mod stream;
mod table;
#[cfg(feature = "full")]
mod timers;
#[cfg(feature = "full")]
mod top;
#[cfg(feature = "full")]
mod topology;
mod units;
#[cfg(feature = "full")]
mod verify;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use failure::{CheckVerdict, Failure};

/// Demonstrates, measures and inspects exact timers.
#[derive(Debug, Parser)]
#[command(
    name = "tickless",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = EXIT_CODES
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Begin with: tickless demo

Exit codes: 0 done and every check held, 1 a check failed, 2 bad arguments or input,
3 the machine lacks something that was asked for.
`tickless COMMAND --help` shows what a command does, its defaults and examples.";

#[cfg(feature = "full")]
#[derive(Debug, Subcommand)]
enum Command {
    Bench(bench::Arguments),
    Demo(demo::Arguments),
    Latency(latency::Arguments),
    Record(record::Arguments),
    Sim(sim::Arguments),
    Timers(timers::Arguments),
    Top(top::Arguments),
    Topology(topology::Arguments),
    Verify(verify::Arguments),
}

#[cfg(not(feature = "full"))]
#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Arguments),
}

impl Command {
    #[cfg(feature = "full")]
    fn run(&self) -> Result<CheckVerdict, Failure> {
        match self {
            Self::Bench(arguments) => bench::run(arguments),
            Self::Demo(arguments) => demo::run(arguments),
            Self::Latency(arguments) => latency::run(arguments),
            Self::Record(arguments) => record::run(arguments),
            Self::Sim(arguments) => sim::run(arguments),
            Self::Timers(arguments) => timers::run(arguments),
            Self::Top(arguments) => top::run(arguments),
            Self::Topology(arguments) => topology::run(arguments),
            Self::Verify(arguments) => verify::run(arguments),
        }
    }

    #[cfg(not(feature = "full"))]
    fn run(&self) -> Result<CheckVerdict, Failure> {
        let Self::Demo(arguments) = self;
        demo::run(arguments)
    }
}

/// Lets each option report the error for a negative number, which otherwise would be an unknown option.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|option| {
        let has_value = option.get_action().takes_values();
        option.allow_negative_numbers(has_value)
    });
    command.mut_subcommands(with_negative_numbers)
}

fn main() -> ExitCode {
    let mut command = with_negative_numbers(Arguments::command());
    #[cfg(not(feature = "full"))]
    {
        command = handover::list_others(command);
    }
    let matches = command.get_matches_mut();
    #[cfg(not(feature = "full"))]
    if handover::is_needed(&matches) {
        let call: Vec<_> = std::env::args_os().skip(1).collect();
        return end(Err(handover::run(&call)));
    }
    let arguments = Arguments::from_arg_matches(&matches)
        .unwrap_or_else(|error| error.format(&mut command).exit());
    end(arguments.command.run())
}

/// Returns the exit code for `result`, and prints a failure on standard error.
fn end(result: Result<CheckVerdict, Failure>) -> ExitCode {
    match result {
        Ok(verdict) => verdict.exit_code(),
        Err(failure) => {
            // With standard error closed as well, the exit code has to do.
            let _closed = writeln!(
                std::io::stderr(),
                "error: {}",
                shown::line(&failure.to_string())
            );
            failure.exit_code()
        }
    }
}

#[cfg(all(test, feature = "full"))]
mod tests {
    use super::{Arguments, page_blocks, with_negative_numbers};
    use clap::{Command, CommandFactory};
    use std::path::Path;

    fn examples(command: &Command, into: &mut Vec<String>) {
        let help = command.get_after_long_help();
        let help = help.map_or_else(String::new, ToString::to_string);
        let (_, lines) = help.split_once("Examples:").unwrap_or_default();
        for line in lines.lines() {
            let parts = line.split(['|', ';', '&', '>', '(', ')']).map(str::trim);
            let ours = parts.filter(|part| part.starts_with("tickless "));
            into.extend(ours.map(str::to_owned));
        }
        for below in command.get_subcommands() {
            examples(below, into);
        }
    }

    /// Returns the lines of the documentation that call the command, by its name, by cargo, or by the name of its
    /// package.
    fn lines_of_pages() -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let words = |line: &str| {
            let line = line.split([';', '&', '|', '>']).next().unwrap_or_default();
            let words = match line.split_once("-p tickless-cli") {
                Some((_, rest)) => rest.split_once(" -- ").map(|(_, words)| words),
                None => line.split_once("tickless ").and_then(|(before, words)| {
                    let is_command =
                        ["", "cargo"].contains(&before.trim()) || before.trim().ends_with(" cargo");
                    is_command.then_some(words)
                }),
            };
            words.map(|words| format!("tickless {words}"))
        };
        let lines = page_blocks::shell_lines(&root);
        lines.iter().filter_map(|(_, line)| words(line)).collect()
    }

    #[test]
    fn every_call_of_the_pages_is_understood() {
        let command = with_negative_numbers(Arguments::command());
        let all = lines_of_pages();
        assert!(all.len() > 10, "{all:?}");
        for call in all {
            let line = call.replace("$seed", "3");
            let words = page_blocks::words(&line);
            let understood = command.clone().try_get_matches_from(words);
            assert!(understood.is_ok(), "{call}: {understood:?}");
        }
    }

    #[test]
    fn every_example_of_the_help_is_understood() {
        let command = with_negative_numbers(Arguments::command());
        let mut all = Vec::new();
        examples(&command, &mut all);
        assert!(all.len() > 40, "{all:?}");
        for example in all {
            let words = page_blocks::words(&example);
            let understood = command.clone().try_get_matches_from(words);
            assert!(understood.is_ok(), "{example}: {understood:?}");
        }
    }
}

//! The commands that the demo's build does not have: it lists them, and hands them over to a build that has them.

use std::ffi::OsString;
use std::process::Command;

use clap::{Arg, ArgMatches};

#[cfg(not(feature = "full"))]
use crate::failure::Failure;

const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
/// The directory that all workspaces of the repository build in.
const TARGET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target");

/// The commands of the full build besides the demo, each with the first line of its help.
#[rustfmt::skip]
const OTHERS: [(&str, &str); 8] = [
    ("bench", "Cost of timers, against other libraries and against the least that is possible"),
    ("latency", "Lateness of timers as cyclictest measures it, with its options and its output"),
    ("record", "Records the timers of this machine's Linux kernel"),
    ("sim", "Simulates machines of up to 4,096 CPUs, with the library on them"),
    ("timers", "The live state of timers, in the layout of /proc/timer_list"),
    ("top", "The timers of this machine's Linux kernel: who starts them, how late they fire, and which interrupts they cause"),
    ("topology", "CPUs, cores, caches and nodes, which CPUs are isolated, and the hierarchy that the library would build"),
    ("verify", "Checks a trace: were the promises kept?"),
];

/// The name of the argument that holds all that follows a command.
const ARGUMENTS: &str = "ARGUMENTS";

/// Adds the commands of the full build to the demo's, so that its help lists them, and so that it answers the call of a
/// command that does not exist.
pub(crate) fn list_others(command: clap::Command) -> clap::Command {
    let other = |(name, about)| {
        let arguments = Arg::new(ARGUMENTS)
            .num_args(0..)
            .trailing_var_arg(true)
            .allow_hyphen_values(true)
            .value_parser(clap::value_parser!(OsString));
        clap::Command::new(name)
            .about(about)
            .after_help(format!(
                "`tickless {name} --help` builds all commands, and shows its options."
            ))
            .disable_help_flag(true)
            .arg(arguments)
    };
    command.subcommands(OTHERS.map(other))
}

/// Returns true if a command was called that this build does not have.
pub(crate) fn is_needed(matches: &ArgMatches) -> bool {
    OTHERS
        .iter()
        .any(|(name, _)| matches.subcommand_name() == Some(name))
}

/// Replaces the process with cargo, which builds all commands and runs the requested one. Returns only if that fails.
/// `call` is the command and what follows it.
#[cfg(not(feature = "full"))]
pub(crate) fn run(call: &[OsString]) -> Failure {
    use std::io::Write as _;
    use std::os::unix::process::CommandExt as _;

    // Without standard error the command runs all the same.
    let _unread = writeln!(std::io::stderr(), "{}", announcement(call));
    let error = cargo(call).exec();
    Failure::Machine(format!("cannot start cargo: {error}"))
}

/// Returns the lines that say what cargo builds, before it does, and how to call it by hand in a checkout.
fn announcement(call: &[OsString]) -> String {
    let words: Vec<_> = call.iter().map(|word| word.to_string_lossy()).collect();
    format!(
        "`tickless {}` is not in this build. Cargo builds all commands from {MANIFEST}, which takes some minutes the \
         first time; in any checkout of the repository:\ncargo laboratory -p tickless-cli -- {}",
        words[0],
        words.join(" ")
    )
}

fn cargo(call: &[OsString]) -> Command {
    // The one that started this program, if one did.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["run", "--release", "--manifest-path", MANIFEST])
        .args(["--target-dir", TARGET, "--"])
        .args(call);
    command
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::error::ErrorKind;

    use super::{announcement, cargo, is_needed, list_others};

    /// Returns true if the demo's build hands the call over, false if it runs it, or the answer that it gives itself.
    fn asked(line: &str) -> Result<bool, clap::Error> {
        let demo = clap::Command::new("demo").about("The demo");
        let small = clap::Command::new("tickless").arg_required_else_help(true);
        let matches =
            list_others(small.subcommand(demo)).try_get_matches_from(line.split_whitespace())?;
        Ok(is_needed(&matches))
    }

    #[test]
    fn another_command_is_handed_over_with_its_arguments() {
        assert!(!asked("tickless demo").expect("a command"));
        for line in ["bench --help", "sim run demo --seed -1", "verify -- x"] {
            let is_asked = asked(&format!("tickless {line}"));
            assert!(is_asked.expect("a command"), "{line}");
        }
        let call: Vec<OsString> = ["sim", "run", "demo"].map(OsString::from).into();
        let command = cargo(&call);
        let words: Vec<_> = command.get_args().collect();
        assert!(words.ends_with(&[
            "--".as_ref(),
            "sim".as_ref(),
            "run".as_ref(),
            "demo".as_ref()
        ]));
        let said = announcement(&call);
        assert!(
            said.starts_with("`tickless sim` is not in this build."),
            "{said}"
        );
        assert!(said.ends_with("-p tickless-cli -- sim run demo"), "{said}");
    }

    #[test]
    fn help_and_errors_need_no_other_build() {
        for (line, kind) in [
            ("tickless --help", ErrorKind::DisplayHelp),
            ("tickless help bench", ErrorKind::DisplayHelp),
            (
                "tickless",
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
            ),
            ("tickless bnech", ErrorKind::InvalidSubcommand),
            ("tickless --quick", ErrorKind::UnknownArgument),
        ] {
            let answer = asked(line).expect_err("it is answered");
            assert_eq!(answer.kind(), kind, "{line}: {answer}");
        }
    }

    #[cfg(feature = "full")]
    #[test]
    fn the_list_is_that_of_the_full_build() {
        use clap::CommandFactory as _;

        let full = crate::Arguments::command();
        let about = |command: &clap::Command| command.get_about().map(ToString::to_string);
        let full = { full.get_subcommands() }
            .filter(|command| command.get_name() != "demo")
            .map(|command| {
                (
                    command.get_name().to_owned(),
                    about(command).unwrap_or_default(),
                )
            });
        let listed = super::OTHERS.map(|(name, about)| (name.to_owned(), about.to_owned()));
        assert_eq!(full.collect::<Vec<_>>(), listed);
    }
}

//! The handover from the demo's build to a build with all commands.

use std::ffi::OsString;
use std::process::Command;

#[cfg(not(feature = "full"))]
use crate::failure::Failure;

const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");

/// Returns the arguments of a call of any command but the demo. `call` begins with the name of the program.
pub(crate) fn is_needed(call: impl IntoIterator<Item = OsString>) -> Option<Vec<OsString>> {
    let arguments: Vec<OsString> = call.into_iter().skip(1).collect();
    let is_demo = arguments.first().is_some_and(|first| first == "demo");
    (!is_demo).then_some(arguments)
}

/// Replaces the process with cargo, which builds all commands and runs the requested one. Returns only if that fails.
#[cfg(not(feature = "full"))]
pub(crate) fn run(arguments: &[OsString]) -> Failure {
    use std::os::unix::process::CommandExt as _;

    let error = cargo(arguments).exec();
    Failure::Machine(format!(
        "this build has the demo alone, and cargo does not start ({error}); build all commands with: \
         cargo build --release --package tickless-lab"
    ))
}

fn cargo(arguments: &[OsString]) -> Command {
    // The one that started this program, if one did.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["run", "--release", "--manifest-path", MANIFEST, "--"])
        .args(arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::{MANIFEST, cargo, is_needed};
    use std::ffi::OsString;

    fn asked(line: &str) -> Option<Vec<OsString>> {
        is_needed(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn all_but_the_demo_is_handed_over_with_its_arguments() {
        assert_eq!(asked("tickless demo --help"), None);
        assert_eq!(asked("tickless"), Some(vec![]));
        assert_eq!(asked("tickless --help"), Some(vec!["--help".into()]));
        let arguments = asked("tickless sim run demo").expect("the simulator is not the demo");
        let command = cargo(&arguments);
        let words: Vec<_> = command.get_args().collect();
        let expected = [
            "run",
            "--release",
            "--manifest-path",
            MANIFEST,
            "--",
            "sim",
            "run",
            "demo",
        ];
        assert_eq!(words, expected);
    }
}

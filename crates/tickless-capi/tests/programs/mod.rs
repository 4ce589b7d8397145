//! Helpers to build and run test programs, for this crate and for the crate that is loaded before the C library.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns true if `program` is installed; prints its name if not.
pub(crate) fn is_there(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        say(&format!("left out: there is no {program}"));
    }
    is_there
}

#[expect(
    clippy::print_stderr,
    reason = "a reader is to know what was not tested"
)]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}

/// Returns the directory of this program, into which cargo also puts the library.
pub(crate) fn built() -> PathBuf {
    let program = std::env::current_exe().expect("a program knows where it is");
    program.parent().expect("in a directory").to_owned()
}

#[track_caller]
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().expect("it can be started");
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    output
}

pub(crate) fn remove(program: &Path) {
    let _it_may_stay = std::fs::remove_file(program);
}

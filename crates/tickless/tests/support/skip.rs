//! The message of tests that cannot check something on this machine.

use std::io::Write as _;

/// Prints that a test did not check `what`. The message bypasses the capture of the test harness, and has the words
/// that `cargo xtask check` counts at its end.
pub(crate) fn skip(what: &str, because: &str) {
    let _best_effort = writeln!(std::io::stderr(), "\nskipped: {what}, because {because}");
}

//! Tests that this machine does not let look at something say so.

use std::io::Write as _;

/// Prints that a test did not look at `what`: past the capturing of the test harness, in the words that
/// `cargo xtask check` counts at its end.
pub(crate) fn skip(what: &str, because: &str) {
    let _best_effort = writeln!(std::io::stderr(), "\nskipped: {what}, because {because}");
}

//! Tests that do not look at something say so.

use std::io::Write;

/// Says that a test did not look at `what`. Written past the capturing of the test harness: `cargo xtask check` finds
/// the line, and counts it at its end.
pub(crate) fn skipped(what: &str, because: &str) {
    // A closed output is not what the test is about.
    let _closed = writeln!(std::io::stdout(), "skipped: {what}, because {because}");
}

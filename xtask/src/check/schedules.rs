//! The step `schedules`, which runs the tests in the `fuzz.rs` of each library for a few seconds each. A test generates
//! random schedules of a protocol. `cargo xtask soak` runs the same tests for longer.

use super::run::Run;
use crate::soak::{self, Share, Tally};

/// The schedules of the check, which are the same each time: a check that fails now and then by itself teaches people
/// only to run it again.
const SHARE: Share = Share {
    schedules: 3_000,
    seed: 1,
};

pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
    let found = soak::find(run.root(), run.workspace()?)?;
    if found.is_empty() {
        run.skip("schedules", "no library has a file called fuzz.rs");
        return Ok(());
    }
    let checker = soak::build_checker().capture(run.root())?;
    if checker.result.is_err() {
        let complaint = checker.last_complaint();
        run.skip(
            "schedules",
            &format!("shuttle cannot be built: {complaint}"),
        );
        return Ok(());
    }
    let mut tally = Tally::default();
    for cases in &found {
        let result = run.invoke_watched(&soak::line(cases, None, SHARE), |line| tally.watch(line));
        tally.judge(result)?;
    }
    tally.require(found.iter().map(soak::Cases::len).sum(), SHARE)?;
    run.note(&format!(
        "{} schedules from seed {} on; cargo xtask soak runs more",
        tally.schedules, SHARE.seed
    ));
    Ok(())
}

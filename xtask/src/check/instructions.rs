//! The check of the instruction counts of hot paths against the table in the page on performance.
//!
//! Another compiler makes other code, and another architecture has other instructions. On such a machine the counts
//! cannot be compared, and the step says so.

use std::fs;

use super::run::Run;
use crate::invocation::Invocation;

/// The page with the table.
const PAGE: &str = "docs/performance.md";

pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
    if let Some(reason) = missing(run)? {
        run.skip("instructions", &reason);
        return Ok(());
    }
    run.invoke(
        &Invocation::cargo(&["run", "--quiet", "--release"])
            .packages(&["tickless-bench"])
            .args(&["--", "--instructions", "--check"]),
    )
}

/// Returns the reason why the counts cannot be compared; `None` if they can.
fn missing(run: &Run<'_>) -> Result<Option<String>, String> {
    let root = run.root();
    let valgrind = Invocation::new("valgrind").arg("--version").capture(root);
    if !valgrind.is_ok_and(|captured| captured.result.is_ok()) {
        return Ok(Some("there is no valgrind".to_owned()));
    }
    let path = root.join(PAGE);
    let page = fs::read_to_string(path).map_err(|error| format!("{PAGE}: {error}"))?;
    let compiler = Invocation::new("rustc").arg("-V").capture(root)?.stdout;
    let made_by = format!("With {} for {}:", compiler.trim(), std::env::consts::ARCH);
    Ok((!page.contains(&made_by)).then(|| format!("the table in {PAGE} is of another compiler")))
}

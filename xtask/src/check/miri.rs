//! The check by Miri: undefined behaviour in the crates that contain unsafe code.

use super::run::Run;
use crate::invocation::Invocation;
use crate::toolchain;

/// The packages with unsafe code whose tests Miri can execute, including packages that do not exist yet.
const WANTED: &[&str] = &["tickless-link"];

const TOOLCHAIN: &str = "nightly";

/// The filter of the tests that take about half of the time. Miri executes all threads of a program on one CPU, so two
/// programs share the tests: one runs the tests with this text in their names, the other runs all others.
const HALF: &str = "tree::tests::r";

pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
    let (packages, missing) = run.workspace()?.present(WANTED);
    if !missing.is_empty() {
        run.note(&format!("not in the workspace yet: {}", missing.join(", ")));
    }
    if let Err(reason) = prepare(run) {
        run.skip("miri", &reason);
        return Ok(());
    }
    let line = Invocation::cargo_of(TOOLCHAIN, &["miri", "test"])
        .packages(&packages)
        .args(&["--target-dir", "target/miri"]);
    // Built once, or one would wait for the other to do so.
    run.invoke(&line.clone().arg("--no-run"))?;
    run.invoke_beside(
        &[line.clone().args(&["--", HALF])],
        &[line.args(&["--", "--skip", HALF])],
    )
}

/// Installs Miri and the standard library that it interprets.
fn prepare(run: &Run<'_>) -> Result<(), String> {
    let root = run.root();
    toolchain::ensure_toolchain(root, TOOLCHAIN)?;
    toolchain::ensure_component(root, TOOLCHAIN, "miri")?;
    toolchain::ensure_component(root, TOOLCHAIN, "rust-src")?;
    let setup = Invocation::cargo_of(TOOLCHAIN, &["miri", "setup"]);
    let captured = setup.capture(root)?;
    if captured.result.is_ok() {
        Ok(())
    } else {
        let complaint = captured.last_complaint();
        Err(format!("its standard library cannot be built: {complaint}"))
    }
}

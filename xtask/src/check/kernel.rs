//! The kernel: laid out and linted as the library is, and run on each of its machines.
//!
//! Where instructions are counted for time each run of one CPU is the same, to the last byte of its report: the step
//! runs it twice.

use clap::ValueEnum;

use super::run::Run;
use crate::invocation::Invocation;
use crate::kernel::{Accel, Arch, Plan, Settings, explained, plan};

/// CPUs of the run that takes all tests.
const CPUS: u32 = 4;

pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
    let manifest = ["--manifest-path", "kernel/Cargo.toml"];
    run.invoke(&Invocation::cargo(&["fmt", "--check"]).args(&manifest))?;
    for &arch in Arch::value_variants() {
        let settings = |cpus| Settings {
            arch,
            accel: Accel::Tcg,
            cpus,
            icount: true,
            relative: false,
            immediate: false,
            test: None,
        };
        let Some(first) = report(run, &settings(1))? else {
            continue;
        };
        let lint = Invocation::cargo(&["clippy", "--release"]).args(&manifest);
        run.invoke(&lint.args(&["--target", arch.target()]).deny_warnings())?;
        let second = report(run, &settings(1))?;
        if second.as_ref() != Some(&first) {
            return Err("two runs of one CPU differ".to_owned());
        }
        let _many = report(run, &settings(CPUS))?;
    }
    Ok(())
}

/// Runs the kernel and returns what it said; `None` if it was skipped.
fn report(run: &mut Run<'_>, settings: &Settings) -> Result<Option<Vec<String>>, String> {
    match plan(run.root(), settings)? {
        Plan::Skip(what, reason) => {
            run.skip(&what, &reason);
            Ok(None)
        }
        Plan::Run(build, emulation) => {
            run.invoke(&build)?;
            let mut lines = Vec::new();
            let result = run.invoke_watched(&emulation, |line| lines.push(line.to_owned()));
            result.map_err(|message| explained(&message))?;
            Ok(Some(lines))
        }
    }
}

//! The kernel: laid out and linted as the library is, and run on each of its machines.
//!
//! Where instructions are counted for time each run of one CPU is the same, to the last byte of its report: the step
//! runs it until two runs are alike. The emulator runs on one processor of the host: of 20 runs on two processors 12
//! entered up to 7 of 10,000 interrupts late, of 60 on one none did. Beside other programs one of 20 still did, so a
//! run that fails is repeated; what the kernel has wrong comes each time.

use std::fs;

use clap::ValueEnum;

use super::run::Run;
use crate::files;
use crate::invocation::Invocation;
use crate::kernel::{
    Accel, Arch, CONFORMANCE_TEST, Plan, Settings, TRACE_TEST, TRACED, explained, plan,
};

/// CPUs of the run that takes all tests.
const CPUS: u32 = 4;
/// The number of runs that must fail before a failure is reported.
const ATTEMPTS: usize = 6;

pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
    let manifest = ["--manifest-path", "kernel/Cargo.toml"];
    for package in [
        "tickless-kernel",
        "tickless-kernel-pc",
        "tickless-kernel-sim",
        "tickless-kernel-std",
    ] {
        let format = ["fmt", "--check", "--package", package];
        run.invoke(&Invocation::cargo(&format).args(&manifest))?;
    }
    let target = files::target(run.root()).display().to_string();
    let pc = ["--package", "tickless-kernel-pc", "--target-dir", &target];
    let lint = Invocation::cargo(&["clippy", "--all-targets"]).args(&manifest);
    run.invoke(&lint.args(&pc).deny_warnings())?;
    run.invoke_tests(&Invocation::cargo(&["test"]).args(&manifest).args(&pc))?;
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
        if !alike(run, &settings(1), 2)? {
            continue;
        }
        for features in [&[][..], &["--features", "conformance-rig"]] {
            let lint = Invocation::cargo(&["clippy", "--release"])
                .args(&manifest)
                .args(&["--target", arch.target()])
                .args(&["--target-dir", &target])
                .args(features);
            run.invoke(&lint.deny_warnings())?;
        }
        alike(run, &settings(CPUS), 1)?;
        // An image of its own takes a minute to build, so the other machines have theirs by `cargo xtask kernel`.
        if arch == Arch::Aarch64 {
            let conformance = Settings {
                test: Some(CONFORMANCE_TEST.to_owned()),
                ..settings(1)
            };
            alike(run, &conformance, 1)?;
        }
        verified(run, &settings(CPUS))?;
    }
    // The one device that is told a deadline in the TSC. The time is the host's, so little is run.
    let deadline = Settings {
        arch: Arch::X86,
        accel: Accel::Kvm,
        cpus: 2,
        icount: false,
        relative: false,
        immediate: false,
        test: Some("sweep".to_owned()),
    };
    alike(run, &deadline, 1)?;
    Ok(())
}

/// Runs the kernel until so many runs passed with the same report; false if it was skipped.
fn alike(run: &mut Run<'_>, settings: &Settings, wanted: usize) -> Result<bool, String> {
    let mut passed: Vec<Vec<String>> = Vec::new();
    let mut last = format!("no {wanted} of {ATTEMPTS} runs are alike");
    for _ in 0..ATTEMPTS {
        match report(run, settings) {
            Ok(None) => return Ok(false),
            Ok(Some(lines)) => {
                passed.push(lines.clone());
                if passed.iter().filter(|before| **before == lines).count() == wanted {
                    return Ok(true);
                }
            }
            Err(message) => last = message,
        }
    }
    Err(last)
}

/// Has the trace checker judge the kernel's own trace.
fn verified(run: &mut Run<'_>, settings: &Settings) -> Result<(), String> {
    let settings = Settings {
        test: Some(TRACE_TEST.to_owned()),
        ..settings.clone()
    };
    let Some(lines) = report(run, &settings)? else {
        return Ok(());
    };
    let traced = lines.iter().filter_map(|line| line.strip_prefix(TRACED));
    let text: String = traced.flat_map(|line| [line.trim_end(), "\n"]).collect();
    let name = format!("kernel/trace-{}.jsonl", settings.arch.target());
    let file = files::target(run.root()).join(name);
    fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    let verify = Invocation::cargo(&["run", "--quiet", "--package", "tickless-lab", "--"]);
    run.invoke(&verify.arg("verify").arg(file.display().to_string()))
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

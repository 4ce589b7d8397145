//! The check for other systems: the library is built for each of them, and their host is tested here.
//!
//! Programs for most other systems are built and not run. The host of these systems uses the standard library alone;
//! the feature `portable` chooses that host on Linux too, and its tests run here. Programs for other kinds of Linux
//! run, and programs for Windows run under wine. The check runs a fast part of the suites. These commands run the whole
//! suites:
//!
//! ```text
//! cargo test -p tickless --features portable --tests
//! cargo xtask linux
//! cargo xtask wine
//! ```

use std::path::Path;

use clap::ValueEnum;

use super::run::Run;
use crate::cortex_m::{self, Processor};
use crate::files;
use crate::invocation::{Invocation, is_installed};
use crate::linux::{LinuxKind, WITHOUT_WORLDS};
use crate::toolchain;
use crate::wine;

/// The systems for which the library is built, in addition to the system on which the check runs. Those of one family
/// are built together.
///
/// The systems of a family have the same dependencies. Cargo chooses the features of dependencies for all targets of a
/// command, so a system of another family would hide what these lack.
const FAMILIES: &[&[&str]] = &[
    &["x86_64-pc-windows-gnu"],
    &[
        "aarch64-apple-darwin",
        "x86_64-apple-darwin",
        "x86_64-unknown-freebsd",
        "x86_64-unknown-netbsd",
    ],
    &[
        "aarch64-unknown-linux-gnu",
        "x86_64-unknown-linux-musl",
        "i686-unknown-linux-gnu",
        "riscv64gc-unknown-linux-gnu",
    ],
    &["wasm32-wasip1", "wasm32-unknown-unknown"],
];

/// Processors without 64-bit atomics; the first of them cannot even exchange a word.
const NARROW: &[&str] = &[
    "thumbv6m-none-eabi",
    "thumbv7m-none-eabi",
    "riscv32imac-unknown-none-elf",
];

/// The number of emulator runs that must fail before a failure is reported.
const ATTEMPTS: usize = 4;

/// The system of a program that node runs directly.
const WASM: &str = "wasm32-wasip1";

/// The system of a program that JavaScript's event loop calls, and the tool that makes a module of such a program.
const EVENTS: &str = "wasm32-unknown-unknown";
const BINDGEN: &str = "wasm-bindgen";

/// The tests of the portable host that take seconds.
const FAST: &[&str] = &[
    "--lib", "--test", "time", "--test", "timers", "--test", "worker",
];

pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
    let (present, missing) = run.workspace()?.present(&["tickless"]);
    if present.is_empty() {
        run.skip(
            "platforms",
            &format!("{} does not exist", missing.join(", ")),
        );
        return Ok(());
    }
    run.invoke(&suite())?;
    for family in FAMILIES {
        let targets = installed(run, "the library", family);
        together(run, &targets, build_for)?;
    }
    let (linux, windows) = (other_linux(run), windows(run)?);
    run.invoke_beside(linux.as_slice(), windows.as_slice())?;
    sleep_in_node(run)?;
    sleep_in_an_event_loop(run)?;
    bare_machines(run)?;
    cortex_m(run)
}

/// Returns the command that tests what every host promises on the kind of Linux that differs most: another processor,
/// whose memory is less ordered. Skips it if the machine lacks a tool.
fn other_linux(run: &mut Run<'_>) -> Option<Invocation> {
    let kind = LinuxKind::Aarch64;
    if let Err(reason) = kind.present(run.root()) {
        run.skip(&format!("the suites on {}", kind.target()), &reason);
        return None;
    }
    Some(kind.any_host())
}

/// Returns the command that tests what every host promises on Windows, as far as wine imitates Windows. Skips it if the
/// machine lacks a tool.
///
/// It builds into a directory of its own, because another build runs beside it: cargo lets no two builds into one
/// directory. The tests assert no upper bound of a time that the other could break.
fn windows(run: &mut Run<'_>) -> Result<Option<Invocation>, String> {
    if let Err(reason) = wine::present(run.root()) {
        run.skip("what every host promises, under wine", &reason);
        return Ok(None);
    }
    let place = files::target(run.root()).join("windows");
    let line = wine::fast(run.root())?;
    Ok(Some(
        line.arg("--target-dir").arg(place.display().to_string()),
    ))
}

/// Builds the example for JavaScript's event loop, and runs the example in node.
fn sleep_in_an_event_loop(run: &mut Run<'_>) -> Result<(), String> {
    let what = format!("sleeps on {EVENTS}");
    if let Err(reason) = toolchain::ensure_target(run.root(), EVENTS) {
        run.skip(&what, &reason);
        return Ok(());
    }
    let target = files::target(run.root());
    run.invoke(&web(&target))?;
    for program in [BINDGEN, "node"] {
        if !is_installed(program) {
            run.skip(&what, &format!("there is no {program}"));
            return Ok(());
        }
    }
    let place = target.join("web").display().to_string();
    let program = target.join(EVENTS).join("debug/tickless_web.wasm");
    run.invoke(
        &Invocation::new(BINDGEN)
            .args(&["--target", "nodejs", "--out-dir", &place])
            .arg(program.display().to_string()),
    )?;
    run.invoke(&Invocation::new("node").args(&["examples/web/node.mjs", &place]))
}

/// Returns the command that builds the example of a page.
fn web(target: &Path) -> Invocation {
    let manifest = ["build", "--manifest-path", "examples/web/Cargo.toml"];
    Invocation::cargo(&manifest)
        .args(&["--target", EVENTS, "--target-dir"])
        .arg(target.display().to_string())
}

/// Builds the core for processors without 64-bit atomics.
fn bare_machines(run: &mut Run<'_>) -> Result<(), String> {
    let targets = installed(run, "the core", NARROW);
    together(run, &targets, bare)
}

/// Returns those of `targets` for which the toolchain can build, and skips `what` for each of the others.
fn installed(run: &mut Run<'_>, what: &str, targets: &[&'static str]) -> Vec<&'static str> {
    let mut found = Vec::new();
    for &target in targets {
        match toolchain::ensure_target(run.root(), target) {
            Ok(()) => found.push(target),
            Err(reason) => run.skip(&format!("{what} for {target}"), &reason),
        }
    }
    found
}

/// Builds for all `targets` by one command. Each build compiles one crate after another, so one build alone would leave
/// a processor idle.
///
/// The errors of such a command do not say for which target they are, so after a failure each target is built by
/// itself.
fn together(
    run: &mut Run<'_>,
    targets: &[&str],
    line: fn(&[&str]) -> Invocation,
) -> Result<(), String> {
    if targets.is_empty() {
        return Ok(());
    }
    run.invoke(&line(targets)).or_else(|failure| {
        let alone = |target: &&str| run.invoke(&line(&[*target]));
        targets.iter().try_for_each(alone).and(Err(failure))
    })
}

/// Runs the core on Cortex-M, built for each processor.
fn cortex_m(run: &mut Run<'_>) -> Result<(), String> {
    for &processor in Processor::value_variants() {
        if let Err(reason) = cortex_m::present(run.root(), processor) {
            run.skip(&format!("the core on {}", processor.target()), &reason);
            continue;
        }
        run.invoke(&cortex_m::build(run.root(), processor))?;
        repeated(run, &cortex_m::emulation(run.root(), processor))?;
        if processor == Processor::CortexM3 {
            for line in cortex_m::lint(run.root()) {
                run.invoke(&line)?;
            }
        }
    }
    Ok(())
}

/// Runs the emulator until it passes: while other programs run, one run in twenty enters an interrupt late. A real
/// fault shows in every run.
fn repeated(run: &mut Run<'_>, emulation: &Invocation) -> Result<(), String> {
    let mut last = Ok(());
    for _ in 0..ATTEMPTS {
        last = run.invoke(emulation);
        if last.is_ok() {
            break;
        }
    }
    last.map_err(|message| cortex_m::explained(&message))
}

/// Returns the command that lints for `targets`.
fn lint(targets: &[&str]) -> Invocation {
    let line = Invocation::cargo(&["clippy", "--no-deps"]);
    let with = |line: Invocation, target: &&str| line.args(&["--target", target]);
    targets.iter().fold(line, with)
}

/// Builds the crates that need no operating system for `targets`.
fn bare(targets: &[&str]) -> Invocation {
    lint(targets)
        .packages(&["tickless-link", "tickless-core", "tickless-sched"])
        .deny_warnings()
}

/// Runs a program with one thread on WebAssembly, in node.
fn sleep_in_node(run: &mut Run<'_>) -> Result<(), String> {
    let what = format!("sleeps on {WASM}");
    if !is_installed("node") {
        run.skip(&what, "there is no node");
        return Ok(());
    }
    if let Err(reason) = toolchain::ensure_target(run.root(), WASM) {
        run.skip(&what, &reason);
        return Ok(());
    }
    run.invoke(&in_node())
}

/// Returns the command for the example `alone`, which node runs.
fn in_node() -> Invocation {
    Invocation::cargo(&["run", "--example", "alone", "--target", WASM])
        .packages(&["tickless"])
        .variable(
            "CARGO_TARGET_WASM32_WASIP1_RUNNER",
            "node --no-warnings xtask/src/check/wasi.mjs",
        )
}

/// Tests the portable host.
fn suite() -> Invocation {
    Invocation::cargo(&["test", "--features", "portable"])
        .packages(&["tickless"])
        .args(FAST)
        .args(&WITHOUT_WORLDS)
}

/// Builds the library for `targets`, with the lints on.
fn build_for(targets: &[&str]) -> Invocation {
    let line = lint(targets).packages(&["tickless"]);
    // tokio itself has no reactor on WebAssembly, and does not build with one.
    let line = if targets.iter().any(|target| target.starts_with("wasm")) {
        line
    } else {
        line.args(&["--features", "tokio"])
    };
    line.deny_warnings()
}

#[cfg(test)]
mod tests {
    use super::{FAMILIES, WASM, build_for, in_node, lint, suite};

    #[test]
    fn each_system_is_built_with_the_lints() {
        assert_eq!(
            build_for(FAMILIES[0]).to_string(),
            "cargo clippy --no-deps --target x86_64-pc-windows-gnu -p tickless --features tokio -- -D warnings"
        );
        assert!(!build_for(&[WASM]).to_string().contains("tokio"));
        let both = lint(&["one", "other"]).to_string();
        assert!(both.ends_with(" --target one --target other"), "{both}");
    }

    #[test]
    fn node_runs_what_is_built_for_it() {
        let shown = in_node().to_string();
        assert!(shown.contains("WASIP1_RUNNER"), "{shown}");
        assert!(FAMILIES.concat().contains(&WASM));
    }

    #[test]
    fn the_portable_host_is_tried_on_this_system() {
        assert!(
            suite()
                .to_string()
                .starts_with("cargo test --features portable -p tickless --lib")
        );
    }
}

//! The C tests, with a library that the address sanitizer instruments, and one that the thread sanitizer does.
//!
//! The standard library is instrumented too, so that no lock of it is unknown: a nightly compiler builds it. The C
//! programs are instrumented by gcc, whose runtimes both share. Cases that a tool cannot run say so beside themselves.
//! The step runs only when it is asked for: two whole builds take minutes.

use super::run::Run;
use crate::invocation::{Invocation, is_installed};
use crate::toolchain;

const TOOLCHAIN: &str = "nightly";
const SANITIZERS: [&str; 2] = ["address", "thread"];
/// A target must be named, or build scripts would be instrumented.
const TARGET: &str = "x86_64-unknown-linux-gnu";

pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
    if let Err(reason) = prepare(run) {
        run.skip("the sanitizers", &reason);
        return Ok(());
    }
    for sanitizer in SANITIZERS {
        let directory = crate::files::target(run.root()).join(format!("sanitizer-{sanitizer}"));
        let build = [
            "build",
            "-Zbuild-std",
            "--target",
            TARGET,
            "-p",
            "tickless-capi",
        ];
        let line = Invocation::cargo_of(TOOLCHAIN, &build)
            .arg("--target-dir")
            .arg(directory.display().to_string());
        run.invoke(&line.variable("RUSTFLAGS", format!("-Zsanitizer={sanitizer}")))?;
        let library = directory.join(TARGET).join("debug/libtickless_capi.a");
        let tests = Invocation::cargo(&["test", "-p", "tickless-capi", "--test", "c"])
            .variable("TICKLESS_SANITIZER", sanitizer)
            .variable("TICKLESS_SANITIZED", library.display().to_string());
        run.invoke_tests(&tests)?;
    }
    Ok(())
}

fn prepare(run: &Run<'_>) -> Result<(), String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(format!("the libraries are built for {TARGET} alone"));
    }
    if !is_installed("gcc") {
        return Err("there is no gcc".to_owned());
    }
    toolchain::ensure_toolchain(run.root(), TOOLCHAIN)?;
    toolchain::ensure_component(run.root(), TOOLCHAIN, "rust-src")
}

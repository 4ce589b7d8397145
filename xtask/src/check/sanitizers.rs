//! The check of the C tests with the sanitizers: once with a library that the address sanitizer instruments, and once
//! with a library that the thread sanitizer instruments.
//!
//! The standard library is instrumented too, so that the sanitizer sees all of its locks; a nightly compiler builds it.
//! Gcc instruments the C programs; the programs and the library share gcc's runtimes. Cases that a tool cannot run say
//! so in their source. The step runs only if it is named, because two whole builds take minutes.

use super::run::Run;
use crate::invocation::{Invocation, is_installed};
use crate::toolchain;

const TOOLCHAIN: &str = "nightly";
const SANITIZERS: [&str; 2] = ["address", "thread"];
/// The target, which must be named, because otherwise build scripts would be instrumented.
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

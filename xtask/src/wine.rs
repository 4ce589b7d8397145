//! The tests of the library on Windows, as far as wine imitates Windows.
//!
//! Mingw links the programs for `x86_64-pc-windows-gnu`, and wine runs them. The standard library imports `ProcessPrng`
//! from a library that wine 8 does not have. This task makes such a library, which calls the older function of Windows,
//! and wine finds it by `WINEPATH`. Wine shows that the port is right; its clock and its sleeps are those of the system
//! below it.

use std::fs;
use std::path::Path;

use clap::Args;

use crate::invocation::{Invocation, is_installed};
use crate::toolchain;

const TARGET: &str = "x86_64-pc-windows-gnu";
const COMPILER: &str = "x86_64-w64-mingw32-gcc";
/// The directory of wine's drive and of the library that wine lacks.
const PLACE: &str = "target/wine";

/// The source of the library that wine lacks. `SystemFunction036` is the name of `RtlGenRandom` in Windows.
const RANDOM: &str = "\
__declspec(dllimport) unsigned char __stdcall SystemFunction036(void *buffer, unsigned long length);
__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *buffer, unsigned long long length) {
    while (length != 0) {
        unsigned long part = length > 0x10000000 ? 0x10000000 : (unsigned long)length;
        if (!SystemFunction036(buffer, part)) return 0;
        buffer += part;
        length -= part;
    }
    return 1;
}
";

/// Runs what every host promises on Windows under wine: no timer is early, none is lost.
///
/// Also prints how late sleeps are there. A tool that the machine lacks is named as skipped; this is no failure. The
/// first build takes minutes, and the first start of wine half a minute.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Runs only the tests that take seconds.
    #[arg(long)]
    fast: bool,
}

pub(crate) fn main(root: &Path, arguments: &Arguments) -> Result<(), String> {
    if let Err(because) = present(root) {
        println!("skipped: the library on Windows, because {because}");
        return Ok(());
    }
    make_random(root)?;
    if arguments.fast {
        return run(root, &fast(root));
    }
    run(root, &suite(root))?;
    run(root, &lateness(root))
}

/// Fails with the reason if the machine lacks a tool.
fn present(root: &Path) -> Result<(), String> {
    for program in ["wine", COMPILER] {
        if !is_installed(program) {
            return Err(format!("there is no {program}"));
        }
    }
    toolchain::ensure_target(root, TARGET)
}

/// Makes the library that wine lacks.
fn make_random(root: &Path) -> Result<(), String> {
    let place = root.join(PLACE);
    let source = place.join("random.c");
    fs::create_dir_all(&place)
        .and_then(|()| fs::write(&source, RANDOM))
        .map_err(|error| format!("{}: {error}", source.display()))?;
    let line = Invocation::new(COMPILER).args(&[
        "-shared",
        "-nostdlib",
        "-Wl,-e,0",
        "-o",
        "bcryptprimitives.dll",
        "random.c",
        "-ladvapi32",
    ]);
    run(&place, &line)
}

fn run(directory: &Path, line: &Invocation) -> Result<(), String> {
    println!("   {line}");
    line.run(directory)
}

/// Returns the command that runs the tests of the promises of every host, and the unit tests.
fn suite(root: &Path) -> Invocation {
    by_wine(
        root,
        &["test", "-p", "tickless", "--lib", "--test", "any_host"],
    )
}

/// Returns the command of the tests that take seconds.
fn fast(root: &Path) -> Invocation {
    by_wine(root, &["test", "-p", "tickless", "--test", "any_host"])
}

/// Returns the command of the measurement.
fn lateness(root: &Path) -> Invocation {
    by_wine(root, &["run", "-p", "tickless", "--example", "lateness"])
}

/// Returns a cargo command whose programs wine runs.
fn by_wine(root: &Path, command: &[&str]) -> Invocation {
    let place = root.join(PLACE).display().to_string();
    Invocation::cargo(command)
        .args(&["--target", TARGET])
        .variable("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", "wine")
        .variable("WINEDEBUG", "-all")
        .variable("WINEPATH", place.clone())
        .variable("WINEPREFIX", format!("{place}/prefix"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{lateness, suite};

    #[test]
    fn programs_of_windows_are_run_by_wine() {
        for line in [suite(Path::new("/tree")), lateness(Path::new("/tree"))] {
            let shown = line.to_string();
            assert!(shown.contains("--target x86_64-pc-windows-gnu"), "{shown}");
            assert!(shown.contains("WINDOWS_GNU_RUNNER=wine"), "{shown}");
            assert!(shown.contains("WINEPATH=/tree/target/wine"), "{shown}");
        }
    }
}

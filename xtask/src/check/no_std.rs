//! The check of the crates that must build without an operating system.
//!
//! Only a target without a standard library proves this: on the host, a dependency may bring in `std` unseen. If that
//! target cannot be installed, the step only builds for the host and checks the attribute, and says so.

use super::run::Run;
use crate::files;
use crate::invocation::Invocation;
use crate::tidy::scan::Scan;
use crate::toolchain;

/// The packages that need no operating system, including packages that do not exist yet.
const WANTED: &[&str] = &["tickless-link", "tickless-core", "tickless-sched"];

/// The target of the demonstration kernel: a processor without an operating system.
const TARGET: &str = "x86_64-unknown-none";

pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
    let (packages, missing) = run.workspace()?.present(WANTED);
    if !missing.is_empty() {
        run.note(&format!("not in the workspace yet: {}", missing.join(", ")));
    }
    if packages.is_empty() {
        run.skip("no-std", "none of its packages exists");
        return Ok(());
    }
    let build = Invocation::cargo(&["build", "--lib"]).packages(&packages);
    match toolchain::ensure_target(run.root(), TARGET) {
        Ok(()) => run.invoke(&build.args(&["--target", TARGET])),
        Err(reason) => {
            run.skip(
                &format!("the bare target {TARGET} (host build instead)"),
                &reason,
            );
            for package in packages {
                require_attribute(run, package)?;
            }
            run.invoke(&build)
        }
    }
}

/// Fails unless the root of `package` has the attribute `no_std`.
fn require_attribute(run: &Run<'_>, package: &str) -> Result<(), String> {
    let workspace = run.workspace()?;
    let directory = workspace
        .member(package)
        .map(|member| workspace.directory(member))
        .unwrap_or_default();
    let path = format!("{directory}src/lib.rs");
    let text = files::read(run.root(), &path)?;
    if renounces_std(&text) {
        Ok(())
    } else {
        Err(format!("{path} does not say #![no_std]"))
    }
}

fn renounces_std(text: &str) -> bool {
    Scan::new(text).code.contains("#![no_std]")
}

#[cfg(test)]
mod tests {
    use super::renounces_std;

    #[test]
    fn the_attribute_counts_in_code_only() {
        assert!(renounces_std("//! Doc.\n#![no_std]\n"));
        assert!(!renounces_std("//! #![no_std]\n"));
        assert!(!renounces_std("const TEXT: &str = \"#![no_std]\";"));
    }
}

//! The crates that must build where there is no operating system.
//!
//! Only a target without a standard library proves it: on the host a dependency may bring `std` in unseen. Where that
//! target cannot be had, the host build and the attribute are what is left, and the step says that it did only that.

use super::run::Run;
use crate::files;
use crate::invocation::Invocation;
use crate::tidy::scan::Scan;
use crate::toolchain;

/// The packages that need no operating system, those to come included.
const WANTED: &[&str] = &["tickless-link", "tickless-core", "tickless-sched"];

/// The processor of the demonstration kernel, without anything on it.
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

/// Fails unless the root of `package` renounces the standard library.
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

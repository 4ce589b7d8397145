//! The parts that rustup may have to install: targets, components, toolchains.
//!
//! Each part is checked first and installed only if it is missing. If the installation fails (no network, no rustup),
//! the caller skips its step and shows the reason that this module returns. A check that cannot run has neither passed
//! nor failed.

use std::path::Path;

use crate::invocation::{Invocation, is_installed};

/// Makes sure that the toolchain in use can build for `target`.
pub(crate) fn ensure_target(root: &Path, target: &str) -> Result<(), String> {
    ensure(
        root,
        &format!("the target {target}"),
        &["target", "list", "--installed"],
        |line| line == target,
        &["target", "add", target],
    )
}

/// Makes sure that `name` is installed, as in `cargo +name`.
pub(crate) fn ensure_toolchain(root: &Path, name: &str) -> Result<(), String> {
    ensure(
        root,
        &format!("the toolchain {name}"),
        &["toolchain", "list", "--quiet"],
        |line| names_toolchain(line, name),
        &["toolchain", "install", name, "--profile", "minimal"],
    )
}

pub(crate) fn ensure_component(
    root: &Path,
    toolchain: &str,
    component: &str,
) -> Result<(), String> {
    ensure(
        root,
        &format!("the component {component} of {toolchain}"),
        &["component", "list", "--installed", "--toolchain", toolchain],
        |line| names_component(line, component),
        &["component", "add", component, "--toolchain", toolchain],
    )
}

fn ensure(
    root: &Path,
    what: &str,
    list: &[&str],
    present: impl Fn(&str) -> bool,
    install: &[&str],
) -> Result<(), String> {
    if !is_installed("rustup") {
        return Err(format!("{what} cannot be looked for: there is no rustup"));
    }
    let rustup = || Invocation::new("rustup");
    let listed = rustup().args(list).capture(root)?;
    if listed.result.is_ok() && listed.stdout.lines().any(|line| present(line.trim())) {
        return Ok(());
    }
    let line = rustup().args(install);
    println!("   {line}");
    let installed = line.capture(root)?;
    if installed.result.is_ok() {
        Ok(())
    } else {
        let complaint = installed.last_complaint();
        Err(format!("{what} cannot be installed: {complaint}"))
    }
}

/// Returns true if a line of `rustup toolchain list` is the toolchain called `name`, for any host.
///
/// A dated or more precise name (`nightly-2026-01-01-HOST`) is another toolchain.
fn names_toolchain(line: &str, name: &str) -> bool {
    let full = line.split_whitespace().next().unwrap_or_default();
    match full.strip_prefix(name) {
        Some("") => true,
        Some(rest) => rest
            .strip_prefix('-')
            .is_some_and(|host| host.starts_with(|first: char| first.is_ascii_alphabetic())),
        None => false,
    }
}

/// Returns true if a line of `rustup component list` is `component`, for any host.
fn names_component(line: &str, component: &str) -> bool {
    line.strip_prefix(component)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::names_toolchain;

    #[test]
    fn a_toolchain_is_known_on_any_host_but_not_by_a_longer_name() {
        assert!(names_toolchain("1.88-x86_64-unknown-linux-gnu", "1.88"));
        assert!(names_toolchain(
            "nightly-x86_64-unknown-linux-gnu (default)",
            "nightly"
        ));
        assert!(names_toolchain("nightly", "nightly"));
        assert!(!names_toolchain("1.88.0-x86_64-unknown-linux-gnu", "1.88"));
        assert!(!names_toolchain(
            "nightly-2026-01-01-x86_64-unknown-linux-gnu",
            "nightly"
        ));
        assert!(!names_toolchain(
            "stable-x86_64-unknown-linux-gnu",
            "nightly"
        ));
    }
}

//! The check of the adapters, against the crates for which they are made.
//!
//! The adapters are a workspace of their own, because their dependencies are large: QUIC, TLS, a resolver. So the step
//! runs only if it is named. Its budget is ten minutes for a first build, on two processors that other programs use
//! too, and one minute afterwards.

use super::moved;
use super::run::Run;
use crate::invocation::Invocation;

const MANIFEST: [&str; 2] = ["--manifest-path", "adapters/Cargo.toml"];

/// The features of the adapters. Each adapter is built alone, because features of crates that are built together add
/// up.
const FEATURES: [&str; 9] = [
    "backon",
    "embassy",
    "embedded-hal",
    "governor",
    "hickory",
    "opentelemetry",
    "quinn",
    "rtic",
    "tower",
];

pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
    if let Err(reason) = fetched(run) {
        run.skip("the adapters", &reason);
        return Ok(());
    }
    run.invoke(&Invocation::cargo(&["fmt", "--all", "--check"]).args(&MANIFEST))?;
    let everything = ["clippy", "--workspace", "--all-targets", "--all-features"];
    run.invoke(&line(run, &everything).deny_warnings())?;
    for feature in FEATURES {
        let alone = ["clippy", "--no-deps", "--lib", "--features", feature];
        run.invoke(&line(run, &alone).deny_warnings())?;
    }
    let documented = line(run, &["doc", "--no-deps", "--all-features"]);
    run.invoke(&documented.variable("RUSTDOCFLAGS", "-D warnings"))?;
    run.invoke_tests(&line(run, &["test", "--workspace", "--all-features"]))?;
    moved::step(run)
}

fn line(run: &Run<'_>, command: &[&str]) -> Invocation {
    let target = crate::files::target(run.root());
    { Invocation::cargo(command).args(&MANIFEST) }
        .arg("--target-dir")
        .arg(target.join("adapters").display().to_string())
}

/// Fetches the dependencies of the adapters, or returns the reason why they cannot be fetched.
fn fetched(run: &Run<'_>) -> Result<(), String> {
    let fetch = Invocation::cargo(&["fetch", "--locked"]).args(&MANIFEST);
    let captured = fetch.capture(run.root())?;
    if captured.result.is_ok() {
        return Ok(());
    }
    Err(format!(
        "their packages cannot be fetched: {}",
        captured.last_complaint()
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::FEATURES;

    /// The test reads the manifest as text, because the adapters are in another workspace.
    #[test]
    fn each_feature_of_the_adapters_is_built_alone() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../adapters/Cargo.toml");
        let manifest = std::fs::read_to_string(root).unwrap();
        let section = manifest.split("[features]").nth(1).unwrap();
        let section = section.split("\n[").next().unwrap();
        let names = section.lines().filter(|line| !line.starts_with('#'));
        let names = names
            .filter_map(|line| line.split_once(" = "))
            .map(|(name, _)| name);
        let names: BTreeSet<&str> = names.filter(|&name| name != "default").collect();
        assert_eq!(names, BTreeSet::from(FEATURES));
    }
}

//! The comparison of the interfaces of the crates with those of the last release.
//!
//! A release is a tag `vMAJOR.MINOR.PATCH`. Before the first release there is nothing to compare with, and the task
//! says so.

use std::path::Path;

use clap::Args;

use crate::invocation::{Invocation, is_installed};

/// The crates that promise semantic versioning (docs/versions.md).
const CRATES: [&str; 3] = ["tickless", "tickless-core", "tickless-sched"];
const PROGRAM: &str = "cargo-semver-checks";

/// Compares the interfaces of the crates with those of the last release, by cargo-semver-checks.
///
/// A comparison that cannot be made is named as skipped, with the reason, and is no failure.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Compares with this revision instead of the newest tag of a release.
    #[arg(long, value_name = "REVISION")]
    baseline: Option<String>,
}

/// Runs `cargo xtask semver`.
pub(crate) fn main(root: &Path, arguments: &Arguments) -> Result<(), String> {
    let tags = Invocation::new("git")
        .args(&["tag", "--list", "v*"])
        .capture(root)?;
    let baseline = match &arguments.baseline {
        Some(revision) => Some(revision.as_str()),
        None => newest(&tags.stdout),
    };
    match plan(is_installed(PROGRAM), baseline) {
        Plan::Skip(why) => {
            println!("skipped: the comparison of the interfaces, because {why}");
            Ok(())
        }
        Plan::Compare(invocation) => invocation.run(root),
    }
}

/// A comparison, or the reason why there is none.
#[derive(Debug)]
enum Plan {
    Skip(&'static str),
    Compare(Invocation),
}

fn plan(has_program: bool, baseline: Option<&str>) -> Plan {
    match baseline {
        None => Plan::Skip("there is no release yet to compare with"),
        Some(_) if !has_program => Plan::Skip("there is no cargo-semver-checks"),
        Some(revision) => Plan::Compare(
            Invocation::cargo(&["semver-checks", "--baseline-rev", revision]).packages(&CRATES),
        ),
    }
}

/// Returns the tag of the highest version among `tags`, one a line; tags of another form are ignored.
fn newest(tags: &str) -> Option<&str> {
    tags.lines()
        .filter_map(|tag| Some((version(tag)?, tag)))
        .max()
        .map(|(_, tag)| tag)
}

/// Returns the numbers of `v1.2.3`; `None` for another text.
fn version(tag: &str) -> Option<[u64; 3]> {
    let mut numbers = tag.strip_prefix('v')?.split('.').map(str::parse);
    let version = [
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
    ];
    numbers.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::{Plan, newest, plan};

    #[test]
    fn the_highest_version_is_the_last_release() {
        assert_eq!(
            newest("v0.9.0\nv0.10.1\nv0.10\nvery-old\n"),
            Some("v0.10.1")
        );
        assert_eq!(newest(""), None);
        assert_eq!(newest("v1.0.0-rc.1\nv1.2.3.4\n"), None);
    }

    #[test]
    fn a_comparison_that_cannot_be_made_says_why() {
        let why = |has_program, baseline| match plan(has_program, baseline) {
            Plan::Skip(why) => why,
            Plan::Compare(invocation) => panic!("{invocation:?}"),
        };
        assert!(why(true, None).contains("no release yet"));
        assert!(why(false, Some("v1.0.0")).contains("no cargo-semver-checks"));
        let Plan::Compare(invocation) = plan(true, Some("v1.0.0")) else {
            panic!("all is there");
        };
        let line = invocation.to_string();
        assert!(line.contains("--baseline-rev v1.0.0"), "{line}");
        assert!(line.contains("tickless-core"), "{line}");
    }
}

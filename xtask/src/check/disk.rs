//! The check of the disk space before the first step, so that no step fails half-way because the disk is full.
//!
//! A whole check leaves [`WHOLE`] on the disk. About half of it is what the compiler keeps for the next change of a
//! crate (`incremental`). Keeping it takes a fifth of a build, so a check that begins without any of it, as in a clean
//! clone, keeps none either. If the whole does not fit, the check runs *lean*: it keeps nothing for the next change,
//! and removes the files that only a finished step needed. If the lean check does not fit either, it does not begin.

use std::ffi::OsStr;
use std::path::Path;

use super::Step;
use crate::files::target;
use crate::invocation::Invocation;

/// The disk space that a whole check leaves behind after it began with an empty target directory, in MiB: 5,291 at
/// commit f3c41ae. The rest is for growth.
const WHOLE: u64 = 6_500;
/// The most disk space that a lean check takes at a time, in MiB: 2,900, and in addition that of one later step at a
/// time.
const LEAN: u64 = 4_200;

/// The way in which the steps use the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Roomy,
    /// The disk has enough space for one check, so that nothing is kept for the next change.
    Fresh,
    /// See the module documentation.
    Lean,
}

impl Plan {
    /// Returns this plan, or [`Fresh`](Self::Fresh) if the compiler kept nothing in `target` except for this program.
    fn kept_by(self, target: &Path) -> Self {
        let kept = std::fs::read_dir(target.join("debug/incremental"));
        let of_others = |name: &OsStr| !name.to_string_lossy().starts_with("xtask-");
        let mut kept = kept.into_iter().flatten().flatten();
        if self == Self::Roomy && !kept.any(|entry| of_others(&entry.file_name())) {
            Self::Fresh
        } else {
            self
        }
    }
}

/// Chooses a plan for a whole check of the checkout at `root`, and says why.
pub(super) fn plan(root: &Path) -> Result<Plan, String> {
    let target = target(root);
    let used = used(&target)?;
    let free = free(root)?;
    let (plan, text) = choose(used, free)?;
    println!("disk: {text}");
    Ok(plan.kept_by(&target))
}

/// Returns the space that the checkout at `root` uses and the space that is left, for the end of a check.
pub(super) fn account(root: &Path) -> Result<String, String> {
    let (used, free) = (used(&target(root))?, free(root)?);
    Ok(format!("disk: target has {used} MiB, {free} MiB are free"))
}

/// Removes the files that only `step` needed.
pub(super) fn clear_after(root: &Path, step: Step) -> Result<(), String> {
    let directory = match step {
        Step::Features => target(root).join("features"),
        Step::TestRelease => target(root).join("testrelease"),
        Step::Loom => root.join("target/loom"),
        Step::Miri => root.join("target/miri"),
        Step::Msrv => root.join("target/msrv"),
        _ => return Ok(()),
    };
    match std::fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", directory.display()))
        }
        _ => Ok(()),
    }
}

/// Returns the plan for a target directory that has `used` MiB on a disk with `free` MiB left, and a text that explains
/// the plan.
fn choose(used: u64, free: u64) -> Result<(Plan, String), String> {
    let missing = |need: u64| need.saturating_sub(used);
    let have = format!("target has {used} MiB, {free} MiB are free");
    if missing(WHOLE) <= free {
        Ok((
            Plan::Roomy,
            format!("a whole check takes {WHOLE} MiB; {have}"),
        ))
    } else if missing(LEAN) <= free {
        Ok((
            Plan::Lean,
            format!(
                "a whole check takes {WHOLE} MiB; {have}: so nothing is kept for the next change, and what a step \
                 alone needed goes with it, which takes {LEAN} MiB"
            ),
        ))
    } else {
        Err(format!(
            "a whole check takes {LEAN} MiB at least, {have}: free {} MiB more, or take steps one by one (--only)",
            missing(LEAN) - free
        ))
    }
}

/// Returns the size of a directory in MiB; 0 if it does not exist.
fn used(directory: &Path) -> Result<u64, String> {
    if !directory.exists() {
        return Ok(0);
    }
    // Files come and go while it looks, which it complains about; the sum stands all the same.
    let line = Invocation::new("du").args(&["-sk", &directory.display().to_string()]);
    let captured = line.capture(Path::new("."))?;
    first_number(&captured.stdout).ok_or_else(|| format!("`{line}` says no size"))
}

/// Returns the free space of the file system that holds `directory`, in MiB.
fn free(directory: &Path) -> Result<u64, String> {
    let line = Invocation::new("df").args(&["-Pk", &directory.display().to_string()]);
    let captured = line.capture(Path::new("."))?;
    // The second line: file system, blocks, used, available.
    let row = captured.stdout.lines().nth(1).unwrap_or_default();
    let available = row.split_whitespace().nth(3).unwrap_or_default();
    first_number(available).ok_or_else(|| format!("`{line}` says no size"))
}

/// Reads the KiB at the beginning of `text`, and returns MiB, rounded down.
fn first_number(text: &str) -> Option<u64> {
    let kibibytes: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes / 1024)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{LEAN, Plan, WHOLE, choose, free, used};

    #[test]
    fn a_check_is_roomy_lean_or_refused() {
        let plan = |used, free| choose(used, free).map(|(plan, _)| plan);
        assert_eq!(plan(0, WHOLE), Ok(Plan::Roomy));
        assert_eq!(plan(WHOLE, 0), Ok(Plan::Roomy));
        assert_eq!(plan(0, WHOLE - 1), Ok(Plan::Lean));
        assert_eq!(plan(1, LEAN - 1), Ok(Plan::Lean));
        let refused = plan(1_000, LEAN - 1_001).unwrap_err();
        assert!(refused.contains("free 1 MiB more"), "{refused}");
    }

    #[test]
    fn what_is_built_for_the_first_time_is_not_kept_for_the_next() {
        let target = std::env::temp_dir().join(format!("tickless-kept-{}", std::process::id()));
        let kept = |name: &str| {
            std::fs::create_dir_all(target.join("debug/incremental").join(name)).unwrap();
            [Plan::Roomy, Plan::Lean].map(|plan| plan.kept_by(&target))
        };
        assert_eq!(Plan::Roomy.kept_by(&target), Plan::Fresh);
        assert_eq!(kept("xtask-1a2b"), [Plan::Fresh, Plan::Lean]);
        assert_eq!(kept("tickless_core-1a2b"), [Plan::Roomy, Plan::Lean]);
        std::fs::remove_dir_all(&target).unwrap();
    }

    #[test]
    fn the_disk_is_asked() {
        assert_eq!(used(Path::new("no-such-directory")), Ok(0));
        assert!(used(Path::new("src")).is_ok());
        assert!(free(Path::new(".")).unwrap() > 0);
    }
}

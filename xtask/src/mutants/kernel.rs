//! The tests of the kernel as the suite: one image for all mutants, to which the emulator gives the name of the switch.
//!
//! A mutant that hangs is noticed only where the unbroken kernel ends in a fraction of the same time. That time is
//! measured at the start, and again when a mutant seems to hang: other programs may have slowed the machine down.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::ValueEnum;

use super::trial::{Outcome, Trial};
use crate::files;
use crate::invocation::Captured;
use crate::kernel::{
    Arch, CONFORMANCE_TEST, Settings, building, explained, image, is_hung, lacking, running,
};

/// The page that names the mutants that survive, in rows that begin with [`NO_KILLER`], the machines unless they are all,
/// a colon, and the reason.
pub(super) const REASONS: &str = "docs/kernel.md";
const NO_KILLER: &str = "| none";

/// A run that takes so many times as long as that of the unbroken kernel has hung.
const PATIENCE: u64 = 3;
/// The least limit of a run, in seconds.
const LEAST_LIMIT: u64 = 20;
/// The number of times that a mutant runs while the machine gets slower and slower.
const TRIES: usize = 4;

/// A run of the kernel.
#[derive(Debug)]
struct Step {
    cpus: u32,
    /// The only test; all tests if there is none.
    test: Option<&'static str>,
    /// The beginning of the names of the mutants that need it.
    of: &'static str,
    /// The real seconds that a mutant may take.
    limit: AtomicU64,
}

/// The runs of one image.
struct Runs<'r> {
    root: &'r Path,
    image: PathBuf,
    settings: Settings,
    /// In their order, until one notices the mutant.
    steps: [Step; 3],
}

/// Returns the names of the mutants that no test of the kernel notices on `arch`.
pub(super) fn excused(root: &Path, arch: Arch) -> Result<Vec<String>, String> {
    let text = files::read(root, REASONS)?;
    let machine = arch.to_possible_value();
    let machine = machine.as_ref().map_or("", |value| value.get_name());
    let rows = text.lines().filter(|line| {
        let reason = line.strip_prefix(NO_KILLER);
        let machines = reason.and_then(|reason| reason.split(':').next());
        machines.is_some_and(|machines| machines.is_empty() || machines.contains(machine))
    });
    // The names stand between backticks in the last column.
    let names = rows.flat_map(|row| row.split(" | ").last().unwrap_or("").split('`').skip(1));
    Ok(names.step_by(2).map(str::to_owned).collect())
}

/// Builds the kernel from the copy at `tree`, with the suites, and returns the way to run it.
pub(super) fn build<'r>(root: &'r Path, tree: &Path, arch: Arch) -> Result<Trial<'r>, String> {
    let settings = Settings::counted(arch, 4, None);
    if let Some((what, reason)) = lacking(root, &settings)? {
        return Err(format!("{what} cannot run, because {reason}"));
    }
    // Beside the copy: the copy loses each Rust file that the tree does not have.
    let place = files::target(root).join("mutants");
    let build = building(&place, &[arch], &[CONFORMANCE_TEST]);
    println!("   $ {build}");
    build.run(tree)?;
    let step = |cpus, test, of| Step {
        cpus,
        test,
        of,
        limit: AtomicU64::new(LEAST_LIMIT),
    };
    let runs = Runs {
        root,
        image: image(&place, arch),
        settings,
        steps: [
            step(4, None, ""),
            // It exchanges the devices, and the tests do not.
            step(1, Some(CONFORMANCE_TEST), ""),
            // So many CPUs are several groups.
            step(34, Some("served"), "hierarchy-"),
        ],
    };
    Ok(Box::new(move |mutant, lane| {
        for step in &runs.steps {
            let end = match mutant {
                None => runs.unbroken(step, lane).map(|(end, _)| end)?,
                Some(name) if name.starts_with(step.of) => runs.broken(step, name, lane)?,
                Some(_) => None,
            };
            if let Some(end) = end {
                return Ok(Outcome::Killed(end));
            }
        }
        Ok(Outcome::Survived)
    }))
}

impl Runs<'_> {
    /// Runs `step` with no mutant. Returns how it failed, if it did, and three times the seconds that it took, which
    /// the mutants may take from now on.
    fn unbroken(&self, step: &Step, lane: usize) -> Result<(Option<String>, u64), String> {
        let started = Instant::now();
        let captured = self.run(step, None, None, lane)?;
        let limit = started.elapsed().as_secs() * PATIENCE;
        // Relaxed: a number that orders nothing else.
        step.limit.fetch_max(limit, Ordering::Relaxed);
        let message = captured.result.as_ref().err();
        let end = message.map(|message| killer(step, &captured.stdout, message));
        Ok((end, limit))
    }

    /// Returns how `step` failed with `mutant`; `None` if it did not.
    fn broken(&self, step: &Step, mutant: &str, lane: usize) -> Result<Option<String>, String> {
        for _ in 0..TRIES {
            // Relaxed: see above.
            let limit = step.limit.load(Ordering::Relaxed);
            let captured = self.run(step, Some(mutant), Some(limit), lane)?;
            let Err(message) = captured.result else {
                return Ok(None);
            };
            if !is_hung(&message) || self.unbroken(step, lane)?.1 <= limit {
                return Ok(Some(killer(step, &captured.stdout, &message)));
            }
        }
        Err(format!(
            "{mutant}: the machine is too busy to say whether it hangs"
        ))
    }

    fn run(
        &self,
        step: &Step,
        mutant: Option<&str>,
        limit: Option<u64>,
        lane: usize,
    ) -> Result<Captured, String> {
        let settings = Settings {
            cpus: step.cpus,
            lane,
            limit,
            test: step.test.map(str::to_owned),
            mutant: mutant.map(str::to_owned),
            ..self.settings.clone()
        };
        running(self.root, &settings, &self.image)?.capture(self.root)
    }
}

/// Returns the test that failed; if none did, the way in which the kernel ended, and the last test that passed.
fn killer(step: &Step, report: &str, message: &str) -> String {
    let lines = || report.lines().map(str::trim_end);
    if let Some(failed) = lines().find_map(|line| line.strip_prefix("failed: ")) {
        return failed.to_owned();
    }
    let end = explained(message);
    let end = if is_hung(message) {
        "hung"
    } else {
        end.split(':').next().unwrap_or(&end)
    };
    let passed = lines().rev().find_map(|line| line.strip_prefix("passed: "));
    match (step.test, passed) {
        (Some(test), _) => format!("{test}: {end}"),
        (None, Some(passed)) => format!("{end}, after {passed}"),
        (None, None) => end.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::excused;
    use crate::kernel::Arch;
    use crate::mutants::switches;

    #[test]
    fn each_mutant_with_a_reason_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let known = switches::names(root).unwrap();
        for arch in [Arch::Aarch64, Arch::Riscv64, Arch::X86] {
            let excused = excused(root, arch).unwrap();
            assert!(excused.len() >= 5, "{excused:?}");
            let unknown = excused.iter().find(|name| !known.contains(name));
            assert_eq!(unknown, None);
        }
    }
}

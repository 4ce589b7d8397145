//! The tests of the kernel as the suite: one image for all mutants, to which the emulator gives the name of the switch.

use std::path::Path;

use super::trial::{Outcome, Trial};
use crate::files;
use crate::kernel::{
    Arch, CONFORMANCE_TEST, Settings, building, explained, image, lacking, running,
};

/// The page that names the mutants that survive, in rows that begin with [`NO_KILLER`] and the reason.
pub(super) const REASONS: &str = "docs/kernel.md";
const NO_KILLER: &str = "| none: ";

/// Returns the names of the mutants that no test of the kernel notices.
pub(super) fn excused(root: &Path) -> Result<Vec<String>, String> {
    let text = files::read(root, REASONS)?;
    let rows = text.lines().filter(|line| line.starts_with(NO_KILLER));
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
    let image = image(&place, arch);
    Ok(Box::new(move |mutant, lane| {
        // The suites last: they exchange the devices, and the tests of the kernel do not.
        for (cpus, test) in [(4, None), (1, Some(CONFORMANCE_TEST))] {
            let settings = Settings {
                cpus,
                lane,
                test: test.map(str::to_owned),
                mutant: mutant.map(str::to_owned),
                ..settings.clone()
            };
            let captured = running(root, &settings, &image)?.capture(root)?;
            if let Err(message) = captured.result {
                let end = explained(&message);
                let end = end.split(':').next().unwrap_or(&end);
                let end = test.map_or_else(|| end.to_owned(), |test| format!("{test}: {end}"));
                return Ok(Outcome::Killed(killer(&captured.stdout, &end)));
            }
        }
        Ok(Outcome::Survived)
    }))
}

/// Returns the test that failed; if none did, the way in which the kernel ended, and the last test that passed.
fn killer(report: &str, end: &str) -> String {
    let lines = || report.lines().map(str::trim_end);
    let failed = lines().find_map(|line| line.strip_prefix("failed: "));
    let passed = lines().rev().find_map(|line| line.strip_prefix("passed: "));
    match (failed, passed) {
        (Some(failed), _) => failed.to_owned(),
        (None, Some(passed)) => format!("{end}, behind {passed}"),
        (None, None) => end.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::excused;
    use crate::mutants::switches;

    #[test]
    fn each_mutant_with_a_reason_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let known = switches::names(root).unwrap();
        let excused = excused(root).unwrap();
        assert!(excused.len() >= 5, "{excused:?}");
        assert!(
            excused.iter().all(|name| known.contains(name)),
            "{excused:?}"
        );
    }
}

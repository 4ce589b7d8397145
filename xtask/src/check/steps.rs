//! The steps of the check, read from `xtask/steps.txt`.

use std::sync::LazyLock;

/// The conditions under which a step runs if no step is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// The step runs in every check.
    Quick,
    /// The step runs unless `--quick` is given.
    Full,
    /// The step runs with `--all`: the laboratory, the kernel, and what repeats the tests in another way.
    All,
    /// The step runs only if it is named, because it takes too long for every run.
    OnRequest,
}

/// A line of a step.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// What the machine has to have: pairs of a kind and a name.
    pub(super) needs: Vec<(&'static str, &'static str)>,
    /// What the line finds does not fail the check.
    pub(super) is_search: bool,
    pub(super) line: String,
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) share: Share,
    pub(super) parts: Vec<Part>,
}

/// The steps in the order in which they run.
pub(super) static STEPS: LazyLock<Vec<Step>> =
    LazyLock::new(|| read(include_str!("../../steps.txt")).expect("a test reads the steps"));

fn read(text: &'static str) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    let mut next = Part::default();
    let mut is_needs = false;
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = || format!("steps.txt:{number}: {line}");
        let pairs = |words: &'static str| {
            let pair = |word: &'static str| word.split_once(':').ok_or_else(wrong);
            words
                .split_whitespace()
                .map(pair)
                .collect::<Result<Vec<_>, _>>()
        };
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(head) = line.strip_prefix('[') {
            let (name, rest) = head.split_once("] ").ok_or_else(wrong)?;
            let (share, about) = rest.split_once(": ").ok_or_else(wrong)?;
            let share = match share {
                "quick" => Share::Quick,
                "full" => Share::Full,
                "all" => Share::All,
                "request" => Share::OnRequest,
                _ => return Err(wrong()),
            };
            let parts = Vec::new();
            steps.push(Step {
                name,
                about,
                share,
                parts,
            });
        } else if line.starts_with(' ') && is_needs {
            next.needs.extend(pairs(line)?);
        } else if let Some(needs) = line.strip_prefix("needs ") {
            (next.needs, is_needs) = (pairs(needs)?, true);
        } else if line == "finds" {
            next.is_search = true;
        } else {
            let parts = &mut steps.last_mut().ok_or_else(wrong)?.parts;
            if let Some(more) = line.strip_prefix("    ") {
                let part = parts.last_mut().ok_or_else(wrong)?;
                part.line = format!("{} {}", part.line, more.trim_start());
            } else {
                next.line = line.to_owned();
                parts.push(std::mem::take(&mut next));
                is_needs = false;
            }
        }
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{STEPS, read};
    use crate::{files, workspace::Workspace};

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    /// Returns the lines of a step, each with spaces around it.
    fn lines(name: &str) -> String {
        let step = STEPS.iter().find(|step| step.name == name).unwrap();
        let lines = step.parts.iter().map(|part| format!(" {} ", part.line));
        lines.collect()
    }

    #[test]
    fn each_line_is_one_of_the_shell_and_each_step_has_one() {
        for step in STEPS.iter() {
            assert!(!step.parts.is_empty(), "{}", step.name);
            for part in &step.parts {
                let shell = std::process::Command::new("sh")
                    .args(["-n", "-c", &part.line])
                    .status();
                assert!(shell.unwrap().success(), "{}", part.line);
            }
        }
        for wrong in ["[a] b", "[a] often: b", "a line", "[a] full: b\nneeds c\nd"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_feature_is_in_a_set() {
        let all = lines("features");
        for package in Workspace::load(root()).unwrap().libraries() {
            let (_, sets) = all
                .split_once(&format!("sets {} ", package.name))
                .expect("each library has sets");
            let sets = sets.split(['&', ')']).next().unwrap_or_default();
            let packaged = files::read(root(), "xtask/package.sh").unwrap();
            let is_packaged = packaged.contains(&format!(" {} ", package.name));
            assert!(
                is_packaged || package.name == "tickless-preload",
                "{}",
                package.name
            );
            for feature in package.features.keys() {
                let is_there = sets.split([' ', ',']).any(|word| word == feature);
                assert!(is_there, "{}: {feature} is in no set", package.name);
            }
        }
    }

    #[test]
    fn each_file_of_models_is_compiled_and_explored() {
        let paths = files::list(root()).unwrap();
        let models: Vec<_> = paths
            .iter()
            .filter(|path| path.ends_with("/model.rs"))
            .collect();
        assert!(models.len() > 20, "{}", models.len());
        for path in models {
            let (package, _) = path.split_once("/src/").unwrap();
            let package = format!(" -p {} ", package.rsplit('/').next().unwrap());
            for step in ["loom", "models"] {
                assert!(lines(step).contains(&package), "{path} is not in {step}");
            }
            let directory = path.strip_suffix("/model.rs").unwrap();
            let mut parents = [".rs", "/mod.rs", "/lib.rs"].into_iter();
            let declares = |end| {
                files::read(root(), &format!("{directory}{end}"))
                    .is_ok_and(|text| text.contains("mod model;"))
            };
            assert!(parents.any(declares), "no module declares {path}");
        }
    }

    #[test]
    fn the_oldest_compiler_is_that_of_the_manifest() {
        for package in Workspace::load(root()).unwrap().libraries() {
            let promised = format!("cargo +{} ", package.rust_version.as_deref().unwrap());
            assert!(lines("msrv").contains(&promised), "{}", package.name);
        }
    }
}

//! The style checker: the rules of the house style that no lint checks.
//!
//! A rule that no program checks is a wish. This task checks the rules that the house style marks for it, over every
//! file that git tracks or would track. Most checks read text and not a parsed program: they see into macros, and they
//! still work on a file that does not compile. The price is that they are heuristics, so each check prefers to miss a
//! doubtful case over blaming an innocent line. A finding names the rule, the place and the remedy.

use std::path::Path;

use clap::Args;

use self::tree::{Report, Tree};

mod citations;
mod markdown;
pub(crate) mod tree;

/// Checks the rules of the house style that no lint checks.
///
/// Checks every file that git tracks or would track, and prints each finding as `path:line: [rule] message: hint`.
///
/// Exits with 1 when there is one.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Shows the rules, and checks nothing.
    #[arg(long)]
    list: bool,
}

/// One rule: its id in the house style, what it asserts, and the function that checks it.
type Rule = (&'static str, &'static str, fn(&Tree, &mut Report<'_>));

/// Every rule that this task checks.
const RULES: &[Rule] = &[
    (
        "S1",
        "no file imports what stands above it, and none in a circle (cargo xtask structure)",
        structure,
    ),
    (
        "H2",
        "each package takes the lints of the workspace",
        workspace_lints,
    ),
    (
        "V2",
        "the patches of the mutants apply (cargo xtask mutants)",
        mutants,
    ),
    (
        "H1",
        "no path of one machine, and no host of a package registry",
        machines,
    ),
    (
        "H5",
        "links lead to a file and a heading, those of the book stay in it, and it has each page",
        markdown::links,
    ),
    (
        "H5",
        "what cites the specifications leads to a section or an id of one page",
        citations::resolve,
    ),
    (
        "V2",
        "each id in a conformance checklist has a test that cites it, or a reason",
        citations::tested,
    ),
];

/// Runs `cargo xtask tidy`.
pub(crate) fn main(root: &Path, arguments: &Arguments) -> Result<(), String> {
    if arguments.list {
        for (id, about, _) in RULES {
            println!("[{id}] {about}");
        }
        return Ok(());
    }
    let tree = Tree::load(root)?;
    let mut findings = Vec::new();
    for &(rule, _, check) in RULES {
        check(
            &tree,
            &mut Report {
                rule,
                findings: &mut findings,
            },
        );
    }
    findings.sort();
    for (path, line, text) in &findings {
        println!("{path}:{line}: {text}");
    }
    let errors = findings.len();
    println!("   tidy: {} files, {errors} errors", tree.files.len());
    if errors == 0 {
        Ok(())
    } else {
        Err(format!("tidy found {errors} errors"))
    }
}

fn texts(tree: &Tree) -> std::collections::BTreeMap<String, String> {
    let pairs = tree
        .files
        .iter()
        .map(|file| (file.path.clone(), file.text.clone()));
    pairs.collect()
}

fn structure(tree: &Tree, report: &mut Report<'_>) {
    match crate::structure::read(&texts(tree)) {
        Ok(crates) => {
            for (path, message) in crate::structure::breaches(&crates) {
                report.error(
                    &path,
                    1,
                    message,
                    "turn the arrow round: hand in what is needed, or move it down",
                );
            }
        }
        Err(message) => report.error("Cargo.toml", 1, message, "make it Rust"),
    }
}

fn mutants(tree: &Tree, report: &mut Report<'_>) {
    for (patch, reason) in crate::mutants::patches::patched(&texts(tree))
        .err()
        .unwrap_or_default()
    {
        let hint = "cargo xtask mutants --tree, put the switches into the file of target/mutants/tree, and --save";
        report.error(
            &patch,
            1,
            format!("the patch does not apply: {reason}"),
            hint,
        );
    }
}

/// Checks that each package inherits the lints of the workspace, because a package that forgets `[lints]` has none.
fn workspace_lints(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.ending("Cargo.toml") {
        let has = |wanted: &str| file.text.lines().any(|line| line.trim() == wanted);
        // A package that is a workspace of its own has no lints to take.
        if has("[package]")
            && !has("[workspace]")
            && !file.text.contains("[lints]\nworkspace = true")
        {
            let hint = "add [lints] with workspace = true";
            report.error(
                &file.path,
                1,
                "the package has lints of its own or none",
                hint,
            );
        }
    }
}

/// Directories of one machine, and hosts from which packages come, in halves so that this file does not contain them.
const PLACES: [&str; 3] = [
    concat!("/wo", "rk"),
    concat!("/ro", "ot"),
    concat!("/ho", "me/"),
];
const REGISTRIES: [&str; 4] = [
    concat!("crates", ".io"),
    concat!("py", "pi.org"),
    concat!("npm", "js."),
    concat!("deb.deb", "ian.org"),
];

fn machines(tree: &Tree, report: &mut Report<'_>) {
    for file in tree
        .files
        .iter()
        .filter(|file| !file.path.ends_with("Cargo.lock"))
    {
        for (number, line) in file.lines() {
            if PLACES.iter().any(|place| names(line, place)) {
                report.error(
                    &file.path,
                    number,
                    "a path of one machine",
                    "write it relative to the checkout",
                );
            }
            let lower = line.to_lowercase();
            if REGISTRIES.iter().any(|host| lower.contains(host)) {
                report.error(
                    &file.path,
                    number,
                    "the host of a package registry",
                    "name the package alone",
                );
            }
        }
    }
}

/// Returns true if a path in `line` begins with `place`; inside a longer path it is just a name.
fn names(line: &str, place: &str) -> bool {
    let is_part = |letter: char| tree::is_word(letter) || ".-/*}".contains(letter);
    line.match_indices(place).any(|(at, _)| {
        let after = line[at + place.len()..].chars().next();
        let fits = match after {
            Some(letter) if place.ends_with('/') => letter.is_ascii_alphanumeric(),
            after => after.is_none_or(|letter| !tree::is_word(letter) && letter != '-'),
        };
        fits && !line[..at].ends_with(is_part)
    })
}

#[cfg(test)]
mod samples {
    use super::{Report, Tree};

    /// Returns the lines in which `rule` finds a fault in `files`.
    pub(super) fn lines(rule: fn(&Tree, &mut Report<'_>), files: &[(&str, &str)]) -> Vec<usize> {
        let mut findings = Vec::new();
        rule(
            &Tree::of(files),
            &mut Report {
                rule: "X1",
                findings: &mut findings,
            },
        );
        findings.into_iter().map(|(_, line, _)| line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::samples::lines;
    use super::{PLACES, REGISTRIES, machines, mutants, structure, workspace_lints};

    #[test]
    fn paths_of_a_machine_and_registries_are_found() {
        let [work, root, homes] = PLACES;
        for bad in [
            format!("see {work}/main"),
            format!("`{root}`"),
            format!("cd {root}/x"),
            format!("\"{homes}anna\""),
            format!("https://{}/x", REGISTRIES[0]),
        ] {
            assert_eq!(lines(machines, &[("a.txt", &bad)]), [1], "{bad}");
            assert_eq!(lines(machines, &[("Cargo.lock", &bad)]), [0; 0]);
        }
        for good in [
            format!("src{work}/main"),
            format!("{work}ers"),
            format!("{work}-queue"),
            format!("{homes}<name>"),
            format!("https://host{homes}anna"),
        ] {
            assert_eq!(lines(machines, &[("a.txt", &good)]), [0; 0], "{good}");
        }
    }

    #[test]
    fn a_package_without_the_lints_of_the_workspace_is_found() {
        let package = "[package]\nname = \"a\"\n";
        for (more, found) in [
            ("", 1),
            ("[lints]\nworkspace = true\n", 0),
            ("[lints.rust]\na = \"allow\"\n", 1),
            ("[workspace]\n", 0),
        ] {
            let text = format!("{package}{more}");
            assert_eq!(
                lines(workspace_lints, &[("crates/a/Cargo.toml", &text)]).len(),
                found,
                "{more}"
            );
        }
    }

    #[test]
    fn a_circle_and_a_stale_patch_are_found() {
        let circle = [
            ("crates/a/Cargo.toml", "[package]"),
            ("crates/a/src/lib.rs", "mod b; mod c;"),
            ("crates/a/src/b.rs", "pub struct B(crate::c::C);"),
            ("crates/a/src/c.rs", "pub struct C(crate::b::B);"),
        ];
        assert_eq!(lines(structure, &circle), [1]);
        let patch = "--- a/x.rs\n+++ b/x.rs\n@@ -1,1 +1,1 @@\n-gone\n+here\n";
        assert_eq!(
            lines(
                mutants,
                &[("x.rs", "a\n"), ("xtask/mutants/x.rs.patch", patch)]
            ),
            [1]
        );
    }
}

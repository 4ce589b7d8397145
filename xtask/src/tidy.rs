//! The style checker: the rules of the house style that no lint checks.
//!
//! A rule that no program checks is a wish. This task checks the rules that the house style marks for it, over every
//! file that git tracks or would track. Most checks read text and not a parsed program: they see into macros, and they
//! still work on a file that does not compile. The price is that they are heuristics, so each check prefers to miss a
//! doubtful case over blaming an innocent line. A finding names the rule, the place and the remedy.

use std::path::Path;

use self::tree::{Report, Tree};

mod citations;
mod markdown;
pub(crate) mod tree;

/// One rule: its id in the house style, and the function that checks it.
type Rule = (&'static str, fn(&Tree, &mut Report<'_>));

const RULES: &[Rule] = &[
    // No file imports what stands above it, and none in a circle (cargo xtask structure).
    ("S1", structure),
    // The patches of the mutants apply (cargo xtask mutants).
    ("V2", mutants),
    // Links lead to a file and a heading, those of the book stay in it, and it has each page.
    ("H5", markdown::links),
    // What cites the specifications leads to a section or an id of one page.
    ("H5", citations::resolve),
    // Each id in a conformance checklist has a test that cites it, or a reason.
    ("V2", citations::tested),
];

pub(crate) fn main(root: &Path) -> Result<(), String> {
    let tree = Tree::load(root)?;
    let mut findings = Vec::new();
    for &(rule, check) in RULES {
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
    use super::{mutants, structure};

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

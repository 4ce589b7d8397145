//! The style checker: the rules of the house style that no lint checks.
//!
//! A rule that no program checks is a wish. This task checks the rules that the house style marks for it, over every
//! file that git tracks or would track. The checks read text and braces, not a parsed program: they see into macros,
//! they take milliseconds, and they still work on a file that does not compile. The price is that they are heuristics,
//! so each check prefers to miss a doubtful case over blaming an innocent line.
//!
//! A finding names the rule, the place and the text to write instead. Findings fail the task.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;

use self::tree::Tree;

mod citations;
mod markdown;
mod prose;
pub(crate) mod scan;
mod text;
mod tree;
mod unsafe_code;

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

/// One rule, with the function that checks it.
struct Rule {
    /// The id of the rule in the house style.
    id: &'static str,
    about: &'static str,
    check: fn(&Tree, &mut Report<'_>),
}

/// Every rule that this task checks.
const RULES: &[Rule] = &[
    Rule {
        id: "S1",
        about: "no file imports what stands above it, and none in a circle (cargo xtask structure)",
        check: structure,
    },
    Rule {
        id: "H2",
        about: "each package takes the lints of the workspace",
        check: tree::workspace_lints,
    },
    Rule {
        id: "U1",
        about: "unsafe stands in the link crate and in listed files that have a decision note",
        check: unsafe_code::placed,
    },
    Rule {
        id: "V2",
        about: "the patches of the mutants apply (cargo xtask mutants)",
        check: mutants,
    },
    Rule {
        id: "H1",
        about: "no path of one machine",
        check: text::machine_paths,
    },
    Rule {
        id: "H1",
        about: "no host name of a package registry, except in Cargo.lock",
        check: text::registries,
    },
    Rule {
        id: "H5",
        about: "relative links in Markdown lead to a file",
        check: markdown::links,
    },
    Rule {
        id: "H5",
        about: "the book's table of contents names each page under docs",
        check: markdown::in_the_book,
    },
    Rule {
        id: "H5",
        about: "no link of a page under docs leaves docs, as the book has nothing else",
        check: markdown::links_stay_in_the_book,
    },
    Rule {
        id: "H5",
        about: "what cites the specifications leads to a section or an id in laboratory/docs/spec",
        check: citations::resolve,
    },
    Rule {
        id: "H5",
        about: "an id belongs to one page of laboratory/docs/spec",
        check: citations::unique,
    },
    Rule {
        id: "V2",
        about: "each id in a conformance checklist has a test that cites it, or a reason in laboratory/docs/spec/README.md",
        check: citations::tested,
    },
];

/// One breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    rule: &'static str,
    message: String,
    hint: String,
}

/// Formats the finding as `path:line: [rule] message: hint`.
impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            rule,
            message,
            hint,
        } = self;
        write!(formatter, "{path}:{line}: [{rule}] {message}: {hint}")
    }
}

/// The receiver of a rule's findings.
struct Report<'r> {
    rule: &'static str,
    findings: &'r mut Vec<Finding>,
}

impl Report<'_> {
    fn error(&mut self, path: &str, line: usize, message: impl Into<String>, hint: &str) {
        self.findings.push(Finding {
            path: path.into(),
            line,
            rule: self.rule,
            message: message.into(),
            hint: hint.into(),
        });
    }
}

/// Runs `cargo xtask tidy`.
pub(crate) fn main(root: &Path, arguments: &Arguments) -> Result<(), String> {
    if arguments.list {
        for rule in RULES {
            println!("[{}] {}", rule.id, rule.about);
        }
        return Ok(());
    }
    run(root)
}

/// Checks the checkout at `root`, and prints the findings.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let tree = Tree::load(root)?;
    let findings = check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.len();
    println!("   tidy: {} files, {errors} errors", tree.files().len());
    if errors == 0 {
        Ok(())
    } else {
        Err(format!("tidy found {errors} errors"))
    }
}

fn structure(tree: &Tree, report: &mut Report<'_>) {
    let texts = tree
        .files()
        .iter()
        .filter(|file| matches!(file.extension(), Some("rs" | "toml")))
        .map(|file| (file.path.clone(), file.text.clone()))
        .collect();
    match crate::structure::read(&texts) {
        Ok(crates) => {
            for breach in crate::structure::breaches(&crates) {
                report.error(
                    &breach.path,
                    1,
                    breach.message,
                    "turn the arrow round: hand in what is needed, or move it down",
                );
            }
        }
        Err(message) => report.error("Cargo.toml", 1, message, "make it Rust"),
    }
}

fn mutants(tree: &Tree, report: &mut Report<'_>) {
    let texts = tree
        .files()
        .iter()
        .map(|file| (file.path.clone(), file.text.clone()))
        .collect();
    for (patch, reason) in crate::mutants::patches::patched(&texts)
        .err()
        .unwrap_or_default()
    {
        report.error(
            &patch,
            1,
            format!("the patch does not apply: {reason}"),
            "cargo xtask mutants --tree, put the switches into the file of target/mutants/tree, and --save",
        );
    }
}

/// Returns the number of lines of a Rust file at `path` that are not tests.
pub(crate) fn lines_of_users(path: &str, text: &str) -> usize {
    let from = tree::tests_of(path, text);
    text[..from].lines().count()
}

/// Returns the findings of all rules, sorted by place. Each thread takes the next rule until none is left.
fn check(tree: &Tree) -> Vec<Finding> {
    let next = AtomicUsize::new(0);
    let take_rules = || {
        let mut findings = Vec::new();
        // Relaxed: the number stands alone, and each thread gets another one.
        while let Some(rule) = RULES.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut report = Report {
                rule: rule.id,
                findings: &mut findings,
            };
            (rule.check)(tree, &mut report);
        }
        findings
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut findings: Vec<Finding> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(take_rules)).collect();
        handles
            .into_iter()
            .flat_map(|handle| handle.join().expect("no rule panics"))
            .collect()
    });
    findings.sort();
    findings
}

#[cfg(test)]
mod samples {
    //! The check of one rule on one file, for the tests of the rules.

    use super::{Report, Tree};

    /// The result of [`lines`] when there are no findings.
    pub(super) const CLEAN: [usize; 0] = [];

    /// Returns the lines in which `rule` finds a fault if the file at `path` contains `text`.
    pub(super) fn lines(rule: fn(&Tree, &mut Report<'_>), path: &str, text: &str) -> Vec<usize> {
        of_tree(rule, &[(path, text)])
            .into_iter()
            .map(|(_, line)| line)
            .collect()
    }

    /// Returns the places in `files` in which `rule` finds a fault.
    pub(super) fn of_tree(
        rule: fn(&Tree, &mut Report<'_>),
        files: &[(&str, &str)],
    ) -> Vec<(String, usize)> {
        of(rule, &Tree::of(files))
    }

    /// Returns the places in `tree` in which `rule` finds a fault.
    pub(super) fn of(rule: fn(&Tree, &mut Report<'_>), tree: &Tree) -> Vec<(String, usize)> {
        let mut findings = Vec::new();
        let mut report = Report {
            rule: "X1",
            findings: &mut findings,
        };
        rule(tree, &mut report);
        findings
            .into_iter()
            .map(|finding| (finding.path, finding.line))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Tree, check};

    #[test]
    fn a_finding_names_place_rule_and_remedy() {
        let tree = Tree::of(&[("docs/SUMMARY.md", "# Title\n\n[a](b.md)\n")]);
        let shown: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["docs/SUMMARY.md:3: [H5] the link b.md leads nowhere: \
                 write the path of a tracked file, relative to this one, and the name of a heading"]
        );
    }

    #[test]
    fn a_clean_tree_has_no_findings() {
        let tree = Tree::of(&[
            ("README.md", "# Tickless\n\nSee [the map](docs/map.md).\n"),
            ("docs/map.md", "# Map\n"),
            ("docs/SUMMARY.md", "# Book\n\n[map](map.md)\n"),
            (
                "crates/tickless-core/src/lib.rs",
                "//! Timers.\n#![no_std]\n\nfn nothing() {}\n",
            ),
        ]);
        assert_eq!(check(&tree), []);
    }
}

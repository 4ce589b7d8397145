//! H5: the files and items that pages and comments name exist.
//!
//! Files move and items are renamed, and the sentence about them stays. So every `path/of/a.rs` in a page or a comment
//! must be the end of a path in the tree, and every name in code style in a page must be a word of the code.

use std::collections::BTreeSet;

use super::Report;
use super::markdown::{Line, kinds};
use super::prose::{tokens, written};
use super::rust::words;
use super::tree::Tree;

/// The files that quote, that describe other times, or that describe files in general.
const EXEMPT: [&str; 3] = ["docs/spec/", "CHANGELOG.md", "xtask/"];
const GLOSSARY: &str = "docs/spec/GLOSSARY.md";
/// The heading of the section whose names no longer exist.
const RETIRED: &str = "\n## Retired words";
/// The endings of the paths that are checked.
const ENDINGS: [&str; 2] = [".rs", ".md"];
/// Names of other programs that a decision weighs. No code here uses them.
const FOREIGN: [&str; 6] = [
    "CLOCK_MONOTONIC_COARSE",
    "MADV_WIPEONFORK",
    "MEMBARRIER_CMD_FLAG_CPU",
    "MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ",
    "epoll_pwait2",
    "linux_5_11",
];

pub(super) fn files_exist(tree: &Tree, report: &mut Report<'_>) {
    for file in written(tree).filter(|file| !is_exempt(&file.path)) {
        for token in tokens(file) {
            if !ENDINGS.iter().any(|ending| token.text.ends_with(ending)) {
                continue;
            }
            // Tokens end at a slash; the path begins further left.
            let before = &file.text[..token.offset];
            let is_part = |letter: char| letter.is_alphanumeric() || "-._/".contains(letter);
            let start = before
                .char_indices()
                .rev()
                .take_while(|(_, letter)| is_part(*letter))
                .last()
                .map_or(token.offset, |(offset, _)| offset);
            let path = &file.text[start..token.offset + token.text.len()];
            let path = path.trim_start_matches(['.', '/']);
            let is_link = file.text[..start].ends_with("](") || file.text[..start].ends_with("://");
            let is_pattern = file.text[..start].ends_with(['*', '<', '{', '$']);
            if !is_link && !is_pattern && !tree.has_end(path) && !is_made(path) {
                report.error(
                    &file.path,
                    token.line,
                    format!("there is no {path}"),
                    "write where it is now",
                );
            }
        }
    }
}

pub(super) fn items_exist(tree: &Tree, report: &mut Report<'_>) {
    let mut known: BTreeSet<&str> = BTreeSet::new();
    for file in tree.files() {
        if file.extension() != Some("md") {
            known.extend(words(&file.text).map(|(_, word)| word));
        }
    }
    for file in tree
        .with_extension("md")
        .filter(|file| !is_exempt(&file.path) || file.path == GLOSSARY)
    {
        let text = file.text.split(RETIRED).next().unwrap_or_default();
        for (number, kind) in (1..).zip(kinds(text)) {
            let (Line::Prose(line) | Line::Heading(line)) = kind else {
                continue;
            };
            for span in line.split('`').skip(1).step_by(2) {
                for name in
                    names(span).filter(|name| !known.contains(name) && !FOREIGN.contains(name))
                {
                    report.error(
                        &file.path,
                        number,
                        format!("the code has no {name}"),
                        "write what it is called now",
                    );
                }
            }
        }
    }
}

fn is_exempt(path: &str) -> bool {
    EXEMPT.iter().any(|place| path.starts_with(place))
}

/// Returns true if a path is a pattern, such as `promise/NAME.rs`.
fn is_made(path: &str) -> bool {
    let (_, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.split('.').next().unwrap_or_default();
    stem.chars().all(char::is_uppercase)
}

/// Returns the words in a piece of code style that can only be names of items: a single word, `a::b`, or a call.
fn names(span: &str) -> impl Iterator<Item = &str> {
    let is_code = span
        .chars()
        .all(|letter| letter.is_alphanumeric() || "_:()&<>, '!.".contains(letter));
    let is_item = is_code && !span.contains(' ');
    words(span).map(|(_, word)| word).filter(move |word| {
        let is_camel = word.starts_with(char::is_uppercase) && word.contains(char::is_lowercase);
        let is_snake = word.contains('_') && word.starts_with(char::is_alphabetic);
        is_item && (is_camel || is_snake)
    })
}

#[cfg(test)]
mod tests {
    use super::{files_exist, items_exist};
    use crate::tidy::samples::of_tree;

    #[test]
    fn a_file_that_moved_away_is_found() {
        let there = ("crates/core/src/hrtimer/start.rs", "fn f() {}\n");
        let good = "# A\n\n`hrtimer/start.rs`, start.rs, `/src/*.rs`, [b](no.md), hrtimer/NAME.rs, a.toml\n";
        assert_eq!(of_tree(files_exist, &[there, ("docs/a.md", good)]), []);
        for bad in ["`timer/start.rs`", "art.rs", "hrtimer/far.rs", "docs/b.md"] {
            let page = format!("# A\n\n{bad}.\n");
            assert_eq!(
                of_tree(files_exist, &[there, ("docs/a.md", &page)]),
                [("docs/a.md".to_owned(), 3)],
                "{bad}"
            );
        }
        let comment = ("src/b.rs", "//! See far.rs.\nfn f(far: X) { far.rs() }\n");
        assert_eq!(
            of_tree(files_exist, &[there, comment]),
            [("src/b.rs".to_owned(), 1)]
        );
    }

    #[test]
    fn an_item_that_was_renamed_is_found() {
        let code = ("src/a.rs", "struct CpuBase; fn start_it() {}\n");
        let page = |text: &str| format!("# A\n\n{text}\n");
        let good = page("`CpuBase::start_it()`, `plain`, `a b_c`, `--flag_x y`, `x`");
        assert_eq!(of_tree(items_exist, &[code, ("docs/a.md", &good)]), []);
        for bad in ["`Base`", "`CpuBase::stop_it`", "`arm_it`"] {
            let bad = page(bad);
            assert_eq!(
                of_tree(items_exist, &[code, ("docs/a.md", &bad)]),
                [("docs/a.md".to_owned(), 3)]
            );
            let glossary = format!("{bad}\n## Retired words\n\n`arm_that`\n");
            let files = [code, ("docs/spec/GLOSSARY.md", glossary.as_str())];
            assert_eq!(of_tree(items_exist, &files).len(), 1);
        }
    }
}

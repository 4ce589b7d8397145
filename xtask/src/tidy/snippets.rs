//! H5: code in documentation is compiled.
//!
//! Code that is never compiled becomes wrong sooner or later. Rustdoc compiles the code in documentation, and a page
//! that a crate includes counts as documentation, unless an attribute makes rustdoc skip the code.

use super::Report;
use super::tree::Tree;

/// The attribute that makes rustdoc skip a snippet.
const IGNORE: &str = "ignore";

/// Refuses pieces of Rust that are exempt from being compiled.
pub(super) fn ignored(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.with_extension("md") {
        for (number, line) in (1..).zip(file.text.lines()) {
            refuse(&file.path, number, line, report);
        }
    }
    for (file, scan) in tree.rust() {
        for comment in &scan.comments {
            if comment.is_doc {
                refuse(&file.path, comment.line, &comment.text, report);
            }
        }
    }
}

fn refuse(path: &str, number: usize, line: &str, report: &mut Report<'_>) {
    if words(line).any(|word| word == IGNORE || word.starts_with("ignore-")) {
        report.error(
            path,
            number,
            "this code is not compiled",
            "make it compile, with `no_run` if it must not run; hide what only the compiler needs behind `# `",
        );
    }
}

/// Checks that a crate includes each page with Rust in it, so that the Rust is compiled.
pub(super) fn included(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.with_extension("md") {
        let mut lines = (1..).zip(file.text.lines());
        let first = lines.find(|(_, line)| words(line).any(|word| word == "rust"));
        let Some((number, _)) = first else { continue };
        let end = format!("{}\")]", file.path);
        let is_included = tree.with_extension("rs").any(|source| {
            let mut lines = source.text.lines();
            lines.any(|line| line.contains("include_str!(") && line.trim_end().ends_with(&end))
        });
        if !is_included {
            report.error(
                &file.path,
                number,
                "this page has Rust that is not compiled",
                "include the page where doctests are made, as `docs/guide.md` is",
            );
        }
    }
}

/// Returns the words after the opening fence in `line`; empty if the line is no fence.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let line = line.trim_start();
    let info = line.strip_prefix("```").or(line.strip_prefix("~~~"));
    let info = info.unwrap_or_default();
    info.split([',', ' ', '{', '}', '`', '~'])
}

#[cfg(test)]
mod tests {
    use super::{ignored, included};
    use crate::tidy::samples::{CLEAN, lines, of_tree};

    #[test]
    fn no_code_is_exempt_from_being_compiled() {
        assert_eq!(
            lines(ignored, "a.md", "# A\n\n```rust,ignore\nx\n```\n"),
            [3]
        );
        assert_eq!(lines(ignored, "a.md", "# A\n\n```ignore\nx\n```\n"), [3]);
        let page = "# A\n\n```rust,no_run\nx\n```\n\nignore this ```\n\n```text\nignore\n```\n";
        assert_eq!(lines(ignored, "a.md", page), CLEAN);
        let source =
            "//! ```ignore\n//! x\n//! ```\n/// ```rust, ignore-wasm\n/// ```\nfn a() {}\n";
        assert_eq!(lines(ignored, "a.rs", source), [1, 4]);
        let source = "// ```ignore\n/// ```compile_fail\n/// ```\nconst A: &str = \"```ignore\";\n";
        assert_eq!(lines(ignored, "a.rs", source), CLEAN);
    }

    #[test]
    fn a_page_with_rust_is_included_somewhere() {
        let page = ("docs/a.md", "# A\n\n```rust\nx\n```\n");
        let found = of_tree(included, &[page]);
        assert_eq!(found, [("docs/a.md".to_owned(), 3)]);
        let source = "#[doc = include_str!(\"../../docs/a.md\")]\nmod a {}\n";
        assert_eq!(of_tree(included, &[page, ("src/lib.rs", source)]), []);
        let other = ("docs/b.md", "# B\n\n```sh\nx\n```\n");
        assert_eq!(of_tree(included, &[other]), []);
    }
}

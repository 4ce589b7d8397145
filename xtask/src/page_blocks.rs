//! The fenced blocks of the pages, for tests that execute the blocks or compare them with parsers. The tests of the
//! command `tickless` include this file, too.

use std::fs;
use std::path::Path;

/// A fenced block of a page.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// The path of the page, relative to the root of the tree.
    pub(crate) page: String,
    /// The line of the block's opening fence.
    pub(crate) line: usize,
    /// The language after the opening fence.
    pub(crate) language: String,
    pub(crate) text: String,
}

/// Returns the blocks of README, CONTRIBUTING, and the pages of docs.
pub(crate) fn all(root: &Path) -> Vec<Block> {
    let mut pages = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    for directory in [
        "docs",
        "laboratory/docs/spec",
        "laboratory/docs",
        "docs/decisions",
    ] {
        let entries = fs::read_dir(root.join(directory)).expect("a directory");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        let names = names.filter(|name| Path::new(name).extension().is_some_and(|end| end == "md"));
        pages.extend(names.map(|name| format!("{directory}/{name}")));
    }
    pages.sort();
    pages.iter().flat_map(|page| of_page(root, page)).collect()
}

pub(crate) fn of_page(root: &Path, page: &str) -> Vec<Block> {
    let text = fs::read_to_string(root.join(page)).expect("the page");
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (line, text) in (1..).zip(text.lines()) {
        match (text.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(language), None) => {
                open = Some(Block {
                    page: page.to_owned(),
                    line,
                    language: language.to_owned(),
                    text: String::new(),
                });
            }
            (None, Some(block)) => block.text = format!("{}{text}\n", block.text),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: the last block has no end");
    found
}

/// Returns the lines of all shell blocks, each with the place of its block. Comments are removed, and a line that a
/// page breaks is joined.
pub(crate) fn shell_lines(root: &Path) -> Vec<(String, String)> {
    let blocks = all(root).into_iter();
    let blocks = blocks.filter(|block| block.language == "sh");
    blocks
        .flat_map(|block| {
            let place = format!("{}:{}", block.page, block.line);
            let text = block.text.replace("\\\n", " ");
            let lines = text.lines();
            let lines = lines.map(|line| line.split(" #").next().unwrap_or_default().to_owned());
            lines.map(|line| (place.clone(), line)).collect::<Vec<_>>()
        })
        .collect()
}

/// Splits a line into words as a shell does.
pub(crate) fn words(line: &str) -> Vec<String> {
    shlex::split(line).expect("quotes in pairs")
}

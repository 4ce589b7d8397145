//! H5: Markdown in which a reader can find the way.

use super::Report;
use super::tree::Tree;

/// A line of Markdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'m> {
    /// A heading: `# Text` and the lower levels.
    Heading(&'m str),
    /// The opening or closing marks of a fenced block.
    Fence,
    /// A line inside a fenced block.
    Fenced(&'m str),
    Prose(&'m str),
}

/// Returns the lines of `text` with their kinds.
pub(super) fn kinds(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut fenced = false;
    text.lines().map(move |line| {
        let bare = line.trim_start();
        if bare.starts_with("```") || bare.starts_with("~~~") {
            fenced = !fenced;
            Line::Fence
        } else if fenced {
            Line::Fenced(line)
        } else if let Some(title) = heading(line) {
            Line::Heading(title)
        } else {
            Line::Prose(line)
        }
    })
}

fn heading(line: &str) -> Option<&str> {
    let title = line.trim_start_matches('#');
    let is_heading = title.len() < line.len() && title.starts_with(' ');
    is_heading.then(|| title.trim())
}

pub(super) fn links(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.with_extension("md") {
        for (number, kind) in (1..).zip(kinds(&file.text)) {
            let (Line::Prose(line) | Line::Heading(line)) = kind else {
                continue;
            };
            for target in targets(&without_code(line)) {
                if !leads_somewhere(tree, &file.path, target) {
                    report.error(
                        &file.path,
                        number,
                        format!("the link {target} leads nowhere"),
                        "write the path of a tracked file, relative to this one, and the name of a heading",
                    );
                }
            }
        }
    }
}

/// Returns true if `target` in the file at `from` is a file or directory, with a heading of that name if it names one.
fn leads_somewhere(tree: &Tree, from: &str, target: &str) -> bool {
    let (path, name) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() {
        Some(from.to_owned())
    } else {
        relative(from, path)
    };
    let Some(path) = path.filter(|path| tree.contains(path)) else {
        return false;
    };
    let is_page = path.ends_with(".md") && !name.is_empty();
    let page = tree.file(&path).filter(|_| is_page);
    page.is_none_or(|page| {
        let mut kinds = kinds(&page.text);
        kinds.any(|line| matches!(line, Line::Heading(title) if anchor(title) == name))
    })
}

/// Returns the name by which links reach a heading.
fn anchor(title: &str) -> String {
    let part = |letter: char| match letter {
        ' ' => Some('-'),
        letter if letter.is_alphanumeric() || "-_".contains(letter) => Some(letter),
        _ => None,
    };
    title.to_lowercase().chars().filter_map(part).collect()
}

/// The table of contents of the book, which `book.toml` builds from the pages under `docs`.
const CONTENTS: &str = "docs/SUMMARY.md";

/// Refuses pages that the table of contents does not name, because they are no part of the book.
pub(super) fn in_the_book(tree: &Tree, report: &mut Report<'_>) {
    let mut files = tree.with_extension("md");
    let Some(contents) = files.find(|file| file.path == CONTENTS) else {
        return;
    };
    let named: Vec<&str> = contents.text.lines().flat_map(targets).collect();
    for file in tree.with_extension("md") {
        let page = file.path.strip_prefix("docs/");
        let is_missing = page.is_some_and(|page| !named.contains(&page));
        if is_missing && file.path != CONTENTS {
            report.error(
                &file.path,
                1,
                "the book lacks this page",
                "add a line to docs/SUMMARY.md",
            );
        }
    }
}

/// Refuses links that leave `docs`, because they lead nowhere in the book.
pub(super) fn links_stay_in_the_book(tree: &Tree, report: &mut Report<'_>) {
    let pages = tree.with_extension("md");
    for file in pages.filter(|file| file.path.starts_with("docs/")) {
        for (number, kind) in (1..).zip(kinds(&file.text)) {
            let (Line::Prose(line) | Line::Heading(line)) = kind else {
                continue;
            };
            for target in targets(&without_code(line)) {
                let path = relative(&file.path, target);
                if !path.is_some_and(|path| path == "docs" || path.starts_with("docs/")) {
                    report.error(
                        &file.path,
                        number,
                        format!("the link {target} leaves the book"),
                        "write the path between backticks",
                    );
                }
            }
        }
    }
}

/// Returns the line without the text between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Returns the targets of links in a line that are paths.
fn targets(line: &str) -> Vec<&str> {
    let inline = line
        .match_indices("](")
        .map(|(offset, mark)| &line[offset + mark.len()..]);
    let definition = line
        .trim_start()
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
        .map(|(_, target)| target);
    inline
        .chain(definition)
        .map(|rest| {
            let end = rest.find([')', ' ']).unwrap_or(rest.len());
            rest[..end].trim_matches(['<', '>'])
        })
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

/// Returns the path that `target` means in the file at `from`; `None` if it leaves the checkout.
fn relative(from: &str, target: &str) -> Option<String> {
    let target = target.split(['#', '?']).next().unwrap_or_default();
    let mut parts: Vec<&str> = if target.starts_with('/') {
        Vec::new()
    } else {
        let (directory, _) = from.rsplit_once('/').unwrap_or_default();
        directory.split('/').collect()
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    parts.retain(|part| !part.is_empty());
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::{in_the_book, links, links_stay_in_the_book, relative};
    use crate::tidy::samples::{CLEAN, lines, of_tree};

    #[test]
    fn the_book_has_each_page() {
        let pages = |contents| {
            of_tree(
                in_the_book,
                &[
                    ("docs/SUMMARY.md", contents),
                    ("docs/a.md", "# A\n"),
                    ("README.md", "# R\n"),
                ],
            )
        };
        assert!(pages("# Summary\n\n- [A](a.md)\n").is_empty());
        assert_eq!(pages("# Summary\n"), [("docs/a.md".to_owned(), 1)]);
    }

    #[test]
    fn links_of_the_book_stay_in_it() {
        let page = "# Page\n[in](spec/a.md) [up](../docs/b.md) [far](https://example.org/x.md)\n\
            `[code](../no.md)` [out](../README.md)\n```\n[fenced](../README.md)\n```\n";
        assert_eq!(lines(links_stay_in_the_book, "docs/a.md", page), [3]);
        assert_eq!(lines(links_stay_in_the_book, "lab/a.md", page), CLEAN);
    }

    #[test]
    fn links_lead_to_files_and_directories() {
        let page = "# Page\n\
            [good](b.md), [part](b.md#b), [up](../README.md), [top](/docs/b.md), [dir](../docs)\n\
            [far](https://example.org/x.md) [here](#page) `[code](no.md)`\n\
            ```\n[fenced](no.md)\n```\n\
            [bad](no.md) and [good](b.md) [none](b.md#x)\n\
            [out](../../x)\n\
            [def]: no.md\n";
        let found = of_tree(
            links,
            &[
                ("docs/a.md", page),
                ("docs/b.md", "# B\n"),
                ("README.md", "# R\n"),
            ],
        );
        let lines: Vec<usize> = found.into_iter().map(|(_, line)| line).collect();
        assert_eq!(lines, [7, 7, 8, 9]);
    }

    #[test]
    fn targets_are_relative_to_their_page() {
        let path = |from, target| relative(from, target);
        assert_eq!(path("docs/x/a.md", "../b.md").as_deref(), Some("docs/b.md"));
        assert_eq!(path("a.md", "./b.md").as_deref(), Some("b.md"));
        assert_eq!(path("a.md", "docs/").as_deref(), Some("docs"));
        assert_eq!(path("docs/a.md", "../../b.md"), None);
    }
}

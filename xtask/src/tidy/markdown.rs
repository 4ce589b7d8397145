//! H5: Markdown in which a reader can find the way.

use super::tree::{File, Report, Tree};

/// The table of contents of the book, which `book.toml` builds from the pages under `docs`.
const CONTENTS: &str = "docs/SUMMARY.md";

/// Refuses links that lead nowhere, links of the book that leave it, and pages that its table of contents lacks.
pub(super) fn links(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.ending(".md") {
        for (number, line) in unfenced(file) {
            // What stands between backticks is no link.
            let line = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
            for target in targets(&line) {
                let path = relative(&file.path, target);
                let in_book = path
                    .as_ref()
                    .is_some_and(|path| path == "docs" || path.starts_with("docs/"));
                if !path.is_some_and(|path| leads_somewhere(tree, file, &path, target)) {
                    report.error(&file.path, number, format!("the link {target} leads nowhere"),
                        "write the path of a tracked file, relative to this one, and the name of a heading");
                } else if file.path.starts_with("docs/") && !in_book {
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
    let Some(contents) = tree.file(CONTENTS) else {
        return;
    };
    let named: Vec<&str> = contents.text.lines().flat_map(targets).collect();
    for file in tree.ending(".md").filter(|file| file.path != CONTENTS) {
        if file
            .path
            .strip_prefix("docs/")
            .is_some_and(|page| !named.contains(&page))
        {
            report.error(
                &file.path,
                1,
                "the book lacks this page",
                "add a line to docs/SUMMARY.md",
            );
        }
    }
}

/// Returns the lines that are in no fenced block.
fn unfenced(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    file.lines().filter(move |(_, line)| {
        let is_fence = ["```", "~~~"]
            .iter()
            .any(|mark| line.trim_start().starts_with(mark));
        fenced ^= is_fence;
        !fenced && !is_fence
    })
}

/// Returns true if `path` is a file or directory, with the heading that `target` names, if it names one.
fn leads_somewhere(tree: &Tree, from: &File, path: &str, target: &str) -> bool {
    let (before, name) = target.split_once('#').unwrap_or((target, ""));
    let path = if before.is_empty() { &from.path } else { path };
    let page = tree
        .file(path)
        .filter(|page| page.path.ends_with(".md") && !name.is_empty());
    let has_heading = |page: &File| {
        let mut titles = unfenced(page).filter(|(_, line)| line.starts_with('#'));
        titles.any(|(_, line)| anchor(line.trim_start_matches('#').trim()) == name)
    };
    tree.contains(path) && page.is_none_or(has_heading)
}

/// Returns the name by which links reach a heading.
fn anchor(title: &str) -> String {
    let title = title.to_lowercase().replace(' ', "-");
    title
        .chars()
        .filter(|&letter| letter.is_alphanumeric() || "-_".contains(letter))
        .collect()
}

/// Returns the targets of links in a line that are paths.
fn targets(line: &str) -> Vec<&str> {
    let inline = line.split("](").skip(1);
    let definition = line
        .trim_start()
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "));
    let all = inline.chain(definition.map(|(_, target)| target));
    let ends = all.filter_map(|rest| rest.split([')', ' ']).next());
    let bare = ends.map(|target| target.trim_matches(['<', '>']));
    bare.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

/// Returns the path that `target` means in the file at `from`; `None` if it leaves the checkout.
fn relative(from: &str, target: &str) -> Option<String> {
    let target = target.split(['#', '?']).next().unwrap_or_default();
    let (directory, _) = from.rsplit_once('/').unwrap_or_default();
    let mut parts: Vec<&str> = if target.starts_with('/') {
        Vec::new()
    } else {
        directory.split('/').collect()
    };
    parts.retain(|part| !part.is_empty());
    for part in target.split('/').filter(|part| !["", "."].contains(part)) {
        if part == ".." {
            parts.pop()?;
        } else {
            parts.push(part);
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::links;
    use crate::tidy::samples::lines;

    #[test]
    fn links_that_lead_nowhere_or_out_of_the_book_and_missing_pages_are_found() {
        let page = "# Page\n\
            [good](b.md), [part](b.md#b), [top](/docs/b.md), [dir](../docs), [far](https://example.org/x.md)\n\
            [here](#page) `[code](no.md)`\n```\n[fenced](no.md)\n```\n\
            [bad](no.md) and [good](b.md) [none](b.md#x)\n[out](../../x)\n[def]: no.md\n[up](../README.md)\n";
        let files = [
            ("docs/a.md", page),
            ("docs/b.md", "# B\n"),
            ("README.md", "[a](docs/a.md)\n"),
        ];
        assert_eq!(lines(links, &files), [7, 7, 8, 9, 10]);
        let book = [
            ("docs/SUMMARY.md", "[b](b.md)\n"),
            ("docs/a.md", "# A\n"),
            ("docs/b.md", "# B\n"),
        ];
        assert_eq!(lines(links, &book), [1]);
    }
}

//! H5: the two pictures of ARCHITECTURE.md are true.
//!
//! The picture of the crates has an arrow for each dependency between packages of the workspace, according to
//! `cargo metadata`, and no other arrow. The way of a timer is a table of functions, each with its file. The files and
//! functions exist. Each function is named in a file that the way passed before. The way passes at most as many files
//! as its table allows, and each file at most twice. Files that only look up a value or pass a call on may be named in
//! the text above the tables instead.

use std::collections::BTreeMap;

use super::Report;
use super::markdown::{Line, kinds};
use super::rust::{functions, places};
use super::tree::{File, Tree};

const PAGE: &str = "ARCHITECTURE.md";
/// The heading above the ways. The text below it names the files that the ways leave out.
const ABOVE: &str = "The way of a timer";
/// The headings of the ways, and the number of files that each may pass.
const WAYS: [(&str, usize); 2] = [("An exact timer", 15), ("A coarse timer", 12)];
const CRATES: &str = "Crates";
/// The number of times that a way may pass one file.
const VISITS: usize = 2;

pub(super) fn crates(tree: &Tree, report: &mut Report<'_>) {
    let Some(page) = page(tree) else {
        return;
    };
    let mut drawn = BTreeMap::new();
    let mut heading = "";
    let mut heading_line = 1;
    for (line, kind) in (1..).zip(kinds(&page.text)) {
        match kind {
            Line::Heading(title) => {
                heading = title;
                if title == CRATES {
                    heading_line = line;
                }
            }
            Line::Fenced(text) if heading == CRATES => {
                if let Some((from, to)) = text.split_once("-->") {
                    drawn.insert((from.trim().to_owned(), to.trim().to_owned()), line);
                }
            }
            _ => {}
        }
    }
    for (from, to) in tree.dependencies() {
        if drawn.remove(&(from.clone(), to.clone())).is_none() {
            report.error(
                PAGE,
                heading_line,
                format!("{from} depends on {to}, which the picture does not show"),
                "draw the arrow",
            );
        }
    }
    for ((from, to), line) in drawn {
        report.error(
            PAGE,
            line,
            format!("{from} does not depend on {to}"),
            "take the arrow out",
        );
    }
}

pub(super) fn ways(tree: &Tree, report: &mut Report<'_>) {
    let Some(page) = page(tree) else {
        return;
    };
    for (title, most) in WAYS {
        let stations = stations(page, title);
        if stations.is_empty() {
            report.error(
                PAGE,
                1,
                format!("the page has no way \"{title}\""),
                "add a table of files and functions under that heading",
            );
        }
        let mut passed: BTreeMap<&str, usize> = BTreeMap::new();
        let left_out = left_out(tree, page);
        let mut code_before = String::new();
        for station in &stations {
            station.check(tree, &code_before, &left_out, report);
            if let Some(scan) = tree.file(station.file).and_then(File::scan) {
                code_before += &scan.code;
            }
            let visits = passed.entry(station.file).or_default();
            *visits += 1;
            if *visits > VISITS {
                report.error(
                    PAGE,
                    station.line,
                    format!("the way passes {} a third time", station.file),
                    "move the function, or the files",
                );
            }
        }
        if passed.len() > most {
            report.error(
                PAGE,
                stations[0].line,
                format!("{title} passes {} files, not {most}", passed.len()),
                "make the way shorter",
            );
        }
    }
}

/// A row of the table of a way.
struct Station<'p> {
    line: usize,
    file: &'p str,
    function: &'p str,
}

impl Station<'_> {
    fn check(&self, tree: &Tree, code_before: &str, left_out: &str, report: &mut Report<'_>) {
        let Some(scan) = tree.file(self.file).and_then(File::scan) else {
            let message = format!("there is no {}", self.file);
            report.error(PAGE, self.line, message, "write where it is now");
            return;
        };
        let name = self.function.rsplit("::").next().unwrap_or_default();
        if !functions(&scan.code)
            .iter()
            .any(|function| function.name == name)
        {
            report.error(
                PAGE,
                self.line,
                format!("{} has no function {name}", self.file),
                "write what it is called now",
            );
        }
        let is_named = |code| places(code, name).next().is_some();
        if !code_before.is_empty() && !is_named(code_before) && !is_named(left_out) {
            report.error(
                PAGE,
                self.line,
                format!("no file on the way before names {name}"),
                "tell the station that leads here",
            );
        }
    }
}

fn page(tree: &Tree) -> Option<&File> {
    tree.file(PAGE)
}

/// Returns the code of the files that the text above the ways names.
fn left_out(tree: &Tree, page: &File) -> String {
    let mut inside = false;
    let mut code = String::new();
    for kind in kinds(&page.text) {
        match kind {
            Line::Heading(heading) => inside = heading == ABOVE,
            Line::Prose(text) if inside => {
                let paths = text.split('`').filter(|span| span.ends_with(".rs"));
                let files = paths
                    .filter_map(|path| tree.files().iter().find(|file| file.path.ends_with(path)));
                for scan in files.filter_map(File::scan) {
                    code += &scan.code;
                }
            }
            _ => {}
        }
    }
    code
}

/// Returns the rows of the table below `title`: `| file | function | what happens |`.
fn stations<'p>(page: &'p File, title: &str) -> Vec<Station<'p>> {
    let mut inside = false;
    let mut found = Vec::new();
    for (line, kind) in (1..).zip(kinds(&page.text)) {
        match kind {
            Line::Heading(heading) => inside = heading == title,
            Line::Prose(text) if inside => {
                let mut cells = text.split('|').map(|cell| cell.trim().trim_matches('`'));
                if let (Some(""), Some(file), Some(function)) =
                    (cells.next(), cells.next(), cells.next())
                    && file.ends_with(".rs")
                {
                    found.push(Station {
                        line,
                        file,
                        function,
                    });
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Tree, crates, ways};
    use crate::tidy::samples::{of, of_tree};

    const SLEEP: (&str, &str) = ("crates/a/src/sleep.rs", "fn poll() { start() }\n");
    const START: (&str, &str) = ("crates/a/src/start.rs", "fn start() { write() }\n");

    fn lines(rows: &str) -> Vec<usize> {
        let coarse = "\n## A coarse timer\n\n| `crates/a/src/sleep.rs` | `poll` | |\n";
        let page = format!("# A\n\n## An exact timer\n\n{rows}{coarse}");
        let files = [("ARCHITECTURE.md", page.as_str()), SLEEP, START];
        of_tree(ways, &files)
            .into_iter()
            .map(|(_, line)| line)
            .collect()
    }

    #[test]
    fn a_way_that_the_tree_has_is_right_and_others_are_wrong() {
        let first = "| `crates/a/src/sleep.rs` | `Sleep::poll` | asks |\n";
        let second = "| `crates/a/src/start.rs` | `start` | starts |\n";
        assert_eq!(lines(&format!("{first}{second}")), [0; 0]);
        assert_eq!(
            lines(&format!("{second}{first}")),
            [6],
            "nothing leads to poll"
        );
        assert_eq!(lines(&format!("{first}{first}{first}")), [7]);
        assert_eq!(lines("| `crates/a/src/gone.rs` | `poll` | |\n"), [5]);
        assert_eq!(lines("| `crates/a/src/sleep.rs` | `pull` | |\n"), [5]);
        assert_eq!(lines(""), [1], "there is no table");
        let above = "## The way of a timer\n\nWithout `src/start.rs`.\n\n";
        let page = format!(
            "# A\n\n{above}## An exact timer\n\n{first}| `src/write.rs` | `write` | |\n\n## A coarse timer\n\n{first}"
        );
        let files = [
            ("ARCHITECTURE.md", page.as_str()),
            SLEEP,
            START,
            ("src/write.rs", "fn write() {}\n"),
        ];
        assert_eq!(of_tree(ways, &files), []);
        let page = page.replace(above, "");
        let files = [
            ("ARCHITECTURE.md", page.as_str()),
            SLEEP,
            START,
            ("src/write.rs", "fn write() {}\n"),
        ];
        assert_eq!(of_tree(ways, &files).len(), 1, "nothing leads to write");
    }

    #[test]
    fn a_way_may_not_pass_more_files_than_its_table_allows() {
        let files: Vec<String> = (0..16).map(|n| format!("src/f{n}.rs")).collect();
        let rows: String = files
            .iter()
            .map(|f| format!("| `{f}` | `g` | |\n"))
            .collect();
        let page = format!(
            "# A\n\n## An exact timer\n\n{rows}\n## A coarse timer\n\n| `src/f0.rs` | `g` | |\n"
        );
        let mut tree: Vec<(&str, &str)> = files
            .iter()
            .map(|f| (f.as_str(), "fn g() { g() }\n"))
            .collect();
        tree.push(("ARCHITECTURE.md", &page));
        assert_eq!(of_tree(ways, &tree), [("ARCHITECTURE.md".to_owned(), 5)]);
    }

    #[test]
    fn the_picture_of_the_crates_shows_each_dependency_and_no_other() {
        let found = |arrows: &str| {
            let page = format!("# A\n\n## Crates\n\n```mermaid\ngraph TD\n{arrows}```\n");
            let tree = Tree::of(&[("ARCHITECTURE.md", page.as_str())]);
            let found = of(crates, &tree.with_dependencies(&[("core", "link")]));
            found.into_iter().map(|(_, line)| line).collect::<Vec<_>>()
        };
        assert_eq!(found("core --> link\n"), [0; 0]);
        assert_eq!(found(""), [3]);
        assert_eq!(found("core --> link\ncore --> sim\n"), [8]);
    }
}

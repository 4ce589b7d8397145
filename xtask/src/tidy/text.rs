//! H1: the rules for every text file.

use super::Report;
use super::scan::is_word;
use super::tree::{File, Tree};

/// The kinds of files whose white space matters.
const PROSE_AND_CODE: [&str; 3] = ["rs", "md", "toml"];
const COLUMNS: usize = 120;

/// Directories that exist on one machine only, each in two halves so that this file does not contain them.
const MACHINE_PATHS: [&str; 2] = [concat!("/wo", "rk"), concat!("/ro", "ot")];
/// The directory that contains one directory for each person.
const HOMES: &str = concat!("/ho", "me/");

/// Hosts from which packages come, put together so that this file does not contain them.
const REGISTRIES: [&str; 7] = [
    concat!("crates", ".", "io"),
    concat!("py", "pi.org"),
    concat!("npm", "js.com"),
    concat!("npm", "js.org"),
    concat!("ruby", "gems.org"),
    concat!("proxy.go", "lang.org"),
    concat!("deb.deb", "ian.org"),
];
const LOCK_FILE: &str = "Cargo.lock";

pub(super) fn white_space(tree: &Tree, report: &mut Report<'_>) {
    for file in prose_and_code(tree) {
        for (number, line) in file.lines() {
            if line.contains('\t') {
                report.error(&file.path, number, "a tab", "use spaces");
            }
            if line.ends_with(' ') {
                report.error(&file.path, number, "a space ends the line", "delete it");
            }
        }
    }
}

fn prose_and_code(tree: &Tree) -> impl Iterator<Item = &File> {
    PROSE_AND_CODE
        .iter()
        .flat_map(|extension| tree.with_extension(extension))
}

pub(super) fn columns(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.with_extension("rs").chain(tree.with_extension("md")) {
        let is_markdown = file.extension() == Some("md");
        for (number, line) in file.lines() {
            let columns = line.chars().count();
            if columns > COLUMNS && !cannot_be_broken(line, is_markdown) {
                report.error(
                    &file.path,
                    number,
                    format!("the line has {columns} columns, more than {COLUMNS}"),
                    "break it",
                );
            }
        }
    }
}

/// Returns true if `line` is the row of a table or contains an address, in a page or in a comment that rustdoc turns
/// into one.
fn cannot_be_broken(line: &str, is_markdown: bool) -> bool {
    let line = line.trim_start();
    let documentation = ["///", "//!"]
        .iter()
        .find_map(|mark| line.strip_prefix(mark));
    let page = if is_markdown {
        Some(line)
    } else {
        documentation
    };
    page.is_some_and(|text| text.trim_start().starts_with('|') || text.contains("://"))
}

pub(super) fn machine_paths(tree: &Tree, report: &mut Report<'_>) {
    for file in files_by_hand(tree) {
        for (number, line) in file.lines() {
            if names_machine_path(line) {
                report.error(
                    &file.path,
                    number,
                    "a path of one machine",
                    "write it relative to the checkout",
                );
            }
        }
    }
}

/// Returns all files except those that cargo writes.
fn files_by_hand(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files()
        .iter()
        .filter(|file| !file.path.ends_with(LOCK_FILE))
}

fn names_machine_path(line: &str) -> bool {
    let begins = |offset: usize| {
        // Inside a longer path it is just a name.
        !line[..offset].ends_with(|letter: char| is_word(letter) || ".-/*}".contains(letter))
    };
    let fixed = MACHINE_PATHS.iter().any(|path| {
        line.match_indices(path).any(|(offset, _)| {
            let after = &line[offset + path.len()..];
            begins(offset) && !after.starts_with(|letter: char| is_word(letter) || letter == '-')
        })
    });
    let home = line.match_indices(HOMES).any(|(offset, _)| {
        let after = &line[offset + HOMES.len()..];
        begins(offset) && after.starts_with(|letter: char| letter.is_ascii_alphanumeric())
    });
    fixed || home
}

pub(super) fn registries(tree: &Tree, report: &mut Report<'_>) {
    for file in files_by_hand(tree) {
        for (number, line) in file.lines() {
            let lower = line.to_lowercase();
            if REGISTRIES.iter().any(|host| lower.contains(host)) {
                report.error(
                    &file.path,
                    number,
                    "the host name of a package registry",
                    "name the package alone",
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        HOMES, MACHINE_PATHS, REGISTRIES, columns, machine_paths, registries, white_space,
    };
    use crate::tidy::samples::{CLEAN, lines};

    #[test]
    fn tabs_and_trailing_spaces_are_found() {
        for path in ["a.rs", "a.md", "Cargo.toml"] {
            assert_eq!(lines(white_space, path, "good\n\tbad\nbad \n"), [2, 3]);
        }
        assert_eq!(
            lines(white_space, "Makefile", "all:\n\tcargo build\n"),
            CLEAN
        );
    }

    #[test]
    fn long_lines_are_found_except_tables_and_links_of_pages_and_documentation() {
        let long = |start: &str| format!("{start}{}\n", "ä".repeat(121 - start.chars().count()));
        assert_eq!(lines(columns, "a.rs", &"ä".repeat(120)), CLEAN);
        for start in ["// ", "/// ", "let a = \"https://"] {
            assert_eq!(lines(columns, "a.rs", &long(start)), [1]);
        }
        for start in ["//! | ", "    /// | ", "/// <https://"] {
            assert_eq!(lines(columns, "a.rs", &long(start)), CLEAN);
        }
        assert_eq!(lines(columns, "a.md", &long("")), [1]);
        assert_eq!(lines(columns, "a.md", &long("| ")), CLEAN);
        assert_eq!(lines(columns, "a.md", &long("[x](https://")), CLEAN);
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        let [work, root] = MACHINE_PATHS;
        for bad in [
            format!("see {work}/main"),
            format!("`{root}`"),
            format!("cd {root}/x"),
            format!("\"{HOMES}anna/x\""),
        ] {
            assert_eq!(lines(machine_paths, "notes.txt", &bad), [1], "{bad}");
        }
        for good in [
            format!("src{work}/main"),
            format!("{work}ers"),
            format!("{work}-queue"),
            format!("tree{root}"),
            format!("{HOMES}<name>"),
            format!("https://host{HOMES}anna"),
        ] {
            assert_eq!(lines(machine_paths, "notes.txt", &good), CLEAN, "{good}");
        }
    }

    #[test]
    fn registries_are_found_outside_the_lock_file() {
        for host in REGISTRIES {
            let text = format!("one\nfrom https://{host}/x\n");
            assert_eq!(lines(registries, "docs/a.md", &text), [2]);
            assert_eq!(lines(registries, "Cargo.lock", &text), CLEAN);
        }
        assert_eq!(lines(registries, "a.md", "crates and io\n"), CLEAN);
    }
}

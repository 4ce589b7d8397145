//! H1: the rules for every text file.

use super::Report;
use super::scan::is_word;
use super::tree::{File, Tree};

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
    use super::{HOMES, MACHINE_PATHS, REGISTRIES, machine_paths, registries};
    use crate::tidy::samples::{CLEAN, lines};

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

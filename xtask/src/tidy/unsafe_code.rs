//! U1: the places where unsafe code is allowed.
//!
//! All pointer unsafe of the library is in one crate, because Miri and loom check that crate. Any other place is listed
//! here, with the page under `docs` that shows why it needs unsafe code.

use super::Report;
use super::scan::is_word;
use super::tree::Tree;

/// The crate for unsafe code.
const HOME: &str = "crates/tickless-link/";

const KERNEL_NOTE: &str = "docs/kernel.md";
const CAPI_NOTE: &str = "docs/decisions/0060-c-callbacks-after-the-turn.md";
const POSIX_NOTE: &str = "docs/capi.md";
const PEERS_NOTE: &str = "docs/testing.md";
const EXECUTOR_NOTE: &str = "docs/decisions/0028-tasks-in-async-task-cells.md";
const SIGNAL_NOTE: &str = "docs/decisions/0029-slice-ends-by-counter-or-signal.md";
const HOST_NOTE: &str = "docs/decisions/0003-unsafe-code-is-confined.md";

/// The places outside of that crate, each with its page: a file, or a directory with a slash at its end.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("laboratory/peers/src/memory.rs", PEERS_NOTE),
    ("laboratory/peers/src/slots.rs", PEERS_NOTE),
    ("laboratory/peers/src/subjects/foreign.rs", PEERS_NOTE),
    ("crates/tickless-capi/src/", CAPI_NOTE),
    ("crates/tickless-preload/src/lib.rs", POSIX_NOTE),
    ("crates/tickless/src/executor/header.rs", EXECUTOR_NOTE),
    ("crates/tickless/src/executor/own.rs", EXECUTOR_NOTE),
    ("crates/tickless/src/executor/spawn.rs", EXECUTOR_NOTE),
    ("crates/tickless/src/host/barrier.rs", HOST_NOTE),
    ("crates/tickless/src/host/clock/counter.rs", HOST_NOTE),
    ("crates/tickless/src/host/lifecycle/fork.rs", HOST_NOTE),
    ("crates/tickless/src/host/sys/linux/clocks.rs", HOST_NOTE),
    (
        "crates/tickless/src/host/sys/linux/descriptors.rs",
        HOST_NOTE,
    ),
    ("crates/tickless/src/host/sys/linux/signals.rs", SIGNAL_NOTE),
    ("crates/tickless/src/host/sys/linux/threads.rs", HOST_NOTE),
    (
        "crates/tickless/src/host/sys/portable/native/apple.rs",
        HOST_NOTE,
    ),
    (
        "crates/tickless/src/host/sys/portable/native/kevent.rs",
        HOST_NOTE,
    ),
    (
        "crates/tickless/src/host/sys/portable/native/posix.rs",
        HOST_NOTE,
    ),
    (
        "crates/tickless/src/host/sys/portable/native/windows.rs",
        HOST_NOTE,
    ),
    (
        "crates/tickless/src/host/sys/portable/threads.rs",
        HOST_NOTE,
    ),
    ("crates/tickless/src/tokio.rs", HOST_NOTE),
    ("crates/tickless/tests/allocations.rs", HOST_NOTE),
    ("crates/tickless/tests/any_host.rs", HOST_NOTE),
    ("crates/tickless/tests/executor/process.rs", HOST_NOTE),
    ("crates/tickless/tests/process.rs", HOST_NOTE),
    ("crates/tickless/tests/support/fork.rs", HOST_NOTE),
    ("crates/tickless/tests/support/refuse.rs", HOST_NOTE),
    ("crates/tickless/tests/surroundings.rs", HOST_NOTE),
    ("crates/tickless/tests/exit.rs", HOST_NOTE),
    ("crates/tickless/tests/faked_clock.rs", HOST_NOTE),
    ("crates/tickless/tests/refused_calls.rs", HOST_NOTE),
    ("cortex-m/src/", KERNEL_NOTE),
    ("kernel/src/", KERNEL_NOTE),
    ("conformance/src/surroundings.rs", KERNEL_NOTE),
];

pub(super) fn placed(tree: &Tree, report: &mut Report<'_>) {
    // The small trees of the tests have none of these places.
    let exceptions = if cfg!(test) { &[] } else { EXCEPTIONS };
    placed_with(exceptions, tree, report);
}

fn placed_with(exceptions: &[(&str, &str)], tree: &Tree, report: &mut Report<'_>) {
    let covers = |place: &str, path: &str| {
        path == place || (place.ends_with('/') && path.starts_with(place))
    };
    let with_unsafe: Vec<(&str, usize)> = tree
        .rust()
        .filter(|(file, _)| !file.path.starts_with(HOME))
        .filter_map(|(file, scan)| Some((file.path.as_str(), scan.line_of(first(&scan.code)?))))
        .collect();
    for &(path, line) in &with_unsafe {
        if !exceptions.iter().any(|(place, _)| covers(place, path)) {
            let hint = "move it there, or write why, and list both in tidy/unsafe_code.rs";
            report.error(path, line, "unsafe outside the link crate", hint);
        }
    }
    for (place, page) in exceptions {
        if !tree.contains(page) {
            report.error(place, 1, format!("there is no {page}"), "write the page");
        }
        if !with_unsafe.iter().any(|(path, _)| covers(place, path)) {
            let hint = "remove it from tidy/unsafe_code.rs";
            report.error(place, 1, "it is listed and has no unsafe code", hint);
        }
    }
}

/// Returns the offset of the first word `unsafe` in `code`.
fn first(code: &str) -> Option<usize> {
    let mut found = code.match_indices("unsafe");
    let alone = |offset: usize, word: &str| {
        !code[..offset].ends_with(is_word) && !code[offset + word.len()..].starts_with(is_word)
    };
    found
        .find(|(offset, word)| alone(*offset, word))
        .map(|(offset, _)| offset)
}

#[cfg(test)]
mod tests {
    use super::{Report, Tree, placed, placed_with};
    use crate::tidy::samples::{CLEAN, lines, of_tree};

    #[test]
    fn unsafe_code_outside_of_the_link_crate_is_found() {
        let text = "fn f() {}\nunsafe { g() }\n";
        assert_eq!(lines(placed, "crates/tickless-core/src/a.rs", text), [2]);
        assert_eq!(lines(placed, "crates/tickless-link/src/a.rs", text), CLEAN);
        assert_eq!(
            lines(placed, "src/a.rs", "#![forbid(unsafe_code)] // unsafe\n"),
            CLEAN
        );
    }

    #[test]
    fn a_listed_place_needs_its_page_and_its_unsafe_code() {
        fn rule(tree: &Tree, report: &mut Report<'_>) {
            placed_with(&[("a/", "docs/a.md")], tree, report);
        }
        let page = ("docs/a.md", "");
        assert_eq!(of_tree(rule, &[page, ("a/b.rs", "unsafe {}\n")]), []);
        assert_eq!(of_tree(rule, &[page, ("a/b.rs", "\n")]).len(), 1);
        assert_eq!(of_tree(rule, &[("a/b.rs", "unsafe {}\n")]).len(), 1);
    }
}

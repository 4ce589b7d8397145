//! U1: the places where unsafe code is allowed.
//!
//! All pointer unsafe of the library is in one crate, because Miri and loom check that crate. Any other place has to be
//! listed here, together with the decision note that shows why it needs unsafe code.

use super::Report;
use super::rust::places;
use super::tree::Tree;

/// The crate for unsafe code.
const HOME: &str = "crates/tickless-link/";
/// The directory of chapters and decision notes.
const NOTES: &str = "docs/";

/// A place outside the link crate where unsafe code is allowed.
struct Exception {
    /// The path of a file, or of a directory with a slash at its end.
    path: &'static str,
    /// The file name of the note, under `docs`.
    note: &'static str,
}

/// The exceptions, one line for each place.
const EXCEPTIONS: &[Exception] = &[
    Exception {
        path: "bench/peers/src/memory.rs",
        note: PEERS_NOTE,
    },
    Exception {
        path: "bench/peers/src/slots.rs",
        note: PEERS_NOTE,
    },
    Exception {
        path: "bench/peers/src/subjects/foreign.rs",
        note: PEERS_NOTE,
    },
    Exception {
        path: "crates/tickless-capi/src/",
        note: CAPI_NOTE,
    },
    Exception {
        path: "crates/tickless-preload/src/lib.rs",
        note: POSIX_NOTE,
    },
    Exception {
        path: "crates/tickless/src/executor/header.rs",
        note: EXECUTOR_NOTE,
    },
    Exception {
        path: "crates/tickless/src/executor/own.rs",
        note: EXECUTOR_NOTE,
    },
    Exception {
        path: "crates/tickless/src/executor/spawn.rs",
        note: EXECUTOR_NOTE,
    },
    Exception {
        path: "crates/tickless/src/host/barrier.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/src/host/clock/counter.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/src/host/lifecycle/fork.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/src/host/sources.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/src/host/sys/linux/clocks.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/src/host/sys/linux/descriptors.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/src/host/sys/linux/signals.rs",
        note: SIGNAL_NOTE,
    },
    Exception {
        path: "crates/tickless/src/host/sys/linux/threads.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/src/host/sys/portable/native/apple.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/src/host/sys/portable/native/kevent.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/src/host/sys/portable/native/posix.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/src/host/sys/portable/native/windows.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/src/host/sys/portable/threads.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/src/tokio.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/tests/allocations.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/tests/any_host.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/tests/executor/process.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/tests/process.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/tests/support/fork.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/tests/support/refuse.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/tests/surroundings.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/tests/exit.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/tests/faked_clock.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "crates/tickless/tests/refused_calls.rs",
        note: HOST_NOTE,
    },
    Exception {
        path: "cortex-m/src/",
        note: KERNEL_NOTE,
    },
    Exception {
        path: "kernel/src/",
        note: KERNEL_NOTE,
    },
    Exception {
        path: "conformance/src/surroundings.rs",
        note: KERNEL_NOTE,
    },
];
const KERNEL_NOTE: &str = "kernel.md";
const CAPI_NOTE: &str = "decisions/0060-c-callbacks-after-the-turn.md";
const POSIX_NOTE: &str = "capi.md";
const PEERS_NOTE: &str = "testing.md";
const EXECUTOR_NOTE: &str = "decisions/0028-tasks-in-async-task-cells.md";
const SIGNAL_NOTE: &str = "decisions/0029-slice-ends-by-counter-or-signal.md";
const HOST_NOTE: &str = "decisions/0003-unsafe-code-is-confined.md";

pub(super) fn placed(tree: &Tree, report: &mut Report<'_>) {
    // The small trees of the tests have none of these places.
    let exceptions = if cfg!(test) { &[] } else { EXCEPTIONS };
    placed_with(exceptions, tree, report);
}

fn placed_with(exceptions: &[Exception], tree: &Tree, report: &mut Report<'_>) {
    let with_unsafe: Vec<(&str, usize)> = tree
        .rust()
        .filter(|(file, _)| !file.path.starts_with(HOME))
        .filter_map(|(file, scan)| {
            let first = places(&scan.code, "unsafe").next()?;
            Some((file.path.as_str(), scan.line_of(first)))
        })
        .collect();
    for &(path, line) in &with_unsafe {
        if !exceptions.iter().any(|exception| exception.covers(path)) {
            report.error(
                path,
                line,
                "unsafe outside the link crate",
                "move it there, or write a decision note and list both in tidy/unsafe_code.rs",
            );
        }
    }
    for exception in exceptions {
        let note = format!("{NOTES}{}", exception.note);
        if !tree.contains(&note) {
            report.error(
                exception.path,
                1,
                format!("its unsafe code is excused by {note}, which does not exist"),
                "write the note",
            );
        }
        if !with_unsafe.iter().any(|(path, _)| exception.covers(path)) {
            report.error(
                exception.path,
                1,
                "it is excused for unsafe code and contains none",
                "remove it from tidy/unsafe_code.rs",
            );
        }
    }
}

impl Exception {
    fn covers(&self, path: &str) -> bool {
        if self.path.ends_with('/') {
            path.starts_with(self.path)
        } else {
            path == self.path
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EXCEPTIONS, Exception, Report, Tree, placed, placed_with};
    use crate::tidy::samples::{CLEAN, lines, of_tree};

    /// Checks the number in the note's first sentence, and that a note has a paragraph for each of its files.
    #[test]
    fn the_note_counts_and_names_the_files() {
        let notes = [
            include_str!("../../../docs/decisions/0003-unsafe-code-is-confined.md"),
            include_str!("../../../docs/decisions/0028-tasks-in-async-task-cells.md"),
            include_str!("../../../docs/decisions/0029-slice-ends-by-counter-or-signal.md"),
        ];
        let ours = EXCEPTIONS.iter().map(|exception| exception.path);
        let ours = ours.filter_map(|path| path.strip_prefix("crates/tickless/"));
        let (sources, tests): (Vec<&str>, Vec<&str>) =
            ours.partition(|path| path.starts_with("src/"));
        let words = "no one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen \
                     sixteen seventeen eighteen nineteen twenty";
        let words: Vec<_> = words.split(' ').collect();
        let said = format!(
            "{} source files and {} test files",
            words[sources.len()],
            words[tests.len()]
        );
        assert!(notes[0].to_lowercase().contains(&said), "{said}");
        for path in sources.iter().chain(&tests) {
            let is_named = notes.iter().any(|note| note.contains(&format!("`{path}`")));
            assert!(is_named, "{path} is in no note");
        }
    }

    const UNSAFE: &str = "fn a() {\n    unsafe { b() }\n}\n";

    #[test]
    fn unsafe_is_at_home_in_the_link_crate_only() {
        assert_eq!(
            lines(placed, "crates/tickless-link/src/a.rs", UNSAFE),
            CLEAN
        );
        assert_eq!(lines(placed, "crates/tickless-core/src/a.rs", UNSAFE), [2]);
        let harmless = "#![forbid(unsafe_code)]\n// Not unsafe.\nconst A: &str = \"unsafe\";\n";
        assert_eq!(
            lines(placed, "crates/tickless-core/src/a.rs", harmless),
            CLEAN
        );
    }

    fn excused(tree: &Tree, report: &mut Report<'_>) {
        const EXCEPTIONS: &[Exception] = &[
            Exception {
                path: "kernel/",
                note: "decisions/0001-kernel.md",
            },
            Exception {
                path: "crates/tickless/src/system.rs",
                note: "decisions/0002-system.md",
            },
        ];
        placed_with(EXCEPTIONS, tree, report);
    }

    #[test]
    fn a_listed_place_needs_its_note_and_its_unsafe_code() {
        let kernel = ("kernel/src/main.rs", UNSAFE);
        let system = ("crates/tickless/src/system.rs", UNSAFE);
        let notes = [
            ("docs/decisions/0001-kernel.md", ""),
            ("docs/decisions/0002-system.md", ""),
        ];
        assert_eq!(of_tree(excused, &[kernel, system, notes[0], notes[1]]), []);
        assert_eq!(
            of_tree(excused, &[kernel, system, notes[0]]),
            [("crates/tickless/src/system.rs".to_owned(), 1)]
        );
        let safe = ("crates/tickless/src/system.rs", "fn a() {}");
        assert_eq!(
            of_tree(excused, &[kernel, safe, notes[0], notes[1]]),
            [("crates/tickless/src/system.rs".to_owned(), 1)]
        );
    }
}

//! Checks S7 and T1: sources without a clock read none, and times have types of their own.

use super::Report;
use super::rust::typed;
use super::scan::is_word;
use super::tree::Tree;

/// The crates that take `now` as an argument and read no clock.
const WITHOUT_CLOCK: [&str; 2] = ["crates/tickless-core/src/", "crates/tickless-sim/src/"];
/// The calls that read the machine's clock or wait for it.
const CLOCK_READS: [&str; 3] = ["Instant::now", "SystemTime::now", "thread::sleep"];

/// The directory in which time has types of its own, and the one module that makes them from numbers.
const TYPED: &str = "crates/tickless-core/src/";
const TIME_MODULE: [&str; 2] = [
    "crates/tickless-core/src/time/",
    "crates/tickless-core/src/time.rs",
];

/// The endings of names that mark a number as a time.
const TIME_SUFFIXES: [&str; 6] = ["_ns", "_us", "_ms", "_nanos", "_micros", "_secs"];
const TIME_NAMES: [&str; 3] = ["timeout", "deadline", "duration"];
const NUMBERS: [&str; 4] = ["u64", "i64", "u128", "f64"];

pub(super) fn no_clock_reads(tree: &Tree, report: &mut Report<'_>) {
    for (file, scan) in tree.rust() {
        if !WITHOUT_CLOCK
            .iter()
            .any(|place| file.path.starts_with(place))
        {
            continue;
        }
        for read in CLOCK_READS {
            for (offset, _) in scan.code.match_indices(read) {
                let before = &scan.code[..offset];
                let after = &scan.code[offset + read.len()..];
                if before.ends_with(is_word) || after.starts_with(is_word) {
                    continue;
                }
                report.error(
                    &file.path,
                    scan.line_of(offset),
                    format!("{read} reads or awaits the clock of the machine"),
                    "take `now` as an argument, or ask the Platform",
                );
            }
        }
    }
}

pub(super) fn no_bare_numbers(tree: &Tree, report: &mut Report<'_>) {
    for (file, scan) in tree.rust() {
        let in_time_module = TIME_MODULE.iter().any(|place| file.path.starts_with(place));
        if !file.path.starts_with(TYPED) || in_time_module {
            continue;
        }
        // A test may write its deadlines as they come.
        let tests_from = file.tests_from();
        for typed in typed(&scan.code)
            .into_iter()
            .filter(|typed| typed.offset < tests_from)
        {
            let is_time = TIME_NAMES.contains(&typed.name)
                || TIME_SUFFIXES
                    .iter()
                    .any(|suffix| typed.name.ends_with(suffix));
            if is_time && NUMBERS.contains(&typed.kind) {
                report.error(
                    &file.path,
                    scan.line_of(typed.offset),
                    format!("{}: {} is a time in a bare number", typed.name, typed.kind),
                    "use Ticks, Nanos, Instant or Span",
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{no_bare_numbers, no_clock_reads};
    use crate::tidy::samples::{CLEAN, lines};

    #[test]
    fn clock_reads_are_found_in_the_core_and_the_simulator() {
        let text = "fn a() {\n    Instant::now();\n    std::time::SystemTime::now();\n}\n\
                    fn b() { thread::sleep(c) }\n";
        for place in [
            "crates/tickless-core/src/a.rs",
            "crates/tickless-sim/src/b/c.rs",
        ] {
            assert_eq!(lines(no_clock_reads, place, text), [2, 3, 5]);
        }
        assert_eq!(
            lines(no_clock_reads, "crates/tickless/src/a.rs", text),
            CLEAN
        );
        let harmless = "// Instant::now()\nfn a() { MyInstant::now(); Instant::nowhere() }\n";
        assert_eq!(
            lines(no_clock_reads, "crates/tickless-core/src/a.rs", harmless),
            CLEAN
        );
    }

    #[test]
    fn bare_numbers_are_found_in_parameters_and_fields() {
        let text = "fn a(\n    deadline: u64,\n    slack_ns: i64,\n) {}\n\
                    struct S {\n    pub timeout: u128,\n    rest_secs: f64,\n}\n";
        let path = "crates/tickless-core/src/wheel/mod.rs";
        assert_eq!(lines(no_bare_numbers, path, text), [2, 3, 6, 7]);
        assert_eq!(
            lines(
                no_bare_numbers,
                "crates/tickless-core/src/time/units.rs",
                text
            ),
            CLEAN
        );
        assert_eq!(
            lines(no_bare_numbers, "crates/tickless-sim/src/a.rs", text),
            CLEAN
        );
        let tests = format!("#[cfg(test)]\nmod tests {{\n{text}}}\n");
        assert_eq!(lines(no_bare_numbers, path, &tests), CLEAN);
        assert_eq!(
            lines(no_bare_numbers, "crates/tickless-core/src/a/tests.rs", text),
            CLEAN
        );
        let good = "fn a(deadline: Instant<C>, index_ns: u8, count: u64) { let x_ns: u64 = 1; }\n";
        assert_eq!(lines(no_bare_numbers, path, good), CLEAN);
    }
}

//! S2, S3: the length of files and functions, and the names of modules.

use super::Report;
use super::rust::{functions, words};
use super::tree::Tree;

/// The number of lines, tests not counted, above which a file probably holds more than one concept.
const FILE_WARNING: usize = 500;
/// The number of lines above which no reader finds the way in a file, whatever the file contains.
const FILE_LIMIT: usize = 900;
/// The number of lines that fit on a screen.
const FUNCTION_LIMIT: usize = 70;

/// Names that do not describe the contents of a module, and one name that hides a crate of the language.
const EMPTY_NAMES: [&str; 5] = ["util", "utils", "common", "misc", "core"];

pub(super) fn file_length(tree: &Tree, report: &mut Report<'_>) {
    for (file, scan) in tree.rust() {
        let total = file.text.lines().count();
        let without_tests = match file.tests_from() {
            0 => 0,
            offset if offset < scan.code.len() => scan.line_of(offset) - 1,
            _ => total,
        };
        if total > FILE_LIMIT {
            report.error(
                &file.path,
                total,
                format!("the file has {total} lines, more than {FILE_LIMIT}"),
                "split it by concept, and move the tests to x/tests.rs",
            );
        } else if without_tests > FILE_WARNING {
            report.warning(
                &file.path,
                without_tests,
                format!(
                    "the file has {without_tests} lines without tests, more than {FILE_WARNING}"
                ),
                "is it one concept?",
            );
        }
    }
}

pub(super) fn function_length(tree: &Tree, report: &mut Report<'_>) {
    for (file, scan) in tree.rust() {
        for function in functions(&scan.code) {
            let Some(end) = function.end else {
                continue;
            };
            let first = scan.line_of(function.start);
            let length = scan.line_of(end) - first + 1;
            if length > FUNCTION_LIMIT {
                report.error(
                    &file.path,
                    first,
                    format!(
                        "the function {} has {length} lines, more than {FUNCTION_LIMIT}",
                        function.name
                    ),
                    "keep the branching and move the pure parts into functions below",
                );
            }
        }
    }
}

pub(super) fn module_names(tree: &Tree, report: &mut Report<'_>) {
    for (file, scan) in tree.rust() {
        let mut after_mod = false;
        for (offset, word) in words(&scan.code) {
            if after_mod && EMPTY_NAMES.contains(&word) {
                report.error(
                    &file.path,
                    scan.line_of(offset),
                    format!("a module is called {word}"),
                    "name it after the concept that it holds",
                );
            }
            after_mod = word == "mod";
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{file_length, function_length, module_names};
    use crate::tidy::samples::{CLEAN, lines};

    #[test]
    fn a_long_file_is_found_and_its_tests_count_to_the_limit_only() {
        let filler = |lines: usize| "const A: u8 = 1;\n".repeat(lines);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", filler(300));
        let path = "src/a.rs";
        assert_eq!(lines(file_length, path, &filler(500)), CLEAN);
        assert_eq!(lines(file_length, path, &filler(501)), [501]);
        assert_eq!(lines(file_length, path, &(filler(500) + &tests)), CLEAN);
        assert_eq!(lines(file_length, path, &(filler(598) + &tests)), [901]);
        assert_eq!(lines(file_length, "src/a/tests.rs", &filler(900)), CLEAN);
        assert_eq!(lines(file_length, "src/a/tests.rs", &filler(901)), [901]);
    }

    #[test]
    fn a_long_function_is_found_even_in_a_macro() {
        let function = |lines: usize| format!("\nfn f() {{\n{}}}\n", "a();\n".repeat(lines - 2));
        assert_eq!(lines(function_length, "a.rs", &function(70)), CLEAN);
        assert_eq!(lines(function_length, "a.rs", &function(71)), [2]);
        let wrapped = format!("wrap! {{ {} }}", function(71));
        assert_eq!(lines(function_length, "a.rs", &wrapped), [2]);
    }

    #[test]
    fn empty_names_are_found_where_the_module_is_declared() {
        assert_eq!(
            lines(module_names, "a.rs", "mod utility;\nuse core::fmt;\n"),
            CLEAN
        );
        assert_eq!(
            lines(module_names, "a.rs", "mod a;\npub mod util;\nmod core {}\n"),
            [2, 3]
        );
    }
}

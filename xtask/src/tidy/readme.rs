//! H5: each figure in the README can be measured again.
//!
//! A measured figure ages, and a figure that cannot be measured again is advertising. So each section of the README
//! that contains figures must contain a command that prints them.

use super::Report;
use super::markdown::{Line, kinds};
use super::tree::Tree;

const README: &str = "README.md";
/// The words with which commands begin.
const PROGRAMS: [&str; 2] = ["cargo ", "tickless "];
/// The units that make digits a measured figure, with or without a space before them.
const UNITS: [&str; 7] = ["ns", "µs", "μs", "us", "ms", "%", "×"];
/// The unit that must follow the digits without a space, because otherwise many letters after a number would count as
/// figures.
const TIMES: &str = "x";

pub(super) fn figures(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.files().iter().filter(|file| file.path == README) {
        let mut section = Section::default();
        for (number, kind) in (1..).zip(kinds(&file.text)) {
            match kind {
                Line::Heading(_) => std::mem::take(&mut section).close(report),
                Line::Fence => {}
                Line::Fenced(line) => section.see(number, line, is_command(line)),
                Line::Prose(line) => section.see(number, line, has_inline_command(line)),
            }
        }
        section.close(report);
    }
}

/// The contents of the page since the last heading.
#[derive(Default)]
struct Section {
    figures: Vec<usize>,
    has_command: bool,
}

impl Section {
    fn see(&mut self, number: usize, line: &str, has_command: bool) {
        self.has_command |= has_command;
        if has_figure(line) {
            self.figures.push(number);
        }
    }

    fn close(self, report: &mut Report<'_>) {
        if self.has_command {
            return;
        }
        for line in self.figures {
            report.error(
                README,
                line,
                "a figure, and no command in its section",
                "name the command that measures it, as `cargo ...` or `tickless ...`",
            );
        }
    }
}

fn is_command(text: &str) -> bool {
    let text = text.trim_start();
    let text = text.strip_prefix("$ ").unwrap_or(text);
    PROGRAMS.iter().any(|program| text.starts_with(program))
}

fn has_inline_command(line: &str) -> bool {
    line.split('`').skip(1).step_by(2).any(is_command)
}

/// Returns true if `line` contains digits with a unit.
fn has_figure(line: &str) -> bool {
    line.char_indices().any(|(offset, letter)| {
        let begins = letter.is_ascii_digit()
            && !line[..offset].ends_with(|before: char| before.is_alphanumeric() || before == '.');
        begins && is_figure(&line[offset..])
    })
}

fn is_figure(text: &str) -> bool {
    let after =
        text.trim_start_matches(|letter: char| letter.is_ascii_digit() || ".,".contains(letter));
    let ends = |rest: &str| !rest.starts_with(char::is_alphanumeric);
    let at_once = after.strip_prefix(TIMES).is_some_and(ends);
    // The second is the narrow space that does not break.
    let spaced = after.trim_start_matches([' ', '\u{202f}', '\u{a0}']);
    at_once
        || UNITS
            .iter()
            .any(|unit| spaced.strip_prefix(unit).is_some_and(ends))
}

#[cfg(test)]
mod tests {
    use super::{figures, has_figure};
    use crate::tidy::samples::{CLEAN, lines};

    #[test]
    fn figures_are_digits_with_a_unit() {
        for figure in [
            "4.4 ns",
            "35µs",
            "12.5 %",
            "2x faster",
            "3.1× less",
            "1,000 ms.",
            "(8 us)",
        ] {
            assert!(has_figure(figure), "{figure}");
        }
        for other in [
            "x86",
            "0x1f",
            "64 bits",
            "3 xylophones",
            "v2x",
            "10 nsec",
            "ns",
            "1.5 s",
        ] {
            assert!(!has_figure(other), "{other}");
        }
    }

    #[test]
    fn a_section_with_figures_and_no_command_is_found() {
        let bad = "# Tickless\n\nTakes 4 ns.\n\n## Run\n\n`cargo run`\n";
        assert_eq!(lines(figures, "README.md", bad), [3]);
        let at_the_end = "# Tickless\n\n`cargo run`\n\n## Numbers\n\n| 4 ns |\n| 5 ns |\n";
        assert_eq!(lines(figures, "README.md", at_the_end), [7, 8]);
        assert_eq!(lines(figures, "docs/README.md", bad), CLEAN);
    }

    #[test]
    fn a_command_in_the_section_is_enough() {
        let inline = "# Tickless\n\nTakes 4 ns (`tickless bench`).\n";
        assert_eq!(lines(figures, "README.md", inline), CLEAN);
        let fenced = "# Tickless\n\n```\n$ cargo bench\narm 4 ns\n```\n";
        assert_eq!(lines(figures, "README.md", fenced), CLEAN);
        let other = "# Tickless\n\nTakes 4 ns (`perf stat`).\n";
        assert_eq!(lines(figures, "README.md", other), [3]);
    }
}

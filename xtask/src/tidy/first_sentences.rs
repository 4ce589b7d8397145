//! W7: the first sentence of a documentation names its subject.
//!
//! A sentence that begins with "what" or "whether" makes its reader look for its subject, and a sentence that begins
//! with "its", "only" or "called" leaves the subject out. So the documentation of a module or an item and the title of
//! a decision begin with a verb or with the thing itself.

use super::Report;
use super::tree::Tree;

/// The words with which no first sentence begins.
const VAGUE: [&str; 112] = [
    "What",
    "That",
    "Those",
    "Ones",
    "Whether",
    "Who",
    "Whom",
    "Whose",
    "How",
    "When",
    "Where",
    "Which",
    "For",
    "As",
    "Here",
    "So",
    "It",
    "They",
    "There",
    "Nothing",
    "Everything",
    "If",
    "In",
    "By",
    "To",
    "Behind",
    "Of",
    "On",
    "From",
    "Why",
    "Until",
    "Since",
    "Between",
    "Before",
    "After",
    "At",
    "With",
    "Without",
    "While",
    "Something",
    // A subject that the reader has to look for, or none.
    "Its",
    "Their",
    "Only",
    "Also",
    "Not",
    "Nor",
    "And",
    "Too",
    "Never",
    "Always",
    "Like",
    "Unlike",
    "About",
    "Below",
    "Beyond",
    "Beside",
    "Besides",
    "Into",
    "Above",
    "Over",
    "Past",
    "Inside",
    "Anywhere",
    "Anything",
    "Whatever",
    "Wherever",
    "Whenever",
    "Once",
    "Unless",
    "Nearly",
    "Ever",
    "Afterwards",
    "Later",
    "Enough",
    "Left",
    "Longer",
    "More",
    "Less",
    "Fewer",
    "Better",
    "Worse",
    "Most",
    "Some",
    "Any",
    "Others",
    "These",
    "False",
    "Odd",
    "Can",
    // Participles, which leave out who does it.
    "Called",
    "Counted",
    "Started",
    "Ended",
    "Dropped",
    "Written",
    "Armed",
    "Made",
    "Built",
    "Opened",
    "Asked",
    "Executed",
    "Dealt",
    "Shifted",
    "Inlined",
    "Rounded",
    // Verbs that say of no mechanism what it does.
    "Asks",
    "Comes",
    "Goes",
    "Hands",
    "Says",
    "Stands",
    "Tells",
];
const DECISIONS: &str = "docs/decisions/";
const HINT: &str = "begin with a verb (Returns, Arms, Sets) or with the thing itself";

pub(super) fn of_items(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.with_extension("rs") {
        let lines: Vec<&str> = file.text.lines().map(str::trim_start).collect();
        for (index, line) in lines.iter().enumerate() {
            let begins = index == 0 || !lines[index - 1].starts_with("///");
            let Some(text) = line.strip_prefix("///").filter(|_| begins) else {
                continue;
            };
            judge(&file.path, index + 1, text, report);
        }
    }
}

/// Checks the first line of each module's documentation, in every Rust file of the tree.
pub(super) fn of_modules(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.with_extension("rs") {
        let mut lines = (1..).zip(file.text.lines());
        let first = lines.find_map(|(line, text)| Some((line, text.strip_prefix("//!")?)));
        if let Some((line, text)) = first {
            judge(&file.path, line, text, report);
        }
    }
}

pub(super) fn of_decisions(tree: &Tree, report: &mut Report<'_>) {
    let decisions = tree.with_extension("md");
    for file in decisions.filter(|file| file.path.starts_with(DECISIONS)) {
        let title = file.text.lines().next().unwrap_or_default();
        let number = |letter: char| {
            letter == '#' || letter == ' ' || letter == '.' || letter.is_ascii_digit()
        };
        judge(&file.path, 1, title.trim_start_matches(number), report);
    }
}

fn judge(path: &str, line: usize, text: &str, report: &mut Report<'_>) {
    let first = text.split_whitespace().next().unwrap_or_default();
    let first = first.trim_end_matches([',', '.', ':', ';']);
    if VAGUE.contains(&first) {
        report.error(
            path,
            line,
            format!("the first sentence begins with \"{first}\""),
            HINT,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{of_decisions, of_items, of_modules};
    use crate::tidy::samples::{CLEAN, lines};

    const PATH: &str = "crates/tickless/src/a.rs";

    #[test]
    fn items_name_their_subject() {
        let vague = "/// What a turn did.\n#[derive(Debug)]\npub struct Turn;\n";
        assert_eq!(lines(of_items, PATH, vague), [1]);
        let plain = "/// The result of a turn.\npub struct Turn;\n";
        assert_eq!(lines(of_items, PATH, plain), CLEAN);
        let private = "/// What a turn did.\nstruct Turn;\n/// Whether.\npub(crate) fn a() {}\n";
        assert_eq!(lines(of_items, PATH, private), [1, 3]);
        let later = "/// Returns the turn.\n/// What it did is in it.\npub fn turn() {}\n";
        assert_eq!(lines(of_items, PATH, later), CLEAN);
        assert_eq!(lines(of_items, "lab/src/a.rs", vague), [1]);
        let subjectless = "/// Its name.\nconst A: u8 = 0;\n/// Only this.\nconst B: u8 = 0;\n";
        assert_eq!(lines(of_items, PATH, subjectless), [1, 3]);
        let participle = "/// Called when it is too large.\nconst A: u8 = 0;\n";
        assert_eq!(lines(of_items, PATH, participle), [1]);
    }

    #[test]
    fn modules_name_their_subject() {
        let vague = "#![deny(missing_docs)]\n\n//! What is measured.\n//!\n//! Whether.\n";
        assert_eq!(lines(of_modules, "lab/src/a.rs", vague), [3]);
        let plain =
            "//! The measurements.\n//!\n//! What is measured.\n\nmod a {\n    //! What.\n}\n";
        assert_eq!(lines(of_modules, "lab/src/a.rs", plain), CLEAN);
    }

    #[test]
    fn titles_of_decisions_say_what_was_decided() {
        let riddle = "# 56. What is just made is not asked\n\nText.\n";
        assert_eq!(lines(of_decisions, "docs/decisions/0056-a.md", riddle), [1]);
        let plain = "# 56. Sleepers are constructed in their bucket\n\nText.\n";
        assert_eq!(
            lines(of_decisions, "docs/decisions/0056-a.md", plain),
            CLEAN
        );
        assert_eq!(lines(of_decisions, "docs/guide.md", riddle), CLEAN);
    }
}

//! H5, V2: citations of the specifications in `laboratory/docs/spec`: each names an existing section or requirement, and each
//! requirement has a test.
//!
//! A section is cited with the letter of its page (`X-4.5`, `C-2.4`, `P-1`, `C-D.6`), a requirement by its id (`INV-1`,
//! `B12`, `Example 5`). A page lists the requirements that need a test in its section *Conformance checklist*, as ids
//! and ranges: `TIM-2, 3, 6..9`. A requirement without a test stands with the reason in the table of
//! `laboratory/docs/spec/README.md`.

use std::collections::{BTreeMap, BTreeSet};

use super::Report;
use super::prose::{Token, tokens, written};
use super::scan::is_word;
use super::tree::{File, Tree};

const PLACE: &str = "laboratory/docs/spec/";
const INDEX: &str = "laboratory/docs/spec/README.md";
const STYLE: &str = "docs/style.md";
const CHECKLIST: &str = "Conformance checklist";
const UNTESTED: &str = "## Untested";
/// The page that lists the ids of regressions, with the tests of each.
const REGRESSIONS: &str = "conformance/REGRESSIONS.md";
const EXAMPLE: &str = "Example";
/// The packages that consist of tests only.
const INSTRUMENTS: [&str; 3] = [
    "conformance/",
    "laboratory/sim/",
    "laboratory/protocols/tests",
];

/// The id of a requirement: the letters before the number, with the hyphen if it has one, and the number.
type Id = (String, u32);

/// The sections, requirements and rules that the specifications define.
#[derive(Debug, Default)]
struct Law {
    sections: BTreeSet<String>,
    /// The requirements, each with the place of its first definition.
    ids: BTreeMap<Id, (String, usize)>,
    /// The rules of the house style.
    style: BTreeSet<String>,
    /// The requirements that need a test, with the place that demands the test.
    testable: BTreeMap<Id, (String, usize)>,
}

pub(super) fn resolve(tree: &Tree, report: &mut Report<'_>) {
    let law = Law::read(tree);
    if law.sections.is_empty() {
        return;
    }
    let families: BTreeSet<&str> = law.ids.keys().map(|(family, _)| family.as_str()).collect();
    for file in written(tree).filter(|file| !is_exempt(&file.path)) {
        let tokens = tokens(file);
        for (index, token) in tokens.iter().enumerate() {
            let before = index
                .checked_sub(1)
                .map_or("", |before| tokens[before].text);
            if before.eq_ignore_ascii_case("spec") && starts_with_digit(token.text) {
                report.error(
                    &file.path,
                    token.line,
                    format!("spec {} does not say of which page", token.text),
                    "write X-, C- or P- before the number, as docs/spec has it",
                );
            }
            let missing = if before == "STYLE" {
                !law.style.contains(token.text)
            } else if is_section(token.text) {
                !law.sections.contains(token.text)
            } else {
                cited(token, before)
                    .iter()
                    .any(|id| families.contains(id.0.as_str()) && !law.ids.contains_key(id))
            };
            if missing {
                report.error(
                    &file.path,
                    token.line,
                    format!(
                        "{} is not in laboratory/docs/spec or docs/style.md",
                        token.text
                    ),
                    "cite what is there",
                );
            }
        }
    }
}

pub(super) fn unique(tree: &Tree, report: &mut Report<'_>) {
    let mut seen: BTreeMap<Id, &str> = BTreeMap::new();
    for file in pages(tree) {
        for (line, id) in definitions(file) {
            let first = *seen.entry(id.clone()).or_insert(&file.path);
            if first != file.path {
                report.error(
                    &file.path,
                    line,
                    format!("{} is an id of {first} too", shown(&id)),
                    "give one of them another name",
                );
            }
        }
    }
}

pub(super) fn tested(tree: &Tree, report: &mut Report<'_>) {
    let law = Law::read(tree);
    let untested = untested(tree);
    let tests = cited_by_tests(tree);
    for (id, (path, line)) in &law.testable {
        if !law.ids.contains_key(id) {
            let message = format!("{} is listed, and nowhere defined", shown(id));
            report.error(path, *line, message, "list what the page defines");
        } else if !tests.contains(id) && !untested.contains_key(id) {
            report.error(
                path,
                *line,
                format!("no test cites {}", shown(id)),
                "name it in the test that shows it, or give a reason in laboratory/docs/spec/README.md",
            );
        }
    }
    for (id, line) in &untested {
        if tests.contains(id) || !law.testable.contains_key(id) {
            report.error(
                INDEX,
                *line,
                format!("{} has a test, or needs none", shown(id)),
                "take it out of the table",
            );
        }
    }
}

impl Law {
    fn read(tree: &Tree) -> Self {
        let mut law = Self::default();
        let style = tree.file(STYLE).into_iter().flat_map(File::lines);
        let rules = style.filter_map(|(_, line)| line.strip_prefix("- ")?.split(' ').next());
        law.style = rules.map(str::to_owned).collect();
        for file in pages(tree) {
            let mut in_checklist = false;
            let mut family = None;
            for (line, text) in file.lines() {
                if let Some(title) = text.strip_prefix('#') {
                    in_checklist = title.contains(CHECKLIST);
                } else if in_checklist {
                    for id in listed(text, &mut family) {
                        law.testable.entry(id).or_insert((file.path.clone(), line));
                    }
                }
                law.sections.extend(section(text).map(str::to_owned));
            }
            for (line, id) in definitions(file) {
                law.ids.entry(id).or_insert((file.path.clone(), line));
            }
        }
        law
    }
}

/// Returns the specifications themselves.
fn pages(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.with_extension("md").filter(|file| {
        file.path.starts_with(PLACE) && file.path != INDEX && !file.path.ends_with("GLOSSARY.md")
    })
}

/// Returns true if the file describes other times or the form of citations.
fn is_exempt(path: &str) -> bool {
    path == "CHANGELOG.md" || path.starts_with("xtask/")
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_digit())
}

/// Returns true if `text` has the form of a section's citation.
fn is_section(text: &str) -> bool {
    let Some((page, rest)) = text.split_once('-') else {
        return false;
    };
    let mut letters = rest.chars();
    let first = letters.next();
    let second = letters.next();
    ["X", "C", "P"].contains(&page)
        && match first {
            Some('0'..='9') => true,
            Some('A'..='E') => second.is_none_or(|second| second == '.'),
            _ => false,
        }
}

/// Returns the section whose heading, or whose first words, this line contains.
fn section(line: &str) -> Option<&str> {
    let title = line.trim_start_matches(['#', '*']);
    if title.len() == line.len() {
        return None;
    }
    let word = title.split_whitespace().next()?;
    let word = word.trim_end_matches(['*', '.', ':']);
    is_section(word).then_some(word)
}

/// Returns the requirements that a page defines: each at the beginning of an item, of a row, or of a paragraph in bold
/// type.
fn definitions(page: &File) -> impl Iterator<Item = (usize, Id)> {
    page.lines().filter_map(|(line, text)| {
        let bare = text.trim_start();
        let marks = ["- **", "* **", "- ", "* ", "| ", "**"];
        let rest = marks.iter().find_map(|mark| bare.strip_prefix(mark))?;
        if let Some(number) = rest.strip_prefix(EXAMPLE) {
            let number = number.trim_start().split(' ').next()?;
            return Some((line, (EXAMPLE.to_owned(), number.parse().ok()?)));
        }
        let word = rest.split([' ', '*', '|', ':']).next()?;
        Some((line, id(word)?))
    })
}

/// Splits `TIM-17` and `B12` into letters and number; `None` for any other text.
fn id(word: &str) -> Option<Id> {
    let digits = word.find(|letter: char| letter.is_ascii_digit())?;
    let (family, number) = word.split_at(digits);
    let letters = family.strip_suffix('-').unwrap_or(family);
    let is_family =
        !letters.is_empty() && letters.chars().all(|letter| letter.is_ascii_uppercase());
    (is_family && number.len() <= 3 && !["X-", "C-", "P-"].contains(&family))
        .then(|| Some((family.to_owned(), number.parse().ok()?)))?
}

/// Returns the requirements that a word of prose cites: one, or a range.
fn cited(token: &Token<'_>, before: &str) -> Vec<Id> {
    if [EXAMPLE, "Examples"].contains(&before) {
        return token
            .text
            .parse()
            .map(|number| vec![(EXAMPLE.to_owned(), number)])
            .unwrap_or_default();
    }
    let (first, last) = token.text.split_once("..").unwrap_or((token.text, ""));
    let Some(first) = id(first) else {
        return Vec::new();
    };
    let last = end_of_range(last).unwrap_or(first.1);
    (first.1..=last)
        .map(|number| (first.0.clone(), number))
        .collect()
}

/// Returns the requirements of a line of a checklist: `TIM-2, 3, 6..9` are six. A line without letters at its beginning
/// has the `family` of the line before.
fn listed(line: &str, family: &mut Option<String>) -> Vec<Id> {
    let mut found = Vec::new();
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || ['-', '.'].contains(&letter);
    let mut previous = "";
    for word in line.split(|letter| !is_part(letter)) {
        let word = word.trim_matches('.');
        let (first, last) = word.split_once("..").unwrap_or((word, word));
        let first = if previous.starts_with(EXAMPLE) && !first.is_empty() {
            *family = Some(EXAMPLE.to_owned());
            first.parse().ok()
        } else if let Some((named, number)) = id(first) {
            *family = Some(named);
            Some(number)
        } else {
            first.parse::<u32>().ok()
        };
        if !word.is_empty() {
            previous = word;
        }
        let (Some(first), Some(family)) = (first, family.as_ref()) else {
            continue;
        };
        let last = end_of_range(last).unwrap_or(first);
        found.extend((first..=last).map(|number| (family.clone(), number)));
    }
    found
}

/// Returns the number at the end of a range, with or without the letters of its family.
fn end_of_range(word: &str) -> Option<u32> {
    word.trim_start_matches(|letter: char| letter.is_ascii_uppercase() || letter == '-')
        .parse()
        .ok()
}

fn shown((family, number): &Id) -> String {
    if family == EXAMPLE {
        format!("{family} {number}")
    } else {
        format!("{family}{number}")
    }
}

/// Returns the requirements in the table of requirements without a test, with their lines.
fn untested(tree: &Tree) -> BTreeMap<Id, usize> {
    let mut found = BTreeMap::new();
    for file in tree.files().iter().filter(|file| file.path == INDEX) {
        let mut inside = false;
        for (line, text) in file.lines() {
            if text.starts_with('#') {
                inside = text == UNTESTED;
            }
            let cells: Vec<&str> = text.split('|').map(str::trim).collect();
            if let (true, [_, ids, reason, ..]) = (inside, &cells[..])
                && !reason.is_empty()
            {
                let ids = listed(ids, &mut None);
                found.extend(ids.into_iter().map(|id| (id, line)));
            }
        }
    }
    found
}

/// Returns every requirement that a test names in its documentation, its comments, its messages or its own name.
fn cited_by_tests(tree: &Tree) -> BTreeSet<Id> {
    let mut found = BTreeSet::new();
    for (file, scan) in tree.rust().filter(|(file, _)| !is_exempt(&file.path)) {
        let is_model = file.path.contains("/model") || file.path.ends_with("/fuzz.rs");
        let is_instrument = INSTRUMENTS.iter().any(|place| file.path.starts_with(place));
        let from = if is_model || is_instrument {
            0
        } else {
            file.tests_from()
        };
        let tokens = tokens(file);
        let mut before: &[Token<'_>] = &[];
        for (index, token) in tokens.iter().enumerate() {
            if token.offset >= from {
                let previous = before.last().map_or("", |token| token.text);
                found.extend(cited(token, previous));
                found.extend(continued(&tokens[..=index]));
            }
            before = &tokens[..=index];
        }
        for after in scan.code[from..].split("fn ").skip(1) {
            let name = after.split(|letter| !is_word(letter)).next();
            found.extend(name.and_then(in_name));
        }
    }
    for file in tree.files().iter().filter(|file| file.path == REGRESSIONS) {
        for (_, text) in file.lines() {
            let name = text
                .strip_prefix("| ")
                .and_then(|row| row.split(' ').next());
            found.extend(name.and_then(id));
        }
    }
    found
}

/// Returns the numbers that follow an id: `STATE-1 to 4`, and `FLUSH-1, 3 and 5`.
fn continued(tokens: &[Token<'_>]) -> Vec<Id> {
    let Some((last, before)) = tokens.split_last() else {
        return Vec::new();
    };
    let Ok(number) = last.text.parse::<u32>() else {
        // `STATE-1 to STATE-4`.
        let mut back = before.iter().rev();
        let is_range = back.next().is_some_and(|token| token.text == "to");
        return match (id(last.text), back.next().and_then(|token| id(token.text))) {
            (Some(to), Some(from)) if is_range && to.0 == from.0 => (from.1..=to.1)
                .map(|number| (to.0.clone(), number))
                .collect(),
            _ => Vec::new(),
        };
    };
    let mut is_range = false;
    for token in before.iter().rev().take(6) {
        if let Some(first) = id(token.text) {
            let from = if is_range { first.1 } else { number };
            return (from..=number)
                .map(|number| (first.0.clone(), number))
                .collect();
        }
        if [EXAMPLE, "Examples"].contains(&token.text) {
            return vec![(EXAMPLE.to_owned(), number)];
        }
        match token.text {
            "to" => is_range = true,
            "and" => {}
            text if text.parse::<u32>().is_ok() => {}
            _ => return Vec::new(),
        }
    }
    Vec::new()
}

/// Returns the requirement after which a test is named: `r07_...`, `b12_...`, `example_2_...`.
fn in_name(name: &str) -> Option<Id> {
    if let Some(rest) = name.strip_prefix("example_") {
        let number = rest.split('_').next()?;
        return Some((EXAMPLE.to_owned(), number.parse().ok()?));
    }
    let word = name.split('_').next()?;
    ["b", "r"]
        .iter()
        .any(|family| word.starts_with(family))
        .then(|| id(&word.to_uppercase()))?
}

#[cfg(test)]
mod tests {
    use super::{id, is_section, listed, resolve, shown, tested, unique};
    use crate::tidy::samples::{CLEAN, of_tree};

    const PAGE: &str = "# Page\n\n## X-4. Rearm\n\n### X-4.5 Flush points\n\n- INV-1 [K] never late\n\
        - TIM-2 wide\n| B12 | a bug |\n**Example 5 – late.**\n**C-D.6** bounded\n\
        ## X-16. Conformance checklist\n\nINV-1. Bugs: B12. Example 5.\n";

    fn found(
        rule: fn(&crate::tidy::Tree, &mut crate::tidy::Report<'_>),
        more: &[(&str, &str)],
    ) -> Vec<(String, usize)> {
        let mut files = vec![("laboratory/docs/spec/page.md", PAGE)];
        files.extend_from_slice(more);
        of_tree(rule, &files)
    }

    #[test]
    fn ids_and_sections_are_told_from_other_words() {
        for section in ["X-4.5", "C-2", "P-1", "C-D.6", "C-B", "X-2.8a"] {
            assert!(is_section(section), "{section}");
        }
        for other in ["X-ray", "C-Drop", "A-1", "X", "CPL-4"] {
            assert!(!is_section(other), "{other}");
        }
        assert_eq!(id("TIM-17"), Some(("TIM-".into(), 17)));
        assert_eq!(id("R07"), Some(("R".into(), 7)));
        for other in ["17", "TIM-", "tim-1", "X-4", "B12345", "B1a"] {
            assert_eq!(id(other), None, "{other}");
        }
    }

    #[test]
    fn a_checklist_is_read_with_its_ranges() {
        let mut family = None;
        let mut ids: Vec<String> = Vec::new();
        for line in ["Time: TIM-2, 3,", "6..8; B1..B3, R9. Example 1..2."] {
            ids.extend(listed(line, &mut family).iter().map(shown));
        }
        assert_eq!(
            ids,
            [
                "TIM-2",
                "TIM-3",
                "TIM-6",
                "TIM-7",
                "TIM-8",
                "B1",
                "B2",
                "B3",
                "R9",
                "Example 1",
                "Example 2"
            ]
        );
    }

    #[test]
    fn a_citation_that_leads_nowhere_is_found() {
        let good = "//! See spec X-4.5, INV-1 and C-D.6, Example 5 and B12, UTF-8.\nfn f() { let x = b12; }\n";
        assert_eq!(found(resolve, &[("src/a.rs", good)]), []);
        for bad in [
            "X-4.6",
            "C-D.7",
            "INV-2",
            "B13",
            "Example 6",
            "spec 4.5",
            "Spec 4",
        ] {
            let text = format!("//! See {bad}.\n");
            assert_eq!(
                found(resolve, &[("src/a.rs", &text)]),
                [("src/a.rs".to_owned(), 1)],
                "{bad}"
            );
        }
        let style = ("docs/style.md", "# Style\n\n- T2 Late, never early.\n");
        let right = ("src/a.rs", "// As STYLE T2 has it.\n");
        assert_eq!(found(resolve, &[style, right]), []);
        let wrong = ("src/a.rs", "// As STYLE T3 has it.\n");
        assert_eq!(found(resolve, &[style, wrong]).len(), 1);
        let in_text = "fn f() { assert!(true, \"INV-9\") }\n";
        assert_eq!(found(resolve, &[("src/a.rs", in_text)]).len(), 1);
        let over_a_line = "//! See (spec\n//! 4.5).\n";
        assert_eq!(
            found(resolve, &[("src/a.rs", over_a_line)]),
            [("src/a.rs".to_owned(), 2)]
        );
    }

    #[test]
    fn an_id_of_two_pages_is_found() {
        assert_eq!(found(unique, &[]), []);
        let other = (
            "laboratory/docs/spec/second.md",
            "# Second\n\n| INV-1 | again |\n",
        );
        assert_eq!(
            found(unique, &[other]),
            [("laboratory/docs/spec/second.md".to_owned(), 3)]
        );
    }

    #[test]
    fn what_no_test_cites_needs_a_reason() {
        let tests = (
            "src/a.rs",
            "fn a() {}\n#[cfg(test)]\nmod tests {\n/// INV-1.\nfn b12_a_bug() {}\n}\n",
        );
        let place = |line| ("laboratory/docs/spec/page.md".to_owned(), line);
        assert_eq!(found(tested, &[tests]), [place(14)]);
        let elsewhere = ("src/a.rs", "/// INV-1, B12, Example 5.\nfn a() {}\n");
        assert_eq!(found(tested, &[elsewhere]).len(), 3);
        let example = (
            "conformance/tests/b.rs",
            "/// Examples 1 and 5.\nfn b() {}\n",
        );
        assert_eq!(found(tested, &[tests, example]), []);
        let reason = |text| ("laboratory/docs/spec/README.md", text);
        let given = reason("# S\n\n## Untested\n\n| Example 5 | no such tree |\n");
        assert_eq!(found(tested, &[tests, given]), []);
        assert_eq!(
            found(tested, &[tests, example, given]),
            [("laboratory/docs/spec/README.md".to_owned(), 5)]
        );
        let empty = reason("# S\n\n## Untested\n\n| Example 5 | |\n");
        assert_eq!(found(tested, &[tests, empty]), [place(14)]);
        assert_ne!(CLEAN.len(), 1);
    }
}

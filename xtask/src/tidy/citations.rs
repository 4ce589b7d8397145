//! H5, V2: citations of the specifications in `laboratory/docs/spec`: each names an existing section or requirement,
//! and each requirement has a test.
//!
//! A section is cited with the letter of its page (`X-4.5`, `C-2.4`, `C-D.6`), a requirement by its id (`INV-1`,
//! `B12`, `Example 5`). A page lists the requirements that need a test in its section *Conformance checklist*, as ids
//! and ranges: `TIM-2, 3, 6..9`. A requirement without a test stands with the reason in the table of the index.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{File, Report, Tree, is_word, tests_from};

const PLACE: &str = "laboratory/docs/spec/";
const INDEX: &str = "laboratory/docs/spec/README.md";
const STYLE: &str = "docs/style.md";
const CHECKLIST: &str = "Conformance checklist";
const UNTESTED: &str = "## Untested";
/// The page that lists the ids of regressions, with the tests of each.
const REGRESSIONS: &str = "conformance/REGRESSIONS.md";
const EXAMPLE: &str = "Example";
/// The packages that consist of tests only.
const INSTRUMENTS: [&str; 2] = ["conformance/", "laboratory/sim/"];

/// The id of a requirement: the letters before the number, with the hyphen if it has one, and the number.
type Id = (String, u32);
/// A file and a line.
type Place<'t> = (&'t str, usize);

/// The sections, requirements and rules that the specifications define.
#[derive(Debug, Default)]
struct Law<'t> {
    sections: BTreeSet<&'t str>,
    /// The requirements, each with the places that define it.
    ids: BTreeMap<Id, Vec<Place<'t>>>,
    /// The rules of the house style.
    style: BTreeSet<&'t str>,
    /// The requirements that need a test, with the place that demands the test.
    testable: BTreeMap<Id, Place<'t>>,
}

pub(super) fn resolve(tree: &Tree, report: &mut Report<'_>) {
    let law = Law::read(tree);
    if law.sections.is_empty() {
        return;
    }
    for (id, places) in &law.ids {
        let (first, others) = (places[0].0, &places[1..]);
        for (path, line) in others.iter().filter(|place| place.0 != first) {
            let message = format!("{} is an id of {first} too", shown(id));
            report.error(path, *line, message, "give one of them another name");
        }
    }
    let families: BTreeSet<&str> = law.ids.keys().map(|(family, _)| family.as_str()).collect();
    let written = [".rs", ".md"].into_iter().flat_map(|end| tree.ending(end));
    for file in written.filter(|file| !is_exempt(&file.path)) {
        let mut before = "";
        for Word { line, offset, text } in words(&file.text) {
            if before.eq_ignore_ascii_case("spec")
                && file.text[..offset].trim_end().ends_with(before)
                && text.starts_with(|letter: char| letter.is_ascii_digit())
            {
                let hint = "write X- or C- before the number";
                report.error(
                    &file.path,
                    line,
                    format!("spec {text} does not say of which page"),
                    hint,
                );
            }
            let is_unknown =
                |id: &Id| families.contains(id.0.as_str()) && !law.ids.contains_key(id);
            let is_missing = if before == "STYLE" {
                !law.style.contains(text)
            } else if is_section(text) {
                !law.sections.contains(text)
            } else {
                cited(text, before).iter().any(is_unknown)
            };
            if is_missing {
                let message = format!("{text} is not in laboratory/docs/spec or docs/style.md");
                report.error(&file.path, line, message, "cite what is there");
            }
            before = text;
        }
    }
}

pub(super) fn tested(tree: &Tree, report: &mut Report<'_>) {
    let (law, untested, tests) = (Law::read(tree), untested(tree), cited_by_tests(tree));
    for (id, (path, line)) in &law.testable {
        if !law.ids.contains_key(id) {
            let message = format!("{} is listed, and nowhere defined", shown(id));
            report.error(path, *line, message, "list what the page defines");
        } else if !tests.contains(id) && !untested.contains_key(id) {
            let hint = "name it in the test that shows it, or give a reason in laboratory/docs/spec/README.md";
            report.error(path, *line, format!("no test cites {}", shown(id)), hint);
        }
    }
    for (id, line) in &untested {
        if tests.contains(id) || !law.testable.contains_key(id) {
            let message = format!("{} has a test, or needs none", shown(id));
            report.error(INDEX, *line, message, "take it out of the table");
        }
    }
}

impl<'t> Law<'t> {
    fn read(tree: &'t Tree) -> Self {
        let mut law = Self::default();
        let style = tree.file(STYLE).into_iter().flat_map(File::lines);
        law.style = style
            .filter_map(|(_, line)| line.strip_prefix("- ")?.split(' ').next())
            .collect();
        let pages = tree
            .ending(".md")
            .filter(|file| file.path.starts_with(PLACE) && file.path != INDEX);
        for file in pages.filter(|file| !file.path.ends_with("GLOSSARY.md")) {
            let (mut in_checklist, mut family) = (false, None);
            for (line, text) in file.lines() {
                let place = (file.path.as_str(), line);
                if let Some(title) = text.strip_prefix('#') {
                    in_checklist = title.contains(CHECKLIST);
                } else if in_checklist {
                    for id in listed(text, &mut family) {
                        law.testable.entry(id).or_insert(place);
                    }
                }
                law.sections.extend(section(text));
                if let Some(id) = definition(text) {
                    law.ids.entry(id).or_default().push(place);
                }
            }
        }
        law
    }
}

/// A run of letters, digits and the characters `-`, `.` and `_`, without those at its ends.
#[derive(Clone, Copy, Debug)]
struct Word<'t> {
    line: usize,
    /// The offset of the word in the text.
    offset: usize,
    text: &'t str,
}

fn words(prose: &str) -> impl Iterator<Item = Word<'_>> {
    let is_part = |letter: char| letter.is_alphanumeric() || "-._".contains(letter);
    (1..).zip(prose.lines()).flat_map(move |(line, text)| {
        let words = text.split(move |letter| !is_part(letter));
        let bare = words.map(|word| word.trim_matches(['-', '.', '_']));
        bare.filter(|word| !word.is_empty()).map(move |text| {
            let offset = text.as_ptr() as usize - prose.as_ptr() as usize;
            Word { line, offset, text }
        })
    })
}

/// Returns true if the file describes other times or the form of citations.
fn is_exempt(path: &str) -> bool {
    path == "CHANGELOG.md" || path.starts_with("xtask/")
}

/// Returns true if `text` has the form of a section's citation.
fn is_section(text: &str) -> bool {
    let Some((page, rest)) = text.split_once('-') else {
        return false;
    };
    let mut letters = rest.chars();
    let (first, second) = (letters.next(), letters.next());
    ["X", "C"].contains(&page)
        && match first {
            Some('0'..='9') => true,
            Some('A'..='E') => second.is_none_or(|second| second == '.'),
            _ => false,
        }
}

/// Returns the section whose heading, or whose first words, this line contains.
fn section(line: &str) -> Option<&str> {
    let title = line.trim_start_matches(['#', '*']);
    let word = title
        .split_whitespace()
        .next()?
        .trim_end_matches(['*', '.', ':']);
    (title.len() < line.len() && is_section(word)).then_some(word)
}

/// Returns the requirement that a line defines: at the beginning of an item, of a row, or of a paragraph in bold type.
fn definition(line: &str) -> Option<Id> {
    let marks = ["- **", "* **", "- ", "* ", "| ", "**"];
    let rest = marks
        .iter()
        .find_map(|mark| line.trim_start().strip_prefix(mark))?;
    if let Some(number) = rest.strip_prefix(EXAMPLE) {
        return Some((
            EXAMPLE.to_owned(),
            number.trim_start().split(' ').next()?.parse().ok()?,
        ));
    }
    id(rest.split([' ', '*', '|', ':']).next()?)
}

/// Splits `TIM-17` and `B12` into letters and number; `None` for any other text.
fn id(word: &str) -> Option<Id> {
    let (family, number) = word.split_at(word.find(|letter: char| letter.is_ascii_digit())?);
    let letters = family.strip_suffix('-').unwrap_or(family);
    let is_family =
        !letters.is_empty() && letters.chars().all(|letter| letter.is_ascii_uppercase());
    let is_id = is_family && number.len() <= 3 && !["X-", "C-"].contains(&family);
    is_id.then(|| Some((family.to_owned(), number.parse().ok()?)))?
}

/// Returns the requirements that a word of prose cites: one, or a range.
fn cited(text: &str, before: &str) -> Vec<Id> {
    if before == EXAMPLE || before == "Examples" {
        return text
            .parse()
            .map(|number| (EXAMPLE.to_owned(), number))
            .into_iter()
            .collect();
    }
    let (first, last) = text.split_once("..").unwrap_or((text, ""));
    let range = |first: Id| {
        (first.1..=end_of_range(last).unwrap_or(first.1))
            .map(move |number| (first.0.clone(), number))
    };
    id(first).into_iter().flat_map(range).collect()
}

/// Returns the requirements of a line of a checklist: `TIM-2, 3, 6..9` are six. A line without letters at its beginning
/// has the `family` of the line before.
fn listed(line: &str, family: &mut Option<String>) -> Vec<Id> {
    let mut found = Vec::new();
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || ['-', '.'].contains(&letter);
    let words = line
        .split(|letter| !is_part(letter))
        .map(|word| word.trim_matches('.'));
    let mut previous = "";
    for word in words.filter(|word| !word.is_empty()) {
        let (first, last) = word.split_once("..").unwrap_or((word, word));
        let named = id(first);
        if previous.starts_with(EXAMPLE) {
            *family = Some(EXAMPLE.to_owned());
        } else if let Some((named, _)) = &named {
            *family = Some(named.clone());
        }
        previous = word;
        let first = named
            .map(|(_, number)| number)
            .or_else(|| first.parse().ok());
        if let (Some(first), Some(family)) = (first, &*family) {
            let last = end_of_range(last).unwrap_or(first);
            found.extend((first..=last).map(|number| (family.clone(), number)));
        }
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
    format!(
        "{family}{}{number}",
        if family == EXAMPLE { " " } else { "" }
    )
}

/// Returns the requirements in the table of requirements without a test, with their lines.
fn untested(tree: &Tree) -> BTreeMap<Id, usize> {
    let (mut found, mut inside) = (BTreeMap::new(), false);
    for (line, text) in tree.file(INDEX).into_iter().flat_map(File::lines) {
        if text.starts_with('#') {
            inside = text == UNTESTED;
        }
        let cells: Vec<&str> = text.split('|').map(str::trim).collect();
        if let (true, [_, ids, reason, ..]) = (inside, &cells[..])
            && !reason.is_empty()
        {
            found.extend(listed(ids, &mut None).into_iter().map(|id| (id, line)));
        }
    }
    found
}

/// Returns every requirement that a test names in its text or by its own name.
fn cited_by_tests(tree: &Tree) -> BTreeSet<Id> {
    let mut found = BTreeSet::new();
    for file in tree.ending(".rs").filter(|file| !is_exempt(&file.path)) {
        let is_model = file.path.contains("/model") || file.path.ends_with("/fuzz.rs");
        let is_instrument = INSTRUMENTS.iter().any(|place| file.path.starts_with(place));
        let from = if is_model || is_instrument {
            0
        } else {
            tests_from(&file.path, &file.text)
        };
        let words: Vec<Word<'_>> = words(&file.text).collect();
        for (index, word) in words
            .iter()
            .enumerate()
            .filter(|(_, word)| word.offset >= from)
        {
            let before = index.checked_sub(1).map_or("", |before| words[before].text);
            found.extend(cited(word.text, before));
            found.extend(continued(&words[index.saturating_sub(6)..index], word.text));
        }
        for after in file.text[from..].split("fn ").skip(1) {
            let name = after.split(|letter| !is_word(letter)).next();
            found.extend(name.and_then(in_name));
        }
    }
    let regressions = tree.file(REGRESSIONS).into_iter().flat_map(File::lines);
    found.extend(
        regressions.filter_map(|(_, text)| id(text.strip_prefix("| ")?.split(' ').next()?)),
    );
    found
}

/// Returns the numbers that follow an id: `STATE-1 to 4`, `STATE-1 to STATE-4`, and `FLUSH-1, 3 and 5`.
fn continued(before: &[Word<'_>], last: &str) -> Vec<Id> {
    let is_after_to = before.last().is_some_and(|word| word.text == "to");
    let (to, number) = match id(last) {
        Some((family, number)) if is_after_to => (Some(family), Some(number)),
        Some(_) => return Vec::new(),
        None => (None, last.parse().ok()),
    };
    let (Some(number), mut is_range) = (number, false) else {
        return Vec::new();
    };
    for word in before.iter().rev() {
        if let Some((family, first)) = id(word.text) {
            if to.as_ref().is_some_and(|to| !is_range || *to != family) {
                break;
            }
            let from = if is_range { first } else { number };
            let numbers = (from..=number).map(|number| (family.clone(), number));
            return numbers.collect();
        }
        match word.text {
            "to" => is_range = true,
            "and" => {}
            EXAMPLE | "Examples" if to.is_none() => return vec![(EXAMPLE.to_owned(), number)],
            text if text.parse::<u32>().is_ok() => {}
            _ => break,
        }
    }
    Vec::new()
}

/// Returns the requirement after which a test is named: `r07_...`, `b12_...`, `example_2_...`.
fn in_name(name: &str) -> Option<Id> {
    if let Some(rest) = name.strip_prefix("example_") {
        return Some((EXAMPLE.to_owned(), rest.split('_').next()?.parse().ok()?));
    }
    let word = name.split('_').next()?;
    word.starts_with(['b', 'r'])
        .then(|| id(&word.to_uppercase()))?
}

#[cfg(test)]
mod tests {
    use super::{INDEX, Report, Tree, listed, resolve, shown, tested};
    use crate::tidy::samples::lines;

    const PAGE: &str = "# Page\n\n## X-4. Rearm\n\n### X-4.5 Flush points\n\n- INV-1 [K] never late\n\
        - TIM-2 wide\n| B12 | a bug |\n**Example 5 – late.**\n**C-D.6** bounded\n\
        ## X-16. Conformance checklist\n\nINV-1. Bugs: B12. Example 5.\n";

    fn found(rule: fn(&Tree, &mut Report<'_>), more: &[(&str, &str)]) -> Vec<usize> {
        lines(
            rule,
            &[&[("laboratory/docs/spec/page.md", PAGE)], more].concat(),
        )
    }

    #[test]
    fn a_checklist_is_read_with_its_ranges() {
        let mut family = None;
        let lines = ["Time: TIM-2, 3,", "6..8; B1..B3, R9. Example 1..2."];
        let ids: Vec<String> = lines
            .iter()
            .flat_map(|line| listed(line, &mut family))
            .map(|id| shown(&id))
            .collect();
        assert_eq!(
            ids.join(","),
            "TIM-2,TIM-3,TIM-6,TIM-7,TIM-8,B1,B2,B3,R9,Example 1,Example 2"
        );
    }

    #[test]
    fn a_citation_that_leads_nowhere_and_an_id_of_two_pages_are_found() {
        let style = ("docs/style.md", "# Style\n\n- T2 Late, never early.\n");
        let good = "//! See spec X-4.5, INV-1 and C-D.6, Example 5 and B12, UTF-8, X-ray, STYLE T2.\nfn f() { b13; }\n";
        assert_eq!(found(resolve, &[style, ("src/a.rs", good)]), [0; 0]);
        for bad in [
            "X-4.6",
            "C-D.7",
            "INV-2",
            "B13",
            "Example 6",
            "spec 4.5",
            "Spec 4",
            "STYLE T3",
        ] {
            let text = format!("//! See {bad}.\nfn f() {{ assert!(true, \"{bad}\") }}\n");
            assert_eq!(
                found(resolve, &[style, ("src/a.rs", &text)]),
                [1, 2],
                "{bad}"
            );
        }
        let second = (
            "laboratory/docs/spec/second.md",
            "# Second\n\n| INV-1 | again |\n",
        );
        assert_eq!(found(resolve, &[second]), [3]);
    }

    #[test]
    fn what_no_test_cites_needs_a_reason() {
        let tests = (
            "src/a.rs",
            "fn a() {}\n#[cfg(test)]\nmod tests {\n/// INV-1.\nfn b12_a_bug() {}\n}\n",
        );
        assert_eq!(found(tested, &[tests]), [14]);
        let elsewhere = ("src/a.rs", "/// INV-1, B12, Example 5.\nfn a() {}\n");
        assert_eq!(found(tested, &[elsewhere]).len(), 3);
        let example = (
            "conformance/tests/b.rs",
            "/// Examples 1 and 5.\nfn b() {}\n",
        );
        assert_eq!(found(tested, &[tests, example]), [0; 0]);
        let given = (
            INDEX,
            "# S\n\n## Untested\n\n| Example 5 | no such tree |\n",
        );
        assert_eq!(found(tested, &[tests, given]), [0; 0]);
        assert_eq!(found(tested, &[tests, example, given]), [5]);
        assert_eq!(
            found(
                tested,
                &[tests, (INDEX, "## Untested\n\n| Example 5 | |\n")]
            ),
            [14]
        );
    }
}

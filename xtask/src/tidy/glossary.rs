//! W6: one word has one meaning: no file uses the words that the glossary retired.
//!
//! The list of these words is the table *Retired words* of `docs/spec/GLOSSARY.md`, and nowhere else. Files that still
//! contain retired words stand in a table below it, each with a number that may only shrink.

use std::collections::BTreeMap;

use super::Report;
use super::prose::{tokens, written};
use super::rust::words;
use super::tree::{File, Tree};

const GLOSSARY: &str = "docs/spec/GLOSSARY.md";
const RETIRED: &str = "Retired words";
const NOT_CLEAN: &str = "Not clean yet";
/// The files that quote retired words, or that describe other times.
const EXEMPT: [&str; 3] = ["docs/spec/", "CHANGELOG.md", "xtask/src/tidy/glossary.rs"];

/// A word or phrase that is retired.
#[derive(Debug, PartialEq, Eq)]
struct Retired<'g> {
    words: Vec<&'g str>,
    instead: &'g str,
    is_code: bool,
    /// The beginnings of the paths for which the word is retired; empty for all paths.
    places: Vec<&'g str>,
}

/// A retired word in a file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found<'g> {
    line: usize,
    word: String,
    instead: &'g str,
}

pub(super) fn retired_words(tree: &Tree, report: &mut Report<'_>) {
    let Some(glossary) = tree.files().iter().find(|file| file.path == GLOSSARY) else {
        return;
    };
    let retired = read(glossary, report);
    let mut not_clean = counts(glossary);
    for file in written(tree).filter(|file| !is_exempt(&file.path)) {
        let found = find(file, &retired);
        let (line, allowed) = not_clean.remove(file.path.as_str()).unwrap_or((0, 0));
        if found.len() > allowed {
            for Found {
                line,
                word,
                instead,
            } in &found
            {
                report.error(
                    &file.path,
                    *line,
                    format!("\"{word}\" is retired"),
                    &format!("say {instead}"),
                );
            }
        } else if found.len() < allowed {
            report.error(
                GLOSSARY,
                line,
                format!(
                    "{} has {} retired words, not {allowed}",
                    file.path,
                    found.len()
                ),
                "write the smaller number, or take the row out",
            );
        }
    }
    for (path, (line, _)) in not_clean {
        report.error(
            GLOSSARY,
            line,
            format!("{path} is no file"),
            "take the row out",
        );
    }
}

/// Returns the rows of the table *Not clean yet* for the present tree.
pub(super) fn table(tree: &Tree) -> String {
    let mut findings = Vec::new();
    let mut report = Report {
        rule: "W6",
        findings: &mut findings,
    };
    let glossary = tree.files().iter().find(|file| file.path == GLOSSARY);
    let retired = glossary.map_or_else(Vec::new, |glossary| read(glossary, &mut report));
    let mut rows = String::new();
    for file in written(tree).filter(|file| !is_exempt(&file.path)) {
        let number = find(file, &retired).len();
        if number > 0 {
            rows += &format!("| `{}` | {number} |\n", file.path);
        }
    }
    rows
}

fn is_exempt(path: &str) -> bool {
    EXEMPT.iter().any(|place| path.starts_with(place))
}

/// Returns the rows below the heading `title`, with their lines and cells.
fn rows<'f>(file: &'f File, title: &'f str) -> impl Iterator<Item = (usize, Vec<&'f str>)> {
    let mut inside = false;
    file.lines().filter_map(move |(line, text)| {
        if text.starts_with('#') {
            inside = text.trim_start_matches('#').trim() == title;
        }
        let row = text.strip_prefix("| ")?.strip_suffix('|')?;
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let is_content = cells[0] != "word" && cells[0] != "file" && !cells[0].starts_with("--");
        (inside && is_content).then_some((line, cells))
    })
}

fn read<'g>(glossary: &'g File, report: &mut Report<'_>) -> Vec<Retired<'g>> {
    let mut retired = Vec::new();
    for (line, cells) in rows(glossary, RETIRED) {
        let [word, instead, kind @ ("code" | "text"), places] = cells[..] else {
            report.error(
                GLOSSARY,
                line,
                "a retired word has a word, another, code or text, and places",
                "write four cells",
            );
            continue;
        };
        let places = match places {
            "everywhere" => Vec::new(),
            places => places.split(", ").collect(),
        };
        retired.push(Retired {
            words: word.trim_matches('`').split(' ').collect(),
            instead,
            is_code: kind == "code",
            places,
        });
    }
    retired
}

fn counts(glossary: &File) -> BTreeMap<&str, (usize, usize)> {
    rows(glossary, NOT_CLEAN)
        .filter_map(|(line, cells)| match cells[..] {
            [path, number] => Some((path.trim_matches('`'), (line, number.parse().ok()?))),
            _ => None,
        })
        .collect()
}

impl Retired<'_> {
    fn applies_to(&self, path: &str) -> bool {
        self.places.is_empty() || self.places.iter().any(|place| path.starts_with(place))
    }

    /// Returns true if `prose` begins with the retired word.
    fn begins(&self, prose: &[(usize, &str)]) -> bool {
        let is_same = |(wanted, (_, word)): (&&str, &(usize, &str))| {
            // The name of an item is written as it is; a word may begin a sentence.
            if self.is_code {
                word == wanted
            } else {
                word.eq_ignore_ascii_case(wanted)
            }
        };
        prose.len() >= self.words.len() && self.words.iter().zip(prose).all(is_same)
    }
}

/// Returns the retired words in `file`, by line.
fn find<'g>(file: &File, retired: &'g [Retired<'_>]) -> Vec<Found<'g>> {
    // By the first word, as it is compared.
    let mut in_code: BTreeMap<&str, &Retired<'_>> = BTreeMap::new();
    let mut in_prose: BTreeMap<String, Vec<&Retired<'_>>> = BTreeMap::new();
    for word in retired.iter().filter(|word| word.applies_to(&file.path)) {
        let first = word.words[0];
        if word.is_code {
            in_code.insert(first, word);
        }
        // Names of items in prose are looked for where they can be nothing else.
        if !word.is_code || is_name(first) {
            in_prose.entry(first.to_lowercase()).or_default().push(word);
        }
    }
    let mut found = Vec::new();
    for (line, text) in (1..).zip(file.scan().map_or("", |scan| &scan.code).lines()) {
        for (_, word) in words(text) {
            let whole = in_code.get(word).copied();
            // The name of a test is a sentence.
            let parts = word.split('_').filter(|part| *part != word);
            let in_name = parts.flat_map(|part| in_prose.get(part).into_iter().flatten());
            let in_name = in_name.filter(|retired| !retired.is_code && retired.words.len() == 1);
            found.extend(
                whole
                    .into_iter()
                    .chain(in_name.copied())
                    .map(|retired| Found {
                        line,
                        word: word.into(),
                        instead: retired.instead,
                    }),
            );
        }
    }
    let tokens = tokens(file);
    let prose: Vec<(usize, &str)> = tokens
        .iter()
        .flat_map(|token| {
            let parts = token.text.split(['-', '.']).filter(|part| !part.is_empty());
            parts.map(move |part| (token.line, part))
        })
        .collect();
    for (index, (line, first)) in prose.iter().enumerate() {
        let candidates = in_prose.get(&first.to_lowercase()).into_iter().flatten();
        for retired in candidates.filter(|retired| retired.begins(&prose[index..])) {
            found.push(Found {
                line: *line,
                word: if retired.words.len() > 1 {
                    retired.words.join(" ")
                } else {
                    (*first).to_owned()
                },
                instead: retired.instead,
            });
        }
    }
    found.sort();
    found
}

/// Returns true if a word can only be the name of an item: `CpuBase`, `arm_sleeper`.
fn is_name(word: &str) -> bool {
    word.contains('_') || word.chars().skip(1).any(char::is_uppercase)
}

#[cfg(test)]
mod tests {
    use super::retired_words;
    use crate::tidy::samples::of_tree;

    const GLOSSARY: &str = "# Glossary\n\n## Retired words\n\n| word | say | in | where |\n|---|---|---|---|\n\
        | whoever | the caller | text | everywhere |\n| `Seat` | `ThreadBase` | code | crates |\n\
        | `SeatGuard` | `NodeGuard` | code | crates |\n| filed is not due | lazy requeue | text | docs |\n\n\
        ### Not clean yet\n\n| file | words |\n|---|---|\n";

    fn found(rows: &str, files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let glossary = format!("{GLOSSARY}{rows}");
        let mut all = vec![("docs/spec/GLOSSARY.md", glossary.as_str())];
        all.extend_from_slice(files);
        of_tree(retired_words, &all)
    }

    fn at(path: &str, line: usize) -> (String, usize) {
        (path.to_owned(), line)
    }

    #[test]
    fn retired_words_are_found_where_they_are_retired() {
        let code = "struct Seat;\n/// Whoever comes, the `SeatGuard` of a Seat.\nfn whoever() { s(\"whoever\") }\n";
        assert_eq!(
            found("", &[("crates/a.rs", code)]),
            [
                at("crates/a.rs", 1),
                at("crates/a.rs", 2),
                at("crates/a.rs", 2),
                at("crates/a.rs", 3)
            ]
        );
        assert_eq!(found("", &[("lab/a.rs", "struct Seat;\n")]), []);
        assert_eq!(
            found("", &[("docs/a.md", "Here\nfiled is\nnot due.\n")]),
            [at("docs/a.md", 2)]
        );
        assert_eq!(
            found("", &[("crates/a.rs", "struct Seats; // unseat\n")]),
            []
        );
        assert_eq!(found("", &[("CHANGELOG.md", "whoever\n")]), []);
    }

    #[test]
    fn the_name_of_a_test_is_a_sentence() {
        let code = "fn whoever_comes_waits() {}\nfn f() { whoever() }\n";
        assert_eq!(found("", &[("lab/a.rs", code)]), [at("lab/a.rs", 1)]);
    }

    #[test]
    fn a_number_of_what_is_not_clean_may_only_shrink() {
        let two = ("lab/a.rs", "// whoever\n// whoever\n");
        assert_eq!(found("| `lab/a.rs` | 2 |\n", &[two]), []);
        assert_eq!(found("| `lab/a.rs` | 1 |\n", &[two]).len(), 2);
        let place = at("docs/spec/GLOSSARY.md", 16);
        assert_eq!(
            found("| `lab/a.rs` | 3 |\n", &[two]),
            std::slice::from_ref(&place)
        );
        assert_eq!(found("| `lab/b.rs` | 3 |\n", &[]), [place]);
    }
}

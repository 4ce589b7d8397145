//! Tests that the table in `REGRESSIONS.md` lists every scenario once, and that every case in the table exists.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The number of scenarios in the specification's list of exact timers.
const SCENARIOS: u32 = 66;
/// The number of scenarios in the specification's list of wheels, hierarchy, tick and counters.
const OF_WHEELS_AND_HIERARCHY: u32 = 60;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the columns of each row that begins with an id, for both lists.
fn all_rows() -> Vec<(String, Vec<String>)> {
    let name = |list: &'static str| {
        rows(list)
            .into_iter()
            .map(move |(id, columns)| (format!("{list}{id}"), columns))
    };
    name("B").chain(name("R")).collect()
}

/// Returns the columns of each row that begins with an id of `list`.
fn rows(list: &str) -> Vec<(u32, Vec<String>)> {
    let path = root().join("conformance/REGRESSIONS.md");
    let text = std::fs::read_to_string(path).expect("the table is there");
    text.lines()
        .filter_map(|line| {
            let row = line.strip_prefix("| ")?.strip_prefix(list)?;
            let mut columns = row.split(" | ").map(str::trim);
            let id = columns
                .next()?
                .parse()
                .expect("a number follows the letter");
            Some((id, columns.map(|column| column.to_owned()).collect()))
        })
        .collect()
}

/// Finds the texts between backquotes that have the form of a path and a function.
fn cited(column: &str) -> impl Iterator<Item = (&str, &str)> {
    column
        .split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| code.split_once("::"))
}

#[test]
fn every_scenario_stands_in_the_table_once() {
    let ids = |list| rows(list).into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    assert_eq!(ids("B"), (1..=SCENARIOS).collect::<Vec<_>>());
    // They stand in several tables, by part of the product.
    let mut found = ids("R");
    found.sort_unstable();
    assert_eq!(found, (1..=OF_WHEELS_AND_HIERARCHY).collect::<Vec<_>>());
}

#[test]
fn every_scenario_has_a_case_or_a_reason() {
    for (id, columns) in all_rows() {
        let [story, place] = &columns[..] else {
            panic!("{id} has {} columns", columns.len() + 1)
        };
        let place = place.trim_end_matches(" |");
        assert!(story.len() > 20, "{id} tells what went wrong");
        assert!(
            cited(place).next().is_some() || place.len() > 40,
            "{id} names a case, or says why there is none: {place}"
        );
    }
}

#[test]
fn every_case_that_is_named_exists() {
    let mut sources: BTreeMap<String, String> = BTreeMap::new();
    let mut cases = 0;
    for (id, columns) in all_rows() {
        for (path, function) in cited(columns.last().expect("at least two columns")) {
            let text = sources.entry(path.to_owned()).or_insert_with(|| {
                std::fs::read_to_string(root().join(path))
                    .unwrap_or_else(|error| panic!("{id} names {path}: {error}"))
            });
            let declared = [format!("fn {function}("), format!("fn {function}<")];
            assert!(
                declared
                    .iter()
                    .any(|declaration| text.contains(declaration.as_str())),
                "{id} names {function}, which {path} does not contain"
            );
            cases += 1;
        }
    }
    assert!(cases > 40, "the table names {cases} cases");
}

/// Checks the converse: every case of this directory is in a row of the table, because a case that no row names would
/// be forgotten.
#[test]
fn every_case_beside_is_in_the_table() {
    let table = std::fs::read_to_string(root().join("conformance/REGRESSIONS.md"))
        .expect("the table is there");
    let tests = root().join("conformance/tests/regressions");
    for file in std::fs::read_dir(tests).expect("it is this directory") {
        let path = file.expect("it can be listed").path();
        let text = std::fs::read_to_string(&path).expect("a source");
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("ASCII");
        let functions = text.lines().filter_map(|line| {
            let function = line.strip_prefix("fn ")?;
            let number = function.strip_prefix(['b', 'r'])?;
            number
                .starts_with(|digit: char| digit.is_ascii_digit())
                .then_some(function)
        });
        for function in functions {
            let function = function.split(['<', '(']).next().expect("a name");
            let place = format!("`conformance/tests/regressions/{name}::{function}`");
            assert!(table.contains(&place), "the table does not name {place}");
        }
    }
}

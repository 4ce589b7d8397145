//! The table in `README.md` lists every scenario once, and every case that it names exists.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Scenarios of the specification's list.
const SCENARIOS: u32 = 66;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The columns of each row that begins with an id.
fn rows() -> Vec<(u32, Vec<String>)> {
    let path = root().join("tests/regressions/README.md");
    let text = std::fs::read_to_string(path).expect("the table is there");
    text.lines()
        .filter_map(|line| {
            let mut columns = line.strip_prefix("| B")?.split(" | ").map(str::trim);
            let id = columns.next()?.parse().expect("a number follows the B");
            Some((id, columns.map(|column| column.to_owned()).collect()))
        })
        .collect()
}

/// What stands between backquotes and has the form of a path and a function.
fn cited(column: &str) -> impl Iterator<Item = (&str, &str)> {
    column
        .split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| code.split_once("::"))
}

#[test]
fn every_scenario_stands_in_the_table_once() {
    let ids: Vec<u32> = rows().into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, (1..=SCENARIOS).collect::<Vec<_>>());
}

#[test]
fn every_scenario_has_a_case_or_a_reason() {
    for (id, columns) in rows() {
        let [story, place] = &columns[..] else {
            panic!("B{id} has {} columns", columns.len() + 1)
        };
        let place = place.trim_end_matches(" |");
        assert!(story.len() > 20, "B{id} tells what went wrong");
        assert!(
            cited(place).next().is_some() || place.len() > 40,
            "B{id} names a case, or says why there is none: {place}"
        );
    }
}

#[test]
fn every_case_that_is_named_exists() {
    let mut sources: BTreeMap<String, String> = BTreeMap::new();
    let mut cases = 0;
    for (id, columns) in rows() {
        for (path, function) in cited(columns.last().expect("at least two columns")) {
            let text = sources.entry(path.to_owned()).or_insert_with(|| {
                std::fs::read_to_string(root().join(path))
                    .unwrap_or_else(|error| panic!("B{id} names {path}: {error}"))
            });
            let declared = [format!("fn {function}("), format!("fn {function}<")];
            assert!(
                declared
                    .iter()
                    .any(|declaration| text.contains(declaration.as_str())),
                "B{id} names {function}, which {path} does not contain"
            );
            cases += 1;
        }
    }
    assert!(cases > 40, "the table names {cases} cases");
}

/// The other way round: a case of this package that no row names would be forgotten.
#[test]
fn every_case_of_this_package_is_in_the_table() {
    let table = std::fs::read_to_string(root().join("tests/regressions/README.md"))
        .expect("the table is there");
    let tests = root().join("tests/regressions/tests");
    for file in std::fs::read_dir(tests).expect("it is this directory") {
        let path = file.expect("it can be listed").path();
        let text = std::fs::read_to_string(&path).expect("a source");
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("ASCII");
        let functions = text.lines().filter_map(|line| line.strip_prefix("fn b"));
        for function in functions {
            let function = function.split(['<', '(']).next().expect("a name");
            let place = format!("`tests/regressions/tests/{name}::b{function}`");
            assert!(table.contains(&place), "the table does not name {place}");
        }
    }
}

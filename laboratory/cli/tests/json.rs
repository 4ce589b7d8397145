//! Tests of laboratory/docs/json.md against the output of the commands.

mod support;

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use support::{Place, end, text};

/// A field that laboratory/docs/json.md describes.
#[derive(Debug)]
struct Field {
    pattern: String,
    is_always: bool,
}

/// Returns the fields in the page's section about a command.
fn fields(page: &str, command: &str) -> Vec<Field> {
    let heading = format!("\n## tickless {command}\n");
    let (_, section) = page.split_once(&heading).expect(command);
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let fields = rows.flat_map(|row| {
        let cell = row.split('|').nth(1).unwrap_or_default();
        let is_always = !cell.contains('†');
        let names = cell.split('`').skip(1).step_by(2);
        names.map(move |name| Field {
            pattern: name.to_owned(),
            is_always,
        })
    });
    fields.collect()
}

/// Returns true if `path` matches `pattern`, in which each `*` is any text.
fn matches(pattern: &str, path: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Collects the paths of all values in a document.
fn paths(value: &Value, path: String, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let is_number = name.parse::<f64>().is_ok();
                let name = if is_number { "N" } else { name };
                let dot = if path.is_empty() { "" } else { "." };
                paths(value, format!("{path}{dot}{name}"), into);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for value in list {
                paths(value, format!("{path}[]"), into);
            }
        }
        Value::Array(_) => {
            into.insert(format!("{path}[]"));
        }
        _ => {
            into.insert(path);
        }
    }
}

#[test]
fn every_field_is_described_and_every_description_has_its_field() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/json.md");
    let page = fs::read_to_string(page).expect("the page");
    let place = Place::new();
    let traced = place.run(&["sim", "run", "start-cost", "--trace", "t.gz", "-q"]);
    assert_eq!(end(&traced), (Some(0), String::new()));
    for (command, options) in [
        ("latency", "-l 20 -i 300 -h 1000 --against timerfd"),
        ("sim run", "start-cost"),
        ("sim fuzz", "--seeds 2"),
        ("sim headline", "start-cost"),
        ("topology", ""),
        ("timers", ""),
        ("bench", "--pending 0,20 --rounds 1 --repeats 100"),
        ("verify", "t.gz"),
        ("demo", "-D 3s --connections 100 --rate 1000 --no-report"),
    ] {
        let line = format!("{command} {options} --json -");
        let output = place.run(&line.split_whitespace().collect::<Vec<_>>());
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{line}: {}",
            text(&output.stderr)
        );
        let written = text(&output.stdout);
        let mut found = BTreeSet::new();
        for document in serde_json::Deserializer::from_str(&written).into_iter() {
            let document: Value = document.expect("this is JSON");
            paths(&document, String::new(), &mut found);
        }
        let fields = fields(&page, command);
        for path in &found {
            // A list of lists may be empty, as that of what was late is in a run in which nothing was.
            let deeper = format!("{path}[]");
            let is_known = fields.iter().any(|field| {
                let is_empty = path.ends_with("[]") && matches(&field.pattern, &deeper);
                is_empty || matches(&field.pattern, path)
            });
            assert!(
                is_known,
                "{command} writes {path}, which the page does not have"
            );
        }
        for field in fields.iter().filter(|field| field.is_always) {
            let is_there = found.iter().any(|path| matches(&field.pattern, path));
            let pattern = &field.pattern;
            assert!(
                is_there,
                "the page has {pattern}, which {command} does not write"
            );
        }
    }
}

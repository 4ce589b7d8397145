//! Tests of laboratory/docs/json.md against the output of the commands.

mod support;

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use support::{Place, end, text};

/// Returns the fields that every document of a command has, by the page's section about the command.
fn fields(page: &str, command: &str) -> Vec<String> {
    let heading = format!("\n## tickless {command}\n");
    let (_, section) = page.split_once(&heading).expect(command);
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.split("\n- `").skip(1);
    let lists = rows.filter_map(|row| row.split(": ").next());
    let fields = lists.flat_map(|list| list.split(','));
    let always = fields.filter(|field| !field.contains('†'));
    always
        .map(|field| field.trim_matches([' ', '`', '\n']).to_owned())
        .collect()
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
fn every_field_of_the_page_is_written() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/json.md");
    let page = fs::read_to_string(page).expect("the page");
    let place = Place::new();
    let traced = place.run(&["sim", "run", "start-cost", "--trace", "t.gz", "-q"]);
    assert_eq!(end(&traced), (Some(0), String::new()));
    let linux = " nap-9 [000] d.h1. 1.0: local_timer_entry: vector=236\n nap-9 [000] d.h1. 1.0: hrtimer_expire_entry: \
                 hrtimer=0a function=hrtimer_wakeup now=1000000000\n";
    fs::write(place.path("linux.txt"), linux).expect("it can be written");
    for (command, options) in [
        ("latency", "-l 20 -i 300 -h 1000 --against timerfd"),
        ("sim run", "start-cost"),
        ("sim fuzz", "--seeds 2"),
        ("sim headline", "start-cost"),
        ("topology", ""),
        ("timers", ""),
        ("bench", "--pending 0,20 --rounds 1 --repeats 100"),
        ("verify", "t.gz"),
        ("top", "--trace linux.txt"),
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
        for pattern in fields(&page, command) {
            let is_there = found.iter().any(|path| matches(&pattern, path));
            assert!(
                is_there,
                "the page has {pattern}, which {command} does not write"
            );
        }
    }
}

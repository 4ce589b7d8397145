//! Tests of `tickless clock`: the sources of this machine, as a report, as data, and second by second.

mod support;

use std::io::{BufRead, Read};

use serde_json::Value;
use support::{Place, assert_has, end, interrupt, json, json_file, started};

fn sources(document: &Value) -> &Vec<Value> {
    document["sources"].as_array().expect("a list")
}

fn source<'d>(document: &'d Value, name: &str) -> &'d Value {
    let found = sources(document)
        .iter()
        .find(|source| source["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {document}"))
}

/// Returns true for the exit codes of a whole run: a machine with a bad counter correctly ends with 1.
fn is_an_end(code: Option<i32>) -> bool {
    matches!(code, Some(0 | 1))
}

#[test]
fn the_report_begins_with_what_a_read_costs() {
    let place = Place::new();
    let (code, out, error) = place.says(&["clock"], "--seconds 100ms --json result.json");
    assert!(is_an_end(code), "{error}");
    assert_eq!(error, "");
    let mut lines = out
        .lines()
        .skip_while(|line| *line != "What does a read cost here?");
    let _heading = lines.next();
    let head = lines.next().expect("a head");
    for word in [
        "source", "verdict", "alone", "all CPUs", "step", "drift", "skew",
    ] {
        assert!(head.contains(word), "{out}");
    }
    let rows: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    let document = json_file(&place.path("result.json"));
    assert_eq!(rows.len(), sources(&document).len());
    let costs = rows.iter().map(|row| {
        let name = row.split("  ").next().expect("a name").trim();
        source(&document, name)["cost_ns"]["alone"]
            .as_f64()
            .expect(name)
    });
    assert!(costs.is_sorted(), "from the cheapest to the dearest: {out}");
    assert!(out.contains("The kernel keeps its time by "), "{out}");
    assert!(out.contains("the time-stamp counter"), "{out}");
}

#[test]
fn the_data_have_every_source_and_nothing_else_is_printed() {
    let place = Place::new();
    let (code, out, error) = place.says(&["clock"], "--seconds 100ms --json -");
    assert!(is_an_end(code), "{error}");
    let document = json(out.as_bytes());
    assert_has(
        &document,
        "command version machine kernel cpus tsc sources wall_clocks",
    );
    assert!(document["watch"].is_null());
    for name in [
        "tickless",
        "std",
        "monotonic",
        "realtime",
        "boottime",
        "tai",
        "process_cputime",
    ] {
        let source = source(&document, name);
        assert_has(source, "how is_ordered verdict skews");
        assert!(source["cost_ns"]["alone"].as_f64() > Some(0.0), "{source}");
        assert!(
            source["cost_ns"]["contended"].as_f64() > Some(0.0),
            "{source}"
        );
    }
    let monotonic = source(&document, "monotonic");
    assert_eq!(monotonic["step_ns"], 1.0);
    // It is compared with itself: what is not nothing is within what the report says.
    let drift = |of: &str| monotonic["drift"][of].as_f64().expect("a figure");
    assert!(
        drift("ppm").abs() <= drift("within_ppm") + 0.001,
        "{monotonic}"
    );
    assert_ne!(monotonic["verdict"], "bad");
    assert_eq!(source(&document, "thread_cputime")["verdict"], "not judged");
    // Steps as long as a tick hide what lies between two CPUs.
    assert_eq!(
        source(&document, "monotonic_coarse")["skews"],
        Value::Array(Vec::new())
    );
    let failed = sources(&document)
        .iter()
        .any(|source| source["verdict"] == "bad");
    assert_eq!(code, Some(i32::from(failed)));
}

#[test]
fn one_cpu_has_none_to_be_compared_with() {
    let place = Place::new();
    let (code, out, error) = place.says(&["clock"], "--seconds 50ms --cpus 0 --json -");
    assert!(is_an_end(code), "{error}");
    let document = json(out.as_bytes());
    assert_eq!(document["cpus"], "0");
    let skews = sources(&document)
        .iter()
        .map(|source| source["skews"].as_array());
    assert!(
        skews
            .into_iter()
            .all(|skews| skews.is_some_and(Vec::is_empty))
    );
}

#[test]
fn watching_has_a_line_a_second_and_ends_by_itself() {
    let place = Place::new();
    let (code, out, error) = place.says(&["clock"], "--watch --seconds 1500ms --json result.json");
    assert!(is_an_end(code), "{error}");
    let lines: Vec<_> = out
        .lines()
        .filter(|line| line.contains("tickless - kernel"))
        .collect();
    // The second one is left out if the first comes half a second late.
    assert!(matches!(lines.len(), 1 | 2), "{out}");
    let seconds = lines[0].split_whitespace().next();
    let seconds = seconds.and_then(|seconds| seconds.parse::<f64>().ok());
    assert!(seconds >= Some(1.0) && lines[0].contains(" ppm"), "{out}");
    let document = json_file(&place.path("result.json"));
    let samples = document["watch"]["samples"].as_array().expect("a list");
    assert_eq!(samples.len(), lines.len());
    assert_has(&samples[0], "seconds drift offset_ns within_ns verdict");
}

#[test]
fn ctrl_c_ends_it_with_a_whole_report_whenever_it_comes() {
    let place = Place::new();
    let line = ["clock", "--watch", "--json", "result.json"];
    let (child, mut out, _) = started(&mut place.command(&line));
    let mut last = String::new();
    while !last.contains("tickless - kernel") {
        last.clear();
        assert_ne!(
            out.read_line(&mut last).expect("text"),
            0,
            "it ended before"
        );
    }
    interrupt(&child);
    let mut rest = String::new();
    out.read_to_string(&mut rest)
        .expect("it goes on to its end");
    let (code, error) = end(&child.wait_with_output().expect("it ends"));
    assert!(is_an_end(code), "{error}");
    let document = json_file(&place.path("result.json"));
    assert!(
        !document["watch"]["samples"]
            .as_array()
            .expect("a list")
            .is_empty()
    );

    // In the middle of the measurement: what was not measured is not there.
    let mut command = place.command(&["clock", "--seconds", "1h", "--json", "early.json"]);
    let mut child = command
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    std::thread::sleep(std::time::Duration::from_millis(300));
    interrupt(&child);
    let status = child.wait().expect("it ends");
    if place.files().contains(&"early.json".to_owned()) {
        assert!(is_an_end(status.code()));
        assert_has(&json_file(&place.path("early.json")), "sources machine");
    }
}

#[test]
fn a_reader_who_left_is_no_error() {
    let place = Place::new();
    place.unread(&["clock", "--seconds", "50ms", "--json", "result.json"]);
    assert!(!sources(&json_file(&place.path("result.json"))).is_empty());
}

#[test]
fn nonsense_is_refused_with_what_would_be_right() {
    let place = Place::new();
    place.refuses(
        &["clock"],
        &[
            (&["--seconds", "ten"], "ns, us, ms, s, m, h and d are"),
            (&["--seconds", "0"], "longer than zero"),
            (&["--seconds", "-1"], "is negative"),
            (&["--cpus", "3-1"], "did you mean \"1-3\"?"),
            (&["--cpus", "60000"], "not one of this machine"),
            (&["--cpus", ""], "names no CPU"),
            (&["--watch", "5"], "unexpected argument"),
            (&["tsc"], "unexpected argument"),
            (&["--json", "/nowhere/x"], "there is no directory /nowhere"),
        ],
    );
}

//! Tests of `tickless bench`: the operations of every subject, as a report and as data. No test judges a figure.

mod support;

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use support::{Place, assert_has, end, interrupt, json, json_file};

/// Options for the smallest measurement.
const LITTLE: &str = "--pending 0,20 --rounds 2 --repeats 100 --seed 3";

/// The subjects that are in every build.
const ALWAYS: [&str; 10] = [
    "Sleep on a Worker",
    "Sleep on a plain thread",
    "coarse::Sleep on a Worker",
    "WheelTimer on a Worker",
    "HrTimer on a Worker",
    "tokio, multi-thread",
    "tokio-util DelayQueue",
    "async-io Timer",
    "BTreeMap<(Instant, id)>",
    "binary heap, lazy extension",
];

fn rows(document: &Value) -> &Vec<Value> {
    document["rows"].as_array().expect("a list")
}

fn subjects<'d>(document: &'d Value, op: &str, pending: u64) -> BTreeSet<&'d str> {
    { rows(document).iter() }
        .filter(|row| row["op"] == op && row["pending"] == pending)
        .map(|row| row["subject"].as_str().expect("a name"))
        .collect()
}

#[test]
fn every_operation_has_a_row_for_every_subject_that_can() {
    let place = Place::new();
    let line = format!("{LITTLE} --json result.json");
    let (code, out, error) = place.says(&["bench"], &line);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{out}");
    let document = json_file(&place.path("result.json"));
    assert_has(
        &document,
        "command version machine rounds repeats seed is_complete rows missing faults notes closing",
    );
    assert_eq!(document["is_complete"], true);
    assert_eq!(document["faults"].as_array().map(Vec::len), Some(0));
    check_figures(&document);
    check_subjects(&document, &out);
    let closing = document["closing"].as_array().expect("a list");
    let first = closing[0].as_str().expect("a sentence");
    assert!(first.starts_with("Tickless is first in "), "{first}");
    for sentence in closing {
        assert!(out.contains(sentence.as_str().expect("a sentence")));
    }
}

/// Checks that each row has one figure, and that the figure's spread is in order.
fn check_figures(document: &Value) {
    for row in rows(document) {
        let figure = if row["op"] == "memory" { "bytes" } else { "ns" };
        let at = |name: &str| row[figure][name].as_f64().expect("a figure");
        assert!(
            at("min") <= at("median") && at("median") <= at("max"),
            "{row}"
        );
        assert!(at("min") >= 0.0, "{row}");
    }
}

/// Checks that each subject has a row for each operation that it supports.
fn check_subjects(document: &Value, out: &str) {
    for (op, pending) in [
        ("arm-cancel", 0),
        ("arm-cancel", 20),
        ("push-small", 20),
        ("push-small-clock", 20),
        ("push-random", 20),
        ("push-idle", 20),
        ("churn", 20),
        ("expire", 20),
        ("two-threads", 1_000),
        ("two-threads-push", 1_000),
        ("two-threads-churn", 1_000),
    ] {
        let measured = subjects(document, op, pending);
        for name in ALWAYS {
            assert!(
                measured.contains(name),
                "{op} of {name} is missing: {measured:?}"
            );
            assert!(out.contains(name), "{name} is not in the report");
        }
        let has_limit = measured.iter().any(|name| name.starts_with("limit: "));
        assert_eq!(has_limit, op != "expire", "limits do not fire: {op}");
    }
    assert!(
        subjects(document, "push-small", 0).is_empty(),
        "there is nothing to push"
    );
    let measured = subjects(document, "drop-unpolled", 0);
    for name in ["Sleep on a Worker", "tokio, multi-thread", "async-io Timer"] {
        assert!(measured.contains(name), "{name} is missing: {measured:?}");
    }
    for op in ["two-threads", "two-threads-push", "two-threads-churn"] {
        let threads: BTreeSet<_> = { rows(document).iter() }
            .filter(|row| row["op"] == op)
            .map(|row| row["threads"].as_u64())
            .collect();
        assert_eq!(threads, [Some(1), Some(2)].into(), "{op}");
    }
}

#[test]
fn a_peer_that_is_not_there_is_named_with_what_brings_it() {
    let place = Place::new();
    let line = "--only memory --pending 1 --rounds 1 --repeats 100";
    let (code, out, _) = place.says(&["bench"], line);
    assert_eq!(code, Some(0), "{out}");
    let (_, data, _) = place.says(&["bench"], &format!("{line} --json -"));
    let document = json(data.as_bytes());
    let measured = subjects(&document, "memory", 1);
    let missing = document["missing"].as_array().expect("a list");
    for name in [
        "tokio, alternative timer",
        "libevent",
        "libev",
        "libuv",
        "Boost.Asio",
        "DPDK rte_timer",
    ] {
        let missing = missing.iter().find(|missing| missing["subject"] == name);
        assert!(
            missing.is_some() != measured.contains(name),
            "{name} is measured, or missing"
        );
        if let Some(missing) = missing {
            let why = missing["why"].as_str().expect("a sentence");
            assert!(why.contains("build with "), "{why}");
            assert!(out.contains(&format!("{name}: {why}")), "{out}");
        }
    }
}

#[test]
fn only_what_was_asked_for_is_measured() {
    let place = Place::new();
    let line = format!("{LITTLE} --only churn,two-threads --json -");
    let (code, out, error) = place.says(&["bench"], &line);
    assert_eq!(code, Some(0), "{error}");
    let document = json(out.as_bytes());
    let ops: BTreeSet<_> = rows(&document)
        .iter()
        .map(|row| row["op"].as_str())
        .collect();
    assert_eq!(ops, [Some("churn"), Some("two-threads")].into());
}

#[test]
fn only_subjects_that_were_asked_for_are_measured() {
    let place = Place::new();
    let line = "--subjects Wheel,each --only churn --pending 20 --rounds 1 --repeats 100 --json -";
    let (code, out, error) = place.says(&["bench"], line);
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(
        subjects(&json(out.as_bytes()), "churn", 20),
        ["WheelTimer on a Worker", "limit: a list for each bucket"].into()
    );
}

#[test]
fn nonsense_is_refused_with_what_would_be_right() {
    let place = Place::new();
    place.refuses(
        &["bench"],
        &[
            (
                &["--only", "juggle"],
                "there are: arm-cancel, push-small, push-small-clock",
            ),
            (&["--only", ""], "there is no such operation"),
            (
                &["--subjects", ","],
                "a value is required for '--subjects <TEXT>'",
            ),
            (
                &["--pending", "many"],
                "write whole numbers, such as 0,1000,1000000",
            ),
            (&["--pending", "-1"], "'-1'"),
            (
                &["--pending", "99999999999"],
                "at most 1,000,000,000 can be pending",
            ),
            (
                &["--subjects", "juggler"],
                "no name contains \"juggler\"; there are: Sleep on a Worker",
            ),
            (&["--rounds", "0"], "1..=1001"),
            (&["--repeats", "7"], "100..=100000000"),
            (&["--seed", "x"], "invalid digit"),
            (&["--json", "."], "it is a directory"),
        ],
    );
}

#[test]
fn more_timers_than_memory_has_room_for_are_refused_before_they_are_made() {
    let place = Place::new();
    let meminfo = fs::read_to_string("/proc/meminfo").expect("the system says");
    let total = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let total = total.and_then(|rest| rest.split_whitespace().next());
    let kibibytes: u64 = total.and_then(|text| text.parse().ok()).expect("a number");
    // At 400 bytes for each, more than all of it.
    let most = kibibytes * 1024 / 400 + 1;
    // More cannot be asked for: a machine with half a terabyte refuses nothing.
    let most = most.min(1_000_000_000);
    if most * 400 < kibibytes * 1024 {
        return;
    }
    let output = place.run(&[
        "bench",
        "--pending",
        &most.to_string(),
        "--json",
        "out.json",
    ]);
    let (code, error) = end(&output);
    assert_eq!(code, Some(3), "{error}");
    assert!(error.contains("pending timers may take"), "{error}");
    assert!(output.stdout.is_empty() && place.files().is_empty());
}

#[test]
fn a_run_that_is_ended_leaves_what_it_measured() {
    let place = Place::new();
    let line = "bench --only arm-cancel --pending 0 --rounds 1001 --repeats 100000 --json out.json";
    let mut command = place.command(&line.split(' ').collect::<Vec<_>>());
    // The first line is printed when the signal is caught already.
    let (child, mut out, machine) = support::started(&mut command);
    assert!(machine.contains(", Linux "), "{machine}");
    interrupt(&child);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).expect("the pipe can be read");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(end(&output), (Some(0), String::new()));
    assert!(rest.contains("The run was ended early"), "{rest}");
    let document = json_file(&place.path("out.json"));
    assert_eq!(document["is_complete"], false);
}

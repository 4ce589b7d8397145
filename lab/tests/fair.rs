//! Tests of `tickless fair`: shares and wake-ups of tasks on several runtimes, as a table, as data, and as a page.

mod support;

use std::io::Read;
use std::process::Stdio;

use serde_json::Value;
use support::{
    Place, assert_has, end, interrupt, json, json_file, started, until_signals_are_caught,
};

/// Options for the smallest run with every part: all kinds of tasks on one worker, which every runtime supports.
const SMALL: &str =
    "--hogs 2 --weights 3,1 --servers 1 --rate 200 --periodic 1 --period 2ms -w 1 --quick";

/// Returns true for the exit codes of a whole run. Checks may fail on a machine that gives the command too little time.
fn is_an_end(code: Option<i32>) -> bool {
    matches!(code, Some(0 | 1))
}

fn held(document: &Value) -> Option<i32> {
    document["holds"].as_bool().map(|holds| i32::from(!holds))
}

fn subjects(document: &Value) -> &Vec<Value> {
    document["subjects"].as_array().expect("a list")
}

fn subject<'d>(document: &'d Value, name: &str) -> &'d Value {
    let found = subjects(document)
        .iter()
        .find(|subject| subject["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {document}"))
}

#[test]
fn every_runtime_that_runs_here_has_its_rows_and_the_others_their_reason() {
    let place = Place::new();
    let (code, out, error) = place.says(&["fair"], &format!("{SMALL} --json result.json"));
    assert_eq!(error, "", "{out}");
    let document = json_file(&place.path("result.json"));
    assert_eq!(code, held(&document), "{out}");
    let missing = document["missing"].as_array().expect("a list");
    for name in [
        "tickless",
        "tickless-signal",
        "tickless-off",
        "tokio",
        "tokio-yield",
        "smol",
        "glommio",
        "clockworker",
    ] {
        let has_run = subjects(&document)
            .iter()
            .any(|subject| subject["name"] == name);
        let reason = missing.iter().find(|missing| missing["subject"] == name);
        assert_ne!(has_run, reason.is_some(), "{name}: {document}");
        if let Some(why) = reason.and_then(|missing| missing["why"].as_str()) {
            assert!(
                out.contains(&format!("missing: {name}, because {why}")),
                "{out}"
            );
        }
    }
    for heading in [
        "Shares of tasks",
        "How late periodic",
        "How late servers",
        "Processor time",
    ] {
        assert!(out.contains(heading), "{heading} is missing in {out}");
    }
    for checkpoint in [
        "tokio::task::consume_budget",
        "smol::future::yield_now",
        "clockworker::yield_maybe",
    ] {
        assert!(out.contains(checkpoint), "{checkpoint} is missing in {out}");
    }
    assert!(out.contains("A difference counts if each round"), "{out}");
    let mark = "mark: tickless: p99.9 of periodic wake-ups at most 0.05 of that of tokio: not measured: the \
                tasks of the mix periodic were changed";
    assert!(out.lines().any(|line| line == mark), "{out}");
}

#[test]
fn a_mix_that_is_ready_made_is_judged() {
    let place = Place::new();
    let line = "--mix ten -w 1 --quick --runtimes tickless,tokio --json -";
    let (code, out, error) = place.says(&["fair"], line);
    assert_eq!(error, "", "{out}");
    let document = json(out.as_bytes());
    // A mark that is missed changes nothing.
    assert_eq!(code, held(&document), "{out}");
    let [mark] = &document["marks"].as_array().expect("a list")[..] else {
        panic!("one is asked for: {document}");
    };
    let error = mark["figure"]["median"].as_f64().expect("it ran");
    let expected = if error <= 0.02 { "holds" } else { "missed" };
    assert_eq!(
        (&mark["verdict"], &mark["why"]),
        (&expected.into(), &Value::Null)
    );
}

#[test]
fn the_data_have_each_share_and_nothing_else_is_printed() {
    let place = Place::new();
    let line = format!("{SMALL} --runtimes clockworker,smol --rounds 2 --seed 5 --json -");
    let (code, out, error) = place.says(&["fair"], &line);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{out}");
    let document = json(out.as_bytes());
    assert_has(
        &document,
        "command version date machine settings took_s holds conclusions",
    );
    assert_eq!(
        document["settings"]["mix"]["hog_weights"],
        serde_json::json!([3, 1])
    );
    assert_eq!(document["settings"]["seed"], 5);
    assert_eq!(subjects(&document).len(), 2);
    for subject in subjects(&document) {
        assert_has(
            subject,
            "checkpoint share_error lag_ns servers periodic processors work_share",
        );
        let rounds = subject["rounds"].as_array().expect("a list");
        assert_eq!(rounds.len(), 2);
        for round in rounds {
            let shares = round["shares"].as_array().expect("a list");
            let sum = |of: &str| {
                shares
                    .iter()
                    .filter_map(|share| share[of].as_f64())
                    .sum::<f64>()
            };
            assert!((sum("entitled") - 1.0).abs() < 1e-9, "{round}");
            assert!(sum("got") < 1.0 + 1e-9, "{round}");
            assert_eq!(shares[0]["entitled"], 0.75);
        }
        assert_eq!(subject["early"], 0, "{subject}");
    }
    // Each tick of both rounds, however late.
    assert_eq!(subject(&document, "smol")["periodic"]["count"], 100);
    assert_eq!(subject(&document, "clockworker")["has_weights"], true);
}

#[test]
fn what_a_runtime_cannot_do_is_said_and_the_others_go_on() {
    let place = Place::new();
    let line = "--hogs 3 --periodic 0 -w 2 --quick --runtimes clockworker,smol";
    let (code, out, error) = place.says(&["fair"], line);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(
        out.contains("missing: clockworker, because it has one worker, and this mix has 2"),
        "{out}"
    );
    assert!(out.contains("smol::future::yield_now"), "{out}");
    // With nothing left there is nothing to show.
    let (code, out, error) =
        place.says(&["fair"], "--hogs 300 -w 1 --quick --runtimes clockworker");
    assert_eq!(code, Some(3));
    assert!(
        error.contains("no runtime runs here: missing: clockworker, because it has 256 queues"),
        "{error}"
    );
    assert!(out.contains("missing: clockworker"), "{out}");
}

#[test]
fn the_page_has_bars_curves_and_sentences() {
    let place = Place::new();
    let line = format!("{SMALL} -q --runtimes tickless,tokio,smol,clockworker --html out.html");
    let (code, out, error) = place.says(&["fair"], &line);
    assert!(is_an_end(code));
    assert_eq!((out.as_str(), error.as_str()), ("", ""));
    let page = std::fs::read_to_string(place.path("out.html")).expect("the page");
    for part in [
        "Who gets how much",
        "1, weight 3",
        "of what they are entitled to",
        "How late periodic tasks woke",
        "How late servers took up requests",
        "<summary>The figures</summary>",
        "clockworker::yield_maybe",
        "A difference counts",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
}

#[test]
fn ctrl_c_ends_it_with_what_there_is() {
    let place = Place::new();
    let line = "fair --hogs 2 --periodic 1 --period 2ms -w 1 --runtimes smol,tokio -D 1h --rounds 9 --json out.json";
    let mut command = place.command(&line.split(' ').collect::<Vec<_>>());
    let child = support::running(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    until_signals_are_caught(&child);
    // Beyond the time in which it settles, which is all that it can be ended in without a figure.
    std::thread::sleep(std::time::Duration::from_secs(1));
    interrupt(&child);
    let output = child.wait_with_output().expect("it ends");
    let (code, error) = end(&output);
    assert!(matches!(code, Some(0 | 3)), "{code:?} {error}");
    assert_eq!(json_file(&place.path("out.json"))["interrupted"], true);
}

#[test]
fn a_reader_who_left_is_no_error() {
    let place = Place::new();
    place.unread(&[
        "fair",
        "--hogs",
        "1",
        "--periodic",
        "0",
        "--quick",
        "--runtimes",
        "smol",
    ]);
    let (mut child, mut out, first) =
        started(&mut place.command(&["fair", "--quick", "--runtimes", "smol"]));
    assert!(
        first.starts_with("tickless fair periodic: 8 tasks that compute"),
        "{first}"
    );
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn nonsense_is_refused_with_what_would_be_right() {
    let place = Place::new();
    place.refuses(
        &["fair"],
        &[
            (&["--mix", "best"], "possible values: periodic"),
            (&["--hogs", "0", "--periodic", "0"], "there is no task"),
            (&["--hogs", "-1"], "-1 is not in 0..=100000"),
            (&["-D", "-5"], "is negative"),
            (&["--weights", "0"], "0 is not in 1..=1000"),
            (&["--weights", "1,1001"], "1001 is not in"),
            (&["--weights", "1,,2"], "cannot parse integer"),
            (&["--chunk", "10"], "has no unit"),
            (&["--chunk", "2s"], "1s is the longest chunk"),
            (&["--chunk", "100ns"], "1us is the shortest chunk"),
            (&["--slice", "1ns"], "10us is the shortest slice"),
            (&["--period", "1us"], "10us is the shortest period"),
            (&["--period", "1s", "--quick"], "no tick would come"),
            (&["-w", "0"], "0 is not in 1..=256"),
            (&["-w", "1", "--cost", "1s"], "leaves nothing to share"),
            (&["-D", "0"], "longer than zero"),
            (&["--rounds", "0"], "0 is not in"),
            (&["--runtimes", "goroutines"], "possible values: "),
            (&["--runtimes", "smol,smol"], "names smol twice"),
            (&["--report", "-"], "would mix the page with the table"),
            (&["--json", "/nowhere/x"], "there is no directory /nowhere"),
            (&["now"], "unexpected argument"),
        ],
    );
}

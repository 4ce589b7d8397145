//! Tests of `tickless demo`: short runs, and everything that can go wrong around them.
//!
//! No test asserts how late a timer was: the machine causes lateness as much as the library does.

mod support;

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use support::{
    Place, end, interrupt, json, json_file, running, terminate, text, until_signals_are_caught,
};

/// Returns options for the smallest load that still exercises everything, for this number of seconds.
fn load<'a>(seconds: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let load = [
        "demo",
        "--connections",
        "10",
        "--rate",
        "1000",
        "-D",
        seconds,
    ];
    load.iter().chain(more).copied().collect()
}

/// Returns options for the shortest run of that load.
fn tiny<'a>(more: &[&'a str]) -> Vec<&'a str> {
    load("1", more)
}

/// Checks that a page is whole: it has a curve for each kind of timer, and loads nothing from elsewhere.
fn assert_whole_page(page: &str) {
    assert!(page.starts_with("<!DOCTYPE html>"));
    assert!(page.trim_end().ends_with("</html>"));
    for foreign in ["<script", "<link", "src=", "@import", "url("] {
        assert!(!page.contains(foreign), "the page needs {foreign}");
    }
}

#[test]
fn a_tiny_run_is_whole() {
    let place = Place::new();
    let closed = |arm: &Value| arm["silent_clients"]["closed"].as_u64();
    let has_served = |arm: &Value| {
        let patient = arm["patient_clients"]["closed"].as_u64();
        let names = ["requests_per_second", "push_ns", "paced_count"];
        let figures = names.map(|name| arm["figures"][name].as_f64());
        figures.iter().all(|figure| *figure > Some(0.0)) && patient > Some(0)
    };
    // A second is too short on a machine that is late by tenths of one.
    let mut seconds = 1;
    let result = loop {
        let duration = seconds.to_string();
        let output = place.run(&load(&duration, &["--json", "-"]));
        assert_eq!(end(&output), (Some(0), String::new()));
        let result = json(&output.stdout);
        let arms = result["arms"].as_array().expect("a list");
        if arms.iter().all(has_served) && arms.iter().any(|arm| closed(arm) > Some(0)) {
            break result;
        }
        seconds *= 2;
        assert!(seconds < 100, "{result}");
    };
    assert_eq!(result["holds"], true);
    assert_eq!(result["interrupted"], false);
    let arms = result["arms"].as_array().expect("a list");
    assert_eq!(arms.len(), 5);
    for arm in arms {
        let clients = &arm["silent_clients"];
        assert_eq!(clients["closed"], clients["expected"]);
        let patient = &arm["patient_clients"];
        assert_eq!(patient["closed"], patient["expected"]);
        assert!(!arm["rounds"].as_array().expect("a list").is_empty());
    }
    let page = fs::read_to_string(place.path("tickless-demo.html")).expect("the report");
    assert_whole_page(&page);
    assert!(
        page.matches("<svg").count() >= 3,
        "a plot for each kind of timer"
    );
    assert_eq!(place.files(), ["tickless-demo.html"]);
}

#[test]
fn the_report_has_every_figure_and_quiet_is_quiet() {
    let place = Place::new();
    let output = place.run(&tiny(&["--quiet"]));
    assert_eq!(end(&output), (Some(0), String::new()));
    assert_eq!(text(&output.stdout), "");
    let page = fs::read_to_string(place.path("tickless-demo.html")).expect("the report");
    for part in [
        "10 connections, 1,000 requests a second, 1 round",
        "tickless::time",
        "late, p50",
        "wake-ups a second",
        "with set_thread_slack in each thread",
        "nothing to compare: no figure has 3 rounds",
        "no paced tick was early",
    ] {
        assert!(page.contains(part), "{part:?} is missing in\n{page}");
    }
    fs::remove_file(place.path("tickless-demo.html")).expect("it is there");
    let output = place.run(&tiny(&["--no-report"]));
    assert_eq!(end(&output), (Some(0), String::new()));
    assert!(!text(&output.stdout).contains("Report:") && place.files().is_empty());
}

#[test]
fn a_terminal_gets_fifteen_lines_of_eighty_columns() {
    let place = Place::new();
    let output = place.run(&tiny(&[]));
    assert_eq!(end(&output), (Some(0), String::new()));
    let table = text(&output.stdout);
    assert!(table.lines().count() <= 15, "{table}");
    for line in table.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for part in [
        "ticks late p50",
        "arm and drop",
        "+ Worker",
        "better, worse",
        "checks hold",
        "Not built: tokio's alternative timer",
        "Report: tickless-demo.html",
    ] {
        assert!(table.contains(part), "{part:?} is missing in\n{table}");
    }
}

#[test]
fn a_reader_that_left_takes_the_report_from_no_other() {
    let place = Place::new();
    place.unread(&tiny(&["--json", "result.json"]));
    assert_eq!(place.files(), ["result.json", "tickless-demo.html"]);
    assert_eq!(json_file(&place.path("result.json"))["holds"], true);
    assert_whole_page(&fs::read_to_string(place.path("tickless-demo.html")).expect("text"));
}

#[test]
fn a_full_disk_behind_standard_output_is_told_after_the_report() {
    let place = Place::new();
    let full = fs::File::options().write(true).open("/dev/full");
    let mut command = place.command(&tiny(&[]));
    let output = command.stdout(full.expect("Linux has it")).output();
    let (code, error) = end(&output.expect("the command starts"));
    assert_eq!(code, Some(3));
    assert!(error.contains("cannot write to standard output"), "{error}");
    assert_eq!(place.files(), ["tickless-demo.html"]);
}

#[test]
fn an_interrupted_run_is_whole() {
    let place = Place::new();
    let line = "demo -D 1h --connections 10 --pace 1h --json result.json";
    let mut command = place.command(&line.split(' ').collect::<Vec<_>>());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = running(&mut command);
    until_signals_are_caught(&child);
    // In the middle of the first part, which takes minutes. `timeout` sends its signal twice, which means once.
    std::thread::sleep(Duration::from_millis(300));
    interrupt(&child);
    // At once, and another one: two of a kind at the same time would be one signal.
    terminate(&child);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(end(&output), (Some(0), String::new()));
    let table = text(&output.stdout);
    assert!(table.contains("ended early"), "{table}");
    let result = json_file(&place.path("result.json"));
    assert_eq!(
        (&result["interrupted"], &result["holds"]),
        (&Value::Bool(true), &Value::Bool(true))
    );
    let page = fs::read_to_string(place.path("tickless-demo.html")).expect("the report");
    assert_whole_page(&page);
    assert!(page.contains("The run was ended early") && page.contains("nothing to compare"));
    assert_eq!(place.files(), ["result.json", "tickless-demo.html"]);
}

#[test]
fn files_that_cannot_be_written_are_told_before_the_run() {
    let place = Place::new();
    fs::create_dir(place.path("reports")).expect("it is new");
    for (arguments, says) in [
        (
            ["--report", "/nowhere/report.html"],
            "there is no directory /nowhere",
        ),
        (
            ["--report", "reports"],
            "it is a directory; give the name of a file in it",
        ),
        (
            ["--report", "/proc/report.html"],
            "cannot write /proc/report.html",
        ),
        (["--report", "-"], "give it a file name"),
        (
            ["--json", "/nowhere/result.json"],
            "cannot write /nowhere/result.json",
        ),
    ] {
        // An hour, if it ran.
        let mut line = vec!["demo", "-D", "1h"];
        line.extend(arguments);
        let (code, error) = end(&place.run(&line));
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains(says), "{error}");
    }
    assert_eq!(place.files(), ["reports"]);
}

#[test]
fn a_report_that_was_there_is_replaced_whole() {
    let place = Place::new();
    fs::write(place.path("old.html"), "x".repeat(1 << 20)).expect("it can be written");
    std::os::unix::fs::symlink("old.html", place.path("link.html")).expect("it is new");
    let output = place.run(&tiny(&["--quiet", "--report", "link.html"]));
    assert_eq!(end(&output), (Some(0), String::new()));
    assert_whole_page(&fs::read_to_string(place.path("old.html")).expect("the report"));
    assert!(place.path("link.html").is_symlink(), "a link stays a link");
}

#[test]
fn nonsense_is_refused_with_what_would_be_right() {
    let place = Place::new();
    place.refuses(
        &["demo"],
        &[
            (&["--duration", "soon"], "ns, us, ms, s, m, h and d are"),
            (&["--duration", "0s"], "longer than zero"),
            (
                &["--duration", "10 parsecs"],
                "ns, us, ms, s, m, h and d are",
            ),
            (&["--duration", "100ms"], "use --duration"),
            (&["--connections", "0"], "10..=1000000"),
            (&["--connections", "many"], "invalid digit"),
            (&["--rate", "1"], "a higher --rate"),
            (&["--slack", "2s"], "use 1 s or less"),
            (&["--slack", "late"], "ns, us, ms, s, m, h and d are"),
            (&["--duration", "36501d"], "36500d is the longest"),
            (&["--pace", "100ns"], "use 1us or more"),
            (&["--pace", "200"], "write 200s, 200ms or 200us"),
            (&["--report", "a", "--no-report"], "cannot be used with"),
            (&["--report", "a", "--json", "a"], "share one place"),
            (&["--sleck", "1"], "'--slack'"),
        ],
    );
}

#[test]
fn more_connections_than_file_descriptors_are_refused() {
    let most = fs::read_to_string("/proc/sys/fs/nr_open").expect("Linux tells");
    if most.trim().parse::<u64>().expect("a number") > 2_000_000 {
        // Here even a million connections are possible, for some users.
        return;
    }
    let place = Place::new();
    let mut line = vec!["demo", "-D", "1h", "--no-report"];
    line.extend(["--connections", "1000000", "--rate", "10000000"]);
    let (code, error) = end(&place.run(&line));
    assert_eq!(code, Some(3), "{error}");
    assert!(
        error.contains("need 2,000,064 file descriptors") && error.contains("raise the limit"),
        "{error}"
    );
}

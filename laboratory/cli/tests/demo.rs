//! Tests of `tickless demo`: short runs, and everything that can go wrong around them.
//!
//! No test asserts how late a timer was: the machine causes lateness as much as the library does.

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::Value;
use support::{Place, end, interrupt, json, json_file, started, terminate, text};

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

/// Finds two free ports in a row.
fn two_ports() -> (u16, TcpListener, TcpListener) {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
        let port = first.local_addr().expect("it is bound").port();
        if let Some(next) = port.checked_add(1)
            && let Ok(second) = TcpListener::bind(("127.0.0.1", next))
        {
            return (port, first, second);
        }
    }
}

#[test]
fn a_tiny_run_is_whole() {
    let place = Place::new();
    let closed = |arm: &Value| arm["silent_clients"]["closed"].as_u64();
    let has_served = |arm: &Value| {
        let patient = arm["patient_clients"]["closed"].as_u64();
        let figures = ["requests_per_second", "push_ns"].map(|name| arm[name].as_f64());
        figures.iter().all(|figure| *figure > Some(0.0))
            && arm["paced"]["count"].as_u64() > Some(0)
            && patient > Some(0)
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
        assert_eq!(arm["paced"]["early"], 0);
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
fn people_get_a_table_and_quiet_is_quiet() {
    let place = Place::new();
    let output = place.run(&tiny(&["--no-report", "--all"]));
    assert_eq!(end(&output), (Some(0), String::new()));
    let table = text(&output.stdout);
    for part in [
        "10 connections, 1,000 requests a second, 1 round",
        "tickless::time",
        "late, p50",
        "wake-ups a second",
        "+ slack         as + reactor, with set_thread_slack in each thread",
        "With a Worker, ",
        "ok  no paced tick was early",
    ] {
        assert!(table.contains(part), "{part:?} is missing in\n{table}");
    }
    assert!(place.files().is_empty());
    let allowed = table.lines().find(|line| line.contains("late by choice"));
    let allowed: Vec<_> = allowed.expect("a row").split_whitespace().skip(4).collect();
    assert_eq!(allowed.join(" "), "2 ms 0 ns 0 ns 1 ms 0 ns");

    let output = place.run(&tiny(&["--no-report", "--quiet"]));
    assert_eq!(end(&output), (Some(0), String::new()));
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn a_terminal_gets_fourteen_lines_of_eighty_columns() {
    let place = Place::new();
    let output = place.run(&tiny(&[]));
    assert_eq!(end(&output), (Some(0), String::new()));
    let table = text(&output.stdout);
    assert!(table.lines().count() <= 14, "{table}");
    for line in table.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for part in [
        "ticks late p50",
        "arm and drop",
        "+ Worker",
        "better, worse",
        "checks hold",
        "Report: tickless-demo.html",
    ] {
        assert!(table.contains(part), "{part:?} is missing in\n{table}");
    }
}

#[test]
fn a_busy_port_is_named_before_anything_runs() {
    let place = Place::new();
    let (port, first, second) = two_ports();
    let listen = format!("127.0.0.1:{port}");
    let arguments = ["demo", "-D", "60", "--listen", &listen];

    let (code, error) = end(&place.run(&arguments));
    assert_eq!(code, Some(3));
    assert!(
        error.contains(&format!("port {port} on 127.0.0.1 is taken")),
        "{error}"
    );
    assert!(
        error.contains("tickless::time") && error.contains("choose two free ports"),
        "{error}"
    );

    drop(first);
    // A port that is free again may go to another program.
    let mut seconds = vec![(port, second)];
    let error = loop {
        let (port, _) = seconds[seconds.len() - 1];
        let listen = format!("127.0.0.1:{port}");
        let (code, error) = end(&place.run(&["demo", "-D", "60", "--listen", &listen]));
        assert_eq!(code, Some(3));
        if error.contains(&format!("port {} on 127.0.0.1 is taken", port + 1)) {
            break error;
        }
        assert!(
            error.contains(&format!("port {port} on 127.0.0.1 is taken")),
            "{error}"
        );
        assert!(seconds.len() < 20, "{error}");
        let (port, _, second) = two_ports();
        seconds.push((port, second));
    };
    assert!(error.contains("tokio::time"), "{error}");
    drop(seconds);
    assert!(
        place.files().is_empty(),
        "no report of a run that never was"
    );
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

fn fetch(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: demo\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn guests_are_served_and_an_interrupted_run_is_whole() {
    let place = Place::new();
    // Ports that are free again may go to another program.
    let mut tries = 0;
    let (port, child, mut out) = loop {
        let (port, first, second) = two_ports();
        drop((first, second));
        let listen = format!("127.0.0.1:{port}");
        // Nothing in it ends by itself for a long time, and no guest's either.
        let arguments = "demo --all -D 1h --connections 10 --pace 1h --idle-timeout 1m --header-timeout 2m \
                         --json result.json --listen";
        let arguments: Vec<_> = arguments.split(' ').chain([listen.as_str()]).collect();
        let (child, out, line) = started(&mut place.command(&arguments));
        if line.starts_with(&format!("Visitors: http://{listen} ")) {
            break (port, child, out);
        }
        tries += 1;
        let (_, error) = end(&child.wait_with_output().expect("it has ended"));
        assert!(line.is_empty() && tries < 20, "{line}{error}");
    };

    for (port, whose) in [(port, "tickless::time"), (port + 1, "tokio::time")] {
        let page = fetch(port, "/");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        assert!(page.contains(&format!("<code>{whose}</code>")), "{page}");
    }
    let answer = fetch(port, "/stats");
    let (_, stats) = answer.split_once("\r\n\r\n").expect("a header and a body");
    assert_eq!(
        json(stats.as_bytes())["arms"].as_array().map(Vec::len),
        Some(5)
    );

    // In the middle of the first part, which takes minutes. `timeout` sends its signal twice, which means once.
    std::thread::sleep(Duration::from_millis(300));
    interrupt(&child);
    // At once, and another one: two of a kind at the same time would be one signal.
    terminate(&child);
    let mut table = String::new();
    out.read_to_string(&mut table)
        .expect("it goes on to its end");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(end(&output), (Some(0), String::new()));
    assert!(table.contains("ended early"), "{table}");
    assert!(table.contains("nothing to compare"), "{table}");
    let result = json_file(&place.path("result.json"));
    assert_eq!(
        (&result["interrupted"], &result["holds"]),
        (&Value::Bool(true), &Value::Bool(true))
    );
    let page = fs::read_to_string(place.path("tickless-demo.html")).expect("the report");
    assert_whole_page(&page);
    assert!(page.contains("The run was ended early"));
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
            (&["--connections", "0"], "1..=1000000"),
            (&["--connections", "many"], "invalid digit"),
            (
                &["--silent", "60", "--slow", "60"],
                "together they can be 100 at most",
            ),
            (
                &["--idle-timeout", "1s", "--header-timeout", "1s"],
                "make --header-timeout longer",
            ),
            (&["--rate", "1"], "a higher --rate"),
            (&["--slack", "2s"], "use 1 s or less"),
            (&["--slack", "late"], "ns, us, ms, s, m, h and d are"),
            (&["--idle-timeout", "36500d"], "use --duration"),
            (&["--idle-timeout", "36501d"], "36500d is the longest"),
            (
                &["--rate", "1", "--idle-timeout", "1s"],
                "raise --rate or --idle-timeout",
            ),
            (&["--pace", "100ns"], "use 1us or more"),
            (&["--pace", "200"], "write 200s, 200ms or 200us"),
            (&["--listen", "8080"], "invalid socket address"),
            (&["--listen", "127.0.0.1:0"], "a port between 1 and 65534"),
            (&["--report", "a", "--no-report"], "cannot be used with"),
            (&["--sead", "1"], "'--seed'"),
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

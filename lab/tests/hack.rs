//! Tests of `tickless hack`: hackbench's groups on the executor, in each configuration, as a table, as data, and as a
//! page.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::Value;
use support::{
    Place, assert_has, end, interrupt, json, json_file, started, text, until_signals_are_caught,
};

/// A group of two senders and two receivers, with three messages of each pair.
const SMALL: &str = "-g 1 -f 2 -l 3 -w 1 --rounds 1";

fn configurations(document: &Value) -> &Vec<Value> {
    document["configurations"].as_array().expect("a list")
}

#[test]
fn the_table_has_every_configuration_and_what_took_part_besides() {
    let place = Place::new();
    let (code, out, error) = place.says(&["hack"], SMALL);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{out}");
    assert!(
        out.starts_with(
            "tickless hack: 1 group of 4 tasks, 12 messages of 100 bytes through channels, 1 worker"
        ),
        "{out}"
    );
    for (first, name) in [
        ("off", "all on"),
        ("off", "all off"),
        ("on", "without lazy"),
        ("on", "all off"),
    ] {
        let is_there = out.lines().any(|line| {
            let mut words = line.splitn(2, "  ");
            words.next() == Some(first)
                && words
                    .next()
                    .is_some_and(|rest| rest.trim_start().starts_with(name))
        });
        assert!(is_there, "hrtick {first}, {name} is missing in {out}");
    }
    assert!(
        out.lines().any(|line| line.starts_with("-       tokio")),
        "{out}"
    );
    for mark in [
        "mark: device writes with everything on at most 0.04 of those with everything off: ",
        "mark: run time with everything on no longer than with everything off, within the spread of rounds: not \
         measured: it takes 3 rounds to have a spread",
    ] {
        let is_there = out.lines().any(|line| line.starts_with(mark));
        assert!(is_there, "{mark} is missing in {out}");
    }
    let is_installed = out.contains("-       hackbench");
    assert_ne!(
        is_installed,
        out.contains("missing: hackbench, because it is not installed"),
        "{out}"
    );
}

#[test]
fn the_data_have_an_object_for_each_configuration_and_the_ratio_on_top() {
    let place = Place::new();
    let (code, out, error) = place.says(&["hack"], &format!("{SMALL} -s 8 --seed 3 --json -"));
    assert_eq!((code, error.as_str()), (Some(0), ""), "{out}");
    let document = json(out.as_bytes());
    assert_has(
        &document,
        "command version date machine settings took_s holds lost conclusions others",
    );
    assert!(document.get("device_writes_ratio").is_some(), "{document}");
    assert_eq!(
        document["device_writes_scope"],
        "all workers of the process together"
    );
    assert_eq!(document["settings"]["messages"], 12);
    assert_eq!(document["lost"], 0);
    let all = configurations(&document);
    let different: BTreeSet<String> = all.iter().map(|one| one["features"].to_string()).collect();
    assert_eq!((all.len(), different.len()), (14, 14));
    for one in all {
        assert_has(
            one,
            "name features run_s device_writes device_writes_per_s starts updates switches_per_s",
        );
        assert_eq!(one["runs"], 1);
        assert!(one["run_s"]["median"].as_f64() > Some(0.0), "{one}");
        // Each of the four tasks runs at least once.
        assert!(
            one["switches_per_s"]["median"].as_f64() > Some(0.0),
            "{one}"
        );
    }
    let marks = document["marks"].as_array().expect("a list");
    assert_eq!(marks.len(), 5, "{document}");
    for mark in marks {
        let verdict = mark["verdict"].as_str();
        let is_measured = matches!(verdict, Some("holds" | "missed"));
        assert_ne!(is_measured, verdict == Some("not-measured"), "{mark}");
        assert_eq!(is_measured, mark["why"].is_null(), "{mark}");
        assert_eq!(is_measured, mark["figure"].is_object(), "{mark}");
    }
    let tokio = document["others"]
        .as_array()
        .and_then(|others| others.first());
    let tokio = tokio.expect("tokio takes part");
    assert_eq!(
        (&tokio["name"], &tokio["missing"]),
        (&"tokio".into(), &Value::Null)
    );
}

#[test]
fn messages_go_through_pipes_too_whatever_their_size() {
    let place = Place::new();
    for size in ["1", "64K"] {
        let line = format!(
            "{SMALL} -p -s {size} --matrix ends --hrtick on --device counter --json result.json"
        );
        let (code, out, error) = place.says(&["hack"], &line);
        assert_eq!((code, error.as_str()), (Some(0), ""), "{out}");
        let document = json_file(&place.path("result.json"));
        assert_eq!(document["settings"]["through"], "pipes");
        assert_eq!(
            (configurations(&document).len(), &document["lost"]),
            (2, &0.into())
        );
    }
}

#[test]
fn the_page_has_bars_for_each_figure() {
    let place = Place::new();
    let (code, out, error) = place.says(&["hack"], &format!("{SMALL} -q --report out.html"));
    assert_eq!((code, out.as_str(), error.as_str()), (Some(0), "", ""));
    let page = fs::read_to_string(place.path("out.html")).expect("the page");
    for part in [
        "Run time",
        "Writes of the device, a second",
        "- lazy",
        "tokio",
        "How to read it",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
}

#[test]
fn ctrl_c_ends_it_with_what_there_is() {
    let place = Place::new();
    let line = [
        "hack",
        "-g",
        "2",
        "-f",
        "10",
        "-l",
        "100000000",
        "--rounds",
        "9",
        "--json",
        "out.json",
    ];
    let child = support::running(place.command(&line).stdout(Stdio::null()));
    until_signals_are_caught(&child);
    interrupt(&child);
    let (code, error) = end(&child.wait_with_output().expect("it ends"));
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let document = json_file(&place.path("out.json"));
    assert_eq!(
        (&document["interrupted"], &document["lost"]),
        (&true.into(), &0.into())
    );
}

/// Installs a script as `hackbench`, and returns a search path that finds the script first.
fn installed(place: &Place, script: &str) -> std::ffi::OsString {
    let program = place.path("hackbench");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("it can be written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let mut path = place.path("").into_os_string();
    path.push(":/usr/bin:/bin");
    path
}

#[test]
fn hackbench_takes_part_with_the_same_options_where_it_is_installed() {
    let place = Place::new();
    let path = installed(&place, "echo \"$*\" >> asked\necho 'Time: 0.125'");
    let line = [
        "hack", "-g", "1", "-f", "2", "-l", "3", "-s", "8", "-p", "-T", "--matrix", "ends",
        "--rounds", "2",
    ];
    let output = place
        .command(&line)
        .env("PATH", &path)
        .output()
        .expect("it starts");
    let (code, error) = end(&output);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let out = text(&output.stdout);
    let row = out
        .lines()
        .find(|line| line.starts_with("-       hackbench"));
    assert!(row.is_some_and(|row| row.contains("  125 ms  ")), "{out}");
    let asked = fs::read_to_string(place.path("asked")).expect("it was called");
    assert_eq!(asked, "-g 1 -f 2 -l 3 -s 8 -T -p\n".repeat(2));

    // One that fails is missing, with what it said, and is not asked again.
    let path = installed(&place, "echo 'no sockets' >&2\nexit 3");
    let output = place
        .command(&line)
        .env("PATH", &path)
        .output()
        .expect("it starts");
    let out = text(&output.stdout);
    assert!(
        out.contains(
            "missing: hackbench, because it ended with exit status: 3 and said: no sockets"
        ),
        "{out}"
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn ctrl_c_ends_hackbench_too() {
    let place = Place::new();
    let path = installed(&place, "touch begun\nexec sleep 3600");
    let line = [
        "hack", "-g", "1", "-f", "1", "-l", "1", "--quick", "--json", "out.json", "-q",
    ];
    let child = support::running(place.command(&line).env("PATH", &path));
    while !place.path("begun").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    interrupt(&child);
    let (code, _) = end(&child.wait_with_output().expect("it ends"));
    assert_eq!(code, Some(0));
    let document = json_file(&place.path("out.json"));
    assert_eq!(document["interrupted"], true);
    assert_eq!(document["others"][1]["run_s"], Value::Null, "{document}");
}

#[test]
fn a_reader_who_left_is_no_error() {
    let place = Place::new();
    place.unread(&["hack", "-g", "1", "-f", "1", "-l", "1", "--quick"]);
    let line = ["hack", "-g", "1", "-f", "1", "--quick", "--matrix", "ends"];
    let (mut child, mut out, first) = started(&mut place.command(&line));
    assert!(first.contains("5 messages of 100 bytes"), "{first}");
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn nonsense_is_refused_with_what_would_be_right() {
    let place = Place::new();
    place.refuses(
        &["hack"],
        &[
            (&["-g", "0"], "0 is not in 1..=10000"),
            (&["-f", "-1"], "-1 is not in 1..=10000"),
            (&["-l", "many"], "invalid digit"),
            (&["-s", "0"], "1 byte is the least"),
            (&["-s", "65K"], "64K is the most"),
            (&["-s", "ten"], "is no unit of memory"),
            (&["-g", "10000", "-f", "10000"], "1,000,000 are the most"),
            (&["-T", "-P"], "cannot be used with"),
            (&["--device", "hpet"], "possible values: signal, counter"),
            (&["--hrtick", "maybe"], "possible values: off, on, both"),
            (&["--rounds", "0"], "0 is not in"),
            (&["-w", "257"], "257 is not in 1..=256"),
            (&["--report", "-"], "would mix the page with the table"),
            (&["--json", "/nowhere/x"], "there is no directory /nowhere"),
            (&["10"], "unexpected argument"),
        ],
    );
}

/// The mark for device writes is met through channels and missed through pipes, so the text must show both ratios.
#[test]
fn the_help_and_the_page_say_both_ratios_of_the_same_commit() {
    let help = text(&Place::new().run(&["hack", "--help"]).stdout);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let root = env!("CARGO_MANIFEST_DIR");
    let page = fs::read_to_string(format!("{root}/../docs/runtimes.md")).expect("it is there");
    let (_, commit) = help.rsplit_once("(commit ").expect("a commit");
    let (commit, _) = commit.split_once(')').expect("its end");
    let row = page
        .lines()
        .find(|line| line.contains(commit))
        .expect(commit);
    assert!(
        help.contains("channels had 0.003") && row.contains("channels 0.003"),
        "{row}"
    );
    assert!(
        help.contains("writes was 0.063") && row.contains("`-p -s 8`, 0.063"),
        "{row}"
    );
}

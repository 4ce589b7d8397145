//! Tests of `tickless latency` against cyclictest, after which its options and output are named.
//!
//! A test runs both programs, and compares their output line by line with every number removed. Where cyclictest is not
//! installed, the test compares nothing and says so.

#[path = "../../../crates/tickless/tests/support/skip.rs"]
mod skip;
mod support;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use serde_json::Value;
use skip::skip;
use support::{Place, end, json_file, text};

/// Returns the output of the program; `None`, and a message, if the program is not installed.
fn printed(place: &Place, program: &str, options: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.current_dir(place.path("."));
    command.args(options.split_whitespace());
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output();
    match output {
        Ok(output) if output.status.success() => Some(text(&output.stdout)),
        Ok(output) => panic!("{program} {options}: {}", text(&output.stderr)),
        Err(error) => {
            skip(
                &format!("comparing with {program}"),
                &format!("of: {error}"),
            );
            None
        }
    }
}

fn ours(place: &Place, command: &str, options: &str) -> String {
    let line = format!("{command} {options}");
    let output = place.run(&line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(end(&output), (Some(0), String::new()), "{line}");
    text(&output.stdout)
}

/// Removes the numbers of a line, and the blanks that fill their columns. Also removes the cycles in which a thread was
/// later than the histogram reaches: their number depends on the scheduler.
fn shape(line: &str) -> String {
    let line = match line
        .strip_prefix("# Thread")
        .and_then(|rest| rest.split_once(':'))
    {
        Some((thread, _cycles)) => &line[.."# Thread:".len() + thread.len()],
        None => line,
    };
    let mut out = String::new();
    for letter in line.chars() {
        match letter {
            '0'..='9' | '.' | '-' if out.ends_with('9') => {}
            '0'..='9' => {
                let head = out.trim_end_matches(' ').len();
                out.truncate(head);
                out.push('9');
            }
            _ => out.push(letter),
        }
    }
    out
}

/// Returns true for the comments that only this library's commands print.
fn is_own(line: &str) -> bool {
    let known = [
        "# /dev/", "# Hist", "# Total", "# Min L", "# Avg L", "# Max L", "# Thread", "# Break",
    ];
    line.starts_with('#') && !known.iter().any(|head| line.starts_with(head))
}

fn shapes(out: &str) -> Vec<String> {
    let lines = out.lines().filter(|line| !is_own(line));
    // Frames that are written over each other, and the power management, which depends on the user.
    let lines = lines.filter(|line| !line.contains("loadavg") && !line.starts_with("# /dev/"));
    lines.map(shape).collect()
}

/// Collects the names in an object and in the objects inside it; names that differ only in a number count as one.
fn names(value: &Value, prefix: &str, into: &mut BTreeSet<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let name = format!("{prefix}.{}", shape(name));
        names(value, &name, into);
        into.insert(name);
    }
}

fn names_in(place: &Place, file: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    names(&json_file(&place.path(file)), "", &mut all);
    all
}

#[test]
fn latency_prints_what_cyclictest_prints() {
    let place = Place::new();
    for options in [
        "-q -l 20",
        "-q -t2 -d 0 -l 20",
        "-q -l 20 -h 4",
        "-q -l 20 -N",
        "-q -l 20 -p 0",
        "-q -D 0 -l 20",
        "-q -b 0 -l 20",
        "-q -l 20 -m",
    ] {
        let Some(theirs) = printed(&place, "cyclictest", options) else {
            return;
        };
        let options = options.replace("-p 0", "-p 0 --default-system");
        let output = place.run(
            &format!("latency {options}")
                .split_whitespace()
                .collect::<Vec<_>>(),
        );
        if let Some(3) = output.status.code() {
            continue;
        }
        assert_eq!(output.status.code(), Some(0), "{options}");
        let found = shapes(&text(&output.stdout));
        assert_eq!(found, shapes(&theirs), "{options}");
    }
}

#[test]
fn latency_prints_threads_before_the_histogram_as_cyclictest_does() {
    let place = Place::new();
    let options = "-l 20 -h 4";
    let Some(theirs) = printed(&place, "cyclictest", options) else {
        return;
    };
    let last = |out: &str| {
        let shapes = shapes(out);
        let histogram = shapes.iter().position(|line| line == "# Histogram");
        let histogram = histogram.expect("there is one");
        shapes[histogram - 1..].to_vec()
    };
    let ours = ours(&place, "latency", options);
    assert_eq!(last(&ours), last(&theirs));
    assert!(last(&ours)[0].starts_with("T:"), "{ours}");
}

#[test]
fn latency_ends_as_cyclictest_does_when_one_is_too_late() {
    let place = Place::new();
    for options in ["-q -b 1", "-q -b 1 -h 4"] {
        let Some(theirs) = printed(&place, "cyclictest", options) else {
            return;
        };
        // Steps of a millisecond are late enough on any machine.
        let ours = ours(&place, "latency", &format!("{options} --timer tokio"));
        assert_eq!(shapes(&ours), shapes(&theirs), "{options}");
    }
}

#[test]
fn json_has_every_name_that_cyclictest_has() {
    let place = Place::new();
    let options = |file: &str| format!("-q -l 20 -h 2000 --json={file}");
    if printed(&place, "cyclictest", &options("theirs.json")).is_none() {
        return;
    }
    let _printed = ours(&place, "latency", &options("ours.json"));
    let ours = names_in(&place, "ours.json");
    for name in names_in(&place, "theirs.json") {
        assert!(ours.contains(&name), "no {name} in {ours:?}");
    }
}

//! Tests of `tickless latency`: the options, the lines and the JSON of cyclictest.

mod support;

use std::io::Read;
use std::process::Command;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;
use support::{Place, assert_has, end, hang_up, interrupt, json, json_file, started, text, words};

/// Parses a line of the summary as scripts do, into the number of the thread and the figures after each name.
fn figures(line: &str) -> Option<(u32, Vec<(String, u64)>)> {
    let rest = line.strip_prefix("T:")?;
    let (number, rest) = rest.split_once('(')?;
    let (id, rest) = rest.split_once(')')?;
    let _a_number: u32 = id.trim().parse().ok()?;
    let words: Vec<&str> = rest
        .split([':', ' '])
        .filter(|word| !word.is_empty())
        .collect();
    let pairs = words
        .chunks(2)
        .map(|pair| Some((pair[0].to_owned(), pair.get(1)?.parse().ok()?)));
    Some((number.trim().parse().ok()?, pairs.collect::<Option<_>>()?))
}

#[test]
fn the_summary_is_that_of_cyclictest() {
    let place = Place::new();
    let output = place.run(&["latency", "-t2", "-i", "500", "-d", "250", "-l", "20", "-q"]);
    assert_eq!(end(&output), (Some(0), String::new()));
    let out = text(&output.stdout);
    let threads: Vec<_> = out.lines().filter(|line| line.starts_with("T:")).collect();
    assert_eq!(threads.len(), 2, "{out}");
    for (place, line) in (0..).zip(threads) {
        let (number, figures) = figures(line).expect(line);
        assert_eq!(number, place);
        let names: Vec<&str> = figures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["P", "I", "C", "Min", "Act", "Avg", "Max"], "{line}");
        let of = |name: &str| {
            figures
                .iter()
                .find(|(known, _)| known == name)
                .expect(line)
                .1
        };
        assert_eq!(of("I"), 500 + 250 * u64::from(place));
        assert!(of("C") <= 20, "{line}");
        if of("C") == 0 {
            // On a busy machine the run may be over before every thread had a turn.
            continue;
        }
        assert!(of("Min") <= of("Avg") && of("Avg") <= of("Max"), "{line}");
        assert!(of("Min") <= of("Act") && of("Act") <= of("Max"), "{line}");
    }
    // Everything else is a comment to a script.
    assert!(
        out.lines()
            .all(|line| line.starts_with("T:") || line.starts_with('#')),
        "{out}"
    );
}

#[test]
fn the_json_is_that_of_cyclictest() {
    let place = Place::new();
    let output = place.run(&[
        "latency", "-i", "500", "-l", "30", "-h", "50", "-q", "--json", "-",
    ]);
    assert_eq!(end(&output), (Some(0), String::new()));
    let result = json(&output.stdout);
    assert_has(
        &result,
        "file_version cmdline: rt_test_version: start_time end_time return_code sysinfo num_threads \
         resolution_in_ns thread",
    );
    assert_has(
        &result["sysinfo"],
        "sysname nodename release version machine realtime",
    );
    let thread = &result["thread"]["0"];
    assert_has(thread, "histogram cycles min max avg cpu node");
    assert_eq!(
        (&result["num_threads"], &thread["cycles"]),
        (&1.into(), &30.into())
    );
    assert_eq!(
        (&result["return_code"], &thread["early"]),
        (&0.into(), &0.into())
    );
    let counts = thread["histogram"].as_object().expect("an object");
    let inside: u64 = counts.values().filter_map(Value::as_u64).sum();
    assert!(inside <= 30);
    assert!(
        counts
            .keys()
            .all(|micros| micros.parse::<u64>().is_ok_and(|micros| micros < 50))
    );
}

#[test]
fn a_histogram_accounts_for_every_cycle() {
    let place = Place::new();
    let output = place.run(&words("latency -t2 -i 500 -l 20 -h 30"));
    assert_eq!(end(&output), (Some(0), String::new()));
    let out = text(&output.stdout);
    let cycles: Vec<u64> = out
        .lines()
        .filter_map(figures)
        .map(|(_, figures)| figures[2].1)
        .collect();
    let (_, histogram) = out.split_once("# Histogram\n").expect("there is one");
    let row = |head: &str| -> Vec<u64> {
        let line = histogram
            .lines()
            .find_map(|line| line.strip_prefix(head))
            .expect(head);
        line.split_whitespace()
            .map(|figure| figure.parse().expect(line))
            .collect()
    };
    let rows = histogram
        .lines()
        .filter(|line| line.starts_with('0'))
        .count();
    assert_eq!(rows, 30);
    let (inside, beyond) = (row("# Total:"), row("# Histogram Overflows:"));
    for thread in 0..2 {
        assert_eq!(
            inside[thread] + beyond[thread],
            cycles[thread],
            "{histogram}"
        );
    }
}

#[test]
fn subjects_take_turns_on_the_same_threads() {
    let place = Place::new();
    let against = "callback,spin,foreign,timerfd,nanosleep,tokio";
    let mut line = vec!["latency", "-i", "200", "-l", "10", "-q"];
    line.extend(["--against", against, "--json", "result.json"]);
    let output = place.run(&line);
    assert_eq!(end(&output), (Some(0), String::new()));
    let result = json_file(&place.path("result.json"));
    assert_eq!(result["timer"], "sleep");
    for name in against.split(',') {
        let thread = &result["against"][name]["0"];
        assert_eq!(
            (&thread["cycles"], &thread["early"]),
            (&10.into(), &0.into()),
            "{name}: {result}"
        );
        assert!(text(&output.stdout).contains(&format!("# {name}: ")));
    }
}

#[test]
fn a_latency_above_the_limit_ends_the_run() {
    let place = Place::new();
    // Steps of a millisecond: always more than a microsecond late before long.
    let line = words("latency --timer tokio -b 1 -q --json result.json");
    let output = place.run(&line);
    // As in cyclictest, what was to be found is no failure.
    assert_eq!(end(&output), (Some(0), String::new()));
    let out = text(&output.stdout);
    let last = out.lines().last().expect("lines");
    let value = last.strip_prefix("# Break value: ").expect(&out);
    let result = json_file(&place.path("result.json"));
    assert_eq!(result["return_code"], 0);
    let nanos = result["break"]["late_ns"].as_u64().expect("a number");
    assert_eq!(value, (nanos / 1_000).to_string());
}

#[test]
fn an_interrupted_run_is_whole() {
    let place = Place::new();
    let line = ["latency", "-i", "500", "-q", "--json", "result.json"];
    let (child, mut out, first) = started(&mut place.command(&line));
    assert!(first.starts_with("# /dev/cpu_dma_latency"), "{first}");
    interrupt(&child);
    let mut summary = String::new();
    out.read_to_string(&mut summary)
        .expect("it goes on to its end");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(end(&output), (Some(0), String::new()));
    let last = summary.lines().last().expect("lines");
    assert!(last.starts_with("T: 0 ("), "{summary}");
    assert_eq!(json_file(&place.path("result.json"))["num_threads"], 1);
}

/// The reader of standard output leaves with the terminal.
#[test]
fn a_run_whose_terminal_closes_is_whole() {
    let place = Place::new();
    let line = ["latency", "-i", "500", "-q", "--json", "result.json"];
    let (child, out, _first) = started(&mut place.command(&line));
    drop(out);
    hang_up(&child);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(end(&output), (Some(0), String::new()));
    assert_eq!(json_file(&place.path("result.json"))["num_threads"], 1);
}

/// `nohup` starts a command in the same way.
#[test]
fn a_run_that_ignores_its_terminal_goes_on() {
    let place = Place::new();
    let mut shell = Command::new("sh");
    shell.current_dir(place.path(""));
    shell.args([
        "-c",
        "trap '' HUP; exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_tickless"),
    ]);
    shell.args([
        "latency",
        "-i",
        "500",
        "-l",
        "1000",
        "--json",
        "result.json",
    ]);
    let (child, mut out, _first) = started(&mut shell);
    hang_up(&child);
    let _printed = out.read_to_string(&mut String::new());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(end(&output), (Some(0), String::new()));
    let result = json_file(&place.path("result.json"));
    assert_eq!(result["thread"]["0"]["cycles"], 1000);
}

#[test]
fn nonsense_is_refused_with_what_would_be_right() {
    let place = Place::new();
    place.refuses(
        &["latency", "-l", "1"],
        &[
            (&["-t", "-1"], "-1 is not in 0..=1024"),
            (&["-a", "0,,1"], "a comma with nothing beside it"),
            (&["-a", "60000"], "not one of this machine"),
            (&["--policy", "other", "-p", "1"], "has no priorities"),
            (&["-D", "ten"], "ns, us, ms, s, m, h and d are"),
            (&["-h"], "a value is required for '--histogram <USEC>'"),
            (&["--json", "/nowhere/x"], "there is no directory /nowhere"),
        ],
    );
}

#[test]
fn a_thread_may_go_where_the_process_does_not_run_by_itself() {
    let all = sched_getaffinity(None).expect("it can be asked");
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| all.is_set(cpu))
        .collect();
    let &[first, .., last] = &cpus[..] else {
        return;
    };
    let mut one = CpuSet::new();
    one.set(first);
    // Of this thread, and so of what it starts.
    sched_setaffinity(None, &one).expect("it is allowed already");
    let place = Place::new();
    let last = last.to_string();
    let line = ["latency", "-q", "-l5", "-i200", "--json", "-", "-a", &last];
    let output = place.run(&line);
    assert_eq!(end(&output), (Some(0), String::new()));
    assert_eq!(json(&output.stdout)["thread"]["0"]["cpu"].to_string(), last);
    let (code, error) = end(&place.run(&["latency", "-q", "-l5", "-a", "!0-9999"]));
    assert_eq!(code, Some(2), "{error}");
}

#[test]
fn threads_and_buckets_are_in_the_order_of_numbers() {
    let place = Place::new();
    let line = [
        "latency", "-q", "-l40", "-i300", "-d0", "-t12", "-h5000", "--json", "-",
    ];
    let output = place.run(&line);
    assert_eq!(end(&output), (Some(0), String::new()));
    let result = json(&output.stdout);
    let numbers = |value: &Value| -> Vec<u32> {
        let keys = value.as_object().expect("an object").keys();
        keys.map(|key| key.parse().expect("a number")).collect()
    };
    let threads = &result["thread"];
    assert_eq!(numbers(threads), (0..12).collect::<Vec<_>>());
    for thread in threads.as_object().expect("an object").values() {
        let buckets = numbers(&thread["histogram"]);
        assert!(buckets.is_sorted(), "{buckets:?}");
    }
}

//! Tests of `tickless verify`, and of the traces and pages of `tickless sim run`, as a user or a script runs them.

mod support;

use std::fs;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use support::{Place, end, json, json_file, text};

/// A scenario with two groups of CPUs that work now and then, and one isolated CPU.
const SMALL: &str = r#"name = "small"
profile = "skl-112"
cpus = 14
duration = "20 ms"
isolated = "1"

[[workload]]
kind = "cyclictest"
cpus = "isolated"
period = "1 ms"

[[workload]]
kind = "polls"
cpus = "housekeeping"
timers = 1
period = "2 ms"
period_max = "6 ms"
work = "5 us"
work_max = "20 us"
"#;

/// Returns a directory with `small.toml` and its trace, `small.jsonl`.
fn place() -> Place {
    let place = Place::new();
    fs::write(place.path("small.toml"), SMALL).expect("it can be written");
    let run = place.run(&["sim", "run", "small.toml", "--trace", "small.jsonl", "-q"]);
    assert_eq!(end(&run), (Some(0), String::new()));
    place
}

#[test]
fn a_trace_of_a_good_run_is_found_good() {
    let place = place();
    let output = place.run(&["verify", "small.jsonl", "--json", "out.json"]);
    assert_eq!(end(&output), (Some(0), String::new()));
    let out = text(&output.stdout);
    let document = json_file(&place.path("out.json"));
    let promises = document["promises"].as_array().expect("a list");
    assert_eq!(promises.len(), 11);
    for one in promises {
        let name = one["promise"].as_str().expect("a name");
        assert!(out.contains(name), "{out}");
        assert_eq!(one["broken"], 0);
        assert!(
            one["checks"].as_u64() > Some(0)
                || ["cancel_means_not_running", "in_context"].contains(&name),
            "{one}"
        );
    }
    assert_eq!(document["holds"], true);
    let trace = fs::read(place.path("small.jsonl")).expect("it is there");
    let lines = trace.iter().filter(|byte| **byte == b'\n').count() as u64;
    assert_eq!(document["lines"].as_u64(), Some(lines));
    // Another way to the same bytes, and to the same verdict.
    let output = place.run(&["sim", "run", "small.toml", "--trace", "-", "--twice"]);
    assert_eq!(end(&output), (Some(0), String::new()));
    assert!(output.stdout == trace, "the traces differ");
    let output = place.fed(&["verify", "-", "--json", "-"], &trace);
    assert_eq!(end(&output), (Some(0), String::new()));
    assert_eq!(json(&output.stdout), document);
    let quiet = place.run(&["verify", "small.jsonl", "-q"]);
    assert_eq!((quiet.status.code(), quiet.stdout.len()), (Some(0), 0));
}

#[test]
fn a_broken_promise_is_told_with_its_line() {
    let place = place();
    let output = place.run(&["verify", "small.jsonl", "--late-max", "1ns"]);
    let (code, error) = end(&output);
    assert_eq!((code, error.as_str()), (Some(1), ""));
    let out = text(&output.stdout);
    assert!(out.contains("broken"), "{out}");
    assert!(out.contains(": bounded_late: timer "), "{out}");
    let line = out
        .lines()
        .find(|line| line.starts_with("line "))
        .expect("a story");
    let number = line["line ".len()..].split(',').next().expect("a number");
    let number: usize = number.parse().expect("a number");
    let trace = fs::read_to_string(place.path("small.jsonl")).expect("it is there");
    let told = trace.lines().nth(number - 1).expect("there is such a line");
    assert!(told.contains("expire_entry"), "{told}");
}

#[test]
fn what_is_no_whole_trace_is_refused() {
    let place = place();
    let whole = fs::read(place.path("small.jsonl")).expect("it is there");
    fs::write(place.path("cut.jsonl"), &whole[..whole.len() / 2]).expect("it can be written");
    for (arguments, said) in [
        (["verify", "cut.jsonl"], "error: cut.jsonl:"),
        (
            ["verify", "small.toml"],
            "error: small.toml:1: it is no trace; a trace begins",
        ),
        (
            ["verify", "nothing"],
            "error: cannot read nothing: No such file",
        ),
        (["verify", "."], "error: cannot read ."),
    ] {
        let output = place.run(&arguments);
        let (code, error) = end(&output);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.starts_with(said), "{error}");
        assert!(output.stdout.is_empty());
    }
    let output = place.fed(&["verify", "-"], b"");
    let (code, error) = end(&output);
    assert_eq!(code, Some(2));
    assert!(
        error.starts_with("error: <stdin>:1: the file is empty; a trace begins"),
        "{error}"
    );
}

#[test]
fn no_output_takes_the_place_of_an_input_or_of_another_output() {
    let place = place();
    let trace = fs::read(place.path("small.jsonl")).expect("it is there");
    std::os::unix::fs::symlink("small.jsonl", place.path("link")).expect("it can be made");
    for line in [
        "verify small.jsonl --chrome ./small.jsonl",
        "verify small.jsonl --json link",
        "verify small.jsonl --chrome x --json ./x",
        "sim run small.toml --trace small.toml",
        "sim run small.toml --report x --json x",
        "top --trace small.jsonl --json link",
    ] {
        let (code, out, error) = place.says(&[], line);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{line}: {error}");
        assert!(error.contains("would share one place"), "{line}: {error}");
    }
    let (code, _, error) = place.says(&[], "top --trace small.jsonl");
    assert_eq!(code, Some(2));
    assert!(error.contains("`tickless verify` reads this"), "{error}");
    assert_eq!(place.files(), ["link", "small.jsonl", "small.toml"]);
    assert!(fs::read(place.path("small.jsonl")).expect("it is there") == trace);
    let devices = "verify small.jsonl --chrome /dev/null --json /dev/null";
    assert_eq!(place.says(&[], devices).0, Some(0));
}

#[test]
fn a_compressed_trace_is_the_same_trace() {
    let place = place();
    let run = place.run(&["sim", "run", "small.toml", "--trace", "small.jsonl.gz"]);
    assert_eq!(end(&run), (Some(0), String::new()));
    let lines = fs::read_to_string(place.path("small.jsonl")).expect("it is there");
    let said = text(&run.stdout);
    let said = said.lines().find(|line| line.starts_with("Trace: "));
    let said = said.expect("how large it is");
    assert!(
        said.contains(" lines, ") && said.ends_with("KiB."),
        "{said}"
    );
    let small = fs::read(place.path("small.jsonl.gz")).expect("it is there");
    assert!(small.len() * 3 < lines.len(), "{}", small.len());
    let document = |name: &str| {
        let output = place.run(&["verify", name, "--json", "-"]);
        assert_eq!(end(&output), (Some(0), String::new()));
        json(&output.stdout)
    };
    assert_eq!(document("small.jsonl.gz"), document("small.jsonl"));
    let output = place.fed(&["verify", "-", "-q"], &small);
    assert_eq!(end(&output), (Some(0), String::new()));
    // Half of it is no whole trace.
    fs::write(place.path("cut.gz"), &small[..small.len() / 2]).expect("it can be written");
    let (code, error) = end(&place.run(&["verify", "cut.gz"]));
    assert_eq!(code, Some(2), "{error}");
    assert!(
        error.starts_with("error: cannot read cut.gz further: "),
        "{error}"
    );
    fs::write(place.path("other"), [0x28, 0xB5, 0x2F, 0xFD, 0]).expect("it can be written");
    let (code, error) = end(&place.run(&["verify", "other"]));
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("zstd -dc"), "{error}");
}

#[test]
fn an_interrupted_trace_leaves_nothing_behind() {
    let place = Place::new();
    let long = SMALL.replace("20 ms", "2000 s");
    fs::write(place.path("long.toml"), long).expect("it can be written");
    let mut command = place.command(&["sim", "run", "long.toml", "--trace", "long.jsonl"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let child = support::running(&mut command);
    // Long enough for some of it to be written, and for nothing else.
    std::thread::sleep(std::time::Duration::from_millis(500));
    // As `kill` does. A shell that starts the tests in the background makes its children ignore what Ctrl-C sends.
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), None, "the signal ends it");
    assert_eq!(place.files(), ["long.toml"]);
}

#[test]
fn a_page_shows_a_part_of_the_run() {
    let place = place();
    let part = ["--timeline-from", "5ms", "--timeline-for", "1 ms"];
    let run = [
        &["sim", "run", "small.toml", "--report", "out.html", "-q"][..],
        &part,
    ]
    .concat();
    assert_eq!(end(&place.run(&run)), (Some(0), String::new()));
    let page = fs::read_to_string(place.path("out.html")).expect("it is there");
    for shown in [
        "What happened from 5.000 ms to 6.000 ms",
        "Which CPU looked after which",
        ">CPU 13<",
    ] {
        assert!(page.contains(shown), "{shown} is missing");
    }
    // Whatever is broken is what the page is about.
    let strict = SMALL.replace("duration", "late_max = \"30 us\"\nduration");
    fs::write(place.path("strict.toml"), strict).expect("it can be written");
    let run = place.run(&[
        "sim",
        "run",
        "strict.toml",
        "--report",
        "out.html",
        "--json",
        "out.json",
        "-q",
    ]);
    assert_eq!(end(&run), (Some(1), String::new()));
    let document = json_file(&place.path("out.json"));
    let at = document["outcome"]["violations"][0]["at"]
        .as_u64()
        .expect("a time");
    let from = (at as f64 / 1e9 - 3.0).max(0.0);
    let page = fs::read_to_string(place.path("out.html")).expect("it is there");
    let heading = format!("What happened from {from:.3} ms to {:.3} ms", from + 4.0);
    assert!(page.contains(&heading), "{heading} is missing");
}

#[test]
fn nonsense_is_refused_with_what_would_be_right() {
    let scenario = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../sim/scenarios/start-cost.toml"
    );
    let report = ["--report", "o.html"];
    let with = |more: &[&'static str]| [&report, more].concat();
    Place::new().refuses(
        &["sim", "run", scenario],
        &[
            (
                &["--trace", "-", "--json", "-"],
                "--trace and --json would share one place",
            ),
            (&["--trace", "."], "it is a directory"),
            (&["--trace", "t.zst"], ".gz is"),
            (&["--timeline-from", "5ms"], "--report"),
            (
                &with(&["--timeline-from", "5"]),
                "write a number and a unit, such as 5ms",
            ),
            (&with(&["--timeline-from", "9s"]), "give an earlier moment"),
            (&with(&["--timeline-for", "0ms"]), "longer than zero"),
        ],
    );
}

#[test]
fn other_tools_get_each_start_and_each_expiry() {
    let place = place();
    let output = place.run(&["verify", "small.jsonl", "--chrome", "out.json"]);
    assert_eq!(end(&output), (Some(0), String::new()));
    let trace = fs::read_to_string(place.path("small.jsonl")).expect("it is there");
    let lines: Vec<_> = trace.lines().map(|line| json(line.as_bytes())).collect();
    let told = |name: &str| lines.iter().filter(|line| line["event"] == name).count();
    let document = json_file(&place.path("out.json"));
    let events = document["traceEvents"].as_array().expect("a list");
    let counted = |phase: &str, name: &str| {
        let same = |one: &&serde_json::Value| one["ph"] == phase && one["name"] == name;
        events.iter().filter(same).count()
    };
    for name in ["timer", "hrtimer"] {
        let [start, entry, exit] =
            ["start", "expire_entry", "expire_exit"].map(|end| format!("{name}_{end}"));
        assert!(told(&start) > 0 && told(&entry) > 0, "{name}");
        assert_eq!(counted("B", &start), told(&start));
        assert_eq!(counted("E", &start), told(&start));
        assert_eq!(counted("B", &format!("{name}_expire")), told(&entry));
        assert_eq!(counted("E", &format!("{name}_expire")), told(&exit));
    }
    // One arrow for each start, and its other end is at the expiry.
    let fired = told("timer_expire_entry") + told("hrtimer_expire_entry");
    assert_eq!(
        counted("s", "armed"),
        told("timer_start") + told("hrtimer_start")
    );
    assert_eq!(counted("f", "armed"), fired);
    // Where there are any, Perfetto's reader finds no end of a slice that begins and ends at one time.
    assert!(!events.iter().any(|one| one["ph"] == "X"));
    for one in events {
        assert_eq!(one["pid"], 1);
        let moment = one["ph"] != "M";
        assert_eq!(
            one["ts"].is_number() && one["tid"].is_number(),
            moment,
            "{one}"
        );
    }
    // The same on standard output, and nothing else.
    let output = place.run(&["verify", "small.jsonl", "--chrome", "-"]);
    assert_eq!(end(&output), (Some(0), String::new()));
    assert_eq!(json(&output.stdout), document);
}

#[test]
fn a_trace_that_is_not_whole_leaves_no_export() {
    let place = place();
    let whole = fs::read(place.path("small.jsonl")).expect("it is there");
    fs::write(place.path("cut.jsonl"), &whole[..whole.len() / 2]).expect("it can be written");
    let before = place.files();
    let (code, error) = end(&place.run(&["verify", "cut.jsonl", "--chrome", "o.json"]));
    assert_eq!(code, Some(2), "{error}");
    assert!(error.starts_with("error: cut.jsonl:"), "{error}");
    assert_eq!(place.files(), before);
    let (code, error) = end(&place.run(&["verify", "small.jsonl", "--chrome", "-", "--json", "-"]));
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("would share one place"), "{error}");
}

/// Lines that Linux 6.18 printed, of a timer that was queued before and of one that was not.
const PRINTED: &str = "\
# tracer: nop
#
# entries-in-buffer/entries-written: 24999/24999   #P:2
     rcu_preempt-15      [001] d..1.   411.528050: timer_start: timer=00000000791ef96e function=process_timeout expires=4294995145 [timeout=1] bucket_expiry=4294995146 cpu=1 idx=10 flags=
           rustc-15641   [001] dNs1.   411.536044: timer_cancel: timer=00000000791ef96e
           rustc-15641   [001] .Ns..   411.536045: timer_expire_entry: timer=00000000791ef96e function=process_timeout now=4294995146 baseclk=4294995146
           rustc-15641   [001] .Ns..   411.536063: timer_expire_exit: timer=00000000791ef96e
           rustc-15792   [000] d.h..   412.507793: hrtimer_expire_entry: hrtimer=0000000098f156da function=timerfd_tmrproc now=412507790538
           rustc-15792   [000] d.h..   412.507818: hrtimer_expire_exit: hrtimer=0000000098f156da
";

#[test]
fn the_text_of_linux_is_judged_by_the_same_promises() {
    let place = Place::new();
    let verify = |text: &str| {
        let output = place.fed(&["verify", "-"], text.as_bytes());
        (output.status.code(), text_of(&output))
    };
    let (code, said) = verify(PRINTED);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("never_early                    1  kept"),
        "{said}"
    );
    assert!(said.contains("text of tracefs; "), "{said}");
    let early = PRINTED.replace("now=4294995146", "now=4294995143");
    let (code, said) = verify(&early);
    assert_eq!(code, Some(1), "{said}");
    let story = "never_early: timer 00000000791ef96e (process_timeout, started by rcu_preempt), started in line 4, fires";
    assert!(said.contains(story), "{said}");
    let (code, said) = verify(&PRINTED.replace("24999/24999", "1074/22279"));
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("the first 21205 of 22279 events were overwritten"),
        "{said}"
    );
    // A reader that was stopped in the middle of a line.
    assert_eq!(verify(PRINTED.trim_end()).0, Some(0));
    let output = place.fed(&["verify", "-", "--chrome", "out.json"], PRINTED.as_bytes());
    assert_eq!(output.status.code(), Some(2));
}

fn text_of(output: &std::process::Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

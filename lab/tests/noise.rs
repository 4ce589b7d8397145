//! Tests of `tickless noise`: the options, the rows and the JSON of oslat.

mod support;

use std::fs;
use std::io::{BufRead, Read};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;
use support::{Place, assert_has, end, interrupt, json, json_file, started, text};

/// Returns the cells of the row with this name, parsed as scripts do.
fn row(out: &str, name: &str) -> Vec<String> {
    let cells = out.lines().find_map(|line| {
        let (head, cells) = line.split_once(':')?;
        (head.trim() == name).then_some(cells)
    });
    let cells = cells.unwrap_or_else(|| panic!("no {name} in {out}"));
    let cells = cells.split('(').next().unwrap_or_default();
    cells.split_whitespace().map(str::to_owned).collect()
}

/// Returns one CPU that this process may use.
fn a_cpu() -> usize {
    let allowed = sched_getaffinity(None).expect("it can be asked");
    let cpus = 0..CpuSet::MAX_CPU;
    cpus.rev().find(|&cpu| allowed.is_set(cpu)).expect("one")
}

fn run(place: &Place, arguments: &str) -> (Option<i32>, String, String) {
    place.says(&["noise", "--quick", "-c", &a_cpu().to_string()], arguments)
}

#[test]
fn the_report_is_that_of_oslat() {
    let place = Place::new();
    let (code, out, error) = run(&place, "-b 6 --json result.json");
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let cpu = a_cpu().to_string();
    for (name, value) in [
        ("CPU list", cpu.as_str()),
        ("Workload", "no"),
        ("Core", &cpu),
    ] {
        assert_eq!(row(&out, name), [value]);
    }
    assert!(
        out.contains("Pre-heat for 0.1 seconds...\nTest starts...\nTest completed.\n"),
        "{out}"
    );
    for bucket in 1..=6 {
        assert_eq!(row(&out, &format!("{bucket:03} (us)")).len(), 1);
    }
    assert!(out.contains(" (including overflows)\n"));
    let figure = |name: &str| row(&out, name)[0].parse::<f64>().expect(name);
    assert!(figure("Minimum") <= figure("Average") && figure("Average") <= figure("Maximum"));
    assert_eq!(figure("Maximum") - figure("Minimum"), figure("Max-Min"));
    assert!(figure("Duration") > 0.0 && figure("Counter Freq") > 0.0);

    let result = json_file(&place.path("result.json"));
    let thread = &result["thread"]["0"];
    assert_eq!(thread["max"], figure("Maximum"));
    let counts = thread["histogram"].as_object().expect("an object");
    let counted: u64 = counts.values().filter_map(Value::as_u64).sum();
    let shown = (1..=6).map(|bucket| row(&out, &format!("{bucket:03} (us)"))[0].parse::<u64>());
    assert_eq!(
        shown.map(|count| count.expect("a number")).sum::<u64>(),
        counted
    );
}

#[test]
fn the_json_is_that_of_oslat_and_nothing_else_is_printed() {
    let place = Place::new();
    let (code, out, error) = run(&place, "-z -B --json -");
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let result = json(out.as_bytes());
    assert_has(
        &result,
        "file_version cmdline: rt_test_version: start_time end_time return_code sysinfo num_threads",
    );
    let thread = &result["thread"]["0"];
    assert_has(thread, "cpu freq min avg max duration histogram worker");
    assert_eq!(thread["cpu"], a_cpu());
    assert_eq!(result["cpus"]["chosen"], "named");
    assert_eq!(
        (&result["num_threads"], &result["return_code"]),
        (&1.into(), &0.into())
    );
}

#[test]
fn the_worker_is_part_of_the_loop_and_fires_its_timer() {
    let place = Place::new();
    let (code, out, error) = run(
        &place,
        "-q -z -D 300ms --tick 200us --against bare --json r.json",
    );
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(!out.contains("Pre-heat"), "{out}");
    assert!(row(&out, "#  Worker's turns")[0] != "0", "{out}");
    let result = json_file(&place.path("r.json"));
    let worker = &result["thread"]["0"]["worker"];
    let of = |name: &str| worker[name].as_u64().expect(name);
    assert!(of("fired") >= 1 && of("turns") >= 1, "{worker}");
    assert_eq!(result["stats"]["expired"], of("fired"));
    assert_eq!(of("unparks"), 0, "no thread has business with it");
    let bare = &result["against"]["bare"]["0"];
    assert!(bare["duration"].as_f64() > Some(0.0), "{result}");
    assert!(out.contains("# The same loop without the worker"), "{out}");
}

#[test]
fn a_workload_is_part_of_the_loop_and_a_bias_takes_it_out_of_the_buckets() {
    let place = Place::new();
    let (code, out, error) = run(&place, "-q -B -w memmove -m 4M --json r.json");
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let bias = json_file(&place.path("r.json"))["bias"]
        .as_u64()
        .expect("a number");
    // No memory is so fast that 4 MiB take less.
    assert!(bias > 4, "{bias}");
    assert!(
        out.contains(&format!("\nGlobal bias set to {bias} (us)\n")),
        "{out}"
    );
    assert_eq!(row(&out, &format!("{:03} (us)", bias + 32)).len(), 1);
}

#[test]
fn a_gap_above_the_limit_ends_the_run_and_stops_the_trace() {
    let place = Place::new();
    for name in ["trace_marker", "tracing_on"] {
        fs::write(place.path(name), "").expect("it is new");
    }
    // Before long something takes more than a microsecond.
    let (code, out, error) = run(&place, "-D 1h -T 1 --tracefs . --json r.json");
    assert_eq!(code, Some(1));
    let said = "tickless noise: Trace threshold (1 us) triggered on cpu ";
    assert!(error.starts_with(said), "{error}");
    assert!(error.ends_with(" us!\nStopping the test.\n"), "{error}");
    assert!(
        out.contains("# The kernel's trace was marked and stopped.\n"),
        "{out}"
    );
    let read = |name: &str| fs::read_to_string(place.path(name)).expect("it is there");
    assert_eq!(read("tracing_on"), "0");
    assert!(read("trace_marker").starts_with("tickless noise: "));
    let result = json_file(&place.path("r.json"));
    assert_eq!(result["return_code"], 1);
    assert_eq!(result["threshold"]["cpu"], a_cpu());

    let (code, out, error) = run(&place, "-D 1h -T 1 --tracefs ./nowhere -q");
    assert_eq!((code, error.lines().count()), (Some(1), 2));
    assert!(out.contains("# there is no kernel trace to mark and stop: ./nowhere/trace_marker"));
    assert!(
        out.contains("# The kernel's trace was not stopped.\n"),
        "{out}"
    );
}

#[test]
fn an_interrupted_run_is_whole_whenever_it_was_interrupted() {
    let place = Place::new();
    let cpu = a_cpu().to_string();
    let line = ["noise", "-D", "1h", "-c", &cpu, "--json", "result.json"];
    for awaited in ["Pre-heat for ", "Test starts..."] {
        let (child, mut out, _) = started(&mut place.command(&line));
        let mut last = String::new();
        while !last.starts_with(awaited) {
            last.clear();
            assert_ne!(
                out.read_line(&mut last).expect("text"),
                0,
                "it ended before {awaited}"
            );
        }
        interrupt(&child);
        let mut summary = String::new();
        out.read_to_string(&mut summary)
            .expect("it goes on to its end");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(end(&output), (Some(0), String::new()));
        assert_eq!(row(&summary, "Core"), [cpu.as_str()]);
        assert_eq!(json_file(&place.path("result.json"))["num_threads"], 1);
    }
}

#[test]
fn a_reader_who_left_is_no_error() {
    let place = Place::new();
    let cpu = a_cpu().to_string();
    place.unread(&["noise", "--quick", "-c", &cpu, "--json", "result.json"]);
    assert_eq!(json_file(&place.path("result.json"))["num_threads"], 1);
}

#[test]
fn a_process_with_one_cpu_has_none_to_measure_unless_it_is_named() {
    let machine = tickless::topology::Topology::read().expect("this machine can be read");
    if !machine.isolated().is_empty() {
        return;
    }
    let place = Place::new();
    let cpu = a_cpu();
    let mut one = CpuSet::new();
    one.set(cpu);
    // Of this thread, and so of what it starts.
    sched_setaffinity(None, &one).expect("it is allowed already");
    let (code, error) = end(&place.run(&["noise", "--quick"]));
    assert_eq!(code, Some(3), "{error}");
    assert!(
        error.contains(&format!("all the same with -c {cpu}")),
        "{error}"
    );
    let (code, out, error) = run(&place, "");
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(
        out.contains(&format!("# CPU {cpu} runs the main thread too")),
        "{out}"
    );
}

#[test]
fn nonsense_is_refused_with_what_would_be_right() {
    let place = Place::new();
    // Where the process has one CPU, none is measured that is not named.
    let cpu = a_cpu().to_string();
    place.refuses(
        &["noise", "--quick"],
        &[
            (&["-c", "3-1"], "did you mean \"1-3\"?"),
            (&["-c", "0,,4"], "a comma with nothing beside it"),
            (&["-c", ""], "names no CPU"),
            (&["-c", "a"], "\"a\" in the CPU list"),
            (&["-c", "1-"], "\"1-\" in the CPU list"),
            (&["-c", "60000"], "not one of this machine"),
            (&["-C", "60000"], "CPU 60000 is not one of this machine"),
            (&["-b", "2"], "4..=1024"),
            (&["-f", "0"], "1..=99"),
            (&["-m", "4K"], "add -w memmove"),
            (&["-w", "memmove", "-m", "1X"], "K, M and G are"),
            (&["-w", "dance"], "[possible values: no, memmove]"),
            (&["-D", "ten"], "ns, us, ms, s, m, h and d are"),
            (
                &["-c", &cpu, "--json", "/nowhere/x"],
                "there is no directory /nowhere",
            ),
        ],
    );
    for version in ["-v", "--version"] {
        let output = place.run(&["noise", version]);
        assert_eq!(end(&output), (Some(0), String::new()));
        assert!(text(&output.stdout).contains(env!("CARGO_PKG_VERSION")));
    }
}

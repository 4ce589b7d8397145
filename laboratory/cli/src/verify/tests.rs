//! Tests with traces of runs that keep their promises, traces of runs that break one on purpose, and files that are no
//! traces.

mod hierarchy;

use std::cell::RefCell;
use std::io::Cursor;
use std::rc::Rc;
use std::sync::Arc;

use tickless_sim::draw::Draft;
use tickless_sim::promise::trace::{Findings, PROMISES};
use tickless_sim::record::SharedSink;
use tickless_sim::{Canary, Outcome, Picos, Promise, Scenario, run_recorded};

use super::check;
use super::read::Reader;
use crate::failure::Failure;
use crate::output::{OutFile, Place};
use crate::sim::trace::Writer;

/// Timers of every kind, on CPUs that work, sleep, are isolated, and run the timers of others.
const MIXED: &str = r#"
name = "mixed"
profile = "epyc-128"
cpus = 16
duration = "120 ms"
isolated = "1,9-11"
late_max = "4 ms"

[[workload]]
kind = "cyclictest"
cpus = "9,12"
period = "1 ms"

[[workload]]
kind = "network"
cpus = "2-5"
connections = 16
gap = "1 ms"
work = "5 us"
timeout = "10 ms"
timeout_max = "60 ms"
cancelled = 80

[[workload]]
kind = "polls"
cpus = "1,6-8"
timers = 3
period = "3 ms"
period_max = "20 ms"
work = "5 us"
work_max = "100 us"

[[workload]]
kind = "remote-arms"
cpus = "0"
gap = "2 ms"
timeout = "7 ms"
"#;

fn mixed(canary: Option<Promise>) -> Scenario {
    let mut scenario = Scenario::from_toml(MIXED, "mixed.toml").expect("it is right");
    scenario.canary = canary.map(Canary);
    scenario
}

/// Returns a short scenario with the same timers.
fn short() -> Scenario {
    let mut scenario = mixed(None);
    scenario.duration = Picos::from_millis(12);
    scenario
}

/// Runs the scenario, and returns its outcome with the text of its trace.
fn traced(scenario: &Scenario, seed: u64) -> (Outcome, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("t.jsonl");
    let place = Place::File(path.clone());
    let file = OutFile::prepare(&place).expect("it can be written");
    let writer = Writer::new(file, &place, Arc::default());
    let writer = Rc::new(RefCell::new(writer));
    let outcome = run_recorded(scenario, seed, Rc::clone(&writer) as SharedSink);
    let writer = Rc::into_inner(writer).expect("the run is over");
    writer.into_inner().finish().expect("it is written");
    let text = std::fs::read_to_string(path).expect("it is there");
    (outcome, text)
}

fn verified(text: &str) -> Result<Findings, String> {
    verified_with(text, None)
}

fn verified_with(text: &str, late_max: Option<u64>) -> Result<Findings, String> {
    let input = Box::new(Cursor::new(text.as_bytes().to_vec()));
    let mut reader = Reader::new("t.jsonl".to_owned(), input);
    let checked = reader
        .first()
        .and_then(|_| check(&mut reader, late_max, |_, _| Ok(())));
    checked
        .map(|checked| checked.findings)
        .map_err(|failure| match failure {
            Failure::Input(what) => what,
            Failure::Machine(what) => panic!("{what}"),
        })
}

/// Returns the promises that a trace shows to be broken.
fn broken(findings: &Findings) -> Vec<&'static str> {
    let kept = findings.kept().iter();
    kept.filter(|one| one.broken > 0)
        .map(|one| one.promise)
        .collect()
}

/// Joins the lines, and gives the last line the correct number of lines and no digest.
fn signed(lines: &[&str]) -> String {
    let last = lines.last().expect("there is one");
    let (head, _) = last.split_once("\"lines\"").expect("it is the end");
    let (_, queued) = last.split_once("\"queued\":").expect("it is the end");
    let queued = queued.split(',').next().expect("a number");
    let mut text = lines[..lines.len() - 1].join("\n");
    text.push_str(&format!(
        "\n{head}\"lines\":{},\"queued\":{queued}}}\n",
        lines.len()
    ));
    text
}

fn number(line: &str, key: &str) -> u64 {
    let (_, rest) = line
        .split_once(&format!("\"{key}\":"))
        .expect("the key is there");
    let digits = rest.split([',', '}']).next().expect("there is a value");
    digits.parse().expect("it is a number")
}

#[test]
fn a_world_that_keeps_its_promises_has_a_trace_that_shows_it() {
    let (outcome, text) = traced(&mixed(None), 1);
    assert!(outcome.holds(), "{:?}", outcome.violations);
    let findings = verified(&text).expect("it is a trace");
    assert!(findings.holds(), "{:?}", findings.violations());
    for one in findings.kept() {
        assert!(one.checks > 20 || one.promise == "in_context", "{one:?}");
    }
    assert!(findings.unknown.is_empty());
    // What the simulator counted by itself.
    let count = |event: &str| {
        let event = format!("\"event\":\"{event}\"");
        text.lines().filter(|line| line.contains(&event)).count() as u64
    };
    let counts = outcome.counts;
    assert_eq!(count("timer_expire_entry"), counts.coarse_fires);
    assert_eq!(count("hrtimer_expire_entry"), counts.exact_fires);
    assert_eq!(count("hrtimer_rearm"), counts.device_writes);
    assert_eq!(count("ipi_send_cpu"), counts.ipis);
    assert!(count("tmigr_handle_remote_cpu") >= counts.served && counts.served > 10);
}

#[test]
fn a_trace_is_the_same_each_time_and_recording_changes_nothing() {
    let scenario = mixed(None);
    let (first, text) = traced(&scenario, 3);
    // Other memory is in use now.
    let _kept: Vec<Box<[u8; 640]>> = (0..999).map(|_| Box::new([1; 640])).collect();
    let (second, again) = traced(&scenario, 3);
    assert!(text == again, "the traces differ");
    assert_eq!(first, second);
    assert_eq!(first, tickless_sim::run(&scenario, 3));
}

/// The publication has the first time of its group itself.
#[test]
fn no_publication_follows_another_line_with_the_first_time_of_its_group() {
    let (_, text) = traced(&mixed(None), 1);
    let is = |line: &str, event| line.contains(&format!("\"event\":\"{event}\""));
    let lines: Vec<&str> = text.lines().collect();
    let mut publications = 0;
    for pair in lines
        .windows(2)
        .filter(|pair| is(pair[1], "tmigr_update_events"))
    {
        publications += 1;
        let is_twice = is(pair[0], "tmigr_group_expiry")
            && number(pair[0], "group") == number(pair[1], "group");
        assert!(!is_twice, "{pair:?}");
    }
    assert!(publications > 100, "{publications}");
}

#[test]
fn every_canary_is_caught_in_its_trace() {
    for promise in Promise::ALL {
        if !PROMISES.contains(&promise.name()) {
            continue;
        }
        let (_, text) = traced(&mixed(Some(promise)), 1);
        let findings = verified(&text).expect("it is a trace");
        let broken = broken(&findings);
        assert!(
            broken.contains(&promise.name()),
            "{} is broken, but what is noticed is {broken:?}",
            promise.name()
        );
    }
}

/// The promises that the checkers of a run and those of its trace check at the same moments.
const SAME_MOMENTS: [Promise; 5] = [
    Promise::NeverEarly,
    Promise::NeverLost,
    Promise::BoundedLate,
    Promise::CancelMeansNotRunning,
    Promise::Monotonic,
];

#[test]
fn a_trace_shows_as_many_broken_promises_as_its_run_counts() {
    for canary in SAME_MOMENTS {
        let (outcome, text) = traced(&mixed(Some(canary)), 1);
        let findings = verified(&text).expect("it is a trace");
        for promise in SAME_MOMENTS {
            let mut kept = findings.kept().iter();
            let shown = kept.find(|one| one.promise == promise.name());
            let counted = outcome.broken.get(&promise).copied().unwrap_or(0);
            let (name, canary) = (promise.name(), canary.name());
            assert_eq!(
                shown.map(|one| one.broken),
                Some(counted),
                "{name} with {canary}"
            );
        }
        let alone = tickless_sim::run(&mixed(Some(canary)), 1);
        assert_eq!(
            alone,
            outcome,
            "{} counts the same unrecorded",
            canary.name()
        );
    }
}

#[test]
fn drawn_worlds_are_judged_as_their_own_checkers_judge_them() {
    let seeds = std::env::var("TICKLESS_SEEDS").ok();
    let seeds: u64 = seeds.and_then(|seeds| seeds.parse().ok()).unwrap_or(12);
    for seed in 1..=seeds {
        let mut text = Draft::of(seed).to_toml();
        if seed % 2 == 0 && !text.contains("faults = ") {
            text = format!("faults = \"drawn\"\n{text}");
        }
        let mut scenario = Scenario::from_toml(&text, "drawn.toml").expect("draws are right");
        scenario.duration = scenario.duration.min(Picos::from_millis(40));
        let (outcome, trace) = traced(&scenario, seed);
        let findings = verified(&trace).expect("it is a trace");
        assert_eq!(
            findings.holds(),
            outcome.holds(),
            "{seed}: {:?}, {:?}\n{text}",
            findings.violations(),
            outcome.violations
        );
    }
}

#[test]
fn a_bound_of_ones_own_replaces_that_of_the_trace() {
    let (_, text) = traced(&mixed(None), 1);
    let findings = verified_with(&text, Some(0)).expect("it is a trace");
    let broken = broken(&findings);
    assert!(broken.contains(&"bounded_late"), "{broken:?}");
    // What waits at the end may be overdue, too.
    let known = ["bounded_late", "never_lost"];
    assert!(broken.iter().all(|one| known.contains(one)), "{broken:?}");
}

#[test]
fn a_trace_that_was_edited_is_noticed() {
    let (_, text) = traced(&mixed(None), 1);
    let lines: Vec<&str> = text.lines().collect();
    let place = |event: &str| {
        let event = format!("\"event\":\"{event}\"");
        let all = lines.iter().enumerate().skip(lines.len() / 2);
        let mut all = all.filter(|(_, line)| line.contains(&event));
        all.next().expect("there is one").0
    };
    assert!(verified(&signed(&lines)).expect("it is a trace").holds());
    // A fire less, or a cancel. What a start less breaks depends on whether the timer fires or is cancelled next.
    for (event, promises) in [
        ("timer_expire_entry", &["never_lost"][..]),
        ("hrtimer_expire_entry", &["never_lost"]),
        ("timer_cancel", &["never_lost"]),
        ("hrtimer_start", &["cancel_means_not_running", "never_lost"]),
        ("tmigr_group_set_cpu_active", &["one_migrator"]),
    ] {
        let mut less = lines.clone();
        less.remove(place(event));
        let findings = verified(&signed(&less)).expect("it is a trace");
        let broken = broken(&findings);
        assert!(
            promises.iter().any(|promise| broken.contains(promise)),
            "{event}: {:?}",
            findings.violations()
        );
        // Without a new last line, the number of lines tells.
        let error = verified(&(less.join("\n") + "\n")).expect_err("a line is missing");
        assert!(error.contains("lines: there are"), "{error}");
    }
}

#[test]
fn a_byte_that_is_another_one_is_noticed_wherever_it_is() {
    let (_, text) = traced(&short(), 2);
    let whole = text.len();
    // In all parts of the file, and at the places where the last lines end.
    for place in (0..40)
        .map(|part| part * whole / 40)
        .chain([whole - 2, whole - 1])
    {
        let mut bytes = text.clone().into_bytes();
        bytes[place] ^= 1;
        let flipped = String::from_utf8_lossy(&bytes).into_owned();
        assert!(verified(&flipped).is_err(), "byte {place} was changed");
    }
}

#[test]
fn a_trace_that_is_cut_off_is_refused_wherever_that_is() {
    let (_, text) = traced(&short(), 2);
    let lines: Vec<&str> = text.lines().collect();
    let without_end = lines[..lines.len() - 1].join("\n") + "\n";
    let error = verified(&without_end).expect_err("it does not end");
    let place = format!("t.jsonl:{}: the trace ends here without", lines.len() - 1);
    assert!(error.starts_with(&place), "{error}");
    let error = verified(&text[..text.len() - 1]).expect_err("the last line end is missing");
    assert!(error.contains("the line is cut off"), "{error}");
    for part in 1..30 {
        let cut = &text[..text.len() * part / 30];
        assert!(verified(cut).is_err());
    }
}

/// A small trace, written by hand.
const SMALL: &str = concat!(
    r#"{"format":"tickless-trace","version":1,"unit":"ns","cpus":2,"tick":1000000,"late_max":3000000,"isolated":[1]}"#,
    "\n",
    r#"{"time":10,"cpu":0,"event":"hrtimer_start","hrtimer":0,"of_cpu":0,"clock":"monotonic","#,
    r#""expires":500,"softexpires":500,"was_armed":false}"#,
    "\n",
    r#"{"time":20,"cpu":1,"event":"my_own_event"}"#,
    "\n",
    r#"{"time":510,"cpu":0,"event":"hrtimer_expire_entry","hrtimer":0}"#,
    "\n",
    r#"{"time":520,"cpu":0,"event":"hrtimer_expire_exit","hrtimer":0}"#,
    "\n",
    r#"{"time":1000,"event":"end","lines":6,"queued":null}"#,
    "\n",
);

#[test]
fn timers_on_a_clock_that_may_be_set_go_by_what_it_showed() {
    let text = SMALL.replace("monotonic", "realtime");
    let error = verified(&text).expect_err("what its clock showed is missing");
    assert!(
        error.starts_with("t.jsonl:4: missing field `now`"),
        "{error}"
    );
    for (now, promises) in [(9_500, &[] as &[&str]), (9_499, &["never_early"])] {
        let fires = format!("\"hrtimer\":0,\"now\":{now},\"softexpires\":9500}}\n");
        // Long after 500 of the monotonic clock, or before: that says nothing.
        let text = text.replacen("\"hrtimer\":0}\n", &fires, 1);
        let findings = verified(&text).expect("it is a trace");
        assert_eq!(broken(&findings), promises);
    }
}

#[test]
fn a_timer_that_was_queued_before_is_judged_by_its_expiry() {
    let start = SMALL.lines().nth(1).expect("it starts");
    let queued = r#"{"time":10,"cpu":null,"event":"hrtimer_queued","hrtimer":0}"#;
    let late = 500 + 3_000_000;
    for (now, promises) in [
        (500, &[] as &[&str]),
        (499, &["never_early"]),
        (late, &[]),
        (late + 1, &["bounded_late"]),
    ] {
        let fires = format!("\"hrtimer\":0,\"now\":{now},\"expires\":500,\"softexpires\":500}}\n");
        let text = SMALL.replace(start, queued).replacen(
            "\"hrtimer_expire_entry\",\"hrtimer\":0}\n",
            &format!("\"hrtimer_expire_entry\",{fires}"),
            1,
        );
        let findings = verified(&text).expect("it is a trace");
        assert_eq!(broken(&findings), promises, "{now}");
    }
}

#[test]
fn a_trace_of_another_program_needs_only_what_is_checked() {
    let findings = verified(SMALL).expect("it is a trace");
    assert!(findings.holds());
    let unknown: Vec<_> = findings.unknown.iter().collect();
    assert_eq!(unknown, [(&"my_own_event".to_owned(), &1)]);
    let text = super::text(&findings, 6);
    assert!(
        text.contains("unknown event my_own_event, 1 time: not looked at"),
        "{text}"
    );
    assert!(
        text.contains("one_migrator                   0  nothing to check"),
        "{text}"
    );
}

/// A trace of two CPUs that idle, flush and change a group, and the two lines around those events.
fn of_ticks(events: &[&str]) -> Result<Vec<&'static str>, String> {
    let first = concat!(
        r#"{"format":"tickless-trace","version":1,"unit":"ns","scenario":"t","profile":"p","seed":1,"#,
        r#""library":"0","cpus":2,"tick":1000000,"late_max":1,"isolated":[]}"#
    );
    let group = r#"{"time":0,"cpu":null,"event":"tmigr_group_set","group":0,"lvl":0,"numa":0}"#;
    let events: Vec<_> = events.iter().map(|event| (0, *event)).collect();
    by_hand(&[first, group], &events)
}

/// Returns the broken promises of a trace of the lines `begin` and of events, each with the CPU that executes it.
fn by_hand(begin: &[&str], events: &[(u32, &str)]) -> Result<Vec<&'static str>, String> {
    let mut text = begin.join("\n") + "\n";
    for (cpu, event) in events {
        text.push_str(&format!("{{\"time\":1,\"cpu\":{cpu},\"event\":{event}}}\n"));
    }
    let lines = begin.len() + events.len() + 1;
    text.push_str(&format!(
        "{{\"time\":9,\"event\":\"end\",\"lines\":{lines},\"queued\":0}}\n"
    ));
    verified(&text).map(|findings| broken(&findings))
}

#[test]
fn ticks_flushes_and_changes_of_groups_are_followed() {
    const STOP: &str = r#""tick_stop","of_cpu":0,"wake":7"#;
    const START: &str = r#""tick_start","of_cpu":0,"due":8"#;
    const LEFT: &str = r#""tick_evaluate","of_cpu":0,"kept":null,"wake":7"#;
    const KEPT: &str = r#""tick_evaluate","of_cpu":0,"kept":"soon","wake":null"#;
    const BEGIN: &str = r#""tick_idle_begin","of_cpu":0"#;
    const END: &str = r#""tick_idle_end","of_cpu":0"#;
    const FLUSH: &str = r#""hrtimer_flush","of_cpu":0,"point":"kernel_exit","stale":false"#;
    const REARM: &str = r#""hrtimer_rearm","of_cpu":0,"next":7,"deferred":true"#;
    const FIRST: &str =
        r#""tmigr_group_set_cpu_active","group":0,"childmask":1,"active":1,"migrator":1,"seq":4"#;
    const SECOND: &str =
        r#""tmigr_group_set_cpu_active","group":0,"childmask":2,"active":3,"migrator":1,"seq":5"#;
    const THIRD: &str =
        r#""tmigr_group_set_cpu_inactive","group":0,"childmask":2,"active":1,"migrator":1,"seq":6"#;
    let good: &[&[&str]] = &[
        &[BEGIN, STOP, LEFT, LEFT, END, START, KEPT, BEGIN, STOP, LEFT],
        // A recording begins in the middle.
        &[START, END, KEPT],
        &[FLUSH, REARM, FLUSH, REARM],
        &[REARM, REARM],
        &[FIRST, SECOND, THIRD],
        // A CPU tells of its change after the next one.
        &[FIRST, THIRD, SECOND],
    ];
    for events in good {
        assert_eq!(of_ticks(events), Ok(vec![]), "{events:?}");
    }
    let bad: &[(&str, &[&str])] = &[
        ("ticks_in_turn", &[STOP, LEFT, STOP, LEFT]),
        ("ticks_in_turn", &[START, START]),
        ("ticks_in_turn", &[BEGIN, BEGIN]),
        ("ticks_in_turn", &[END, END]),
        ("ticks_in_turn", &[STOP, KEPT]),
        ("ticks_in_turn", &[START, LEFT]),
        ("flushed_once", &[FLUSH, REARM, REARM]),
        ("one_migrator", &[FIRST, THIRD]),
        ("one_migrator", &[FIRST, SECOND, SECOND]),
    ];
    for (promise, events) in bad {
        assert_eq!(of_ticks(events), Ok(vec![*promise]), "{events:?}");
    }
}

/// Changes of a trace: what is replaced by what, and the resulting message. Without a first part, all is replaced.
const WRONG: &str = r#"
 => name = "no trace" => 1: the line is no JSON
 => {"a":1} => 1: missing field `format`
 => [1] => 1: invalid type: sequence
"version":1 => "version":2 => 1: version: version 2 is not known; 1 is
"ns" => "ps" => 1: unit: "ps" is not known; "ns" is
"cpus":2 => "cpus":0 => 1: cpus: 0 is not a number of CPUs from 1 on
"isolated":[1] => "isolated":[2] => 1: isolated: there is no CPU 2 of 2
"tick":1000000, =>  => 1: missing field `tick`
"tick":1000000 => "tick":0 => 1: tick: 0 is not a number of nanoseconds
"expires":500, =>  => 2: missing field `expires`
"expires":500, => "expires":"x", => 2: invalid type: string "x", expected i64
"softexpires":500 => "softexpires":501 => 2: softexpires: 501 is after expires
"of_cpu":0 => "of_cpu":2 => 2: there is no CPU 2; the last one is 1
"was_armed":false => "was_armed":0 => 2: invalid type: integer `0`, expected a boolean
"time":520 => "time":500 => 5: time: CPU 0 did something at 510 already
"time":520 => "time":-0.5 => 5: invalid type: floating point `-0.5`, expected i64
{"time":520 => {{"time":520 => 5: the line is no JSON (key must be a string, column 2)
"time":520,"cpu":0 => "time":520 => 5: missing field `cpu`
"lines":6 => "lines":7 => 6: lines: there are 6 lines, and it says 7; record
null} => null}\n{} => 7: there is more after the line that says
null} => null,"digest":"00"} => 6: digest: the lines before have
my_own_event" => tmigr_cpu_wakeup" => 3: missing field `of_cpu`
"my_own_event" => "tmigr_group_expiry","group":0,"next_expiry":null => 3: there is no group 0; none was told of before
"my_own_event" => "cpu_idle","wakes":null => 3: missing field `state`
"#;

#[test]
fn what_is_wrong_is_told_with_its_place_its_key_and_what_would_be_right() {
    let error = verified("").expect_err("it is empty");
    assert!(error.starts_with("t.jsonl:1: the file is empty; a trace begins with {\"format\""));
    for line in WRONG.trim_matches('\n').lines() {
        let [from, to, said] = line.split(" => ").collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let to = to.replace("\\n", "\n");
        let text = match from {
            "" | " " => to + "\n",
            from => SMALL.replacen(from, &to, 1),
        };
        let error = verified(&text).expect_err(said);
        assert!(
            error.starts_with(&format!("t.jsonl:{said}")),
            "{error}\nis not\n{said}"
        );
    }
}

#[test]
fn what_is_odd_but_possible_is_no_panic() {
    let never = i64::MAX.to_string();
    for (from, to) in [
        (
            "\"expires\":500,\"softexpires\":500",
            format!("\"expires\":{never},\"softexpires\":-{never}"),
        ),
        (
            "\"tick\":1000000,\"late_max\":3000000",
            format!("\"tick\":{0},\"late_max\":{0}", u64::MAX),
        ),
        ("\"time\":510", format!("\"time\":-{never}")),
        ("\"time\":1000,", format!("\"time\":{never},")),
    ] {
        let _any = verified(&SMALL.replace(from, &to));
    }
    let coarse = "\"event\":\"timer_start\",\"timer\":7,\"of_cpu\":1,\"flags\":\"global\",\"now\":0,\
        \"expires\":18446744073709551615,\"bucket_expiry\":18446744073709551615,\"was_armed\":true";
    let findings =
        verified(&SMALL.replace("\"event\":\"my_own_event\"", coarse)).expect("it is one");
    assert_eq!(broken(&findings), ["never_lost"]);
}

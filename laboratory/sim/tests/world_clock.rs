//! Tests of machines whose counters are wrong and whose clocks are set: every promise holds, and every reaction comes
//! in time.

mod support;

use tickless_sim::{FaultKind, Outcome, Picos, Promise, Scenario, run};

use support::{kept, read, refusal, rows};

/// Alarms on all clocks that may be set, together with sleepers and timeouts; CPU 7 has only alarms.
const BASE: &str = r#"
name = "clocks"
profile = "skl-112"
cpus = 8
duration = "400 ms"

[[workload]]
kind = "alarms"
cpus = "0,7"
clock = "realtime"
timers = 3
period = "2 ms"
period_max = "40 ms"

[[workload]]
kind = "alarms"
cpus = "1,6"
clock = "boottime"
timers = 2
period = "3 ms"
period_max = "30 ms"

[[workload]]
kind = "alarms"
cpus = "2"
clock = "tai"
timers = 1
period = "5 ms"

[[workload]]
kind = "cyclictest"
cpus = "3"
period = "500 us"

[[workload]]
kind = "network"
cpus = "4-5"
connections = 16
gap = "400 us"
work = "5 us"
timeout = "5 ms"
timeout_max = "60 ms"
cancelled = 80

[[workload]]
kind = "daemons"
cpus = "all"
tasks = 1
period = "10 ms"
period_max = "90 ms"
work = "20 us"
work_max = "900 us"
"#;

fn scenario(more: &str) -> Scenario {
    read(&format!("{BASE}\n{more}"))
}

/// Runs the scenario with `more` twice for each of several seeds, and checks that every promise holds. Returns the
/// first outcome.
fn holds_with(more: &str) -> Outcome {
    let scenario = scenario(more);
    let mut first = None;
    for seed in 1..5 {
        let outcome = kept(&scenario, seed);
        first.get_or_insert(outcome);
    }
    first.expect("there are seeds")
}

fn count(outcome: &Outcome, kind: FaultKind) -> u64 {
    outcome.fault_counts[kind.name()]
}

fn fault(fields: &str) -> String {
    format!("[[fault]]\n{fields}\n")
}

#[test]
fn counters_of_any_shape_keep_every_promise() {
    for fields in [
        "frequency = \"2.5 GHz\"",
        "frequency = \"14.318 MHz\"\nbits = 32\nwraps_at = \"100 ms\"",
        "frequency = \"3579 kHz\"\nbits = 24\nwraps_at = \"1 ms\"",
        "frequency = \"2 GHz\"\nbits = 64\nwraps_at = \"200 ms\"",
        "frequency = \"1 GHz\"\nbits = 32",
        "error_ppm = 500",
        "error_ppm = -500",
        "skew = \"50 us\"",
        "frequency = \"24 MHz\"\nbits = 56\nerror_ppm = 20\nskew = \"3 us\"\nwraps_at = \"77 ms\"",
    ] {
        let outcome = holds_with(&format!("[counter]\n{fields}\n"));
        assert!(outcome.counts.wall_fires > 500, "{fields}");
        assert!(outcome.counts.clock_reads > 5_000, "{fields}");
    }
}

/// TIM-21: the counter's record is updated before the counter has advanced by half its range, even if all CPUs sleep.
#[test]
fn a_counter_that_wraps_all_the_time_is_read_often_enough() {
    let text = "name = \"wraps\"\nprofile = \"skl-112\"\ncpus = 2\nduration = \"6 s\"\n\
                [counter]\nfrequency = \"24 MHz\"\nbits = 24\n\
                [[workload]]\nkind = \"alarms\"\ncpus = \"1\"\nclock = \"tai\"\ntimers = 1\nperiod = \"2 s\"\n";
    let scenario = read(text);
    let outcome = run(&scenario, 1);
    assert!(outcome.holds(), "{:?}", outcome.violations);
    assert_eq!(
        outcome.counts.wall_fires, 3,
        "atomic time is odd when it begins"
    );
    assert!(outcome.late_exact.max() < Picos::from_micros(300));
    assert!(outcome.deep_idle_permille() > 900);
}

/// TIM-43: the host switches to another counter before the first CPU sleeps deeply, and reads that counter from then
/// on.
#[test]
fn a_counter_that_stops_in_deep_idle_is_replaced_before() {
    let stops = "[counter]\nfrequency = \"2 GHz\"\nstops_in_deep_idle = true\n";
    let outcome = holds_with(stops);
    let goes_on = holds_with("[counter]\nfrequency = \"2 GHz\"\n");
    assert!(outcome.deep_idle_permille() > 0);
    let each = |outcome: &Outcome| outcome.counts.clock_reading.0 / outcome.counts.clock_reads;
    assert!(each(&outcome) > 10 * each(&goes_on), "the stand-in is slow");
}

#[test]
fn steps_of_the_time_of_day_move_alarms_and_nothing_else() {
    let step = |amount: &str, at: &str| {
        fault(&format!(
            "kind = \"clock-step\"\namount = \"{amount}\"\nat = \"{at}\"\ncpus = \"5\""
        ))
    };
    let forward = holds_with(&step("1 h", "101.3 ms").replace("1 h", "3600 s"));
    assert_eq!(count(&forward, FaultKind::ClockStep), 1);
    let back = holds_with(&step("-100 ms", "101.3 ms"));
    let without = holds_with("");
    // A tenth of a second is there twice, and nothing fires in it the second time.
    assert!(back.counts.wall_fires + 60 < without.counts.wall_fires);
    assert!(
        forward
            .counts
            .wall_fires
            .abs_diff(without.counts.wall_fires)
            < 20
    );
    let often = fault("kind = \"clock-step\"\namount = \"+30 ms\"\nevery = \"9 ms\"");
    let back_often = fault("kind = \"clock-step\"\namount = \"-7 ms\"\nevery = \"11 ms\"");
    let both = holds_with(&format!("{often}{back_often}"));
    assert!(count(&both, FaultKind::ClockStep) > 60);
}

/// A step of the clock can make the alarm of an idle CPU due. The alarm does not wait for that CPU's next wake-up:
/// another CPU notifies the idle CPU (TIM-30).
#[test]
fn an_idle_cpu_is_told_of_a_step() {
    let text = "name = \"told\"\nprofile = \"skl-112\"\ncpus = 2\nduration = \"100 ms\"\n\
                [[workload]]\nkind = \"alarms\"\ncpus = \"1\"\nclock = \"realtime\"\ntimers = 1\nperiod = \"1000 s\"\n\
                [[fault]]\nkind = \"clock-step\"\ncpus = \"0\"\nat = \"20 ms\"\namount = \"2000 s\"\n";
    let scenario = read(text);
    let outcome = run(&scenario, 1);
    assert!(outcome.holds(), "{:?}", outcome.violations);
    assert_eq!(outcome.counts.wall_fires, 1);
    let late = outcome.late_exact.max();
    assert!(late < Picos::from_micros(300), "{late}");
}

#[test]
fn leap_seconds_are_kept() {
    let leap = |leap: &str| {
        fault(&format!(
            "kind = \"leap-second\"\nat = \"50.05 ms\"\nleap = \"{leap}\""
        ))
    };
    let inserted = holds_with(&leap("insert"));
    assert_eq!(count(&inserted, FaultKind::LeapSecond), 1);
    let deleted = holds_with(&leap("delete"));
    // The time of day stands still for the rest of the run.
    assert!(inserted.counts.wall_fires + 100 < deleted.counts.wall_fires);
}

#[test]
fn sleep_moves_what_counts_it_and_devices_are_written_again() {
    let sleep = fault("kind = \"suspend\"\namount = \"200 ms\"\nevery = \"31 ms\"");
    let outcome = holds_with(&sleep);
    let without = holds_with("");
    assert!(count(&outcome, FaultKind::Suspend) > 8);
    assert!(outcome.counts.wall_fires * 3 > without.counts.wall_fires * 2);
    let days = fault("kind = \"suspend\"\namount = \"700000 s\"\nat = \"200 ms\"");
    holds_with(&format!(
        "{days}[counter]\nfrequency = \"14.318 MHz\"\nbits = 32\n"
    ));
}

/// All changes of clocks happen at once, together with the other faults.
#[test]
fn clocks_change_while_everything_else_goes_wrong() {
    let all = [
        "kind = \"clock-step\"\namount = \"-2 ms\"\nevery = \"7 ms\"",
        "kind = \"clock-step\"\namount = \"2.5 ms\"\nevery = \"6 ms\"",
        "kind = \"suspend\"\namount = \"3 s\"\nevery = \"40 ms\"",
        "kind = \"leap-second\"\nat = \"150 ms\"",
        "kind = \"leap-second\"\nat = \"250 ms\"\nleap = \"delete\"",
        "kind = \"frequency\"\nppm = 200\nevery = \"30 ms\"",
        "kind = \"offline\"\ncpus = \"1-6\"\namount = \"3 ms\"\nevery = \"9 ms\"",
        "kind = \"stall\"\ncpus = \"all\"\namount = \"1 ms\"\nevery = \"9 ms\"",
        "kind = \"isolate\"\ncpus = \"2-7\"\nevery = \"5 ms\"",
        "kind = \"meddle\"\ncpus = \"all\"\namount = \"700 us\"\nevery = \"8 ms\"",
        "kind = \"lost\"\ncpus = \"all\"\none_in = 40\namount = \"1 ms\"",
    ];
    let all: String = all.into_iter().map(fault).collect();
    let outcome = holds_with(&format!(
        "{all}[counter]\nfrequency = \"24 MHz\"\nbits = 32\nerror_ppm = -40\nskew = \"1 us\"\nwraps_at = \"120 ms\"\n"
    ));
    for kind in FaultKind::ALL
        .into_iter()
        .filter(|kind| kind.is_of_clocks())
    {
        let times = count(&outcome, kind);
        // Two tables set the clock, the faster one each 3 ms at most. Those that had to wait come once, too.
        assert!((1..=400 / 3 * 2).contains(&times), "{kind:?} {times}");
    }
}

/// The ticks of all CPUs occur at the same time, and read the counter one after the other.
#[test]
fn a_slow_counter_takes_its_share_of_all_cpus() {
    let text = include_str!("../scenarios/compute.toml").replace("\"1 s\"", "\"60 ms\"");
    let mut scenario = read(&text);
    let slow = run(&scenario, 1);
    assert!(slow.holds(), "{:?}", slow.violations);
    scenario.slow_counter = false;
    let fast = run(&scenario, 1);
    assert!(slow.clock_reading_ppm() > 20 * fast.clock_reading_ppm());
    let jobs = |outcome: &Outcome| outcome.jobs_per_minute().expect("it has jobs");
    assert!(jobs(&slow) < jobs(&fast));
}

/// Spec C-6.4: all CPUs that tick at the same time share one read, in place of one read each.
#[test]
fn combined_reads_are_fewer_and_shorter() {
    let text = include_str!("../scenarios/compute.toml").replace("\"1 s\"", "\"60 ms\"");
    let mut scenario = read(&text);
    let direct = run(&scenario, 1);
    scenario.policy.reads = tickless_sim::baseline::Reads::Combined;
    let combined = run(&scenario, 1);
    assert!(combined.holds(), "{:?}", combined.violations);
    assert_eq!(direct.counts.slow_reads, direct.counts.clock_reads);
    assert!(combined.counts.slow_reads * 2 < combined.counts.clock_reads);
    assert!(combined.clock_reading_ppm() * 5 < direct.clock_reading_ppm());
}

/// The mistakes, each with a part of the error.
const WRONG: &str = r#"
[counter]\nfrequency = "14 mhz"\n | kHz, MHz or GHz
[counter]\nfrequency = "20 GHz"\n | 1 MHz to 10 GHz
[counter]\nbits = 8\n | 24 to 64
[counter]\nbits = 65\n | 24 to 64
[counter]\nerror_ppm = 501\n | -500 to 500
[counter]\nskew = "1 ms"\n | 100 us at most
[counter]\nwraps_at = "soon"\n | a number and a unit
[counter]\nwrap = 1\n | expected one of
[policy]\nreads = "by turns"\n | expected
[[workload]]\nkind = "alarms"\ncpus = "0"\ntimers = 1\nperiod = "1 ms"\n | needs the field clock
[[workload]]\nkind = "alarms"\ncpus = "0"\ntimers = 1\nperiod = "1 ms"\nclock = "monotonic"\n | realtime, boottime, tai
[[workload]]\nkind = "busy"\ncpus = "0"\nclock = "tai"\n | has no field clock
[[fault]]\nkind = "clock-step"\nat = "1 ms"\n | needs the field amount
[[fault]]\nkind = "clock-step"\nat = "1 ms"\namount = "-0 s"\n | amount is nothing
[[fault]]\nkind = "clock-step"\nat = "1 ms"\namount = "1 ps"\n | 1 ns to a year
[[fault]]\nkind = "clock-step"\namount = "1 s"\n | does not say when
[[fault]]\nkind = "clock-step"\none_in = 3\namount = "1 s"\n | write at or every
[[fault]]\nkind = "clock-step"\nat = "1 ms"\namount = "1 s"\nppm = 3\n | has no field ppm
[[fault]]\nkind = "frequency"\nat = "1 ms"\n | needs the field ppm
[[fault]]\nkind = "frequency"\nat = "1 ms"\nppm = -501\n | -500 to 500
[[fault]]\nkind = "frequency"\nat = "1 ms"\nppm = "fast"\n | invalid type
[[fault]]\nkind = "leap-second"\nevery = "1 ms"\n | write at
[[fault]]\nkind = "leap-second"\nat = "1 ms"\nleap = "twice"\n | insert or delete
[[fault]]\nkind = "leap-second"\nat = "10 ms"\n[[fault]]\nkind = "leap-second"\nat = "20 ms"\n | one at most
[[fault]]\nkind = "leap-second"\nat = "900 ms"\n | the run is over by then
[[fault]]\nkind = "late"\ncpus = "0"\nat = "1 ms"\namount = "1 us"\nleap = "insert"\n | no field leap
[[fault]]\nkind = "late"\nat = "1 ms"\namount = "1 us"\n | needs the field cpus
[[fault]]\nkind = "suspend"\nat = "1 ms"\namount = "0 s"\n | amount is nothing
[[fault]]\nkind = "suspend"\nat = "1 ms"\namount = "-1 s"\n | is not a time
"#;

#[test]
fn nonsense_about_clocks_is_refused_with_what_would_be_right() {
    for [more, right] in rows(WRONG) {
        let error = refusal(&format!("{BASE}\n{more}"));
        assert!(error.starts_with("s.toml:"), "{error}");
        assert!(error.contains(&right), "{more}{error}");
    }
}

/// The checkers find the faults of a wrong clock: the same scenario runs on machines that break a promise.
#[test]
fn the_checkers_see_alarms_that_go_wrong() {
    for promise in [
        Promise::NeverEarly,
        Promise::Monotonic,
        Promise::BoundedLate,
    ] {
        let mut scenario = scenario("[counter]\nfrequency = \"24 MHz\"\nbits = 32\n");
        scenario.canary = Some(tickless_sim::Canary(promise));
        let outcome = run(&scenario, 1);
        assert!(
            outcome.broken.contains_key(&promise),
            "{promise:?} {:?}",
            outcome.broken
        );
    }
}

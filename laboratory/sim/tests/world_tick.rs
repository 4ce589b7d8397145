//! Tests of machines whose ticks stop: in idle states in which the CPU's own device stops too, and while a task runs.

mod support;

use tickless_sim::{Outcome, Picos, Scenario, run};

use support::{are_refused, kept, read, with};

/// Tasks that sleep for long, tasks that are woken often, and timers that move.
const SLEEPY: &str = r#"
name = "sleepy"
profile = "skl-112"
cpus = 14
duration = "300 ms"
late_max = "4 ms"
stops_in = "C6"
broadcast = "device"

[[workload]]
kind = "cyclictest"
cpus = "3,9"
period = "1700 us"

[[workload]]
kind = "daemons"
cpus = "0-7"
tasks = 2
period = "5 ms"
period_max = "80 ms"
work = "20 us"
work_max = "900 us"

[[workload]]
kind = "polls"
cpus = "6-8"
timers = 3
period = "3 ms"
period_max = "50 ms"
work = "5 us"
work_max = "100 us"

[[workload]]
kind = "duty"
cpus = "10-12"
work = "30 us"
gap = "4 ms"
"#;

fn sleepy(from: &str, to: &str) -> Scenario {
    read(&with(SLEEPY, from, to))
}

fn time_in(outcome: &Outcome, name: &str) -> Picos {
    let mut states = outcome.residency.iter();
    states.find(|state| state.state == name).unwrap().time
}

#[test]
fn a_device_wakes_cpus_whose_own_has_stopped() {
    for seed in 1..6 {
        let outcome = kept(&sleepy("device", "device"), seed);
        let goes_on = kept(&sleepy("stops_in = \"C6\"", ""), seed);
        assert!(outcome.counts.broadcasts > 500, "{:?}", outcome.counts);
        assert_eq!(goes_on.counts.broadcasts, 0);
        // They sleep as deeply as those whose device goes on, or nearly so.
        let (deep, own) = (time_in(&outcome, "C6"), time_in(&goes_on, "C6"));
        assert!(
            deep.0 > own.0 / 100 * 95 && own > Picos::ZERO,
            "{deep} {own}"
        );
    }
}

#[test]
fn a_timer_wakes_cpus_whose_device_has_stopped() {
    for seed in 1..6 {
        let timer = kept(&sleepy("\"device\"", "\"timer\""), seed);
        let device = run(&sleepy("device", "device"), seed);
        assert!(timer.counts.broadcasts > 300, "{:?}", timer.counts);
        // The CPU that carries it sleeps less deeply.
        let (less, deep) = (time_in(&timer, "C6"), time_in(&device, "C6"));
        assert!(less < deep && less.0 > deep.0 / 2, "{less} {deep}");
    }
}

#[test]
fn without_anything_that_wakes_them_no_device_stops() {
    let outcome = kept(&sleepy("broadcast = \"device\"", ""), 1);
    assert_eq!(time_in(&outcome, "C6"), Picos::ZERO);
    assert_eq!(outcome.counts.broadcasts, 0);
    assert!(time_in(&outcome, "C1E").0 > outcome.duration.0);
}

/// Pollers, most of them on isolated CPUs, together with tasks that have timers of their own.
const POLLERS: &str = r#"
name = "pollers"
profile = "epyc-128"
cpus = 8
duration = "300 ms"
late_max = "4 ms"
isolated = "1-5"
tickless = "1-6"

[[workload]]
kind = "oslat"
cpus = "1-3,6"

[[workload]]
kind = "network"
cpus = "0,4,7"
connections = 16
gap = "700 us"
work = "10 us"
timeout = "5 ms"
timeout_max = "100 ms"
cancelled = 60

[[workload]]
kind = "daemons"
cpus = "4-5,7"
tasks = 1
period = "9 ms"
period_max = "40 ms"
work = "20 us"
work_max = "900 us"
"#;

fn pollers(more: &str) -> Scenario {
    read(&format!("{POLLERS}{more}"))
}

/// Returns the number of timer interrupts of the group that consists of `cpus`.
fn interrupts(outcome: &Outcome, cpus: &[u32]) -> u64 {
    let mut groups = outcome.groups.iter();
    let group = groups.find(|group| group.cpus == cpus);
    group
        .expect("they are alike, and no other is")
        .tally
        .interrupts
}

#[test]
fn a_task_that_is_alone_runs_without_a_tick() {
    let outcome = kept(&pollers(""), 1);
    let ticking = kept(&sleepless(""), 1);
    for cpu in [1, 2, 3, 6] {
        let theft = |outcome: &Outcome| outcome.per_cpu[cpu].longest_theft;
        assert!(theft(&ticking) > Picos::ZERO);
        // Once, until a CPU counts.
        let ticks = theft(&outcome).0 < 2 * theft(&ticking).0;
        assert!(ticks, "{} {}", theft(&outcome), theft(&ticking));
    }
    assert!(interrupts(&ticking, &[1, 2, 3]) > 3 * 290);
    assert_eq!(interrupts(&outcome, &[1, 2, 3]), 3);
    // Its first tick may come before a CPU counts: devices do not fire at the same moment.
    assert!((1..=2).contains(&interrupts(&outcome, &[6])));
}

/// Makes the scenario with a tick that is not stopped while a task runs.
fn sleepless(more: &str) -> Scenario {
    let text = with(POLLERS, "tickless = \"1-6\"", "");
    read(&format!("{text}{more}"))
}

#[test]
fn a_task_that_needs_the_tick_keeps_it() {
    let text = POLLERS.replacen("\"1-3,6\"", "\"1-3,6\"\nneeds_tick = true", 1);
    let outcome = kept(&read(&text), 1);
    let thefts = |outcome: &Outcome| outcome.series("theft").unwrap().count();
    let ticking = thefts(&kept(&sleepless(""), 1));
    assert_eq!(thefts(&outcome), ticking);
}

#[test]
fn two_tasks_of_a_cpu_need_the_tick() {
    let other = "\n[[workload]]\nkind = \"busy\"\ncpus = \"6\"\n";
    let outcome = kept(&pollers(other), 1);
    assert!(interrupts(&outcome, &[6]) > 290);
}

#[test]
fn timers_from_elsewhere_are_run_without_a_tick() {
    let other = "\n[[workload]]\nkind = \"remote-arms\"\ncpus = \"0\"\ngap = \"2 ms\"\ntimeout = \"7 ms\"\n";
    for seed in 1..6 {
        let outcome = kept(&pollers(other), seed);
        let quiet = kept(&pollers(""), seed);
        assert!(outcome.counts.coarse_fires > quiet.counts.coarse_fires + 50);
    }
}

/// The mistakes, each with a text, its replacement, and the error.
const WRONG: &str = r#"
"C6" | "C3" | s.toml:7: stops_in: there is no idle state "C3"; one of C1, C1E, C6
"C6" | "poll" | s.toml:7: stops_in: no state would be left in which the device goes on, as poll is the shallowest; one of
broadcast = "device" | broadcast = "hpet" | s.toml:8: broadcast: unknown variant `hpet`; expected `device` or `timer`
"#;

#[test]
fn wrong_files_say_where_and_what_would_be_right() {
    are_refused(SLEEPY, WRONG);
}

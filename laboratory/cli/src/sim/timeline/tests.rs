use std::cell::RefCell;
use std::rc::Rc;

use tickless_sim::record::{End, Header, MachineEvent, Record, Recorded, SharedSink, Sink};
use tickless_sim::{Outcome, Picos, Scenario, run_recorded};

use super::lanes::{Lanes, Mark};
use super::state::Activity;
use super::{Part, Picture, Window, section};

const MIXED: &str = r#"
name = "mixed"
profile = "skl-112"
cpus = 14
duration = "40 ms"
isolated = "3"

[[workload]]
kind = "duty"
cpus = "0-2"
work = "150 us"
gap = "2 ms"

[[workload]]
kind = "polls"
cpus = "3-13"
timers = 2
period = "2 ms"
period_max = "9 ms"
work = "5 us"
work_max = "40 us"
"#;

fn drawn(text: &str, from: Option<u64>, length: u64) -> (Outcome, Option<Picture>) {
    let scenario = Scenario::from_toml(text, "mixed.toml").expect("it is right");
    let window = Rc::new(RefCell::new(Window::new(Part { from, length })));
    let outcome = run_recorded(&scenario, 1, Rc::clone(&window) as SharedSink);
    let window = Rc::into_inner(window).expect("the run is over");
    (outcome, window.into_inner().picture())
}

#[test]
fn lanes_say_what_the_figures_of_the_run_say() {
    let whole = 40_000_000;
    let (outcome, picture) = drawn(MIXED, Some(0), whole);
    let lanes = Lanes::of(&picture.expect("there is one"));
    assert_eq!(lanes.cpus.len(), 14);
    for (cpu, spans) in &lanes.cpus {
        let mut at = 0;
        for span in spans {
            assert!(span.from == at && span.to > at, "CPU {cpu}: {span:?}");
            at = span.to;
        }
        assert_eq!(at, whole, "CPU {cpu}");
        let is_idle = |what: &Activity| matches!(what, Activity::Idle(_));
        let idle = spans.iter().filter(|span| is_idle(&span.what));
        let idle: u64 = idle.map(|span| span.to - span.from).sum();
        let counted = outcome.per_cpu[*cpu as usize].residency.iter();
        let counted = counted
            .fold(Picos::ZERO, |sum, time| sum + *time)
            .as_nanos();
        // Each span begins and ends in a whole nanosecond.
        let rounded = spans.len() as u64;
        assert!(
            idle.abs_diff(counted) <= rounded,
            "CPU {cpu}: {idle} and {counted}"
        );
    }
    let remote = lanes
        .marks
        .iter()
        .filter(|mark| matches!(mark.2, Mark::Remote(_)));
    assert_eq!(remote.count() as u64, outcome.counts.remote_fires);
    assert!(outcome.counts.remote_fires > 10);
    for (group, spans) in &lanes.groups {
        let times = spans.iter().map(|span| span.to - span.from);
        assert_eq!(times.sum::<u64>(), whole, "group {group}");
        let right = spans.iter().all(|span| match span.what {
            (None, active) => active.is_empty(),
            (Some(migrator), active) => active.contains(migrator),
        });
        assert!(right, "{spans:?}");
    }
    assert_eq!(lanes.groups.len(), 3);
    assert!(!lanes.promises.is_empty());
    for promise in &lanes.promises {
        assert!(promise.what.wakeup >= promise.from, "{promise:?}");
    }
}

#[test]
fn a_part_is_what_the_whole_has_there() {
    let (_, whole) = drawn(MIXED, Some(0), 40_000_000);
    let (_, part) = drawn(MIXED, Some(21_000_000), 3_000_000);
    let (whole, part) = (whole.expect("one"), part.expect("one"));
    assert_eq!((part.from, part.to), (21_000_000, 24_000_000));
    assert!(part.records.len() < whole.records.len() / 5);
    let (whole, part) = (Lanes::of(&whole), Lanes::of(&part));
    for (cpu, spans) in &part.cpus {
        let clipped = whole.cpus[cpu].iter().filter(|span| span.to > 21_000_000);
        let clipped = clipped.filter(|span| span.from < 24_000_000);
        let kinds: Vec<&Activity> = clipped.map(|span| &span.what).collect();
        let drawn: Vec<&Activity> = spans.iter().map(|span| &span.what).collect();
        assert_eq!(drawn, kinds, "CPU {cpu}");
    }
}

#[test]
fn without_a_wish_it_is_about_the_latest_timer() {
    let (outcome, picture) = drawn(MIXED, None, 2_000_000);
    let picture = picture.expect("there is one");
    let latest = picture.latest.expect("timers fired");
    let all = [&outcome.late_own, &outcome.late_remote, &outcome.late_exact];
    let max = all
        .map(|times| times.max())
        .into_iter()
        .max()
        .expect("three");
    assert_eq!(latest.late, max.as_nanos());
    assert!(
        picture.from < latest.at && latest.at < picture.to,
        "{latest:?}"
    );
    assert_eq!(picture.to - picture.from, 2_000_000);
}

#[test]
fn only_the_part_is_kept_however_long_the_run_is() {
    let mut window = Window::new(Part {
        from: None,
        length: 1_000,
    });
    window.begin(&Header {
        scenario: String::new(),
        profile: String::new(),
        seed: 1,
        library: "0",
        cpus: 1,
        tick: 1_000_000,
        late_max: 0,
        isolated: Vec::new(),
    });
    for time in (0..1_000_000).step_by(10) {
        window.take(&Record {
            time,
            cpu: Some(0),
            what: Recorded::Machine(MachineEvent::ClockRead { now: 0 }),
        });
        assert!(window.kept() <= 101, "{} at {time}", window.kept());
    }
    window.end(End {
        time: 1_000_000,
        queued: 0,
    });
    let picture = window.picture().expect("there is one");
    assert_eq!((picture.from, picture.to), (999_000, 1_000_000));
}

#[test]
fn what_comes_after_the_end_has_no_picture() {
    assert!(drawn(MIXED, Some(40_000_000), 1_000).1.is_none());
}

#[test]
fn a_large_machine_shows_the_groups_that_matter() {
    let text = MIXED
        .replace("cpus = 14\n", "cpus = 112\n")
        .replace("3-13", "3-111");
    let (_, picture) = drawn(&text, None, 4_000_000);
    let picture = picture.expect("there is one");
    let latest = picture.latest.expect("timers fired");
    let lanes = Lanes::of(&picture);
    assert_eq!(lanes.cpus.len(), 32);
    assert!(lanes.cpus.contains_key(&latest.cpu) && lanes.cpus.contains_key(&latest.of_cpu));
    let page = section(&picture, &["C6".to_owned()]).into_string();
    assert!(page.contains("32 of 112 CPUs"), "{page}");
    for part in ["Around the latest timer", "idle in C6", "is migrator"] {
        assert!(page.contains(part), "{part} is missing");
    }
    assert!(!page.contains("NaN") && !page.contains("infinity"));
}

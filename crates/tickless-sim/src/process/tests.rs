//! Tests of the counts of a process, and of its charges.

use tickless_core::coarse::Tick;
use tickless_core::time::{Instant, Span};

use super::{Process, ProcessCounts};
use crate::model::profile::Profile;
use crate::model::time::Picos;

/// Returns the instant so many milliseconds after the process began.
fn at(millis: i64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn skylake() -> (Process, Profile) {
    let profile = Profile::embedded("skl-112").unwrap();
    (Process::new(&profile), profile)
}

/// Returns the time that the process was charged for `body`.
fn cost(process: &mut Process, body: impl FnOnce(&mut Process)) -> Picos {
    let before = process.spent();
    body(process);
    process.spent() - before
}

#[test]
fn a_start_and_a_cancel_cost_what_they_are_made_of() {
    let (mut process, profile) = skylake();
    let costs = &profile.costs;
    let value = |name: &str| costs.get(name).unwrap().value;
    let (first, timer) = (process.exact(), process.exact());
    let fresh = value("lock") + value("hr_start") + value("wheel_arm");
    let started = cost(&mut process, |process| process.start(&first, at(5)));
    assert_eq!(started, fresh + value("device_write"), "it is the first");
    let started = cost(&mut process, |process| process.start(&timer, at(9)));
    assert_eq!(started, fresh);
    let moved = cost(&mut process, |process| {
        process.start(&timer, at(9).saturating_add(Span::from_nanos(1)))
    });
    assert_eq!(moved, value("lock") + value("hr_start"), "in its slot");
    let cancelled = cost(&mut process, |process| assert!(process.cancel(&timer)));
    assert_eq!(cancelled, value("lock") + value("wheel_cancel"));
    let expected = ProcessCounts {
        inserts: 2,
        erases: 1,
        in_place: 1,
        device_writes: 1,
        ..ProcessCounts::default()
    };
    assert_eq!(process.counts(), expected);
}

#[test]
fn a_worker_sleeps_until_its_first_deadline_and_no_longer() {
    let (mut process, profile) = skylake();
    let timers: Vec<_> = (0..4).map(|_| process.exact()).collect();
    for (timer, millis) in timers.iter().zip([2, 2, 5, 9]) {
        process.start(timer, at(millis));
    }
    let before = process.spent();
    assert_eq!([process.park(), process.park(), process.park()], [2, 1, 1]);
    let last = profile.idle.last().unwrap().exit;
    let late = Picos::of_instant(process.now()) - Picos::from_millis(9);
    assert!(
        late > last && late < last + Picos::from_micros(20),
        "{late}"
    );
    assert!(process.spent() - before < Picos::from_micros(30));
    let counts = process.counts();
    assert_eq!((counts.wakes, counts.erases, counts.spurious), (3, 4, 0));
    // Each turn writes for the next one, the last for none.
    assert_eq!(counts.device_writes, 1 + 3);
    assert_eq!(process.park(), 0, "nothing is left to sleep for");
    assert_eq!(process.counts().wakes, 3);
}

#[test]
fn a_sleep_that_was_pushed_out_wakes_no_worker_early() {
    let (mut process, _) = skylake();
    let mut sleep = process.sleep();
    process.begin(&mut sleep, Span::from_nanos(3_000_000));
    process.reset(&mut sleep, at(40));
    assert_eq!(process.park(), 1);
    assert!(process.now() >= at(40));
    let counts = process.counts();
    assert_eq!((counts.wakes, counts.spurious, counts.in_place), (1, 0, 1));
}

#[test]
fn a_coarse_timer_wakes_its_worker_when_its_slot_is_due() {
    let (mut process, _) = skylake();
    let timer = process.coarse();
    process.arm(&timer, Tick(20));
    process.modify(&timer, Tick(21));
    assert_eq!(process.park(), 1);
    assert!((at(21)..at(26)).contains(&process.now()));
    let counts = process.counts();
    assert_eq!(counts.coarse_files + counts.coarse_in_slot, 2);
    assert_eq!((counts.wakes, counts.coarse_takes), (1, 1));
}

#[test]
fn a_stranger_pays_for_the_lines_of_the_owner() {
    let (mut process, profile) = skylake();
    let timers: Vec<_> = (1..4).map(|_| process.exact()).collect();
    for timer in &timers {
        process.start(timer, at(50));
    }
    let own = cost(&mut process, |process| assert!(process.cancel(&timers[0])));
    process.switch_to(1);
    let far = cost(&mut process, |process| assert!(process.cancel(&timers[1])));
    let next = cost(&mut process, |process| assert!(process.cancel(&timers[2])));
    let line = profile.costs.get("line_cache").unwrap().value;
    assert_eq!(far, own + line * 4, "lock, timer and two of the base");
    assert_eq!(next, own + line, "the timer");
}

//! Tests of the clocks without a machine.

use tickless_conformance::random::Random;
use tickless_core::clock::SetSequence;
use tickless_core::time::{Clock, Instant};

use super::{Change, Clocks, CounterModel, Leap, STAND_IN, WALL_START};
use crate::model::current_cpu::NO_CPU;
use crate::model::time::Picos;

const TICK: Picos = Picos::from_millis(1);

fn clocks(model: CounterModel) -> Clocks {
    Clocks::new(model, true, (4, 7), Vec::new(), TICK)
}

fn realtime(clocks: &Clocks, at: Picos) -> i64 {
    let news = clocks.news(0, at, SetSequence::UNSEEN);
    let offset = news
        .expect("the reader has not seen it")
        .1
        .realtime
        .as_nanos();
    clocks.shows(0, at).as_nanos() + offset
}

#[test]
fn the_short_way_shows_what_the_timekeeper_does() {
    let long = clocks(CounterModel::IDEAL);
    let short = Clocks::new(CounterModel::IDEAL, false, (4, 7), Vec::new(), TICK);
    let mut random = Random::new(1);
    for _ in 0..2_000 {
        let at = Picos(random.below(10_000_000_000_000));
        assert_eq!(long.shows(0, at), short.shows(0, at));
        let when = Instant::from_nanos(random.between(0, 10_000_000_000));
        assert_eq!(long.moment(0, when, at), short.moment(0, when, at).max(at));
    }
}

#[test]
fn a_device_fires_at_the_first_moment_that_shows_its_time() {
    let skewed = CounterModel {
        error_ppm: -431,
        skew: Picos::from_micros(50),
        ..STAND_IN
    };
    for model in [
        STAND_IN,
        skewed,
        CounterModel {
            error_ppm: 77,
            ..CounterModel::IDEAL
        },
    ] {
        let clocks = clocks(model);
        let mut random = Random::new(3);
        for step in 1..300 {
            let now = Picos::from_micros(step * 997);
            assert_eq!(clocks.update(now, now), None);
            let cpu = u32::try_from(step % 4).unwrap();
            let ahead = random.between(-1_000_000, 2_000_000_000);
            let when = Instant::from_nanos(clocks.shows(cpu, now).as_nanos() + ahead);
            let moment = clocks.moment(cpu, when, now);
            assert!(clocks.shows(cpu, moment) >= when, "{model:?} {step}");
            if moment > now {
                assert!(
                    clocks.shows(cpu, Picos(moment.0 - 1)) < when,
                    "{model:?} {step}"
                );
            }
        }
    }
}

#[test]
fn devices_are_told_of_times_that_the_record_does_not_reach() {
    let narrow = CounterModel {
        kilohertz: 3_579,
        bits: 24,
        error_ppm: 200,
        ..CounterModel::IDEAL
    };
    let clocks = clocks(narrow);
    let now = Picos::from_millis(100);
    assert_eq!(clocks.update(now, now), None);
    let ahead = 3_600_000_000_000;
    let when = Instant::from_nanos(clocks.shows(0, now).as_nanos() + ahead);
    let mut at = clocks.moment(0, when, now);
    // Near enough, once it is near.
    let expected = now + Picos::from_nanos(3_600_000_000_000).scaled(1_000_000, 1_000_200);
    assert!(at.0.abs_diff(expected.0) < 1_000_000_000, "{at} {expected}");
    let mut update = now;
    while update < at {
        assert_eq!(clocks.update(update, update), None);
        update += Picos::from_millis(500);
    }
    at = clocks.moment(0, when, update - Picos::from_millis(500));
    assert!(clocks.shows(0, at) >= when);
}

/// Lets CPUs read the clocks in turn, some of them far ahead of the events, while the clocks change. Returns the
/// furthest cursor of any CPU.
fn looks_at(clocks: &Clocks, seed: u64) -> Picos {
    let mut random = Random::new(seed);
    let mut shown = [Instant::ZERO; 4];
    let mut cursors = [Picos::ZERO; 4];
    let furthest = |cursors: [Picos; 4]| cursors.into_iter().max().unwrap();
    for step in 0..20_000_u64 {
        let at = Picos::from_micros(step * 30);
        if at >= clocks.since.get() {
            clocks.finish();
        }
        assert_eq!(clocks.update(at, furthest(cursors).max(at)), None);
        let cpu = random.index(4);
        let longest = 300_000_000 >> random.below(12);
        cursors[cpu] = cursors[cpu].max(at) + Picos(random.below(longest));
        // The others look as well, where they were already.
        for other in (0..4).filter(|other| cursors[*other] >= at) {
            let now = clocks.shows(u32::try_from(other).unwrap(), cursors[other]);
            assert!(
                now >= shown[other],
                "{seed} {step}: {now:?} after {:?}",
                shown[other]
            );
            shown[other] = now;
        }
        if !clocks.is_changing(at) && random.one_in(20) {
            let change = match random.below(4) {
                0 => Change::Steer(i32::try_from(random.between(-500, 500)).unwrap()),
                1 => Change::Sleep(Picos::from_millis(random.below(100_000))),
                2 if clocks.stops_when_deep() && step > 15_000 => Change::Replace,
                _ => Change::Step(random.between(-1_000_000, 1_000_000)),
            };
            clocks.begin(change, furthest(cursors).max(at));
        }
    }
    furthest(cursors)
}

#[test]
fn no_cpu_sees_the_clock_go_back_whatever_is_done_to_it() {
    let model = CounterModel {
        skew: Picos::from_micros(3),
        stops_in_deep_idle: true,
        wraps_at: Some(Picos::from_millis(100)),
        bits: 32,
        ..CounterModel::IDEAL
    };
    let clocks = clocks(model);
    let end = looks_at(&clocks, 5);
    assert!(!clocks.stops_when_deep(), "it was replaced");
    // Never off by more than was steered, and by the copies.
    let off = clocks
        .shows(NO_CPU, end)
        .as_nanos()
        .abs_diff(end.instant().as_nanos());
    assert!(off < end.as_nanos() / 2_000 + 3_000, "{off}");
}

/// Two reads of a slow counter by a CPU ahead of the events give the same time, to the last nanosecond: the record is
/// brought forward with a factor that is a step lower, and that counts from the furthest CPU on.
#[test]
fn no_cpu_sees_the_clock_go_back_by_what_a_step_of_the_factor_makes() {
    let model = CounterModel {
        kilohertz: 24_000,
        bits: 56,
        error_ppm: 73,
        skew: Picos::from_micros(20),
        ..CounterModel::IDEAL
    };
    for seed in 0..8 {
        looks_at(&clocks(model), seed);
    }
}

#[test]
fn what_a_change_does_is_what_is_true() {
    let clocks = clocks(CounterModel::IDEAL);
    let at = Picos::from_millis(5);
    clocks.begin(Change::Step(1_000), at);
    assert_eq!(realtime(&clocks, Picos(at.0 - 1)), WALL_START + 4_999_999);
    assert_eq!(realtime(&clocks, at), WALL_START + 5_001_000);
    assert_eq!(clocks.finish(), Some(Change::Step(1_000)));
    clocks.begin(Change::Sleep(Picos::from_millis(2_000)), at);
    clocks.finish();
    let now = clocks.shows(0, at);
    assert_eq!(
        now.as_nanos(),
        5_000_000,
        "the monotonic clock stands still"
    );
    assert_eq!(clocks.truly_shows(Clock::Boottime, now), 2_005_000_000);
    assert_eq!(
        realtime(&clocks, at),
        clocks.truly_shows(Clock::Realtime, now)
    );
}

/// Updates the records at `millis` milliseconds, while no CPU is ahead.
fn update(clocks: &Clocks, millis: u64) -> Option<Change> {
    let at = Picos::from_millis(millis);
    clocks.update(at, at)
}

#[test]
fn leap_seconds_are_there_before_the_record_knows_of_them() {
    let leap = |millis, nanos| Leap {
        at: Picos::from_millis(millis).instant(),
        nanos,
    };
    let leaps = vec![leap(10, -1_000_000_000), leap(20, 1_000_000_000)];
    let clocks = Clocks::new(CounterModel::IDEAL, false, (1, 1), leaps, TICK);
    let look = |millis: u64| {
        let at = Picos::from_millis(millis);
        let shown = realtime(&clocks, at) - WALL_START - at.instant().as_nanos();
        let truly = clocks.truly_shows(Clock::Realtime, clocks.shows(0, at));
        (shown, truly - WALL_START - at.instant().as_nanos())
    };
    assert_eq!(look(9), (0, 0));
    assert_eq!(look(10), (-1_000_000_000, -1_000_000_000));
    let change = update(&clocks, 11).expect("it is over");
    clocks.begin(change, Picos::from_millis(11));
    clocks.finish();
    assert_eq!(look(12), (-1_000_000_000, -1_000_000_000));
    // A second that is deleted is told late: that makes nothing early.
    assert_eq!(look(20), (-1_000_000_000, 0));
    let change = update(&clocks, 21).expect("it is over");
    clocks.begin(change, Picos::from_millis(21));
    assert_eq!(look(21), (0, 0));
    clocks.finish();
    assert_eq!(update(&clocks, 22), None);
}

/// The record takes a deleted second at the next tick, up to which another one may have been inserted. With a record
/// that has the first and lacks the second, all alarms of the time of day within a second would be early.
#[test]
fn a_record_that_takes_a_leap_second_knows_of_the_next_at_once() {
    let leap = |micros, nanos| Leap {
        at: Picos::from_micros(micros).instant(),
        nanos,
    };
    let leaps = vec![leap(10_000, 1_000_000_000), leap(10_296, -1_000_000_000)];
    let clocks = Clocks::new(CounterModel::IDEAL, false, (1, 1), leaps, TICK);
    let at = Picos::from_millis(11);
    let ahead = || realtime(&clocks, at) - WALL_START - at.instant().as_nanos();
    for _ in 0..2 {
        let change = clocks.update(at, at).expect("it is over");
        clocks.begin(change, at);
        assert_eq!(ahead(), 0, "by the record of the CPUs that are there");
        clocks.finish();
        assert_eq!(ahead(), 0, "by that of all");
        clocks.next_update.set(at);
    }
    assert_eq!(clocks.update(at, at), None);
}

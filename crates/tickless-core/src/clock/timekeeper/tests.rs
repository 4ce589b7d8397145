//! Tests of the timekeeper, step by step on one thread.

use super::*;
use crate::time::Realtime;
use crate::time::convert::Kilohertz;

mod preempted;
mod properties;
mod suspend;

const TSC: Counter = Counter {
    id: CounterId(1),
    frequency: Kilohertz(2_000_000),
    bits: 64,
    can_inline: true,
};
const ODD: Counter = Counter {
    id: CounterId(3),
    frequency: Kilohertz(2_399_987),
    bits: 64,
    can_inline: false,
};
const NARROW: Counter = Counter {
    id: CounterId(2),
    frequency: Kilohertz(24_000),
    bits: 32,
    can_inline: false,
};

#[test]
fn b49_a_machine_stopped_for_days_is_not_set_back() {
    let (timekeeper, _keeper) = Timekeeper::new(TSC, Cycles(0));
    let week = 7 * 24 * 3600 * 2_000_000_000_u64;
    let now = timekeeper.now(|| Cycles(week)).as_nanos();
    let exact = 7 * 24 * 3600 * NANOS_PER_SEC;
    assert!((now - exact).abs() < 1_000_000, "{now}");
}

#[test]
fn offsets_are_copied_only_when_they_changed() {
    let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
    let (_, none) = timekeeper.now_and_offsets(SetSequence::START, |_| Cycles(0));
    assert_eq!(none, None);
    let offsets = Offsets {
        realtime: Offset::from_nanos(5),
        ..Offsets::default()
    };
    keeper.set_offsets(&timekeeper, offsets);
    let (_, some) = timekeeper.now_and_offsets(SetSequence::START, |_| Cycles(0));
    let (sequence, copied) = some.expect("they changed");
    assert_eq!(copied, offsets);
    assert_eq!(timekeeper.now_and_offsets(sequence, |_| Cycles(0)).1, None);
}

#[test]
fn b43_a_leap_second_is_seen_before_the_record_knows_it() {
    let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
    let wall = Offsets {
        realtime: Offset::from_nanos(100 * NANOS_PER_SEC),
        ..Offsets::default()
    };
    keeper.set_offsets(&timekeeper, wall);
    keeper.set_next_leap(&timekeeper, Some(Instant::from_nanos(1_000)));
    let seen = SetSequence::START.next();
    assert_eq!(timekeeper.now_and_offsets(seen, |_| Cycles(1_998)).1, None);
    let (_, leaping) = timekeeper.now_and_offsets(seen, |_| Cycles(2_000));
    assert_eq!(
        leaping.expect("the leap").1.realtime.as_nanos(),
        99 * NANOS_PER_SEC
    );
}

#[test]
fn the_coupled_conversion_is_refused_for_another_counter() {
    let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
    let when = Instant::from_nanos(1_000);
    assert_eq!(timekeeper.cycles_at(TSC.id, when), Some(Cycles(2_000)));
    assert_eq!(timekeeper.cycles_at(NARROW.id, when), None);
    keeper
        .switch_counter(&timekeeper, Cycles(2_000), NARROW, Cycles(0))
        .expect("it counts");
    assert_eq!(timekeeper.cycles_at(TSC.id, when), None);
    assert!(
        timekeeper
            .cycles_at(NARROW.id, Instant::from_nanos(2_000_000))
            .is_some()
    );
}

#[test]
fn b1_a_counter_with_the_same_factors_still_has_a_range() {
    let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
    let twin = Counter {
        id: CounterId(9),
        ..TSC
    };
    keeper
        .switch_counter(&timekeeper, Cycles(0), twin, Cycles(0))
        .expect("it counts");
    let hour = Instant::from_nanos(3600 * NANOS_PER_SEC);
    assert_eq!(
        timekeeper.cycles_at(twin.id, hour),
        Some(Cycles(7_200_000_000_000))
    );
}

/// Returns the time after `cycles` cycles of a counter of `khz`, by exact arithmetic, rounded down.
fn exactly(khz: u32, cycles: u64) -> i64 {
    let nanos = u128::from(cycles) * 1_000_000 / u128::from(khz);
    i64::try_from(nanos).expect("within 292 years")
}

/// TIM-15, TIM-22, TIM-23: the base advances by whole intervals, even after a long time without an update, and no reader sees a
/// difference.
#[test]
fn long_gaps_are_taken_in_few_steps_and_seen_by_no_reader() {
    for cycles in [
        1,
        1_999_999,
        2_000_000,
        2_000_001,
        5_000_000_000,
        1 << 40,
        1 << 53,
        (1 << 62) + 12_345,
    ] {
        let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(77));
        let at = Cycles(cycles + 77);
        let before = timekeeper.now(|| at);
        keeper.advance(&timekeeper, at);
        assert_eq!(timekeeper.now(|| at), before, "{cycles}");
        assert_eq!(before.as_nanos(), exactly(TSC.frequency.0, cycles));
        assert_eq!(keeper.error(), 0, "two cycles are a nanosecond, exactly");
    }
}

/// TIM-24: one step of the factor is 60 ppb here, but the clock is right to a nanosecond after ten minutes, because the
/// factor changes up and down.
#[test]
fn the_error_of_the_factor_is_spread_until_nothing_is_left() {
    let (timekeeper, mut keeper) = Timekeeper::new(ODD, Cycles(0));
    let tick = u64::from(ODD.frequency.0);
    let mut worst = 0;
    for interval in 1..=600_000_u64 {
        keeper.advance(&timekeeper, Cycles(interval * tick));
        worst = worst.max(keeper.error().abs());
    }
    let shown = timekeeper.now(|| Cycles(600_000 * tick)).as_nanos();
    assert!((shown - 600 * NANOS_PER_SEC).abs() <= 1, "{shown}");
    // By less than what a step of the factor gains in a tick, which is 60 ppb of a millisecond.
    assert!(worst < 1 << 32, "{worst}");
    assert!(keeper.counts().rates > 1_000, "{:?}", keeper.counts());
    // As the factor was at installation it would be off by this much, and more than is seen above.
    let scale = ODD.scale();
    let nominal = (u128::from(600_000 * tick) * u128::from(scale.mult())) >> scale.shift();
    assert!(nominal.abs_diff(600_000_000_000) > 10, "{nominal}");
}

/// TIM-25, TIM-26: a change of the factor to any value, anywhere in an interval, does not change the time at that
/// point. A residue that would be negative is borrowed from the base.
#[test]
fn a_change_of_the_factor_does_not_move_the_time() {
    let (timekeeper, mut keeper) = Timekeeper::new(ODD, Cycles(0));
    let mut cycles = 0;
    let mut borrowed = 0;
    for step in 0..2_000_u64 {
        cycles += 1_234_567 + step * 1_013;
        let before = timekeeper.now(|| Cycles(cycles));
        let rate = if step.is_multiple_of(2) {
            500_000
        } else {
            -500_000
        };
        let residue = keeper.record().residue;
        keeper.steer(&timekeeper, Cycles(cycles), rate);
        let record = keeper.record();
        assert!(record.residue < 1 << record.scale.shift());
        borrowed += u32::from(record.residue < residue);
        assert_eq!(timekeeper.now(|| Cycles(cycles)), before);
        assert!(timekeeper.now(|| Cycles(cycles + 3)) > before, "it goes on");
    }
    assert!(borrowed > 100);
    assert_eq!(keeper.counts().refused, 0);
}

/// TIM-27.
#[test]
fn a_clock_is_steered_within_limits() {
    let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
    keeper.steer(&timekeeper, Cycles(0), i32::MAX);
    assert_eq!(keeper.frequency(), 500_000);
    let second = Cycles(2_000_000_000);
    let gained = timekeeper.now(|| second).as_nanos() - NANOS_PER_SEC;
    assert!((gained - 500_000).abs() <= 200, "{gained}");
    keeper.steer(&timekeeper, Cycles(0), 0);
    keeper.set_tick(&timekeeper, Cycles(0), Span::from_millis(7));
    assert_eq!(keeper.tick(), Span::from_micros(1_100));
    let gained = timekeeper.now(|| second).as_nanos() - NANOS_PER_SEC;
    assert!((gained - 100_000_000).abs() <= 200, "{gained}");
    assert_eq!(keeper.counts().refused, 0);
}

/// TIM-28: a tick that changes nothing computes nothing, and every change of the factor reaches the reverse factor.
#[test]
fn reverse_factors_are_computed_when_the_factor_changed() {
    let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
    for tick in 1..1_000 {
        keeper.advance(&timekeeper, Cycles(tick * 2_000_000));
        keeper.set_offsets(&timekeeper, Offsets::default());
    }
    assert_eq!(keeper.counts().reverse_factors, 0);
    let (timekeeper, mut keeper) = Timekeeper::new(ODD, Cycles(0));
    for tick in 1..1_000 {
        keeper.advance(&timekeeper, Cycles(tick * 2_399_987));
    }
    let counts = keeper.counts();
    assert_eq!(counts.reverse_factors, counts.rates);
    assert!((2..1_000).contains(&counts.rates), "{counts:?}");
    let follows = keeper.record().reverse;
    assert_eq!(follows, follows.follow(keeper.record().scale, u64::MAX));
}

/// CPL-2, CPL-3, CPL-10: each counter has a range from its installation on. The range of a narrow counter is at most
/// half a wrap.
#[test]
fn every_counter_has_a_range_from_its_installation_on() {
    for (khz, bits) in [
        (2_000_000, 64),
        (24_000, 56),
        (14_318, 32),
        (3_579, 24),
        (u32::MAX, 64),
        (1, 64),
        (1, 2),
    ] {
        let counter = Counter {
            frequency: Kilohertz(khz),
            bits,
            ..TSC
        };
        let (timekeeper, keeper) = Timekeeper::new(counter, Cycles(0));
        let range = keeper.record().reverse.max();
        let furthest = timekeeper
            .cycles_at(TSC.id, Instant::LATEST)
            .expect("it drives the time");
        let cycles = u128::from(range.as_nanos()) * u128::from(khz) / 1_000_000;
        let half = u128::from(counter.mask() / 2);
        assert!(cycles <= half, "{khz} kHz, {bits} bits: {cycles} cycles");
        assert!(
            furthest.0 <= counter.mask() / 2 || bits == 64,
            "{khz} kHz, {bits} bits"
        );
        if bits > 2 {
            assert!(
                range > Span::from_millis(1),
                "{khz} kHz, {bits} bits: {range:?}"
            );
            assert!(
                range.as_nanos() > keeper.max_idle().as_nanos(),
                "{khz} kHz, {bits} bits"
            );
        }
    }
}

/// CPL-8: the horizon is measured from the base. When the record has reached its greatest permitted age, half of the
/// horizon is left.
#[test]
fn an_old_record_reaches_half_as_far() {
    for counter in [TSC, ODD, NARROW] {
        let (timekeeper, keeper) = Timekeeper::new(counter, Cycles(0));
        let old = Instant::ZERO.saturating_add(keeper.max_idle());
        let range = keeper.record().reverse.max().as_nanos();
        assert!(old.as_nanos().unsigned_abs() <= range / 2 + 1);
        let ahead = Instant::from_nanos(old.as_nanos() + 1_000_000);
        let cycles = timekeeper
            .cycles_at(counter.id, ahead)
            .expect("it drives the time");
        assert!(timekeeper.now(|| cycles) > old, "no storm of interrupts");
    }
}

/// CPL-4, CPL-6: spec, with the published record.
#[test]
fn deadlines_convert_by_the_published_record() {
    let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
    keeper.advance(&timekeeper, Cycles(1_000_000_000));
    let at = |nanos| {
        timekeeper
            .cycles_at(TSC.id, Instant::from_nanos(nanos))
            .map(|cycles| cycles.0)
    };
    assert_eq!(at(-5), Some(1_000_000_000));
    assert_eq!(at(499_999_999), Some(1_000_000_000));
    assert_eq!(at(500_000_000), Some(1_000_000_000));
    assert_eq!(at(500_000_001), Some(1_000_000_002));
    assert_eq!(at(501_000_000), Some(1_002_000_000));
    assert_eq!(
        at(500_000_000 + 9_000_000_000_000),
        Some(1_000_000_000 + 17_592_186_044_414)
    );
}

/// CPL-2: spec, with the published record, which was steered by -100 ppm.
#[test]
fn the_reverse_factor_follows_the_steering() {
    let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
    let second = Instant::from_nanos(NANOS_PER_SEC);
    assert_eq!(
        timekeeper.cycles_at(TSC.id, second),
        Some(Cycles(2_000_000_000))
    );
    keeper.steer(&timekeeper, Cycles(0), -100_000);
    let cycles = timekeeper
        .cycles_at(TSC.id, second)
        .expect("it drives the time")
        .0;
    // To half a step of the forward factor, and the truncation of the reverse one.
    assert!((2_000_199_000..2_000_200_500).contains(&cycles), "{cycles}");
    let shown = timekeeper.now(|| Cycles(cycles)).as_nanos();
    assert!((-500..=1).contains(&(shown - NANOS_PER_SEC)), "{shown}");
}

/// Readings and updates that find the counter before the base, or beyond the reach of the record, are counted.
#[test]
fn what_the_counter_does_wrong_is_counted() {
    let (timekeeper, mut keeper) = Timekeeper::new(NARROW, Cycles(1_000));
    keeper.advance(&timekeeper, Cycles(50_000));
    let base = timekeeper.now(|| Cycles(50_000));
    assert_eq!(timekeeper.now(|| Cycles(49_000)), base);
    assert_eq!((timekeeper.behind(), timekeeper.ahead()), (1, 0));
    keeper.advance(&timekeeper, Cycles(40_000));
    assert_eq!(keeper.counts().behind, 1);
    assert_eq!(
        timekeeper.now(|| Cycles(50_000)),
        base,
        "no time was taken twice"
    );
    let (timekeeper, _keeper) = Timekeeper::new(TSC, Cycles(0));
    let week = 7 * 24 * 3600 * 2_000_000_000_u64;
    let _now = timekeeper.now(|| Cycles(week));
    assert_eq!((timekeeper.behind(), timekeeper.ahead()), (0, 1));
}

/// A counter of 32 bits wraps every three minutes; nevertheless the clock measures a day exactly.
#[test]
fn a_narrow_counter_that_wraps_all_day_loses_nothing() {
    let (timekeeper, mut keeper) = Timekeeper::new(NARROW, Cycles(0xFFFF_0000));
    let idle = keeper.max_idle().as_nanos() / 1_000_000;
    let mut millis = 0;
    while millis < 24 * 3600 * 1_000 {
        millis += idle;
        let cycles = (0xFFFF_0000 + millis * 24_000) & 0xFFFF_FFFF;
        keeper.advance(&timekeeper, Cycles(cycles));
        let shown = timekeeper.now(|| Cycles(cycles)).as_nanos();
        let exact = i64::try_from(millis * 1_000_000).expect("a day");
        // The factor is right to 20 ppb, and what it is off in one gap is paid back in the next.
        let off = i64::try_from(idle * 1_000_000 / 10_000_000).expect("less");
        assert!((shown - exact).abs() <= off, "{shown} {exact}");
    }
    assert_eq!(keeper.counts().behind, 0);
}

/// B50, B52: offsets at the ends of their range saturate, and never wrap.
#[test]
fn b50_offsets_near_the_limits_saturate() {
    for nanos in [i64::MIN, i64::MIN + 5, i64::MAX - 5, i64::MAX] {
        let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
        let offset = Offset::from_nanos(nanos);
        let offsets = Offsets {
            realtime: offset,
            boottime: offset,
            tai: offset,
        };
        keeper.set_offsets(&timekeeper, offsets);
        keeper.set_next_leap(&timekeeper, Some(Instant::ZERO));
        let (now, news) = timekeeper.now_and_offsets(SetSequence::START, |_| Cycles(2_000));
        assert_eq!(now.as_nanos(), 1_000);
        let read = news.expect("they were set").1;
        assert_eq!(
            read.realtime.as_nanos(),
            nanos.saturating_sub(NANOS_PER_SEC)
        );
        keeper.inject_sleep(&timekeeper, Span::MAX);
        assert_eq!(
            keeper.offsets().boottime.as_nanos(),
            nanos.saturating_add(i64::MAX)
        );
    }
}

/// B2: the old counter continues to drive the time.
#[test]
fn b2_a_counter_that_cannot_drive_the_time_is_not_installed() {
    let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
    let dead = Counter {
        frequency: Kilohertz(0),
        ..NARROW
    };
    let refused = keeper.switch_counter(&timekeeper, Cycles(10), dead, Cycles(0));
    assert_eq!(refused, Err(BadCounter::StandsStill));
    assert_eq!(timekeeper.counter(), Some(TSC.id));
    assert_eq!(timekeeper.now(|| Cycles(2_000)).as_nanos(), 1_000);
    assert!(Timekeeper::try_new(dead, Cycles(0), Span::from_millis(1)).is_err());
}

#[test]
fn ticks_of_any_length_make_intervals() {
    for tick in [
        Span::ZERO,
        Span::from_micros(333),
        Span::from_millis(4),
        Span::from_millis(10),
        Span::MAX,
    ] {
        for counter in [TSC, ODD, NARROW] {
            let (timekeeper, mut keeper) =
                Timekeeper::try_new(counter, Cycles(0), tick).expect("it counts");
            let mut cycles = 0;
            for _ in 0..5_000 {
                cycles += 12_345;
                keeper.advance(&timekeeper, Cycles(cycles));
            }
            let shown = timekeeper.now(|| Cycles(cycles)).as_nanos();
            let exact = exactly(counter.frequency.0, cycles);
            assert!(
                (shown - exact).abs() <= 1 + exact / 10_000_000,
                "{tick:?} {shown} {exact}"
            );
        }
    }
}

/// CPL-4: another counter took over between the first check of the identity and the copy of the record.
#[test]
fn the_identity_is_tested_again_in_the_copy() {
    let (_timekeeper, keeper) = Timekeeper::new(TSC, Cycles(0));
    let words = keeper.record().words();
    let [a, b, c, d, e, f, g, h, i, ..] = words;
    let copy = [a, b, c, d, e, f, g, h, i];
    let when = Instant::from_nanos(1_000);
    assert_eq!(cycles_at(copy, TSC.id, when), Some(Cycles(2_000)));
    assert_eq!(cycles_at(copy, NARROW.id, when), None);
}

/// A reading, also one that interrupts a switch and one with the offsets, reads the counter that drives the time at
/// that moment, and no counter while the machine is suspended.
#[test]
fn tim43_each_reading_asks_for_the_counter_that_drives_the_time() {
    let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
    let shows = |nanos| {
        let read = |counter| match counter {
            CounterId(1) => Cycles(4_000),
            _ => Cycles(48_000),
        };
        let (with_offsets, _) = timekeeper.now_and_offsets(SetSequence::UNSEEN, read);
        let on_top = timekeeper.now_on_top_of_writer(read);
        assert_eq!(
            [timekeeper.now_by(read), on_top, with_offsets],
            [Instant::from_nanos(nanos); 3]
        );
    };
    shows(2_000);
    keeper
        .switch_counter(&timekeeper, Cycles(4_000), NARROW, Cycles(24_000))
        .expect("it counts");
    shows(1_002_000);
    keeper.suspend(&timekeeper, Cycles(48_000));
    let stands = timekeeper.now_by(|_| unreachable!("no counter drives the time"));
    assert_eq!(stands.as_nanos(), 1_002_000);
}

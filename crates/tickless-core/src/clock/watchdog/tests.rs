//! Tests of the watchdog with good counters on a disturbed machine, and with bad counters.

use std::format;
use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;
use tickless_link::sync::{AtomicU64, Ordering};

use super::*;
use crate::time::convert::{Cycles, Kilohertz};

const fn counter(id: u32, kilohertz: u32, bits: u32) -> Counter {
    Counter {
        id: CounterId(id),
        frequency: Kilohertz(kilohertz),
        bits,
        can_inline: false,
    }
}

const FAST: Counter = counter(1, 2_100_000, 64);
const SLOW: Counter = counter(2, 14_318, 32);
const NARROW: Counter = counter(3, 24_000, 32);
const SYSTEM: Counter = counter(4, 24_000, 56);

const SECOND: u64 = 1_000_000_000;
const STOP: u64 = 600 * SECOND;

/// Returns the value at `nanos` of a counter whose rate is wrong by `ppm`.
fn reads(counter: Counter, start: u64, ppm: i64, nanos: u64) -> Cycles {
    let rate = u128::from(counter.frequency.0) * u128::try_from(1_000_000 + ppm).unwrap();
    let counted = u128::from(nanos) * rate / 1_000_000_000_000;
    let counted = u64::try_from(counted).unwrap();
    Cycles(start.wrapping_add(counted) & counter.all_bits())
}

/// A checker whose time a test controls.
struct Checker {
    check: FrequencyCheck,
    pair: (Counter, Counter),
    start: (u64, u64),
    ppm: i64,
    now: u64,
}

impl Checker {
    fn new(pair: (Counter, Counter), limit: u32, start: (u64, u64), ppm: i64) -> Self {
        let check = FrequencyCheck::new(pair.0, pair.1, limit);
        Self {
            check,
            pair,
            start,
            ppm,
            now: 0,
        }
    }

    /// Waits for `wait`, and then checks. `within` gives the times that pass within the read-outs.
    fn check(&mut self, wait: u64, mut within: impl FnMut() -> (u64, u64)) -> CounterVerdict {
        self.now += wait;
        loop {
            let (first, second) = within();
            let before = reads(self.pair.1, self.start.1, 0, self.now);
            let counter = reads(self.pair.0, self.start.0, self.ppm, self.now + first);
            self.now += first + second;
            let behind = reads(self.pair.1, self.start.1, 0, self.now);
            let step = self.check.feed(ReadOut {
                before,
                counter,
                behind,
            });
            if let FrequencyStep::Done(verdict) = step {
                return verdict;
            }
        }
    }
}

fn pairs() -> impl Strategy<Value = (Counter, Counter)> {
    prop_oneof![
        Just((FAST, SLOW)),
        Just((FAST, SYSTEM)),
        Just((SLOW, FAST)),
        Just((NARROW, FAST)),
        Just((NARROW, SLOW)),
        Just((SYSTEM, SLOW)),
    ]
}

/// Generates the random time for which a CPU does not run: mostly zero, sometimes minutes.
fn away() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 20_u64..2_000,
        2 => 2_000_u64..60_000,
        1 => 60_000_u64..20_000_000,
        1 => 20_000_000_u64..STOP / 2,
    ]
}

fn waits() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => 0_u64..1_000_000,
        6 => SECOND / 2..SECOND,
        2 => SECOND..20 * SECOND,
        1 => 20 * SECOND..STOP,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Spec C-6.6: a counter within the limit is not condemned, however the checker is interrupted.
    #[test]
    fn a_good_counter_is_never_condemned(
        pair in pairs(),
        start in any::<(u64, u64)>(),
        limit in prop_oneof![Just(LIMIT_PPM), Just(LIMIT_UNCALIBRATED_PPM)],
        share in -100_i64..=100,
        checks in proptest::collection::vec((waits(), proptest::collection::vec((away(), away()), 3)), 1..30),
    ) {
        let ppm = i64::from(limit) * share / 100;
        let mut checker = Checker::new(pair, limit, start, ppm);
        let mut judged = None;
        for (wait, within) in checks {
            let mut within = within.into_iter();
            let verdict = checker.check(wait, || within.next().unwrap());
            prop_assert!(!verdict.is_bad(), "{verdict} at {ppm} ppm");
            if let CounterVerdict::Good { ppm: told, within_ppm } = verdict {
                let off = (i64::from(told) - ppm).unsigned_abs();
                prop_assert!(off <= u64::from(within_ppm) + 1, "{verdict} at {ppm} ppm");
                judged = Some(told);
            }
        }
        let _whether_or_not = judged;
    }

    /// Spec C-6.6: a counter whose error exceeds the limit plus the width of the read-outs is condemned by the second
    /// accepted check.
    #[test]
    fn a_counter_beyond_the_limit_is_condemned_by_the_second_check(
        pair in pairs(),
        start in any::<(u64, u64)>(),
        more in 210_i64..80_000,
        is_slow in any::<bool>(),
        wait in SECOND / 2..9 * SECOND,
        within in (20_u64..24_000, 20_u64..24_000),
    ) {
        let ppm = i64::from(LIMIT_PPM) + more;
        let mut checker = Checker::new(pair, LIMIT_PPM, start, if is_slow { -ppm } else { ppm });
        prop_assert_eq!(checker.check(0, || within), CounterVerdict::Inconclusive(Doubt::First));
        let verdict = checker.check(wait, || within);
        prop_assert!(verdict.is_bad(), "{verdict} at {} ppm", checker.ppm);
    }

    /// Spec C-6.6: latency reduces the sensitivity of the check, but never makes its result wrong.
    #[test]
    fn copies_that_agree_are_never_condemned(
        start in any::<u64>(),
        ahead in 0_u64..200,
        turns in proptest::collection::vec((any::<bool>(), away()), 1..200),
    ) {
        // The second copy is ahead by less than the word takes to come over.
        let mut play = Play::new(FAST, start, (0, ahead.cast_signed()));
        for (is_first, passed) in turns {
            play.now += passed.max(ahead);
            play.look(is_first);
        }
        let mut check = AgreementCheck::new(FAST, CpuId(0), CpuId(1));
        let (first, second) = (play.sides[0].heard(), play.sides[1].heard());
        if let AgreementStep::Done(verdict) = check.feed(Ok(first), Ok(second)) {
            prop_assert!(!verdict.is_bad(), "{verdict}");
        }
    }

    /// Spec C-6.6.
    #[test]
    fn a_copy_that_lags_by_more_than_the_word_takes_is_found(
        start in any::<u64>(),
        lag in 500_u64..5_000_000,
        is_first in any::<bool>(),
        slow in proptest::collection::vec(away(), 0..6),
    ) {
        let lag = lag.cast_signed();
        let lags = if is_first { (-lag, 0) } else { (0, -lag) };
        let mut play = Play::new(FAST, start, lags);
        for passed in slow.into_iter().chain([90; 6]) {
            for is_first in [false, true] {
                play.now += passed;
                play.look(is_first);
            }
        }
        let mut check = AgreementCheck::new(FAST, CpuId(3), CpuId(5));
        let (first, second) = (play.sides[0].heard(), play.sides[1].heard());
        let AgreementStep::Done(CounterVerdict::Bad(Reason::Lags { cpu, behind, by })) =
            check.feed(Ok(first), Ok(second)) else { panic!("not found") };
        let expected = if is_first { (CpuId(3), CpuId(5)) } else { (CpuId(5), CpuId(3)) };
        prop_assert_eq!((cpu, behind), expected);
        prop_assert!(by.as_nanos() <= lag.unsigned_abs());
    }
}

/// The two sides of an exchange, with a time that a test controls.
struct Play {
    sides: [Side<'static>; 2],
    start: u64,
    /// The lead of each copy, in nanoseconds.
    ahead: (i64, i64),
    now: u64,
}

impl Play {
    fn new(counter: Counter, start: u64, ahead: (i64, i64)) -> Self {
        let exchange = std::boxed::Box::leak(std::boxed::Box::new(Exchange::new()));
        let side = |role| Side::new(exchange, role, counter, 0, 1_000_000);
        let mut play = Self {
            sides: [side(Role::First), side(Role::Second)],
            start,
            ahead,
            now: 10 * SECOND,
        };
        let now = play.reads(true);
        play.sides[0].open(|| now);
        play
    }

    fn reads(&self, is_first: bool) -> Cycles {
        let ahead = if is_first { self.ahead.0 } else { self.ahead.1 };
        reads(FAST, self.start, 0, self.now.saturating_add_signed(ahead))
    }

    fn look(&mut self, is_first: bool) {
        let now = self.reads(is_first);
        let _whose_turn_it_is = self.sides[usize::from(!is_first)].look(|| now);
    }
}

fn narrow() -> (u64, u64) {
    (100, 100)
}

/// Spec C-6.6: a read-out that timed out is inconclusive, not a failure, and is repeated a limited number of times.
#[test]
fn wide_read_outs_are_taken_again_and_then_given_up() {
    let mut checker = Checker::new((FAST, SLOW), LIMIT_PPM, (0, 0), 0);
    let _first = checker.check(0, narrow);
    let mut taken = 0;
    let verdict = checker.check(SECOND, || {
        taken += 1;
        (30_000, 40_000)
    });
    let CounterVerdict::Inconclusive(Doubt::SlowReadOut { width, tries }) = verdict else {
        panic!("{verdict}")
    };
    assert_eq!((taken, tries), (READ_OUTS, READ_OUTS));
    assert!(width.as_nanos().abs_diff(70_000) < 100);
    let mut script = [(90_000, 0), (100, 100)].into_iter();
    let verdict = checker.check(SECOND, || script.next().unwrap());
    assert_eq!(
        verdict,
        CounterVerdict::Inconclusive(Doubt::First),
        "and stops do not add up"
    );
}

/// Spec C-6.6: the interval since the last check is very long.
#[test]
fn a_process_that_was_stopped_for_ten_minutes_condemns_nothing() {
    for pair in [
        (FAST, SLOW),
        (SLOW, FAST),
        (NARROW, SLOW),
        (SLOW, NARROW),
        (FAST, SYSTEM),
    ] {
        let mut checker = Checker::new(pair, LIMIT_PPM, (77, u64::MAX - 3), 200);
        let _first = checker.check(0, narrow);
        assert!(matches!(
            checker.check(SECOND, narrow),
            CounterVerdict::Good { .. }
        ));
        let verdict = checker.check(STOP, narrow);
        let CounterVerdict::Inconclusive(Doubt::TooLong { elapsed }) = verdict else {
            panic!("{pair:?}: {verdict}")
        };
        assert!(elapsed.as_nanos().abs_diff(STOP) < SECOND, "{elapsed:?}");
        assert!(
            matches!(checker.check(SECOND, narrow), CounterVerdict::Good { .. }),
            "and it goes on"
        );
    }
}

#[test]
fn counters_that_wrap_between_two_checks_are_judged_all_the_same() {
    let start = (u64::from(u32::MAX) - 1_000, u64::MAX - 5);
    let mut checker = Checker::new((SLOW, FAST), LIMIT_PPM, start, 0);
    let _first = checker.check(0, narrow);
    assert!(matches!(
        checker.check(SECOND, narrow),
        CounterVerdict::Good { .. }
    ));
    // The reference wraps.
    let mut checker = Checker::new((FAST, SLOW), LIMIT_PPM, (start.1, start.0), 0);
    let _first = checker.check(0, narrow);
    assert!(matches!(
        checker.check(SECOND, narrow),
        CounterVerdict::Good { .. }
    ));
    // One of 16 bits at 1 MHz wraps 15 times a second.
    let tiny = counter(9, 1_000, 16);
    let mut checker = Checker::new((tiny, FAST), LIMIT_UNCALIBRATED_PPM, (0, 0), 1_000);
    let _first = checker.check(0, narrow);
    let verdict = checker.check(SECOND, narrow);
    assert!(
        matches!(
            verdict,
            CounterVerdict::Good {
                ppm: 998..=1_002,
                ..
            }
        ),
        "{verdict}"
    );
}

/// Spec C-6.6: the limit is 500 ppm, and 4000 ppm if a frequency is not well known.
#[test]
fn the_limit_is_what_it_says() {
    for (limit, within, beyond) in [
        (LIMIT_PPM, 490, 520),
        (LIMIT_UNCALIBRATED_PPM, 3_980, 4_020),
    ] {
        for (ppm, is_bad) in [
            (within, false),
            (-within, false),
            (beyond, true),
            (-beyond, true),
        ] {
            let mut checker = Checker::new((FAST, SLOW), limit, (0, 0), ppm);
            let _first = checker.check(0, narrow);
            let verdict = checker.check(SECOND, narrow);
            assert_eq!(verdict.is_bad(), is_bad, "{verdict}");
        }
    }
}

/// A reading shows the period of its counter in which it was taken, but not the point within this period.
#[test]
fn the_periods_of_both_counters_are_part_of_the_error() {
    // One of 100 us: 200 ppm of half a second.
    let coarse = counter(9, 10, 64);
    for pair in [(FAST, coarse), (coarse, FAST)] {
        for phase in 0..100 {
            let mut checker = Checker::new(pair, LIMIT_PPM, (0, 0), 450);
            let _first = checker.check(phase * 1_000, narrow);
            let verdict = checker.check(SECOND / 2 + phase * 3_100, narrow);
            assert!(matches!(verdict, CounterVerdict::Good { .. }), "{verdict}");
        }
    }
}

#[test]
fn a_counter_that_stands_still_is_bad() {
    let mut checker = Checker::new((FAST, SLOW), LIMIT_PPM, (5, 0), -1_000_000);
    let _first = checker.check(0, narrow);
    let verdict = checker.check(SECOND / 2, narrow);
    assert!(
        matches!(verdict, CounterVerdict::Bad(Reason::StandsStill { .. })),
        "{verdict}"
    );
    assert_eq!(verdict.to_string(), "bad: it stood still for 500 ms");
}

#[test]
fn an_interval_in_which_the_error_is_all_there_is_waits_for_a_longer_one() {
    let mut checker = Checker::new((FAST, SLOW), LIMIT_PPM, (0, 0), 9_000);
    let _first = checker.check(0, narrow);
    let verdict = checker.check(100_000, narrow);
    assert!(
        matches!(
            verdict,
            CounterVerdict::Inconclusive(Doubt::TooShort { .. })
        ),
        "{verdict}"
    );
    let verdicts = (0..40).map(|_| checker.check(100_000, narrow));
    let judged = verdicts
        .into_iter()
        .find(|verdict| !matches!(verdict, CounterVerdict::Inconclusive(_)));
    assert!(judged.expect("short ones add up").is_bad());
    checker.check.start_again();
    assert_eq!(
        checker.check(SECOND, narrow),
        CounterVerdict::Inconclusive(Doubt::First)
    );
}

#[test]
fn nonsense_is_no_panic() {
    for counter in [
        counter(1, 0, 0),
        counter(1, u32::MAX, 99),
        counter(1, 1, 1),
        FAST,
    ] {
        for reference in [counter, SLOW, self::counter(2, 0, 64)] {
            let mut check = FrequencyCheck::new(counter, reference, u32::MAX);
            for reading in [0, u64::MAX, 1, u64::MAX / 2, 0] {
                let step = check.feed(ReadOut {
                    before: Cycles(reading),
                    counter: Cycles(!reading),
                    behind: Cycles(reading),
                });
                let _whatever_it_says = step;
            }
        }
        let exchange = Exchange::new();
        let mut side = Side::new(&exchange, Role::First, counter, u32::MAX, 0);
        side.open(|| Cycles(u64::MAX));
        assert_eq!(side.look(|| Cycles(0)), Look::Waiting);
        assert!(side.close());
        let mut check = AgreementCheck::new(counter, CpuId(0), CpuId(1));
        let _whatever_it_says = check.feed(Err(side.heard()), Err(Heard::default()));
    }
    let mut none = Watchdog::new([], Instant::ZERO);
    assert_eq!((none.current(), none.reference()), (None, None));
    assert_eq!(
        none.judge(CounterId(1), None, CounterVerdict::Bad(LAG)),
        None
    );
    assert_eq!(none.partner(CpuId(0), 0, |_| true), None);
}

/// Spec C-6.6: the check repeats the try with a CPU in deep idle ten times, and then gives up.
#[test]
fn a_cpu_that_does_not_answer_is_asked_ten_times_again() {
    let mut check = AgreementCheck::new(FAST, CpuId(0), CpuId(7));
    let exchange = Exchange::new();
    for attempt in 0..TRIES {
        assert_eq!(check.attempt(), attempt);
        let side = Side::new(&exchange, Role::First, FAST, attempt, ROUNDS);
        let first = side.run(3, || Cycles(1));
        assert_eq!(first, Err(Heard::default()));
        assert_eq!(
            check.feed(first, Err(Heard::default())),
            AgreementStep::Again
        );
    }
    let step = check.feed(Err(Heard::default()), Err(Heard::default()));
    let doubt = Doubt::NoAnswer {
        cpu: CpuId(7),
        tries: TRIES + 1,
    };
    assert_eq!(
        step,
        AgreementStep::Done(CounterVerdict::Inconclusive(doubt))
    );
}

#[test]
fn a_counter_that_wraps_soon_is_not_compared_between_cpus() {
    let mut check = AgreementCheck::new(SLOW, CpuId(0), CpuId(1));
    let lag = Heard {
        readings: 1,
        nearest: Some(-5),
    };
    let step = check.feed(Ok(lag), Ok(lag));
    assert_eq!(
        step,
        AgreementStep::Done(CounterVerdict::Inconclusive(Doubt::Narrow { bits: 32 }))
    );
}

#[test]
fn readings_that_wrap_are_handed_over() {
    // 56 bits, just below their end.
    let exchange = Exchange::new();
    let mut first = Side::new(&exchange, Role::First, SYSTEM, 0, 2);
    let mut second = Side::new(&exchange, Role::Second, SYSTEM, 0, 2);
    let end = 1 << 56;
    first.open(|| Cycles(end - 2));
    assert_eq!(first.look(|| Cycles(end - 2)), Look::Waiting);
    assert_eq!(second.look(|| Cycles(3)), Look::Answered);
    assert_eq!(second.look(|| Cycles(3)), Look::Waiting);
    assert_eq!(first.look(|| Cycles(5)), Look::Answered);
    assert_eq!(second.look(|| Cycles(4)), Look::Answered, "a lag of one");
    assert_eq!(first.look(|| Cycles(9)), Look::Over);
    assert_eq!(second.look(|| Cycles(9)), Look::Over);
    assert_eq!(
        first.heard(),
        Heard {
            readings: 2,
            nearest: Some(2)
        }
    );
    assert_eq!(
        second.heard(),
        Heard {
            readings: 2,
            nearest: Some(-1)
        }
    );
}

#[test]
fn two_threads_exchange_readings() {
    let exchange = Exchange::new();
    // Counts whenever a thread reads it.
    let counts = AtomicU64::new(0);
    let read = || Cycles(counts.fetch_add(1, Ordering::Relaxed));
    let nanos = counter(1, 1_000_000, 64);
    let mut check = AgreementCheck::new(nanos, CpuId(0), CpuId(1));
    let side = |role| Side::new(&exchange, role, nanos, 0, 500);
    let patient = 2_000_000_000;
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| side(Role::Second).run(patient, read));
        (side(Role::First).run(patient, read), second.join().unwrap())
    });
    assert_eq!(second.map(|heard| heard.readings), Ok(500));
    assert_eq!(
        check.feed(first, second),
        AgreementStep::Done(CounterVerdict::Good {
            ppm: 0,
            within_ppm: 0
        })
    );
}

const LAG: Reason = Reason::Lags {
    cpu: CpuId(3),
    behind: CpuId(0),
    by: Span::from_nanos(420),
};

const TSC: Candidate = Candidate {
    counter: FAST,
    name: "tsc",
    rating: 300,
};
const HPET: Candidate = Candidate {
    counter: SLOW,
    name: "hpet",
    rating: 250,
};
const OTHER: Candidate = Candidate {
    counter: SYSTEM,
    name: "other",
    rating: 250,
};

#[test]
fn the_best_of_those_that_are_not_bad_drives_the_time() {
    let mut watchdog = Watchdog::new([OTHER, TSC, HPET], Instant::ZERO);
    assert_eq!(watchdog.current(), Some(&TSC));
    assert_eq!(watchdog.reference(), Some(&OTHER), "of equals the first");
    let bad = CounterVerdict::Bad(LAG);
    let condemned = watchdog
        .judge(OTHER.counter.id, None, bad)
        .expect("it is news");
    assert_eq!(condemned.next, Next::Unaffected);
    assert_eq!(watchdog.reference(), Some(&HPET));
    let condemned = watchdog.judge(FAST.id, None, bad).expect("it is news");
    assert_eq!(condemned.next, Next::SwitchTo(HPET));
    assert_eq!(
        (watchdog.current(), watchdog.reference()),
        (Some(&HPET), None)
    );
    assert_eq!(watchdog.judge(FAST.id, None, bad), None, "it is none twice");
    assert_eq!(watchdog.reason(FAST.id), Some(LAG));
    let condemned = watchdog.judge(SLOW.id, None, bad).expect("it is news");
    assert_eq!(condemned.next, Next::NothingBetter);
    assert_eq!(watchdog.current(), Some(&HPET));
    let doubt = CounterVerdict::Inconclusive(Doubt::First);
    assert_eq!(watchdog.judge(SLOW.id, None, doubt), None);
    assert_eq!(
        watchdog.judge(CounterId(77), None, bad),
        None,
        "it is not known"
    );
}

#[test]
fn one_line_says_what_happened() {
    let mut watchdog = Watchdog::new([TSC, HPET], Instant::ZERO);
    let mut checker = Checker::new((FAST, SLOW), LIMIT_PPM, (0, 0), 10_000);
    let _first = checker.check(0, narrow);
    let verdict = checker.check(SECOND / 2, narrow);
    let condemned = watchdog
        .judge(FAST.id, Some(SLOW.id), verdict)
        .expect("it is bad");
    assert_eq!(
        format!("{condemned}"),
        "the counter tsc is bad: it runs fast by 10000 ppm, of which 500 are allowed, over 500 ms, by hpet; hpet \
         drives the time from now on"
    );
    let mut watchdog = Watchdog::new([TSC], Instant::ZERO);
    let condemned = watchdog
        .judge(FAST.id, None, CounterVerdict::Bad(LAG))
        .expect("it is bad");
    assert_eq!(
        format!("{condemned}"),
        "the counter tsc is bad: it lags on CPU 3 behind CPU 0 by 420 ns or more; there is no better one, and it \
         goes on"
    );
}

/// Spec C-6.6: a check does not run again at once after a check that was late.
#[test]
fn checks_are_an_interval_apart_however_late_they_are() {
    let at = |millis: i64| Instant::from_nanos(millis * 1_000_000);
    let mut watchdog = Watchdog::new([TSC, HPET], at(0));
    assert_eq!(watchdog.next_check(), at(500));
    watchdog.checked(at(510));
    assert_eq!(watchdog.next_check(), at(1_010));
    watchdog.checked(at(9_000));
    assert_eq!(watchdog.next_check(), at(9_500));
}

#[test]
fn all_cpus_that_are_online_are_partners_in_turn() {
    let mut watchdog = Watchdog::new([TSC], Instant::ZERO);
    let partners: Vec<_> = (0..6)
        .map(|_| watchdog.partner(CpuId(2), 5, |cpu| cpu != CpuId(4)))
        .collect();
    let cpus = [1, 3, 0, 1, 3, 0].map(|cpu| Some(CpuId(cpu)));
    assert_eq!(partners, cpus);
    assert_eq!(watchdog.partner(CpuId(0), 1, |_| true), None);
}

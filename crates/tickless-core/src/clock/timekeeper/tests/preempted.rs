//! TIM-17: tests of readers that are preempted while they read, and a keeper that changes the record meanwhile.

use std::vec::Vec;

use super::*;

type Read = fn(&Timekeeper, &mut dyn FnMut() -> Cycles) -> Instant;

const READS: [(&str, Read); 4] = [
    ("now", |timekeeper, read| timekeeper.now(read)),
    ("now_by", |timekeeper, read| timekeeper.now_by(|_| read())),
    ("now_and_offsets", |timekeeper, read| {
        timekeeper.now_and_offsets(SetSequence::START, |_| read()).0
    }),
    ("now_on_top_of_writer", |timekeeper, read| {
        timekeeper.now_on_top_of_writer(|_| read())
    }),
];

/// The counter values at the call of the keeper, after half a second, and at the end of the second. Readers are
/// preempted between these two values.
const CHANGED: Cycles = Cycles(1_000_000_000);
const READ: Cycles = Cycles(2_000_000_000);

/// Returns two readings of each reader. In the first reading it copies the record, is preempted while `change` is made,
/// and then reads the counter. The second reading follows.
fn preempted(
    change: impl Fn(&Timekeeper, &mut Keeper),
) -> impl Iterator<Item = (&'static str, Instant, Instant)> {
    READS.into_iter().map(move |(name, reading)| {
        let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
        let mut is_made = false;
        let mut counter = || {
            if !is_made {
                change(&timekeeper, &mut keeper);
                is_made = true;
            }
            READ
        };
        let first = reading(&timekeeper, &mut counter);
        (name, first, reading(&timekeeper, &mut counter))
    })
}

#[test]
fn tim17_a_rate_that_falls_while_a_reader_is_preempted_turns_no_time_back() {
    for (name, first, next) in
        preempted(|timekeeper, keeper| keeper.steer(timekeeper, CHANGED, -500_000))
    {
        assert_eq!(first, next, "{name}");
        assert!(first.as_nanos() < 999_750_100, "{name}: {first:?}");
    }
}

#[test]
fn tim17_a_sleep_while_a_reader_is_preempted_is_no_time() {
    let sleeps = |timekeeper: &Timekeeper, keeper: &mut Keeper| {
        keeper.suspend(timekeeper, CHANGED);
        keeper.resume(timekeeper, READ, Slept::ByCounter);
    };
    for (name, first, next) in preempted(sleeps) {
        assert_eq!(
            (first, next),
            (Instant::from_nanos(500_000_000), first),
            "{name}"
        );
    }
}

#[test]
fn tim17_a_counter_that_takes_over_while_a_reader_is_preempted_is_asked() {
    let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
    let mut asked = Vec::new();
    let now = timekeeper.now_by(|counter| {
        if asked.is_empty() {
            keeper
                .switch_counter(&timekeeper, CHANGED, NARROW, Cycles(7))
                .expect("it counts");
        }
        asked.push(counter);
        Cycles(7)
    });
    assert_eq!(asked, [TSC.id, NARROW.id]);
    assert_eq!(now, Instant::from_nanos(500_000_000));
}

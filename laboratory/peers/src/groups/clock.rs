//! The cost of reading the clock, compared with its lower limit and with other clocks.

use std::hint::black_box;

use tickless::internals::now_upper;
use tickless::time::Instant;

use crate::rounds::{Group, Subject};
use crate::threads::{each, worker};

/// The parts of the group.
pub(crate) const BOUND: &str = "a bound, for one thread";
pub(crate) const TIME: &str = "the time, comparable between threads";
pub(crate) const COUNTER: &str = "limit: the counter, multiplied and shifted";
pub(crate) const STD: &str = "std::time::Instant::now()";
pub(crate) const QUANTA: &str = "quanta, not ordered";

const READINGS: u64 = 2_000_000;
/// The nanoseconds for one cycle of a counter of 2.6 GHz, times 2^32.
const RATE: u64 = 1_651_910_498;

/// Scales a difference of a counter to nanoseconds: the least work of any clock that reads a counter.
#[inline]
fn scaled(cycles: u64) -> u64 {
    (cycles.wrapping_sub(1_000_000) & 0xFFFF_FFFF).wrapping_mul(RATE) >> 32
}

fn subject<'a, T>(
    readings: u64,
    name: &'static str,
    read: impl Fn() -> T + Copy + 'a,
) -> Subject<'a, 1> {
    let measure = move || {
        [each(readings, || {
            black_box(read());
        })]
    };
    (name, Box::new(measure))
}

/// Measures two readings: the bound that is valid for one thread, and the time that is valid for all threads.
pub(super) fn measure(group: &mut Group<'_>) {
    // Has the counter calibrated.
    drop(worker());
    let readings = group.operations(READINGS);
    let bare = || scaled(tickless::clock::cycles());
    let ordered = || scaled(tickless::clock::cycles_ordered());
    group.measure(
        [(BOUND, 0, 1)],
        vec![
            subject(readings, "tickless", now_upper),
            subject(readings, COUNTER, bare),
        ],
    );
    group.measure(
        [(TIME, 0, 1)],
        vec![
            subject(readings, "tickless", Instant::now),
            subject(readings, COUNTER, ordered),
            subject(readings, STD, std::time::Instant::now),
            subject(readings, "tickless, a bound, not ordered", now_upper),
            subject(readings, QUANTA, quanta::Instant::now),
        ],
    );
}

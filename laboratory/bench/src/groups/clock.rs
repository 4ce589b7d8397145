//! The cost of reading the clock, compared with its lower limit and with other clocks.

use std::hint::black_box;

use tickless::internals::now_upper;
use tickless::time::Instant;

use crate::harness::{Group, Options, Sink, Subject, each};
use crate::threads::worker;

const READINGS: u64 = 2_000_000;
/// The nanoseconds for one cycle of a counter of 2.6 GHz, times 2^32.
const RATE: u64 = 1_651_910_498;

/// Scales a difference of a counter to nanoseconds: the least work of any clock that reads a counter.
#[inline]
fn scaled(cycles: u64) -> u64 {
    (cycles.wrapping_sub(1_000_000) & 0xFFFF_FFFF).wrapping_mul(RATE) >> 32
}

fn subject<'a, T>(
    options: &Options,
    name: &'static str,
    read: impl Fn() -> T + Copy + 'a,
) -> Subject<'a> {
    let readings = options.operations(READINGS);
    let measure = move || {
        each(readings, || {
            black_box(read());
        })
    };
    (name, Box::new(measure))
}

/// Measures two readings: the bound that is valid for one thread, and the time that is valid for all threads.
pub(super) fn measure(options: &Options, sink: Sink<'_>) {
    // Has the counter calibrated.
    drop(worker());
    let bare = "the counter, multiplied and shifted";
    sink(
        Group::measure(
            "a bound of the time, for one thread",
            1,
            options,
            vec![
                subject(options, "tickless", now_upper),
                subject(options, bare, || scaled(tickless::clock::cycles())),
            ],
        )
        .at_most(1.15, bare),
    );
    let bare = "the ordered counter, multiplied and shifted";
    let kernel = "std::time::Instant::now()";
    sink(
        Group::measure(
            "the time, comparable between threads",
            1,
            options,
            vec![
                subject(options, "tickless", Instant::now),
                subject(options, bare, || scaled(tickless::clock::cycles_ordered())),
                subject(options, kernel, std::time::Instant::now),
                subject(options, "tickless, a bound, not ordered", now_upper),
                subject(options, "quanta, not ordered", quanta::Instant::now),
                subject(options, "fastant, not ordered", fastant::Instant::now),
                subject(options, "minstant, not ordered", minstant::Instant::now),
            ],
        )
        .at_most(1.15, bare)
        .at_most(0.7, kernel)
        .at_most(1.0, "quanta, not ordered")
        .at_most(1.0, "fastant, not ordered")
        .at_most(1.0, "minstant, not ordered"),
    );
}

//! The cost of a restart, which starts a queued timer again.

use std::cell::Cell;

use tickless::hrtimer::{Monotonic, now};

use crate::harness::{Group, Options, Sink, subjects, time};
use crate::limit::Line;
use crate::threads::{FAR, at, plain_timer, shuffled, worker};

/// Measures a restart after which the timer keeps its place, against the lower limit: reading both neighbours and
/// writing the node.
///
/// Deadlines are computed from the index on both sides, so that no table of them costs cache misses of its own.
pub(super) fn in_place(options: &Options, sink: Sink<'_>) {
    const SPACING: i64 = 1_000;
    const LIMIT: &str = "limit: read both neighbours, write the node";
    let _worker = worker();
    for pending in [1_000, 10_000, 100_000, 1_000_000] {
        let origin = now::<Monotonic>().as_nanos() + FAR;
        let deadline = |index: usize| origin + i64::try_from(index).unwrap_or(0) * SPACING;
        let timers: Vec<_> = (0..pending).map(|_| plain_timer()).collect();
        for (index, timer) in timers.iter().enumerate() {
            let _ = timer.as_ref().start(at(deadline(index)));
        }
        let line = Line::new(pending, origin, SPACING);
        let order = shuffled(pending);
        let repeats = options.operations(2_000_000).div_ceil(pending as u64);
        let operations = repeats * pending as u64;
        let wiggle = Cell::new(1);
        let each_round = |visit: &dyn Fn(usize, i64)| {
            time(operations, || {
                for _ in 0..repeats {
                    wiggle.set(-wiggle.get());
                    for &index in &order {
                        visit(index, wiggle.get());
                    }
                }
            })
        };
        let group = Group::measure(
            "start of a queued timer that stays in place",
            pending as u64,
            options,
            subjects![
                "tickless" => {
                    each_round(&|index, wiggle| {
                        let _ = timers[index].as_ref().start(at(deadline(index) + wiggle));
                    })
                },
                LIMIT => {
                    each_round(&|index, wiggle| line.visit(index, deadline(index) + wiggle))
                },
            ],
        );
        sink(group.at_most(1.5, LIMIT));
    }
}

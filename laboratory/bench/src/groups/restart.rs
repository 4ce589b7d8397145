//! The cost of restarts, which start a queued timer again.

use std::cell::{Cell, RefCell};

use fastrand::Rng;
use tickless::hrtimer::{Monotonic, now};

use super::{FAR, Sink, at, plain_timer, shuffled, worker};
use crate::harness::{Group, Options, each, time};
use crate::limit::{Line, Map};

const MAP: &str = "BTreeMap<(deadline, id)>";

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
            vec![
                (
                    "tickless",
                    Box::new(|| {
                        each_round(&|index, wiggle| {
                            let _ = timers[index].as_ref().start(at(deadline(index) + wiggle));
                        })
                    }),
                ),
                (
                    LIMIT,
                    Box::new(|| {
                        each_round(&|index, wiggle| line.visit(index, deadline(index) + wiggle))
                    }),
                ),
            ],
        );
        sink(group.at_most(1.5, LIMIT));
    }
}

/// The distance by which a restart moves a timer.
#[derive(Clone, Copy, Debug)]
enum Move {
    /// The timer moves past a few neighbours, as when it is pushed out by a small step.
    Near,
    /// The timer moves to the end of the queue, like a timeout that is armed again.
    ToTheEnd,
    /// The timer moves anywhere in the queue.
    Anywhere,
}

impl Move {
    const fn name(self) -> &'static str {
        match self {
            Self::Near => "past a few neighbours",
            Self::ToTheEnd => "behind all others, as a timeout does",
            Self::Anywhere => "anywhere",
        }
    }
}

/// A sequence of timers that move, with their new deadlines. Both sides of a comparison run the same sequence.
struct Moves {
    random: Rng,
    kind: Move,
    deadlines: Vec<i64>,
    origin: i64,
    width: i64,
    end: i64,
}

impl Moves {
    fn new(kind: Move, pending: usize, origin: i64, width: i64) -> Self {
        let mut random = Rng::with_seed(11);
        let deadlines = (0..pending)
            .map(|_| origin + random.i64(0..width))
            .collect();
        Self {
            random,
            kind,
            deadlines,
            origin,
            width,
            end: origin + width,
        }
    }

    fn next(&mut self) -> (usize, i64, i64) {
        let index = self.random.usize(..self.deadlines.len());
        let old = self.deadlines[index];
        let spacing = self.width / i64::try_from(self.deadlines.len()).unwrap_or(1);
        self.end += 1;
        let new = match self.kind {
            Move::Near => old + 1 + self.random.i64(0..4 * spacing),
            Move::ToTheEnd => self.end,
            Move::Anywhere => self.origin + self.random.i64(0..self.width),
        };
        self.deadlines[index] = new;
        (index, old, new)
    }
}

/// Measures a restart after which the timer changes its place, against a sorted map.
pub(super) fn with_a_move(options: &Options, sink: Sink<'_>) {
    let _worker = worker();
    for kind in [Move::Near, Move::ToTheEnd, Move::Anywhere] {
        for pending in [1_000, 100_000, 1_000_000] {
            sink(restart_with(options, kind, pending));
        }
    }
}

fn restart_with(options: &Options, kind: Move, pending: usize) -> Group {
    let origin = now::<Monotonic>().as_nanos() + FAR;
    let moves = || RefCell::new(Moves::new(kind, pending, origin, 1_000_000_000));
    let (ours, theirs) = (moves(), moves());
    let timers: Vec<_> = (0..pending).map(|_| plain_timer()).collect();
    for (timer, deadline) in timers.iter().zip(&ours.borrow().deadlines) {
        let _ = timer.as_ref().start(at(*deadline));
    }
    let map = RefCell::new(Map::new(&theirs.borrow().deadlines));
    let operations = options.operations(200_000);
    let group = Group::measure(
        format!("start of a queued timer that moves {}", kind.name()),
        pending as u64,
        options,
        vec![
            (
                "tickless",
                Box::new(|| {
                    each(operations, || {
                        let (index, _, new) = ours.borrow_mut().next();
                        let _ = timers[index].as_ref().start(at(new));
                    })
                }),
            ),
            (
                MAP,
                Box::new(|| {
                    each(operations, || {
                        let (index, old, new) = theirs.borrow_mut().next();
                        map.borrow_mut().restart(index, old, new);
                    })
                }),
            ),
        ],
    );
    if pending == 100_000 {
        group.at_most(0.5, MAP)
    } else {
        group
    }
}

/// The average numbers of push-outs of a timeout within the length of the timeout.
const PUSHES: [u32; 2] = [3, 30];

/// Measures idle timeouts of connections that a thread pushes out at random without end. From time to time the thread
/// also checks for due timeouts. The measurement includes all resulting costs: firing timeouts, and requeueing timeouts
/// that were pushed out.
pub(super) fn steadily(options: &Options, sink: Sink<'_>) {
    for pending in [1_000, 100_000] {
        for pushes in PUSHES {
            sink(restart_steadily(options, pending, pushes));
        }
    }
}

/// The number of operations between two checks for due timeouts.
const BETWEEN_LOOKS: u64 = 64;

fn restart_steadily(options: &Options, pending: usize, pushes: u32) -> Group {
    let worker = worker();
    let operations = options.operations(pending as u64 * u64::from(pushes) * 4);
    let period = Cell::new(3_600_000_000_000);
    let timers: Vec<_> = (0..pending).map(|_| plain_timer()).collect();
    let map = RefCell::new(Steady {
        map: Map::new(&vec![i64::MAX; pending]),
        deadlines: vec![i64::MAX; pending],
        fired: 0,
    });
    let clock = || now::<Monotonic>().as_nanos();
    let ours = || {
        time(operations, || {
            let mut random = Rng::with_seed(23);
            for operation in 0..operations {
                let timer = &timers[random.usize(..pending)];
                let _ = timer.as_ref().start(at(clock() + period.get()));
                if operation % BETWEEN_LOOKS == 0 && worker.is_due() {
                    let _more = worker.turn();
                }
            }
        })
    };
    let theirs = || {
        let mut map = map.borrow_mut();
        time(operations, || {
            let mut random = Rng::with_seed(23);
            for operation in 0..operations {
                map.restart(random.usize(..pending), clock() + period.get());
                if operation % BETWEEN_LOOKS == 0 {
                    map.expire(clock());
                }
            }
        })
    };
    ours();
    let slower = ours().max(theirs());
    #[expect(clippy::cast_possible_truncation, reason = "some milliseconds")]
    period.set((slower * pending as f64 * f64::from(pushes)) as i64);
    Group::measure(
        format!("push out a timeout, {pushes} times in its time, all costs included"),
        pending as u64,
        options,
        vec![("tickless", Box::new(ours)), (MAP, Box::new(theirs))],
    )
    .at_most(0.5, MAP)
}

/// A sorted map, with the data that its user has to keep in addition.
struct Steady {
    map: Map,
    deadlines: Vec<i64>,
    fired: u64,
}

impl Steady {
    fn restart(&mut self, index: usize, new: i64) {
        let old = std::mem::replace(&mut self.deadlines[index], new);
        self.map.restart(index, old, new);
    }

    fn expire(&mut self, now: i64) {
        while self.map.pop_due(now) {
            self.fired += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Move, Moves};

    #[test]
    fn timers_move_where_the_names_say() {
        let (pending, origin, width) = (100, 1_000_000, 1_000_000);
        let all = origin..origin + width;
        for kind in [Move::Near, Move::ToTheEnd, Move::Anywhere] {
            let mut moves = Moves::new(kind, pending, origin, width);
            assert!(
                moves
                    .deadlines
                    .iter()
                    .all(|deadline| all.contains(deadline))
            );
            for step in 1..=1_000 {
                let (index, old, new) = moves.next();
                assert_eq!(moves.deadlines[index], new);
                let is_meant = match kind {
                    Move::Near => (1..=40_000).contains(&(new - old)),
                    Move::ToTheEnd => new == all.end + step,
                    Move::Anywhere => all.contains(&new),
                };
                assert!(is_meant, "{kind:?}: from {old} to {new}");
            }
        }
    }
}

//! Loom cases of concurrent reads, on weak memory. The counter is an atomic that other threads move, and its reads have
//! no ordering.
//!
//! # Limits
//!
//! - Two or three threads, and one or two reads each; the number of preemptions is bounded ([`PREEMPTIONS`]).
//! - A thread whose patience ends at once models a thread that has waited.
//! - Preemptions model that an overtaken holder runs again at any later moment.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use loom::thread;
use tickless_link::sync::{AtomicU64, Ordering, spin_loop};

use super::{Combined, Patience, SlowCounter};
use crate::base::model::explore;
use crate::time::convert::Cycles;

/// The number of times that threads may be preempted.
const PREEMPTIONS: usize = 3;

/// A counter that each sample moves, or that another thread moves.
struct Counter {
    shows: AtomicU64,
    /// The amount by which each sample increases the counter.
    step: u64,
    patience: Patience,
    fails_at: u64,
}

impl SlowCounter for Counter {
    type Sample = Cycles;
    type Masked = ();

    fn sample(&self) -> Cycles {
        // Relaxed: what orders the samples of two CPUs is the word, and nothing else.
        let shows = if self.step == 0 {
            self.shows.load(Ordering::Relaxed)
        } else {
            self.shows.fetch_add(self.step, Ordering::Relaxed) + self.step
        };
        assert_ne!(shows, self.fails_at, "the counter is gone");
        Cycles(shows)
    }

    fn mask(&self) {}

    fn unmask(&self, (): ()) {}

    fn relax(&self, _: u32) -> Patience {
        spin_loop();
        self.patience
    }
}

type Shared = Arc<Combined<Counter>>;

fn combined(step: u64, patience: Patience) -> Shared {
    Arc::new(Combined::new(Counter {
        shows: AtomicU64::new(0),
        step,
        patience,
        fails_at: u64::MAX,
    }))
}

/// Reads twice, and checks that the second value is not less than the first.
fn reads_twice(combined: &Shared) -> (u64, u64) {
    let first = combined.read_joined().0;
    let second = combined.read_joined().0;
    assert!(first <= second, "{first} and then {second}");
    (first, second)
}

/// Two threads read at once. Each takes its own sample, or one sample serves both.
#[test]
fn two_readers_share_a_sample_or_read_in_turn() {
    explore(PREEMPTIONS, [(1, 1), (1, 2), (2, 1)], || {
        let combined = combined(1, Patience::Lasts);
        let other = {
            let combined = Arc::clone(&combined);
            thread::spawn(move || combined.read_joined().0)
        };
        let own = combined.read_joined().0;
        let values = (own, other.join().unwrap());
        assert_eq!(combined.load().value(), own.max(values.1));
        assert!(!combined.load().is_locked());
        values
    });
}

/// Three threads read, two of them twice, and patience ends at once. Holders are replaced, by one thread or by two, and
/// no call returns less than a call that ended before. A replaced holder that returned its own sample would break this
/// rule, because its sample may be newer than the value that another thread publishes afterwards.
#[test]
fn nothing_goes_back_when_holders_are_replaced() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let combined = combined(1, Patience::Ends);
        let others: [_; 2] = core::array::from_fn(|index| {
            let combined = Arc::clone(&combined);
            thread::spawn(move || {
                if index == 0 {
                    reads_twice(&combined).1
                } else {
                    combined.read_joined().0
                }
            })
        });
        let (_, own) = reads_twice(&combined);
        let others = others.map(|other| other.join().unwrap());
        let last = combined.read_joined().0;
        assert!(own <= last && others.iter().all(|other| *other <= last));
        assert!(!combined.load().is_locked());
    });
}

/// Another thread moves the counter. The sample of a CPU is not older than a published value that the CPU has seen.
#[test]
fn a_sample_is_not_older_than_the_value_before_it() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(|| {
        let combined = combined(0, Patience::Lasts);
        let hand = {
            let combined = Arc::clone(&combined);
            // Relaxed: it moves by itself.
            thread::spawn(move || combined.counter.shows.store(1, Ordering::Relaxed))
        };
        let other = {
            let combined = Arc::clone(&combined);
            thread::spawn(move || combined.read_joined().0)
        };
        let own = combined.read_joined().0;
        let after = combined.read_joined().0;
        assert!(own <= after, "{own} and then {after}");
        other.join().unwrap();
        hand.join().unwrap();
    });
}

/// Another thread moves the counter. A fresh read is not older than a counter value that its caller knew before the
/// call.
#[test]
fn a_fresh_read_is_not_older_than_what_its_caller_knew() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(|| {
        let combined = combined(0, Patience::Lasts);
        let hand = {
            let combined = Arc::clone(&combined);
            // Relaxed: it moves by itself.
            thread::spawn(move || combined.counter.shows.store(1, Ordering::Relaxed))
        };
        let other = {
            let combined = Arc::clone(&combined);
            thread::spawn(move || combined.read_joined().0)
        };
        // Relaxed: a read of the counter past the word.
        let known = combined.counter.shows.load(Ordering::Relaxed);
        let fresh = combined.read_fresh().0;
        assert!(known <= fresh, "{known} was known, and then {fresh}");
        other.join().unwrap();
        hand.join().unwrap();
    });
}

/// The case "or unlocked": the holder gives up, and a waiter reads the counter itself instead of waiting for ever.
#[test]
fn a_waiter_takes_over_from_a_holder_that_gives_up() {
    explore(PREEMPTIONS, [(None, 2), (Some(2), 1)], || {
        let combined = Arc::new(Combined::<Counter>::new(Counter {
            shows: AtomicU64::new(0),
            step: 1,
            patience: Patience::Lasts,
            fails_at: 1,
        }));
        let reads =
            |combined: &Shared| catch_unwind(AssertUnwindSafe(|| combined.read_joined().0)).ok();
        let other = {
            let combined = Arc::clone(&combined);
            thread::spawn(move || reads(&combined))
        };
        let own = reads(&combined);
        let other = other.join().unwrap();
        let (failed, read) = (own.is_none() || other.is_none(), own.or(other));
        assert!(failed, "the first sample panics");
        assert!(!combined.load().is_locked());
        (own, read.map_or(0, |_| if own.is_none() { 2 } else { 1 }))
    });
}

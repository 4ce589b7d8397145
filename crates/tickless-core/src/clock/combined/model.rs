//! Loom cases: reads that meet, on weak memory. The counter is an atomic that others move, read without an ordering of
//! its own.
//!
//! # Limits
//!
//! - Two or three threads, and one or two reads each; the number of preemptions is bounded ([`PREEMPTIONS`]).
//! - A thread whose patience ends at once stands for one that has waited.
//! - That an overtaken holder comes back at any later moment is a matter of preemptions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use loom::thread;
use tickless_link::sync::{AtomicU64, Ordering, spin_loop};

use super::{Combined, Patience, SlowCounter};
use crate::base::model::explore;
use crate::time::convert::Cycles;

/// Number of times that threads may be interrupted.
const PREEMPTIONS: usize = 3;

/// A counter that moves by itself, or is moved.
struct Counter {
    shows: AtomicU64,
    /// Amount by which each sample moves the counter on.
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

/// Reads twice; the second read is not less.
fn reads_twice(combined: &Shared) -> (u64, u64) {
    let first = combined.read_joined().0;
    let second = combined.read_joined().0;
    assert!(first <= second, "{first} and then {second}");
    (first, second)
}

/// Two that read at once: each its own sample, or one for both.
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

/// Three, of which two read twice, and patience that ends at once: holders are replaced, by one or by two, and no call
/// returns less than one that was over before. A holder that came back with a sample of its own would break that: it
/// would be newer than what the one in between publishes.
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

/// A counter that another thread moves: what a CPU samples is not older than the value that it has seen published.
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

/// The same of a fresh read: what its caller knew of the counter before the call is not newer.
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

/// The corner "or unlocked": the holder gives up, and who waits for it takes over instead of waiting for ever.
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

//! Tests of combined reads, in which other CPUs read while one CPU takes a slow sample.

use core::cell::{Cell, RefCell};
use core::panic::AssertUnwindSafe;
use std::boxed::Box;
use std::panic::catch_unwind;
use std::vec;
use std::vec::Vec;

use super::{ATTEMPTS_MAX, Combined, CombinedClock, Patience, SlowCounter, Step, Waiting, Word};
use crate::time::convert::Cycles;
use crate::time::{Instant, Realtime};

type During = Box<dyn FnMut(&Combined<Fake>)>;

/// A counter that increases by one at each sample.
#[derive(Default)]
struct Fake {
    shows: Cell<u64>,
    samples: Cell<u32>,
    /// Actions that run after the next sample was taken and before it is returned.
    during: RefCell<Vec<During>>,
    /// The number of times that a waiter relaxed, and its limit.
    relaxed: Cell<u32>,
    patience: Cell<u32>,
    masked: Cell<bool>,
    is_non_maskable: Cell<bool>,
    is_alone: Cell<bool>,
    fails: Cell<bool>,
    combined: Cell<Option<&'static Combined<Self>>>,
}

impl SlowCounter for Fake {
    type Sample = Cycles;
    type Masked = bool;

    fn sample(&self) -> Cycles {
        let shows = self.shows.get() + 1;
        self.shows.set(shows);
        self.samples.set(self.samples.get() + 1);
        let during = self.during.borrow_mut().pop();
        if let Some(mut during) = during {
            // Other CPUs, whose interrupts are not this one's.
            let masked = self.masked.replace(false);
            during(self.combined.get().expect("it was made"));
            self.masked.set(masked);
        }
        assert!(!self.fails.get(), "the counter is gone");
        Cycles(shows)
    }

    fn mask(&self) -> bool {
        self.masked.replace(true)
    }

    fn unmask(&self, masked: bool) {
        self.masked.set(masked);
    }

    fn is_non_maskable(&self) -> bool {
        self.is_non_maskable.get()
    }

    fn is_alone(&self) -> bool {
        self.is_alone.get()
    }

    fn relax(&self, attempt: u32) -> Patience {
        assert!(!self.masked.get(), "a waiter does not mask interrupts");
        assert!(
            attempt <= self.patience.get() + 1,
            "nothing will ever change"
        );
        self.relaxed.set(self.relaxed.get() + 1);
        if attempt < self.patience.get() {
            Patience::Lasts
        } else {
            Patience::Ends
        }
    }
}

fn combined() -> &'static Combined<Fake> {
    let combined: &'static Combined<Fake> = Box::leak(Box::new(Combined::new(Fake::default())));
    combined.counter.combined.set(Some(combined));
    combined
}

/// Adds an action that runs while a sample is taken. The action that was added last runs first.
fn during(combined: &Combined<Fake>, during: impl FnMut(&Combined<Fake>) + 'static) {
    let mut all = combined.counter.during.borrow_mut();
    all.push(Box::new(during));
}

fn published(combined: &Combined<Fake>) -> u64 {
    combined.load().value()
}

/// Spec C-6.2: the lock is free again, and the interrupts are as they were.
#[test]
fn a_read_alone_takes_one_sample_and_leaves_nothing_behind() {
    let combined = combined();
    for value in 1..=3 {
        assert_eq!(combined.read_joined(), Cycles(value));
        assert!(!combined.load().is_locked() && !combined.counter.masked.get());
    }
    assert_eq!(combined.read_fresh(), Cycles(4));
    assert_eq!(combined.counter.samples.get(), 4);
}

/// Spec C-6.2: the interrupts are on while a CPU waits, and masked while it reads.
#[test]
fn interrupts_are_masked_around_the_sample_alone() {
    let combined = combined();
    combined.counter.patience.set(3);
    during(combined, |combined| {
        let _ = combined.read_joined();
        assert!(!combined.counter.masked.get());
    });
    let _ = combined.read_joined();
    assert_eq!(combined.counter.relaxed.get(), 4, "it waited");
    // Locked by another one between the look and the exchange.
    let stale = combined.load();
    combined
        .word
        .store(stale.locked().bits(), super::Ordering::Relaxed);
    assert_eq!(combined.lead(stale), Err(stale.locked()));
    assert!(!combined.counter.masked.get());
}

/// Spec C-6.5. A holder that was replaced returns the published value, and stores no smaller value.
#[test]
fn a_holder_that_was_replaced_drops_its_sample() {
    let combined = combined();
    during(combined, |combined| {
        assert_eq!(combined.read_joined(), Cycles(2), "patience is over");
        assert_eq!(combined.read_joined(), Cycles(3), "the lock is free again");
    });
    assert_eq!(combined.read_joined(), Cycles(3));
    assert_eq!(published(combined), 3);
    assert!(!combined.load().is_locked());
    assert_eq!(combined.read_joined(), Cycles(4));
}

/// Spec C-6.5. Two waiters overtake, and the waiter with the older sample publishes last.
#[test]
fn an_overtaker_that_comes_late_publishes_nothing() {
    let combined = combined();
    // From the back: the holder's sample 1, the first overtaker's 2, within which the second one takes 3.
    during(combined, |combined| {
        assert_eq!(combined.read_joined(), Cycles(3));
    });
    during(combined, |combined| {
        assert_eq!(combined.read_joined(), Cycles(3), "not its own, which is 2");
        assert_eq!(published(combined), 3);
    });
    assert_eq!(combined.read_joined(), Cycles(3));
    assert_eq!(published(combined), 3);
}

/// A replaced holder that continues while the next holder reads does not change the lock of the next holder.
#[test]
fn a_replaced_holder_leaves_the_lock_of_the_next_one_alone() {
    let word = Word::<32>::START.locked();
    let next = word.publish(7).locked();
    let combined = combined();
    combined.word.store(next.bits(), super::Ordering::Relaxed);
    let holder = super::Holder { combined, word };
    assert_eq!(holder.publish(6), 7);
    assert_eq!(combined.load(), next);
    drop(super::Holder { combined, word });
    assert_eq!(combined.load(), next);
}

/// R46. An interrupt of the holder neither locks nor waits.
#[test]
fn a_context_that_cannot_be_masked_reads_directly() {
    let combined = combined();
    during(combined, |combined| {
        let before = combined.load();
        combined.counter.is_non_maskable.set(true);
        assert_eq!(combined.read_joined(), Cycles(2));
        assert_eq!(combined.read_fresh(), Cycles(3));
        combined.counter.is_non_maskable.set(false);
        assert_eq!(combined.load(), before);
        assert_eq!(combined.counter.relaxed.get(), 0);
    });
    assert_eq!(combined.read_joined(), Cycles(1), "less than those got");
}

/// Spec C-6.2: a single CPU has no other CPU with which it could share a read.
#[test]
fn a_cpu_that_is_alone_reads_directly() {
    let combined = combined();
    combined.counter.is_alone.set(true);
    combined.counter.shows.set(u64::from(u32::MAX));
    assert_eq!(combined.read_joined(), Cycles(0), "modulo 2^32");
    assert_eq!(combined.load(), Word::START);
}

/// The case of a lost release: the host panics while it reads.
#[test]
fn a_holder_that_panics_gives_up() {
    let combined = combined();
    let _ = combined.read_joined();
    let before = combined.load();
    combined.counter.fails.set(true);
    let failed = catch_unwind(AssertUnwindSafe(|| combined.read_joined()));
    assert!(failed.is_err());
    assert_eq!(
        (combined.load(), combined.counter.masked.get()),
        (before, false)
    );
    combined.counter.fails.set(false);
    assert_eq!(combined.read_joined(), Cycles(3));
    assert_eq!(combined.counter.relaxed.get(), 0, "no CPU waits for it");
}

/// The case "or unlocked" (spec C-6.2): a CPU that waited for a CPU that gave up reads the counter itself, because no
/// new value was published.
#[test]
fn a_waiter_whose_holder_gave_up_reads_itself() {
    let entry = Word::<32>::START.publish(5).locked();
    for mut waiting in [Waiting::for_any(entry), Waiting::for_fresh(entry)] {
        assert_eq!(waiting.judge(entry), Step::Wait);
        assert_eq!(waiting.judge(entry.given_up()), Step::Lead);
    }
}

/// A CPU publishes the same value as before. A comparison of values, as in the specification's original algorithm,
/// would not detect this publication (spec C-6.5).
#[test]
fn the_same_value_published_again_ends_a_wait() {
    let entry = Word::<32>::START.publish(5).locked();
    let mut waiting = Waiting::for_any(entry);
    assert_eq!(waiting.judge(entry.publish(5).locked()), Step::Leave(5));
}

/// Spec C-6.5, `read_fresh`: a read that was in flight at entry may already have taken its sample.
#[test]
fn a_fresh_reader_does_not_join_what_was_in_flight() {
    let entry = Word::<32>::START.locked();
    let next = entry.publish(5);
    let mut waiting = Waiting::for_fresh(entry);
    assert_eq!(waiting.judge(next), Step::Lead);
    let mut waiting = Waiting::for_fresh(entry);
    assert_eq!(waiting.judge(next.locked()), Step::Wait);
    assert_eq!(waiting.judge(next.publish(6)), Step::Leave(6));
    // Unlocked at entry: what was locked since then began since then.
    let mut waiting = Waiting::for_fresh(next);
    assert_eq!(waiting.judge(next.publish(6).locked()), Step::Leave(6));
}

#[test]
fn generation_and_value_wrap_by_themselves() {
    let last = Word::<32>::from_bits(u64::MAX).given_up();
    let first = last.publish(3);
    assert_eq!((first.bits(), first.is_published_since(last)), (3, true));
    assert_eq!(Word::<32>::START.publish(1 << 32).value(), 0);
    // The widest value, with four generations.
    type Wide = Word<{ Word::<1>::VALUE_BITS_MAX }>;
    let mut word = Wide::START.publish(Wide::VALUE);
    for _ in 0..3 {
        let next = word.publish(Wide::VALUE);
        assert!(next.is_published_since(word) && next.value() == Wide::VALUE);
        word = next;
    }
    assert_eq!(
        word.bits(),
        Wide::VALUE,
        "the fourth generation is the first"
    );
}

/// A counter was not read for more than half its range, or wraps: the new value is published.
#[test]
fn what_looks_smaller_is_published_all_the_same() {
    let combined = combined();
    for shows in [3_000_000_000, u64::from(u32::MAX) - 1, u64::from(u32::MAX)] {
        combined.counter.shows.set(shows);
        let expected = (shows + 1) & u64::from(u32::MAX);
        assert_eq!(combined.read_joined(), Cycles(expected));
    }
}

#[test]
fn patience_ends_by_default_and_not_at_once() {
    struct Silent;
    impl SlowCounter for Silent {
        type Sample = Cycles;
        type Masked = ();
        fn sample(&self) -> Cycles {
            Cycles(9)
        }
        fn mask(&self) {}
        fn unmask(&self, (): ()) {}
    }
    assert_eq!(Silent.relax(0), Patience::Lasts);
    assert_eq!(Silent.relax(ATTEMPTS_MAX), Patience::Ends);
    assert_eq!(Silent.relax(u32::MAX), Patience::Ends);
    // The holder never comes back.
    let combined: Combined<Silent> = Combined::new(Silent);
    let stuck = Word::<32>::START.locked();
    combined.word.store(stuck.bits(), super::Ordering::Relaxed);
    assert_eq!(combined.read_joined(), Cycles(9));
    assert!(!combined.load().is_locked(), "nor is it waited for again");
}

/// A clock that shows the time to which a test sets it.
struct Told(Cell<i64>);

impl SlowCounter for Told {
    type Sample = Instant<Realtime>;
    type Masked = ();
    fn sample(&self) -> Instant<Realtime> {
        Instant::from_nanos(self.0.get())
    }
    fn mask(&self) {}
    fn unmask(&self, (): ()) {}
}

/// Instants far from the base, as after a clock was set by years (B49 to B52), are returned unchanged.
#[test]
fn a_clock_returns_every_instant_as_it_is() {
    const YEARS_36: i64 = 36 * 365 * 86_400 * 1_000_000_000;
    for base in [0, 1_795_000_000_000_000_000, -7, i64::MAX, i64::MIN] {
        let clock = CombinedClock::new(Told(Cell::new(0)), Instant::from_nanos(base));
        let mut shows = vec![base, i64::MIN, -1, 0, 1, i64::MAX];
        for away in [1, YEARS_36, 1 << 60, (1 << 60) - 1, i64::MAX] {
            shows.extend([base.saturating_add(away), base.saturating_sub(away)]);
        }
        for shows in shows {
            clock.clock().0.set(shows);
            assert_eq!(clock.read_joined().as_nanos(), shows);
            assert_eq!(clock.read_fresh().as_nanos(), shows);
        }
    }
    let base: Instant<Realtime> = Instant::ZERO;
    assert!(super::clock::encoded(base, Instant::from_nanos(YEARS_36)) != super::clock::NO_INSTANT);
    assert!(
        super::clock::encoded(base, Instant::from_nanos(-YEARS_36)) != super::clock::NO_INSTANT
    );
}

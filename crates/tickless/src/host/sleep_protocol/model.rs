//! Loom cases for the deadlines that meet a thread going to sleep.

use loom::sync::Arc;
use loom::thread;

use super::SleepDeadline;
use tickless_link::sync::{AtomicI64, Ordering};

/// An earlier deadline arrives while the expiry thread goes to sleep: it is woken, or does not sleep.
#[test]
fn earlier_deadline_arrives_while_parking() {
    loom::model(|| {
        let sleeper = Arc::new(SleepDeadline::new());
        let slot = Arc::new(AtomicI64::new(SleepDeadline::NEVER));
        sleeper.awake();
        let thread = {
            let (sleeper, slot) = (Arc::clone(&sleeper), Arc::clone(&slot));
            thread::spawn(move || sleeper.publish(&slot, 5))
        };
        let sleeps = sleeper.sleep(100, || slot.load(Ordering::Relaxed));
        let wakes = thread.join().unwrap();
        assert!(
            !sleeps || wakes,
            "the expiry thread sleeps until 100 and is not woken for 5"
        );
    });
}

/// Two threads publish at once: the earlier of their deadlines is not lost either.
#[test]
fn two_deadlines_arrive_while_parking() {
    let mut builder = loom::model::Builder::new();
    // Three threads without a bound take hours.
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let sleeper = Arc::new(SleepDeadline::new());
        let slots = Arc::new([
            AtomicI64::new(SleepDeadline::NEVER),
            AtomicI64::new(SleepDeadline::NEVER),
        ]);
        sleeper.awake();
        let threads = [(0, 5), (1, 7)].map(|(slot, deadline)| {
            let (sleeper, slots) = (Arc::clone(&sleeper), Arc::clone(&slots));
            thread::spawn(move || sleeper.publish(&slots[slot], deadline))
        });
        let sleeps = sleeper.sleep(100, || {
            slots
                .iter()
                .map(|slot| slot.load(Ordering::Relaxed))
                .min()
                .unwrap()
        });
        let [first, second] = threads.map(|thread| thread.join().unwrap());
        assert!(
            !sleeps || (first && second),
            "the expiry thread sleeps until 100 with {first} and {second}"
        );
    });
}

/// An expiry thread that does not run yet is woken, that is started, by the first deadline.
#[test]
fn first_deadline_starts_the_expiry_thread() {
    loom::model(|| {
        let sleeper = SleepDeadline::new();
        let slot = AtomicI64::new(SleepDeadline::NEVER);
        assert!(sleeper.publish(&slot, 5));
    });
}

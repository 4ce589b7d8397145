//! Loom cases for the handing over of deadlines.

use loom::sync::Arc;
use loom::thread;

use super::Promise;
use tickless_link::sync::{AtomicI64, Ordering};

/// An earlier deadline arrives while the driver goes to sleep: it is woken, or does not sleep.
#[test]
fn earlier_deadline_arrives_while_parking() {
    loom::model(|| {
        let promise = Arc::new(Promise::new());
        let slot = Arc::new(AtomicI64::new(Promise::NEVER));
        promise.awake();
        let thread = {
            let (promise, slot) = (Arc::clone(&promise), Arc::clone(&slot));
            thread::spawn(move || promise.publish(&slot, 5))
        };
        let sleeps = promise.sleep(100, || slot.load(Ordering::Relaxed));
        let wakes = thread.join().unwrap();
        assert!(
            !sleeps || wakes,
            "the driver sleeps until 100 and nobody wakes it for 5"
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
        let promise = Arc::new(Promise::new());
        let slots = Arc::new([
            AtomicI64::new(Promise::NEVER),
            AtomicI64::new(Promise::NEVER),
        ]);
        promise.awake();
        let threads = [(0, 5), (1, 7)].map(|(slot, deadline)| {
            let (promise, slots) = (Arc::clone(&promise), Arc::clone(&slots));
            thread::spawn(move || promise.publish(&slots[slot], deadline))
        });
        let sleeps = promise.sleep(100, || {
            slots
                .iter()
                .map(|slot| slot.load(Ordering::Relaxed))
                .min()
                .unwrap()
        });
        let [first, second] = threads.map(|thread| thread.join().unwrap());
        assert!(
            !sleeps || (first && second),
            "the driver sleeps until 100 with {first} and {second}"
        );
    });
}

/// A driver that does not run yet is woken, that is started, by the first deadline.
#[test]
fn first_deadline_starts_the_driver() {
    loom::model(|| {
        let promise = Promise::new();
        let slot = AtomicI64::new(Promise::NEVER);
        assert!(promise.publish(&slot, 5));
    });
}

//! Loom cases for a thread that passes a deadline while the expiry thread goes to sleep.

use loom::sync::Arc;
use loom::thread;

use super::SleepDeadline;
use tickless_link::sync::{AtomicI64, Ordering};

/// An earlier deadline arrives while the expiry thread goes to sleep. The expiry thread is woken, or does not sleep.
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

/// The first deadline wakes an expiry thread that does not run yet, which means that it is started.
#[test]
fn first_deadline_starts_the_expiry_thread() {
    loom::model(|| {
        let sleeper = SleepDeadline::new();
        let slot = AtomicI64::new(SleepDeadline::NEVER);
        assert!(sleeper.publish(&slot, 5));
    });
}

/// A thread that fires its own timers publishes a deadline while the expiry thread wakes up and goes to sleep again.
/// The expiry thread sees the deadline at its second check at the latest, because it sees a deadline that was written a
/// grace before; `grace` models that time.
#[test]
fn deadline_told_without_a_fence_is_seen_by_the_second_look() {
    tell_without_a_fence(Some(50));
}

/// The thread and the expiry thread miss each other without the second check: the thread reads an old word, by which
/// the expiry thread wakes up by itself.
#[test]
#[should_panic(expected = "the expiry thread sleeps until 100")]
fn deadline_told_without_a_fence_is_missed_by_the_first_look() {
    tell_without_a_fence(None);
}

fn tell_without_a_fence(again: Option<i64>) {
    loom::model(move || {
        let sleeper = Arc::new(SleepDeadline::new());
        assert!(sleeper.sleep(5, || SleepDeadline::NEVER));
        let slot = Arc::new(AtomicI64::new(SleepDeadline::NEVER));
        let grace = Arc::new(AtomicI64::new(0));
        let thread = {
            let (sleeper, slot, grace) =
                (Arc::clone(&sleeper), Arc::clone(&slot), Arc::clone(&grace));
            thread::spawn(move || {
                slot.store(7, Ordering::Relaxed);
                // As `device::watch` does.
                let wakes = !sleeper.wakes_by(7) && sleeper.is_after(7);
                grace.store(1 + i64::from(wakes), Ordering::Release);
                wakes
            })
        };
        sleeper.awake();
        let earliest = || slot.load(Ordering::Relaxed);
        let mut oversleeps = false;
        if sleeper.sleep(100, earliest) {
            sleeper.park(100, again, earliest, |until| {
                if until == 100 {
                    oversleeps = true;
                    return false;
                }
                loop {
                    match grace.load(Ordering::Acquire) {
                        0 => thread::yield_now(),
                        passed => return passed == 2,
                    }
                }
            });
        }
        let wakes = thread.join().unwrap();
        assert!(
            !oversleeps || wakes,
            "the expiry thread sleeps until 100 and is not woken for 7"
        );
    });
}

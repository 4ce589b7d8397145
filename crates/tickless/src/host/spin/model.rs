//! Loom cases for a notification that meets a worker going to wait for a store.

use std::cell::Cell;

use loom::sync::Arc;
use loom::thread;

use super::{Instructions, wait};
use crate::host::park_state::ParkState;
use tickless_link::sync::{AtomicU32, Ordering};

/// `umwait` without a deadline: it ends when the word is not any more what it was when it was monitored.
#[derive(Default)]
struct Endless {
    monitored: Cell<u32>,
}

impl Instructions for Endless {
    fn now_and_longest(&self) -> (u64, u64) {
        (0, u64::MAX)
    }

    fn monitor(&self, word: &AtomicU32) {
        // Acquire: the instruction is ordered as a load is, and loads of that processor stay in order.
        self.monitored.set(word.load(Ordering::Acquire));
    }

    fn wait(&self, word: &AtomicU32, _end: u64) {
        // Acquire: see above.
        while word.load(Ordering::Acquire) == self.monitored.get() {
            thread::yield_now();
        }
    }
}

/// A thread notifies a worker that is between its look and the wait: the wait ends, however long it might be.
#[test]
fn a_notification_meets_a_worker_that_goes_to_wait() {
    loom::model(|| {
        let state = Arc::new(ParkState::new());
        let waker = {
            let state = Arc::clone(&state);
            thread::spawn(move || state.leave())
        };
        wait(
            &Endless::default(),
            state.word(),
            || state.is_there(),
            || u64::MAX,
        );
        assert!(state.take());
        let asleep = waker.join().unwrap();
        assert_eq!(asleep, None, "a worker that waits so does not sleep");
    });
}

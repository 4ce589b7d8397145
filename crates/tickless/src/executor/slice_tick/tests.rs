//! Tests of how a worker starts its timer for the next replenishment.

use std::cell::Cell;

use super::*;

/// A timer that records the time for which it was started.
#[derive(Default)]
struct Hand {
    queued: Cell<Option<Instant>>,
    starts: Cell<u32>,
}

impl SliceTimer for Hand {
    fn now(&self) -> Instant {
        Instant::ZERO
    }
    fn queued(&self) -> Option<Instant> {
        self.queued.get()
    }
    fn is_active(&self) -> bool {
        self.queued.get().is_some()
    }
    fn start(&self, at: Instant) {
        self.queued.set(Some(at));
        self.starts.set(self.starts.get() + 1);
    }
    fn cancel(&self) {
        self.queued.set(None);
    }
}

#[test]
fn a_timer_that_is_queued_for_that_time_is_not_started_again() {
    let timer = Hand::default();
    let [one, other] = [110, 113].map(Instant::from_nanos);
    start_if_other(&timer, one);
    start_if_other(&timer, one);
    assert_eq!((timer.queued(), timer.starts.get()), (Some(one), 1));
    start_if_other(&timer, other);
    assert_eq!((timer.queued(), timer.starts.get()), (Some(other), 2));
}

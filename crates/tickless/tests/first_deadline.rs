//! A test that a thread without a worker publishes a deadline to the expiry thread only if the deadline is the new
//! first deadline of the thread.

mod support;

use std::task::Waker;
use std::time::Duration;

use support::waiting;
use tickless::stats;
use tickless::time::{Instant, sleep_until};

const MINUTE: Duration = Duration::from_secs(60);
const MANY: u32 = 1_000;

/// Returns the number of publications during `body`; they are the only device writes of a thread without a worker.
fn publications(body: impl FnOnce()) -> u64 {
    let before = stats().device_writes;
    body();
    stats().device_writes - before
}

#[test]
fn a_plain_thread_publishes_new_first_deadlines_and_no_others() {
    let _patience = support::begin();
    let begin = Instant::now();
    let at = |minutes: u32| waiting(|| sleep_until(begin + MINUTE * minutes), Waker::noop());
    let mut kept = Vec::new();
    assert_eq!(publications(|| kept.push(at(2 * MANY))), 1);
    let later = || kept.extend((1..=MANY).map(|number| at(2 * MANY + number)));
    assert_eq!(publications(later), 0, "the first is another one");
    let churn = || {
        for (number, sleep) in (1..).zip(&mut kept[1..]) {
            *sleep = at(3 * MANY + number);
        }
    };
    assert_eq!(publications(churn), 0, "cancelled and armed again");
    let push = || {
        for (number, sleep) in (1..).zip(&mut kept[1..]) {
            let deadline = begin + MINUTE * (4 * MANY + number);
            sleep.as_mut().reset(deadline);
        }
    };
    assert_eq!(publications(push), 0, "pushed out");
    let earlier = || kept.extend((MANY..2 * MANY).rev().map(at));
    assert_eq!(publications(earlier), u64::from(MANY), "each is the first");
}

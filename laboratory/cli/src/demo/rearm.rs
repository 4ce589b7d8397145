//! The measurement of two operations under load: pushing a deadline out, and arming a timeout and dropping it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::subject::Timers;
use super::tally::Tally;

/// Operations between two readings of the clock.
const BATCH: u32 = 500;
/// The time between two batches.
const PAUSE: Duration = Duration::from_millis(25);
/// A long timeout, which never fires.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The distance by which each push moves the deadline: a request every 50 µs.
const STEP: Duration = Duration::from_micros(50);

/// Measures a batch of each operation now and then, from `start` to `end`.
pub(crate) async fn sample<T: Timers>(start: Instant, end: Instant, tally: Arc<Tally>) {
    let mut next = start;
    while next < end {
        T::sleep_until(next).await;
        let (push, arm) = (push::<T>().await, arm_and_drop::<T>().await);
        let mut part = tally.part();
        part.push.push(each(push));
        part.arm.push(each(arm));
        drop(part);
        next = Instant::now() + PAUSE;
    }
}

fn each(took: Duration) -> f64 {
    took.as_nanos() as f64 / f64::from(BATCH)
}

/// Pushes the deadline of a sleep out, as a connection does for each request.
async fn push<T: Timers>() -> Duration {
    let first = Instant::now() + TIMEOUT;
    let mut sleep = pin!(T::sleep_until(first));
    poll_fn(|context| {
        let _queued = sleep.as_mut().poll(context);
        let begun = Instant::now();
        for step in 1..=BATCH {
            T::reset(sleep.as_mut(), first + STEP * step);
        }
        Poll::Ready(begun.elapsed())
    })
    .await
}

/// Arms a timeout and drops it because the guarded work has finished, as a server does for each query.
async fn arm_and_drop<T: Timers>() -> Duration {
    let deadline = Instant::now() + TIMEOUT;
    poll_fn(|context| {
        let begun = Instant::now();
        for step in 1..=BATCH {
            let _queued = pin!(T::sleep_until(deadline + STEP * step)).poll(context);
        }
        Poll::Ready(begun.elapsed())
    })
    .await
}

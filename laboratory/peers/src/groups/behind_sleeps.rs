//! The cost of pushing a sleep out while the thread's own sleeps are fired by another thread.
//!
//! The thread that fires a sleep takes the base lock of the thread that armed the sleep. So a task that sleeps now and
//! then finds its lock in ordinary mode for its next operations, where a task that never sleeps finds it biased.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::rounds::{Group, subjects};
use crate::subjects::TOKIO;
use crate::threads::runtime;

/// Resets between two readings of the clock.
const BATCH: u32 = 500;
/// The sleep between two batches.
const PAUSE: Duration = Duration::from_millis(5);
/// A timeout that never fires.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The distance by which each reset moves the deadline.
const STEP: Duration = Duration::from_micros(50);

/// Returns the median, over `batches` batches on a worker of a runtime, of the nanoseconds for one reset.
macro_rules! behind_sleeps {
    ($runtime:expr, $time:ident, $batches:expr) => {{
        let batches = $batches;
        let task = $runtime.spawn(async move {
            let mut measured = Vec::new();
            for _ in 0..batches {
                $time::time::sleep(PAUSE).await;
                let first = $time::time::Instant::now() + TIMEOUT;
                let mut sleep = pin!($time::time::sleep_until(first));
                let took = poll_fn(|context| {
                    let _queued = sleep.as_mut().poll(context);
                    let begun = Instant::now();
                    for step in 1..=BATCH {
                        sleep.as_mut().reset(first + STEP * step);
                    }
                    Poll::Ready(begun.elapsed())
                });
                measured.push(took.await);
            }
            measured.sort_unstable();
            let median = measured[measured.len() / 2];
            median.as_secs_f64() * 1e9 / f64::from(BATCH)
        });
        $runtime.block_on(task).expect("the task ends")
    }};
}

/// Measures batches of resets between sleeps, against sleeps of tokio.
pub(super) fn measure(group: &mut Group<'_>) {
    let runtime = runtime();
    let batches = group.operations(4_000).min(40);
    group.measure(
        [("", 0, 2)],
        subjects![
            "tickless" => behind_sleeps!(runtime, tickless, batches),
            TOKIO => behind_sleeps!(runtime, tokio, batches),
        ],
    );
}

//! A comparison of `DelayQueue` with the `DelayQueue` of tokio-util: inserting, resetting, removing and expiring among
//! many values.

use std::future::poll_fn;
use std::hint::black_box;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use tickless::time::DelayQueue;
use tokio_util::time::DelayQueue as TokioQueue;

use crate::harness::{Group, Options, Sink, subjects, time};
use crate::threads::{runtime, shuffled, worker};

const TOKIO_UTIL: &str = "tokio-util, DelayQueue";

/// Returns a duration of an hour and up to sixteen minutes more, so that no value is due during a measurement.
fn far(index: usize) -> Duration {
    let scattered = (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24;
    Duration::from_secs(3600) + Duration::from_nanos(scattered)
}

/// Returns a duration of one second at most.
fn near(index: usize) -> Duration {
    let scattered = (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 34;
    Duration::from_nanos(scattered)
}

#[derive(Clone, Copy)]
enum Operation {
    Insert,
    Reset,
    Remove,
    Expire,
}

/// Runs one round for a type of queue. A macro, because the two types have the same methods but no common trait.
macro_rules! round {
    ($queue:ty, $operation:expr, $count:expr, $order:expr) => {{
        let mut queue = <$queue>::with_capacity($count);
        let operations = $count as u64;
        let mut keys = Vec::with_capacity($count);
        match $operation {
            Operation::Insert => {
                // The second filling: neither allocates.
                for index in 0..$count {
                    keys.push(queue.insert(index as u64, far(index)));
                }
                for key in keys.drain(..) {
                    queue.remove(&key);
                }
                time(operations, || {
                    for index in 0..$count {
                        keys.push(queue.insert(index as u64, far(index)));
                    }
                })
            }
            Operation::Reset => {
                for index in 0..$count {
                    keys.push(queue.insert(index as u64, far(index)));
                }
                time(operations, || {
                    for &index in $order {
                        queue.reset(&keys[index], far(index + 7_777));
                    }
                })
            }
            Operation::Remove => {
                for index in 0..$count {
                    keys.push(queue.insert(index as u64, far(index)));
                }
                time(operations, || {
                    for &index in $order {
                        black_box(queue.remove(&keys[index]));
                    }
                })
            }
            Operation::Expire => {
                for index in 0..$count {
                    queue.insert(index as u64, near(index));
                }
                // As a task that waits: what was polled may be armed.
                let mut context = Context::from_waker(Waker::noop());
                let _pending = queue.poll_expired(&mut context);
                thread::sleep(Duration::from_millis(1_100));
                let drain = async {
                    while let Some(expired) = poll_fn(|context| queue.poll_expired(context)).await {
                        black_box(expired.into_inner());
                    }
                };
                let runtime = tokio::runtime::Handle::current();
                time(operations, || runtime.block_on(drain))
            }
        }
    }};
}

pub(super) fn measure(options: &Options, sink: Sink<'_>) {
    // The clock is measured before it is used.
    drop(worker());
    let runtime = runtime();
    let _inside = runtime.enter();
    let all = [
        ("insert into a delay queue", Operation::Insert),
        ("reset in a delay queue", Operation::Reset),
        ("remove from a delay queue", Operation::Remove),
        ("expire from a delay queue", Operation::Expire),
    ];
    for count in [1_000, 1_000_000] {
        let order = &shuffled(count);
        for (name, operation) in all {
            let group = Group::measure(
                name,
                count as u64,
                options,
                subjects![
                    "tickless" => round!(DelayQueue<u64>, operation, count, order),
                    TOKIO_UTIL => round!(TokioQueue<u64>, operation, count, order),
                ],
            );
            sink(group.at_most(0.4, TOKIO_UTIL));
        }
    }
}

//! `tokio::time`, exact to the nanosecond and without a runtime.
//!
//! Names, signatures, panics and texts are those of `tokio::time` 1.54, so that a program moves by changing a `use`:
//!
//! ```
//! use std::time::Duration;
//! use tickless::time::{sleep, timeout};
//!
//! # futures::executor::block_on(async {
//! sleep(Duration::from_micros(50)).await;
//!
//! let slow = sleep(Duration::from_secs(3600));
//! assert!(timeout(Duration::from_millis(1), slow).await.is_err());
//! # });
//! ```
//!
//! It works in tokio, smol, a bare `block_on`, or on a [`Worker`](crate::Worker), without any set-up. A `use` moves the
//! timers that the program makes itself: those inside of tower, hyper-util, tonic or tokio-stream stay tokio's, unless
//! they are given others (`tickless::hyper`, the crate `tickless-adapters`). Tests that call `tokio::time::pause` need
//! the feature `tokio-test-util`; without it these timers wait in real time there.
//!
//! # Order
//!
//! Sleeps of one thread that end at the same [`Instant`] wake their tasks in the order in which they were armed (first
//! polled, or [`reset`](Sleep::reset) to an earlier deadline), however far away they were then. A sleep that was pushed
//! out by `reset` while it waited takes its turn at some time between the reset and its end. Sleeps that were armed at
//! different times for an end more than 36 hours ahead keep no order.
//!
//! # What is different on purpose
//!
//! 1. **Deadlines are exact.** tokio rounds them up to the next millisecond, and then what it waits; here a sleep of
//!    50 µs ends after 50 µs and what the operating system needs to wake a thread. Never early, not by a nanosecond, by
//!    the judgement of [`std::time::Instant`] and by that of [`Instant`]. For reading the clock cheaply something is
//!    added to a relative deadline, usually about 100 ns and never more than 450. So [`Sleep::deadline`] can be that
//!    much behind `now() + duration` of a moment later; of two sleeps of one length on one thread the second never ends
//!    before the first. Where that is more than needed, [slack](Sleep::slack) saves wake-ups, and
//!    [`Precision::Millisecond`] is what tokio promises.
//! 2. **No runtime is needed.** What panics in tokio outside of a runtime ("there is no reactor running") works here.
//!
//! And what follows from being another implementation:
//!
//! - [`Instant`] is a number of 8 bytes, read from the processor's counter, which follows the kernel's clock. A sum
//!   that does not fit is a time that never comes, where tokio's panics.
//! - Nothing is allocated, except a box by the first poll of an [`Interval`].
//! - A deadline can be 292 years ahead; tokio's `sleep` stops at 30 years.
//! - There is no budget of the runtime, but a loop that never waits gives way all the same: a task that was told 128
//!   times in a row, on one thread, that a time is over, without any waiting, is told to wait once and woken at once. A
//!   poll with [`Waker::noop`](std::task::Waker::noop) gets the true answer, except right behind a
//!   [`reset`](Sleep::reset).
//! - A sleep whose deadline has passed is ready at its first poll, and so is `sleep(Duration::ZERO)`. tokio's is
//!   pending then, unless its clock, which the runtime advances between two rounds of tasks, has passed the deadline:
//!   code that gives way to other tasks by a sleep of zero has to call `yield_now` instead.
//! - [`Sleep`] is fused: polled again after it was ready, it is ready again.
//! - [`pause`], [`resume`] and [`advance`] work to the nanosecond, and what is due has run when an advance is ready.
//!
//! # Cost
//!
//! A sleep that is polled once and dropped costs two clock readings and one insertion and removal in the thread's own
//! queue. A future inside a [`timeout()`] that is ready at its first poll costs one clock reading: no queue is touched.

pub mod blocking;
pub(crate) mod budget;
pub mod delay_queue;
mod error_impl;
mod future_ext;
mod instant;
pub(crate) mod interval;
pub(crate) mod slack;
mod sleep;
pub(crate) mod sleep_queue;
pub(crate) mod sleep_timer;
#[cfg(feature = "stream")]
mod stream;
mod timeout;
mod timer;
pub(crate) mod virtual_time;

pub use std::time::Duration;

pub use delay_queue::{DelayQueue, Expired, Key};
pub use future_ext::FutureExt;
pub use instant::Instant;
pub use interval::{Interval, MissedTickBehavior, interval, interval_at};
pub use slack::{Precision, WithSlack, set_thread_slack, thread_slack, with_slack};
pub use sleep::{Sleep, sleep, sleep_until};
#[cfg(feature = "stream")]
pub use stream::{
    ChunksTimeout, IntervalStream, StreamExt, StreamTimeout, StreamTimeoutRepeating, Throttle,
};
pub use timeout::{Timeout, timeout, timeout_at};
pub use timer::Timer;
pub use virtual_time::{advance, pause, pause_manually, resume};

/// Errors of this module.
pub mod error {
    pub use super::error_impl::{Elapsed, Error};
}

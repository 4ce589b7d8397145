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
//! The timers work in tokio, smol, a bare `block_on`, or on a [`Worker`](crate::Worker), without any set-up. Changing a
//! `use` moves the timers that the program makes itself. The timers inside of tower, hyper-util, tonic or tokio-stream
//! stay tokio's, unless the program replaces them (`tickless::hyper`, the crate `tickless-adapters`). Tests that call
//! `tokio::time::pause` need the feature `tokio-test-util`; without this feature the timers of this library wait in
//! real time in such tests.
//!
//! # Order
//!
//! Sleeps of one thread that end at the same [`Instant`] wake their tasks in the order in which they were armed (first
//! polled, or [`reset`](Sleep::reset) to an earlier deadline), however far away they were then. A sleep that was pushed
//! out by `reset` while it waited takes its place in this order at some time between the reset and its end. Sleeps that
//! were armed at different times for an end more than 4 hours ahead keep no order.
//!
//! # What is different on purpose
//!
//! 1. **Deadlines are exact.** tokio rounds deadlines up to the next millisecond, and then rounds up its wait. Here a
//!    sleep of 50 µs ends after 50 µs plus the time that the operating system needs to wake a thread. No sleep ends
//!    early, not by a nanosecond, by [`std::time::Instant`] and by [`Instant`]. Because the clock is read cheaply, a
//!    relative deadline is later by usually about 100 ns and never more than 2.3 µs. So [`Sleep::deadline`] can be later
//!    by this amount than `now() + duration` of a moment later. Of two sleeps of one length on one thread the second
//!    never ends before the first. If a program needs less precision, [slack](Sleep::slack) saves wake-ups, and
//!    [`Precision::Millisecond`] is the precision that tokio promises.
//! 2. **No runtime is needed.** Calls that panic in tokio outside of a runtime ("there is no reactor running") work
//!    here.
//!
//! These differences follow from another implementation:
//!
//! - [`Instant`] is a number of 8 bytes, read from the processor's counter, which follows the kernel's clock. A sum
//!   that does not fit is a time that never comes, where tokio panics.
//! - Nothing is allocated, except a box by the first poll of an [`Interval`].
//! - A deadline can be 292 years ahead; tokio's `sleep` stops at 30 years.
//! - A loop that never waits gives way, as in tokio: if 128 sleeps in one poll of a task were over without any waiting,
//!   the next one returns `Pending`, and the task is woken at once. The task gets a new budget in each poll, from this
//!   library's own runtimes and, with the feature `tokio`, from tokio. In other runtimes, which do not say where a poll
//!   begins, each 129th sleep of a thread that need not wait gives way. A poll with
//!   [`Waker::noop`](std::task::Waker::noop) always returns the true state, except right after a
//!   [`reset`](Sleep::reset).
//! - A sleep whose deadline has passed is ready at its first poll, and so is `sleep(Duration::ZERO)`. tokio's sleep is
//!   pending then, unless tokio's clock has passed the deadline; the runtime advances that clock between two rounds of
//!   tasks. Code that gives way to other tasks by a sleep of zero has to call `yield_now` instead.
//! - [`Sleep`] is fused: a sleep that is polled again after it was ready is ready again.
//! - [`MissedTickBehavior`] decides about a tick that is late by more than 5 ms, as in tokio, or by more than a period.
//! - [`pause`], [`resume`] and [`advance`] work to the nanosecond, and all timers that are due have run when an advance
//!   is ready. In a runtime of tokio they are tokio's functions.
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
pub(crate) mod sleep_timer;
#[cfg(feature = "stream")]
mod stream;
mod timeout;
mod timer;
#[cfg(feature = "worker")]
pub(crate) mod virtual_time;

pub use std::time::Duration;

pub use delay_queue::{DelayQueue, Expired, Key};
pub use future_ext::FutureExt;
pub use instant::Instant;
pub use interval::{Interval, MissedTickBehavior, interval, interval_at};
pub use slack::{Precision, Slack, WithSlack, set_thread_slack, thread_slack, with_slack};
pub use sleep::{Sleep, sleep, sleep_until};
#[cfg(feature = "stream")]
pub use stream::{
    ChunksTimeout, IntervalStream, StreamExt, StreamTimeout, StreamTimeoutRepeating, Throttle,
};
pub use timeout::{Timeout, timeout, timeout_at};
pub use timer::Timer;
#[cfg(feature = "worker")]
pub use virtual_time::{advance, pause, pause_manually, resume};

/// The errors of this module.
pub mod error {
    pub use super::error_impl::{Elapsed, Error};
}

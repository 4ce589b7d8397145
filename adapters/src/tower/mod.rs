//! Layers of tower with exact time, which axum can use too, and pauses for tower's retries.
//!
//! tower does not let its users replace tokio's timers. This module has its own version of each type of tower that
//! waits, under the name that the type has in tower, so a program only changes its `use`.
//!
//! | in tower | here |
//! |---|---|
//! | `timeout::{Timeout, TimeoutLayer}` | [`Timeout`], [`TimeoutLayer`]; fails with [tower's error](::tower::timeout::error::Elapsed) |
//! | `limit::{RateLimit, RateLimitLayer}` | [`RateLimit`], [`RateLimitLayer`] |
//! | `retry::backoff::{ExponentialBackoff, ExponentialBackoffMaker}` | [`ExponentialBackoff`], [`ExponentialBackoffMaker`], for the policies of tower's own `Retry` |
//! | `retry::budget`, `load::PeakEwma`, `hedge` | not replaced: `budget` and `PeakEwma` only read tokio's clock; `hedge` waits by tokio's timers |

mod backoff;
mod rate_limit;
mod timeout;

pub use self::backoff::{ExponentialBackoff, ExponentialBackoffMaker, InvalidBackoff};
pub use self::rate_limit::{RateLimit, RateLimitLayer};
pub use self::timeout::{ResponseFuture, Timeout, TimeoutLayer};

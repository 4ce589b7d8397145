//! Layers of tower whose time is exact, for axum too, and pauses for its retries.
//!
//! tower keeps tokio's timers to itself, so what waits in it is written anew here, with the names that it has there: a
//! change of `use` is enough.
//!
//! | in tower | here |
//! |---|---|
//! | `timeout::{Timeout, TimeoutLayer}` | [`Timeout`], [`TimeoutLayer`]; fails with [tower's error](::tower::timeout::error::Elapsed) |
//! | `limit::{RateLimit, RateLimitLayer}` | [`RateLimit`], [`RateLimitLayer`] |
//! | `retry::backoff::{ExponentialBackoff, ExponentialBackoffMaker}` | [`ExponentialBackoff`], [`ExponentialBackoffMaker`], for the policies of tower's own `Retry` |
//! | `retry::budget`, `load::PeakEwma`, `hedge` | stay: they only read tokio's clock; `hedge` waits by it |

mod backoff;
mod rate_limit;
mod timeout;

pub use self::backoff::{ExponentialBackoff, ExponentialBackoffMaker, InvalidBackoff};
pub use self::rate_limit::{RateLimit, RateLimitLayer};
pub use self::timeout::{ResponseFuture, Timeout, TimeoutLayer};

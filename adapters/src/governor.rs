//! A clock for governor's rate limiters, and functions that wait until a limiter lets a caller pass.

use std::num::NonZeroU32;
use std::time::Instant as StdInstant;

use ::governor::clock::{self, ReasonablyRealtime};
use ::governor::middleware::RateLimitingMiddleware;
use ::governor::state::{DirectStateStore, NotKeyed};
use ::governor::{InsufficientCapacity, NotUntil, RateLimiter};
use tickless::time::{self, Instant};

/// A clock to make a limiter with, so that the limiter and [`time`] agree, even while the clock is paused.
///
/// ```
/// use governor::{Quota, RateLimiter};
/// use tickless_adapters::governor::{Clock, until_ready};
///
/// let quota = Quota::per_second(std::num::NonZeroU32::MAX);
/// let limiter = RateLimiter::direct_with_clock(quota, Clock);
/// futures::executor::block_on(until_ready(&limiter));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl clock::Clock for Clock {
    type Instant = StdInstant;

    fn now(&self) -> StdInstant {
        Instant::now().into_std()
    }
}

impl ReasonablyRealtime for Clock {}

/// Waits until `limiter` lets one cell pass, and takes that cell.
///
/// Does the same as [`RateLimiter::until_ready`], which waits by futures-timer. Waiting callers pass in the order in
/// which they check the limiter again. A future that is dropped takes no cell.
pub async fn until_ready<S, C, M>(limiter: &RateLimiter<NotKeyed, S, C, M>) -> M::PositiveOutcome
where
    S: DirectStateStore,
    C: ReasonablyRealtime,
    M: RateLimitingMiddleware<C::Instant, NegativeOutcome = NotUntil<C::Instant>>,
{
    loop {
        match limiter.check() {
            Ok(outcome) => return outcome,
            Err(refused) => time::sleep(refused.wait_time_from(limiter.clock().now())).await,
        }
    }
}

/// Waits as [`until_ready`] does, for `n` cells at once.
///
/// # Errors
///
/// [`InsufficientCapacity`] if the limiter never lets `n` cells pass at once.
pub async fn until_n_ready<S, C, M>(
    limiter: &RateLimiter<NotKeyed, S, C, M>,
    n: NonZeroU32,
) -> Result<M::PositiveOutcome, InsufficientCapacity>
where
    S: DirectStateStore,
    C: ReasonablyRealtime,
    M: RateLimitingMiddleware<C::Instant, NegativeOutcome = NotUntil<C::Instant>>,
{
    loop {
        match limiter.check_n(n)? {
            Ok(outcome) => return Ok(outcome),
            Err(refused) => time::sleep(refused.wait_time_from(limiter.clock().now())).await,
        }
    }
}

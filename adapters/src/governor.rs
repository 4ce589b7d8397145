//! A clock for governor's rate limiters, and limiters that wait.

use std::num::NonZeroU32;
use std::time::Instant as StdInstant;

use ::governor::clock::{self, ReasonablyRealtime};
use ::governor::middleware::RateLimitingMiddleware;
use ::governor::state::{DirectStateStore, NotKeyed};
use ::governor::{InsufficientCapacity, NotUntil, RateLimiter};
use tickless::time::{self, Instant};

/// The clock to make a limiter with, so that it and [`time`] agree, under a paused clock too.
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

/// Waits until `limiter` lets one pass, and takes it.
///
/// It is what [`RateLimiter::until_ready`] does by futures-timer. The waiting callers pass in the order in which they
/// ask again. Dropped, the future takes nothing.
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
/// [`InsufficientCapacity`] if the limiter never lets so many pass at once.
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

//! Tests of the adapters that consist of a sleep or a clock only.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use backon::{BlockingRetryable, ConstantBuilder, Retryable};
use futures::FutureExt;
use futures::executor::block_on;
use futures_timer::Delay;
use governor::clock::Clock as _;
use governor::{Quota, RateLimiter};
use tickless_adapters::backon::Sleeper;
use tickless_adapters::governor::{Clock, until_n_ready, until_ready};

use super::PAUSE;

fn policy() -> ConstantBuilder {
    ConstantBuilder::default()
        .with_delay(PAUSE)
        .with_max_times(2)
}

#[test]
fn backon_waits_between_attempts() {
    let started = Instant::now();
    let attempts = Cell::new(0);
    let attempt = || async {
        attempts.set(attempts.get() + 1);
        Err::<(), _>("refused")
    };
    let result = block_on(attempt.retry(policy()).sleep(Sleeper));
    assert_eq!((result, attempts.get()), (Err("refused"), 3));
    assert!(started.elapsed() >= 2 * PAUSE);
}

#[test]
fn backon_blocks_between_attempts() {
    let started = Instant::now();
    let attempts = Cell::new(0);
    let attempt = || {
        attempts.set(attempts.get() + 1);
        if attempts.get() < 3 {
            Err("refused")
        } else {
            Ok(attempts.get())
        }
    };
    assert_eq!(attempt.retry(policy()).sleep(Sleeper).call(), Ok(3));
    assert!(started.elapsed() >= 2 * PAUSE);
}

/// Returns the quota of a limiter: one cell each [`PAUSE`], and bursts of two.
fn quota() -> Quota {
    Quota::with_period(PAUSE)
        .unwrap()
        .allow_burst(NonZeroU32::new(2).unwrap())
}

#[test]
fn governor_lets_as_many_pass_as_its_quota_says() {
    let limiter = RateLimiter::direct_with_clock(quota(), Clock);
    let started = Clock.now();
    block_on(async {
        for _ in 0..5 {
            until_ready(&limiter).await;
        }
    });
    assert!(Clock.now() - started >= 3 * PAUSE);
    let two = NonZeroU32::new(2).unwrap();
    assert!(block_on(until_n_ready(&limiter, two)).is_ok());
    assert!(Clock.now() - started >= 5 * PAUSE);
    let three = NonZeroU32::new(3).unwrap();
    assert!(block_on(until_n_ready(&limiter, three)).is_err());
}

/// governor waits by futures-timer, and this workspace patches futures-timer to use the timers of this library.
#[test]
fn governor_waits_by_the_patched_futures_timer() {
    let before = tickless::stats().expired;
    let limiter = RateLimiter::direct_with_clock(quota(), Clock);
    let started = Clock.now();
    block_on(async {
        for _ in 0..4 {
            limiter.until_ready().await;
        }
    });
    assert!(Clock.now() - started >= 2 * PAUSE);
    assert!(tickless::stats().expired > before);
}

#[test]
fn a_delay_of_futures_timer_can_be_moved() {
    let started = Instant::now();
    let mut delay = Delay::new(Duration::MAX);
    assert!((&mut delay).now_or_never().is_none());
    delay.reset(PAUSE);
    block_on(&mut delay);
    assert!(started.elapsed() >= PAUSE);
    // Once over, it waits again.
    delay.reset(PAUSE);
    block_on(&mut delay);
    assert!(started.elapsed() >= 2 * PAUSE);
}

//! Two rate limiters: governor's for a client, and the layer of tower for a service.
//!
//! `cargo run --manifest-path adapters/Cargo.toml --example rate_limiter --features governor,tower`
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::{Quota, RateLimiter};
use tickless::time::Instant;
use tickless_adapters::governor::{Clock, until_ready};
use tickless_adapters::tower::RateLimitLayer;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

const PERIOD: Duration = Duration::from_millis(2);
const BURST: NonZeroU32 = NonZeroU32::MIN.saturating_add(3);

/// Lets `requests` requests pass each limiter, and returns the time that each took.
pub(crate) fn run(requests: u32) -> (Duration, Duration) {
    let quota = Quota::with_period(PERIOD).map(|quota| quota.allow_burst(BURST));
    let limiter = RateLimiter::direct_with_clock(quota.unwrap_or(Quota::per_second(BURST)), Clock);
    let started = Instant::now();
    futures::executor::block_on(async {
        for _ in 0..requests {
            until_ready(&limiter).await;
        }
    });
    let client = started.elapsed();
    println!("{requests} requests, {BURST} at once and one each {PERIOD:?}: {client:?}");

    let echo = service_fn(|request: u32| std::future::ready(Ok::<_, Infallible>(request)));
    let limit = RateLimitLayer::new(BURST.get().into(), PERIOD);
    let mut service = ServiceBuilder::new().layer(limit).service(echo);
    let started = Instant::now();
    futures::executor::block_on(async {
        for request in 0..requests {
            let ready = service.ready().await;
            let Ok(_) = ready
                .unwrap_or_else(|never| match never {})
                .call(request)
                .await;
        }
    });
    let server = started.elapsed();
    println!("{requests} requests, {BURST} in each {PERIOD:?}: {server:?}");
    (client, server)
}

fn main() {
    run(20);
}

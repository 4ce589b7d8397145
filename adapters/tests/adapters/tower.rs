//! Tests of the layers in service stacks of tower.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{self, Future};
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::executor::block_on;
use tickless::time::{self, Sleep};
use tickless_adapters::tower::{
    ExponentialBackoff, ExponentialBackoffMaker, RateLimitLayer, TimeoutLayer,
};
use tower::retry::backoff::{Backoff, MakeBackoff};
use tower::retry::{Policy, RetryLayer};
use tower::timeout::error::Elapsed;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

use super::PAUSE;

#[test]
fn a_request_that_takes_too_long_fails_with_towers_error() {
    let started = Instant::now();
    let slow = service_fn(|()| future::pending::<Result<(), Infallible>>());
    let service = ServiceBuilder::new()
        .layer(TimeoutLayer::new(PAUSE))
        .service(slow);
    let error = block_on(service.oneshot(())).unwrap_err();
    assert!(error.downcast_ref::<Elapsed>().is_some());
    assert!(started.elapsed() >= PAUSE);
}

#[test]
fn a_response_whose_sleeps_are_put_off_wins() {
    let sleeps = service_fn(|()| time::sleep(Duration::ZERO).map(Ok::<_, Infallible>));
    let limited = ServiceBuilder::new()
        .layer(TimeoutLayer::new(Duration::ZERO))
        .service(sleeps);
    block_on(async {
        for _ in 0..1_000 {
            limited.clone().oneshot(()).await.unwrap();
        }
    });
}

#[test]
fn errors_of_the_service_pass() {
    let broken = service_fn(|()| future::ready(Err::<(), BoxError>("broken".into())));
    let service = ServiceBuilder::new()
        .layer(TimeoutLayer::new(PAUSE))
        .service(broken);
    assert_eq!(
        block_on(service.oneshot(())).unwrap_err().to_string(),
        "broken"
    );
}

#[test]
fn a_period_lets_so_many_pass() {
    let echo = service_fn(|number: u32| future::ready(Ok::<_, Infallible>(number)));
    let mut service = ServiceBuilder::new()
        .layer(RateLimitLayer::new(3, PAUSE))
        .service(echo);
    let started = Instant::now();
    block_on(async {
        for number in 0..10 {
            assert_eq!(
                service.ready().await.unwrap().call(number).await,
                Ok(number)
            );
        }
    });
    // Three in each of the first three periods.
    assert!(started.elapsed() >= 3 * PAUSE);
}

#[test]
fn the_fourth_of_a_long_period_waits() {
    let echo = service_fn(|()| future::ready(Ok::<_, Infallible>(())));
    let hour = Duration::from_secs(3600);
    let mut service = ServiceBuilder::new()
        .layer(RateLimitLayer::new(3, hour))
        .service(echo);
    for _ in 0..3 {
        block_on(async { service.ready().await?.call(()).await }).unwrap();
    }
    assert!(service.ready().now_or_never().is_none());
}

#[test]
fn limits_without_sense_do_not_panic() {
    let echo = service_fn(|()| future::ready(Ok::<_, Infallible>(())));
    let none = RateLimitLayer::new(0, Duration::ZERO);
    let mut service = ServiceBuilder::new().layer(none).service(echo);
    for _ in 0..3 {
        block_on(async { service.ready().await?.call(()).await }).unwrap();
    }
    let never = RateLimitLayer::new(1, Duration::MAX);
    let mut service = ServiceBuilder::new().layer(never).service(echo);
    // Without readiness, as no user of tower should.
    block_on(service.call(())).unwrap();
    block_on(service.call(())).unwrap();
    assert!(service.ready().now_or_never().is_none());
}

/// A retry policy with a number of attempts and pauses between them.
#[derive(Clone)]
struct Attempts {
    left: u32,
    pauses: ExponentialBackoff,
}

impl Policy<(), &'static str, &'static str> for Attempts {
    type Future = Sleep;

    fn retry(
        &mut self,
        (): &mut (),
        result: &mut Result<&'static str, &'static str>,
    ) -> Option<Sleep> {
        result.as_ref().err()?;
        self.left = self.left.checked_sub(1)?;
        Some(self.pauses.next_backoff())
    }

    fn clone_request(&mut self, (): &()) -> Option<()> {
        Some(())
    }
}

fn retried(failures: u32) -> impl Future<Output = Result<&'static str, &'static str>> {
    let left = Rc::new(Cell::new(failures));
    let service = service_fn(move |()| {
        let now = left.get();
        left.set(now.saturating_sub(1));
        future::ready(if now == 0 { Ok("done") } else { Err("refused") })
    });
    let pauses = ExponentialBackoffMaker::new(PAUSE, 3 * PAUSE, 0.1)
        .unwrap()
        .make_backoff();
    let policy = Attempts { left: 3, pauses };
    ServiceBuilder::new()
        .layer(RetryLayer::new(policy))
        .service(service)
        .oneshot(())
}

#[test]
fn towers_retry_pauses_by_the_series() {
    let started = Instant::now();
    assert_eq!(block_on(retried(2)), Ok("done"));
    assert!(started.elapsed() >= 3 * PAUSE);
    assert_eq!(block_on(retried(9)), Err("refused"));
}

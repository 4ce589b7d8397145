//! A limit to the number of requests in a period.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::tower::{Layer, Service};
use tickless::time::{self, Instant, Sleep};

/// A layer of [`RateLimit`]s.
#[derive(Clone, Copy, Debug)]
pub struct RateLimitLayer {
    requests: u64,
    period: Duration,
}

impl RateLimitLayer {
    /// Makes a layer that lets `requests` requests pass in each `period`. With 0 requests one request passes in each
    /// period. With a period of zero there is no limit. In both cases tower's layer panics.
    #[must_use]
    pub const fn new(requests: u64, period: Duration) -> Self {
        Self { requests, period }
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, service: S) -> RateLimit<S> {
        RateLimit::new(service, self.requests, self.period)
    }
}

/// A service that is ready for a number of requests in each period, and after that number waits for the next period.
///
/// A period begins with its first request. Like the service of tower, this service cannot be cloned; `tower::buffer`
/// shares it.
#[derive(Debug)]
pub struct RateLimit<S> {
    service: S,
    requests: u64,
    period: Duration,
    /// The number of requests that may still pass until `end`.
    left: u64,
    end: Instant,
    /// The timer that waits for `end`. It is made at the first wait, and later waits move it.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<S> RateLimit<S> {
    /// Limits `service`; the arguments have the same meaning as those of [`RateLimitLayer::new`].
    pub fn new(service: S, requests: u64, period: Duration) -> Self {
        let requests = requests.max(1);
        Self {
            service,
            requests,
            period,
            left: requests,
            end: Instant::now(),
            sleep: None,
        }
    }

    /// Returns the limited service.
    pub fn get_ref(&self) -> &S {
        &self.service
    }

    /// Returns the limited service.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// Returns the service without the limit.
    pub fn into_inner(self) -> S {
        self.service
    }
}

impl<S, R> Service<R> for RateLimit<S>
where
    S: Service<R>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        if self.left == 0 {
            if Instant::now() < self.end {
                let end = self.end;
                let sleep = self
                    .sleep
                    .get_or_insert_with(|| Box::pin(time::sleep_until(end)));
                if sleep.deadline() != end {
                    sleep.as_mut().reset(end);
                }
                ready!(sleep.as_mut().poll(context));
            }
            self.left = self.requests;
        }
        self.service.poll_ready(context)
    }

    /// Passes the request on, even if the service was not ready. The request is counted if the limit of the period is
    /// not reached.
    fn call(&mut self, request: R) -> S::Future {
        let now = Instant::now();
        if now >= self.end {
            self.end = now + self.period;
            self.left = self.requests;
        }
        self.left = self.left.saturating_sub(1);
        self.service.call(request)
    }
}

//! A time limit for requests.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::tower::timeout::error::Elapsed;
use ::tower::{BoxError, Layer, Service};
use pin_project_lite::pin_project;
use tickless::time;

/// A layer of [`Timeout`]s.
///
/// A request fails after `duration`. In axum the layer needs an error handler around it, as the layer of tower does.
///
/// ```
/// use std::time::Duration;
/// use tickless_adapters::tower::TimeoutLayer;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # futures::executor::block_on(async {
/// let slow = service_fn(|()| std::future::pending::<Result<(), std::convert::Infallible>>());
/// let limited = ServiceBuilder::new().layer(TimeoutLayer::new(Duration::from_micros(200))).service(slow);
/// let error = limited.oneshot(()).await.unwrap_err();
/// assert_eq!(error.to_string(), "request timed out");
/// # });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TimeoutLayer {
    duration: Duration,
}

impl TimeoutLayer {
    /// Makes a layer that limits each request to `duration`, measured from the call. The time that a request waits for
    /// the service to become ready does not count.
    #[must_use]
    pub const fn new(duration: Duration) -> Self {
        Self { duration }
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, service: S) -> Timeout<S> {
        Timeout::new(service, self.duration)
    }
}

/// A service whose responses have a time limit. A response that exceeds the limit fails with tower's [`Elapsed`], and
/// the future of the inner service is dropped.
#[derive(Clone, Debug)]
pub struct Timeout<S> {
    service: S,
    duration: Duration,
}

impl<S> Timeout<S> {
    /// Limits the requests of `service` to `duration` each.
    #[must_use]
    pub const fn new(service: S, duration: Duration) -> Self {
        Self { service, duration }
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

impl<S, R> Service<R> for Timeout<S>
where
    S: Service<R>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        ResponseFuture {
            response: time::timeout(self.duration, self.service.call(request)),
        }
    }
}

pin_project! {
    /// The future of a response with a time limit.
    ///
    /// If the response is ready and the time limit is over at the same poll, the future returns the response.
    #[derive(Debug)]
    pub struct ResponseFuture<F> {
        #[pin]
        response: time::Timeout<F>,
    }
}

impl<F, T, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let response = ready!(self.project().response.poll(context));
        Poll::Ready(match response {
            Ok(result) => result.map_err(Into::into),
            Err(_) => Err(Elapsed::new().into()),
        })
    }
}

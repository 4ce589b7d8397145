//! The idle timeout of a server's connections.
//!
//! A stream alone cannot know whether its connection is idle: while a handler computes, nothing is read and nothing is
//! written. So the stream shares an account with the connection's service. The service counts a request as in flight
//! from its call until hyper has dropped all of the response: the future, the body, and each piece of data that hyper
//! or h2 still holds.
//!
//! The stream has one timer, and looks at the account whenever there is nothing to read. While the connection is idle
//! the timer is armed for the end of the timeout: a request that has ended since pushes it out, which is cheap. While
//! the connection is not idle the timer stays as it is, so nothing wakes the connection when its last request ends; if
//! the timer fires meanwhile, it is armed for a whole timeout again. So the timer of a connection fires without ending
//! the connection only if a request takes longer than the timeout, once for each timeout that passes.

use std::fmt::{self, Debug, Formatter};
use std::future::Future;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant as StdInstant};

use hyper::body::{Body, Buf, Frame, SizeHint};
use hyper::rt::{Read, ReadBufCursor, Sleep as HyperSleep, Timer as HyperTimer, Write};
use hyper::service::Service;
use hyper::{Method, Request, Response, StatusCode};
use pin_project_lite::pin_project;

use super::Timer;

/// The shortest timeout, because the timer of a connection with a request in flight fires once in each timeout.
const SHORTEST: Duration = Duration::from_millis(1);
/// The longest timeout, 30 years: a time that the clock can add.
const LONGEST: Duration = Duration::from_secs(86_400 * 365 * 30);
/// The looks at the timer in one poll: one for the timer that fired, and one for the timer that is armed then.
const LOOKS: u32 = 2;

/// The idle timeout of a server's connections: it closes a connection that has been idle for so long.
///
/// hyper and axum have no such timeout. [`wrap`](Self::wrap) takes the two things from which hyper makes a connection,
/// and returns them with the timeout:
///
/// ```
/// use std::time::Duration;
///
/// use hyper::server::conn::http1;
/// use hyper_util::rt::TokioIo;
/// use tickless::hyper::{IdleTimeout, Timer};
///
/// # async fn serve(stream: tokio::net::TcpStream) -> hyper::Result<()> {
/// # let service = hyper::service::service_fn(|_request| async {
/// #     Ok::<_, std::convert::Infallible>(hyper::Response::new("hello".to_owned()))
/// # });
/// let idle = IdleTimeout::new(Duration::from_secs(60)); // Once, for all connections.
///
/// let (io, service) = idle.wrap(TokioIo::new(stream), service); // For each connection.
/// http1::Builder::new()
///     .timer(Timer)
///     .header_read_timeout(Duration::from_secs(90))
///     .serve_connection(io, service)
///     .await
/// # }
/// ```
///
/// The builders of HTTP/1 and of HTTP/2 take the pair, and so does `hyper_util::server::conn::auto`; what they return
/// can be shut down gracefully as before.
///
/// # When a connection is idle
///
/// A connection is idle while no request is in flight and nothing waits to be written. Only this time counts. A request
/// is in flight from the call of the service until hyper has passed the last byte of the response to the stream, or has
/// given the request up. So the timeout never ends
///
/// - a handler that takes longer than the timeout,
/// - a response whose body pauses for longer, or which the peer reads slowly,
/// - an upload that pauses for longer, as long as the handler waits for it,
/// - a connection that was upgraded, for example to a WebSocket, or that carries a tunnel (`CONNECT`): the protocol
///   behind it knows when it is idle, and this timeout does not apply any more.
///
/// The timeout applies to a connection that has sent nothing yet, too. Bytes that arrive while a connection is idle,
/// such as a part of a head, begin the timeout anew, but a connection without a request ends after twice the timeout.
/// So the answers of an HTTP/2 peer to pings do not keep its connection.
///
/// hyper's own header timeout for HTTP/1 runs while a connection is silent as well, and makes its end an error. It is
/// 30 seconds in a builder that has a timer. Make it longer than this timeout.
///
/// # The end
///
/// The connection ends as if the peer had closed it: the stream reports the end of the file, hyper shuts the stream
/// down, and the connection's future returns `Ok`. A head that has begun makes it an error.
///
/// # What else needs a limit
///
/// This timeout does not limit what is not idle. A handler needs a timeout of its own, such as `TimeoutLayer` of the
/// crate `tickless-adapters`, and one that reads an upload needs it for the reading. A peer that stops reading in the
/// middle of a response is bounded by the system: set `TCP_USER_TIMEOUT` on the socket, and Linux closes a connection
/// whose peer takes nothing for that time. With HTTP/2 a peer can also stop one stream by its window, which only a
/// timeout in the body can see.
///
/// # Cost
///
/// A box of about 120 bytes for the timer of each connection, and a shared one of about 60. The end of a request pushes
/// the timer out. A request takes a lock that hardly any other thread wants, at its beginning and at its end, and for
/// each piece of its response's body. Without slack a connection that is closed takes a wake-up of its own; a thread's
/// [slack](crate::time::set_thread_slack) applies to the timers that connections arm there.
#[derive(Clone)]
pub struct IdleTimeout {
    timeout: Duration,
    timer: Arc<dyn HyperTimer + Send + Sync>,
}

impl IdleTimeout {
    /// Returns an idle timeout of this length. Less than a millisecond counts as a millisecond, and more than 30 years
    /// as 30 years.
    pub fn new(timeout: Duration) -> Self {
        Self {
            timeout: timeout.clamp(SHORTEST, LONGEST),
            timer: Arc::new(Timer),
        }
    }

    /// Takes the time from another timer than [`Timer`], as hyper's builders do.
    #[must_use]
    pub fn timer(self, timer: impl HyperTimer + Send + Sync + 'static) -> Self {
        Self {
            timer: Arc::new(timer),
            ..self
        }
    }

    /// Returns the stream and the service of one connection, with this timeout. Both are for that connection alone; the
    /// timeout begins with this call.
    pub fn wrap<I, S>(&self, io: I, service: S) -> (IdleStream<I>, IdleService<S>) {
        let begun = self.timer.now();
        let account = Arc::new(Account {
            timer: Arc::clone(&self.timer),
            requests: Mutex::new(Requests {
                in_flight: 0,
                idle_since: begun,
            }),
        });
        let idle = Idle::new(self, &account, begun);
        let stream = IdleStream { io, idle };
        (stream, IdleService { service, account })
    }
}

impl Debug for IdleTimeout {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        { formatter.debug_struct("IdleTimeout") }
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// The account of a connection's requests, which its stream and its service share.
struct Account {
    timer: Arc<dyn HyperTimer + Send + Sync>,
    requests: Mutex<Requests>,
}

struct Requests {
    /// The parts of requests that are in flight: futures, bodies, pieces of data. The service adds one for good if the
    /// connection is upgraded.
    in_flight: usize,
    /// The time at which the last request ended; before the first one, the beginning of the connection.
    idle_since: StdInstant,
}

impl Account {
    fn requests(&self) -> MutexGuard<'_, Requests> {
        { self.requests.lock() }.unwrap_or_else(PoisonError::into_inner)
    }
}

/// One count of the requests in flight, for as long as it exists.
struct Count {
    account: Arc<Account>,
}

impl Count {
    fn new(account: &Arc<Account>) -> Self {
        account.requests().in_flight += 1;
        Self {
            account: Arc::clone(account),
        }
    }

    /// Counts one more for as long as the connection exists.
    fn keep(&self) {
        self.account.requests().in_flight += 1;
    }
}

impl Clone for Count {
    fn clone(&self) -> Self {
        Self::new(&self.account)
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        let now = self.account.timer.now();
        let mut requests = self.account.requests();
        requests.in_flight -= 1;
        requests.idle_since = now;
    }
}

/// The stream's side of the timeout.
struct Idle {
    timeout: Duration,
    sleep: Pin<Box<dyn HyperSleep>>,
    /// The time for which the sleep is armed.
    deadline: StdInstant,
    account: Arc<Account>,
    /// True if bytes came since the last look.
    has_heard: bool,
    heard: StdInstant,
    /// True if the last write or flush waits for the peer.
    is_writing: bool,
    written: StdInstant,
    has_ended: bool,
}

impl Idle {
    fn new(idle: &IdleTimeout, account: &Arc<Account>, begun: StdInstant) -> Self {
        let deadline = begun + idle.timeout;
        Self {
            timeout: idle.timeout,
            sleep: idle.timer.sleep_until(deadline),
            deadline,
            account: Arc::clone(account),
            has_heard: false,
            heard: begun,
            is_writing: false,
            written: begun,
            has_ended: false,
        }
    }

    /// Is ready once the connection has been idle for the whole timeout. Is called when there is nothing to read.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        for _ in 0..LOOKS {
            if self.has_ended {
                return Poll::Ready(());
            }
            let idle = self.idle_until();
            if let Some(until) = idle {
                self.arm(until);
            }
            ready!(self.sleep.as_mut().poll(context));
            if idle.is_some() {
                self.has_ended = true;
            } else {
                self.arm(self.account.timer.now() + self.timeout);
            }
        }
        // The timer fires before its clock says so: other tasks come first.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Returns the time at which the connection ends if it stays idle; `None` if it is not idle.
    fn idle_until(&mut self) -> Option<StdInstant> {
        let has_heard = mem::take(&mut self.has_heard);
        let since = {
            let requests = self.account.requests();
            (requests.in_flight == 0).then_some(requests.idle_since)
        };
        let since = since.filter(|_| !self.is_writing)?.max(self.written);
        if has_heard {
            self.heard = self.account.timer.now();
        }
        let until = since.max(self.heard) + self.timeout;
        Some(until.min(since + 2 * self.timeout))
    }

    fn arm(&mut self, deadline: StdInstant) {
        if deadline != self.deadline {
            self.deadline = deadline;
            self.account.timer.reset(&mut self.sleep, deadline);
        }
    }

    /// Notes whether a write or a flush waits for the peer, and the time at which one no longer does.
    fn note_write(&mut self, waits: bool) {
        if mem::replace(&mut self.is_writing, waits) && !waits {
            self.written = self.account.timer.now();
        }
    }
}

/// A stream that ends when its connection has been idle for too long; of [`IdleTimeout::wrap`].
pub struct IdleStream<I> {
    io: I,
    idle: Idle,
}

impl<I> IdleStream<I> {
    /// Returns the stream without the timeout, for a program that takes an upgraded connection apart.
    pub fn into_inner(self) -> I {
        self.io
    }
}

impl<I: Debug> Debug for IdleStream<I> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        { formatter.debug_struct("IdleStream") }
            .field("io", &self.io)
            .field("timeout", &self.idle.timeout)
            .finish_non_exhaustive()
    }
}

impl<I: Read + Unpin> Read for IdleStream<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        if read.is_ready() {
            self.idle.has_heard = true;
            return read;
        }
        // Nothing is put into the buffer: the end of the file.
        self.idle.poll(context).map(Ok)
    }
}

impl<I: Write + Unpin> Write for IdleStream<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.idle.note_write(written.is_pending());
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(context);
        self.idle.note_write(flushed.is_pending());
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, slices);
        self.idle.note_write(written.is_pending());
        written
    }
}

/// A service whose requests count as in flight; of [`IdleTimeout::wrap`].
pub struct IdleService<S> {
    service: S,
    account: Arc<Account>,
}

impl<S: Debug> Debug for IdleService<S> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        { formatter.debug_struct("IdleService") }
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

/// A clone counts the requests of the same connection.
impl<S: Clone> Clone for IdleService<S> {
    fn clone(&self) -> Self {
        Self {
            service: self.service.clone(),
            account: Arc::clone(&self.account),
        }
    }
}

impl<S, Q, B> Service<Request<Q>> for IdleService<S>
where
    S: Service<Request<Q>, Response = Response<B>>,
    B: Body,
{
    type Response = Response<InFlight<B>>;
    type Error = S::Error;
    type Future = InFlight<S::Future>;

    fn call(&self, request: Request<Q>) -> Self::Future {
        let count = Count::new(&self.account);
        let is_tunnel = request.method() == Method::CONNECT;
        InFlight {
            part: self.service.call(request),
            count,
            is_tunnel,
        }
    }
}

pin_project! {
    /// A part of a request in flight, for an [`IdleTimeout`]: the future of its response, the body of its response, or
    /// a piece of that body's data.
    pub struct InFlight<T> {
        #[pin]
        part: T,
        count: Count,
        // True if the request asks for a tunnel.
        is_tunnel: bool,
    }
}

impl<T: Debug> Debug for InFlight<T> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        { formatter.debug_tuple("InFlight") }
            .field(&self.part)
            .finish()
    }
}

impl<F, B, E> Future for InFlight<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<InFlight<B>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.part.poll(context))?;
        let is_tunnel = *this.is_tunnel && response.status().is_success();
        if is_tunnel || response.status() == StatusCode::SWITCHING_PROTOCOLS {
            this.count.keep();
        }
        let count = this.count.clone();
        Poll::Ready(Ok(response.map(|body| InFlight {
            part: body,
            count,
            is_tunnel,
        })))
    }
}

impl<B: Body> Body for InFlight<B> {
    type Data = InFlight<B::Data>;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.project();
        let frame = ready!(this.part.poll_frame(context));
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| {
                frame.map_data(|data| InFlight {
                    part: data,
                    count: this.count.clone(),
                    is_tunnel: *this.is_tunnel,
                })
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.part.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.part.size_hint()
    }
}

impl<D: Buf> Buf for InFlight<D> {
    fn remaining(&self) -> usize {
        self.part.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.part.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.part.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.part.advance(count);
    }
}

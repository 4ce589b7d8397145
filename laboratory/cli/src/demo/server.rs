//! The HTTP server: hyper on a runtime of its own, with an idle timeout and a header timeout for each connection.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tickless::hyper::IdleTimeout;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use super::answer::Answer;
use super::noting::Noting;
use super::status::Status;
use super::subject::{ServerKind, Timers};
use super::tally::Desk;
use crate::failure::Failure;

/// The body of each response.
pub(crate) const BODY: &str = "hello\n";
/// The path of the handler that takes longer than the idle timeout.
pub(crate) const SLOW: &str = "/slow";
/// The path of the answer that pauses for longer than the idle timeout.
pub(crate) const STREAMED: &str = "/streamed";

/// The timeouts of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) idle: Duration,
    pub(crate) header: Duration,
}

/// The settings of a server's runtime.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) threads: usize,
    /// The slack of the runtime's timers, if its kind has slack.
    pub(crate) slack: Duration,
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) runtime: Runtime,
    pub(crate) address: SocketAddr,
    pub(crate) desk: Arc<Desk>,
}

impl Server {
    pub(crate) fn start<T: Timers>(
        kind: ServerKind,
        listener: std::net::TcpListener,
        setup: Setup,
        limits: Limits,
        status: Arc<Status>,
    ) -> Result<Self, Failure> {
        let mut builder = Builder::new_multi_thread();
        builder
            .worker_threads(setup.threads)
            .thread_name(kind.threads())
            .enable_io();
        kind.prepare(&mut builder, setup.slack);
        let started = builder.build().and_then(|runtime| {
            let address = listener.local_addr()?;
            listener.set_nonblocking(true)?;
            let listener = {
                let _inside = runtime.enter();
                kind.attach().map_err(io::Error::other)?;
                TcpListener::from_std(listener)?
            };
            Ok((runtime, address, listener))
        });
        let (runtime, address, listener) =
            started.map_err(|error| Failure::Machine(format!("cannot start a server: {error}")))?;
        let desk = Arc::new(Desk::new());
        let noting = Noting::new(T::hyper(), |tally| &tally.idle, Arc::clone(&desk));
        let house = House {
            kind,
            limits,
            idle: IdleTimeout::new(limits.idle).timer(noting),
            desk: Arc::clone(&desk),
            status,
        };
        runtime.spawn(accept::<T>(listener, house));
        Ok(Self {
            runtime,
            address,
            desk,
        })
    }
}

/// The time that the server waits after it could not accept a connection.
const PAUSE: Duration = Duration::from_millis(5);

/// The parts of the server that all connections share.
#[derive(Clone, Debug)]
struct House {
    kind: ServerKind,
    limits: Limits,
    idle: IdleTimeout,
    desk: Arc<Desk>,
    status: Arc<Status>,
}

async fn accept<T: Timers>(listener: TcpListener, house: House) {
    loop {
        // A connection that was given up before it was accepted is no reason to stop, and neither is a lack of file
        // descriptors: others will free some.
        let Ok((stream, _)) = listener.accept().await else {
            T::sleep_until(Instant::now() + PAUSE).await;
            continue;
        };
        tokio::spawn(serve::<T>(stream, house.clone()));
    }
}

async fn serve<T: Timers>(stream: TcpStream, house: House) {
    // Small answers must not wait for each other.
    let _only_slower = stream.set_nodelay(true);
    let desk = &house.desk;
    desk.connections.add(1);
    let timer = Noting::new(T::hyper(), |tally| &tally.header, Arc::clone(desk));
    let service = service_fn(|request| {
        desk.requests.add(1);
        let house = &house;
        async move { Ok::<_, Infallible>(respond::<T>(&request, house).await) }
    });
    let (stream, service) = house.idle.wrap(TokioIo::new(stream), service);
    // How it ended is noted by the timers and the clients; resets by clients are their way to leave.
    let _noted: hyper::Result<()> = http1::Builder::new()
        .timer(timer)
        .header_read_timeout(house.limits.header)
        .serve_connection(stream, service)
        .await;
}

async fn respond<T: Timers>(request: &Request<Incoming>, house: &House) -> Response<Answer<T>> {
    // The header timeout is longer than the idle timeout, and a part of a round has time for it.
    let until = Instant::now() + house.limits.header;
    let path = request.uri().path();
    if [SLOW, STREAMED].contains(&path) {
        house.desk.tally().clients.patient.expected.add(1);
    }
    let (kind, body) = match path {
        "/" => (
            "text/html; charset=utf-8",
            Answer::whole(house.status.page(house.kind)),
        ),
        "/stats" => ("application/json", Answer::whole(house.status.json())),
        SLOW => {
            T::sleep_until(until).await;
            ("text/plain", Answer::whole(BODY))
        }
        STREAMED => ("text/plain", Answer::in_halves(BODY, until)),
        _ => ("text/plain", Answer::whole(BODY)),
    };
    let mut response = Response::new(body);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The number of connections that the kernel queues until the server accepts them, if the system allows so many.
const BACKLOG: i32 = 4096;

/// Listens at `address`; an error says what the user can do instead.
pub(crate) fn listen(address: SocketAddr, whose: &str) -> Result<std::net::TcpListener, Failure> {
    let bound = std::net::TcpListener::bind(address).and_then(|listener| {
        // Again, for a longer queue than the standard library's 128: thousands of clients come at a time.
        rustix::net::listen(&listener, BACKLOG)?;
        Ok(listener)
    });
    bound.map_err(|error| {
        let port = address.port();
        let why = match error.kind() {
            io::ErrorKind::AddrInUse => format!(
                "port {port} on {} is taken by another program; choose two free ports in a row with \
                 --listen {}:PORT, or leave --listen out for any",
                address.ip(),
                bracketed(address)
            ),
            io::ErrorKind::AddrNotAvailable => format!(
                "{} is not an address of this machine; try 127.0.0.1 or 0.0.0.0",
                address.ip()
            ),
            io::ErrorKind::PermissionDenied => {
                format!("port {port} is for privileged users; choose one above 1023")
            }
            _ => error.to_string(),
        };
        Failure::Machine(format!("cannot listen on {address} for {whose}: {why}"))
    })
}

/// Formats the address for use before a port.
fn bracketed(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

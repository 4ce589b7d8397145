//! The HTTP server: hyper on a runtime of its own, with an idle timeout and a header timeout for each connection.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tickless::hyper::IdleTimeout;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use super::arguments::Settings;
use super::noting::Noting;
use super::subject::{Arm, Timers};
use super::tally::Desk;
use crate::failure::Failure;

/// The body of each response.
pub(crate) const BODY: &str = "hello\n";
/// The path of the handler that takes longer than the idle timeout.
pub(crate) const SLOW: &str = "/slow";

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) runtime: Runtime,
    pub(crate) address: SocketAddr,
    pub(crate) desk: Arc<Desk>,
}

impl Server {
    pub(crate) fn start<T: Timers>(arm: Arm, settings: &Settings) -> Result<Self, Failure> {
        let mut builder = Builder::new_multi_thread();
        builder
            .worker_threads(settings.threads)
            .thread_name(arm.threads())
            .enable_io();
        arm.prepare(&mut builder, settings.slack);
        let started = builder.build().and_then(|runtime| {
            let listener = listen()?;
            let address = listener.local_addr()?;
            let listener = {
                let _inside = runtime.enter();
                if arm == Arm::Detached {
                    tickless::tokio::detach().map_err(io::Error::other)?;
                }
                TcpListener::from_std(listener)?
            };
            Ok((runtime, address, listener))
        });
        let (runtime, address, listener) =
            started.map_err(|error| Failure::Machine(format!("cannot start a server: {error}")))?;
        let desk = Arc::new(Desk::default());
        let noting = Noting::new(T::hyper(), |part| &mut part.idle, Arc::clone(&desk));
        let house = House {
            header: settings.header,
            idle: IdleTimeout::new(settings.idle).timer(noting),
            desk: Arc::clone(&desk),
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
    header: Duration,
    idle: IdleTimeout,
    desk: Arc<Desk>,
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
    let timer = Noting::new(T::hyper(), |part| &mut part.header, Arc::clone(desk));
    let service = service_fn(|request| {
        desk.count_request();
        let house = &house;
        async move { Ok::<_, Infallible>(respond::<T>(&request, house).await) }
    });
    let (stream, service) = house.idle.wrap(TokioIo::new(stream), service);
    // How it ended is noted by the timers and the clients; resets by clients are their way to leave.
    let _noted: hyper::Result<()> = http1::Builder::new()
        .timer(timer)
        .header_read_timeout(house.header)
        .serve_connection(stream, service)
        .await;
}

async fn respond<T: Timers>(request: &Request<Incoming>, house: &House) -> Response<String> {
    if request.uri().path() == SLOW {
        house.desk.tally().part().patient.expected += 1;
        // The header timeout is longer than the idle timeout, and a part of a round has time for it.
        T::sleep_until(Instant::now() + house.header).await;
    }
    Response::new(BODY.to_owned())
}

/// The number of connections that the kernel queues until the server accepts them, if the system allows so many.
const BACKLOG: i32 = 4096;

/// Listens at a free port of this machine.
fn listen() -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    // Again, for a longer queue than the standard library's 128: thousands of clients come at a time.
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

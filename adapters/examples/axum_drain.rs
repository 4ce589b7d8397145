//! An axum server with time limits, which drains its connections before it ends.
//!
//! `cargo run --manifest-path adapters/Cargo.toml --example axum_drain --features tower`
//!
//! | limit | for |
//! |---|---|
//! | of a request | a handler that takes too long: the client reads 503 |
//! | of a head | a client that sends half a request: the server closes the connection |
//! | of idleness | a client that has no request in flight and sends nothing: the server closes the connection |
//! | of the drain | requests under way when the server ends: after the limit the server ends without them |
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::error_handling::HandleErrorLayer;
use axum::http::StatusCode;
use axum::routing::get;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tickless::hyper::{IdleTimeout, Timer};
use tickless::time::{sleep, timeout};
use tickless_adapters::tower::TimeoutLayer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tower::{BoxError, ServiceBuilder};

const REQUEST: Duration = Duration::from_millis(200);
const HEAD: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(5);
const DRAIN: Duration = Duration::from_secs(60);

fn routes() -> Router {
    let limit = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(|error: BoxError| async move {
            (StatusCode::SERVICE_UNAVAILABLE, error.to_string())
        }))
        .layer(TimeoutLayer::new(REQUEST));
    let soon = || async {
        sleep(Duration::from_millis(50)).await;
        "soon"
    };
    Router::new()
        .route("/soon", get(soon))
        .route("/never", get(pending::<&'static str>))
        .layer(limit)
}

/// Serves until `end`, then until all requests under way are answered or the limit of the drain is over. Returns true
/// if all were answered.
async fn serve(listener: TcpListener, mut end: oneshot::Receiver<()>) -> io::Result<bool> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(Timer).header_read_timeout(HEAD);
    builder.http2().timer(Timer);
    let idle = IdleTimeout::new(IDLE);
    let graceful = GracefulShutdown::new();
    loop {
        let (stream, _) = tokio::select! {
            accepted = listener.accept() => accepted?,
            _ = &mut end => break,
        };
        let service = TowerToHyperService::new(routes());
        let (io, service) = idle.wrap(TokioIo::new(stream), service);
        let connection = builder.serve_connection(io, service).into_owned();
        let watched = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = watched.await {
                println!("a connection ended: {error}");
            }
        });
    }
    // No new ones, and those that are there end after what they are doing.
    drop(listener);
    Ok(timeout(DRAIN, graceful.shutdown()).await.is_ok())
}

/// Requests `path` and returns the first line of the answer.
async fn ask(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}

/// Returns two answers, the second to a request that was under way when the server ended, and true if the server
/// drained.
pub(crate) fn run() -> io::Result<(String, String, bool)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (end, ended) = oneshot::channel();
        let server = tokio::spawn(serve(listener, ended));
        let never = ask(address, "/never").await?;
        println!("/never: {never}");
        let under_way = tokio::spawn(async move { ask(address, "/soon").await });
        // The request is there before the server is told to end.
        sleep(Duration::from_millis(20)).await;
        let _ = end.send(());
        let drained = server.await??;
        let soon = under_way.await??;
        println!("/soon, while the server ends: {soon}; drained: {drained}");
        Ok((never, soon, drained))
    })
}

fn main() -> io::Result<()> {
    run()?;
    Ok(())
}

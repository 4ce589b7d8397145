//! Tests with hyper, hyper-util and axum.

use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{Request, StatusCode};
use axum::routing::get;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tickless::hyper::{IdleTimeout, Timer};
use tickless::time::{self, sleep};
use tickless::{Executor, task};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{PAUSE, without_timers_of_tokio};

fn routes() -> Router {
    Router::new().route("/quick", get(|| async { "quick" }))
}

/// Serves axum's routes by hyper-util, with all time limits on the timers of this library. Returns the address of the
/// server.
async fn served() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut builder = auto::Builder::new(TokioExecutor::new());
            builder.http1().timer(Timer).header_read_timeout(PAUSE);
            builder
                .http2()
                .timer(Timer)
                .keep_alive_interval(PAUSE)
                .keep_alive_timeout(PAUSE);
            let service = TowerToHyperService::new(routes());
            tokio::spawn(async move {
                let _ = builder
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    address
}

#[test]
fn hyper_util_closes_connections_that_send_half_a_request() {
    without_timers_of_tokio(async {
        let mut stream = TcpStream::connect(served().await).await.unwrap();
        let started = Instant::now();
        stream
            .write_all(b"GET /quick HTTP/1.1\r\nHost: here\r\n")
            .await
            .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert!(started.elapsed() >= PAUSE);
        assert!(!answer.starts_with(b"HTTP/1.1 200"));
    });
}

#[test]
fn the_pool_of_hyper_util_forgets_idle_connections() {
    without_timers_of_tokio(async {
        let address = served().await;
        let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new())
            .pool_timer(Timer)
            .timer(Timer)
            .pool_idle_timeout(Duration::from_millis(1))
            .build_http();
        for _ in 0..2 {
            let uri = format!("http://{address}/quick").parse().unwrap();
            let response = client.get(uri).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            let body = response.into_body().collect().await.unwrap();
            assert_eq!(body.to_bytes(), "quick");
            sleep(PAUSE).await;
        }
    });
}

/// Runs the tasks of hyper on the executor of this library, and so in its virtual time.
#[derive(Clone, Copy)]
struct Tasks;

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        drop(task::spawn(future));
    }
}

/// Two answers of HTTP/2 come to their ends, one of a slow handler, one that the peer has no room for during some
/// timeouts. Then the idle timeout ends the connection, although the peer answers pings.
#[test]
fn the_idle_timeout_waits_for_the_answers_of_http2_but_not_for_its_pings() {
    const IDLE: Duration = Duration::from_secs(30);
    const LARGE: usize = 1_000_000;
    let executor = Executor::builder().workers(1).build().unwrap();
    executor.block_on(async {
        time::pause();
        let start = time::Instant::now();
        let (client, stream) = tokio::io::duplex(4096);
        let slow = || async {
            sleep(3 * IDLE).await;
            "slow"
        };
        let routes = Router::new()
            .route("/slow", get(slow))
            .route("/large", get(|| async { vec![b'x'; LARGE] }));
        let service = TowerToHyperService::new(routes);
        let (io, service) = IdleTimeout::new(IDLE).wrap(TokioIo::new(stream), service);
        let server = task::spawn(async move {
            let mut builder = auto::Builder::new(Tasks);
            builder.http2().timer(Timer).keep_alive_interval(IDLE / 4);
            let ended = builder.serve_connection(io, service).await;
            (start.elapsed(), ended.map_err(|error| error.to_string()))
        });

        let mut builder = http2::Builder::new(Tasks);
        builder.initial_stream_window_size(10_000);
        let (sender, connection) = builder.handshake(TokioIo::new(client)).await.unwrap();
        let _runs = task::spawn(connection);
        let ask = |path: &str| {
            let request = Request::get(format!("http://here{path}"));
            let mut sender = sender.clone();
            let response = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap());
            async { response.await.unwrap().into_body() }
        };
        let (slow, large) = futures::join!(ask("/slow"), ask("/large"));
        assert_eq!(start.elapsed(), 3 * IDLE);
        assert_eq!(slow.collect().await.unwrap().to_bytes(), "slow");
        sleep(2 * IDLE).await;
        assert_eq!(large.collect().await.unwrap().to_bytes().len(), LARGE);
        let (lasted, result) = server.await.unwrap();
        assert_eq!((lasted, result), (7 * IDLE, Ok(())));
    });
}

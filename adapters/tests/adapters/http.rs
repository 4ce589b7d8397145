//! Tests with hyper, hyper-util and axum.

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::error_handling::HandleErrorLayer;
use axum::http::{Request, StatusCode};
use axum::routing::get;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tickless_adapters::tower::TimeoutLayer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::{BoxError, ServiceBuilder, ServiceExt};

use super::{PAUSE, without_timers_of_tokio};

fn routes() -> Router {
    let limit = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(|error: BoxError| async move {
            (StatusCode::SERVICE_UNAVAILABLE, error.to_string())
        }))
        .layer(TimeoutLayer::new(PAUSE));
    Router::new()
        .route("/quick", get(|| async { "quick" }))
        .route("/slow", get(std::future::pending::<&'static str>))
        .layer(limit)
}

#[test]
fn axum_gives_up_on_slow_handlers() {
    without_timers_of_tokio(async {
        let ask = |path: &str| {
            let request = Request::get(path).body(Body::empty()).unwrap();
            async {
                let response = routes().oneshot(request).await.unwrap();
                let status = response.status();
                let body = response.into_body().collect().await.unwrap().to_bytes();
                (status, String::from_utf8_lossy(&body).into_owned())
            }
        };
        assert_eq!(ask("/quick").await, (StatusCode::OK, "quick".to_owned()));
        let refused = (
            StatusCode::SERVICE_UNAVAILABLE,
            "request timed out".to_owned(),
        );
        assert_eq!(ask("/slow").await, refused);
    });
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
            let timer = tickless::hyper::Timer;
            builder.http1().timer(timer).header_read_timeout(PAUSE);
            builder
                .http2()
                .timer(timer)
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
            .pool_timer(tickless::hyper::Timer)
            .timer(tickless::hyper::Timer)
            .pool_idle_timeout(Duration::from_millis(1))
            .build_http();
        for _ in 0..2 {
            let uri = format!("http://{address}/quick").parse().unwrap();
            let response = client.get(uri).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            let body = response.into_body().collect().await.unwrap();
            assert_eq!(body.to_bytes(), "quick");
            tickless::time::sleep(PAUSE).await;
        }
    });
}

//! Tests of the idle timeout, in virtual time: how long a connection lasts is exact.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::rt::{Read, ReadBuf, Timer as _, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use tickless::executor::JoinHandle;
use tickless::hyper::{IdleTimeout, Timer};
use tickless::time::{self, Duration, Instant, Sleep, sleep, timeout};
use tickless::{Executor, task};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::server::Io;

const IDLE: Duration = Duration::from_secs(30);
/// The pieces of the response that pauses, and the pause before each.
const PIECES: usize = 3;
const PAUSE: Duration = Duration::from_secs(70);
/// A length that the pipe between the client and the server does not hold.
const LARGE: usize = 1_000_000;

/// A body of equal pieces, with a pause before each.
struct Pieces {
    left: usize,
    piece: Bytes,
    pause: Duration,
    next: Pin<Box<Sleep>>,
}

impl Pieces {
    fn new(left: usize, piece: Bytes, pause: Duration) -> Self {
        let next = Box::pin(sleep(pause));
        Self {
            left,
            piece,
            pause,
            next,
        }
    }

    fn whole(text: impl Into<Bytes>) -> Self {
        Self::new(1, text.into(), Duration::ZERO)
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        ready!(self.next.as_mut().poll(context));
        self.left -= 1;
        let next = Instant::now() + self.pause;
        self.next.as_mut().reset(next);
        Poll::Ready(Some(Ok(Frame::data(self.piece.clone()))))
    }
}

async fn respond(mut request: Request<Incoming>) -> Result<Response<Pieces>, Infallible> {
    let mut response = Response::new(match request.uri().path() {
        "/slow" => {
            sleep(PAUSE).await;
            Pieces::whole("slow")
        }
        "/pauses" => Pieces::new(PIECES, "piece".into(), PAUSE),
        "/large" => Pieces::whole(vec![b'x'; LARGE]),
        "/upload" => {
            let mut length = 0;
            let body = request.body_mut();
            while let Some(Ok(frame)) =
                poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
            {
                length += frame.data_ref().map_or(0, Bytes::len);
            }
            Pieces::whole(length.to_string())
        }
        _ => Pieces::whole("soon"),
    });
    if request.uri().path() == "/upgrade" {
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *response.body_mut() = Pieces::new(0, Bytes::new(), Duration::ZERO);
        let upgraded = hyper::upgrade::on(request);
        task::spawn(async move { echo(upgraded.await.expect("upgraded")).await }).detach();
    } else if request.method() == Method::CONNECT {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    }
    Ok(response)
}

/// Sends back the first byte that comes.
async fn echo(mut stream: hyper::upgrade::Upgraded) {
    let mut byte = [0];
    poll_fn(|context| {
        let mut buffer = ReadBuf::new(&mut byte);
        Pin::new(&mut stream).poll_read(context, buffer.unfilled())
    })
    .await
    .expect("read");
    let written = poll_fn(|context| Pin::new(&mut stream).poll_write(context, &byte)).await;
    assert_eq!(written.expect("written"), 1);
}

/// Runs `test` on a paused clock, with the client's end of a connection, and the time and result of its end.
fn with_server<F: Future<Output = ()>>(
    test: impl FnOnce(DuplexStream, JoinHandle<(Duration, hyper::Result<()>)>) -> F,
) {
    let executor = { Executor::builder().workers(1).build() }.expect("threads can be started");
    executor.block_on(async {
        time::pause();
        let (client, stream) = tokio::io::duplex(4096);
        let start = Instant::now();
        let server = task::spawn(async move {
            let (io, service) = IdleTimeout::new(IDLE).wrap(Io(stream), service_fn(respond));
            let connection = http1::Builder::new().serve_connection(io, service);
            let ended = connection.with_upgrades().await;
            (start.elapsed(), ended)
        });
        // A connection that lasts for ever keeps virtual time going, too.
        let ended = timeout(Duration::from_secs(86_400), test(client, server)).await;
        ended.expect("the connection ends");
    });
}

/// Sends `requests`, and checks that the whole answers contain `wanted` and that the connection ends after `lasts`.
fn ends_after(lasts: Duration, requests: &'static str, wanted: &[&str]) {
    with_server(async |mut client, server| {
        client.write_all(requests.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("read");
        for text in wanted {
            assert!(answer.contains(text), "{text} is not in {answer}");
        }
        let (lasted, result) = server.await.expect("it does not panic");
        assert_eq!(lasted, lasts, "{answer}");
        result.expect("an idle connection ends well");
    });
}

#[test]
fn a_connection_that_sends_nothing_ends_after_the_timeout() {
    ends_after(IDLE, "", &[""]);
}

#[test]
fn a_request_begins_the_timeout_anew() {
    with_server(async |mut client, server| {
        sleep(IDLE / 3).await;
        client
            .write_all(b"GET /soon HTTP/1.1\r\n\r\n")
            .await
            .expect("sent");
        let (lasted, result) = server.await.expect("it does not panic");
        assert_eq!(lasted, IDLE / 3 + IDLE);
        result.expect("an idle connection ends well");
    });
}

#[test]
fn a_handler_that_takes_longer_than_the_timeout_is_heard() {
    ends_after(PAUSE + IDLE, "GET /slow HTTP/1.1\r\n\r\n", &["slow"]);
}

#[test]
fn requests_that_wait_behind_a_slow_one_are_answered() {
    let requests =
        "GET /slow HTTP/1.1\r\n\r\nGET /pauses HTTP/1.1\r\n\r\nGET /soon HTTP/1.1\r\n\r\n";
    let served = PAUSE + PAUSE * 3;
    ends_after(
        served + IDLE,
        requests,
        &["slow", "0\r\n\r\nHTTP/1.1 200 OK", "soon"],
    );
}

#[test]
fn a_response_that_pauses_is_sent_to_its_last_piece() {
    let whole = "5\r\npiece\r\n5\r\npiece\r\n5\r\npiece\r\n0\r\n\r\n";
    ends_after(PAUSE * 3 + IDLE, "GET /pauses HTTP/1.1\r\n\r\n", &[whole]);
}

#[test]
fn a_tunnel_that_is_refused_is_an_idle_connection() {
    ends_after(
        IDLE,
        "CONNECT there:1 HTTP/1.1\r\nHost: there\r\n\r\n",
        &["405"],
    );
}

#[test]
fn an_upload_may_pause() {
    with_server(async |mut client, server| {
        let head = b"POST /upload HTTP/1.1\r\nContent-Length: 6\r\n\r\n";
        client.write_all(head).await.expect("sent");
        for _ in 0..3 {
            sleep(PAUSE).await;
            client.write_all(b"ab").await.expect("sent");
        }
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("read");
        assert!(
            answer.contains("200 OK") && answer.ends_with("6\r\n0\r\n\r\n"),
            "{answer}"
        );
        assert_eq!(server.await.expect("it does not panic").0, PAUSE * 3 + IDLE);
    });
}

#[test]
fn a_client_that_reads_slowly_receives_all() {
    with_server(async |mut client, server| {
        client
            .write_all(b"GET /large HTTP/1.1\r\n\r\n")
            .await
            .expect("sent");
        let mut length = 0;
        let mut some = vec![0; LARGE / 8];
        loop {
            sleep(PAUSE).await;
            match client.read(&mut some).await.expect("read") {
                0 => break,
                more => length += more,
            }
        }
        assert!(length > LARGE, "{length}");
        server
            .await
            .expect("it does not panic")
            .1
            .expect("it ends well");
    });
}

#[test]
fn a_head_that_stays_unfinished_ends_too() {
    with_server(async |mut client, server| {
        client.write_all(b"GET / HT").await.expect("sent");
        sleep(IDLE / 2).await;
        client.write_all(b"T").await.expect("sent");
        let (lasted, result) = server.await.expect("it does not panic");
        assert_eq!(lasted, IDLE / 2 + IDLE);
        assert!(
            result
                .expect_err("a request has begun")
                .is_incomplete_message()
        );
    });
}

#[test]
fn a_head_that_never_ends_lasts_twice_the_timeout() {
    with_server(async |mut client, server| {
        client.write_all(b"GET /").await.expect("sent");
        while client.write_all(b"x").await.is_ok() {
            sleep(IDLE / 4).await;
        }
        let (lasted, result) = server.await.expect("it does not panic");
        assert_eq!(lasted, 2 * IDLE);
        assert!(
            result
                .expect_err("a request has begun")
                .is_incomplete_message()
        );
    });
}

#[test]
fn an_upgraded_connection_has_no_idle_timeout() {
    with_server(async |mut client, server| {
        let head = b"GET /upgrade HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
        client.write_all(head).await.expect("sent");
        server
            .await
            .expect("it does not panic")
            .1
            .expect("it is handed over");
        let mut answer = [0; 512];
        let read = client.read(&mut answer).await.expect("read");
        assert!(answer[..read].starts_with(b"HTTP/1.1 101"));
        sleep(5 * IDLE).await;
        client.write_all(b"e").await.expect("sent");
        assert_eq!(client.read(&mut answer).await.expect("read"), 1);
        assert_eq!(answer[0], b'e');
    });
}

#[test]
fn the_timer_and_its_clock_follow_virtual_time() {
    let executor = { Executor::builder().workers(1).build() }.expect("threads can be started");
    executor.block_on(async {
        time::pause();
        let start = Timer.now();
        Timer.sleep(IDLE).await;
        assert_eq!(Timer.now() - start, IDLE);
        Timer.sleep_until(start + 2 * IDLE).await;
        assert_eq!(Timer.now() - start, 2 * IDLE);
    });
}

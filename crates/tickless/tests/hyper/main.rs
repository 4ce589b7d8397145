//! Tests of the timer for hyper, by hyper's trait and in a server that hyper runs, and of the idle timeout.
#![cfg(feature = "hyper")]

#[cfg(feature = "executor")]
mod idle_timeout;
#[path = "../support/mod.rs"]
mod support;

use std::pin::Pin;
use std::task::Context;
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer as _};
use support::{Wakes, assert_passed, block_on, ms, poll_idly, poll_with, until, us};
use tickless::hyper::Timer;
use tickless::time;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn sleeps_end_after_their_time_and_not_before() {
    let _patience = support::begin();
    let start = Instant::now();
    block_on(Timer.sleep(us(700)));
    assert_passed(start, us(700));
    let deadline = Instant::now() + us(700);
    block_on(Timer.sleep_until(deadline));
    assert!(Instant::now() >= deadline);
    block_on(Timer.sleep_until(start));
    block_on(Timer.sleep(Duration::ZERO));
}

#[test]
fn a_reset_moves_the_same_sleep() {
    let _patience = support::begin();
    let (wakes, waker) = Wakes::new();
    let mut sleep = Timer.sleep(HOUR);
    assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    let place: *const () = std::ptr::from_ref(&*sleep).cast();
    let deadline = Instant::now() + us(500);
    Timer.reset(&mut sleep, deadline);
    assert_eq!(place, std::ptr::from_ref(&*sleep).cast(), "in place");
    until(|| wakes.count() == 1);
    assert!(Instant::now() >= deadline);
    assert!(poll_with(sleep.as_mut(), &waker).is_ready());
    // And again after it fired, as for each request of a connection.
    Timer.reset(&mut sleep, Instant::now() + HOUR);
    assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    Timer.reset(&mut sleep, Instant::now());
    block_on(sleep);
}

#[test]
fn the_sleep_of_another_timer_is_replaced() {
    struct Foreign;
    impl Sleep for Foreign {}
    impl Future for Foreign {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> std::task::Poll<()> {
            panic!("it is replaced");
        }
    }
    let _patience = support::begin();
    let mut sleep: Pin<Box<dyn Sleep>> = Box::pin(Foreign);
    let deadline = Instant::now() + us(300);
    Timer.reset(&mut sleep, deadline);
    block_on(sleep);
    assert!(Instant::now() >= deadline);
}

#[test]
fn it_is_now_by_the_clock_of_the_sleeps() {
    let before = time::Instant::now();
    let told = Timer.now();
    assert!(before <= told.into() && time::Instant::from(told) <= time::Instant::now());
    assert!(poll_idly(Timer.sleep_until(told).as_mut()).is_ready());
}

mod server {
    use std::convert::Infallible;
    use std::io;
    use std::sync::Arc;

    use hyper::body::{Bytes, Frame, Incoming};
    use hyper::rt::{Read, ReadBufCursor, Write};
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper::{Request, Response};
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};

    use super::*;

    /// A stream of tokio with the traits that hyper requires.
    pub(crate) struct Io(pub(crate) DuplexStream);

    impl Read for Io {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            mut cursor: ReadBufCursor<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            let mut bytes = [0; 512];
            let room = cursor.remaining().min(bytes.len());
            let mut buffer = ReadBuf::new(&mut bytes[..room]);
            let result = Pin::new(&mut self.0).poll_read(context, &mut buffer);
            cursor.put_slice(buffer.filled());
            result
        }
    }

    impl Write for Io {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> std::task::Poll<io::Result<usize>> {
            Pin::new(&mut self.0).poll_write(context, bytes)
        }

        fn poll_flush(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(context)
        }

        fn poll_shutdown(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(context)
        }
    }

    struct Empty;

    impl hyper::body::Body for Empty {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            std::task::Poll::Ready(None)
        }
        fn is_end_stream(&self) -> bool {
            true
        }
    }

    /// A client that never ends its header is disconnected after the time-out and not before; a client that ends its
    /// header gets an answer.
    #[test]
    fn a_header_that_does_not_end_is_timed_out() {
        let _patience = support::begin();
        support::in_tokio(async {
            let limit = ms(20);
            let (mut client, stream) = tokio::io::duplex(4096);
            let start = Arc::new(Instant::now());
            let server = tokio::spawn(
                http1::Builder::new()
                    .timer(Timer)
                    .header_read_timeout(limit)
                    .serve_connection(
                        Io(stream),
                        service_fn(|_: Request<Incoming>| async {
                            Ok::<_, Infallible>(Response::new(Empty))
                        }),
                    ),
            );
            client
                .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
                .await
                .expect("sent");
            let mut answer = [0; 64];
            let count = client.read(&mut answer).await.expect("answered");
            assert!(answer[..count].starts_with(b"HTTP/1.1 200"));
            // On a slow machine the server has given up before.
            let _sent = client.write_all(b"GET / HTTP/1.1\r\n").await;
            let result = server.await.expect("it does not panic");
            assert_passed(*start, limit);
            assert!(result.expect_err("it gives up").is_timeout());
        });
    }
}

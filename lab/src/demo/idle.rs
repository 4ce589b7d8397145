//! A connection that ends when its peer is silent for too long.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::subject::Timers;
use super::tally::Desk;

/// A TCP connection with an idle timeout. Each read of bytes from the peer re-arms the timeout; when it fires, the
/// connection fails with an error of kind [`TimedOut`](io::ErrorKind::TimedOut).
pub(crate) struct IdleStream<T: Timers> {
    stream: TcpStream,
    /// The timer of the idle timeout, in a box because hyper moves its connections.
    idle: Pin<Box<T::Sleep>>,
    timeout: Duration,
    deadline: Instant,
    desk: Arc<Desk>,
}

impl<T: Timers> IdleStream<T> {
    pub(crate) fn new(stream: TcpStream, timeout: Duration, desk: Arc<Desk>) -> Self {
        let deadline = Instant::now() + timeout;
        Self {
            stream,
            idle: Box::pin(T::sleep_until(deadline)),
            timeout,
            deadline,
            desk,
        }
    }
}

impl<T: Timers> AsyncRead for IdleStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        match Pin::new(&mut this.stream).poll_read(context, buffer) {
            Poll::Ready(Ok(())) => {
                if buffer.filled().len() > before {
                    this.deadline = Instant::now() + this.timeout;
                    T::reset(this.idle.as_mut(), this.deadline);
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                if this.idle.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                this.desk.tally().idle.record(this.deadline, Instant::now());
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl<T: Timers> AsyncWrite for IdleStream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

//! Tasks that wait for descriptors, for example sockets and pipes, which the workers watch themselves.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::os::unix::net::UnixStream;
//! use tickless::Executor;
//! use tickless::executor::io::Async;
//!
//! let executor = Executor::builder().workers(1).build()?;
//! let said = executor.block_on(async {
//!     let (one, two) = UnixStream::pair()?;
//!     let (one, two) = (Async::new(one)?, Async::new(two)?);
//!     let asks = tickless::task::spawn(async move {
//!         let mut said = [0; 5];
//!         let length = one.read_with(|mut socket| socket.read(&mut said)).await?;
//!         std::io::Result::Ok(said[..length].to_vec())
//!     });
//!     two.write_with(|mut socket| socket.write(b"hello")).await?;
//!     asks.await.expect("it does not panic")
//! })?;
//! assert_eq!(said, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Waiting
//!
//! A worker that parks waits for its first timer, for wake-ups and for all descriptors of the executor, in one wait
//! ([`Worker::park_on_epoll`](crate::Worker::park_on_epoll)). One worker at a time waits in this way; the others park
//! without descriptors. While no worker waits, because all have tasks, each worker checks the descriptors every 500 µs,
//! at a checkpoint of the task that it polls.
//!
//! # Cost
//!
//! A wait costs one `epoll_ctl`; [`read_with`](Async::read_with) waits only if there is nothing to read yet. An
//! executor without descriptors costs one load for each round of a worker.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use reactor::Registration;
pub(super) use reactor::{EVENTS, IoReactor, PERIOD};
use source::{Direction, Waiting};

use super::{context, coop};
use crate::host::sys::descriptors::{AsFd, BorrowedFd, set_non_blocking};

mod attendance;
mod reactor;
mod source;

/// A descriptor for which tasks can wait.
///
/// Any executor or thread may use it, but the executor that watches the descriptor must exist: after its end, waiting
/// returns an error. The owner of the descriptor must not replace the descriptor by another.
///
/// # Dropping
///
/// Dropping the `Async` ends the watch, and drops the descriptor's owner.
pub struct Async<T: AsFd> {
    /// The I/O object; `None` after `into_inner`.
    io: Option<T>,
    registration: Registration,
}

impl<T: AsFd> Async<T> {
    /// Registers the descriptor with the executor that runs this code, and makes it non-blocking.
    ///
    /// # Errors
    ///
    /// If no executor runs the code ([`NotConnected`](io::ErrorKind::NotConnected)) or the executor has ended. If the
    /// descriptor cannot be watched, like a file on a disk (`EPERM`), or is watched already (`EEXIST`). If the system
    /// refuses to make an epoll instance or to wait on it.
    pub fn new(io: T) -> io::Result<Self> {
        let executor = context::current().ok_or(io::ErrorKind::NotConnected)?;
        let registration = IoReactor::register(&executor.reactor, io.as_fd())?;
        if let Err(error) = set_non_blocking(io.as_fd()) {
            registration.end(io.as_fd());
            return Err(error);
        }
        executor.attend();
        Ok(Self {
            io: Some(io),
            registration,
        })
    }

    /// Returns a reference to the descriptor's owner, which was passed to [`new`](Self::new).
    pub fn get_ref(&self) -> &T {
        self.io.as_ref().expect("taken by `into_inner` alone")
    }

    /// Ends the watch and returns the descriptor's owner. The descriptor stays non-blocking.
    pub fn into_inner(mut self) -> T {
        let io = self.io.take().expect("taken here alone");
        self.registration.end(io.as_fd());
        io
    }

    /// Waits until there is something to read, there is a connection to accept, or the other side has closed.
    ///
    /// Another task may take the data first: try to read, and wait again if the read [would
    /// block](io::ErrorKind::WouldBlock), or let [`read_with`](Self::read_with) do both.
    ///
    /// # Errors
    ///
    /// If the executor that watches the descriptor ends.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses nothing.
    pub fn readable(&self) -> Readiness<'_> {
        self.readiness(Direction::Read)
    }

    /// Waits until the descriptor accepts data to write, a connection is made, or the other side has closed.
    ///
    /// Another task may fill the buffer first: try to write, and wait again if the write would block, as with
    /// [`readable`](Self::readable).
    ///
    /// # Errors
    ///
    /// If the executor that watches the descriptor ends.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses nothing.
    pub fn writable(&self) -> Readiness<'_> {
        self.readiness(Direction::Write)
    }

    /// Calls `operation` until it no longer would block, and between the calls waits until the descriptor is
    /// [readable](Self::readable). The call is a [checkpoint](coop::checkpoint).
    ///
    /// # Errors
    ///
    /// The errors of the operation and of waiting.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses nothing: the operation has returned no result yet, and is not called again.
    pub async fn read_with<R>(&self, operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.repeat(Direction::Read, operation).await
    }

    /// Calls `operation` until it no longer would block, and between the calls waits until the descriptor is
    /// [writable](Self::writable). The call is a [checkpoint](coop::checkpoint).
    ///
    /// # Errors
    ///
    /// The errors of the operation and of waiting.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses nothing: the operation has returned no result yet, and is not called again.
    pub async fn write_with<R>(&self, operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.repeat(Direction::Write, operation).await
    }

    async fn repeat<R>(
        &self,
        direction: Direction,
        mut operation: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        // A source that is always ready would keep the worker.
        coop::checkpoint().await;
        loop {
            match operation(self.get_ref()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => return result,
            }
            self.readiness(direction).await?;
        }
    }

    fn readiness(&self, direction: Direction) -> Readiness<'_> {
        Readiness {
            descriptor: self.get_ref().as_fd(),
            registration: &self.registration,
            direction,
            waiting: None,
        }
    }
}

impl<T: AsFd> Drop for Async<T> {
    fn drop(&mut self) {
        if let Some(io) = &self.io {
            self.registration.end(io.as_fd());
        }
    }
}

impl<T: AsFd + fmt::Debug> fmt::Debug for Async<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Async").field(&self.io).finish()
    }
}

/// The future that [`Async::readable`] and [`Async::writable`] return.
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Readiness<'a> {
    descriptor: BorrowedFd<'a>,
    registration: &'a Registration,
    direction: Direction,
    /// The place of the future in its descriptor's queue of waiting tasks.
    waiting: Option<Waiting>,
}

impl Future for Readiness<'_> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let waker = context.waker();
        let waiting = &mut this.waiting;
        this.registration
            .poll(this.descriptor, this.direction, waiting, waker)
    }
}

impl Drop for Readiness<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            self.registration.forget(self.direction, &waiting);
        }
    }
}

impl fmt::Debug for Readiness<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Readiness")
            .field("descriptor", &self.descriptor)
            .field("direction", &self.direction)
            .finish_non_exhaustive()
    }
}

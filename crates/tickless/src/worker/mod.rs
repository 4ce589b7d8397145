//! Threads that fire their own timers, one at a time or several at once.
//!
//! The library's expiry thread fires the timers of other threads: a deadline costs a switch to the expiry thread and
//! back. A thread that fires its own timers saves both switches.
//!
//! | | [`Worker`] | [`Driver`] |
//! |---|---|---|
//! | the thread waits in | the library: [`park`](Worker::park), [`block_on`](Worker::block_on), [`park_on_epoll`](Worker::park_on_epoll) | your event loop |
//! | at a deadline | the thread's sleep ends | a file descriptor becomes readable ([`AsFd`](std::os::fd::AsFd)) |
//! | another thread wakes it by | [`Unparker`] | the means of your event loop |
//! | a deadline costs | one system call, none while it [spins](Parking::Spin) | two: setting the descriptor and reading it |
//! | coarse timers of sleeping workers | an awake worker fires them | each thread fires its own timers |
//! | it can be [isolated](Worker::set_isolated) | yes | not necessary: other threads do not disturb it |
//! | several at once, pinned | [`Workers::builder`] | make a driver on each thread |
//! | take it when | the thread waits for timers, or for an epoll instance of yours | a library owns the loop: mio, GLib, io_uring |
//!
//! A thread is either a worker or a driver at a time. Dropping the worker or driver moves the thread's timers to the
//! expiry thread.
#![expect(clippy::module_inception, reason = "the file of `Worker` has its name")]

mod builder;
mod driver;
mod epoll;
mod error;
mod isolate;
mod local;
mod schedule;
mod worker;

#[cfg(not(any(unix, target_os = "wasi")))]
pub use crate::host::sys::descriptors::{AsFd, AsRawFd, BorrowedFd, RawFd};
pub use crate::start_error::StartError;
pub use builder::{Builder, Workers};
pub use driver::Driver;
pub use epoll::{EpollEvent, EpollEvents};
pub use error::{BuildError, IsolateError, IsolationError, ScheduleError};
#[cfg(feature = "executor")]
pub(crate) use local::assert_outside_of_callbacks;
pub use local::{IsolatedTimers, Turn, migration, set_migration};
pub use worker::{Parking, Unparker, Worker};

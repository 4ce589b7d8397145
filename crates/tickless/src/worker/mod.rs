//! Threads that fire their own timers, one at a time or several at once.
//!
//! On other threads the library's expiry thread fires the timers: a deadline costs a switch to that thread and back. A
//! thread that runs its own saves both.
//!
//! | | [`Worker`] | [`Driver`] |
//! |---|---|---|
//! | the wait is | the library's: [`park`](Worker::park), [`block_on`](Worker::block_on), [`park_on_epoll`](Worker::park_on_epoll) | your event loop's |
//! | how it learns of a deadline | its sleep ends | a file descriptor becomes readable ([`AsFd`](std::os::fd::AsFd)) |
//! | another thread wakes it | [`Unparker`] | whatever your event loop has for that |
//! | a deadline costs | one system call, none while it [spins](Parking::Spin) | two: setting the descriptor and reading it |
//! | coarse timers of sleeping workers | it looks after them, and they after its own | stay with each thread |
//! | it can be [isolated](Worker::set_isolated) | yes | no: nothing disturbs it as it is |
//! | several at once, pinned | [`Workers::builder`] | make one on each thread |
//! | take it when | timers are what the thread waits for, or an epoll instance of yours | a library owns the loop: mio, GLib, io_uring |
//!
//! A thread is one of the two at a time. Dropping either gives the thread's timers to the expiry thread.
#![expect(clippy::module_inception, reason = "the file of `Worker` has its name")]

mod builder;
mod driver;
mod epoll;
mod error;
mod isolate;
mod local;
mod schedule;
mod signals;
mod worker;

#[cfg(not(any(unix, target_os = "wasi")))]
pub use crate::host::sys::descriptors::{AsFd, AsRawFd, BorrowedFd, RawFd};
pub use builder::{Builder, MigratorPolicy, Workers};
pub use driver::Driver;
pub use epoll::{EpollEvent, EpollEvents};
pub use error::{BuildError, IsolateError, IsolationError, ScheduleError, StartError};
#[cfg(feature = "executor")]
pub(crate) use local::assert_outside_of_callbacks;
pub use local::{IsolatedTimers, Turn, migration, set_migration};
pub use worker::{Parking, Unparker, Worker};

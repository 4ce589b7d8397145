//! The C interface of Tickless: timers in structures of the caller, and threads that fire them.
//!
//! The problem: C has no closures, no destructors, no borrow checker. A callback may destroy the structure that holds
//! its timer. A program may use a structure before it is initialised, initialise it twice, or use it from the wrong
//! thread.
//!
//! The mechanism: each object belongs to one thread. A thread makes a loop or a worker, and owns the timers that it
//! initialises. While the library takes a turn, an expired timer is only put into a list of due timers (`place`). Its
//! callback is called after the turn, when the library no longer uses the timer, so a callback may do anything to its
//! own timer and to all others. Each function first checks that its structure belongs to this thread (`verbs`), and
//! otherwise returns a negative number of `errno.h`.
//!
//! `include/tickless.h` documents the functions for C programmers; `tests/header.rs` compares this header with the
//! crate.
//!
//! # Ground rules
//!
//! - A `structure::Structure` is initialised on the thread that uses it. Other threads read only its two atomic words.
//! - A `place::ThreadPlace` is reached through a thread-local of its thread. A pointer that C passes is compared with
//!   it and never dereferenced. [`worker::tickless_worker_unpark`] is the exception.
//! - No panic crosses the boundary (`errno::answer`).
//!
//! In models (`--cfg loom`) the crate consists of the handshake of the POSIX timers alone, because the library below
//! has no public interface there.
#![expect(unsafe_code, reason = "C passes pointers (decision 60)")]

#[cfg(not(loom))]
pub mod clock;
#[cfg(not(loom))]
mod errno;
#[cfg(not(loom))]
pub mod event_loop;
mod handshake;
#[cfg(not(loom))]
pub mod main_thread;
#[cfg(not(loom))]
mod place;
#[cfg(not(loom))]
pub mod posix;
#[cfg(not(loom))]
mod registry;
#[cfg(not(loom))]
mod structure;
#[cfg(not(loom))]
mod thread_key;
#[cfg(not(loom))]
pub mod timeout;
#[cfg(not(loom))]
pub mod timer;
#[cfg(not(loom))]
mod verbs;
#[cfg(not(loom))]
pub mod worker;

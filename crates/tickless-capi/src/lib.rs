//! The C interface of Tickless: timers in structures of the caller, and threads that fire them.
//!
//! The problem: C has no closures, no destructors, no borrow checker. A callback destroys the structure that holds its
//! timer, structures are used before they are initialised, twice, or from the wrong thread.
//!
//! The mechanism: everything belongs to one thread. A thread makes a loop or a worker, and the timers that it
//! initialises are its own. An expired timer is only filed as due while the library works (`place`); its callback is
//! called after that, when the library has let go of the timer, so a callback may do anything to its own timer and to
//! all others. Each function asks first whether its structure is one of this thread (`structure`), and answers with a
//! negative number of `errno.h` if not.
//!
//! `include/tickless.h` documents the functions for those who call them; `cargo xtask header` compares it with this
//! crate.
//!
//! # Ground rules
//!
//! - A `head::Head` is initialised on the thread that uses it. Other threads read its two atomic words alone.
//! - A `place::ThreadPlace` is reached through a thread-local of its thread, never through a pointer that C hands over:
//!   that is compared, not followed. [`worker::tickless_worker_unpark`] is the exception.
//! - No panic crosses the boundary (`errno::answer`).
//!
//! In models (`--cfg loom`) the library below has no interface, and the handshake of the POSIX timers stands alone.

#[cfg(not(loom))]
pub mod clock;
#[cfg(not(loom))]
mod errno;
#[cfg(not(loom))]
pub mod event_loop;
mod handshake;
#[cfg(not(loom))]
mod head;
#[cfg(not(loom))]
mod operations;
#[cfg(not(loom))]
mod place;
#[cfg(not(loom))]
pub mod posix;
#[cfg(not(loom))]
mod registry;
#[cfg(not(loom))]
mod structure;
#[cfg(not(loom))]
pub mod timeout;
#[cfg(not(loom))]
pub mod timer;
#[cfg(not(loom))]
mod verbs;
#[cfg(not(loom))]
pub mod worker;

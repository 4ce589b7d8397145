//! POSIX timers in user space: `timer_create` and its siblings, without a kernel timer for each of them.
//!
//! The problem: each creation, setting and deletion of a kernel timer is a system call. A kernel timer counts against a
//! limit of the user and is queued by the kernel. A process with 100,000 timers pays all these costs.
//!
//! The mechanism: a timer is a slot of a table (`table`) with a record (`arm`) of the last `settime`. The time that is
//! left and the number of expirations are computed from that record. One service thread (`service`) enqueues armed
//! timers in its queue of Tickless and notifies (`notify`): it queues signals, starts threads, writes descriptors.
//! `settime` replaces the record and puts the slot into the inbox of the service. It wakes the service only if the
//! timer is due before the time at which the service wakes up by itself. Disarming only replaces the record.
//!
//! # Ground rules
//!
//! - `settime`, `gettime` and `getoverrun` may be called in signal handlers: they take no lock and allocate nothing.
//!   `create` and `delete` take the lock of the free slots, so they must not be called in signal handlers.
//! - Only the service thread enqueues timers and touches `service::Filed`. It blocks all signals and calls no code of
//!   the user.
//! - **Delivery** (`crate::handshake`): the service publishes the slot for which it is about to notify, and then reads
//!   the version of the slot's record again. `settime` replaces the record, and then waits until the slot is not
//!   published. At least one side sees the other, so no signal of the former record is queued after a `settime`.
//! - After a fork the child has no service and an empty table: timers are not inherited.

mod arm;
mod calls;
mod fork;
mod notify;
mod service;
mod sleep;
mod system;
mod table;
mod times;

pub use calls::{
    tickless_timer_create, tickless_timer_create_fd, tickless_timer_delete, tickless_timer_fd,
    tickless_timer_getoverrun, tickless_timer_gettime, tickless_timer_settime,
};
pub use sleep::{sleep_exactly, tickless_clock_nanosleep};

/// The type `tickless_timer_id`: the number of a slot and the generation of the slot's timer.
pub type TimerId = u64;

/// The bits that distinguish an id of this library from the system's ids, which are small or negative numbers.
pub const ID_TAG: u64 = 0x6000_0000_0000_0000;

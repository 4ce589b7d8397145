//! POSIX timers in user space: `timer_create` and its siblings, without a kernel timer for each of them.
//!
//! The problem: a kernel timer is created, set and deleted by a system call each, counts against a limit of the user,
//! and is queued by the kernel. A process with 100,000 of them pays for all that.
//!
//! The mechanism: a timer is a slot of a table (`table`) with a record (`arm`) of what `settime` said last. All that
//! POSIX asks of a timer follows from that record by arithmetic: the time left, and how often it expired. One service
//! thread (`service`) files armed timers in its queue of Tickless and notifies (`notify`): it queues signals, starts
//! threads, writes descriptors. `settime` replaces the record and puts the slot into the inbox of the service; it wakes
//! the service only if the timer is due before what the service sleeps for. Disarming touches the record alone.
//!
//! # Ground rules
//!
//! - `settime`, `gettime` and `getoverrun` may be called in signal handlers: they take no lock and allocate nothing.
//!   `create` and `delete` take the lock of the free slots, and may not.
//! - The service thread alone files timers, and touches `service::Filed`. It blocks all signals and calls no code of
//!   the user.
//! - **Delivery** (`crate::handshake`): the service publishes the slot that it is about to notify for, and then reads
//!   the version of its record again; `settime` replaces the record, and then waits until that slot is not published.
//!   One of both sees the other, so that behind a `settime` no signal of the former record is queued.
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
pub use sleep::{be_exact, tickless_clock_nanosleep};

/// `tickless_timer_id`: the number of a slot and of its present use.
pub type TimerId = u64;

/// The bits that distinguish an id from the system's ids, which are small or negative numbers.
pub const ID_TAG: u64 = 0x6000_0000_0000_0000;

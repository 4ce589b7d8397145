//! POSIX timers in user space: `timer_create` and its siblings, without a system call for each of them.
//!
//! A timer is a slot of a table (`table`) with a record (`arm`) of the last `settime`. One service thread (`service`)
//! enqueues armed timers in its queue of Tickless, and `deliver` notifies. `docs/capi.md` gives the reasons.
//!
//! # Ground rules
//!
//! - `settime`, `gettime` and `getoverrun` may be called in signal handlers: they allocate nothing, and `settime`
//!   blocks all signals while it is in a handshake. `create` and `delete` take the lock of the free slots, so they must
//!   not be called in signal handlers.
//! - Only the service thread enqueues timers. It blocks all signals and calls no code of the user.
//! - **Delivery** (`crate::handshake`): all that notifies of a slot's expirations reads the record inside the slot's
//!   handshake, and `settime` enters it after those that may notify of the former record. So no signal of the former
//!   record is sent after a `settime`.
//! - A slot is free as soon as its timer is deleted. A stale entry of it in the inbox or the queue means only that the
//!   service looks at the record of the slot, whichever timer has it.
//! - After a fork the child has no service and an empty table: timers are not inherited.

mod arm;
mod calls;
mod deliver;
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

//! The device of an event loop: a timer file descriptor.

use std::io;

pub(crate) use super::descriptors::{
    BorrowedFd as BorrowedTimer, Descriptor as TimerSlot, drain, make_timer as make,
    set_timer as set,
};

/// Returns the timer of `slot`, made if there is none. Called by the thread that it belongs to.
pub(crate) fn of(slot: &TimerSlot) -> io::Result<BorrowedTimer<'_>> {
    Ok(slot.get_or_make(make)?)
}

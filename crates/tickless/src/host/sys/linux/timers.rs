//! The device of an event loop: a timer file descriptor.

use std::io;

pub(crate) use super::descriptors::{
    BorrowedFd as BorrowedTimer, Descriptor as TimerSlot, drain, make_timer as make,
    set_timer as set,
};

/// Returns the timer of `slot`; makes it if there is none. Called by the thread to which it belongs.
pub(crate) fn of(slot: &TimerSlot) -> io::Result<BorrowedTimer<'_>> {
    Ok(slot.get_or_make(make)?)
}

//! Thread priorities by the calls of POSIX.
#![expect(unsafe_code, reason = "a host calls its system (decision 3)")]

use std::cell::Cell;
use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;

/// A policy of the scheduler, and the priority within it.
type Schedule = (c_int, libc::sched_param);

thread_local! {
    /// The schedule that this thread had before it was given a priority.
    static BEFORE: Cell<Option<Schedule>> = const { Cell::new(None) };
}

/// Gives this thread a priority of `SCHED_FIFO`, or restores its previous schedule.
pub(crate) fn set_realtime_priority(priority: Option<u8>) -> io::Result<()> {
    let Some(priority) = priority else {
        let before = BEFORE.try_with(Cell::take).ok().flatten();
        return before.map_or(Ok(()), set);
    };
    let now = get()?;
    let mut parameters = now.1;
    // SAFETY: both have no preconditions.
    let least = unsafe { libc::sched_get_priority_min(libc::SCHED_FIFO) };
    // SAFETY: as above.
    let most = unsafe { libc::sched_get_priority_max(libc::SCHED_FIFO) };
    parameters.sched_priority = scaled(priority, least, most);
    set((libc::SCHED_FIFO, parameters))?;
    let _at_end_of_thread = BEFORE.try_with(|before| {
        if before.get().is_none() {
            before.set(Some(now));
        }
    });
    Ok(())
}

/// Converts a priority from 1 to 99 to the scale of the system.
fn scaled(priority: u8, least: c_int, most: c_int) -> c_int {
    let steps = most.saturating_sub(least).max(0);
    least + steps * c_int::from(priority.clamp(1, 99) - 1) / 98
}

fn get() -> io::Result<Schedule> {
    let mut policy = 0;
    let mut parameters = MaybeUninit::<libc::sched_param>::zeroed();
    // SAFETY: it has no preconditions.
    let this = unsafe { libc::pthread_self() };
    // SAFETY: the thread is there, and what is written to lives as long as the call.
    let refused =
        unsafe { libc::pthread_getschedparam(this, &raw mut policy, parameters.as_mut_ptr()) };
    if refused != 0 {
        return Err(io::Error::from_raw_os_error(refused));
    }
    // SAFETY: plain data of which all zeroes is a value, and the call wrote it.
    Ok((policy, unsafe { parameters.assume_init() }))
}

fn set((policy, parameters): Schedule) -> io::Result<()> {
    // SAFETY: it has no preconditions.
    let this = unsafe { libc::pthread_self() };
    // SAFETY: the thread is there, and the parameters live as long as the call.
    match unsafe { libc::pthread_setschedparam(this, policy, &raw const parameters) } {
        0 => Ok(()),
        refused => Err(io::Error::from_raw_os_error(refused)),
    }
}

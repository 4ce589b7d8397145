//! macOS and its kin: `kqueue` timers on the clock of the processor.
//!
//! As kqueue(2) says: `NOTE_MACHTIME` counts a timer in units of `mach_absolute_time`, which is the clock of
//! [`std::time::Instant`] and stands still while the machine sleeps; with `NOTE_ABSOLUTE` it fires at a time, which
//! without that flag would be one of the day, that can be set. `NOTE_CRITICAL` asks for the least leeway that the
//! system grants: an ordinary timer is put off to be fired together with others.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use super::kevent;
use super::kqueue::{Calls, Queue};
pub(crate) use super::posix::set_realtime_priority;

/// Number of the timer of a queue, and of its bell.
const ONLY: usize = 1;

/// The sleeper of this system.
pub(crate) type Native = Queue<Mach>;

/// The calls of this system.
#[derive(Debug)]
pub(crate) struct Mach;

impl Calls for Mach {
    type Event = libc::kevent;

    fn queue() -> io::Result<OwnedFd> {
        kevent::queue()
    }

    fn timer(left: u64) -> libc::kevent {
        let mut event = kevent::blank(ONLY);
        event.filter = libc::EVFILT_TIMER;
        event.flags = libc::EV_ADD | libc::EV_ONESHOT;
        event.fflags = libc::NOTE_MACHTIME | libc::NOTE_ABSOLUTE | libc::NOTE_CRITICAL;
        event.data = isize::try_from(units_ahead(left)).unwrap_or(isize::MAX);
        event
    }

    fn no_timer() -> libc::kevent {
        let mut event = kevent::blank(ONLY);
        event.filter = libc::EVFILT_TIMER;
        event.flags = libc::EV_DELETE;
        event
    }

    fn bell() -> libc::kevent {
        let mut event = kevent::blank(ONLY);
        event.filter = libc::EVFILT_USER;
        event.flags = libc::EV_ADD | libc::EV_CLEAR;
        event
    }

    fn ring() -> libc::kevent {
        let mut event = kevent::blank(ONLY);
        event.filter = libc::EVFILT_USER;
        event.fflags = libc::NOTE_TRIGGER;
        event
    }

    fn call(
        queue: BorrowedFd<'_>,
        changes: &[libc::kevent],
        room: &mut [libc::kevent],
        waits: bool,
    ) -> io::Result<usize> {
        kevent::call(queue, changes, room, waits)
    }
}

// Declared here: the crate `libc` has these marked as those of another crate, or not at all.
unsafe extern "C" {
    safe fn mach_absolute_time() -> u64;
    safe fn mach_wait_until(deadline: u64) -> std::ffi::c_int;
    fn mach_timebase_info(info: *mut Timebase) -> std::ffi::c_int;
}

/// Nanoseconds of a unit of the clock: `numer / denom`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Timebase {
    numer: u32,
    denom: u32,
}

impl Timebase {
    fn get() -> Self {
        static THIS: OnceLock<Timebase> = OnceLock::new();
        *THIS.get_or_init(|| {
            let mut info = Self { numer: 0, denom: 0 };
            // SAFETY: what is written to lives as long as the call.
            let _never_refused = unsafe { mach_timebase_info(&raw mut info) };
            info
        })
    }

    /// Units of the clock in `nanos`, rounded up.
    fn units(self, nanos: u64) -> u64 {
        let units = u128::from(nanos) * u128::from(self.denom.max(1));
        u64::try_from(units.div_ceil(u128::from(self.numer.max(1)))).unwrap_or(u64::MAX)
    }
}

/// The time that is `left` nanoseconds ahead, in units of the clock.
fn units_ahead(left: u64) -> u64 {
    mach_absolute_time().saturating_add(Timebase::get().units(left))
}

/// Sleeps to the unit of the clock, without the leeway of other sleeps.
pub(crate) fn nap(time: Duration) {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    // It ends early when the thread is told to end; the callers look again.
    let _any = mach_wait_until(units_ahead(nanos));
}

pub(crate) mod timers {
    //! Queues that an event loop watches.

    use std::io;
    use std::os::fd::AsFd as _;
    pub(crate) use std::os::fd::{BorrowedFd as BorrowedTimer, OwnedFd as OwnedTimer};

    use super::super::kqueue::{drain_timer, make_timer, set_timer};
    use super::Mach;

    pub(crate) fn borrow(timer: &OwnedTimer) -> BorrowedTimer<'_> {
        timer.as_fd()
    }

    /// Makes one that is not set.
    pub(crate) fn make() -> io::Result<OwnedTimer> {
        make_timer::<Mach>()
    }

    /// Sets it to ring in `left` nanoseconds, or never.
    pub(crate) fn set(timer: BorrowedTimer<'_>, left: Option<u64>) {
        set_timer::<Mach>(timer, left);
    }

    /// Makes one that rang silent; `false` if it was.
    pub(crate) fn drain(timer: BorrowedTimer<'_>) -> bool {
        drain_timer::<Mach>(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_rounded_up_to_units() {
        let arm = Timebase {
            numer: 125,
            denom: 3,
        };
        let lengths = [
            (0, 0),
            (1, 1),
            (41, 1),
            (42, 2),
            (125, 3),
            (1_000_000, 24_000),
        ];
        for (nanos, units) in lengths {
            assert_eq!(arm.units(nanos), units, "{nanos}");
        }
    }
}

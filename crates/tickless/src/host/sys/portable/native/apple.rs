//! Timers of macOS and related systems: `kqueue` timers on the clock of the processor.
//!
//! As kqueue(2) says: `NOTE_MACHTIME` counts a timer in units of `mach_absolute_time`, which is the clock of
//! [`std::time::Instant`] and stops while the machine sleeps. With `NOTE_ABSOLUTE` the timer fires at an absolute time;
//! without `NOTE_MACHTIME` this would be a time of day, which can be set. `NOTE_CRITICAL` requests the least leeway
//! that the system grants; the system delays an ordinary timer to fire it together with others.
#![expect(unsafe_code, reason = "a host calls its system (decision 3)")]

use std::sync::OnceLock;
use std::time::Duration;

/// Sets the length of a timer: it fires in `left` nanoseconds.
pub(super) fn set_length(event: &mut libc::kevent, left: u64) {
    event.fflags = libc::NOTE_MACHTIME | libc::NOTE_ABSOLUTE | libc::NOTE_CRITICAL;
    event.data = isize::try_from(units_ahead(left)).unwrap_or(isize::MAX);
}

// Declared here: the crate `libc` has these marked as those of another crate, or not at all.
unsafe extern "C" {
    safe fn mach_absolute_time() -> u64;
    safe fn mach_wait_until(deadline: u64) -> std::ffi::c_int;
    fn mach_timebase_info(info: *mut Timebase) -> std::ffi::c_int;
}

/// The nanoseconds of a unit of the clock: `numer / denom`.
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

    /// Returns the units of the clock in `nanos`, rounded up.
    fn units(self, nanos: u64) -> u64 {
        let units = u128::from(nanos) * u128::from(self.denom.max(1));
        u64::try_from(units.div_ceil(u128::from(self.numer.max(1)))).unwrap_or(u64::MAX)
    }
}

/// Returns the time that is `left` nanoseconds ahead, in units of the clock.
fn units_ahead(left: u64) -> u64 {
    mach_absolute_time().saturating_add(Timebase::get().units(left))
}

/// Sleeps for `time`, exact to a unit of the clock, without the leeway of other sleeps.
pub(crate) fn nap(time: Duration) {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    // It ends early when the thread is told to end; the callers look again.
    let _any = mach_wait_until(units_ahead(nanos));
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

//! Exact timers, with deadlines in nanoseconds, on any clock.

use std::ffi::{c_int, c_void};

use tickless::hrtimer::{
    Boottime, Clock, ClockId, HrTimer, Monotonic, Realtime, Restart, Setup, Tai,
};

use crate::clock::{LATEST, TICKLESS_CLOCK_MONOTONIC, clock_of, span};
use crate::errno::{Errno, answer};
use crate::structure::{MAGIC_OF_TIMERS, RawCallback};
use crate::verbs::{self, Memory, Wanted, destroy, find, initialise, with};

/// The size of a [`Timer`] in words, with spare words for later versions.
pub const TICKLESS_TIMER_WORDS: usize = 32;

/// The memory of an exact timer, `struct tickless_timer`.
#[derive(Debug)]
#[repr(C)]
pub struct Timer {
    /// The data of the library, hidden from C.
    opaque: [u64; TICKLESS_TIMER_WORDS],
}

impl Memory for Timer {
    const MAGIC: u64 = MAGIC_OF_TIMERS;
}

/// A callback of exact timers.
pub type TimerCallback =
    Option<unsafe extern "C-unwind" fn(timer: *mut Timer, argument: *mut c_void)>;

/// The configuration of an exact timer, `struct tickless_timer_config`, in this version.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TimerConfig {
    /// The size of the structure in the caller's version.
    size: usize,
    /// The callback.
    callback: TimerCallback,
    /// The argument of the callback.
    argument: *mut c_void,
    /// The time by which the timer may fire later than its deadline, in nanoseconds.
    slack_ns: u64,
    /// The number of the timer's clock.
    clock: u32,
    /// Must be zero; no flags are defined yet.
    flags: u32,
}

/// The size limit of a configuration, for all versions.
const LONGEST_CONFIG: usize = 4096;

/// Returns the configuration at `config`, which may be of this version, an older version or a newer version.
///
/// # Safety
///
/// `config` is null, or as many bytes may be read as its first field says.
unsafe fn read(config: *const TimerConfig) -> Result<TimerConfig, Errno> {
    if config.is_null() || !config.is_aligned() {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller says so.
    let size = unsafe { config.cast::<usize>().read() };
    if !(size_of::<TimerConfig>()..=LONGEST_CONFIG).contains(&size) {
        return Err(Errno::INVAL);
    }
    let bytes = config.cast::<u8>();
    for offset in size_of::<TimerConfig>()..size {
        // SAFETY: within the size that the caller says.
        let byte = unsafe { bytes.add(offset) };
        // SAFETY: as above.
        if unsafe { byte.read() } != 0 {
            // What this version does not know is asked for.
            return Err(Errno::INVAL);
        }
    }
    // SAFETY: the caller says so, and it is no shorter.
    Ok(unsafe { config.read() })
}

/// # Safety
///
/// `timer` is null, or the memory of a whole structure; `config.callback` can be called.
unsafe fn set_up(timer: *mut Timer, config: &TimerConfig) -> Result<c_int, Errno> {
    let callback = config.callback.ok_or(Errno::INVAL)?;
    if config.flags != 0 {
        return Err(Errno::INVAL);
    }
    // SAFETY: both are pointers, and it is called with the address of a timer.
    let callback = unsafe {
        std::mem::transmute::<unsafe extern "C-unwind" fn(*mut Timer, *mut c_void), RawCallback>(
            callback,
        )
    };
    let wanted = Wanted {
        callback,
        argument: config.argument,
        slack: span(config.slack_ns)?,
        clock: clock_of(config.clock)?,
    };
    match wanted.clock {
        // SAFETY: the caller says so.
        Clock::Realtime => unsafe { on::<Realtime>(timer, &wanted) },
        // SAFETY: as above.
        Clock::Monotonic => unsafe { on::<Monotonic>(timer, &wanted) },
        // SAFETY: as above.
        Clock::Boottime => unsafe { on::<Boottime>(timer, &wanted) },
        // SAFETY: as above.
        Clock::Tai => unsafe { on::<Tai>(timer, &wanted) },
    }
}

/// # Safety
///
/// As [`set_up`].
unsafe fn on<C: ClockId>(timer: *mut Timer, wanted: &Wanted) -> Result<c_int, Errno> {
    // SAFETY: the caller says so.
    let initialised = unsafe {
        initialise(timer, wanted, |alarm| {
            HrTimer::<_, C>::with_setup(Setup::new(), move |_| {
                alarm.ring();
                Restart::No
            })
        })
    }?;
    if C::CLOCK != Clock::Monotonic {
        // The library's first start on such a clock starts a thread, which a signal handler must not do: so that is
        // done here.
        // SAFETY: initialised above.
        let found = unsafe { find(timer.cast_const()) }?;
        found.structure.timer().start(LATEST, 0);
        found.structure.timer().cancel();
    }
    Ok(initialised)
}

/// Makes an idle timer on the monotonic clock, without slack.
///
/// # Safety
///
/// `timer` is null, or the memory of a whole structure. The callback can be called with `timer` and `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_init(
    timer: *mut Timer,
    callback: TimerCallback,
    argument: *mut c_void,
) -> c_int {
    let config = TimerConfig {
        size: size_of::<TimerConfig>(),
        callback,
        argument,
        slack_ns: 0,
        clock: TICKLESS_CLOCK_MONOTONIC,
        flags: 0,
    };
    // SAFETY: the caller says so.
    answer(|| unsafe { set_up(timer, &config) })
}

/// Makes an idle timer.
///
/// # Safety
///
/// As [`tickless_timer_init`]; `config` is null, or as many bytes may be read as its first field says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_init_config(
    timer: *mut Timer,
    config: *const TimerConfig,
) -> c_int {
    answer(|| {
        // SAFETY: the caller says so.
        let config = unsafe { read(config) }?;
        // SAFETY: the caller says so.
        unsafe { set_up(timer, &config) }
    })
}

/// Starts an exact timer to fire after a duration. Returns 1 if it was pending.
///
/// # Safety
///
/// `timer` is null, or the memory of a whole structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_start(timer: *mut Timer, delay_ns: u64) -> c_int {
    // SAFETY: the caller says so.
    unsafe { with(timer, |timer, place| verbs::start(timer, place, delay_ns)) }
}

/// Starts an exact timer to fire at a time of its clock. Returns 1 if it was pending.
///
/// # Safety
///
/// `timer` is null, or the memory of a whole structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_start_at(timer: *mut Timer, at_ns: u64) -> c_int {
    // SAFETY: the caller says so.
    unsafe { with(timer, |timer, place| verbs::start_at(timer, place, at_ns)) }
}

/// Starts an exact timer with the duration of its last start.
///
/// # Safety
///
/// `timer` is null, or the memory of a whole structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_restart(timer: *mut Timer) -> c_int {
    // SAFETY: the caller says so.
    unsafe { with(timer, verbs::restart) }
}

/// Starts an exact timer again, whole intervals after its last deadline, and writes the number of intervals that have
/// passed.
///
/// # Safety
///
/// `timer` is null, or the memory of a whole structure.
/// `passed` is null, or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_forward(
    timer: *mut Timer,
    interval_ns: u64,
    passed: *mut u64,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe { verbs::forward(timer, interval_ns, passed) }
}

/// Cancels an exact timer. Returns 1 if it was pending.
///
/// # Safety
///
/// `timer` is null, or the memory of a whole structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_cancel(timer: *mut Timer) -> c_int {
    // SAFETY: the caller says so.
    unsafe { with(timer, |timer, place| Ok(verbs::cancel(timer, place))) }
}

/// Cancels an exact timer, unless its callback is running.
///
/// # Safety
///
/// `timer` is null, or the memory of a whole structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_try_cancel(timer: *mut Timer) -> c_int {
    // SAFETY: the caller says so.
    unsafe { with(timer, verbs::try_cancel) }
}

/// Cancels an exact timer. Returns an error if the timer's own callback calls this function.
///
/// # Safety
///
/// `timer` is null, or the memory of a whole structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_cancel_sync(timer: *mut Timer) -> c_int {
    // SAFETY: the caller says so.
    unsafe { with(timer, verbs::cancel_sync) }
}

/// Returns 1 if an exact timer is pending.
///
/// # Safety
///
/// `timer` is null, or the memory of a whole structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_pending(timer: *mut Timer) -> c_int {
    // SAFETY: the caller says so.
    unsafe { with(timer, |timer, _| Ok(verbs::pending(timer))) }
}

/// Writes the time at which an exact timer fires, or fired last.
///
/// # Safety
///
/// `timer` is null, or the memory of a whole structure.
/// `at_ns` is null, or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_expires(timer: *mut Timer, at_ns: *mut u64) -> c_int {
    // SAFETY: the caller says so.
    unsafe { verbs::expires(timer, at_ns) }
}

/// Cancels an exact timer and destroys its structure.
///
/// # Safety
///
/// `timer` is null, or the memory of a whole structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_destroy(timer: *mut Timer) -> c_int {
    // SAFETY: the caller says so.
    unsafe { destroy(timer) }
}

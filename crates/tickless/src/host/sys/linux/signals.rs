//! A POSIX timer that sends its thread a signal.
#![expect(unsafe_code, reason = "a slice ends by a signal (decision 29)")]

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use super::threads;
use crate::host::sys::Until;

/// The signal that the timer sends.
const SIGNAL: c_int = libc::SIGURG;

/// The handle by which the kernel names the timer.
pub(crate) type Timer = *mut c_void;

/// The function that is called when the signal arrives, on the thread that receives it.
pub(crate) type Handler = extern "C" fn(c_int);

/// Installs the handler, once.
pub(crate) fn install(handler: Handler) -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), Option<i32>>> = OnceLock::new();
    let installed =
        INSTALLED.get_or_init(|| install_once(handler).map_err(|error| error.raw_os_error()));
    installed.map_err(|code| match code {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(
            io::ErrorKind::ResourceBusy,
            "the program handles SIGURG itself",
        ),
    })
}

fn install_once(handler: Handler) -> io::Result<()> {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null action asks for the present one, which is written to `before`.
    let asked = unsafe { libc::sigaction(SIGNAL, ptr::null(), before.as_mut_ptr()) };
    check(asked)?;
    // SAFETY: `sigaction` is plain data of which all zeroes is a value, and the call filled it.
    let before = unsafe { before.assume_init() };
    if before.sa_sigaction != libc::SIG_DFL && before.sa_sigaction != libc::SIG_IGN {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    // SAFETY: as above: plain data of which all zeroes is a value.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the handler has the C calling convention, lives for ever, does not unwind, and touches the words of its
    // own thread alone; the mask of zeroes is the empty one.
    check(unsafe { libc::sigaction(SIGNAL, &raw const action, ptr::null_mut()) })
}

/// Unblocks the signal for this thread, even if the thread that started it had blocked the signal.
pub(crate) fn unblock() {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: it fills the set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the set was filled.
    let mut set = unsafe { set.assume_init() };
    // SAFETY: the set is one, and the signal is one.
    unsafe { libc::sigaddset(&raw mut set, SIGNAL) };
    // SAFETY: the set lives as long as the call; the mask before is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut()) };
}

/// Makes a timer on the monotonic clock that sends the signal to this thread.
pub(crate) fn create() -> io::Result<Timer> {
    // SAFETY: plain data of which all zeroes is a value.
    let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = SIGNAL;
    let thread = threads::thread_id().and_then(|id| i32::try_from(id.get()).ok());
    event.sigev_notify_thread_id = thread.ok_or(io::ErrorKind::PermissionDenied)?;
    let mut timer: libc::timer_t = ptr::null_mut();
    // SAFETY: both live as long as the call, which writes the second.
    check(unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) })?;
    // A filter of system calls may refuse to set what it let be made: no signal would ever come.
    if let Err(error) = settime(timer, 0, 0) {
        delete(timer);
        return Err(error);
    }
    Ok(timer)
}

pub(crate) fn delete(timer: Timer) {
    // SAFETY: the timer was made by `create`, and is deleted once, by the thread that made it.
    let _cannot_fail = unsafe { libc::timer_delete(timer) };
}

/// Sets the time at which the timer sends its signal; this replaces an earlier setting. Called by the thread that made
/// the timer.
pub(crate) fn set(timer: Timer, until: Until) {
    // The kernel took a time when the timer was made.
    let _cannot_fail = match until {
        Until::Never => settime(timer, 0, 0),
        Until::At(nanos) => settime(timer, libc::TIMER_ABSTIME, nanos),
        Until::In(nanos) => settime(timer, 0, nanos),
    };
}

fn settime(timer: libc::timer_t, flags: c_int, nanos: i64) -> io::Result<()> {
    let value = libc::itimerspec {
        it_interval: timespec(0),
        it_value: timespec(nanos),
    };
    // SAFETY: the timer is this thread's, and not deleted: `is_on`, or just made. The value lives as long as the call.
    check(unsafe { libc::timer_settime(timer, flags, &raw const value, ptr::null_mut()) })
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::unnecessary_cast,
    clippy::allow_attributes,
    reason = "the fields are shorter on 32 bits, and no timer is set for the year 2038 after the start of a system"
)]
fn timespec(nanos: i64) -> libc::timespec {
    let seconds = nanos / 1_000_000_000;
    libc::timespec {
        tv_sec: seconds.min(i64::from(i32::MAX)) as _,
        tv_nsec: (nanos % 1_000_000_000) as _,
    }
}

fn check(result: c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

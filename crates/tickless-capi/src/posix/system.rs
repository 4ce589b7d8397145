//! All system calls for signals and descriptors, each with a check of its result.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;

use tickless::hrtimer::Clock;

use crate::clock::number_of;
use crate::errno::Errno;
use crate::posix::times::timespec;

/// The destination of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The signal goes to a thread of the process that does not block it.
    Process,
    /// The signal goes to the thread with this number.
    Thread(c_int),
}

/// The content of a signal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signal {
    pub(super) target: Target,
    pub(super) number: c_int,
    pub(super) value: usize,
}

/// A timer of the kernel that sends a signal.
#[derive(Debug)]
pub(super) struct SignalTimer {
    id: c_int,
    clock: Clock,
}

// The calls themselves, and not the functions of the C library: a library that is loaded before it may have others of
// these names.
impl SignalTimer {
    /// Makes a timer that is not armed. `EAGAIN` if the user has as many signals queued as may be.
    pub(super) fn new(clock: Clock, signal: &Signal) -> Result<Self, Errno> {
        // SAFETY: all fields are numbers or may be null.
        let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
        event.sigev_signo = signal.number;
        event.sigev_value.sival_ptr = std::ptr::with_exposed_provenance_mut(signal.value);
        event.sigev_notify = match signal.target {
            Target::Process => libc::SIGEV_SIGNAL,
            Target::Thread(thread) => {
                event.sigev_notify_thread_id = thread;
                libc::SIGEV_THREAD_ID
            }
        };
        let mut id = 0;
        // SAFETY: it reads one and writes the other.
        let result = unsafe {
            libc::syscall(
                libc::SYS_timer_create,
                number_of(clock),
                &raw const event,
                &raw mut id,
            )
        };
        if result == 0 {
            Ok(Self { id, clock })
        } else {
            Err(Errno::of_system(last_error()))
        }
    }

    pub(super) fn id(&self) -> c_int {
        self.id
    }

    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    /// Arms the timer for a time of its clock, or disarms it if the time is zero. A pending signal goes.
    pub(super) fn set(&self, start: u64, interval: u64) {
        let value = libc::itimerspec {
            it_value: timespec(start),
            it_interval: timespec(interval),
        };
        // SAFETY: it reads the value. It fails for times alone that are none.
        let _set = unsafe {
            libc::syscall(
                libc::SYS_timer_settime,
                self.id,
                libc::TIMER_ABSTIME,
                &raw const value,
                0_usize,
            )
        };
    }

    /// Returns true if the timer will expire.
    pub(super) fn is_armed(&self) -> bool {
        let mut value = MaybeUninit::<libc::itimerspec>::zeroed();
        // SAFETY: it writes the value.
        unsafe { libc::syscall(libc::SYS_timer_gettime, self.id, value.as_mut_ptr()) };
        // SAFETY: zero or written.
        let left = unsafe { value.assume_init() }.it_value;
        left.tv_sec != 0 || left.tv_nsec != 0
    }
}

impl Drop for SignalTimer {
    fn drop(&mut self) {
        // SAFETY: no pointers; the number is the timer's own.
        unsafe { libc::syscall(libc::SYS_timer_delete, self.id) };
    }
}

/// Returns the overrun of the kernel's timer with this number, or zero if there is none.
pub(super) fn overrun(timer: c_int) -> c_int {
    // SAFETY: no pointers.
    let overrun = unsafe { libc::syscall(libc::SYS_timer_getoverrun, timer) };
    c_int::try_from(overrun.max(0)).unwrap_or(c_int::MAX)
}

fn last_error() -> c_int {
    io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EINVAL)
}

fn filled() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: it writes the set.
    unsafe { libc::sigfillset(set.as_mut_ptr()) };
    // SAFETY: written above; that cannot fail.
    unsafe { set.assume_init() }
}

/// Calls `call` with all signals blocked on this thread, so that they are also blocked on a thread that `call` starts.
pub(super) fn with_signals_blocked<R>(call: impl FnOnce() -> R) -> R {
    let (all, mut before) = (filled(), MaybeUninit::<libc::sigset_t>::uninit());
    // SAFETY: it reads one set and writes the other.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, before.as_mut_ptr()) };
    let result = call();
    // SAFETY: written above; that cannot fail.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    result
}

/// Returns true if `signal` is pending for the process or this thread, and this thread blocks it.
pub(super) fn is_pending_here(signal: c_int) -> bool {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: it writes the set.
    if unsafe { libc::sigpending(set.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: written above.
    unsafe { libc::sigismember(set.as_ptr(), signal) == 1 }
}

/// Makes a descriptor that counts expirations.
pub(super) fn counter(flags: c_int) -> Result<c_int, c_int> {
    // SAFETY: no pointers.
    let descriptor = unsafe { libc::eventfd(0, flags) };
    if descriptor >= 0 {
        Ok(descriptor)
    } else {
        Err(last_error())
    }
}

/// Adds to the count of a descriptor.
pub(super) fn add(descriptor: c_int, count: u64) {
    // SAFETY: it reads eight bytes. It fails when the count is full, which makes it no less readable.
    let _written = unsafe { libc::write(descriptor, (&raw const count).cast::<c_void>(), 8) };
}

/// Sets the count of a descriptor to zero. The descriptor may be blocking or not.
pub(super) fn drain(descriptor: c_int) {
    let mut count = 0_u64;
    let place = libc::iovec {
        iov_base: (&raw mut count).cast(),
        iov_len: 8,
    };
    // SAFETY: it writes eight bytes. It fails when the count is zero.
    let _read = unsafe { libc::preadv2(descriptor, &raw const place, 1, -1, libc::RWF_NOWAIT) };
}

pub(super) fn close(descriptor: c_int) {
    // SAFETY: no pointers; the descriptor is the timer's own.
    let _closed = unsafe { libc::close(descriptor) };
}

/// Returns true if `thread` is a thread of this process.
pub(super) fn is_own_thread(thread: c_int) -> bool {
    let process = std::process::id().cast_signed();
    // SAFETY: no pointers; signal zero is none.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) == 0 }
}

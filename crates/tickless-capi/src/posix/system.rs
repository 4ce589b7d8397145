//! All system calls for signals and descriptors, each with a check of its result.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicI32, Ordering};

/// The first fields of a timer's `siginfo_t`, which signal handlers read.
#[repr(C)]
struct TimerInfo {
    signal: c_int,
    error: c_int,
    code: c_int,
    /// Padding: the union after the first fields has the alignment of a pointer.
    gap: c_int,
    timer: c_int,
    overrun: c_int,
    value: usize,
    /// Padding to the length that the system reads.
    rest: [u64; 12],
}

const _: () = assert!(size_of::<TimerInfo>() == size_of::<libc::siginfo_t>());

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
    pub(super) timer: c_int,
    pub(super) value: usize,
}

/// Queues a signal in the form of a kernel timer's signal. Returns the number of `errno.h` if the system refuses.
pub(super) fn send(signal: &Signal, overrun: c_int) -> Result<(), c_int> {
    let info = TimerInfo {
        signal: signal.number,
        error: 0,
        code: libc::SI_TIMER,
        gap: 0,
        timer: signal.timer,
        overrun,
        value: signal.value,
        rest: [0; 12],
    };
    let process = process();
    let number = signal.number;
    let sent = match signal.target {
        // SAFETY: it reads the structure, which is as long as a `siginfo_t`.
        Target::Process => unsafe {
            libc::syscall(libc::SYS_rt_sigqueueinfo, process, number, &raw const info)
        },
        // SAFETY: as above.
        Target::Thread(thread) => unsafe {
            libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                process,
                thread,
                number,
                &raw const info,
            )
        },
    };
    if sent == 0 { Ok(()) } else { Err(last_error()) }
}

/// The number of this process, stored at its first use; zero before.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Forgets the process id, in the child of a fork.
pub(super) fn forget_process() {
    // Relaxed: there is one thread.
    PROCESS.store(0, Ordering::Relaxed);
}

fn process() -> c_int {
    // Relaxed, both: all threads find the same.
    match PROCESS.load(Ordering::Relaxed) {
        0 => {
            let process = std::process::id().cast_signed();
            PROCESS.store(process, Ordering::Relaxed);
            process
        }
        process => process,
    }
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

/// Removes a pending signal of the timer, which this thread blocks. If the removed signal with this number was not the
/// timer's, it is queued again.
pub(super) fn withdraw(signal: &Signal) {
    if !is_pending_here(signal.number) {
        return;
    }
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: it writes the set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: written above.
    unsafe { libc::sigaddset(set.as_mut_ptr(), signal.number) };
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: it reads the set and the time, and writes the information.
    let taken = unsafe { libc::sigtimedwait(set.as_ptr(), info.as_mut_ptr(), &raw const at_once) };
    if taken != signal.number {
        return;
    }
    // SAFETY: both are as long as a `siginfo_t`, all of which the system wrote or was zero.
    let found = unsafe { &*info.as_ptr().cast::<TimerInfo>() };
    if found.code == libc::SI_TIMER && found.timer == signal.timer {
        return;
    }
    let process = process();
    // What is known to be of a thread was of this one, which alone can have taken it.
    if found.code == libc::SI_TKILL {
        // SAFETY: no pointers.
        let thread = unsafe { libc::gettid() };
        // SAFETY: it reads the information.
        let _sent = unsafe {
            libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                process,
                thread,
                taken,
                info.as_ptr(),
            )
        };
    } else {
        // SAFETY: it reads the information.
        let _sent =
            unsafe { libc::syscall(libc::SYS_rt_sigqueueinfo, process, taken, info.as_ptr()) };
    }
}

/// The pending signals of another thread, read from a file of the system.
#[derive(Debug)]
pub(super) struct ThreadSignals(File);

impl ThreadSignals {
    pub(super) fn of(thread: c_int) -> Option<Self> {
        File::open(format!("/proc/self/task/{thread}/status"))
            .ok()
            .map(Self)
    }

    /// Returns true if `signal` is pending for the thread, and false if it is not pending or the thread has ended.
    pub(super) fn has(&self, signal: c_int) -> bool {
        let mut text = [0; 4096];
        let length = self.0.read_at(&mut text, 0).unwrap_or(0);
        let text = String::from_utf8_lossy(text.get(..length).unwrap_or_default());
        let line = text.lines().find_map(|line| line.strip_prefix("SigPnd:"));
        let set = line
            .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
            .unwrap_or(0);
        u32::try_from(signal - 1).is_ok_and(|bit| set.checked_shr(bit).unwrap_or(0) & 1 != 0)
    }
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
    let process = process();
    // SAFETY: no pointers; signal zero is none.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) == 0 }
}

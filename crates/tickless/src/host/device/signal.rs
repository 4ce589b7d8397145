//! A POSIX timer that sends the thread a signal, whose handler sets a flag: the device of a worker that computes.
//!
//! A worker's device is its own sleep, which is of no use while it computes. With this timer it is a device in the full
//! sense: setting it is a system call, and it interrupts. What the core saves of writes is saved here.
//!
//! # Ground rules
//!
//! - The timer belongs to the thread that made it, and that thread alone sets it, with its base locked.
//! - The handler, which the device hands in, reads the thread's own words and sets two flags. It takes no lock.
//! - The signal is `SIGURG`: ignored by default, so that one that comes too late or from elsewhere harms nothing, and
//!   passed on by debuggers without a stop. The handler stays installed for good.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Ordering};

use tickless_core::time::Instant;

use crate::host::kernel_time::{self, Until};
use crate::host::os;

/// The signal.
const SIGNAL: libc::c_int = libc::SIGURG;

/// The timer of a thread, if it has one, and what it did. All accesses are Relaxed: the thread itself writes, and so
/// does a handler that interrupts it; other threads read counts.
#[derive(Debug)]
pub(crate) struct SignalTimer {
    is_on: AtomicBool,
    /// Reads the clock and tells the kernel how long, in place of until when.
    is_relative: AtomicBool,
    timer: AtomicPtr<libc::c_void>,
    /// What it is set for, in nanoseconds; `i64::MIN` when that was used up.
    set_for: AtomicI64,
    writes: AtomicU64,
    signals: AtomicU64,
    signalled: AtomicBool,
}

const USED_UP: i64 = i64::MIN;

impl SignalTimer {
    pub(crate) const fn new() -> Self {
        Self {
            is_on: AtomicBool::new(false),
            is_relative: AtomicBool::new(false),
            timer: AtomicPtr::new(ptr::null_mut()),
            set_for: AtomicI64::new(USED_UP),
            writes: AtomicU64::new(0),
            signals: AtomicU64::new(0),
            signalled: AtomicBool::new(false),
        }
    }

    /// Whether the thread has the timer.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Makes the timer, for the calling thread, whose base this is.
    pub(crate) fn begin(&self, is_relative: bool, handler: Handler) -> io::Result<()> {
        install(handler)?;
        unblock();
        let timer = create()?;
        self.timer.store(timer, Ordering::Relaxed);
        self.is_relative.store(is_relative, Ordering::Relaxed);
        self.set_for.store(USED_UP, Ordering::Relaxed);
        self.is_on.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Deletes the timer. Called by the thread that made it.
    pub(crate) fn end(&self) {
        if !self.is_on() {
            return;
        }
        self.is_on.store(false, Ordering::Relaxed);
        delete(self.timer.load(Ordering::Relaxed));
    }

    /// Sets the timer, if the thread has it and it is not set for that already. Called with the base locked.
    #[inline]
    pub(crate) fn set(&self, when: Instant, now: impl FnOnce() -> Instant) {
        if self.is_on() {
            self.write(when, now);
        }
    }

    fn write(&self, when: Instant, now: impl FnOnce() -> Instant) {
        if self.set_for.load(Ordering::Relaxed) == when.as_nanos() {
            return;
        }
        self.set_for.store(when.as_nanos(), Ordering::Relaxed);
        let writes = self.writes.load(Ordering::Relaxed);
        self.writes.store(writes + 1, Ordering::Relaxed);
        let timer = self.timer.load(Ordering::Relaxed);
        // The kernel took a time when the timer was made.
        let _cannot_fail = if when.is_forever() {
            settime(timer, 0, 0)
        } else if self.is_relative.load(Ordering::Relaxed) {
            let left = when.as_nanos().saturating_sub(now().as_nanos());
            settime(timer, 0, left.max(1))
        } else {
            match kernel_time::until(when) {
                Until::Never => settime(timer, 0, 0),
                Until::At(nanos) => settime(timer, libc::TIMER_ABSTIME, nanos),
                Until::In(nanos) => settime(timer, 0, nanos),
            }
        };
    }

    /// The signal came. For the handler.
    pub(crate) fn note_signal(&self) {
        let signals = self.signals.load(Ordering::Relaxed);
        self.signals.store(signals + 1, Ordering::Relaxed);
        self.signalled.store(true, Ordering::Relaxed);
    }

    /// What the timer was set for is used up.
    #[inline]
    pub(crate) fn use_up(&self) {
        self.set_for.store(USED_UP, Ordering::Relaxed);
    }

    /// Whether what the timer was set for is used up, and it was not set since.
    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        self.set_for.load(Ordering::Relaxed) == USED_UP
    }

    /// Whether a signal came since that was [taken](Self::take_signalled) last.
    #[inline]
    pub(crate) fn is_signalled(&self) -> bool {
        // Relaxed: as for `take_signalled`, which looks again.
        self.signalled.load(Ordering::Relaxed)
    }

    /// Whether a signal came since this was asked last.
    #[inline]
    pub(crate) fn take_signalled(&self) -> bool {
        let came = self.signalled.load(Ordering::Relaxed);
        if came {
            self.signalled.store(false, Ordering::Relaxed);
        }
        came
    }

    /// Calls of `timer_settime`, and signals that came, since the base was first used.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (
            self.writes.load(Ordering::Relaxed),
            self.signals.load(Ordering::Relaxed),
        )
    }
}

/// What is called when the signal comes, on the thread that it comes to.
pub(crate) type Handler = extern "C" fn(libc::c_int);

/// Whether this process can have such timers: installs the handler, and makes a timer to see.
pub(crate) fn probe(handler: Handler) -> io::Result<()> {
    install(handler)?;
    delete(create()?);
    Ok(())
}

/// Installs the handler, once.
fn install(handler: Handler) -> io::Result<()> {
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

/// Lets the signal reach this thread, whatever the thread that started it had blocked.
fn unblock() {
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

/// A timer on the monotonic clock that sends the signal to this thread.
fn create() -> io::Result<libc::timer_t> {
    // SAFETY: plain data of which all zeroes is a value.
    let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = SIGNAL;
    let thread = os::thread_id().and_then(|id| i32::try_from(id.get()).ok());
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

fn delete(timer: libc::timer_t) {
    // SAFETY: the timer was made by `create`, and is deleted once, by the thread that made it.
    let _cannot_fail = unsafe { libc::timer_delete(timer) };
}

fn settime(timer: libc::timer_t, flags: libc::c_int, nanos: i64) -> io::Result<()> {
    let zero = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let value = libc::itimerspec {
        it_interval: zero,
        it_value: libc::timespec {
            tv_sec: nanos / 1_000_000_000,
            tv_nsec: nanos % 1_000_000_000,
        },
    };
    // SAFETY: the timer is this thread's, and not deleted: `is_on`, or just made. The value lives as long as the call.
    check(unsafe { libc::timer_settime(timer, flags, &raw const value, ptr::null_mut()) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

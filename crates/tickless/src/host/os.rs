//! What the library needs of Linux besides: the end of a thread, waiting without a lock, descriptors.

use std::mem::MaybeUninit;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::{ClockId, NanosleepRelativeResult, clock_nanosleep_relative};
use rustix::time::Timespec;

/// Ends the process, in the child of a fork: without what is done at the end of the parent.
pub(crate) fn end_child() -> ! {
    // SAFETY: it has no preconditions.
    unsafe { libc::_exit(0) }
}

/// Has `destructor` called when this thread ends, after the destructors of its thread-locals; `false` if the system has
/// no room for that. To be asked again by the destructor, which is called up to [`ENDS`] times then.
///
/// The destructor of a thread-local would be called among those of others, which may hold what it takes away.
///
/// `destructor` is the same at each call, and must not unwind.
pub(super) fn at_end_of_thread(destructor: unsafe extern "C" fn(*mut libc::c_void)) -> bool {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    let key = *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` lives as long as the call, and the destructor for ever.
        let refused = unsafe { libc::pthread_key_create(&raw mut key, Some(destructor)) };
        (refused == 0).then_some(key)
    });
    key.is_some_and(|key| {
        let any_but_null = std::ptr::NonNull::<libc::c_void>::dangling();
        // SAFETY: the key was created, and is never deleted. The value is never followed.
        unsafe { libc::pthread_setspecific(key, any_but_null.as_ptr()) == 0 }
    })
}

/// How often the destructor of [`at_end_of_thread`] is called at least, if it asks for it each time
/// (`_POSIX_THREAD_DESTRUCTOR_ITERATIONS`).
pub(super) const ENDS: u32 = 4;

/// How often the calling thread gave its CPU up: it slept, or waited for something. `None` if the kernel does not say.
pub(crate) fn times_given_up() -> Option<libc::c_long> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the structure lives as long as the call, which writes it.
    let refused = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: the call did not refuse, so it wrote all of the structure.
    (refused == 0).then(|| unsafe { usage.assume_init() }.ru_nvcsw)
}

/// Polls before the thread gives its time away.
const YIELDS_FROM: u32 = 50;
/// Polls before the thread sleeps: a yield does not let a thread of lower real-time priority run.
const SLEEPS_FROM: u32 = 200;

/// Passes the time of a thread that polls for the `attempt`-th time.
pub(crate) fn relax(attempt: u32) {
    if attempt < YIELDS_FROM {
        std::hint::spin_loop();
    } else if attempt < SLEEPS_FROM {
        std::thread::yield_now();
    } else {
        nap(Duration::from_micros(50));
    }
}

/// Sleeps, and for a shorter time where the kernel refuses to let threads sleep, at which the standard library panics.
pub(super) fn nap(time: Duration) {
    let asked =
        Timespec::try_from(time).map(|time| clock_nanosleep_relative(ClockId::Monotonic, &time));
    if asked.is_ok_and(|asked| {
        !matches!(
            asked,
            NanosleepRelativeResult::Ok | NanosleepRelativeResult::Interrupted(_)
        )
    }) {
        std::thread::yield_now();
    }
}

/// As [`relax`], of a thread that has polled in vain for a while.
pub(super) fn relax_by_yielding() {
    relax(YIELDS_FROM);
}

/// A descriptor that is made when it is needed first, and stays under its number.
#[derive(Debug)]
pub(crate) struct Descriptor {
    fd: OnceLock<OwnedFd>,
    /// This process is the child of a fork, and the system refused it one of its own: what stands under the number is
    /// another process's, or nothing.
    is_lost: AtomicBool,
}

impl Descriptor {
    pub(crate) const fn new() -> Self {
        Self {
            fd: OnceLock::new(),
            is_lost: AtomicBool::new(false),
        }
    }

    /// The descriptor, if one was ever needed and there is one.
    pub(crate) fn existing(&self) -> Option<BorrowedFd<'_>> {
        // Relaxed: written while there was no other thread.
        let is_lost = self.is_lost.load(Ordering::Relaxed);
        self.fd.get().filter(|_| !is_lost).map(OwnedFd::as_fd)
    }

    /// The descriptor, made by `make` if there is none. Called by the thread that it belongs to.
    pub(crate) fn get_or_make(
        &self,
        make: impl FnOnce() -> rustix::io::Result<OwnedFd>,
    ) -> rustix::io::Result<BorrowedFd<'_>> {
        if self.fd.get().is_some() {
            return self.existing().ok_or(Errno::BADF);
        }
        let fd = make()?;
        Ok(self.fd.get_or_init(|| fd).as_fd())
    }

    /// In the child of a fork: there is none that is its own, for good.
    pub(crate) fn lose(&self) {
        // Relaxed: there is no other thread.
        self.is_lost.store(true, Ordering::Relaxed);
    }
}

/// What the monotonic clock of the kernel shows, asked past the C library; `None` if that call is refused.
pub(super) fn monotonic_by_call() -> Option<Timespec> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure lives as long as the call, which writes it.
    let refused = unsafe {
        libc::syscall(
            libc::SYS_clock_gettime,
            libc::CLOCK_MONOTONIC,
            &raw mut time,
        )
    };
    (refused == 0).then_some(Timespec {
        tv_sec: time.tv_sec,
        tv_nsec: time.tv_nsec,
    })
}

/// Has `prepare` called before each fork in the thread that forks, and `child` behind it in the child: before those of
/// callers that ask later. Neither unwinds.
pub(super) fn around_forks(prepare: extern "C" fn(), child: extern "C" fn()) {
    // SAFETY: both functions have the C calling convention, do not unwind, and live for ever.
    let refused = unsafe { libc::pthread_atfork(Some(prepare), None, Some(child)) };
    // It fails only for lack of memory.
    debug_assert_eq!(refused, 0);
}

/// The number of the CPU that executes the calling thread; `None` if the kernel refuses to say it.
pub(super) fn cpu() -> Option<u32> {
    // SAFETY: it has no preconditions.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The number by which the kernel knows the calling thread; `None` if the kernel refuses to say it.
pub(crate) fn thread_id() -> Option<NonZeroU32> {
    // SAFETY: it has no preconditions.
    let id = unsafe { libc::syscall(libc::SYS_gettid) };
    u32::try_from(id).ok().and_then(NonZeroU32::new)
}

/// Makes the kernel wake this thread without the 50 µs of slack that threads have by default.
pub(crate) fn remove_timer_slack() {
    let exact = std::num::NonZeroU64::MIN;
    // A kernel that refuses wakes later; nothing is wrong otherwise.
    let _best_effort = rustix::thread::set_current_timer_slack(Some(exact));
}

//! What the library needs of Linux besides: the end of a thread, waiting without a lock, descriptors, times.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::time::Timespec;
use tickless_core::time::Instant;

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
        std::thread::sleep(Duration::from_micros(50));
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

/// A deadline as the kernel takes it: absolute, on its monotonic clock. `None` for "never".
pub(crate) fn timespec(deadline: Instant) -> Option<Timespec> {
    if deadline.is_forever() {
        return None;
    }
    let nanos = deadline.as_nanos().max(0);
    Some(Timespec {
        tv_sec: nanos / 1_000_000_000,
        tv_nsec: nanos % 1_000_000_000,
    })
}

/// Makes the kernel wake this thread without the 50 µs of slack that threads have by default.
pub(crate) fn remove_timer_slack() {
    let exact = std::num::NonZeroU64::MIN;
    // A kernel that refuses wakes later; nothing is wrong otherwise.
    let _best_effort = rustix::thread::set_current_timer_slack(Some(exact));
}

//! The kernel's services for threads: the end of a thread, its CPU, its priority, and its counts.
#![expect(unsafe_code, reason = "a host calls its system (decision 3)")]

use std::ffi::{c_long, c_void};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::num::NonZeroU32;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::thread::{
    ClockId, CpuSet, NanosleepRelativeResult, clock_nanosleep_relative, sched_getaffinity,
    sched_setaffinity,
};
use rustix::time::Timespec;

/// Ends the process, which is the child of a fork, without the exit handlers of the parent.
pub(crate) fn end_child() -> ! {
    // SAFETY: it has no preconditions.
    unsafe { libc::_exit(0) }
}

/// Registers `destructor` for the end of this thread, after the destructors of its thread-locals; `false` if the system
/// refuses. The destructor may register itself again, and is then called up to [`ENDS`] times.
///
/// The destructor of a thread-local would be no substitute: it would be called among the destructors of other
/// thread-locals, which may still use the objects that it frees.
///
/// Each call has to pass the same `destructor`, which must not unwind.
pub(crate) fn at_end_of_thread(destructor: unsafe extern "C" fn(*mut c_void)) -> bool {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    let key = *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` lives as long as the call, and the destructor for ever.
        let refused = unsafe { libc::pthread_key_create(&raw mut key, Some(destructor)) };
        (refused == 0).then_some(key)
    });
    key.is_some_and(|key| {
        let any_but_null = std::ptr::NonNull::<c_void>::dangling();
        // SAFETY: the key was created, and is never deleted. The value is never followed.
        unsafe { libc::pthread_setspecific(key, any_but_null.as_ptr()) == 0 }
    })
}

/// The number of times that the destructor of [`at_end_of_thread`] is called if it registers itself again each time.
///
/// POSIX calls destructors in four rounds at least (`_POSIX_THREAD_DESTRUCTOR_ITERATIONS`). The last round is left to
/// tools that follow a thread to its end: the thread sanitizer forgets the thread in that round, and instrumented code
/// that the thread executes afterwards crashes.
pub(crate) const ENDS: u32 = 3;

#[cfg(target_env = "gnu")]
pub(crate) use by_destructors::{is_exiting, notice_exits};
#[cfg(not(target_env = "gnu"))]
pub(crate) use by_handler::{is_exiting, notice_exits};

/// Detection of `exit` by thread-locals: `exit` of glibc drops the thread-locals of its thread first, which marks the
/// end of the thread.
#[cfg(target_env = "gnu")]
mod by_destructors {
    #[cfg(target_feature = "crt-static")]
    unsafe extern "C" {
        /// Registers a destructor that `exit` also calls.
        fn __cxa_thread_atexit_impl(
            destructor: unsafe extern "C" fn(*mut std::ffi::c_void),
            value: *mut std::ffi::c_void,
            library: *mut std::ffi::c_void,
        ) -> std::ffi::c_int;
    }

    /// Makes a program that contains the whole C library contain the function by which the standard library registers
    /// destructors of thread-locals. The standard library has only a weak reference to the function, for which a linker
    /// does not take the function from an archive. The standard library would then use thread keys, which `exit` does
    /// not process.
    #[cfg(target_feature = "crt-static")]
    pub(crate) fn notice_exits() {
        std::hint::black_box(__cxa_thread_atexit_impl as *const ());
    }

    /// Does nothing: the destructors of thread-locals detect the exit.
    #[cfg(not(target_feature = "crt-static"))]
    pub(crate) fn notice_exits() {}

    /// Returns false, because the destructors of thread-locals detect the exit.
    pub(crate) fn is_exiting() -> bool {
        false
    }
}

/// Detection of `exit` by a handler: `exit` of other C libraries drops no thread-locals, so an exit handler records the
/// thread that called it.
#[cfg(not(target_env = "gnu"))]
mod by_handler {
    use std::cell::Cell;

    thread_local! {
        // Without a destructor: read by exit handlers.
        static IS_EXITING: Cell<bool> = const { Cell::new(false) };
    }

    extern "C" fn note() {
        IS_EXITING.set(true);
    }

    /// Registers a handler for `exit`, which is called before the handlers that were registered earlier.
    pub(crate) fn notice_exits() {
        // SAFETY: the function has the C calling convention, does not unwind, and lives for ever.
        let refused = unsafe { libc::atexit(note) };
        // It fails only for lack of memory. Without it a handler that sleeps in a callback ends the process.
        debug_assert_eq!(refused, 0);
    }

    /// Returns true in the exit handlers that are called after the handler that [`notice_exits`] registered.
    pub(crate) fn is_exiting() -> bool {
        IS_EXITING.get()
    }
}

/// Returns how often the calling thread gave its CPU up, because it slept or waited for something. `None` if the kernel
/// does not provide the count.
pub(crate) fn times_given_up() -> Option<c_long> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the structure lives as long as the call, which writes it.
    let refused = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: the call did not refuse, so it wrote all of the structure.
    (refused == 0).then(|| unsafe { usage.assume_init() }.ru_nvcsw)
}

/// Sleeps for `time`. Sleeps for a shorter time if the kernel refuses to let threads sleep; the standard library would
/// panic then.
pub(crate) fn nap(time: Duration) {
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

/// Registers handlers for each fork. The forking thread calls `prepare` before the fork and `parent` after it; the
/// child calls `child`. The latter two are called before the handlers of callers that register later. No handler may
/// unwind.
pub(crate) fn around_forks(
    prepare: extern "C" fn(),
    parent: Option<unsafe extern "C" fn()>,
    child: extern "C" fn(),
) {
    // SAFETY: the functions have the C calling convention, do not unwind, and live for ever.
    let refused = unsafe { libc::pthread_atfork(Some(prepare), parent, Some(child)) };
    // It fails only for lack of memory. Without the handlers a fork is as dangerous as with any other library.
    debug_assert_eq!(refused, 0);
}

/// Returns the number of the CPU that executes the calling thread; `None` if the kernel refuses the call.
pub(crate) fn cpu() -> Option<u32> {
    // SAFETY: it has no preconditions.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Returns the kernel's number of the calling thread; `None` if the kernel refuses the call.
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

/// Keeps the calling thread on `cpus`.
pub(crate) fn pin(cpus: impl IntoIterator<Item = u32>) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        let cpu = cpu as usize;
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::Unsupported.into());
        }
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Gives the calling thread a priority of `SCHED_FIFO`, or removes the priority. Threads that the calling thread starts
/// get no such priority.
pub(crate) fn set_realtime_priority(priority: Option<u8>) -> io::Result<()> {
    let policy = match priority {
        Some(_) => libc::SCHED_FIFO,
        None => libc::SCHED_OTHER,
    };
    // SAFETY: plain data of which all zeroes is a value; it has more fields with some C libraries.
    let mut parameters: libc::sched_param = unsafe { MaybeUninit::zeroed().assume_init() };
    parameters.sched_priority = priority.unwrap_or(0).into();
    // SAFETY: the parameters live until the call returns.
    match unsafe {
        libc::sched_setscheduler(0, policy | libc::SCHED_RESET_ON_FORK, &raw const parameters)
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the highest real-time priority that an ordinary process may give its threads; `None` if there is no limit.
pub(crate) fn realtime_limit() -> Option<u64> {
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: the structure lives as long as the call, which writes it.
    let refused = unsafe { libc::getrlimit(libc::RLIMIT_RTPRIO, limit.as_mut_ptr()) };
    // SAFETY: the call did not refuse, so it wrote all of the structure.
    let limit = (refused == 0).then(|| unsafe { limit.assume_init() }.rlim_cur);
    #[allow(
        clippy::useless_conversion,
        clippy::allow_attributes,
        reason = "the field is shorter on 32 bits"
    )]
    limit
        .filter(|limit| *limit != libc::RLIM_INFINITY)
        .map(u64::from)
}

/// Returns a function that says on which CPUs the calling thread may run; `None` if the kernel refuses the call.
pub(crate) fn allowed_cpus() -> Option<impl Fn(u32) -> bool> {
    let allowed = sched_getaffinity(None).ok()?;
    Some(move |cpu: u32| {
        let cpu = cpu as usize;
        cpu < CpuSet::MAX_CPU && allowed.is_set(cpu)
    })
}

/// The kernel's account of the time that a thread waited for a CPU.
#[derive(Debug)]
pub(crate) struct WaitAccount {
    /// The file `/proc/thread-self/schedstat`.
    schedstat: File,
}

impl WaitAccount {
    /// Opens the account of the calling thread; `None` if the kernel keeps no account.
    pub(crate) fn open() -> Option<Self> {
        let schedstat = File::open("/proc/thread-self/schedstat").ok()?;
        Some(Self { schedstat })
    }

    /// Returns the time for which the thread waited, in nanoseconds.
    pub(crate) fn waited(&self) -> Option<u64> {
        let mut text = [0; 64];
        let length = self.schedstat.read_at(&mut text, 0).ok()?;
        second_number(text.get(..length)?)
    }
}

/// Returns the second of the numbers in `text`, which are separated by spaces.
fn second_number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_keeps_an_account_of_waiting() {
        assert_eq!(second_number(b"273698 79469 1\n"), Some(79_469));
        assert_eq!(second_number(b"273698"), None);
        assert_eq!(second_number(b""), None);
        assert_eq!(second_number(b"1 x 2"), None);
        assert_eq!(second_number(&[0xff, b' ', b'1']), None);
    }
}

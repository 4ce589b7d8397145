//! The notifications of a timer: the request given to `create`, and the start of threads.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use tickless::hrtimer::Clock;

use crate::errno::Errno;
use crate::main_thread;
use crate::posix::system::{Target, is_own_thread};
use crate::posix::table::{How, Settings};

/// A `struct sigevent` with all fields that the manual page names.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct SigEvent {
    value: usize,
    signal: c_int,
    notify: c_int,
    /// The number of a thread, in one half of the word, or the address of a function.
    function: usize,
    attributes: *const libc::pthread_attr_t,
}

const _: () = assert!(size_of::<SigEvent>() <= size_of::<libc::sigevent>());

/// Returns the settings that `event` describes; `EINVAL` if its signal, thread or way of notification does not exist.
///
/// # Safety
///
/// `event` is null, or a structure that may be read, with the fields that its way of notification needs.
pub(super) unsafe fn settings(
    clock: Clock,
    event: *const libc::sigevent,
) -> Result<Settings, Errno> {
    let event = event.cast::<SigEvent>();
    if event.is_null() {
        return Ok(Settings::new(clock, How::Signal));
    }
    // SAFETY: the caller says so.
    let event = unsafe { event.read_unaligned() };
    let mut settings = match event.notify {
        libc::SIGEV_NONE => Settings::new(clock, How::Nothing),
        libc::SIGEV_SIGNAL | libc::SIGEV_THREAD_ID => Settings::new(clock, How::Signal),
        libc::SIGEV_THREAD => Settings::new(clock, How::Thread),
        _ => return Err(Errno::INVAL),
    };
    settings.value = Some(event.value);
    settings.signal = event.signal;
    if settings.how == How::Signal && !(1..=libc::SIGRTMAX()).contains(&event.signal) {
        return Err(Errno::INVAL);
    }
    if event.notify == libc::SIGEV_THREAD_ID {
        // The lower half, in the order of bytes of this machine.
        let [a, b, c, d, ..] = event.function.to_ne_bytes();
        let thread = c_int::from_ne_bytes([a, b, c, d]);
        if thread <= 0 || !is_own_thread(thread) {
            return Err(Errno::INVAL);
        }
        settings.target = Target::Thread(thread);
    }
    if settings.how == How::Thread {
        if event.function == 0 {
            return Err(Errno::INVAL);
        }
        main_thread::note_threads();
        settings.function = event.function;
        // SAFETY: the caller says so.
        settings.attributes = unsafe { copy(event.attributes) };
    }
    Ok(settings)
}

/// Copies the attributes of a thread, because the caller may destroy its own. Threads with the copied attributes are
/// detached.
///
/// # Safety
///
/// `attributes` is null or initialised.
unsafe fn copy(attributes: *const libc::pthread_attr_t) -> usize {
    let mut own = Box::new(MaybeUninit::<libc::pthread_attr_t>::uninit());
    let to = own.as_mut_ptr();
    // SAFETY: it writes all of it.
    unsafe { libc::pthread_attr_init(to) };
    // SAFETY: initialised.
    unsafe { libc::pthread_attr_setdetachstate(to, libc::PTHREAD_CREATE_DETACHED) };
    if !attributes.is_null() {
        let mut size = 0;
        // SAFETY: both are initialised.
        if unsafe { libc::pthread_attr_getstacksize(attributes, &raw mut size) } == 0 {
            // SAFETY: as above.
            unsafe { libc::pthread_attr_setstacksize(to, size) };
        }
        // SAFETY: as above.
        if unsafe { libc::pthread_attr_getguardsize(attributes, &raw mut size) } == 0 {
            // SAFETY: as above.
            unsafe { libc::pthread_attr_setguardsize(to, size) };
        }
        let (mut inherit, mut policy) = (0, 0);
        // SAFETY: as above.
        if unsafe { libc::pthread_attr_getinheritsched(attributes, &raw mut inherit) } == 0 {
            // SAFETY: as above.
            unsafe { libc::pthread_attr_setinheritsched(to, inherit) };
        }
        // SAFETY: as above.
        if unsafe { libc::pthread_attr_getschedpolicy(attributes, &raw mut policy) } == 0 {
            // SAFETY: as above.
            unsafe { libc::pthread_attr_setschedpolicy(to, policy) };
        }
        let mut parameter = libc::sched_param { sched_priority: 0 };
        // SAFETY: as above.
        if unsafe { libc::pthread_attr_getschedparam(attributes, &raw mut parameter) } == 0 {
            // SAFETY: as above.
            unsafe { libc::pthread_attr_setschedparam(to, &raw const parameter) };
        }
    }
    Box::into_raw(own).expose_provenance()
}

/// Frees the attributes that [`settings`] copied.
///
/// # Safety
///
/// `attributes` is zero, or comes from `settings` and is freed only once.
pub(super) unsafe fn free(attributes: usize) {
    if attributes == 0 {
        return;
    }
    let own =
        std::ptr::with_exposed_provenance_mut::<MaybeUninit<libc::pthread_attr_t>>(attributes);
    // SAFETY: made by `Box::into_raw` in `copy`, as the caller says.
    let mut own = unsafe { Box::from_raw(own) };
    // SAFETY: initialised there.
    unsafe { libc::pthread_attr_destroy(own.as_mut_ptr()) };
}

/// A function of the user, and its argument.
#[derive(Clone, Copy)]
struct Call {
    function: unsafe extern "C-unwind" fn(usize),
    value: usize,
}

unsafe extern "C-unwind" {
    /// Starts a thread. Its function may end the thread by `pthread_exit`, which unwinds.
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        start: unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
}

/// Runs as the first function of a thread that a notification starts. Its stack frame has no value that must be dropped
/// when the thread ends.
///
/// # Safety
///
/// `call` comes from [`start`], which made it for this thread.
unsafe extern "C-unwind" fn begin(call: *mut c_void) -> *mut c_void {
    // SAFETY: made by `Box::into_raw` in `start`, for this thread.
    let Call { function, value } = *unsafe { Box::from_raw(call.cast::<Call>()) };
    // SAFETY: the caller of `create` promised that it can be called with this.
    unsafe { function(value) };
    std::ptr::null_mut()
}

/// Starts a thread that calls `function` with `value`. Returns false if the system cannot start another thread. Like
/// the caller, the new thread blocks all signals.
///
/// # Safety
///
/// `function` is a C function that takes a `union sigval`, and `attributes` comes from [`settings`].
pub(super) unsafe fn start(function: usize, value: usize, attributes: usize) -> bool {
    // SAFETY: the caller says so. A union that holds a pointer is passed as one.
    let function =
        unsafe { std::mem::transmute::<usize, unsafe extern "C-unwind" fn(usize)>(function) };
    let call = Box::into_raw(Box::new(Call { function, value }));
    let attributes = std::ptr::with_exposed_provenance::<libc::pthread_attr_t>(attributes);
    let mut thread = MaybeUninit::uninit();
    // SAFETY: the attributes are null or initialised, and `begin` takes what it is given.
    let error = unsafe { pthread_create(thread.as_mut_ptr(), attributes, begin, call.cast()) };
    if error != 0 {
        // SAFETY: made above, and given to none.
        drop(unsafe { Box::from_raw(call) });
    }
    error == 0
}

//! A library for `LD_PRELOAD` that moves the POSIX timers of an unmodified program to Tickless.
//!
//! The functions of this library have the names of the C library's functions, so the dynamic linker finds them first.
//! The timers are implemented by `tickless_capi::posix`. Calls for the clocks that it lacks, the clocks of processor
//! time and of alarms, are forwarded to the C library; the ids of timers distinguish both kinds. Sleeps are forwarded,
//! too, with another timer slack during the call. `docs/capi.md` says what is not replaced, and who gains.
//!
//! # Ground rules
//!
//! - `timer_settime`, `timer_gettime`, `timer_getoverrun` and the sleeps may be called in signal handlers: the C
//!   library's functions are looked up when this library is loaded, not when they are first called.
//! - **Next**: an address in `Next` is zero, or the address of the C library's function of that name.
#![expect(unsafe_code, reason = "C passes pointers (docs/capi.md)")]

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};

use tickless_capi::posix::{
    ID_TAG, TimerId, sleep_exactly, tickless_timer_create, tickless_timer_delete,
    tickless_timer_getoverrun, tickless_timer_gettime, tickless_timer_settime,
};

/// The address of the C library's function that a function of this library replaces.
#[derive(Debug)]
struct Next {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicUsize::new(0),
        }
    }

    fn look_up(&self) {
        // SAFETY: a string of C.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr().cast::<c_char>()) };
        // Relaxed: written before `main`, and the same each time.
        self.address
            .store(found.expose_provenance(), Ordering::Relaxed);
    }

    /// Returns the address, or none if the C library has no such function.
    fn get(&self) -> Option<usize> {
        // Relaxed: as above.
        match self.address.load(Ordering::Relaxed) {
            0 => {
                // Another library's constructor was first.
                self.look_up();
                Some(self.address.load(Ordering::Relaxed)).filter(|address| *address != 0)
            }
            address => Some(address),
        }
    }
}

static CREATE: Next = Next::new(c"timer_create");
static SETTIME: Next = Next::new(c"timer_settime");
static GETTIME: Next = Next::new(c"timer_gettime");
static GETOVERRUN: Next = Next::new(c"timer_getoverrun");
static DELETE: Next = Next::new(c"timer_delete");
static CLOCK_NANOSLEEP: Next = Next::new(c"clock_nanosleep");
static NANOSLEEP: Next = Next::new(c"nanosleep");
static USLEEP: Next = Next::new(c"usleep");

/// Looks all functions up when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;

extern "C" fn loaded() {
    let all = [
        &CREATE,
        &SETTIME,
        &GETTIME,
        &GETOVERRUN,
        &DELETE,
        &CLOCK_NANOSLEEP,
        &NANOSLEEP,
        &USLEEP,
    ];
    for next in all {
        next.look_up();
    }
    tickless_capi::main_thread::notice_end();
}

/// Calls the C library's function of this name, or fails with `ENOSYS` if the C library has none.
///
/// SAFETY of all uses: invariant Next, and the type is that of the function of this name.
macro_rules! next {
    ($next:ident as $function:ty, $($argument:expr),*) => {
        match $next.get() {
            Some(address) => {
                // SAFETY: next.
                let function = unsafe { std::mem::transmute::<usize, $function>(address) };
                // SAFETY: the caller's arguments, for the function that it called.
                unsafe { function($($argument),*) }
            }
            None => failed(libc::ENOSYS),
        }
    };
}

fn failed(error: c_int) -> c_int {
    // SAFETY: the thread's own.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { place.write(error) };
    -1
}

/// Converts a result of Tickless to the result of a POSIX function.
fn answered(answer: c_int) -> c_int {
    if answer < 0 { failed(-answer) } else { answer }
}

/// The bits of a `timer_t`.
type Id = usize;

/// Returns the Tickless timer that `id` names, if it names one. The ids of the C library are small numbers, or negative
/// as signed numbers.
fn own(id: Id) -> Option<TimerId> {
    let id = id as TimerId;
    (id & (0xf << 60) == ID_TAG).then_some(id)
}

type Create = unsafe extern "C" fn(libc::clockid_t, *mut libc::sigevent, *mut Id) -> c_int;
type SetTime =
    unsafe extern "C" fn(Id, c_int, *const libc::itimerspec, *mut libc::itimerspec) -> c_int;
type GetTime = unsafe extern "C" fn(Id, *mut libc::itimerspec) -> c_int;
type OfTimer = unsafe extern "C" fn(Id) -> c_int;
// Threads may be cancelled in sleeps, which unwinds.
type ClockSleep = unsafe extern "C-unwind" fn(
    libc::clockid_t,
    c_int,
    *const libc::timespec,
    *mut libc::timespec,
) -> c_int;
type Sleep = unsafe extern "C-unwind" fn(*const libc::timespec, *mut libc::timespec) -> c_int;
type ShortSleep = unsafe extern "C-unwind" fn(libc::useconds_t) -> c_int;

/// Replaces `timer_create` of POSIX.
///
/// # Safety
///
/// The caller keeps the contract of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_create(
    clock: libc::clockid_t,
    event: *mut libc::sigevent,
    made: *mut Id,
) -> c_int {
    // SAFETY: the caller says so; both ids have 64 bits.
    match unsafe { tickless_timer_create(clock, event, made.cast::<TimerId>()) } {
        answer if answer == -libc::ENOTSUP => next!(CREATE as Create, clock, event, made),
        answer => answered(answer),
    }
}

/// Replaces `timer_settime` of POSIX.
///
/// # Safety
///
/// The caller keeps the contract of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_settime(
    id: Id,
    flags: c_int,
    value: *const libc::itimerspec,
    former: *mut libc::itimerspec,
) -> c_int {
    match own(id) {
        // SAFETY: the caller says so.
        Some(id) => answered(unsafe { tickless_timer_settime(id, flags, value, former) }),
        None => next!(SETTIME as SetTime, id, flags, value, former),
    }
}

/// Replaces `timer_gettime` of POSIX.
///
/// # Safety
///
/// The caller keeps the contract of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_gettime(id: Id, value: *mut libc::itimerspec) -> c_int {
    match own(id) {
        // SAFETY: the caller says so.
        Some(id) => answered(unsafe { tickless_timer_gettime(id, value) }),
        None => next!(GETTIME as GetTime, id, value),
    }
}

/// Replaces `timer_getoverrun` of POSIX.
///
/// # Safety
///
/// The caller keeps the contract of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_getoverrun(id: Id) -> c_int {
    match own(id) {
        Some(id) => answered(tickless_timer_getoverrun(id)),
        None => next!(GETOVERRUN as OfTimer, id),
    }
}

/// Replaces `timer_delete` of POSIX.
///
/// # Safety
///
/// The caller keeps the contract of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_delete(id: Id) -> c_int {
    match own(id) {
        Some(id) => answered(tickless_timer_delete(id)),
        None => next!(DELETE as OfTimer, id),
    }
}

/// Returns the nanoseconds of a duration; `None` if it is not valid.
///
/// # Safety
///
/// `request` is null, or may be read.
unsafe fn nanos(request: *const libc::timespec) -> Option<u64> {
    // SAFETY: the caller says so.
    let request = unsafe { request.as_ref() }?;
    let seconds = u64::try_from(request.tv_sec).ok()?;
    Some(
        seconds
            .saturating_mul(1_000_000_000)
            .saturating_add(u64::try_from(request.tv_nsec).ok()?),
    )
}

/// Replaces `clock_nanosleep` of POSIX.
///
/// # Safety
///
/// The caller keeps the contract of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn clock_nanosleep(
    clock: libc::clockid_t,
    flags: c_int,
    request: *const libc::timespec,
    remain: *mut libc::timespec,
) -> c_int {
    let duration = match flags & libc::TIMER_ABSTIME {
        // SAFETY: the caller says so.
        0 => unsafe { nanos(request) },
        _ => None,
    };
    sleep_exactly(duration, || {
        next!(CLOCK_NANOSLEEP as ClockSleep, clock, flags, request, remain)
    })
}

/// Replaces `nanosleep` of POSIX.
///
/// # Safety
///
/// The caller keeps the contract of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn nanosleep(
    request: *const libc::timespec,
    remain: *mut libc::timespec,
) -> c_int {
    // SAFETY: the caller says so.
    let duration = unsafe { nanos(request) };
    sleep_exactly(duration, || next!(NANOSLEEP as Sleep, request, remain))
}

/// Replaces `usleep` of the C library.
///
/// # Safety
///
/// The caller keeps the contract of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn usleep(micros: libc::useconds_t) -> c_int {
    let duration = Some(u64::from(micros) * 1000);
    sleep_exactly(duration, || next!(USLEEP as ShortSleep, micros))
}

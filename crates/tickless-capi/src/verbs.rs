//! The functions for C structures of either kind, exact or coarse: their initialisation and destruction, the check that
//! a pointer from C is a timer of this thread, and what is done with it.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use tickless::hrtimer::Clock;

use crate::clock::{after, deadline, put, shown, span};
use crate::errno::{Errno, answer};
use crate::place::{AtWork, ThreadPlace, expired};
use crate::structure::{Delay, Operations, RawCallback, State, Structure, magic_at};

/// The memory of a structure, of the kind with this constant.
pub(crate) trait Memory {
    const MAGIC: u64;
}

/// A structure with its timer.
#[repr(C)]
struct Whole<T> {
    structure: Structure,
    timer: T,
}

/// The address of a structure, which the closure of a timer keeps for its thread.
struct Address(*const Structure);

// SAFETY: it is followed on the thread of its place alone, see `expired`.
unsafe impl Send for Address {}

/// The data that a timer's closure uses to report its expiry.
pub(crate) struct Alarm {
    address: Address,
    number: u64,
}

impl Alarm {
    pub(crate) fn ring(&self) {
        // SAFETY: the timer that calls this stands in the structure.
        unsafe { expired(self.address.0, self.number) };
    }
}

/// The parameters of a structure's initialisation.
pub(crate) struct Wanted {
    pub(crate) callback: RawCallback,
    pub(crate) argument: *mut c_void,
    pub(crate) slack: u64,
    pub(crate) clock: Clock,
}

/// Initialises the structure at `pointer` with the timer that `make` makes.
///
/// # Safety
///
/// `pointer` is null, or the memory of a whole `S` that may be written.
pub(crate) unsafe fn initialise<S: Memory, T: Operations + 'static>(
    pointer: *mut S,
    wanted: &Wanted,
    make: impl FnOnce(Alarm) -> T,
) -> Result<c_int, Errno> {
    const {
        assert!(size_of::<Whole<T>>() <= size_of::<S>());
        assert!(align_of::<Whole<T>>() <= align_of::<S>());
    }
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(Errno::INVAL);
    }
    let at_work = AtWork::begin()?;
    let place = at_work.here()?;
    let magic = magic_at(S::MAGIC, pointer.expose_provenance());
    place.admit(pointer.addr(), magic)?;
    let whole = pointer.cast::<Whole<T>>();
    // SAFETY: in the bounds of the structure, as asserted above.
    let timer = unsafe { &raw mut (*whole).timer };
    let structure = Structure {
        callback: wanted.callback,
        argument: wanted.argument,
        previous: Cell::new(ptr::null()),
        next: Cell::new(ptr::null()),
        magic: AtomicU64::new(magic),
        place: AtomicU64::new(place.number),
        timer: timer as *mut dyn Operations,
        deadline: Cell::new(0),
        delay: Cell::new(None),
        slack: Cell::new(wanted.slack),
        state: Cell::new(State::Idle),
        clock: wanted.clock,
    };
    let alarm = Alarm {
        address: Address(whole.cast()),
        number: place.number,
    };
    let timer = make(alarm);
    // SAFETY: neither null nor misaligned, and large enough; the caller says the rest.
    unsafe { whole.write(Whole { structure, timer }) };
    Ok(0)
}

/// A timer of this thread, for as long as the call is at work.
pub(crate) struct Found<'a> {
    pub(crate) structure: &'a Structure,
    pub(crate) place: &'static ThreadPlace,
    _at_work: AtWork<'a>,
}

/// Marks this thread, and finds the structure at `pointer`.
///
/// # Safety
///
/// `pointer` is null, or the memory of a whole `S` that may be read.
#[inline(always)]
pub(crate) unsafe fn find<'a, S: Memory>(pointer: *const S) -> Result<Found<'a>, Errno> {
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(Errno::INVAL);
    }
    // Before any look: a signal handler must not destroy what was seen.
    let at_work = AtWork::begin()?;
    let structure = pointer.cast::<Structure>();
    // SAFETY: of the structure, as all below.
    let magic = unsafe { &(*structure).magic };
    // Relaxed: pairs with nothing. The thread of the timer wrote it itself, and others look no further.
    if magic.load(Ordering::Relaxed) != magic_at(S::MAGIC, pointer.addr()) {
        return Err(Errno::INVAL);
    }
    // SAFETY: as above.
    let number = unsafe { &(*structure).place };
    let place = at_work.here()?;
    // Relaxed: as above.
    if number.load(Ordering::Relaxed) != place.number {
        return Err(Errno::PERM);
    }
    // SAFETY: magic, and this is its thread.
    let structure = unsafe { &*structure };
    Ok(Found {
        structure,
        place,
        _at_work: at_work,
    })
}

/// Finds the structure at `pointer`, calls a function with it and its place, and returns the result as a C function
/// does.
///
/// # Safety
///
/// As [`find`].
pub(crate) unsafe fn with<S: Memory>(
    pointer: *const S,
    call: impl FnOnce(&Structure, &ThreadPlace) -> Result<c_int, Errno>,
) -> c_int {
    answer(|| {
        // SAFETY: the caller says so.
        let found = unsafe { find(pointer) }?;
        call(found.structure, found.place)
    })
}

/// Cancels the timer at `pointer`, and destroys its structure.
///
/// # Safety
///
/// As [`find`].
pub(crate) unsafe fn destroy<S: Memory>(pointer: *const S) -> c_int {
    answer(|| {
        // SAFETY: the caller says so.
        let found = unsafe { find(pointer) }?;
        let structure = found.structure;
        found.place.dismiss(structure);
        // Relaxed: as in `find`.
        structure.magic.store(0, Ordering::Relaxed);
        let timer = structure.timer;
        // SAFETY: magic, until the line before: the timer is initialised, and is dropped once. It is idle.
        unsafe { ptr::drop_in_place(timer) };
        Ok(0)
    })
}

#[inline(always)]
pub(crate) fn start(
    structure: &Structure,
    place: &ThreadPlace,
    delay: u64,
) -> Result<c_int, Errno> {
    // The time of day may be set at any time, so a delay means nothing on it.
    if structure.clock == Clock::Realtime {
        return Err(Errno::INVAL);
    }
    let delay = span(delay)?;
    let deadline = after(shown(structure.clock), delay)?;
    structure.delay.set(Some(Delay::new(delay)));
    Ok(c_int::from(place.start(structure, deadline)))
}

#[inline(always)]
pub(crate) fn start_at(
    structure: &Structure,
    place: &ThreadPlace,
    at: u64,
) -> Result<c_int, Errno> {
    let deadline = deadline(at)?;
    structure.delay.set(None);
    Ok(c_int::from(place.start(structure, deadline)))
}

pub(crate) fn restart(structure: &Structure, place: &ThreadPlace) -> Result<c_int, Errno> {
    start(
        structure,
        place,
        structure.delay.get().ok_or(Errno::INVAL)?.nanos(),
    )
}

/// Starts the timer at `pointer` for the first time in the future that is whole intervals after its last deadline.
/// Writes the number of intervals that have passed.
///
/// # Safety
///
/// `pointer` is null, or the memory of a whole `S`; `passed` is null, or may be written.
pub(crate) unsafe fn forward<S: Memory>(
    pointer: *const S,
    interval: u64,
    passed: *mut u64,
) -> c_int {
    answer(|| {
        // SAFETY: the caller says so.
        let found = unsafe { find(pointer) }?;
        let count = start_ahead(found.structure, found.place, interval)?;
        if passed.is_null() {
            return Ok(0);
        }
        // SAFETY: the caller says so.
        unsafe { put(passed, count) }
    })
}

/// Writes the deadline of the timer at `pointer`.
///
/// # Safety
///
/// `pointer` is null, or the memory of a whole `S`; `at` is null, or may be written.
pub(crate) unsafe fn expires<S: Memory>(pointer: *const S, at: *mut u64) -> c_int {
    answer(|| {
        // SAFETY: the caller says so.
        let found = unsafe { find(pointer) }?;
        // SAFETY: the caller says so.
        unsafe { put(at, found.structure.deadline.get()) }
    })
}

/// Starts the timer for the first time in the future that is whole intervals after its last deadline. Returns the
/// number of intervals that have passed.
fn start_ahead(structure: &Structure, place: &ThreadPlace, interval: u64) -> Result<u64, Errno> {
    let interval = span(interval)?;
    if interval == 0 {
        return Err(Errno::INVAL);
    }
    if structure.state.get() != State::Idle {
        return Err(Errno::BUSY);
    }
    let (last, now) = (structure.deadline.get(), shown(structure.clock));
    let passed = now.saturating_sub(last) / interval;
    let intervals = passed.checked_add(1).ok_or(Errno::OVERFLOW)?;
    let ahead = interval.checked_mul(intervals).ok_or(Errno::OVERFLOW)?;
    let deadline = after(last, ahead)?;
    place.start(structure, deadline);
    Ok(passed)
}

#[inline(always)]
pub(crate) fn cancel(structure: &Structure, place: &ThreadPlace) -> c_int {
    c_int::from(place.take_back(structure))
}

pub(crate) fn try_cancel(structure: &Structure, place: &ThreadPlace) -> Result<c_int, Errno> {
    if place.is_running(structure) {
        return Err(Errno::BUSY);
    }
    Ok(cancel(structure, place))
}

pub(crate) fn cancel_sync(structure: &Structure, place: &ThreadPlace) -> Result<c_int, Errno> {
    if place.is_running(structure) {
        return Err(Errno::DEADLK);
    }
    Ok(cancel(structure, place))
}

pub(crate) fn pending(structure: &Structure) -> c_int {
    c_int::from(structure.state.get() != State::Idle)
}

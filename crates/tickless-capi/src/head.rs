//! The beginning of both structures: how a pointer from C is known to be one of this thread's timers.
//!
//! # Invariant
//!
//! **Magic**: a structure whose magic word is the constant of its kind mixed with its own address was initialised
//! there, and was not destroyed since. What was copied, moved, or never initialised has another one.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::errno::{Errno, answer};
use crate::operations::Operations;
use crate::place::{Place, RawCallback, State, here};

/// What both kinds of timers begin with.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Head {
    /// Which kind this is, and where.
    magic: AtomicU64,
    /// The number of the place that it belongs to.
    place: AtomicU64,
    operations: *mut dyn Operations,
    callback: RawCallback,
    argument: *mut c_void,
    pub(crate) state: Cell<State>,
    /// The neighbours in the list of what is due; without meaning for others.
    pub(crate) previous: Cell<*const Head>,
    pub(crate) next: Cell<*const Head>,
    /// For when it was started last.
    pub(crate) deadline: Cell<u64>,
    /// How long after that it was, if it was started by a delay.
    pub(crate) delay: Cell<Option<u64>>,
    pub(crate) slack: Cell<u64>,
    /// The clock that a delay counts from; none for those that delays mean nothing on.
    pub(crate) clock: tickless::hrtimer::Clock,
}

/// A structure of C: a head, and a timer behind it.
#[repr(C)]
struct Body<T> {
    head: Head,
    timer: T,
}

/// What a structure is for C.
pub(crate) trait Structure {
    const MAGIC: u64;
}

fn magic_at(magic: u64, address: usize) -> u64 {
    magic ^ (address as u64).rotate_left(20)
}

impl Head {
    pub(crate) fn operations(&self) -> Pin<&dyn Operations> {
        // SAFETY: magic: it points to the timer of this structure, which stands until that is destroyed.
        let operations = unsafe { &*self.operations };
        // SAFETY: what was moved has another magic word, and `destroy` drops it where it stands.
        unsafe { Pin::new_unchecked(operations) }
    }

    /// What to call, with what.
    pub(crate) fn call(&self) -> (RawCallback, *mut c_void, *mut c_void) {
        let structure = ptr::from_ref(self).cast_mut().cast();
        (self.callback, structure, self.argument)
    }
}

/// The address that a timer's closure has, for its thread.
struct Address(*const Head);

// SAFETY: it is followed on the thread of its place alone, see `expired`.
unsafe impl Send for Address {}

/// What becomes of a timer: told from its closure.
pub(crate) struct Alarm {
    address: Address,
    number: u64,
}

impl Alarm {
    pub(crate) fn ring(&self) {
        // SAFETY: the timer that calls this stands in the structure.
        unsafe { crate::place::expired(self.address.0, self.number) };
    }
}

/// How a structure is to be initialised.
pub(crate) struct Wanted {
    pub(crate) callback: RawCallback,
    pub(crate) argument: *mut c_void,
    pub(crate) slack: u64,
    pub(crate) clock: tickless::hrtimer::Clock,
}

/// Initialises the structure at `pointer` with the timer that `make` makes.
///
/// # Safety
///
/// `pointer` is null, or the memory of a whole `S` that may be written.
pub(crate) unsafe fn initialise<S: Structure, T: Operations + 'static>(
    pointer: *mut S,
    wanted: &Wanted,
    make: impl FnOnce(Alarm) -> T,
) -> Result<c_int, Errno> {
    const {
        assert!(size_of::<Body<T>>() <= size_of::<S>());
        assert!(align_of::<Body<T>>() <= align_of::<S>());
    }
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(Errno::INVAL);
    }
    let place = here()?;
    let magic = magic_at(S::MAGIC, pointer.expose_provenance());
    place.admit(pointer.addr(), magic)?;
    let body = pointer.cast::<MaybeUninit<Body<T>>>().cast::<Body<T>>();
    // SAFETY: in the bounds of the structure, as asserted above.
    let timer = unsafe { &raw mut (*body).timer };
    let head = Head {
        magic: AtomicU64::new(magic),
        place: AtomicU64::new(place.number),
        operations: timer as *mut dyn Operations,
        callback: wanted.callback,
        argument: wanted.argument,
        state: Cell::new(State::Idle),
        previous: Cell::new(ptr::null()),
        next: Cell::new(ptr::null()),
        deadline: Cell::new(0),
        delay: Cell::new(None),
        slack: Cell::new(wanted.slack),
        clock: wanted.clock,
    };
    let alarm = Alarm {
        address: Address(body.cast()),
        number: place.number,
    };
    let timer = make(alarm);
    // SAFETY: neither null nor misaligned, and large enough; the caller says the rest.
    unsafe { body.write(Body { head, timer }) };
    Ok(0)
}

/// The head of the structure at `pointer`, and the place of this thread, to which it belongs.
///
/// # Safety
///
/// `pointer` is null, or the memory of a whole `S` that may be read.
pub(crate) unsafe fn find<'a, S: Structure>(
    pointer: *const S,
) -> Result<(&'a Head, &'static Place), Errno> {
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(Errno::INVAL);
    }
    let words = pointer.cast::<AtomicU64>();
    // SAFETY: the first word of the structure.
    let magic = unsafe { &*words };
    // Relaxed: pairs with nothing. The thread of the timer wrote it itself, and others look no further.
    if magic.load(Ordering::Relaxed) != magic_at(S::MAGIC, pointer.addr()) {
        return Err(Errno::INVAL);
    }
    // SAFETY: the second word of the structure.
    let number = unsafe { words.add(1) };
    // SAFETY: as above.
    let number = unsafe { &*number };
    let place = here()?;
    // Relaxed: as above.
    if number.load(Ordering::Relaxed) != place.number {
        return Err(Errno::PERM);
    }
    // SAFETY: magic, and this is its thread.
    let head = unsafe { &*pointer.cast::<Head>() };
    Ok((head, place))
}

/// Answers for the structure at `pointer`.
///
/// # Safety
///
/// As [`find`].
pub(crate) unsafe fn with<S: Structure>(
    pointer: *const S,
    call: impl FnOnce(&Head, &Place) -> Result<c_int, Errno>,
) -> c_int {
    answer(|| {
        // SAFETY: the caller says so.
        let (head, place) = unsafe { find(pointer) }?;
        call(head, place)
    })
}

/// Takes the timer at `pointer` back, and ends its structure.
///
/// # Safety
///
/// As [`find`].
pub(crate) unsafe fn destroy<S: Structure>(pointer: *const S) -> c_int {
    answer(|| {
        // SAFETY: the caller says so.
        let (head, place) = unsafe { find(pointer) }?;
        place.dismiss(head);
        // Relaxed: as in `find`.
        head.magic.store(0, Ordering::Relaxed);
        let operations = head.operations;
        // SAFETY: magic, until the line before: the timer is initialised, and is dropped once. It is idle.
        unsafe { ptr::drop_in_place(operations) };
        Ok(0)
    })
}

//! The initialisation and destruction of C structures, and the check that a pointer from C is a timer of this thread.
//!
//! # Invariant
//!
//! **Magic**: see [`head`](crate::head). `initialise` writes the magic word, and `destroy` removes it.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::errno::{Errno, answer};
use crate::head::{Head, RawCallback, State, Tail, Tails, magic_at};
use crate::operations::Operations;
use crate::place::{AtWork, ThreadPlace, expired};

/// A timer, followed by the data that it needs when it fires. The order matters, because the timer shares cache lines
/// with the head.
#[repr(C)]
struct Tailed<T> {
    timer: T,
    tail: Tail,
}

impl<T> Tailed<T> {
    fn timer(self: Pin<&Self>) -> Pin<&T> {
        // SAFETY: the timer moves no more than that which it stands in, and is dropped with it.
        unsafe { self.map_unchecked(|tailed| &tailed.timer) }
    }
}

impl<T: Operations> Operations for Tailed<T> {
    #[inline]
    fn start(self: Pin<&Self>, deadline: u64, slack: u64) {
        self.timer().start(deadline, slack);
    }

    #[inline]
    fn cancel(self: Pin<&Self>) {
        self.timer().cancel();
    }
}

impl<T: Operations> Tails for Tailed<T> {
    fn tail(&self) -> &Tail {
        &self.tail
    }
}

/// A structure of C: a head, followed by a timer.
#[repr(C)]
struct Body<T> {
    head: Head,
    timer: Tailed<T>,
}

/// A C structure that holds a timer.
pub(crate) trait Structure {
    const MAGIC: u64;
}

/// The address of a head, which the closure of a timer keeps for its thread.
struct Address(*const Head);

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
    let at_work = AtWork::begin()?;
    let place = at_work.here()?;
    let magic = magic_at(S::MAGIC, pointer.expose_provenance());
    place.admit(pointer.addr(), magic)?;
    let body = pointer.cast::<MaybeUninit<Body<T>>>().cast::<Body<T>>();
    // SAFETY: in the bounds of the structure, as asserted above.
    let timer = unsafe { &raw mut (*body).timer };
    let head = Head {
        magic: AtomicU64::new(magic),
        place: AtomicU64::new(place.number),
        operations: timer as *mut dyn Tails,
        deadline: Cell::new(0),
        delay: Cell::new(None),
        slack: Cell::new(wanted.slack),
        state: Cell::new(State::Idle),
        clock: wanted.clock,
    };
    let tail = Tail {
        callback: wanted.callback,
        argument: wanted.argument,
        previous: Cell::new(ptr::null()),
        next: Cell::new(ptr::null()),
    };
    let alarm = Alarm {
        address: Address(body.cast()),
        number: place.number,
    };
    let timer = Tailed {
        timer: make(alarm),
        tail,
    };
    // SAFETY: neither null nor misaligned, and large enough; the caller says the rest.
    unsafe { body.write(Body { head, timer }) };
    Ok(0)
}

/// A timer of this thread, for as long as the call is at work.
pub(crate) struct Found<'a> {
    pub(crate) head: &'a Head,
    pub(crate) place: &'static ThreadPlace,
    _at_work: AtWork<'a>,
}

/// Marks this thread, and finds the structure at `pointer`.
///
/// # Safety
///
/// `pointer` is null, or the memory of a whole `S` that may be read.
#[inline(always)]
pub(crate) unsafe fn find<'a, S: Structure>(pointer: *const S) -> Result<Found<'a>, Errno> {
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(Errno::INVAL);
    }
    // Before any look: a signal handler must not destroy what was seen.
    let at_work = AtWork::begin()?;
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
    let place = at_work.here()?;
    // Relaxed: as above.
    if number.load(Ordering::Relaxed) != place.number {
        return Err(Errno::PERM);
    }
    // SAFETY: magic, and this is its thread.
    let head = unsafe { &*pointer.cast::<Head>() };
    Ok(Found {
        head,
        place,
        _at_work: at_work,
    })
}

/// Finds the structure at `pointer`, calls a function with its head and place, and returns the result as a C function
/// does.
///
/// # Safety
///
/// As [`find`].
pub(crate) unsafe fn with<S: Structure>(
    pointer: *const S,
    call: impl FnOnce(&Head, &ThreadPlace) -> Result<c_int, Errno>,
) -> c_int {
    answer(|| {
        // SAFETY: the caller says so.
        let found = unsafe { find(pointer) }?;
        call(found.head, found.place)
    })
}

/// Cancels the timer at `pointer`, and destroys its structure.
///
/// # Safety
///
/// As [`find`].
pub(crate) unsafe fn destroy<S: Structure>(pointer: *const S) -> c_int {
    answer(|| {
        // SAFETY: the caller says so.
        let found = unsafe { find(pointer) }?;
        let head = found.head;
        found.place.dismiss(head);
        // Relaxed: as in `find`.
        head.magic.store(0, Ordering::Relaxed);
        let operations = head.operations;
        // SAFETY: magic, until the line before: the timer is initialised, and is dropped once. It is idle.
        unsafe { ptr::drop_in_place(operations) };
        Ok(0)
    })
}

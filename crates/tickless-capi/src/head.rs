//! The common first fields of the C structures of exact and coarse timers, which prove that a pointer from C is a timer
//! of the calling thread.
//!
//! # Invariant
//!
//! **Magic**: if the magic word of a structure is the constant of its kind mixed with its own address, the structure
//! was initialised at this address and was not destroyed afterwards. A structure that was copied, moved, or never
//! initialised has another word.

use std::cell::Cell;
use std::ffi::c_void;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::operations::Operations;

/// A callback of the C program, which gets one of the structures and its argument. If the callback throws an exception,
/// the call fails with an error or the process ends; the behaviour is not undefined.
pub(crate) type RawCallback = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void);

/// The state of a timer, from its start to its callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The timer is in no queue and in no list.
    Idle,
    /// The head is in a queue of the library.
    Queued,
    /// The head is in the list of due timers of its thread, and its callback will be called.
    Due,
}

/// The constants of the two kinds of structures.
pub(crate) const MAGIC_OF_TIMERS: u64 = 0x7469_636b_6c65_7373;
pub(crate) const MAGIC_OF_TIMEOUTS: u64 = 0x636f_6172_7365_7469;

/// Returns the magic word of a structure at `address`, of the kind with the constant `magic`.
pub(crate) fn magic_at(magic: u64, address: usize) -> u64 {
    magic ^ (address as u64).rotate_left(20)
}

/// The common head of both kinds of timers: the fields that a start touches, in one cache line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Head {
    /// The magic word, which depends on the kind and the address of the structure.
    pub(crate) magic: AtomicU64,
    /// The number of the [`ThreadPlace`](crate::place::ThreadPlace) to which the structure belongs.
    pub(crate) place: AtomicU64,
    pub(crate) operations: *mut dyn Tails,
    /// The deadline of the last start.
    pub(crate) deadline: Cell<u64>,
    /// The delay of the last start, if the timer was started with a delay.
    pub(crate) delay: Cell<Option<Delay>>,
    pub(crate) slack: Cell<u64>,
    pub(crate) state: Cell<State>,
    /// The clock on which a delay is measured. Delays on the time of day are refused, because that clock can be set.
    pub(crate) clock: tickless::hrtimer::Clock,
}

const _: () = assert!(size_of::<Head>() <= 64, "a line of memory");

/// A delay in nanoseconds. An `Option` of it needs no more memory than a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delay(NonZeroU64);

impl Delay {
    /// Creates the delay of `nanos` nanoseconds. `u64::MAX` becomes one less; no clock shows so long a time.
    pub(crate) fn new(nanos: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }

    pub(crate) fn nanos(self) -> u64 {
        self.0.get() - 1
    }
}

/// The fields that a timer needs only when it fires.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) callback: RawCallback,
    pub(crate) argument: *mut c_void,
    /// The neighbours in the list of due timers; not valid for a timer that is not in the list.
    pub(crate) previous: Cell<*const Head>,
    pub(crate) next: Cell<*const Head>,
}

/// A timer of an erased type, with access to its tail.
pub(crate) trait Tails: Operations {
    fn tail(&self) -> &Tail;
}

impl Head {
    /// Returns the head of the structure at `address`, unless its memory was overwritten since the place with the
    /// number `place` initialised it.
    ///
    /// # Safety
    ///
    /// A structure was initialised at `address`, and the memory may be read.
    pub(crate) unsafe fn still_at<'a>(address: usize, place: u64) -> Option<&'a Self> {
        let head: *const Self = ptr::with_exposed_provenance(address);
        // SAFETY: the caller says so.
        let magic = unsafe { &(*head).magic };
        // Relaxed, both: the thread wrote them itself.
        let magic = magic.load(Ordering::Relaxed);
        let kinds = [MAGIC_OF_TIMERS, MAGIC_OF_TIMEOUTS];
        if !kinds.iter().any(|kind| magic_at(*kind, address) == magic) {
            return None;
        }
        // SAFETY: magic.
        let head = unsafe { &*head };
        (head.place.load(Ordering::Relaxed) == place).then_some(head)
    }

    pub(crate) fn operations(&self) -> Pin<&dyn Tails> {
        // SAFETY: magic: it points to the timer of this structure, which stands until that is destroyed.
        let operations = unsafe { &*self.operations };
        // SAFETY: what was moved has another magic word, and `destroy` drops it where it stands.
        unsafe { Pin::new_unchecked(operations) }
    }

    pub(crate) fn tail(&self) -> &Tail {
        // SAFETY: magic: it points to the timer of this structure, which stands until that is destroyed.
        unsafe { &*self.operations }.tail()
    }

    /// Returns the callback, and its two arguments.
    pub(crate) fn call(&self) -> (RawCallback, *mut c_void, *mut c_void) {
        let structure = ptr::from_ref(self).cast_mut().cast();
        let Tail {
            callback, argument, ..
        } = *self.tail();
        (callback, structure, argument)
    }
}

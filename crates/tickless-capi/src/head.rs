//! The common first fields of the C structures of exact and coarse timers, which prove that a pointer from C is a timer
//! of the calling thread.
//!
//! # Invariant
//!
//! **Magic**: a structure whose magic word is the constant of its kind mixed with its own address was initialised
//! there, and was not destroyed since. A structure that was copied, moved, or never initialised has another word.

use std::cell::Cell;
use std::ffi::c_void;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::AtomicU64;

use crate::operations::Operations;

/// A function of the caller's, for one of the structures and its argument. An exception that it throws ends the call
/// with an error or the process, and is no undefined behaviour.
pub(crate) type RawCallback = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void);

/// State of a head's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The timer is in no queue and in no list.
    Idle,
    /// The head is in a queue of the library.
    Queued,
    /// The head is in the list of its place: its callback is to be called.
    Due,
}

/// Common head of both kinds of timers: the fields that a start touches, in one line of memory.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Head {
    /// Kind and place of the structure.
    pub(crate) magic: AtomicU64,
    /// The number of the place that it belongs to.
    pub(crate) place: AtomicU64,
    pub(crate) operations: *mut dyn Tails,
    /// Deadline of the last start.
    pub(crate) deadline: Cell<u64>,
    /// Delay of the last start, if it was started by one.
    pub(crate) delay: Cell<Option<Delay>>,
    pub(crate) slack: Cell<u64>,
    pub(crate) state: Cell<State>,
    /// The clock that a delay counts from. Delays on the time of day are refused: that clock can be set.
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

/// Fields that only a timer that fires needs.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) callback: RawCallback,
    pub(crate) argument: *mut c_void,
    /// The neighbours in the list of due timers; without meaning for a timer that is not in it.
    pub(crate) previous: Cell<*const Head>,
    pub(crate) next: Cell<*const Head>,
}

/// A timer whose type is forgotten, with its tail.
pub(crate) trait Tails: Operations {
    fn tail(&self) -> &Tail;
}

impl Head {
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

    /// Returns the function to call, and its arguments.
    pub(crate) fn call(&self) -> (RawCallback, *mut c_void, *mut c_void) {
        let structure = ptr::from_ref(self).cast_mut().cast();
        let Tail {
            callback, argument, ..
        } = *self.tail();
        (callback, structure, argument)
    }
}

//! The C structure of exact and coarse timers, the proof that a pointer from C is one, and the operations of its timer.
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

use tickless::hrtimer::{ClockId, Expired, HrTimer, Instant, Monotonic, Restart, Span, Start};
use tickless::wheel::{Timeout, WheelTimer};

/// A callback of the C program, which gets one of the structures and its argument. If the callback throws an exception,
/// the call fails with an error or the process ends; the behaviour is not undefined.
pub(crate) type RawCallback = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void);

/// The state of a timer, from its start to its callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The timer is in no queue and in no list.
    Idle,
    /// The timer is in a queue of the library.
    Queued,
    /// The structure is in the list of due timers of its thread, and its callback will be called.
    Due,
}

/// The constants of the two kinds of structures.
pub(crate) const MAGIC_OF_TIMERS: u64 = 0x7469_636b_6c65_7373;
pub(crate) const MAGIC_OF_TIMEOUTS: u64 = 0x636f_6172_7365_7469;

/// Returns the magic word of a structure at `address`, of the kind with the constant `magic`.
pub(crate) fn magic_at(magic: u64, address: usize) -> u64 {
    magic ^ (address as u64).rotate_left(20)
}

/// The fields of a C structure, whatever its kind; its timer follows. The fields that a start touches are the last, next
/// to those of the timer.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Structure {
    pub(crate) callback: RawCallback,
    pub(crate) argument: *mut c_void,
    /// The neighbours in the list of due timers; not valid for a timer that is not in the list.
    pub(crate) previous: Cell<*const Self>,
    pub(crate) next: Cell<*const Self>,
    /// The magic word, which depends on the kind and the address of the structure.
    pub(crate) magic: AtomicU64,
    /// The number of the [`ThreadPlace`](crate::place::ThreadPlace) to which the structure belongs.
    pub(crate) place: AtomicU64,
    /// The timer that follows.
    pub(crate) timer: *mut dyn Operations,
    /// The deadline of the last start.
    pub(crate) deadline: Cell<u64>,
    /// The delay of the last start, if the timer was started with a delay.
    pub(crate) delay: Cell<Option<Delay>>,
    pub(crate) slack: Cell<u64>,
    pub(crate) state: Cell<State>,
    /// The clock on which a delay is measured. Delays on the time of day are refused, because that clock can be set.
    pub(crate) clock: tickless::hrtimer::Clock,
}

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

impl Structure {
    /// Returns the structure at `address`, unless its memory was overwritten since the place with the number `place`
    /// initialised it.
    ///
    /// # Safety
    ///
    /// A structure was initialised at `address`, and the memory may be read.
    pub(crate) unsafe fn still_at<'a>(address: usize, place: u64) -> Option<&'a Self> {
        let structure: *const Self = ptr::with_exposed_provenance(address);
        // SAFETY: the caller says so.
        let magic = unsafe { &(*structure).magic };
        // Relaxed, both: the thread wrote them itself.
        let magic = magic.load(Ordering::Relaxed);
        let kinds = [MAGIC_OF_TIMERS, MAGIC_OF_TIMEOUTS];
        if !kinds.iter().any(|kind| magic_at(*kind, address) == magic) {
            return None;
        }
        // SAFETY: magic.
        let structure = unsafe { &*structure };
        (structure.place.load(Ordering::Relaxed) == place).then_some(structure)
    }

    pub(crate) fn timer(&self) -> Pin<&dyn Operations> {
        // SAFETY: magic: it points to the timer of this structure, which stands until that is destroyed.
        let timer = unsafe { &*self.timer };
        // SAFETY: what was moved has another magic word, and `destroy` drops it where it stands.
        unsafe { Pin::new_unchecked(timer) }
    }

    /// Returns the callback, and its two arguments.
    pub(crate) fn call(&self) -> (RawCallback, *mut c_void, *mut c_void) {
        let structure = ptr::from_ref(self).cast_mut().cast();
        (self.callback, structure, self.argument)
    }
}

/// The operations on a timer of an erased type. The type is erased because the type of a closure has no name that a
/// structure for C could use.
pub(crate) trait Operations {
    /// Starts or restarts the timer for a time in nanoseconds, which must not be too late for the clock; with slack, it
    /// may fire a little later. Returns nothing: no timer of a C program is ever shut down, and its
    /// [`ThreadPlace`](crate::place::ThreadPlace) knows whether it was pending.
    fn start(self: Pin<&Self>, deadline: u64, slack: u64);

    /// Cancels the timer.
    fn cancel(self: Pin<&Self>);
}

impl<F, C> Operations for HrTimer<F, C>
where
    F: FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
    C: ClockId,
{
    fn start(self: Pin<&Self>, deadline: u64, slack: u64) {
        let nanos = i64::try_from(deadline).unwrap_or(i64::MAX);
        let instant = Instant::from_nanos(nanos);
        // Pinned: it stays on its thread, whatever becomes of those of isolated workers.
        let _outcome = if slack == 0 {
            HrTimer::start_pinned(self, instant)
        } else {
            let start = Start::at(instant).slack(Span::from_nanos(slack));
            HrTimer::start(self, start.pinned())
        };
    }

    fn cancel(self: Pin<&Self>) {
        let _was_queued = HrTimer::cancel(self);
    }
}

impl<F> Operations for WheelTimer<F>
where
    F: FnMut(&mut Timeout) -> Restart + Send + 'static,
{
    fn start(self: Pin<&Self>, deadline: u64, _slack: u64) {
        let nanos = i64::try_from(deadline).unwrap_or(i64::MAX);
        // An instant and no delay: that would read the clock again.
        let at = tickless::time::Instant::from(Instant::<Monotonic>::from_nanos(nanos));
        let _outcome = WheelTimer::start(self, at);
    }

    fn cancel(self: Pin<&Self>) {
        let _was_queued = WheelTimer::cancel(self);
    }
}

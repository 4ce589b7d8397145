//! A POSIX timer that sends the thread a signal, whose handler sets a flag: the device of a worker that computes.
//!
//! A worker's device is its own sleep, which has no effect while the worker computes. With this timer the worker has a
//! device in the full sense: setting the timer is a system call, and the timer interrupts the worker. The core's saving
//! of device writes takes effect here.
//!
//! # Ground rules
//!
//! - The timer belongs to the thread that made it, and that thread alone sets it, with its base locked.
//! - The device module provides the handler. The handler reads the thread's own words, sets two flags, and acquires no
//!   lock.
//! - The signal is `SIGURG`. It is ignored by default, so a signal that arrives too late or from another sender does no
//!   harm, and debuggers pass it on without a stop. The handler stays installed until the process ends.

use std::ffi::c_void;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Ordering};

use tickless_core::time::Instant;

use crate::host::kernel_time;
use crate::host::sys::signals::{Handler, create, delete, install, set, unblock};

/// The timer of a thread, if the thread has one, and its counts. All accesses are Relaxed: only the thread itself and
/// the handler that interrupts it write; other threads read the counts.
#[derive(Debug)]
pub(crate) struct SignalTimer {
    is_on: AtomicBool,
    timer: AtomicPtr<c_void>,
    /// The time for which the timer is set, in nanoseconds; `i64::MIN` when that time is used up.
    set_for: AtomicI64,
    writes: AtomicU64,
    signals: AtomicU64,
    signalled: AtomicBool,
}

const USED_UP: i64 = i64::MIN;

impl SignalTimer {
    pub(crate) const fn new() -> Self {
        Self {
            is_on: AtomicBool::new(false),
            timer: AtomicPtr::new(ptr::null_mut()),
            set_for: AtomicI64::new(USED_UP),
            writes: AtomicU64::new(0),
            signals: AtomicU64::new(0),
            signalled: AtomicBool::new(false),
        }
    }

    /// Returns whether the thread has the timer.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Makes the timer for the calling thread, to whose base it belongs.
    pub(crate) fn begin(&self, handler: Handler) -> io::Result<()> {
        install(handler)?;
        unblock();
        let timer = create()?;
        self.timer.store(timer, Ordering::Relaxed);
        self.set_for.store(USED_UP, Ordering::Relaxed);
        self.is_on.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Deletes the timer. Called by the thread that made it.
    pub(crate) fn end(&self) {
        if !self.is_on() {
            return;
        }
        self.is_on.store(false, Ordering::Relaxed);
        delete(self.timer.load(Ordering::Relaxed));
    }

    /// Sets the timer, if the thread has one and it is not set for `when` already. Called with the base locked.
    #[inline]
    pub(crate) fn set(&self, when: Instant) {
        if self.is_on() {
            self.write(when);
        }
    }

    fn write(&self, when: Instant) {
        if self.set_for.load(Ordering::Relaxed) == when.as_nanos() {
            return;
        }
        self.set_for.store(when.as_nanos(), Ordering::Relaxed);
        let writes = self.writes.load(Ordering::Relaxed);
        self.writes.store(writes + 1, Ordering::Relaxed);
        let timer = self.timer.load(Ordering::Relaxed);
        set(timer, kernel_time::until(when));
    }

    /// Records that the signal arrived. Called by the handler.
    pub(crate) fn note_signal(&self) {
        let signals = self.signals.load(Ordering::Relaxed);
        self.signals.store(signals + 1, Ordering::Relaxed);
        self.signalled.store(true, Ordering::Relaxed);
    }

    /// Marks the time of the timer as used up.
    #[inline]
    pub(crate) fn use_up(&self) {
        self.set_for.store(USED_UP, Ordering::Relaxed);
    }

    /// Returns whether the time of the timer is used up and the timer was not set since.
    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        self.set_for.load(Ordering::Relaxed) == USED_UP
    }

    /// Returns whether a signal arrived since the last [take](Self::take_signalled).
    #[inline]
    pub(crate) fn is_signalled(&self) -> bool {
        // Relaxed: as for `take_signalled`, which looks again.
        self.signalled.load(Ordering::Relaxed)
    }

    /// Returns whether a signal arrived since the last call, and clears the flag.
    #[inline]
    pub(crate) fn take_signalled(&self) -> bool {
        let came = self.signalled.load(Ordering::Relaxed);
        if came {
            self.signalled.store(false, Ordering::Relaxed);
        }
        came
    }

    /// Returns the number of calls of `timer_settime` and the number of signals that arrived since the base was first
    /// used.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (
            self.writes.load(Ordering::Relaxed),
            self.signals.load(Ordering::Relaxed),
        )
    }
}

/// Checks whether this process can have such timers: installs the handler, and makes a timer as a test.
pub(crate) fn probe(handler: Handler) -> io::Result<()> {
    install(handler)?;
    delete(create()?);
    Ok(())
}

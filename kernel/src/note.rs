//! Counts and flags of a CPU, which other CPUs read or set.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A count that one CPU writes and all read.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline]
    pub(crate) fn add(&self, more: u64) {
        // Relaxed: its CPU alone writes it, and an interrupt that comes between load and store has ended before the
        // store; those that count in interrupts alone are masked anyway. Readers wait for a note of that CPU first.
        self.set(self.get() + more);
    }

    #[inline]
    pub(crate) fn set(&self, value: u64) {
        // Relaxed: see `add`.
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        // Relaxed: see `add`.
        self.0.load(Ordering::Relaxed)
    }
}

/// A flag of a CPU, which the CPU itself or another one sets.
#[derive(Debug, Default)]
pub(crate) struct Note(AtomicBool);

impl Note {
    pub(crate) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    pub(crate) fn leave(&self) {
        // Release: pairs with `take` and `is_there`: what the note is for was written before it.
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn take(&self) -> bool {
        // Acquire: see `leave`.
        self.0.swap(false, Ordering::Acquire)
    }

    pub(crate) fn is_there(&self) -> bool {
        // Acquire: see `leave`.
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, there: bool) {
        // Release: see `leave`.
        self.0.store(there, Ordering::Release);
    }
}

//! Timers in one slice, which never move, as a program with many timers keeps them.
//!
//! A box for each timer would cost a pointer, the overhead of the allocator, and one more cache line for each
//! operation. With a million pending timers the benchmark would measure these costs instead of the libraries.
//!
//! # Invariant
//!
//! *Pinned*: the slice is allocated once and neither grows nor is taken apart, so no element moves before it is dropped
//! in its place. [`Slots`] returns only pinned references.
#![expect(unsafe_code, reason = "C libraries get pointers (docs/testing.md)")]

use std::pin::Pin;

/// A fixed number of pinned values.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    values: Box<[T]>,
}

impl<T> Slots<T> {
    pub(crate) fn new(count: usize, make: impl FnMut() -> T) -> Self {
        Self {
            values: std::iter::repeat_with(make).take(count).collect(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    #[inline]
    pub(crate) fn at(&self, index: usize) -> Pin<&T> {
        // SAFETY: *Pinned*.
        unsafe { Pin::new_unchecked(&self.values[index]) }
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: usize) -> Pin<&mut T> {
        // SAFETY: *Pinned*.
        unsafe { Pin::new_unchecked(&mut self.values[index]) }
    }
}

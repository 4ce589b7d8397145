//! Timers that lie side by side and never move, as a program that has many keeps them.
//!
//! A box for each would cost a pointer and what the allocator adds, for timers of all libraries alike, and a cache line
//! more for each operation: at a million pending timers those would be measured.
//!
//! # Invariant
//!
//! *Pinned*: the slice is allocated once and neither grows nor is taken apart, so no element moves before it is dropped
//! in its place. [`Slots`] gives out pinned references only.

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

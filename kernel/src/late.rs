//! A value that is made once, after the start, and stays for ever.
//!
//! # Safety
//!
//! *Leaked*: the pointer is null, or comes from a box that was leaked, and is set once.

use alloc::boxed::Box;
use core::fmt;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A place for a value that is made later.
pub(crate) struct Late<T>(AtomicPtr<T>);

// SAFETY: it gives out shared references alone, to what was sent here.
unsafe impl<T: Send + Sync> Sync for Late<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for Late<T> {}

impl<T> Late<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Keeps `value`, and returns it.
    ///
    /// # Panics
    ///
    /// When a value was set before.
    pub(crate) fn set(&self, value: Box<T>) -> &T {
        let value = Box::into_raw(value);
        // Release: pairs with the load in `get`.
        let before = self.0.swap(value, Ordering::AcqRel);
        assert!(before.is_null(), "it is set once");
        // SAFETY: *leaked*.
        unsafe { &*value }
    }

    /// Returns the value; `None` before it was set.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // Acquire: pairs with the swap in `set`.
        let value = self.0.load(Ordering::Acquire);
        // SAFETY: *leaked*.
        unsafe { value.as_ref() }
    }
}

impl<T> Default for Late<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for Late<T> {
    fn drop(&mut self) {
        let value = *self.0.get_mut();
        if !value.is_null() {
            // SAFETY: *leaked*, and what borrowed it from this place has ended with it.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

impl<T> fmt::Debug for Late<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Late")
            .field(&self.get().is_some())
            .finish()
    }
}

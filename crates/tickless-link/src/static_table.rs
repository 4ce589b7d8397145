//! A table of references that are published once and never change.
//!
//! A program that never uses an element of a [`StaticTable`] carries nothing for it: the table is all zeros, so a
//! static of this type takes no space in the file of the program, and a page of memory only where an element was
//! published.
//! Reading an element is one load.
//!
//! # Invariant
//!
//! *Published*: an element is null, or it was made from a `&'static T` and never changes again.

use core::fmt;
use core::ptr;
// Not the atomics of `sync`: the models make theirs at run time, and a static needs them before.
use core::sync::atomic::{AtomicPtr, Ordering};

/// A table of `N` elements, each of which is empty or a reference that was published once.
pub struct StaticTable<T: 'static, const N: usize>([AtomicPtr<T>; N]);

impl<T, const N: usize> StaticTable<T, N> {
    /// Creates a table whose elements are all empty.
    #[must_use]
    pub const fn new() -> Self {
        Self([const { AtomicPtr::new(ptr::null_mut()) }; N])
    }
}

impl<T: Sync, const N: usize> StaticTable<T, N> {
    /// Returns the element at `index`; `None` if it is empty or `index` is not in the table.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'static T> {
        // Acquire: pairs with the Release in `publish`; what the publisher wrote into the element is visible.
        let element = self.0.get(index)?.load(Ordering::Acquire);
        // SAFETY: *Published*.
        unsafe { element.as_ref() }
    }

    /// Publishes `new` at `index`, unless the element there was published before. Returns the element that is there
    /// then; `None` if `index` is not in the table.
    pub fn publish(&self, index: usize, new: &'static T) -> Option<&'static T> {
        let new = ptr::from_ref(new).cast_mut();
        // Release: pairs with the Acquire in `get`. A failure leaves the first element, which `get` reads.
        let _first = self.0.get(index)?.compare_exchange(
            ptr::null_mut(),
            new,
            Ordering::Release,
            Ordering::Relaxed,
        );
        self.get(index)
    }
}

impl<T, const N: usize> Default for StaticTable<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> fmt::Debug for StaticTable<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticTable").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    static NUMBERS: [u32; 2] = [7, 8];

    #[test]
    fn the_first_reference_stays() {
        static TABLE: StaticTable<u32, 2> = StaticTable::new();
        assert_eq!(TABLE.get(1), None);
        assert_eq!(TABLE.publish(1, &NUMBERS[0]), Some(&7));
        assert_eq!(
            TABLE.publish(1, &NUMBERS[1]),
            Some(&7),
            "the first one stays"
        );
        assert_eq!(TABLE.get(1), Some(&7));
        assert_eq!(TABLE.get(0), None, "its neighbour is empty");
    }

    #[test]
    fn an_index_behind_the_end_is_none() {
        static TABLE: StaticTable<u32, 2> = StaticTable::new();
        assert_eq!(TABLE.get(2), None);
        assert_eq!(TABLE.publish(2, &NUMBERS[0]), None);
    }

    #[test]
    fn an_empty_table_is_all_zeros() {
        let table: StaticTable<u32, 2> = StaticTable::new();
        assert!(
            table
                .0
                .iter()
                .all(|element| element.load(Ordering::Relaxed).is_null())
        );
    }
}

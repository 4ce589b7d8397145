//! 64-bit atomics for bare machines that have none: each access is a critical section of the program.
//!
//! `portable-atomic` has 64-bit atomics too, for processors that can exchange a word. They use a spin lock, and an
//! interrupt that comes while the lock is held would wait for the lock for ever. Its critical section is for processors
//! that can exchange nothing.
//!
//! # Safety
//!
//! *Masked*: the value is accessed only within a critical section, and only one critical section executes at a time.

use core::cell::UnsafeCell;
use core::fmt;
use core::sync::atomic::Ordering;

use critical_section::with;

macro_rules! atomics {
    ($($(#[$meta:meta])* $name:ident: $value:ty),*) => {$(
        $(#[$meta])*
        ///
        /// Cost of each operation: a critical section. Its order is `SeqCst`, whatever the caller asks for.
        #[derive(Default)]
        #[repr(C, align(8))]
        pub struct $name(UnsafeCell<$value>);

        // SAFETY: *masked*.
        unsafe impl Sync for $name {}

        #[allow(clippy::allow_attributes, dead_code, reason = "the same operations for both, as `core` has them")]
        impl $name {
            /// Makes an atomic that holds `value`.
            #[must_use]
            pub const fn new(value: $value) -> Self {
                Self(UnsafeCell::new(value))
            }

            /// Returns the value through an exclusive borrow.
            pub const fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            /// Replaces the value by the result of `change`, and returns the old one.
            #[inline]
            fn change(&self, change: impl FnOnce($value) -> $value) -> $value {
                with(|_| {
                    // SAFETY: *masked*; `change` is a function of this file, which touches no atomic.
                    let before = unsafe { *self.0.get() };
                    // SAFETY: *masked*, as above.
                    unsafe { *self.0.get() = change(before) };
                    before
                })
            }

            /// Returns the value.
            #[inline]
            pub fn load(&self, _: Ordering) -> $value {
                // SAFETY: *masked*.
                with(|_| unsafe { *self.0.get() })
            }

            /// Replaces the value.
            #[inline]
            pub fn store(&self, value: $value, _: Ordering) {
                self.change(|_| value);
            }

            /// Replaces the value, and returns the old one.
            #[inline]
            pub fn swap(&self, value: $value, _: Ordering) -> $value {
                self.change(|_| value)
            }

            /// Adds to the value, wrapping around, and returns the old one.
            #[inline]
            pub fn fetch_add(&self, value: $value, _: Ordering) -> $value {
                self.change(|before| before.wrapping_add(value))
            }

            /// Subtracts from the value, wrapping around, and returns the old one.
            #[inline]
            pub fn fetch_sub(&self, value: $value, _: Ordering) -> $value {
                self.change(|before| before.wrapping_sub(value))
            }

            /// Replaces the value by the bitwise AND with `value`, and returns the old one.
            #[inline]
            pub fn fetch_and(&self, value: $value, _: Ordering) -> $value {
                self.change(|before| before & value)
            }

            /// Replaces the value by the bitwise OR with `value`, and returns the old one.
            #[inline]
            pub fn fetch_or(&self, value: $value, _: Ordering) -> $value {
                self.change(|before| before | value)
            }

            /// Replaces the value by `value` if that is larger, and returns the old one.
            #[inline]
            pub fn fetch_max(&self, value: $value, _: Ordering) -> $value {
                self.change(|before| before.max(value))
            }

            /// Replaces the value by `new` if it is `current`. Returns the old value, as an error if it was not
            /// `current`.
            ///
            /// # Errors
            ///
            /// Returns the value if it is not `current`. The value then stays unchanged.
            #[inline]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                _: Ordering,
                _: Ordering,
            ) -> Result<$value, $value> {
                let before = self.change(|before| if before == current { new } else { before });
                if before == current { Ok(before) } else { Err(before) }
            }

            /// Replaces `current` by `new` as [`compare_exchange`](Self::compare_exchange) does.
            ///
            /// # Errors
            ///
            /// Returns the value if it is not `current`, as [`compare_exchange`](Self::compare_exchange) does.
            #[inline]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            /// Replaces the value by the result of `change`, unless that is `None`, and returns the old one.
            ///
            /// # Errors
            ///
            /// Returns the value if `change` returned `None`. The value then stays unchanged.
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut before = self.load(failure);
                while let Some(new) = change(before) {
                    match self.compare_exchange(before, new, success, failure) {
                        Ok(before) => return Ok(before),
                        Err(changed) => before = changed,
                    }
                }
                Err(before)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.load(Ordering::Relaxed), formatter)
            }
        }
    )*};
}

atomics! {
    /// Holds a `u64` that threads and interrupts share.
    AtomicU64: u64,
    /// Holds an `i64` that threads and interrupts share.
    AtomicI64: i64
}

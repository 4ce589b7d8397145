//! Loom's atomics, with interleavings that loom 0.7 does not explore.
//!
//! Loom explores another order of two operations when they touch the same atomic and one of them writes. For that it
//! remembers the *last* operation on each atomic. When a thread reads and then writes, its own read hides the earlier
//! reads of other threads, so loom never tries the write before their reads: the case "a thread looks while the entry
//! is in transit" ran once and passed, whatever the code did.
//!
//! So each atomic has a companion that every operation on the atomic changes first, without any order. All operations
//! on the companion depend on each other, so loom has to try them in every order; and because the companion is not
//! ordered, what may be seen stays as weak as it was.

use core::fmt;

pub use loom::sync::atomic::{Ordering, fence};

macro_rules! atomics {
    ($($name:ident: $value:ty, $take:ident;)*) => {$(
        /// Works as in `core`.
        pub struct $name {
            turn: loom::sync::atomic::AtomicU8,
            value: loom::sync::atomic::$name,
        }

        impl $name {
            /// Works as in `core`.
            #[must_use]
            pub fn new(value: $value) -> Self {
                Self {
                    turn: loom::sync::atomic::AtomicU8::new(0),
                    value: loom::sync::atomic::$name::new(value),
                }
            }

            fn turn(&self) -> &loom::sync::atomic::$name {
                // Relaxed: it must not order anything.
                self.turn.swap(0, Ordering::Relaxed);
                &self.value
            }

            /// Works as in `core`.
            #[must_use]
            pub fn load(&self, order: Ordering) -> $value {
                self.turn().load(order)
            }

            /// Works as in `core`.
            pub fn store(&self, value: $value, order: Ordering) {
                self.turn().store(value, order);
            }

            /// Works as in `core`.
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.turn().swap(value, order)
            }

            /// Works as in `core`.
            ///
            /// # Errors
            ///
            /// The value, if it was another one.
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.turn().compare_exchange(current, new, success, failure)
            }

            atomics!($take $value);
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new(<$value>::default())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.value.fmt(formatter)
            }
        }
    )*};
    (number $value:ty) => {
        /// Informs loom that the value is accessed by no other thread from here on.
        pub fn with_mut<R>(&mut self, body: impl FnOnce(&mut $value) -> R) -> R {
            self.value.with_mut(body)
        }

        /// Works as in `core`.
        pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
            self.turn().fetch_add(value, order)
        }

        /// Works as in `core`.
        pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
            self.turn().fetch_sub(value, order)
        }

        /// Works as in `core`.
        pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
            self.turn().fetch_and(value, order)
        }

        /// Works as in `core`.
        pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
            self.turn().fetch_or(value, order)
        }

        /// Works as in `core`.
        pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
            self.turn().fetch_max(value, order)
        }

        /// Works as in `core`.
        ///
        /// # Errors
        ///
        /// The value, if `update` gave none.
        pub fn fetch_update(
            &self,
            set: Ordering,
            fetch: Ordering,
            update: impl FnMut($value) -> Option<$value>,
        ) -> Result<$value, $value> {
            self.turn().fetch_update(set, fetch, update)
        }
    };
    (flag $value:ty) => {};
}

atomics! {
    AtomicBool: bool, flag;
    AtomicI64: i64, number;
    AtomicU8: u8, number;
    AtomicU32: u32, number;
    AtomicU64: u64, number;
    AtomicUsize: usize, number;
}

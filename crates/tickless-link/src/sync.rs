//! The atomics of all crates: `core`'s in a build, loom's or shuttle's in a model.
//!
//! Every crate of Tickless takes its atomics, fences and shared cells from here, so that one `--cfg loom` turns the
//! code under test, and not a copy of it, into a model. Loom explores every interleaving of few operations, with weak
//! memory; `--cfg shuttle` runs random interleavings of many operations, with sequentially consistent memory.
//!
//! A bare machine whose processor cannot change 64 bits in one step (Cortex-M, 32-bit RISC-V) makes such a change in a
//! critical section. A processor that cannot exchange a word (Cortex-M0) makes every atomic change in a critical
//! section. An operating system on such a processor has the locks of `portable-atomic`.

#[cfg(all(not(any(loom, shuttle)), target_has_atomic = "ptr"))]
pub use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize};
#[cfg(all(not(any(loom, shuttle)), target_has_atomic = "64"))]
pub use core::sync::atomic::{AtomicI64, AtomicU64};
#[cfg(not(any(loom, shuttle)))]
pub use core::sync::atomic::{Ordering, fence};
#[cfg(all(
    not(any(loom, shuttle)),
    not(target_has_atomic = "64"),
    target_os = "none"
))]
pub use masked::{AtomicI64, AtomicU64};
#[cfg(all(not(any(loom, shuttle)), not(target_has_atomic = "ptr")))]
pub use portable_atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize};
#[cfg(all(
    not(any(loom, shuttle)),
    not(target_has_atomic = "64"),
    not(target_os = "none")
))]
pub use portable_atomic::{AtomicI64, AtomicU64};
#[cfg(shuttle)]
pub use shuttle::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

#[cfg(loom)]
pub use modelled::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

#[cfg(all(
    not(any(loom, shuttle)),
    not(target_has_atomic = "64"),
    target_os = "none"
))]
mod masked;
#[cfg(loom)]
mod modelled;

/// An atomic to which the caller has exclusive access. It acts as a plain value, whose last stored value the compiler
/// knows.
pub(crate) trait Exclusive<V> {
    /// Shows the value to `body`.
    fn exclusively<R>(&mut self, body: impl FnOnce(&mut V) -> R) -> R;
}

macro_rules! exclusive {
    ($($atomic:ty: $value:ty),*) => {$(
        impl Exclusive<$value> for $atomic {
            #[inline(always)]
            fn exclusively<R>(&mut self, body: impl FnOnce(&mut $value) -> R) -> R {
                #[cfg(not(loom))]
                return body(self.get_mut());
                #[cfg(loom)]
                self.with_mut(body)
            }
        }
    )*};
}

exclusive!(AtomicU8: u8, AtomicUsize: usize);

/// Hints to the processor that the caller polls; in a model, lets another thread run.
#[inline]
pub fn spin_loop() {
    #[cfg(not(any(loom, shuttle)))]
    core::hint::spin_loop();
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// Keeps the compiler from moving memory accesses across it, and costs nothing at run time.
///
/// It is the cheap half of an asymmetric pair: the other half is a barrier that one thread executes *on behalf of all
/// others* (`membarrier` on Linux). Loom knows no such barrier, so in a model both halves are `SeqCst` fences, which is
/// exactly the guarantee that the pair gives.
#[inline]
pub fn light_barrier() {
    #[cfg(not(loom))]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// Does nothing, except that loom and Miri, for which `SeqCst` accesses are weaker than they are, get a `SeqCst` fence.
/// It stands between two `SeqCst` accesses of a thread of Dekker's argument.
///
/// Miri lets both threads of the argument see nothing if one of them has loaded the other's word before, which C++20
/// forbids: the two stores and the two loads would form a cycle in the order of the `SeqCst` accesses.
#[inline]
pub fn model_barrier() {
    #[cfg(any(loom, miri))]
    fence(Ordering::SeqCst);
}

/// A value on cache lines of its own.
///
/// 128 bytes, not 64: processors that fetch lines in pairs make two neighbours share one.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

impl<T> core::ops::Deref for CachePadded<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Interior mutability whose accesses loom can check for races.
pub mod cell {
    #[cfg(not(loom))]
    use core::mem::MaybeUninit;

    #[cfg(not(loom))]
    use crate::emplace::{self, Emplaced};

    /// An `UnsafeCell` that passes raw pointers to a closure, as loom's does.
    #[cfg(not(loom))]
    #[derive(Debug)]
    #[repr(transparent)]
    pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    #[cfg(not(loom))]
    impl<T> UnsafeCell<T> {
        /// Wraps `value`.
        #[inline]
        pub const fn new(value: T) -> Self {
            Self(core::cell::UnsafeCell::new(value))
        }

        /// Makes the value in its final place by `make`.
        #[inline]
        pub fn emplace(
            slot: &mut MaybeUninit<Self>,
            make: impl for<'s> FnOnce(&'s mut MaybeUninit<T>) -> Emplaced<'s, T>,
        ) -> Emplaced<'_, Self> {
            let value = slot.as_mut_ptr().cast::<MaybeUninit<T>>();
            // SAFETY: the cell has the layout of its value, twice transparently, and `slot` stays borrowed meanwhile.
            emplace::part(unsafe { &mut *value }, make);
            // SAFETY: its value is filled, or `part` had panicked.
            unsafe { Emplaced::filled(slot) }
        }

        /// Returns a pointer; the caller is responsible for its use.
        #[inline]
        pub const fn get(&self) -> *mut T {
            self.0.get()
        }

        /// Returns the value through an exclusive borrow.
        #[inline]
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut()
        }
    }

    #[cfg(loom)]
    pub use loom::cell::UnsafeCell;
}

/// Declares a function that is `const` except in models, where atomics cannot be made at compile time.
#[macro_export]
macro_rules! const_unless_loom {
    ($(#[$meta:meta])* $vis:vis const fn $($rest:tt)*) => {
        #[cfg(not(loom))]
        $(#[$meta])*
        $vis const fn $($rest)*

        #[cfg(loom)]
        $(#[$meta])*
        $vis fn $($rest)*
    };
}

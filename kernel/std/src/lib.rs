//! The parts of the standard library that the conformance suites use, for a machine without one. So the suites that
//! judge the core on an operating system run here from the same files.
//!
//! One CPU executes a suite, and no interrupt does, so thread-local values belong to the program here. A panic ends the
//! run, so no panic is ever caught. Nothing is printed except by the kernel itself.
//!
//! # Safety
//!
//! *One*: one CPU executes the suites, and interrupts do not touch their values.
#![no_std]

extern crate alloc;

pub use alloc::{borrow, boxed, collections, fmt, format, rc, string, vec};
pub use core::{any, cell, cmp, iter, marker, mem, ops, pin};

/// The names that each program imports by default.
pub mod prelude {
    /// The names that each program imports by default.
    pub mod v1 {
        pub use alloc::borrow::ToOwned;
        pub use alloc::boxed::Box;
        pub use alloc::string::{String, ToString};
        pub use alloc::vec::Vec;
    }
}

/// The trait of tasks that are woken.
pub mod task {
    pub use alloc::task::Wake;
    pub use core::task::{Context, Poll, Waker};
}

/// Values that several owners share.
pub mod sync {
    pub use alloc::sync::{Arc, Weak};
    use core::convert::Infallible;
    pub use core::sync::atomic;

    use tickless_link::lock::{Guard, Lock, SpinLock};

    /// A lock that no panic poisons.
    #[derive(Debug)]
    pub struct Mutex<T>(Lock<SpinLock, T>);

    impl<T> Mutex<T> {
        /// Makes a lock around `value`.
        pub const fn new(value: T) -> Self {
            Self(Lock::new(SpinLock::new(), value))
        }

        /// Takes the lock.
        ///
        /// # Errors
        ///
        /// Never.
        pub fn lock(&self) -> Result<Guard<'_, SpinLock, T>, Infallible> {
            Ok(self.0.lock(None))
        }
    }

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Self {
            Self::new(T::default())
        }
    }
}

/// Panics, which end the run.
pub mod panic {
    use alloc::boxed::Box;
    use core::any::Any;
    pub use core::panic::AssertUnwindSafe;

    /// Calls `body`. A panic in `body` does not return.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn catch_unwind<R>(body: impl FnOnce() -> R) -> Result<R, Box<dyn Any + Send>> {
        Ok(body())
    }

    /// Panics again.
    ///
    /// # Panics
    ///
    /// Always.
    pub fn resume_unwind(_payload: Box<dyn Any + Send>) -> ! {
        panic!("a panic goes on")
    }
}

/// The functions of the thread, of which the program has one.
pub mod thread {
    use core::cell::{Cell, RefCell};

    /// Returns false: code that runs did not panic.
    #[must_use]
    pub const fn panicking() -> bool {
        false
    }

    /// A value that belongs to the thread.
    #[derive(Debug)]
    pub struct LocalKey<T>(T);

    // SAFETY: *one*.
    unsafe impl<T> Sync for LocalKey<T> {}

    impl<T> LocalKey<T> {
        #[doc(hidden)]
        pub const fn new(value: T) -> Self {
            Self(value)
        }
    }

    impl<T: Copy> LocalKey<Cell<T>> {
        /// Returns the value.
        pub fn get(&self) -> T {
            self.0.get()
        }
    }

    impl<T> LocalKey<Cell<T>> {
        /// Sets the value.
        pub fn set(&self, value: T) {
            self.0.set(value);
        }
    }

    impl<T> LocalKey<RefCell<T>> {
        /// Calls `act` with the value.
        pub fn with_borrow<R>(&self, act: impl FnOnce(&T) -> R) -> R {
            act(&self.0.borrow())
        }

        /// Calls `act` with the value, which it may change.
        pub fn with_borrow_mut<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
            act(&mut self.0.borrow_mut())
        }
    }
}

/// Output, which is discarded: the kernel prints the results of the suites.
pub mod io {
    use core::convert::Infallible;
    use core::fmt;

    /// A place to which text is written.
    pub trait Write {
        /// Takes the text.
        ///
        /// # Errors
        ///
        /// Never.
        fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> Result<(), Infallible>;
    }

    /// Standard error, which discards text.
    #[derive(Debug)]
    pub struct Stderr(());

    /// Returns standard error, which discards text.
    #[must_use]
    pub const fn stderr() -> Stderr {
        Stderr(())
    }

    impl Write for Stderr {
        fn write_fmt(&mut self, _text: fmt::Arguments<'_>) -> Result<(), Infallible> {
            Ok(())
        }
    }
}

/// The surroundings of the program, which has none.
pub mod env {
    use alloc::string::String;

    /// The error that a variable does not exist.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct NotPresent;

    /// Returns no variable.
    ///
    /// # Errors
    ///
    /// Always.
    pub const fn var(_name: &str) -> Result<String, NotPresent> {
        Err(NotPresent)
    }
}

/// Makes values that belong to the thread.
#[macro_export]
macro_rules! thread_local {
    ($($(#[$meta:meta])* static $name:ident: $type:ty = const $value:block;)+) => {$(
        $(#[$meta])*
        static $name: $crate::thread::LocalKey<$type> = $crate::thread::LocalKey::new($value);
    )+};
}

/// Takes a line, and prints nothing.
#[macro_export]
macro_rules! println {
    ($($text:tt)*) => {{
        let _nowhere = ::core::format_args!($($text)*);
    }};
}

/// Takes a line, and prints nothing.
#[macro_export]
macro_rules! eprintln {
    ($($text:tt)*) => {{
        let _nowhere = ::core::format_args!($($text)*);
    }};
}

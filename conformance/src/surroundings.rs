//! The things that the suites need from the program around them: caught panics, output, and values of the thread.
//!
//! With the feature `std` they are those of the standard library. Without it the program is one for a bare machine: a
//! panic ends the run, nothing is printed except by the machine itself, and one CPU executes the suites.

use crate::prelude::*;

#[cfg(not(feature = "std"))]
pub(crate) use bare::{LocalKey, catch, is_panicking, print, resume, say, thread_values, variable};
#[cfg(feature = "std")]
pub(crate) use hosted::{catch, is_panicking, print, resume, say, thread_values, variable};

/// A guard that prints a line if the test that holds it panics.
pub(crate) struct OnPanic<F: Fn() -> String>(pub(crate) F);

impl<F: Fn() -> String> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if is_panicking() {
            print(&(self.0)());
        }
    }
}

#[cfg(feature = "std")]
mod hosted {
    use std::any::Any;
    use std::io::Write;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    pub(crate) use std::thread::panicking as is_panicking;
    pub(crate) use std::thread_local as thread_values;

    use crate::prelude::*;

    /// Calls `body`, and returns the payload of its panic.
    pub(crate) fn catch(body: impl FnOnce()) -> Option<Box<dyn Any + Send>> {
        catch_unwind(AssertUnwindSafe(body)).err()
    }

    pub(crate) fn resume(payload: Box<dyn Any + Send>) -> ! {
        resume_unwind(payload)
    }

    /// Prints a line that the test harness shows if the test fails.
    #[expect(clippy::print_stdout, reason = "the line belongs to the test")]
    pub(crate) fn print(line: &str) {
        std::println!("{line}");
    }

    /// Writes a line directly to the output, so that the test harness does not capture it.
    pub(crate) fn say(line: &str) {
        let written = writeln!(std::io::stderr(), "{line}");
        written.expect("the standard error is open");
    }

    pub(crate) fn variable(name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

#[cfg(not(feature = "std"))]
mod bare {
    use core::any::Any;
    use core::cell::{Cell, RefCell};

    use crate::prelude::*;

    /// Calls `body`, whose panic ends the run.
    pub(crate) fn catch(body: impl FnOnce()) -> Option<Box<dyn Any + Send>> {
        body();
        None
    }

    /// Panics: [`catch`] returns no payload.
    pub(crate) fn resume(_payload: Box<dyn Any + Send>) -> ! {
        unreachable!("no panic was caught")
    }

    /// Returns false: code that runs did not panic.
    pub(crate) const fn is_panicking() -> bool {
        false
    }

    pub(crate) const fn print(_line: &str) {}

    pub(crate) const fn say(_line: &str) {}

    /// Returns `None`: there are no environment variables.
    pub(crate) const fn variable(_name: &str) -> Option<String> {
        None
    }

    /// A value of the one thread that the program has.
    pub(crate) struct LocalKey<T>(pub(crate) T);

    #[expect(
        unsafe_code,
        reason = "a static is shared by all CPUs, and one of them executes the suites"
    )]
    // SAFETY: one CPU executes the suites (module documentation), and no interrupt does.
    unsafe impl<T> Sync for LocalKey<T> {}

    impl<T: Copy> LocalKey<Cell<T>> {
        pub(crate) fn get(&self) -> T {
            self.0.get()
        }

        pub(crate) fn set(&self, value: T) {
            self.0.set(value);
        }
    }

    impl<T> LocalKey<RefCell<T>> {
        pub(crate) fn with_borrow<R>(&self, act: impl FnOnce(&T) -> R) -> R {
            act(&self.0.borrow())
        }

        pub(crate) fn with_borrow_mut<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
            act(&mut self.0.borrow_mut())
        }
    }

    macro_rules! thread_values {
        ($($(#[$meta:meta])* static $name:ident: $type:ty = const $value:block;)+) => {$(
            $(#[$meta])*
            static $name: $crate::surroundings::LocalKey<$type> = $crate::surroundings::LocalKey($value);
        )+};
    }
    pub(crate) use thread_values;
}

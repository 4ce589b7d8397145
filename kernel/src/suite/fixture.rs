//! The verdict of a test, and the timers and values that tests make.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::pin::Pin;

use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Start};
use tickless_core::time::{Monotonic, Span};

use crate::machine::Machine;
use crate::note::Count;
use crate::tasks::{self, Ran};

/// The result of a test, with the reason for a failure.
pub(super) type Verdict = Result<(), String>;

/// Fails a test unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)*) => {
        if !$condition {
            return Err(alloc::format!($($text)*));
        }
    };
}
pub(super) use ensure;

/// A timer for a test, which lives as long as the kernel.
pub(super) type TestTimer<F> = Pin<&'static HrTimer<F>>;

/// Makes a timer that lives as long as the kernel.
pub(super) fn timer<F>(setup: Setup, function: F) -> TestTimer<F>
where
    F: FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send + 'static,
{
    Pin::static_ref(Box::leak(Box::new(HrTimer::with_setup(
        setup, false, function,
    ))))
}

/// Makes a value that lives as long as the kernel.
pub(super) fn kept<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Executes `run`, and ends its tasks after `length`.
pub(super) fn ending_after(
    machine: &'static Machine,
    length: Span,
    run: impl FnOnce() -> Ran,
) -> Ran {
    let ending = timer(Setup::new(), |_| {
        tasks::end();
        Restart::No
    });
    let _started = ending.start(machine.timers, Start::after(length).pinned());
    run()
}

/// The least and the greatest of some spans, and their number. One CPU records the spans.
#[derive(Debug)]
pub(super) struct Spread {
    pub(super) least: Count,
    pub(super) greatest: Count,
    pub(super) count: Count,
}

impl Spread {
    pub(super) fn new() -> Self {
        let least = Count::default();
        least.set(u64::MAX);
        Self {
            least,
            greatest: Count::default(),
            count: Count::default(),
        }
    }

    pub(super) fn note(&self, nanos: u64) {
        self.least.set(self.least.get().min(nanos));
        self.greatest.set(self.greatest.get().max(nanos));
        self.count.add(1);
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} to {} ns",
            self.least.get(),
            self.greatest.get()
        )
    }
}

//! The parts that all tests share.

use alloc::boxed::Box;
use alloc::string::String;
use core::pin::Pin;

use tickless_core::hrtimer::{Expired, HrTimer, Restart};
use tickless_core::time::Monotonic;

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

/// Makes a timer that lives as long as the program.
pub(super) fn timer<F>(function: F) -> Pin<&'static HrTimer<F>>
where
    F: FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send + 'static,
{
    Pin::static_ref(Box::leak(Box::new(HrTimer::new(function))))
}

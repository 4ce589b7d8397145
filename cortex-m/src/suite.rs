//! The tests and their report. The report is the same in each run, because in the emulator an instruction takes one
//! nanosecond.

mod embassy;
mod exact;

use alloc::boxed::Box;
use alloc::string::String;
use core::pin::Pin;

use tickless_core::hrtimer::{Expired, HrTimer, Restart};
use tickless_core::time::Monotonic;

use crate::exit::{Code, say};
use crate::host;

/// The result of a test, with the reason for a failure.
type Verdict = Result<(), String>;

type Function = fn() -> Verdict;

/// Fails a test unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)*) => {
        if !$condition {
            return Err(alloc::format!($($text)*));
        }
    };
}
use ensure;

/// All tests, in their order.
const TESTS: &[(&str, Function)] = &[
    ("counter", exact::counter),
    ("lateness", exact::lateness),
    ("order", exact::order),
    ("moved", exact::moved),
    ("storm", exact::storm),
    ("hours", exact::hours),
    ("sleeps", embassy::sleeps),
    ("ticker", embassy::ticker),
    ("timeouts", embassy::timeouts),
    ("crowd", embassy::crowd),
];

/// Runs the tests and prints their results.
pub(crate) fn run() -> Code {
    let mut failed = 0;
    for (name, test) in TESTS {
        match test() {
            Ok(()) => say!("passed: {name}"),
            Err(reason) => {
                say!("failed: {name}: {reason}");
                failed += 1;
            }
        }
        host::timers().assert_valid(host::CPU);
    }
    say!("cortex-m: {} passed, {failed} failed", TESTS.len() - failed);
    if failed == 0 {
        Code::Passed
    } else {
        Code::Failed
    }
}

/// Makes a timer that lives as long as the program.
fn timer<F>(function: F) -> Pin<&'static HrTimer<F>>
where
    F: FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send + 'static,
{
    Pin::static_ref(Box::leak(Box::new(HrTimer::new(function))))
}

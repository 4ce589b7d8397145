//! The tests and their report. The report is the same in each run, because in the emulator an instruction takes one
//! nanosecond.

mod embassy;
mod exact;
mod fixture;

use self::fixture::Verdict;
use crate::exit::{Code, say};
use crate::host;

type Function = fn() -> Verdict;

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

//! Helpers of the tests that record what happens.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::executor::block_on;
use tickless::time;
use tickless::tracepoints::Trace;

/// Waits until no other test records: a process has one recording at a time.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn lines(trace: &Trace) -> Vec<String> {
    let mut file = Vec::new();
    trace.write(&mut file).expect("a vector takes all");
    let text = String::from_utf8(file).expect("it is text");
    text.lines().map(str::to_owned).collect()
}

/// Returns the number of lines of `event`.
pub(crate) fn count(lines: &[String], event: &str) -> usize {
    let key = format!("\"event\":\"{event}\"");
    lines.iter().filter(|line| line.contains(&key)).count()
}

pub(crate) fn nap() {
    block_on(time::sleep(Duration::from_micros(50)));
}

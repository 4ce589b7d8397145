//! `monotonic`: the clock goes back on no CPU.
//!
//! Checked at each reading.

/// Describes the violation if a CPU that read `last` before reads an earlier `now`.
#[inline]
pub(crate) fn goes_back(last: i64, now: i64) -> Option<String> {
    (now < last).then(|| format!("the clock went from {last} back to {now}"))
}

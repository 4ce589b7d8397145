//! `deterministic`: two runs with the same seed are identical to the byte.
//!
//! Checked when a scenario is run twice.

/// Describes the violation if two runs of the same scenario and seed have different outcomes. The text names the
/// digests of the runs.
pub(crate) fn differ(is_equal: bool, first: u64, second: u64) -> Option<String> {
    (!is_equal).then(|| format!("digests {first:016x} and {second:016x}"))
}

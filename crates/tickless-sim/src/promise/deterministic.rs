//! `deterministic`: two runs with the same seed are the same to the byte.
//!
//! Checked where a scenario is run twice.

/// Describes the violation by the digests of two runs of the same scenario and seed, unless their outcomes are equal.
pub(crate) fn differ(is_equal: bool, first: u64, second: u64) -> Option<String> {
    (!is_equal).then(|| format!("digests {first:016x} and {second:016x}"))
}

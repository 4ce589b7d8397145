//! `isolated_undisturbed`: a CPU that is isolated runs no timer of another, and serves no other CPU (ISO-1).
//!
//! Checked when a CPU does either.

/// Describes the violation if an isolated CPU works for another one, in the words of `what`.
pub(super) fn disturbed(is_isolated: bool, what: impl FnOnce() -> String) -> Option<String> {
    is_isolated.then(what)
}

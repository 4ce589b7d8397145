//! `isolated_undisturbed`: an isolated CPU fires no timer of another CPU, and no other CPU fires its timers (ISO-1).
//!
//! Checked when a CPU does either.

/// Describes the violation if an isolated CPU works for another one, in the words of `what`.
pub(super) fn disturbed(is_isolated: bool, what: impl FnOnce() -> String) -> Option<String> {
    is_isolated.then(what)
}

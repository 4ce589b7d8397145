//! `isolated_undisturbed`: an isolated CPU fires no timer of another CPU, and no other CPU fires its timers (ISO-1).
//!
//! Checked when a CPU fires a timer of another CPU.

/// Describes the violation if a CPU that fires a timer of another CPU, or that other CPU, is isolated; `what` describes
/// the case.
pub(super) fn disturbed(is_isolated: bool, what: impl FnOnce() -> String) -> Option<String> {
    is_isolated.then(what)
}

//! `never_early`: no timer fires before its deadline, by its own clock. A coarse timer does not fire before the tick for
//! which it was armed is over.
//!
//! Checked when a timer fires.

use std::fmt::Display;

/// Describes the violation if a timer, described by `whose`, fires `at` a time before the `earliest` one.
#[inline]
pub(super) fn fires<T: PartialOrd + Display>(
    earliest: T,
    at: T,
    whose: impl FnOnce() -> String,
) -> Option<String> {
    (at < earliest).then(|| {
        let whose = whose();
        format!("{whose} fires early, at {at}: it may fire from {earliest} on")
    })
}

//! `idle_stays_idle`: a CPU that sleeps is not woken by its own device before it asked to be.
//!
//! Looked at in each interrupt of a device.

use crate::model::time::Picos;

/// What is wrong with a device that fires at `at`, and was `asked` for another time, which it may miss by `slop`.
pub(crate) fn woken(at: Picos, asked: Picos, slop: Picos) -> Option<String> {
    (at + slop < asked).then(|| format!("its device wakes it at {at}, not at {asked}"))
}

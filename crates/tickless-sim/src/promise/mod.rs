//! The promises of the library, by name, and the form of a violation.
//!
//! Each has a file that says when it is checked, and whose functions describe its violations. They see plain values and
//! know no machine: the trace checker and the machine put these together, and the checker keeps the stories.

pub(crate) mod armed_not_later_than_first;
mod bounded_late;
pub(crate) mod canary;
pub(crate) mod cancel_means_not_running;
pub(crate) mod covered;
pub(crate) mod deterministic;
pub(crate) mod idle_stays_idle;
mod isolated_undisturbed;
pub(crate) mod lag_bounded;
pub(crate) mod ledger;
pub(crate) mod monotonic;
mod never_early;
mod never_lost;
pub(crate) mod one_device_write_per_interrupt;
pub(crate) mod one_migrator;
pub(crate) mod runtime_bounded;
pub(crate) mod runtime_given;
pub(crate) mod slice_ends;
pub(crate) mod trace_checker;

pub use canary::Canary;
use serde::Serialize;

use crate::model::time::Picos;

/// The promises that runs are checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// No timer fires before its time.
    NeverEarly,
    /// Every timer that was armed fires, is cancelled, or waits for a time that has not come.
    NeverLost,
    /// A timer fires within the bound of the scenario after it is due.
    BoundedLate,
    /// The device of a CPU fires when its first timer is due, or before (INV-1).
    ArmedNotLaterThanFirst,
    /// A timer interrupt writes its device once at most (INV-12).
    OneDeviceWritePerInterrupt,
    /// A group with active children has exactly one migrator, and that is one of them.
    OneMigrator,
    /// Every global time of a CPU that sleeps is looked after by another CPU.
    Covered,
    /// A CPU that is isolated runs no timer of another.
    IsolatedUndisturbed,
    /// A CPU that sleeps is not woken by its own device before it asked to be.
    IdleStaysIdle,
    /// A cancelled timer neither waits nor runs.
    CancelMeansNotRunning,
    /// The clock does not go back for any CPU.
    Monotonic,
    /// No task of a fair queue is owed more than a request, or owes more.
    LagBounded,
    /// A task of a fair queue is looked at again when its slice is over, if others wait.
    SliceEnds,
    /// A task of the deadline class has no more than its runtime in each period.
    RuntimeBounded,
    /// A task of the deadline class has its runtime by its deadline, and again in its next period.
    RuntimeGiven,
    /// The same seed gives the same run, to the byte.
    Deterministic,
}

impl Promise {
    /// All promises, in the order of their declaration.
    pub const ALL: [Self; 16] = [
        Self::NeverEarly,
        Self::NeverLost,
        Self::BoundedLate,
        Self::ArmedNotLaterThanFirst,
        Self::OneDeviceWritePerInterrupt,
        Self::OneMigrator,
        Self::Covered,
        Self::IsolatedUndisturbed,
        Self::IdleStaysIdle,
        Self::CancelMeansNotRunning,
        Self::Monotonic,
        Self::LagBounded,
        Self::SliceEnds,
        Self::RuntimeBounded,
        Self::RuntimeGiven,
        Self::Deterministic,
    ];

    /// Returns the name of the promise.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NeverEarly => "never_early",
            Self::NeverLost => "never_lost",
            Self::BoundedLate => "bounded_late",
            Self::ArmedNotLaterThanFirst => "armed_not_later_than_first",
            Self::OneDeviceWritePerInterrupt => "one_device_write_per_interrupt",
            Self::OneMigrator => "one_migrator",
            Self::Covered => "covered",
            Self::IsolatedUndisturbed => "isolated_undisturbed",
            Self::IdleStaysIdle => "idle_stays_idle",
            Self::CancelMeansNotRunning => "cancel_means_not_running",
            Self::Monotonic => "monotonic",
            Self::LagBounded => "lag_bounded",
            Self::SliceEnds => "slice_ends",
            Self::RuntimeBounded => "runtime_bounded",
            Self::RuntimeGiven => "runtime_given",
            Self::Deterministic => "deterministic",
        }
    }
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The promise that was broken.
    pub promise: Promise,
    /// The time of the violation.
    pub at: Picos,
    /// The CPU of the violation.
    pub cpu: u32,
    /// The description of the violation.
    pub what: String,
}

//! The promises of the library, by name, and the form of a violation.
//!
//! Each promise has a file that states when it is checked, and whose functions describe its violations. These functions
//! get plain values and know no machine. The machine and the checker of its events supply the values in a run, and
//! [`trace`] supplies those of a recorded trace.

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
pub mod trace;
pub(crate) mod trace_checker;

pub use canary::Canary;
use serde::Serialize;

use crate::model::time::Picos;

/// The promises that each run is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// No timer fires before its time.
    NeverEarly,
    /// Every armed timer fires, is cancelled, or waits for a time that has not come.
    NeverLost,
    /// A timer fires no later after its deadline than the scenario allows.
    BoundedLate,
    /// The device of a CPU fires no later than the CPU's first timer is due (INV-1).
    ArmedNotLaterThanFirst,
    /// A timer interrupt writes its device once at most (INV-12).
    OneDeviceWritePerInterrupt,
    /// A group with active children has exactly one migrator, which is one of them.
    OneMigrator,
    /// Another CPU has the duty of firing every global timer of a sleeping CPU.
    Covered,
    /// An isolated CPU fires no timer of another CPU.
    IsolatedUndisturbed,
    /// The device of a sleeping CPU does not wake it before the time that the CPU requested.
    IdleStaysIdle,
    /// A cancelled timer is neither queued nor running.
    CancelMeansNotRunning,
    /// The clock goes back on no CPU.
    Monotonic,
    /// No task of a fair queue is owed more than a request, or owes more than a request.
    LagBounded,
    /// The scheduler checks a task of a fair queue at the end of its slice, if other tasks wait.
    SliceEnds,
    /// A task of the deadline class does not run for longer than its runtime in each period.
    RuntimeBounded,
    /// A task of the deadline class gets its runtime before its deadline in each period.
    RuntimeGiven,
    /// Two runs with the same seed are identical to the byte.
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

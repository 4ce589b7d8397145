//! The groups of measurements, by name.

use crate::harness::{Options, Sink};

mod behind_sleeps;
mod clock;
mod delay_queue;
pub(crate) mod executor;
mod handover;
mod lateness;
mod locks;
mod poll;
mod restart;
mod sleep;
mod wheel;

/// A function that measures a set of groups.
pub(crate) type Measure = fn(&Options, Sink<'_>);

/// All sets of groups, by name.
pub(crate) const ALL: &[(&str, Measure)] = &[
    ("restart-in-place", restart::in_place),
    ("sleep", sleep::arm_and_cancel),
    ("reset", sleep::reset),
    ("reset-behind-sleeps", behind_sleeps::measure),
    ("timeout-ready", sleep::timeout_ready),
    ("handover", handover::measure),
    ("poll", poll::measure),
    ("base-lock", locks::measure),
    ("wheel-arm-and-delete", wheel::arm_and_delete),
    ("wheel-expire", wheel::expire),
    ("clock", clock::measure),
    ("executor", executor::measure),
    ("delay-queue", delay_queue::measure),
    ("lateness", lateness::measure),
];

//! The parts of a rig: its host, and the rig's own record of each CPU.

use core::cell::Cell;

use crate::host::{Host, Placement};
use crate::prelude::*;

/// The duration of a tick, in nanoseconds of true time.
pub const TICK: i64 = 1_000_000;

/// The rig's own record of a CPU, in addition to that of its host.
#[derive(Debug, Default)]
pub(crate) struct Cpu {
    /// True while timer delivery is masked.
    pub(crate) masked: Cell<bool>,
    /// The flag that return paths test (spec REARM-9).
    pub(crate) rearm_owed: Cell<bool>,
    /// The depth of nested interrupts.
    pub(crate) depth: Cell<u32>,
    pub(crate) placement: Cell<Placement>,
    /// The number of writes to the CPU's device before the suite began.
    pub(crate) written: Cell<u64>,
}

/// A host, and the rig's records of its CPUs.
pub(crate) struct Parts<H: Host> {
    pub(crate) host: H,
    pub(crate) cpus: Vec<Cpu>,
}

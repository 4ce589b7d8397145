//! `armed_not_later_than_first`: the device of a CPU fires when its first timer is due, or before (INV-1).
//!
//! Looked at when a CPU has done what an event made it do.

use crate::model::time::Picos;

/// When the first timer of a CPU is due, and what its device does about it.
pub(crate) struct Armed {
    /// When the first timer is due.
    pub(crate) due: Picos,
    /// How far the CPU has got.
    pub(crate) cursor: Picos,
    /// When the last write of what interrupts the CPU was done.
    pub(crate) written: Picos,
    /// By how much a device may miss a time, because the clock changed since it was written.
    pub(crate) slop: Picos,
    /// By how much the device fires later than it was told, because it counts in steps.
    pub(crate) rounding: Picos,
    /// When the CPU is interrupted.
    pub(crate) fires: Picos,
}

impl Armed {
    /// What is wrong: nothing fires before its write is done, and a clock may be steered from then on.
    pub(crate) fn is_late(&self) -> Option<String> {
        let latest = self.due.max(self.cursor).max(self.written) + self.slop;
        let fires = self.fires;
        (fires > latest + self.rounding)
            .then(|| format!("the first timer is due at {latest}, the device fires at {fires}"))
    }
}

//! `armed_not_later_than_first`: the device of a CPU fires no later than the CPU's first timer is due (INV-1).
//!
//! Checked when a CPU has finished the work of an event.

use crate::model::time::Picos;

/// The due time of a CPU's first timer, and the state of its device.
pub(crate) struct Armed {
    /// The due time of the first timer.
    pub(crate) due: Picos,
    /// The time up to which the CPU has executed.
    pub(crate) cursor: Picos,
    /// The time at which the last write for the CPU's interrupt was done.
    pub(crate) written: Picos,
    /// The delay that the device may have because its counter advances in steps.
    pub(crate) rounding: Picos,
    /// The time at which the CPU is interrupted.
    pub(crate) fires: Picos,
}

impl Armed {
    /// Describes the violation if the CPU is interrupted too late. No device fires before its write is done. A clock
    /// may be steered after the write: `slop` computes the device's error from that, and is called only if the device
    /// is late without it.
    #[inline]
    pub(crate) fn is_late(&self, slop: impl FnOnce() -> Picos) -> Option<String> {
        let (fires, latest) = (self.fires, self.due.max(self.cursor).max(self.written));
        if fires <= latest + self.rounding {
            return None;
        }
        let latest = latest + slop();
        (fires > latest + self.rounding)
            .then(|| format!("the first timer is due at {latest}, the device fires at {fires}"))
    }
}

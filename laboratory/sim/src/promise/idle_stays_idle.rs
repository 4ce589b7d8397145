//! `idle_stays_idle`: the device of a sleeping CPU does not wake it before the time that the CPU requested.
//!
//! Checked in each interrupt of a device.

use crate::model::time::Picos;

/// A device that is left armed for a timer that is no longer queued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeftArmed {
    /// The time for which the device is armed.
    pub(crate) fires: Picos,
    /// The time at which the device was written for that time.
    pub(crate) written: Picos,
}

/// Describes the violation if a device, last written at `written`, wakes its CPU at `at`, before the requested time
/// `asked`. The device may miss the requested time by `slop`.
///
/// A CPU that expected a short sleep may have left its device armed for a timer that is no longer queued (spec LAZY-7).
/// The device then fires without a due timer, with the usual delay of a device. That is allowed only for the time for
/// which the device was left armed, and only once in a sleep: the caller forgets the left-over time when the device
/// fires, because the interrupt arms the device for the first deadline.
pub(crate) fn woken(
    at: Picos,
    asked: Picos,
    slop: Picos,
    written: Picos,
    left: Option<LeftArmed>,
) -> Option<String> {
    let is_left = |left: LeftArmed| left.written == written && at + slop >= left.fires;
    let is_lazy = left.is_some_and(is_left);
    (at + slop < asked && !is_lazy).then(|| format!("its device wakes it at {at}, not at {asked}"))
}

#[cfg(test)]
mod tests {
    use super::{LeftArmed, woken};
    use crate::model::time::Picos;

    #[test]
    fn a_device_that_was_left_armed_wakes_its_cpu_for_that_alone() {
        let at = Picos::from_micros;
        let left = Some(LeftArmed {
            fires: at(100),
            written: at(10),
        });
        let kept = |fires, written, left| {
            woken(at(fires), at(900), Picos::ZERO, at(written), left).is_none()
        };
        assert!(!kept(100, 10, None) && kept(900, 10, None));
        assert!(kept(100, 10, left) && kept(103, 10, left), "it is late");
        assert!(!kept(99, 10, left), "it is early");
        assert!(!kept(100, 20, left), "it was written meanwhile");
    }
}

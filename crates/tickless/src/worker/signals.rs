//! Workers with a device that interrupts them by a signal while they compute.
//!
//! The device is a POSIX timer; after it has fired it is not set any more. The signal handler notes the signal and
//! requests that the worker schedules. So each signal needs two answers: a turn for the timers that are due, and a new
//! setting of the device if the turn found nothing to do.
//!
//! ```text
//!   handler   note the signal       ask to schedule
//!   worker    take_signalled        turn, if is_due_behind_signal        set_behind_signal
//!             take back what asked to schedule
//!             knows_of_signal, or ask again
//! ```
//!
//! A signal after `take_signalled` is answered by the next schedule, so its request must not be cancelled together with
//! an earlier request: the task that runs next would never give the worker back.

use std::io;

use super::Worker;
use crate::host::device;
use crate::host::thread::now_lower;

impl Worker {
    /// Starts a POSIX timer that interrupts the worker while it computes, until [`end_signals`](Self::end_signals).
    pub(crate) fn begin_signals(&self) -> io::Result<()> {
        let signal = &self.base().local().device.signal;
        signal.begin(device::on_signal)?;
        // What was started before is set now.
        device::renew(self.base());
        Ok(())
    }

    /// Ends the interrupts of the worker by the POSIX timer.
    pub(crate) fn end_signals(&self) {
        self.base().local().device.signal.end();
    }

    /// Works as [`is_due_at`](Self::is_due_at), after a signal: the clock of the library may be slightly behind the
    /// kernel's clock, and a POSIX timer that fired is not set any more.
    pub(crate) fn is_due_behind_signal(&self) -> bool {
        const BEHIND: u64 = 2_000;
        loop {
            let now = now_lower();
            let due = device::due_but_coarse(self.base());
            if due <= now {
                return true;
            }
            if due.saturating_since(now).as_nanos() > BEHIND {
                // It was set for another time since.
                return false;
            }
            std::hint::spin_loop();
        }
    }

    /// Returns true if a signal came since the last call. The caller sets the POSIX timer
    /// [again](Self::set_behind_signal).
    #[inline]
    pub(crate) fn take_signalled(&self) -> bool {
        let signal = &self.base().local().device.signal;
        let came = signal.take_signalled();
        if came {
            // It fired, so it is not set any more, if it was not set since.
            signal.use_up();
        }
        came
    }

    /// Returns true if a signal that was not [taken](Self::take_signalled) yet still requests a reschedule.
    pub(crate) fn knows_of_signal(&self) -> bool {
        let local = self.base().local();
        // In this order: the handler notes the signal first, and asks then.
        !local.device.signal.is_signalled() || local.resched.is_requested()
    }

    /// Sets the POSIX timer after a signal and its turn, if the turn found nothing due. The signal comes by the
    /// kernel's clock, and the turn uses a clock that is never ahead of the kernel's clock: without a new setting, a
    /// timer that is due a moment later would not fire.
    pub(crate) fn set_behind_signal(&self) {
        let device = &self.base().local().device;
        // Nothing is programmed where the rearm is deferred: its flush sets the timer.
        if device.signal.is_used_up() && !device.due().is_forever() {
            device::renew(self.base());
        }
    }
}

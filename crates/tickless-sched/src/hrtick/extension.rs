//! A short delay of a preemption, on request of the running task.
//!
//! A task that is about to leave a short critical section asks for [20 µs](EXTENSION) more. When its slice ends
//! meanwhile, the host grants the extension in place of the reschedule, once until the task is picked again. The slice
//! tick ends the extension. A task that leaves its section earlier notifies the host, and gives up the CPU at once if
//! it used the extension.
//!
//! The grant takes the place of the scheduler at the end of an interrupt, so it has to carry out the deferred rearm of
//! the device, which the scheduler would have done (FLUSH-7). Interrupts are enabled at that point, and
//! [`SliceTimer::flush`] masks them around the flush (B6).

use tickless_core::event::Flush;
use tickless_core::time::Span;

use super::{HrTick, SliceTimer};

/// The length of an extension: 20 µs.
pub const EXTENSION: Span = Span::from_micros(20);

/// The state of the running task's request for an extension. It belongs to the run queue, like the [tick](HrTick).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extension {
    /// The task has no extension.
    #[default]
    None,
    /// The task requests an extension, in case its slice ends.
    Asked,
    /// The task was given an extension.
    Granted,
}

impl Extension {
    /// Requests an extension, in case the slice of the running task ends before it [withdraws](Self::withdraw) the
    /// request. A granted one stays granted.
    pub fn ask(&mut self) {
        if *self == Self::None {
            *self = Self::Asked;
        }
    }

    /// Withdraws the request. Returns true if the task has to give way at once, because its slice ended and the
    /// extension was granted.
    #[must_use]
    pub fn withdraw(&mut self) -> bool {
        match *self {
            Self::Granted => true,
            Self::None | Self::Asked => {
                *self = Self::None;
                false
            }
        }
    }

    /// Grants the extension at a pending reschedule, with interrupts enabled. Returns true if the reschedule is delayed
    /// by [`EXTENSION`], because the task requested that and had no extension before.
    ///
    /// It then starts the tick and programs the device. If the class of the task has no ticks, nothing would end the
    /// extension, so none is granted: `ticks` is [`HrTick::fair_is_on`] or [`HrTick::deadline_is_on`].
    pub fn grant(&mut self, ticks: bool, tick: &mut HrTick, timer: &impl SliceTimer) -> bool {
        if *self != Self::Asked || !ticks {
            return false;
        }
        *self = Self::Granted;
        tick.start(EXTENSION, timer);
        timer.flush(Flush::SliceExtension);
        true
    }

    /// Forgets the request, because another task was picked, or the same task was picked again.
    pub fn picked(&mut self) {
        *self = Self::None;
    }
}

//! The time at which a CPU's device is written: as in the library, or as in earlier designs.
//!
//! Both baselines use only calls of the core that every host may make. *Immediate* is a host that reaches its flush
//! point as soon as the interrupt has run what was due, and that restarts a queued timer by cancelling it first, so
//! that both the cancellation and the start rearm the device. *Eager* is a host that never asks for lazy rearm.

use std::pin::Pin;

use serde::{Deserialize, Serialize};
use tickless_core::Platform;
use tickless_core::base::Timers;
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Stage};
use tickless_core::time::ClockId;

/// The time at which the device is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rearm {
    /// The device is written once for each interrupt, when the next task is known. A lazy timer that moves later or is
    /// cancelled leaves the device as it is (spec ). This is the library's policy.
    #[default]
    Deferred,
    /// The device is written at the end of the expiry in each interrupt, and at each change of the first timer. A
    /// restart dequeues the timer and enqueues it, with up to two writes. No timer is lazy.
    Immediate,
    /// The device is written once for each interrupt, and at once when the first timer moves later or is cancelled: no
    /// timer is lazy.
    Eager,
}

impl Rearm {
    /// Returns the setup of a timer that the library makes lazy.
    pub(crate) const fn lazy_setup(self) -> Setup {
        let setup = Setup::new().stage(Stage::Hard);
        match self {
            Self::Deferred => setup.lazy(),
            Self::Immediate | Self::Eager => setup,
        }
    }

    /// Prepares the start of a timer, as the policy requires.
    #[inline]
    pub(crate) fn before_start<P, F, C>(self, timers: &Timers<P>, timer: Pin<&HrTimer<F, C>>)
    where
        P: Platform,
        F: FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
        C: ClockId,
    {
        if self == Self::Immediate && timer.is_queued() {
            let _was = timer.try_cancel(timers);
        }
    }
}

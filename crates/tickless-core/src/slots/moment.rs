//! The host's *moments*: intervals in which one clock reading is recent enough to advance the clock of a wheel.

use crate::time::Instant;

/// A time that has passed, see [`Moments::recent`].
#[derive(Clone, Copy, Debug)]
pub struct Recent {
    /// The number of the moment to which the time belongs, if the moment has a number.
    pub moment: Option<u64>,
    /// A time that has passed.
    pub now: Instant,
}

/// The methods of a [`Platform`](crate::platform::Platform) that concern the present time.
pub trait Moments {
    /// Returns the number of the present moment, if the host knows it without reading a clock.
    fn moment(&self) -> Option<u64>;
    /// Returns a time that has passed and belongs to the present moment.
    fn recent(&self) -> Recent;
}

/// Moments and times that are set by hand.
#[cfg(all(test, not(loom)))]
#[derive(Debug, Default)]
pub(crate) struct ByHand {
    pub(crate) moment: core::cell::Cell<Option<u64>>,
    /// True if [`recent`](Moments::recent) returns the number of the moment.
    pub(crate) is_numbered: core::cell::Cell<bool>,
    pub(crate) now: core::cell::Cell<i64>,
}

#[cfg(all(test, not(loom)))]
impl Moments for ByHand {
    fn moment(&self) -> Option<u64> {
        self.moment.get()
    }
    fn recent(&self) -> Recent {
        Recent {
            moment: self.moment.get().filter(|_| self.is_numbered.get()),
            now: Instant::from_nanos(self.now.get()),
        }
    }
}

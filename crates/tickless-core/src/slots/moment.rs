//! The update of a pending map: a time that is over, read once in a while.

use crate::time::Instant;

/// A time that is over, see [`Moments::recent`].
#[derive(Clone, Copy, Debug)]
pub struct Recent {
    /// The moment to which it belongs, if that has a number.
    pub moment: Option<u64>,
    /// The time.
    pub now: Instant,
}

/// The part of a [`Platform`](crate::platform::Platform) that is about the present time.
pub trait Moments {
    /// The number of the moment that it is, if that is known without reading a clock.
    fn moment(&self) -> Option<u64>;
    /// A time that is over and belongs to the present moment.
    fn recent(&self) -> Recent;
}

/// Moments and times that are set by hand.
#[cfg(all(test, not(loom)))]
#[derive(Debug, Default)]
pub(crate) struct ByHand {
    pub(crate) moment: core::cell::Cell<Option<u64>>,
    /// True if a time is numbered as one of the moment.
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

//! The settings of a task: weight, slice and name.

use std::sync::Arc;
use std::time::Duration;

use tickless_core::time::Span;
use tickless_sched::Request;
pub use tickless_sched::Weight;

/// The time for which a task wants to run without interruption. A task with a shorter slice runs sooner and is
/// preempted sooner, and gets the same share.
///
/// Choose the slice by the time that the task computes at each wake-up, not by how often it wakes up, because a long
/// slice lets other tasks run first. A task that computes 20 µs each millisecond has a slice of 20 µs.
///
/// Values outside of [`MIN`](Self::MIN) to [`MAX`](Self::MAX) become the nearest of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slice(u64);

impl Slice {
    /// The shortest slice: 10 µs.
    pub const MIN: Self = Self(10_000);
    /// The slice of a task for which no other slice was set: 3 ms.
    pub const DEFAULT: Self = Self(3_000_000);
    /// The longest slice: 100 ms.
    pub const MAX: Self = Self(100_000_000);

    /// Makes a slice. A duration below [`MIN`](Self::MIN), zero among others, becomes the shortest slice; a duration
    /// above [`MAX`](Self::MAX) becomes the longest.
    #[must_use]
    pub const fn new(slice: Duration) -> Self {
        Self(clamp(slice, Self::MIN.0, Self::MAX.0))
    }

    /// Returns the slice as a duration.
    #[must_use]
    pub const fn get(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    pub(crate) const fn request(self) -> Request {
        Request::clamped(Span::from_nanos(self.0))
    }
}

impl Default for Slice {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The weight, slice and name of a task, for [`spawn_with`](super::Executor::spawn_with).
///
/// ```
/// use std::time::Duration;
/// use tickless::task::{Slice, Spec, Weight};
///
/// let spec = Spec::new().name("sound").weight(Weight::UNIT.times(4)).slice(Slice::new(Duration::from_micros(200)));
/// # let _ = spec;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Spec {
    pub(crate) weight: Weight,
    pub(crate) slice: Option<Slice>,
    pub(crate) name: Option<Arc<str>>,
}

impl Spec {
    /// Makes the default settings: default weight, the slice of the executor, no name.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            weight: Weight::UNIT,
            slice: None,
            name: None,
        }
    }

    /// Sets the weight of the task, which determines its share of the worker.
    #[must_use]
    pub fn weight(mut self, weight: Weight) -> Self {
        self.weight = weight;
        self
    }

    /// Sets the time for which the task wants to run without interruption.
    #[must_use]
    pub fn slice(mut self, slice: Slice) -> Self {
        self.slice = Some(slice);
        self
    }

    /// Sets the name of the task in reports.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl From<Weight> for Spec {
    fn from(weight: Weight) -> Self {
        Self::new().weight(weight)
    }
}

impl From<Slice> for Spec {
    fn from(slice: Slice) -> Self {
        Self::new().slice(slice)
    }
}

/// Returns the nanoseconds of `duration`, clamped to the range.
const fn clamp(duration: Duration, least: u64, most: u64) -> u64 {
    let nanos = duration.as_nanos();
    if nanos < least as u128 {
        least
    } else if nanos > most as u128 {
        most
    } else {
        #[expect(clippy::cast_possible_truncation, reason = "at most `most`")]
        {
            nanos as u64
        }
    }
}

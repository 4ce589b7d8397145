//! Clocks: the current time, and the jumps of clocks that are set.
//!
//! Every queue finally compares times on the monotonic clock. Each other clock is the monotonic clock plus an
//! [`Offset`] (spec ), and each CPU base keeps a copy of the three offsets, which it refreshes under its own lock.
//! When a clock jumps, the [`SetSequence`] increases, and every base with an older copy must check its queues again
//! (spec ).
//!
//! [`Timekeeper`] computes the monotonic time from a free-running counter, for hosts that have no operating system
//! below them. In user space the operating system keeps the time. There the host reads the current time and the changes
//! of the offsets from the operating system.

use crate::time::{Clock, Offset};

pub mod combined;
#[cfg(feature = "kernel")]
mod counter;
pub mod follow;
#[cfg(feature = "kernel")]
mod switch;
#[cfg(feature = "kernel")]
mod timekeeper;
#[cfg(feature = "kernel")]
pub mod watchdog;

#[cfg(feature = "kernel")]
pub use counter::{BadCounter, Counter};
#[cfg(feature = "kernel")]
pub use switch::{Counters, GuardedClock, SwitchHost, Switched};
#[cfg(feature = "kernel")]
pub use timekeeper::{Keeper, KeeperCounts, Slept, Timekeeper};

/// The identity of a counter. A device that compares with a counter uses this identity to check if the same counter
/// drives the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CounterId(pub u32);

/// A count of the jumps of the clocks. A base that has seen the present count has the present offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SetSequence(u64);

impl SetSequence {
    /// The count before any jump.
    pub const START: Self = Self(0);
    /// A value that matches no jump: a query for changes since then always returns the offsets.
    pub const UNSEEN: Self = Self(u64::MAX);

    /// Returns the count after one more jump.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    #[cfg(feature = "kernel")]
    pub(crate) const fn from_word(word: u64) -> Self {
        Self(word)
    }

    #[cfg(feature = "kernel")]
    pub(crate) const fn word(self) -> u64 {
        self.0
    }
}

/// The offsets of all clocks from the monotonic one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offsets {
    /// The offset of the time of day.
    pub realtime: Offset,
    /// The time spent suspended.
    pub boottime: Offset,
    /// The offset of international atomic time: the offset of the time of day plus the leap seconds so far.
    pub tai: Offset,
}

impl Offsets {
    /// Returns the offset of one clock.
    #[must_use]
    pub const fn of(&self, clock: Clock) -> Offset {
        match clock {
            Clock::Monotonic => Offset::NONE,
            Clock::Realtime => self.realtime,
            Clock::Boottime => self.boottime,
            Clock::Tai => self.tai,
        }
    }
}

/// A set of clocks, for example the clocks that jumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSet(u8);

impl ClockSet {
    /// The clocks that jump when the time of day is set: the time of day and international atomic time (spec TIM-29).
    pub const WALL: Self = Self::of(Clock::Realtime).with(Clock::Tai);
    /// The clocks that jump when the machine wakes from a sleep: all but the monotonic clock (spec TIM-29).
    pub const SLEEP: Self = Self::WALL.with(Clock::Boottime);

    /// Makes the set that contains only `clock`.
    #[must_use]
    pub const fn of(clock: Clock) -> Self {
        Self(1 << clock as u8)
    }

    /// Returns this set of clocks with `clock` added.
    #[must_use]
    pub const fn with(self, clock: Clock) -> Self {
        Self(self.0 | 1 << clock as u8)
    }

    /// Returns true if the clock is in the set.
    #[must_use]
    pub const fn contains(self, clock: Clock) -> bool {
        self.0 & (1 << clock as u8) != 0
    }
}

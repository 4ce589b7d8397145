//! The life cycle of an entry, stored in one byte.

use core::fmt;

/// The life cycle of an entry, as any thread may read it.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct State(u8);

impl State {
    pub(super) const QUEUED: u8 = 1;
    pub(super) const RUNNING: u8 = 2;
    const ACTIVE: u8 = Self::QUEUED | Self::RUNNING;
    pub(super) const SHUT: u8 = 4;

    /// Makes the state that `bits` encode.
    #[inline]
    pub(super) const fn of(bits: u8) -> Self {
        Self(bits)
    }

    /// Returns true if the entry is neither queued nor running.
    #[inline]
    #[must_use]
    pub const fn is_idle(self) -> bool {
        self.0 & Self::ACTIVE == 0
    }

    /// Returns true if the entry is queued in a queue or moving between two, and its callback does not execute.
    #[inline]
    #[must_use]
    pub const fn is_only_queued(self) -> bool {
        self.0 & Self::ACTIVE == Self::QUEUED
    }

    /// Returns true if the queued bit is the only bit of the state: the entry is linked in a queue, or moves between
    /// two.
    #[inline]
    pub(crate) const fn is_just_queued(self) -> bool {
        self.0 == Self::QUEUED
    }

    /// Returns true if the entry was shut down: its queue will not take it again.
    #[inline]
    #[must_use]
    pub const fn is_shut(self) -> bool {
        self.0 & Self::SHUT != 0
    }

    /// Returns true if the entry is queued in a queue or moving between two.
    #[inline]
    #[must_use]
    pub const fn is_queued(self) -> bool {
        self.0 & Self::QUEUED != 0
    }

    /// Returns true if the entry is idle, and was not shut down.
    #[inline]
    #[must_use]
    pub const fn is_fresh(self) -> bool {
        self.0 == 0
    }

    /// Returns true if the callback of the entry executes.
    #[inline]
    #[must_use]
    pub const fn is_running(self) -> bool {
        self.0 & Self::RUNNING != 0
    }
}

impl fmt::Debug for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match (self.is_queued(), self.is_running()) {
            (false, false) => "Idle",
            (true, false) => "Queued",
            (false, true) => "Running",
            (true, true) => "RunningAndQueued",
        })
    }
}

//! The modification of a coarse timer.

use crate::slots::geometry::Tick;
use crate::start_outcome::StartOutcome;

/// Modes of a modification: for which timers, queued or not, it has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Modify {
    Always,
    IfActive,
    /// The timer may only move to an earlier time.
    Reduce,
}

impl Modify {
    /// Returns true if a modification for `expiry` does not change a timer that is queued for `current`.
    #[inline]
    pub(super) fn leaves(self, current: Tick, expiry: Tick) -> bool {
        current == expiry || (self == Self::Reduce && current < expiry)
    }

    /// Returns the outcome for a queued timer that the modification [leaves](Self::leaves) as it is.
    #[inline]
    pub(super) const fn left_queued(self) -> StartOutcome {
        match self {
            // It has the time that it was to have.
            Self::Always | Self::IfActive => StartOutcome::Restarted,
            Self::Reduce => StartOutcome::Unchanged,
        }
    }
}

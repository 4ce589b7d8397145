//! Quiet entries of bucket arrays: they are idle or queued, and neither running nor shut down.
//!
//! Nearly all entries are quiet. An operation on a quiet entry need not check the state again, because only the thread
//! that holds the bucket array mutably changes the state, through the [`Bucketed`] that was checked.

use core::fmt;

use super::{BUCKETS, BucketState, Bucketed, End};
use crate::entry::{EntryRef, Family};

/// An entry whose callback does not run, and that was not shut down.
#[derive(Debug)]
pub enum Quiet<'s, 'e, F: Family, const LEVELS: usize> {
    /// The entry is idle.
    Idle(Idle<'s, 'e, F, LEVELS>),
    /// The entry is queued.
    Queued(Queued<'s, 'e, F, LEVELS>),
}

impl<'s, 'e, F: Family, const LEVELS: usize> Bucketed<'s, 'e, F, LEVELS> {
    /// Returns the entry as idle or queued; `None` if its callback runs, or it was shut down.
    #[inline]
    #[must_use]
    pub fn quiet(self) -> Option<Quiet<'s, 'e, F, LEVELS>> {
        let state = self.state();
        if state.is_fresh() {
            return Some(Quiet::Idle(Idle(self)));
        }
        state
            .is_just_queued()
            .then_some(Quiet::Queued(Queued(self)))
    }
}

/// An entry that is idle, and was not shut down.
pub struct Idle<'s, 'e, F: Family, const LEVELS: usize>(Bucketed<'s, 'e, F, LEVELS>);

impl<'e, F: Family, const LEVELS: usize> Idle<'_, 'e, F, LEVELS> {
    /// Returns the entry.
    #[inline]
    #[must_use]
    pub const fn entry(&self) -> EntryRef<'e, F> {
        self.0.entry
    }

    /// Adds the entry at the end of a list.
    ///
    /// # Panics
    ///
    /// When there is no list of that number.
    #[inline]
    pub fn insert(self, list: usize) {
        let Bucketed { buckets, entry } = self.0;
        buckets.put(entry, list, End::Back);
        entry.mark_queued_only();
    }
}

/// An entry that is queued; its callback does not run, and it was not shut down.
pub struct Queued<'s, 'e, F: Family, const LEVELS: usize>(Bucketed<'s, 'e, F, LEVELS>);

impl<'e, F: Family, const LEVELS: usize> Queued<'_, 'e, F, LEVELS> {
    /// Returns the entry.
    #[inline]
    #[must_use]
    pub const fn entry(&self) -> EntryRef<'e, F> {
        self.0.entry
    }

    /// Returns the number of the entry's list; see [`Bucketed::list`].
    #[inline]
    #[must_use]
    pub fn list(&self) -> usize {
        usize::from(self.0.entry.place.get())
    }

    /// Returns true if the entry is in the bucket with this number; see [`Bucketed::is_on`].
    #[inline]
    #[must_use]
    pub fn is_on(&self, list: usize) -> bool {
        self.list() == list && self.0.buckets.pending[list / BUCKETS].is_none()
    }

    /// Moves the entry to another bucket; see [`Bucketed::move_to`].
    ///
    /// # Panics
    ///
    /// When there is no list of that number.
    #[inline]
    pub fn move_to(self, list: usize) -> BucketState {
        let Bucketed { buckets, entry } = self.0;
        let left = buckets.unlink(entry);
        buckets.put(entry, list, End::Back);
        left
    }

    /// Removes the entry, which is idle afterwards.
    #[inline]
    pub fn remove(self) -> BucketState {
        let Bucketed { buckets, entry } = self.0;
        let left = buckets.unlink_here(entry);
        entry.mark_idle();
        left
    }
}

impl<F: Family, const LEVELS: usize> fmt::Debug for Idle<'_, '_, F, LEVELS> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Idle").field(&self.0).finish()
    }
}

impl<F: Family, const LEVELS: usize> fmt::Debug for Queued<'_, '_, F, LEVELS> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Queued").field(&self.0).finish()
    }
}

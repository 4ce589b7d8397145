//! The move of an entry from one queue to another.

use core::fmt;

use super::{EntryRef, Family};
use crate::id::{self, QueueId};

/// An entry on its way from one queue to another.
///
/// No queue can open the entry while it travels: a thread that looks for its owner finds
/// [`Owner::Transit`](super::Owner::Transit) and looks again (spec LOC-3). Losing the token would lose the timer, so
/// dropping it ends the process: let it be admitted by a [tree](crate::tree::Tree::admit) or a [bucket
/// array](crate::buckets::BucketArray::admit).
#[must_use = "an entry in transit must arrive"]
pub struct Transit<'a, F: Family> {
    entry: EntryRef<'a, F>,
}

impl<'a, F: Family> Transit<'a, F> {
    pub(crate) fn depart(entry: EntryRef<'a, F>) -> Self {
        entry.owner.set(id::TRANSIT);
        Self { entry }
    }

    pub(crate) fn arrive(self, id: QueueId) -> EntryRef<'a, F> {
        let entry = self.entry;
        core::mem::forget(self);
        entry.hand_over(id);
        entry
    }
}

impl<F: Family> Drop for Transit<'_, F> {
    fn drop(&mut self) {
        crate::abort("a timer was lost between two queues");
    }
}

impl<F: Family> fmt::Debug for Transit<'_, F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Transit").field(&self.entry).finish()
    }
}

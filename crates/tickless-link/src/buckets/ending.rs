//! Entries that leave a bucket array and will not be used again.

use core::cell::Cell;

use super::{BucketArray, BucketState};
use crate::end::{Dropping, End};
use crate::entry::{Entry, Family, Member};

impl<F: Family, const LEVELS: usize> BucketArray<F, LEVELS> {
    /// Removes a queued entry that will not be used again. Returns its guarded data, and the new state of its list.
    ///
    /// Removes the entry and drops it, with fewer stores and checks than both separately.
    ///
    /// # Errors
    ///
    /// Returns the unchanged entry if it belongs to another queue, is not queued, or its callback runs.
    #[inline(always)]
    pub fn end<'v, M>(
        &mut self,
        entry: Dropping<'v, Entry<F, M>>,
    ) -> End<'v, Entry<F, M>, (M::Guarded, BucketState)>
    where
        M: Member<F> + Send + 'static,
    {
        let linked = entry.as_ref().erase();
        if !linked.belongs_to(self.id()) || !linked.state().is_only_queued() {
            return Err(entry);
        }
        let left = self.unlink_with(linked, Cell::get);
        // SAFETY: the entry was in this queue and nowhere else (Live Link Invariant), and is not any more; it does not
        // run.
        let (guarded, ended) = unsafe { Entry::end(entry) };
        Ok(((guarded, left), ended))
    }
}

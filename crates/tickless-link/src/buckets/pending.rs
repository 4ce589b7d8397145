//! Expiry of many entries at the front of a pending list at once.

use super::BucketArray;
use crate::entry::{EntryRef, Family};

impl<F: Family, const LEVELS: usize> BucketArray<F, LEVELS> {
    /// Returns true if the first entry of the pending list of `level` expires without a call in every case.
    ///
    /// # Panics
    ///
    /// When there is no such level.
    #[inline]
    #[must_use]
    pub fn first_pending_is_taken(&self, level: usize) -> bool {
        let first = self.follow(self.first_of(self.pending[level]));
        first.is_some_and(EntryRef::is_taken)
    }

    /// [Expires](crate::entry::Member::expire) entries of the pending list of `level` whose expiry
    /// [takes](crate::entry::Always::TAKEN) their token, from the first on, and moves the tokens into `places`. Ends
    /// before the first entry of another kind, or for which `is_due` returns false. The old value of a place may be in
    /// an idle entry afterwards.
    ///
    /// Returns the number of entries.
    ///
    /// # Panics
    ///
    /// When there is no such level.
    pub fn take_pending(
        &mut self,
        level: usize,
        is_due: impl Fn(&F::Shared) -> bool,
        places: &mut [F::Token],
    ) -> usize {
        let last = self.pending[level];
        let (mut first, mut count) = (self.first_of(last), 0);
        for place in places {
            // SAFETY: Live Link Invariant: it is a link of this queue, which stays borrowed.
            let Some(entry) = (unsafe { EntryRef::<F>::follow(first) }) else {
                break;
            };
            if !entry.is_taken() || !is_due(entry.shared()) {
                break;
            }
            let next = entry.next.take();
            entry.previous.set(None);
            first = next.filter(|_| entry.link() != last);
            count += 1;
            // SAFETY: the queue is borrowed mutably and owns the entry, which is no more linked: the links of others to
            // it are replaced below, and not followed before.
            unsafe { entry.take(place) };
        }
        self.len -= count;
        match self.follow(first) {
            None => self.pending[level] = None,
            Some(entry) => {
                entry.previous.set(None);
                if let Some(last) = self.follow(last) {
                    last.next.set(first);
                }
            }
        }
        count
    }
}

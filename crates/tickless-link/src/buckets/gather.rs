//! Gathering: entries of several lists that go to a tree together.

use super::{BUCKETS, BucketArray, BucketState};
use crate::entry::{EntryRef, Family, Link};

/// The level whose pending list is what was gathered.
const GATHERED: usize = 0;

impl<F: Family, const LEVELS: usize> BucketArray<F, LEVELS> {
    /// Moves those entries of a list of which `is_meant` is true to the pending list of the first level, behind what
    /// was gathered before, in their order. The others stay, in theirs. Looks at no more than `limit`.
    ///
    /// Until [`Tree::receive`](crate::tree::Tree::receive) queues them elsewhere they are queued here, with the number
    /// of the first list.
    ///
    /// # Panics
    ///
    /// When there is no list of that number, or the callback of an entry runs: it may not change queues then.
    #[inline]
    pub fn gather(
        &mut self,
        list: usize,
        limit: u32,
        mut is_meant: impl FnMut(&F::Head) -> bool,
    ) -> Gathered {
        let last = self.levels[list / BUCKETS][list % BUCKETS];
        let mut gathered = Line::of(self, self.pending[GATHERED]);
        let mut kept = Line::EMPTY;
        let mut count = 0;
        let mut rest = self.first_of(last);
        for _ in 0..limit {
            let Some(entry) = self.follow(rest) else {
                break;
            };
            rest = entry.next.get().filter(|_| entry.link() != last);
            assert!(
                entry.state().is_only_queued(),
                "only a queued entry has a position"
            );
            // SAFETY: Owner Key Invariant: the entry is queued here, and the queue is borrowed mutably.
            if is_meant(unsafe { entry.head() }) {
                entry.place.set(0);
                gathered.append(self, entry);
                count += 1;
            } else {
                kept.append(self, entry);
            }
        }
        let is_whole = rest.is_none();
        if let Some(entry) = self.follow(rest) {
            // The limit ended it. Its neighbours behind it stay as they are.
            kept.append(self, entry);
            kept.last = last;
        }
        self.pending[GATHERED] = gathered.closed(self);
        let here = kept.closed(self);
        self.levels[list / BUCKETS][list % BUCKETS] = here;
        let left = if here.is_none() && count > 0 {
            BucketState::Vacated(list)
        } else {
            BucketState::Others
        };
        Gathered {
            count,
            is_whole,
            left,
        }
    }

    /// Takes what was gathered out and shows it to `take`, which gives each entry to another queue; their chain, whose
    /// links to the one before are not to be used.
    #[inline]
    pub(crate) fn take_gathered(&mut self, mut take: impl FnMut(EntryRef<'_, F>)) -> Link<F> {
        let last = self.pending[GATHERED].take();
        let first = self.follow(last).and_then(|last| last.next.take());
        let mut rest = first;
        let mut count = 0;
        while let Some(entry) = self.follow(rest) {
            rest = entry.next.get();
            take(entry);
            count += 1;
        }
        self.len -= count;
        first
    }
}

/// What came of [gathering](BucketArray::gather).
#[derive(Clone, Copy, Debug)]
pub struct Gathered {
    /// Entries that were moved.
    pub count: u32,
    /// The limit did not end it.
    pub is_whole: bool,
    /// What became of the list.
    pub left: BucketState,
}

/// A line of entries to which others are put. The link from the last to the first is missing until it is closed.
struct Line<F: Family> {
    first: Link<F>,
    last: Link<F>,
}

impl<F: Family> Line<F> {
    const EMPTY: Self = Self {
        first: None,
        last: None,
    };

    /// The list of `buckets` whose last entry is named.
    fn of<const LEVELS: usize>(buckets: &BucketArray<F, LEVELS>, last: Link<F>) -> Self {
        Self {
            first: buckets.first_of(last),
            last,
        }
    }

    #[inline]
    fn append<const LEVELS: usize>(
        &mut self,
        buckets: &BucketArray<F, LEVELS>,
        entry: EntryRef<'_, F>,
    ) {
        entry.previous.set(self.last);
        match buckets.follow(self.last) {
            Some(last) => last.next.set(entry.link()),
            None => self.first = entry.link(),
        }
        self.last = entry.link();
    }

    /// Its last entry, which is how a bucket array knows it.
    #[inline]
    fn closed<const LEVELS: usize>(self, buckets: &BucketArray<F, LEVELS>) -> Link<F> {
        if let Some(last) = buckets.follow(self.last) {
            last.next.set(self.first);
        }
        self.last
    }
}

//! Gathering: entries of several lists move to a tree together.

use core::fmt;

use super::{BUCKETS, BucketArray, BucketState};
use crate::entry::{EntryRef, Link};
use crate::id::QueueId;
use crate::tree::{Branched, Tree};

/// Entries that move from the lists of bucket arrays to a tree, in the order in which they were gathered.
///
/// The entries are queued for every observer and belong to the tree already, but are not linked in it: until the tree
/// [receives](Tree::receive) them none of them may be opened. Dropping this value would lose them, so it ends the
/// process.
#[must_use = "what was gathered must be received"]
pub struct Gathering<F: Branched> {
    tree: QueueId,
    first: Link<F>,
    /// The last entry, and its key. The link from the last entry to the next is invalid.
    last: Option<(Link<F>, F::Key)>,
    len: usize,
    is_sorted: bool,
}

impl<F: Branched> Gathering<F> {
    /// Makes an empty list for `tree`.
    #[inline]
    pub fn new(tree: &Tree<F>) -> Self {
        Self {
            tree: tree.id(),
            first: None,
            last: None,
            len: 0,
            is_sorted: true,
        }
    }

    /// Returns true if no entry was gathered.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes the entries from `begin` on that `key_of` has a key for, up to the one that `end` names, the last of its
    /// list, or `left` of them; what is behind them in the list. Those keep their links to each other.
    // Never: its loop needs the registers that the one around it has.
    #[inline(never)]
    fn take_stretch(
        &mut self,
        begin: EntryRef<'_, F>,
        end: Link<F>,
        left: &mut u32,
        key_of: impl Fn(&F::Head) -> Option<F::Key> + Copy,
    ) -> Link<F> {
        let tree = self.tree;
        let (before, mut last_key) = self.last.unzip();
        let before = before.flatten();
        let (mut is_sorted, limit) = (self.is_sorted, *left);
        let (mut last, mut entry, mut count) = (before, begin, 0);
        let rest = loop {
            // SAFETY: Owner Key Invariant: the entry is queued in the bucket array that gathers, which is borrowed
            // mutably.
            let Some(key) = key_of(unsafe { entry.head() }) else {
                break entry.link();
            };
            if count == limit {
                break entry.link();
            }
            assert!(
                entry.state().is_just_queued(),
                "only a queued entry has a position"
            );
            count += 1;
            is_sorted &= last_key.is_none_or(|before| before <= key);
            entry.hand_over(tree);
            entry.set_gathered();
            entry.key.set(key);
            (last, last_key) = (entry.link(), Some(key));
            if last == end {
                break None;
            }
            // SAFETY: Live Link Invariant: it is a link of an entry that is queued in that bucket array.
            match unsafe { EntryRef::follow(entry.next.get()) } {
                Some(next) => entry = next,
                None => break None,
            }
        };
        begin.previous.set(before);
        // SAFETY: Live Link Invariant: what was gathered is queued, and belongs to this.
        match unsafe { EntryRef::<F>::follow(before) } {
            Some(before) => before.next.set(begin.link()),
            None => self.first = begin.link(),
        }
        self.last = last_key.map(|key| (last, key));
        self.is_sorted = is_sorted;
        self.len += count as usize;
        *left -= count;
        rest
    }

    /// Returns the entries as a chain with both neighbours of each entry, for the tree with this identity.
    #[inline]
    pub(crate) fn arrive(self, tree: QueueId) -> Chain<F> {
        assert!(tree == self.tree, "what was gathered is for another tree");
        let chain = Chain {
            first: self.first,
            last: self.last.and_then(|(last, _)| last),
            len: self.len,
            is_sorted: self.is_sorted,
        };
        core::mem::forget(self);
        // SAFETY: Live Link Invariant: what was gathered is queued, and belongs to the tree that asks.
        if let Some(last) = unsafe { EntryRef::<F>::follow(chain.last) } {
            last.next.set(None);
        }
        chain
    }
}

impl<F: Branched> Drop for Gathering<F> {
    fn drop(&mut self) {
        if !self.is_empty() {
            crate::abort("timers were lost on their way to their tree");
        }
    }
}

impl<F: Branched> fmt::Debug for Gathering<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Gathering")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// Owns the gathered entries for their tree.
pub(crate) struct Chain<F: Branched> {
    pub(crate) first: Link<F>,
    pub(crate) last: Link<F>,
    pub(crate) len: usize,
    /// True if no key is greater than the next one.
    pub(crate) is_sorted: bool,
}

impl<F: Branched, const LEVELS: usize> BucketArray<F, LEVELS> {
    /// Moves the entries of a list for which `key_of` returns a key to the end of `gathering`, in their order, to be
    /// queued under that key. The other entries stay in their order. Checks `limit` entries at most.
    ///
    /// # Panics
    ///
    /// When there is no list of that number, or the callback of an entry runs: it may not change queues then.
    // Neighbours that go the same way keep their links to each other, which is nearly always all there is.
    #[inline]
    pub fn gather(
        &mut self,
        list: usize,
        limit: u32,
        gathering: &mut Gathering<F>,
        key_of: impl Fn(&F::Head) -> Option<F::Key> + Copy,
    ) -> Gathered {
        let last = self.levels[list / BUCKETS][list % BUCKETS];
        let mut kept = Line::EMPTY;
        let before = gathering.len;
        let (mut rest, mut left) = (self.first_of(last), limit);
        while left > 0
            && let Some(entry) = self.follow(rest)
        {
            // SAFETY: Owner Key Invariant: the entry is queued here, and the queue is borrowed mutably.
            if key_of(unsafe { entry.head() }).is_some() {
                rest = gathering.take_stretch(entry, last, &mut left, key_of);
            } else {
                left -= 1;
                rest = entry.next.get().filter(|_| entry.link() != last);
                kept.append(self, entry);
            }
        }
        let is_whole = rest.is_none();
        if let Some(entry) = self.follow(rest) {
            // The limit ended it. Its neighbours behind it stay as they are.
            kept.append(self, entry);
            kept.last = last;
        }
        let count = gathering.len - before;
        self.len -= count;
        let here = kept.closed(self);
        self.levels[list / BUCKETS][list % BUCKETS] = here;
        let left = if here.is_none() && count > 0 {
            BucketState::Vacated(list)
        } else {
            BucketState::Others
        };
        #[expect(clippy::cast_possible_truncation, reason = "they are at most `limit`")]
        Gathered {
            count: count as u32,
            is_whole,
            left,
        }
    }
}

/// The result of [`gather`](BucketArray::gather).
#[derive(Clone, Copy, Debug)]
pub struct Gathered {
    /// The number of entries that were moved.
    pub count: u32,
    /// True if the limit did not end the gathering.
    pub is_whole: bool,
    /// The state of the list afterwards.
    pub left: BucketState,
}

/// A line of entries to which others are appended. The link from the last entry to the first is missing until the line
/// is closed.
struct Line<F: Branched> {
    first: Link<F>,
    last: Link<F>,
}

impl<F: Branched> Line<F> {
    const EMPTY: Self = Self {
        first: None,
        last: None,
    };

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

    /// Returns the last entry of the chain, by which a bucket array knows a list.
    #[inline]
    fn closed<const LEVELS: usize>(self, buckets: &BucketArray<F, LEVELS>) -> Link<F> {
        if let Some(last) = buckets.follow(self.last) {
            last.next.set(self.first);
        }
        self.last
    }
}

//! Levels of buckets: lists of pinned entries that have one owner.
//!
//! A timer wheel, or any other slotted queue, needs many lists that are nearly always empty, and entries that know
//! their list. It also has to keep the old entries of a list apart while new entries are already added under the list's
//! number. A [`BucketArray`] is an array of such lists, its *buckets*: [`BUCKETS`] in each of its levels, and for each
//! level one *pending list*, which holds the entries that were moved out of a bucket and are not processed yet.
//!
//! An entry is added after the others of its list, or before them, and can be removed from any place. An entry stores
//! the number of its list, so that a removal needs no search. The entry keeps the number when its bucket becomes a
//! pending list.
//!
//! # Order
//!
//! Lists are first in, first out. A list is represented by its *last* entry, whose `next` is the first entry. So an
//! insertion touches the entry that was inserted before, whose memory is likely in the cache, and never the oldest
//! entry. The first entry has no `previous`.
//!
//! # Cost
//!
//! Every operation is O(1) and touches at most two entries besides its own, except for dropping a bucket array, which
//! removes all its entries. Each list takes 8 bytes. Nothing allocates.
//!
//! # Safety
//!
//! One private function follows all links, under the Live Link Invariant of the crate, as in [`tree`]. The rest is safe
//! code. [`BucketArray::assert_valid`] checks the structural rules:
//!
//! - (a) the first entry of a list has no previous entry, the next entry of the last is the first, and for each other
//!   entry `x` `x.next.previous` is `x`;
//! - (b) each entry carries the number of the list on which it is, or of the bucket that its pending list came from;
//! - (c) an entry that was removed has no links.

use core::cell::Cell;
use core::fmt;
use core::mem::MaybeUninit;
use core::pin::Pin;

use crate::LastThread;
use crate::emplace;
use crate::emplace::Emplaced;
use crate::entry::{
    self, Entry, EntryRef, Family, Fired, Link, Member, Queue, Running, State, Transit,
};
use crate::id::{Key, QueueId};
use crate::prefetch::prefetch;
use crate::tree::{self, Branched, TieOrder, Tree};

mod ending;
mod gather;
mod pending;
mod quiet;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use self::gather::Chain;
pub use self::gather::{Gathered, Gathering};
pub use self::quiet::{Idle, Queued, Quiet};

/// The number of buckets in each level.
pub const BUCKETS: usize = 64;

/// The number of a bucket array's entries whose callbacks may run at the same time: one for each
/// [place](Bucketed::expire).
///
/// Three are enough for a timer wheel: the CPU that owns it, a CPU that expires it while the owner sleeps, and a CPU
/// that helps when both are delayed.
pub const RUNNERS: usize = 3;

/// An array of buckets, each of which is a list of entries.
///
/// Dropping it removes all entries, so that they can be dropped later.
pub struct BucketArray<F: Family, const LEVELS: usize> {
    key: Key,
    /// The last entry of each list.
    levels: [[Link<F>; BUCKETS]; LEVELS],
    /// The last entry of the pending list of each level.
    pending: [Link<F>; LEVELS],
    /// The entry of each place whose callback runs.
    running: [Link<F>; RUNNERS],
    len: usize,
}

// SAFETY: as for `Tree`: the bucket array owns no entry, and names entries that are `Sync` and whose cells go with the
// bucket array (Owner Key Invariant).
unsafe impl<F: Family, const LEVELS: usize> Send for BucketArray<F, LEVELS> {}

/// The state of the bucket that an entry left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the pending map has to be told of empty buckets"]
pub enum BucketState {
    /// The bucket holds other entries still, or the entry was on a pending list.
    Others,
    /// The list of this number is empty now.
    Vacated(usize),
}

impl<F: Family, const LEVELS: usize> BucketArray<F, LEVELS> {
    /// Makes an empty bucket array with the identity of `key` in its final place.
    pub fn emplace(slot: &mut MaybeUninit<Self>, key: Key) -> Emplaced<'_, Self> {
        const { assert!(LEVELS >= 1 && LEVELS * BUCKETS <= u16::MAX as usize) };
        emplace!(slot => Self {
            key: key,
            running: [None; RUNNERS],
            len: 0;
            levels <- |slot| emplace::array(slot, |_, level| emplace::value(level, [None; BUCKETS])),
            pending <- |slot| emplace::value(slot, [None; LEVELS]),
        })
    }

    /// Makes a bucket array and returns it by value; [`emplace`](Self::emplace) makes it in place.
    #[must_use]
    pub fn new(key: Key) -> Self {
        emplace::moved(|slot| Self::emplace(slot, key))
    }

    /// Returns the identity that entries of this bucket array name as their owner.
    #[inline]
    #[must_use]
    pub const fn id(&self) -> QueueId {
        self.key.id()
    }

    /// Returns the number of queued entries.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true if no entry is queued.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Opens an entry that belongs to this bucket array, queued or not; returns `None` if it belongs to another queue.
    #[inline]
    pub fn open<'s, 'e>(
        &'s mut self,
        entry: EntryRef<'e, F>,
    ) -> Option<Bucketed<'s, 'e, F, LEVELS>> {
        entry.belongs_to(self.id()).then_some(Bucketed {
            buckets: self,
            entry,
        })
    }

    /// Returns true if an entry belongs to this bucket array.
    #[inline]
    #[must_use]
    pub fn owns(&self, entry: EntryRef<'_, F>) -> bool {
        entry.belongs_to(self.id())
    }

    /// Opens the first entry of a list.
    ///
    /// # Panics
    ///
    /// When there is no list of that number.
    #[inline]
    pub fn open_first(&mut self, list: usize) -> Option<Bucketed<'_, '_, F, LEVELS>> {
        self.open_linked(self.first_of(self.levels[list / BUCKETS][list % BUCKETS]))
    }

    /// Opens the last entry of a list.
    ///
    /// # Panics
    ///
    /// When there is no list of that number.
    #[inline]
    pub fn open_last(&mut self, list: usize) -> Option<Bucketed<'_, '_, F, LEVELS>> {
        self.open_linked(self.levels[list / BUCKETS][list % BUCKETS])
    }

    #[inline]
    fn open_linked(&mut self, link: Link<F>) -> Option<Bucketed<'_, '_, F, LEVELS>> {
        // SAFETY: Live Link Invariant: callers pass links of this queue, which stays borrowed.
        let entry = unsafe { EntryRef::follow(link) }?;
        Some(Bucketed {
            buckets: self,
            entry,
        })
    }

    /// Opens the first entry of the pending list of `level`.
    ///
    /// # Panics
    ///
    /// When there is no such level.
    #[inline]
    pub fn open_first_pending(&mut self, level: usize) -> Option<Bucketed<'_, '_, F, LEVELS>> {
        self.open_linked(self.first_of(self.pending[level]))
    }

    /// Returns true if the pending list of `level` holds an entry.
    ///
    /// # Panics
    ///
    /// When there is no such level.
    #[inline]
    #[must_use]
    pub const fn has_pending(&self, level: usize) -> bool {
        self.pending[level].is_some()
    }

    /// Returns the first entry of the list that ends with `last`.
    #[inline]
    fn first_of(&self, last: Link<F>) -> Link<F> {
        self.follow(last).and_then(|last| last.next.get())
    }

    /// Returns the entries of the list that ends with `last`, in order.
    fn walk(&self, last: Link<F>) -> impl Iterator<Item = EntryRef<'_, F>> {
        let mut following = self.first_of(last);
        core::iter::from_fn(move || {
            let entry = self.follow(following)?;
            following = entry.next.get().filter(|_| entry.link() != last);
            Some(entry)
        })
    }

    /// Moves all entries of a bucket to the pending list of its level. The bucket is empty at once, and the entries
    /// stay queued until they are [opened](Self::open_first_pending) and removed.
    ///
    /// # Panics
    ///
    /// When there is no bucket of that number, or the pending list of its level is not empty.
    pub fn move_to_pending(&mut self, list: usize) {
        let level = list / BUCKETS;
        assert!(
            self.pending[level].is_none(),
            "a level has one pending list at a time"
        );
        self.pending[level] = self.levels[level][list % BUCKETS].take();
    }

    /// Makes this bucket array the owner of an entry that never had one; returns `false` if it has one.
    #[inline]
    pub fn bind(&mut self, entry: EntryRef<'_, F>) -> bool {
        entry.bind(self.id())
    }

    /// Makes this bucket array the owner of an entry that never had one, and adds it to a list. Returns `false`, and
    /// nothing changes, if the entry has or had an owner.
    ///
    /// Does the work of [`bind`](Self::bind), [`open`](Self::open) and [`insert`](Bucketed::insert) together, with one
    /// check.
    ///
    /// # Panics
    ///
    /// When there is no list of that number.
    // Always: as a call it takes a sixth more of the shortest start there is.
    #[inline(always)]
    pub fn insert_unbound<M>(&mut self, mut entry: Pin<&mut Entry<F, M>>, list: usize) -> bool
    where
        M: Member<F> + Send + 'static,
    {
        // Asked before, and not by a panic after it, which would need to have saved what it would have to drop.
        if list >= LEVELS * BUCKETS || !entry.as_mut().enter(self) {
            return false;
        }
        self.put(entry.into_ref().erase(), list, End::Back);
        true
    }

    /// Receives an entry that left another queue, and adds it to a list.
    ///
    /// `update` is called with the head first.
    #[inline]
    pub fn admit(
        &mut self,
        transit: Transit<'_, F>,
        list: usize,
        update: impl FnOnce(&mut F::Head),
    ) {
        let entry = transit.arrive(self.id());
        // SAFETY: Owner Key Invariant: the entry names this queue, which is borrowed mutably.
        update(unsafe { entry.head_mut() });
        self.link(entry, list, End::Back);
    }

    /// Calls `visit` for every entry with the number of its list and its head, bucket by bucket, the pending lists
    /// first, until `visit` returns false.
    pub fn for_each(&self, mut visit: impl FnMut(EntryRef<'_, F>, usize, &F::Head) -> bool) {
        let buckets = self.levels.iter().map(|row| &row[..]);
        for row in core::iter::once(&self.pending[..]).chain(buckets) {
            for last in row.iter().filter(|last| last.is_some()) {
                for entry in self.walk(*last) {
                    // SAFETY: Owner Key Invariant: the entry is queued here, and no caller can hold the queue mutably
                    // while this borrow lasts.
                    let head = unsafe { entry.head() };
                    if !visit(entry, usize::from(entry.place.get()), head) {
                        return;
                    }
                }
            }
        }
    }

    /// Returns the number of entries on pending lists, in time proportional to that number.
    #[must_use]
    pub fn pending_len(&self) -> usize {
        self.pending
            .iter()
            .flat_map(|last| self.walk(*last))
            .count()
    }

    /// Checks all structural rules of the module documentation, in O(n).
    ///
    /// # Panics
    ///
    /// When a rule is broken, which is a bug in this crate.
    pub fn assert_valid(&self) {
        let mut count = 0;
        for (level, pending) in self.pending.iter().enumerate() {
            count += self.assert_list(*pending, |number| number / BUCKETS == level);
        }
        for (level, row) in self.levels.iter().enumerate() {
            for (index, last) in row.iter().enumerate().filter(|(_, last)| last.is_some()) {
                count += self.assert_list(*last, |carried| carried == level * BUCKETS + index);
            }
        }
        assert_eq!(count, self.len, "the length counts the entries");
    }

    fn assert_list(&self, last: Link<F>, numbered: impl Fn(usize) -> bool) -> usize {
        let mut count = 0;
        let mut previous = None;
        for entry in self.walk(last) {
            assert!(
                entry.belongs_to(self.id()),
                "a queued entry names this queue"
            );
            assert!(entry.state().is_queued(), "a linked entry is marked queued");
            assert!(
                self.follow(entry.previous.get()) == previous,
                "(a) neighbours agree"
            );
            assert!(
                numbered(usize::from(entry.place.get())),
                "(b) an entry knows its list"
            );
            previous = Some(entry);
            count += 1;
        }
        assert!(
            self.follow(last) == previous,
            "(a) the line ends with the last"
        );
        count
    }

    /// Returns the place at which the callback of `entry` runs, if it runs.
    #[must_use]
    pub fn place_of(&self, entry: EntryRef<'_, F>) -> Option<usize> {
        self.running
            .iter()
            .position(|running| *running == entry.link())
    }

    /// Ends the claim of a thread that no longer exists on the entry whose callback it executed at `place`. The entry
    /// counts as stopped.
    ///
    /// # Panics
    ///
    /// When there is no such place.
    pub fn abandon_running(&mut self, place: usize, _others_are_gone: &LastThread) {
        // SAFETY: Live Link Invariant, as in `Tree::abandon_running`.
        if let Some(entry) = unsafe { EntryRef::follow(self.running[place].take()) } {
            entry.mark_not_running();
        }
    }

    /// Turns a link into a reference. No other function does so.
    #[inline]
    fn follow(&self, link: Link<F>) -> Option<EntryRef<'_, F>> {
        // SAFETY: Live Link Invariant: every link of this module stems from this queue or an entry queued in it.
        unsafe { EntryRef::follow(link) }
    }

    /// Adds an entry of this bucket array that is not linked at an end of a list, and marks the entry queued (it may be
    /// marked already, after it moved between queues).
    // Always: as `put`.
    #[inline(always)]
    pub(crate) fn link(&mut self, entry: EntryRef<'_, F>, list: usize, end: End) {
        self.put(entry, list, end);
        entry.mark_queued();
    }

    /// Links an entry as [`link`](Self::link) does, and leaves the state to the caller.
    // Always: every caller knows which end it is, which leaves a third of it.
    #[inline(always)]
    fn put(&mut self, entry: EntryRef<'_, F>, list: usize, end: End) {
        debug_assert!(entry.belongs_to(self.id()));
        debug_assert!(entry.previous.get().is_none() && entry.next.get().is_none());
        let last = self.levels.as_flattened()[list];
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the line above ends lists beyond the levels, whose number `new` limits"
        )]
        entry.place.set(list as u16);
        if let Some(tail) = self.follow(last) {
            let first = tail.next.replace(entry.link());
            entry.next.set(first);
            match end {
                End::Back => entry.previous.set(last),
                End::Front => {
                    if let Some(first) = self.follow(first) {
                        first.previous.set(entry.link());
                    }
                }
            }
        } else {
            entry.next.set(entry.link());
        }
        if end == End::Back || last.is_none() {
            self.levels.as_flattened_mut()[list] = entry.link();
        }
        self.len += 1;
    }

    /// Unlinks a queued entry and clears its links, but leaves its state to the caller.
    fn unlink(&mut self, entry: EntryRef<'_, F>) -> BucketState {
        self.unlink_here(entry)
    }

    /// Unlinks an entry as [`unlink`](Self::unlink) does, inlined into its callers.
    ///
    /// Reads no field of the neighbours. With many entries the neighbours are not in the cache, and the CPU does not
    /// wait for writes to them, as it would for reads.
    #[inline(always)]
    fn unlink_here(&mut self, entry: EntryRef<'_, F>) -> BucketState {
        self.unlink_with(entry, Cell::take)
    }

    /// Unlinks an entry as [`unlink_here`](Self::unlink_here) does; `take` returns the links of the entry, and clears
    /// them unless the entry is not used any more.
    #[inline(always)]
    fn unlink_with(
        &mut self,
        entry: EntryRef<'_, F>,
        take: impl Fn(&Cell<Link<F>>) -> Link<F>,
    ) -> BucketState {
        debug_assert!(entry.belongs_to(self.id()));
        debug_assert!(entry.state().is_queued());
        let previous = take(&entry.previous);
        let next = take(&entry.next);
        self.len -= 1;
        let list = usize::from(entry.place.get());
        let Some(here) = self.levels.as_flattened_mut().get_mut(list) else {
            // Cannot happen: `put` writes the place, and the entry belongs here since.
            crate::abort("a timer is on no list of its queue");
        };
        if *here == entry.link() {
            *here = previous;
            let Some(before) = self.follow(previous) else {
                return BucketState::Vacated(list);
            };
            before.next.set(next);
            return BucketState::Others;
        }
        let pending = &mut self.pending[list / BUCKETS];
        if *pending == entry.link() {
            *pending = previous;
            if let Some(before) = self.follow(previous) {
                before.next.set(next);
            }
            return BucketState::Others;
        }
        // There is one behind it.
        let (here, pending) = (*here, *pending);
        // No closure, which would become a call.
        let before = match previous {
            None => self.last_before(entry, here, pending),
            before => before,
        };
        if let (Some(before), Some(behind)) = (self.follow(before), self.follow(next)) {
            before.next.set(next);
            behind.previous.set(previous);
        }
        BucketState::Others
    }

    /// Returns the last entry of the list whose first entry is `entry`: the link `here`, or the pending list.
    // Always: a call in the middle is what the shortest paths have to save registers for.
    #[inline(always)]
    fn last_before(&self, entry: EntryRef<'_, F>, here: Link<F>, pending: Link<F>) -> Link<F> {
        let is_before = |last: Link<F>| {
            let last = self.follow(last);
            last.is_some_and(|last| last.next.get() == entry.link())
        };
        if is_before(here) {
            return here;
        }
        if !is_before(pending) {
            // Cannot happen: by (a) and (b) the first of a line is behind the last of a list here or there.
            crate::abort("a timer is on no list of its queue");
        }
        pending
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Front,
    Back,
}

impl<F: Family, const LEVELS: usize> Drop for BucketArray<F, LEVELS> {
    fn drop(&mut self) {
        for level in 0..LEVELS {
            while let Some(mut bucketed) = self.open_first_pending(level) {
                bucketed.remove();
            }
            for list in level * BUCKETS..(level + 1) * BUCKETS {
                while let Some(mut bucketed) = self.open_first(list) {
                    bucketed.remove();
                }
            }
        }
    }
}

impl<F: Family, const LEVELS: usize> fmt::Debug for BucketArray<F, LEVELS> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BucketArray")
            .field("id", &self.id())
            .field("len", &self.len)
            .finish()
    }
}

impl<F: Family, const LEVELS: usize> Queue<F> for BucketArray<F, LEVELS> {
    #[inline]
    fn id(&self) -> QueueId {
        self.id()
    }
}

impl<F: Family, const LEVELS: usize> entry::sealed::Owner<F> for BucketArray<F, LEVELS> {
    fn note_finished(&mut self, entry: EntryRef<'_, F>) {
        for running in &mut self.running {
            if *running == entry.link() {
                *running = None;
            }
        }
    }
}

impl<F: Family> Running<F> {
    /// Ends the claim and adds the entry to a list of `buckets`, unless a thread queued it meanwhile, whose start wins.
    ///
    /// `update` is called with the head if the entry is queued here. Returns true if it is.
    #[inline]
    pub fn requeue_in<const LEVELS: usize>(
        self,
        buckets: &mut BucketArray<F, LEVELS>,
        list: usize,
        update: impl FnOnce(&mut F::Head),
    ) -> bool {
        self.requeue(buckets, update, |buckets, entry| {
            buckets.link(entry, list, End::Back);
        })
        .is_some()
    }
}

impl<F: Branched> Running<F> {
    /// Ends the claim on an entry of `tree` and moves it to a list of `buckets`, unless a thread queued it meanwhile.
    /// That thread's start wins, and the entry stays in the tree.
    ///
    /// `update` is called with the head if the entry is queued here. Returns true if it is.
    ///
    /// # Panics
    ///
    /// When there is no list of that number.
    #[inline]
    pub fn restart_in_bucket<const LEVELS: usize>(
        self,
        tree: &mut Tree<F>,
        buckets: &mut BucketArray<F, LEVELS>,
        list: usize,
        update: impl FnOnce(&mut F::Head),
    ) -> bool {
        self.requeue(tree, update, |_, entry| {
            entry.hand_over(buckets.id());
            buckets.link(entry, list, End::Back);
        })
        .is_some()
    }
}

/// An open entry: a reference to an entry together with the bucket array that owns it.
pub struct Bucketed<'s, 'e, F: Family, const LEVELS: usize> {
    buckets: &'s mut BucketArray<F, LEVELS>,
    entry: EntryRef<'e, F>,
}

impl<'s, 'e, F: Family, const LEVELS: usize> Bucketed<'s, 'e, F, LEVELS> {
    /// Returns the entry.
    #[inline]
    #[must_use]
    pub const fn entry(&self) -> EntryRef<'e, F> {
        self.entry
    }

    /// Returns the life cycle of the entry.
    #[inline]
    #[must_use]
    pub fn state(&self) -> State {
        self.entry.state()
    }

    /// Returns the data that the queue's owner keeps for the entry.
    #[inline]
    pub fn head(&mut self) -> &mut F::Head {
        // SAFETY: Owner Key Invariant: `open` checked the owner, and the queue is borrowed mutably for as long.
        unsafe { self.entry.head_mut() }
    }

    /// Returns the number of the bucket that the entry is in, or was in before its list became pending; `None` if it is
    /// not queued.
    #[inline]
    #[must_use]
    pub fn list(&self) -> Option<usize> {
        self.state()
            .is_queued()
            .then(|| usize::from(self.entry.place.get()))
    }

    /// Returns true if the entry is in the bucket with this number, and not on a pending list.
    ///
    /// An entry in the middle of a list does not know it. Then the result is that of [`list`](Self::list), which is the
    /// same while its level has no pending list.
    #[inline]
    #[must_use]
    pub fn is_on(&self, list: usize) -> bool {
        self.list() == Some(list) && self.buckets.pending[list / BUCKETS].is_none()
    }

    /// Adds the entry at the end of a list.
    ///
    /// # Panics
    ///
    /// When the entry is queued already, or there is no list of that number.
    #[inline]
    pub fn insert(&mut self, list: usize) {
        assert!(!self.state().is_queued(), "an entry is queued once");
        self.buckets.link(self.entry, list, End::Back);
    }

    /// Removes the entry, if it is queued; returns `None` if it was not.
    ///
    /// Unless its callback is running, the entry is idle afterwards.
    #[inline]
    pub fn remove(&mut self) -> Option<BucketState> {
        if !self.state().is_queued() {
            return None;
        }
        let left = self.buckets.unlink(self.entry);
        self.entry.mark_unqueued();
        Some(left)
    }

    /// Moves a queued entry to the end of another list. It stays queued for every observer.
    ///
    /// # Panics
    ///
    /// When the entry is not queued, or there is no list of that number.
    #[inline]
    pub fn move_to(&mut self, list: usize) -> BucketState {
        self.move_to_end(list, End::Back)
    }

    /// Moves a queued entry to the front of another list. It is for entries that came to this bucket array before those
    /// of that list.
    ///
    /// # Panics
    ///
    /// As [`move_to`](Self::move_to).
    #[inline]
    pub fn move_to_front(&mut self, list: usize) -> BucketState {
        self.move_to_end(list, End::Front)
    }

    #[inline]
    fn move_to_end(&mut self, list: usize, end: End) -> BucketState {
        assert!(
            self.state().is_queued(),
            "only a queued entry has a position"
        );
        let left = self.buckets.unlink(self.entry);
        self.buckets.link(self.entry, list, end);
        left
    }

    /// Removes the entry so that another queue can admit it. Returns the new state of its list, if it was queued.
    ///
    /// A queued entry stays marked queued while it travels.
    ///
    /// # Panics
    ///
    /// When the callback of the entry runs: a running entry may not change queues.
    pub fn depart(self) -> (Transit<'e, F>, Option<BucketState>) {
        assert!(
            !self.state().is_running(),
            "a running entry keeps its queue"
        );
        let left = self
            .state()
            .is_queued()
            .then(|| self.buckets.unlink(self.entry));
        (Transit::depart(self.entry), left)
    }

    /// Removes the entry, which must be queued and not running, and [expires](crate::entry::Member::expire) it at
    /// `place`, one of [`RUNNERS`].
    ///
    /// # Panics
    ///
    /// When the entry is not queued, or there is no such place.
    #[inline]
    pub fn expire(self, place: usize) -> (Fired<F>, BucketState) {
        assert!(self.state().is_queued(), "only a queued entry expires");
        // The one behind it is expired next, and what this is doing does not need it: so the processor has until then
        // to fetch what comes after that, which is rarely at hand where there are many.
        let next = self.buckets.follow(self.entry.next.get());
        if let Some(next) = next {
            prefetch(next.next.get());
        }
        let left = self.buckets.unlink(self.entry);
        // SAFETY: the queue is borrowed mutably and owns the entry, which was just unlinked.
        let fired = unsafe { self.entry.expire() };
        if let Fired::Call(_) = fired {
            self.buckets.running[place] = self.entry.link();
        }
        (fired, left)
    }

    /// Shuts the entry down: its [state](State::is_shut) shows this from now on, and no queue accepts the entry again.
    ///
    /// # Panics
    ///
    /// When the entry is queued: the caller has to remove it first.
    pub fn shut(&mut self) {
        assert!(
            !self.state().is_queued(),
            "what is queued is taken out first"
        );
        self.entry.mark_shut();
    }
}

impl<F: Branched, const LEVELS: usize> Bucketed<'_, '_, F, LEVELS> {
    /// Moves a queued entry to `tree`, which queues it under `key`, with `turn` as its place among equal keys. Returns
    /// the new state of its list, and true if it is the first of the tree. It stays queued for every observer.
    ///
    /// # Panics
    ///
    /// When the entry is not queued, or its callback runs.
    #[inline]
    pub fn enqueue_in(
        self,
        tree: &mut Tree<F>,
        key: F::Key,
        turn: TieOrder,
    ) -> (BucketState, bool) {
        assert!(
            self.state().is_only_queued(),
            "only a queued entry has a position"
        );
        let left = self.buckets.unlink(self.entry);
        self.entry.hand_over(tree.id());
        let is_first = match turn {
            TieOrder::New => tree.link(self.entry, key),
            TieOrder::Old => tree.link_before_new(self.entry, key),
        };
        (left, is_first)
    }

    /// Removes a queued entry and gives it to `tree`, idle.
    ///
    /// # Panics
    ///
    /// When the entry is not queued, or its callback runs.
    // Always: of a cancelled timer's whole way the call is an eighth.
    #[inline(always)]
    pub fn return_to(self, tree: &mut Tree<F>) -> BucketState {
        assert!(
            self.state().is_only_queued(),
            "only a queued entry has a position"
        );
        self.go_to(tree)
    }

    /// Moves an entry as [`return_to`](Self::return_to) does; the entry is known to be queued.
    #[inline(always)]
    fn go_to(self, tree: &mut Tree<F>) -> BucketState {
        let left = self.buckets.unlink_here(self.entry);
        self.entry.hand_over(tree.id());
        self.entry.mark_unqueued();
        left
    }
}

impl<F: Branched> tree::OwnedEntry<'_, '_, F> {
    /// Moves the entry, queued or not, to a list of `buckets`. Returns true if it was the first of the tree. A queued
    /// entry stays queued for every observer.
    ///
    /// # Panics
    ///
    /// When its callback runs, or there is no list of that number.
    #[inline]
    pub fn put_in_bucket<const LEVELS: usize>(
        self,
        buckets: &mut BucketArray<F, LEVELS>,
        list: usize,
    ) -> bool {
        let (entry, was_first) = self.release();
        entry.hand_over(buckets.id());
        buckets.link(entry, list, End::Back);
        was_first
    }
}

impl<F: Branched> tree::OwnedEntry<'_, '_, F> {
    /// Moves an idle entry to a list of `buckets`, as [`put_in_bucket`](Self::put_in_bucket) does.
    ///
    /// # Panics
    ///
    /// When the entry is not idle, or there is no list of that number.
    // As `return_to`.
    #[inline(always)]
    pub fn put_idle_in_bucket<const LEVELS: usize>(
        self,
        buckets: &mut BucketArray<F, LEVELS>,
        list: usize,
    ) {
        assert!(self.state().is_idle(), "what is queued has a place already");
        let entry = self.entry();
        entry.hand_over(buckets.id());
        buckets.link(entry, list, End::Back);
    }
}

impl<F: Family, const LEVELS: usize> fmt::Debug for Bucketed<'_, '_, F, LEVELS> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Bucketed")
            .field("entry", &self.entry)
            .field("list", &self.list())
            .finish()
    }
}

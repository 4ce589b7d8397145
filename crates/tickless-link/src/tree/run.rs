//! The run: due entries, sorted in a line in front of a tree.
//!
//! Due entries are taken out from the front, one after the other. If each of them were first put into the tree, the
//! tree would be rebalanced twice for each entry, without any use. So the entries that a [bucket array](crate::buckets)
//! [gathered](BucketArray::gather) are sorted among themselves and then placed *before* the tree: they are in the line
//! of neighbours, but not among the tree's branches. An entry of the run belongs to the queue as all others do: it can
//! be opened, taken out and moved in place in O(1).
//!
//! # Structure
//!
//! - The run is the beginning of the line, up to the entry that the queue remembers as the end of its run. Its entries
//!   are marked, and have no parent and no children. All others are in the tree.
//! - An entry that has to come before the end of the run ends it: the entries of the run are put into the tree first.
//!   That is rare, because an entry that is queued while the run waits is usually due later.
//! - Only one run exists at a time. Entries that are gathered while a run is left are put into the tree.
//!
//! # Cost
//!
//! Entries that were gathered in the order of their keys are compared once each. Others are [sorted](super::sort).
//! Entries of the tree whose keys lie between theirs are moved into the run, at most as many as were gathered. After
//! that many, the rest of the gathered entries are put into the tree.

use super::{AttachPoint, Branched, OLD, Side, Tree};
#[cfg(doc)]
use crate::buckets::BucketArray;
use crate::buckets::Gathering;
use crate::entry::{EntryRef, Fired, Link, Raw, Running};

/// The bit of an entry's place that is set while the entry is in the run.
const RUN: u16 = 4;

impl<F: Branched> Raw<F> {
    #[inline]
    pub(super) fn is_in_run(&self) -> bool {
        self.place.get() & RUN != 0
    }

    /// Marks an entry that was gathered on bucket arrays, for the run.
    #[inline]
    pub(crate) fn set_gathered(&self) {
        self.place.set(OLD | RUN);
    }

    /// Marks an entry of the tree that moves to the run. An old mark of the entry stays.
    #[inline]
    fn set_in_run(&self) {
        self.place.set(self.place.get() & OLD | RUN);
    }
}

impl<F: Branched> Tree<F> {
    /// Queues all entries that were [gathered](BucketArray::gather), as [old](super::TieOrder::Old) ones among equal
    /// keys. They stay queued for every observer.
    pub fn receive(&mut self, gathering: Gathering<F>) {
        const { assert!(!F::SUMMARISED, "what stands in a run is in no subtree") };
        let mut chain = gathering.arrive(self.id());
        if !chain.is_sorted {
            chain = self.sorted(&chain);
        }
        if self.run_end.is_none() && self.comes_whole(chain.last) {
            self.prepend(chain.first, chain.last, chain.len);
            return;
        }
        let mut rest = chain.first;
        if self.run_end.is_none() {
            rest = self.put_in_front(rest, chain.len);
        }
        // SAFETY: Live Link Invariant: all of the chain is queued and names this queue, which stays borrowed.
        while let Some(entry) = unsafe { EntryRef::<F>::follow(rest) } {
            rest = entry.next.take();
            self.link_before_new(entry, entry.key.get());
        }
    }

    /// Makes a run of a sorted chain and of the entries of the tree that come before the chain's entries, `limit` of
    /// them at most. Returns the rest of the chain if the limit is reached.
    fn put_in_front(&mut self, chain: Link<F>, limit: usize) -> Link<F> {
        let mut rest = chain;
        let (mut first, mut end) = (None, None);
        let (mut len, mut taken_over) = (0, 0);
        // SAFETY: Live Link Invariant: all of the chain is queued and names this queue, which stays borrowed.
        while let Some(entry) = unsafe { EntryRef::<F>::follow(rest) } {
            // SAFETY: as above: it is a link of this queue.
            let of_tree = unsafe { EntryRef::<F>::follow(self.first) };
            let next = match of_tree.filter(|other| comes_before(*other, entry)) {
                Some(other) => {
                    if taken_over == limit {
                        break;
                    }
                    taken_over += 1;
                    self.unlink(other);
                    other.set_in_run();
                    other
                }
                None => {
                    rest = entry.next.get();
                    entry
                }
            };
            next.previous.set(end);
            match self.follow(end) {
                Some(end) => end.next.set(next.link()),
                None => first = next.link(),
            }
            end = next.link();
            len += 1;
        }
        self.prepend(first, end, len);
        rest
    }

    /// Returns true if no entry of the tree comes before the last entry of a sorted chain, `end`, and so before any
    /// entry of the chain.
    #[inline]
    fn comes_whole(&self, end: Link<F>) -> bool {
        match (self.first(), self.follow(end)) {
            (Some(first), Some(end)) => !comes_before(first, end),
            (None, _) => true,
            (_, None) => false,
        }
    }

    /// Makes a line of `len` entries, from `first` to `end`, the run.
    #[inline]
    fn prepend(&mut self, first: Link<F>, end: Link<F>, len: usize) {
        let Some(last) = self.follow(end) else {
            return;
        };
        last.next.set(self.first);
        if let Some(behind) = self.follow(self.first) {
            behind.previous.set(end);
        }
        self.first = first;
        self.run_end = end;
        self.len += len;
    }

    /// Ends the run if an entry is to be queued that does not come after the whole run.
    #[inline]
    pub(super) fn make_way(&mut self, is_before: impl Fn(EntryRef<'_, F>) -> bool) {
        if self.follow(self.run_end).is_some_and(|end| !is_before(end)) {
            self.end_run();
        }
    }

    /// Puts the entries of the run into the tree, before all others.
    #[cold]
    fn end_run(&mut self) {
        let len = self.len;
        let mut rest = self.first;
        let end = self.run_end.take();
        self.first = self.follow(end).and_then(|end| end.next.take());
        if let Some(first) = self.follow(self.first) {
            first.previous.set(None);
        }
        let mut before = None;
        // SAFETY: Live Link Invariant: all of the run is queued here, and this queue stays borrowed.
        while let Some(entry) = unsafe { EntryRef::<F>::follow(rest) } {
            rest = entry.next.take();
            entry.previous.set(None);
            entry.place.set(entry.place.get() & OLD);
            if self.is_empty() {
                self.attach_alone(entry, entry.key.get());
            } else {
                let place = self.place_behind(before);
                self.attach(entry, entry.key.get(), place);
            }
            before = entry.link();
        }
        self.len = len;
    }

    /// Returns the place behind the entry in `before`, or before all, in a tree that is not empty.
    fn place_behind(&self, before: Link<F>) -> Option<(Link<F>, Side)> {
        let (parent, side): AttachPoint<'_, F> = match self.follow(before) {
            None => (self.first()?, Side::Left),
            Some(before) => match self.child(before, Side::Right) {
                None => (before, Side::Right),
                // The one behind it is the leftmost of that subtree.
                Some(_) => (self.follow(before.next.get())?, Side::Left),
            },
        };
        Some((parent.link(), side))
    }

    /// [Expires](crate::entry::Member::expire) entries of the run, from the first on, while `is_due` returns true for
    /// their key and head. The tokens of entries that need no call go into `places`, one after the other, until the
    /// places are full. The old value of a place may be in an idle entry afterwards.
    ///
    /// Returns the number of tokens, and the entry whose callback has to be called, if there is one. An entry that may
    /// need a call is expired only if no entry was expired before it, neither in this call nor, if `follows` is true,
    /// in an earlier one. Otherwise it stays, and this call ends before it. The reason: the caller may have to handle
    /// the tokens first, because a thread may wait for the end of that callback.
    #[inline]
    pub fn expire_run(
        &mut self,
        is_due: impl Fn(F::Key, &F::Head) -> bool,
        places: &mut [F::Token],
        follows: bool,
    ) -> (usize, Option<Running<F>>) {
        if self
            .follow(self.finger)
            .is_some_and(|finger| finger.is_in_run())
        {
            // It is about to go.
            self.finger = None;
        }
        let count = self.take_from_run(&is_due, places);
        if follows || count > 0 {
            return (count, None);
        }
        let Some(place) = places.first_mut() else {
            return (0, None);
        };
        match self.expire_first_of_run(&is_due) {
            None => (0, None),
            Some(Fired::Call(running)) => (0, Some(running)),
            Some(Fired::Done(token)) => {
                *place = token;
                (1, None)
            }
        }
    }

    /// Expires entries as [`expire_run`](Self::expire_run) does, up to the first whose expiry is more than to
    /// [take](crate::entry::Always::TAKEN) its token.
    #[inline]
    fn take_from_run(
        &mut self,
        is_due: impl Fn(F::Key, &F::Head) -> bool,
        places: &mut [F::Token],
    ) -> usize {
        if self.run_end.is_none() {
            return 0;
        }
        let (mut first, mut count) = (self.first, 0);
        for place in places {
            // SAFETY: Live Link Invariant: it is a link of this queue, which stays borrowed.
            let Some(entry) = (unsafe { EntryRef::<F>::follow(first) }) else {
                break;
            };
            // SAFETY: Owner Key Invariant: what is queued here names this queue, which is borrowed mutably.
            if !is_due(entry.key.get(), unsafe { entry.head() }) || !entry.is_taken() {
                break;
            }
            first = entry.next.take();
            entry.previous.set(None);
            count += 1;
            // SAFETY: the queue is borrowed mutably and owns the entry, which is no more linked: the link of the next
            // one to it is cleared below, and not followed before.
            unsafe { entry.take(place) };
            if self.run_end == entry.link() {
                self.run_end = None;
                break;
            }
        }
        self.first = first;
        if let Some(first) = self.follow(first) {
            first.previous.set(None);
        }
        self.len -= count;
        count
    }

    /// Returns true if the first entry of the queue expires without a call in every case.
    #[inline]
    #[must_use]
    pub fn first_is_taken(&self) -> bool {
        self.follow(self.first).is_some_and(EntryRef::is_taken)
    }

    /// Returns true if the run holds an entry.
    #[inline]
    #[must_use]
    pub const fn has_run(&self) -> bool {
        self.run_end.is_some()
    }

    /// Expires the first entry of the run if `is_due` returns true for its key and head, and its callback is to be
    /// [executed](crate::entry::Always::CALLED). Returns its head too.
    #[inline]
    pub fn expire_called(
        &mut self,
        is_due: impl Fn(F::Key, &F::Head) -> bool,
    ) -> Option<(Running<F>, F::Head)>
    where
        F::Head: Copy,
    {
        self.run_end?;
        // SAFETY: Live Link Invariant: it is a link of this queue, which stays borrowed.
        let first = unsafe { EntryRef::<F>::follow(self.first) }?;
        // SAFETY: Owner Key Invariant: what is queued here names this queue, which is borrowed mutably.
        let head = unsafe { first.head() };
        if !first.is_called() || !is_due(first.key.get(), head) {
            return None;
        }
        let head = *head;
        if self.finger == first.link() {
            self.finger = None;
        }
        self.unlink_first_of_run(first);
        // SAFETY: the queue is borrowed mutably and owns the entry, which was just unlinked.
        let Fired::Call(running) = (unsafe { first.expire() }) else {
            return None;
        };
        self.running = first.link();
        Some((running, head))
    }

    /// Expires the first entry of the run, which the finger does not name, if it is due.
    #[inline]
    fn expire_first_of_run(
        &mut self,
        is_due: impl Fn(F::Key, &F::Head) -> bool,
    ) -> Option<Fired<F>> {
        self.run_end?;
        // SAFETY: Live Link Invariant: it is a link of this queue, which stays borrowed.
        let first = unsafe { EntryRef::<F>::follow(self.first) }?;
        // SAFETY: Owner Key Invariant: what is queued here names this queue, which is borrowed mutably.
        if !is_due(first.key.get(), unsafe { first.head() }) {
            return None;
        }
        self.unlink_first_of_run(first);
        // SAFETY: the queue is borrowed mutably and owns the entry, which was just unlinked.
        let fired = unsafe { first.expire() };
        if let Fired::Call(_) = fired {
            self.running = first.link();
        }
        Some(fired)
    }

    /// Unlinks the first entry as [`unlink_from_run`](Self::unlink_from_run) does; the finger does not name it.
    #[inline]
    fn unlink_first_of_run(&mut self, entry: EntryRef<'_, F>) {
        debug_assert!(self.first == entry.link() && entry.is_in_run());
        debug_assert!(self.finger != entry.link());
        self.first = entry.next.take();
        if let Some(next) = self.follow(self.first) {
            next.previous.set(None);
        }
        if self.run_end == entry.link() {
            self.run_end = None;
        }
        self.len -= 1;
    }

    /// Unlinks an entry of the run and clears its links, but leaves its state to the caller. Returns true if the entry
    /// was the first.
    #[inline]
    pub(super) fn unlink_from_run(&mut self, entry: EntryRef<'_, F>) -> bool {
        let previous = entry.previous.take();
        let next = entry.next.take();
        match self.follow(previous) {
            Some(previous) => previous.next.set(next),
            None => self.first = next,
        }
        if let Some(next) = self.follow(next) {
            next.previous.set(previous);
        }
        if self.run_end == entry.link() {
            self.run_end = previous;
        }
        if self.finger == entry.link() {
            self.finger = None;
        }
        self.len -= 1;
        previous.is_none()
    }
}

/// Returns true if an entry of the tree comes before one that was queued in a bucket array before.
#[inline]
fn comes_before<F: Branched>(other: EntryRef<'_, F>, gathered: EntryRef<'_, F>) -> bool {
    let (one, other_key) = (gathered.key.get(), other.key.get());
    other_key < one || (other_key == one && other.is_old())
}

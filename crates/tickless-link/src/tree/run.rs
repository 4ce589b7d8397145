//! The run: entries that are due, sorted in one line in front of a tree.
//!
//! What is due is taken out from the front, one entry after the other. To put it into the tree for that would balance
//! the tree twice for each of them, for nothing. So the entries that a [bucket array](crate::buckets)
//! [gathered](BucketArray::gather) are sorted among themselves and then stand *before* the tree: in the line of
//! neighbours, and not in its shape. An entry of the run belongs to the queue as all others do: it can be opened, taken
//! out and moved in place in O(1).
//!
//! # Structure
//!
//! - The run is the beginning of the line, up to the entry that the queue remembers as the end of its run. Its entries
//!   are marked, and have no parent and no children. All others are in the tree.
//! - What has to come before the end of the run ends it: the entries of the run are put into the tree first. That is
//!   rare, because what is queued while they wait is due later.
//! - There is one run at a time. What is gathered while one is left goes to the tree.
//!
//! # Cost
//!
//! Entries that were gathered in the order of their keys are compared once each. Others are sorted by merging, in
//! O(n log n) comparisons. Entries of the tree that come between them are taken over into the run, at most as many as
//! were gathered; behind so many the rest of what was gathered goes to the tree.

use super::{Branched, OLD, Place, Side, Tree};
use crate::buckets::BucketArray;
use crate::entry::{EntryRef, Fired, Link, Raw, Running};

/// The bit of an entry's place that says that it stands in the run.
const RUN: u16 = 4;

/// Chains that are kept apart while a longer one is sorted: the n-th is made of 2^n stretches, the last of any number.
const CHAINS: usize = 16;

impl<F: Branched> Raw<F> {
    #[inline]
    pub(super) fn is_in_run(&self) -> bool {
        self.place.get() & RUN != 0
    }

    /// Marks an entry that goes to the run; what was marked old stays so.
    #[inline]
    fn set_in_run(&self) {
        self.place.set(self.place.get() & OLD | RUN);
    }
}

impl<F: Branched> Tree<F> {
    /// Queues all that `buckets` [gathered](BucketArray::gather), each under the `key` that its head says, with the
    /// [turn](super::Turn::Old) of what was queued there before. They stay queued for every observer.
    pub fn receive<const LEVELS: usize>(
        &mut self,
        buckets: &mut BucketArray<F, LEVELS>,
        key: impl Fn(&F::Head) -> F::Key,
    ) {
        const { assert!(!F::SUMMARISED, "what stands in a run is in no subtree") };
        let id = self.id();
        let mut gathered = 0;
        let mut is_sorted = true;
        let mut end: Option<(Link<F>, F::Key)> = None;
        let chain = buckets.take_gathered(|entry| {
            gathered += 1;
            entry.hand_over(id);
            entry.place.set(OLD | RUN);
            // SAFETY: Owner Key Invariant: the entry names this queue, which is borrowed mutably.
            let key = key(unsafe { entry.head() });
            entry.key.set(key);
            is_sorted &= end.is_none_or(|(_, before)| before <= key);
            entry.previous.set(end.and_then(|(before, _)| before));
            end = Some((entry.link(), key));
        });
        let end = end.and_then(|(last, _)| last);
        if is_sorted && self.run_end.is_none() && self.comes_whole(end) {
            self.prepend(chain, end, gathered);
            return;
        }
        let mut rest = self.sorted(chain);
        if self.run_end.is_none() {
            rest = self.put_in_front(rest, gathered);
        }
        // SAFETY: Live Link Invariant: all of the chain is queued and names this queue, which stays borrowed.
        while let Some(entry) = unsafe { EntryRef::<F>::follow(rest) } {
            rest = entry.next.take();
            self.link_before_new(entry, entry.key.get());
        }
    }

    /// Makes a run of a sorted chain and of what comes before its entries in the tree, unless that is more than
    /// `limit`; returns what is left of the chain then.
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

    /// Whether a sorted chain that ends with `end` stands in front of the tree as it is: what does not come before its
    /// last entry comes before none of them.
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

    /// Ends the run if something is to be queued that does not come behind all of it.
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

    /// Where in a tree that is not empty an entry comes to stand behind the one that `before` names, or before all.
    fn place_behind(&self, before: Link<F>) -> Option<(Link<F>, Side)> {
        let (parent, side): Place<'_, F> = match self.follow(before) {
            None => (self.first()?, Side::Left),
            Some(before) => match self.child(before, Side::Right) {
                None => (before, Side::Right),
                // The one behind it is the leftmost of that subtree.
                Some(_) => (self.follow(before.next.get())?, Side::Left),
            },
        };
        Some((parent.link(), side))
    }

    /// [Expires](crate::entry::Member::expire) entries of the run, from the first on, while `is_due` says so of their
    /// key and head, and puts what is taken out of those that need no call into `tokens`, one after the other, until
    /// there are no more places.
    ///
    /// How many there were, and behind them one that was expired too if its callback is to be executed: that ends it.
    #[inline]
    pub fn expire_run<'p>(
        &mut self,
        is_due: impl Fn(F::Key, &F::Head) -> bool,
        tokens: impl Iterator<Item = &'p mut F::Token>,
    ) -> (usize, Option<Running<F>>)
    where
        F::Token: 'p,
    {
        if self
            .follow(self.finger)
            .is_some_and(|finger| finger.is_in_run())
        {
            // It is about to go.
            self.finger = None;
        }
        let mut count = 0;
        for place in tokens {
            if self.run_end.is_none() {
                return (count, None);
            }
            // SAFETY: Live Link Invariant: it is a link of this queue, which stays borrowed.
            let Some(first) = (unsafe { EntryRef::<F>::follow(self.first) }) else {
                return (count, None);
            };
            // SAFETY: Owner Key Invariant: what is queued here names this queue, which is borrowed mutably.
            if !is_due(first.key.get(), unsafe { first.head() }) {
                return (count, None);
            }
            self.unlink_first_of_run(first);
            // SAFETY: the queue is borrowed mutably and owns the entry, which was just unlinked.
            match unsafe { first.expire() } {
                Fired::Done(token) => *place = token,
                Fired::Call(running) => {
                    self.running = first.link();
                    return (count, Some(running));
                }
            }
            count += 1;
        }
        (count, None)
    }

    /// As [`unlink_from_run`](Self::unlink_from_run), the first entry, which the finger does not name.
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

    /// Takes an entry of the run out and clears its links, but leaves its state to the caller. Returns whether it was
    /// first.
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

    /// Sorts a chain of entries by their keys. Equal ones keep their order.
    fn sorted(&self, chain: Link<F>) -> Link<F> {
        let mut rest = chain;
        // The later a chain is in the order of the entries, the smaller its number.
        let mut chains = [None; CHAINS];
        while rest.is_some() {
            let mut sorted = rest;
            rest = self.cut_stretch(sorted);
            let mut number = 0;
            while number + 1 < CHAINS && chains[number].is_some() {
                sorted = self.merged(chains[number].take(), sorted);
                number += 1;
            }
            chains[number] = self.merged(chains[number], sorted);
        }
        chains
            .into_iter()
            .fold(None, |later, earlier| self.merged(earlier, later))
    }

    /// Cuts a chain where its keys decrease for the first time; what is behind that.
    #[inline]
    fn cut_stretch(&self, chain: Link<F>) -> Link<F> {
        let mut end = self.follow(chain)?;
        while let Some(next) = self.follow(end.next.get()) {
            if next.key.get() < end.key.get() {
                return end.next.take();
            }
            end = next;
        }
        None
    }

    /// Merges two sorted chains, of which the entries of one were queued earlier.
    #[inline]
    fn merged(&self, mut earlier: Link<F>, mut later: Link<F>) -> Link<F> {
        let mut first = None;
        let mut end: Option<EntryRef<'_, F>> = None;
        while let (Some(one), Some(other)) = (self.follow(earlier), self.follow(later)) {
            let next = if other.key.get() < one.key.get() {
                later = other.next.get();
                other
            } else {
                earlier = one.next.get();
                one
            };
            match end {
                Some(end) => end.next.set(next.link()),
                None => first = next.link(),
            }
            end = Some(next);
        }
        let rest = earlier.or(later);
        match end {
            Some(end) => {
                end.next.set(rest);
                first
            }
            None => rest,
        }
    }
}

/// Whether an entry of the tree comes before one that was queued in a bucket array before.
#[inline]
fn comes_before<F: Branched>(other: EntryRef<'_, F>, gathered: EntryRef<'_, F>) -> bool {
    let (one, other_key) = (gathered.key.get(), other.key.get());
    other_key < one || (other_key == one && other.is_old())
}

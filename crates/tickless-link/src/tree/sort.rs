//! Sorting of gathered entries.
//!
//! The timers of one bucket may be many, are in no order, and are mostly not in the caches. So each entry is touched
//! only a few times, however many there are. Entries are spread over lists by the part of the whole span in which their
//! key lies, and each list is sorted in an array of keys, which is short where keys are spread evenly. A list that is
//! too long for the array is sorted by merging, in O(n log n) comparisons. Equal keys keep their order everywhere.
//! Sorting takes 3 KiB of the stack.

use super::{Branched, Tree};
use crate::buckets::Chain;
use crate::entry::{EntryRef, Link};

/// Lists over which entries are spread.
const LISTS: usize = 128;

/// Entries that are sorted in an array.
const FEW: usize = 64;

/// The least number of entries that are spread over lists: an array sorts fewer entries as fast.
const MANY: usize = 32;

/// Chains that are kept apart while a longer one is merged: the n-th is made of 2^n stretches, the last of any number.
const CHAINS: usize = 16;

/// An array of entries by their keys.
type Few<F> = [(<F as crate::entry::Family>::Key, Link<F>); FEW];

impl<F: Branched> Tree<F> {
    /// Sorts a chain of entries by their keys, and gives each both of its neighbours. Equal keys keep their order.
    pub(super) fn sorted(&self, chain: &Chain<F>) -> Chain<F> {
        let mut sorted = Chain {
            first: None,
            last: None,
            len: chain.len,
            is_sorted: true,
        };
        let Some(first) = self.follow(chain.first) else {
            return sorted;
        };
        let mut few = [(first.key.get(), None); FEW];
        if chain.len < MANY {
            self.append_sorted(&mut sorted, &mut few, chain.first);
        } else {
            for last in self.spread(chain.first) {
                if let Some(last) = self.follow(last) {
                    self.append_sorted(&mut sorted, &mut few, last.next.take());
                }
            }
        }
        if let Some(last) = self.follow(sorted.last) {
            last.next.set(None);
        }
        sorted
    }

    /// Spreads a chain over lists. The keys of each list are less than the keys of the next list. Returns the last
    /// entry of each list, whose `next` is the first entry.
    #[inline]
    fn spread(&self, chain: Link<F>) -> [Link<F>; LISTS] {
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        let mut rest = chain;
        while let Some(entry) = self.follow(rest) {
            rest = entry.next.get();
            let rank = F::rank(entry.key.get());
            least = least.min(rank);
            most = most.max(rank);
        }
        let shift =
            (u64::BITS - most.abs_diff(least).leading_zeros()).saturating_sub(LISTS.ilog2());
        let mut lasts = [None; LISTS];
        let mut rest = chain;
        while let Some(entry) = self.follow(rest) {
            let part = F::rank(entry.key.get()).abs_diff(least) >> shift;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "all but the last bits are cut off"
            )]
            let last = &mut lasts[part as usize % LISTS];
            let first = match self.follow(*last) {
                Some(last) => last.next.replace(entry.link()),
                None => entry.link(),
            };
            rest = entry.next.replace(first);
            *last = entry.link();
        }
        lasts
    }

    /// Sorts a chain, and appends it to the sorted entries.
    #[inline]
    fn append_sorted(&self, sorted: &mut Chain<F>, few: &mut Few<F>, chain: Link<F>) {
        let mut len = 0;
        let mut rest = chain;
        while let Some(entry) = self.follow(rest) {
            rest = entry.next.get();
            if len == FEW {
                self.append_merged(sorted, chain);
                return;
            }
            let key = entry.key.get();
            let mut at = len;
            while at > 0 && key < few[at - 1].0 {
                few[at] = few[at - 1];
                at -= 1;
            }
            few[at] = (key, entry.link());
            len += 1;
        }
        for (_, link) in &few[..len] {
            self.append(sorted, *link);
        }
    }

    #[inline]
    fn append(&self, sorted: &mut Chain<F>, link: Link<F>) {
        if let Some(entry) = self.follow(link) {
            entry.previous.set(sorted.last);
        }
        match self.follow(sorted.last) {
            Some(last) => last.next.set(link),
            None => sorted.first = link,
        }
        sorted.last = link;
    }

    /// Appends many entries as [`append_sorted`](Self::append_sorted) appends few.
    #[inline(never)]
    fn append_merged(&self, sorted: &mut Chain<F>, chain: Link<F>) {
        let mut rest = self.merge_sorted(chain);
        while let Some(entry) = self.follow(rest) {
            rest = entry.next.get();
            self.append(sorted, entry.link());
        }
    }

    /// Sorts a chain of entries by merging; only the links to the next entries are valid afterwards.
    fn merge_sorted(&self, chain: Link<F>) -> Link<F> {
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

    /// Cuts a chain where its keys decrease for the first time. Returns the rest of the chain.
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

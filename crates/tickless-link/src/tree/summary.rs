//! Summaries of subtrees in the heads of entries, and searches by them.
//!
//! In a family that [summarises](crate::entry::Family::SUMMARISED) each entry keeps a summary of itself and all entries
//! below it in its head: the smallest of some value, for example. A search for the first entry *in the order of the
//! keys* that fulfils a condition on *something else* then skips every subtree whose summary shows that it holds no
//! such entry (Cormen, Leiserson, Rivest, Stein, *Introduction to Algorithms*, section 14.2). With the deadline as the
//! key and the smallest eligible time as the summary, such a search is the pick of EEVDF.
//!
//! A search costs one descent. Linking and unlinking update the summaries on the path to the root, as far as a summary
//! changes. A rotation updates two summaries. In families that do not summarise, no code for summaries is compiled in.

use super::{Branched, OwnedEntry, Side, Tree};
use crate::entry::{EntryRef, Link};

impl<F: Branched> Tree<F> {
    /// Returns the first entry, in the order of the keys, for whose head `is_meant` returns true.
    ///
    /// `holds_some` receives the summary in a head, and MUST return true if the subtree holds a searched entry. If it
    /// returns true only then, the search is one descent. If it returns true for a subtree without one, the search ends
    /// at a leaf and returns `None`.
    ///
    /// # Cost
    ///
    /// O(log n), two heads looked at per level.
    pub fn first_where(
        &self,
        holds_some: impl Fn(&F::Head) -> bool,
        is_meant: impl Fn(&F::Head) -> bool,
    ) -> Option<EntryRef<'_, F>> {
        let mut at = self.follow(self.root.get())?;
        if !holds_some(self.head_of(at)) {
            return None;
        }
        // The first of all is meant more often than not, and needs no descent.
        let first = self.first()?;
        if is_meant(self.head_of(first)) {
            return Some(first);
        }
        loop {
            match self.child(at, Side::Left) {
                Some(left) if holds_some(self.head_of(left)) => at = left,
                _ if is_meant(self.head_of(at)) => return Some(at),
                _ => at = self.child(at, Side::Right)?,
            }
        }
    }

    /// Opens the entry that [`first_where`](Self::first_where) finds, with a test `holds_some` that may be wrong about
    /// a subtree: the search continues after a subtree that holds no such entry.
    ///
    /// # Cost
    ///
    /// O(log n), and as much for each entry that `holds_some` spoke of and that is not meant.
    pub fn open_first_among(
        &mut self,
        holds_some: impl Fn(&F::Head) -> bool,
        is_meant: impl Fn(&F::Head) -> bool,
    ) -> Option<OwnedEntry<'_, '_, F>> {
        let root = self.follow(self.root.get())?;
        let link = self.first_below(root, &holds_some, &is_meant)?.link();
        self.open_found(link)
    }

    /// Searches the subtree of `at` as [`open_first_among`](Self::open_first_among) searches the tree. The depth is
    /// that of the tree.
    fn first_below<'t>(
        &'t self,
        at: EntryRef<'t, F>,
        holds_some: &impl Fn(&F::Head) -> bool,
        is_meant: &impl Fn(&F::Head) -> bool,
    ) -> Option<EntryRef<'t, F>> {
        if !holds_some(self.head_of(at)) {
            return None;
        }
        let below = |side| {
            let child = self.child(at, side)?;
            self.first_below(child, holds_some, is_meant)
        };
        below(Side::Left)
            .or_else(|| is_meant(self.head_of(at)).then_some(at))
            .or_else(|| below(Side::Right))
    }

    /// Opens the entry that [`first_where`](Self::first_where) finds.
    pub fn open_first_where(
        &mut self,
        holds_some: impl Fn(&F::Head) -> bool,
        is_meant: impl Fn(&F::Head) -> bool,
    ) -> Option<OwnedEntry<'_, '_, F>> {
        let link = self.first_where(holds_some, is_meant)?.link();
        self.open_found(link)
    }

    /// Opens what a search of this queue came to.
    fn open_found(&mut self, found: Link<F>) -> Option<OwnedEntry<'_, '_, F>> {
        // SAFETY: Live Link Invariant: the link names an entry of this queue, which stays borrowed.
        let entry = unsafe { EntryRef::follow(found) }?;
        Some(OwnedEntry { tree: self, entry })
    }

    /// Returns the head of the root entry, which has the summary of all queued entries.
    pub fn summary(&self) -> Option<&F::Head> {
        self.follow(self.root.get()).map(|root| self.head_of(root))
    }

    /// Opens an entry that has no owner, and makes this queue its owner; returns `None` if it has an owner.
    ///
    /// The entry has never had an owner, or a queue [released it](OwnedEntry::release_expired). An entry that another
    /// thread is just releasing may still be refused.
    pub fn adopt<'t, 'e>(&'t mut self, entry: EntryRef<'e, F>) -> Option<OwnedEntry<'t, 'e, F>> {
        entry
            .adopt(self.id())
            .then_some(OwnedEntry { tree: self, entry })
    }

    /// Queues `entry`, which has no owner, under `key` in place of `only`, which has no owner afterwards. It does so if
    /// `only` is the only queued entry and `agrees`, which receives the heads of the two in the reverse order, returns
    /// true.
    ///
    /// It has the effect of [`release_expired`](OwnedEntry::release_expired) of `only` and
    /// [`insert`](OwnedEntry::insert) of `entry`, but `only` is not expired and keeps its token. If it returns `false`
    /// both are where they were, and their heads are as `agrees` left them, if it was called.
    #[inline(always)]
    pub fn exchange_only(
        &mut self,
        only: EntryRef<'_, F>,
        entry: EntryRef<'_, F>,
        key: F::Key,
        agrees: impl FnOnce(&mut F::Head, &mut F::Head) -> bool,
    ) -> bool {
        // Live Link Invariant: what `first` names is queued here.
        if self.first != only.link() || self.len != 1 || !only.state().is_just_queued() {
            return false;
        }
        if !entry.adopt(self.id()) {
            return false;
        }
        // SAFETY: Owner Key Invariant: it belongs to this queue, which is borrowed mutably.
        let left = unsafe { only.head_mut() };
        // SAFETY: as above. It is another one: the queue had the one while the other had no owner.
        let joins = unsafe { entry.head_mut() };
        if !agrees(left, joins) {
            entry.release();
            return false;
        }
        self.replace_alone(entry, key);
        only.release_just_queued();
        true
    }

    fn head_of<'t>(&'t self, entry: EntryRef<'t, F>) -> &'t F::Head {
        // SAFETY: Owner Key Invariant: the entry was found by a link of this queue, which no caller can hold mutably
        // while this borrow lasts.
        unsafe { entry.head() }
    }

    /// Brings the summary of the only entry up to date, which has nothing below it.
    #[inline]
    pub(super) fn summarise_alone(&self, entry: EntryRef<'_, F>) {
        // SAFETY: Owner Key Invariant: as in `head_of`; the entry is being linked.
        let own = unsafe { entry.head() };
        let bomb = EndsOnUnwinding;
        let _is_due_anyway = F::summarise(entry.key.get(), own, None, None);
        core::mem::forget(bomb);
    }

    /// Brings the summary of one entry up to date; says whether it changed.
    pub(super) fn summarise(&self, entry: EntryRef<'_, F>) -> bool {
        let [left, right] = [Side::Left, Side::Right]
            .map(|side| self.child(entry, side).map(|it| self.head_of(it)));
        // SAFETY: Owner Key Invariant: as in `head_of`; the entry is linked here, or being linked.
        let own = unsafe { entry.head() };
        let bomb = EndsOnUnwinding;
        let changed = F::summarise(entry.key.get(), own, left, right);
        core::mem::forget(bomb);
        changed
    }

    /// Brings the summaries up to date from `entry` to the root, or until nothing changes; not before `due`, whose own
    /// part is another one now.
    pub(super) fn summarise_upwards<'t>(
        &'t self,
        mut entry: Option<EntryRef<'t, F>>,
        mut due: Option<EntryRef<'t, F>>,
    ) {
        while let Some(current) = entry {
            if due == Some(current) {
                due = None;
                let _is_due_anyway = self.summarise(current);
            } else if !self.summarise(current) && due.is_none() {
                return;
            }
            entry = self.follow(current.parent_link().get());
        }
    }

    /// (g) of the structural rules.
    pub(super) fn assert_summarised(&self) {
        if F::SUMMARISED {
            self.for_each(0, |entry, _, _| {
                assert!(
                    !self.summarise(entry),
                    "(g) a summary is that of the subtree"
                );
                true
            });
        }
    }
}

/// Ends the process when it is dropped: what unwinds out of the middle of a rebalancing would leave links behind that
/// break the Live Link Invariant.
struct EndsOnUnwinding;

impl Drop for EndsOnUnwinding {
    fn drop(&mut self) {
        crate::abort("the summary of a subtree panicked");
    }
}

impl<F: Branched> OwnedEntry<'_, '_, F> {
    /// Updates the summaries after a change of a queued entry's head.
    pub fn summarise(&mut self) {
        if F::SUMMARISED && self.state().is_queued() {
            self.tree
                .summarise_upwards(Some(self.entry), Some(self.entry));
        }
    }

    /// Removes the entry, which must be queued, [expires](crate::entry::Member::expire) it and releases it: it has no
    /// owner afterwards, and any queue may [adopt](Tree::adopt) it. Returns the token that the expiry gives up.
    ///
    /// # Panics
    ///
    /// When the entry is not queued, or its callback runs. Ends the process when the expiry asks for a call.
    pub fn release_expired(self) -> F::Token {
        assert!(self.state().is_only_queued(), "only a queued entry expires");
        self.tree.unlink(self.entry);
        // SAFETY: the queue is borrowed mutably and owns the entry, which was just unlinked.
        unsafe { self.entry.expire_and_release() }
    }

    /// Releases an entry that is not queued: it has no owner afterwards.
    ///
    /// # Panics
    ///
    /// When the entry is queued, or its callback runs.
    #[inline(always)]
    pub fn let_go(self) {
        assert!(self.state().is_idle(), "only an idle entry is let go");
        self.entry.release();
    }
}

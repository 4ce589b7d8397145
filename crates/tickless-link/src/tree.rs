//! A red-black tree of pinned entries, with neighbour links and cached ends.
//!
//! A timer queue answers three questions far more often than it searches: which entry is first, is this entry first,
//! and would this entry keep its place under another deadline? So besides the usual links every entry knows its
//! neighbours in key order (spec Q-1). "Am I first?" is one null test, the place check reads two keys, and removal
//! needs no walk to the successor.
//!
//! The neighbours form a line, not a ring, and there is no sentinel: `previous` is `None` exactly for the first entry
//! and `next` exactly for the last.
//!
//! # Order
//!
//! Entries are ordered by key. Entries with equal keys are ordered first in, first out: the one inserted later comes
//! after the others (spec Q-2), and [`OwnedEntry::move_in_place`] does not put an entry before an equal one that was
//! queued earlier (spec Q-11 would).
//!
//! An entry from a [bucket array](crate::buckets) was queued there before, so it may be older than entries that were
//! inserted into the tree since. It is marked [`TieOrder::Old`], and among equal keys it comes after the entries with
//! that mark and before all others.
//!
//! # Cost
//!
//! An insertion after the last entry, or next to the entry that was inserted before, is O(1) except for rebalancing.
//! Any other insertion descends the tree, in O(log n). Removal and rebalancing are amortised O(1) besides what the
//! cache misses cost. Reading the first entry, reading neighbours and moving in place are O(1). Nothing allocates,
//! nothing recurses.
//!
//! # Safety
//!
//! All links are followed by one private function, `Tree::follow`, under the Live Link Invariant of the crate; the
//! rest of the module is safe code on cells. The structural rules that the tests and [`Tree::assert_valid`] check:
//!
//! - (a) the in-order walk of the tree is the walk along `next` from the first entry;
//! - (b) keys never decrease along `next`, and among equal keys the entries marked old come first;
//! - (c) `x.next.previous` is `x`;
//! - (d) there is no first entry exactly when the queue is empty, and no last one exactly when the tree is empty;
//! - (e) an entry that was removed has no links;
//! - (f) a red entry has no red child, and every path from the root to a leaf has equally many black entries;
//! - (g) in a family that [summarises](Family::SUMMARISED), each entry has the summary of its subtree;
//! - (h) the entries of the run (`tree/run.rs`) are the beginning of the line, and (a) and (f) are about all other
//!   entries.

use core::cell::Cell;
use core::fmt;

use crate::LastThread;
use crate::entry::{
    self, Branches, EntryRef, Family, Fired, Link, Queue, Raw, Running, State, Transit,
};
use crate::id::{Key, QueueId};

mod balance;
mod check;
#[cfg(loom)]
mod model;
mod run;
mod sort;
mod summary;
#[cfg(all(test, not(loom)))]
mod tests;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left = 0,
    Right = 1,
}

impl Side {
    #[inline]
    const fn opposite(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// The place of an entry among those with an equal key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieOrder {
    /// The entry comes after all other old entries and before all new ones, because it was queued before those came.
    Old,
    /// The entry comes after all others.
    New,
}

/// A [`Family`] whose entries can be in trees.
pub trait Branched: Family<Branches = Branches<Self>> {}

impl<F: Family<Branches = Branches<F>>> Branched for F {}

/// The bit of the colour in the place of an entry that is in a tree.
const RED: u16 = 1;
/// The bit of [`TieOrder::Old`] in it.
const OLD: u16 = 2;

impl<F: Branched> Raw<F> {
    #[inline]
    fn child_link(&self, side: Side) -> &Cell<Link<F>> {
        &self.branches.children[side as usize]
    }

    #[inline]
    fn parent_link(&self) -> &Cell<Link<F>> {
        &self.branches.parent
    }

    #[inline]
    fn is_red(&self) -> bool {
        self.place.get() & RED != 0
    }

    #[inline]
    fn set_red(&self, red: bool) {
        let others = self.place.get() & !RED;
        self.place.set(others | if red { RED } else { 0 });
    }

    #[inline]
    fn is_old(&self) -> bool {
        self.place.get() & OLD != 0
    }

    #[inline]
    fn set_new(&self) {
        self.place.set(self.place.get() & !OLD);
    }
}

/// A red-black tree of entries, sorted by their keys.
///
/// Dropping it removes all queued entries, so that they can be dropped later.
pub struct Tree<F: Branched> {
    key: Key,
    root: Cell<Link<F>>,
    first: Link<F>,
    /// The last entry of the [run], which is the beginning of the line and not in the tree.
    run_end: Link<F>,
    /// The last entry of the tree.
    last: Link<F>,
    /// Start of the next insertion's search: the entry inserted last, or a neighbour of it.
    finger: Link<F>,
    /// The entry of this queue whose callback was begun last, while it runs.
    running: Link<F>,
    len: usize,
}

// SAFETY: the tree owns no entry; it names entries that are `Sync` (`Entry::erase` asks for a `Send` member, which
// makes the entry `Send` and `Sync`), and whose cells go with the tree (Owner Key Invariant).
unsafe impl<F: Branched> Send for Tree<F> {}

impl<F: Branched> Tree<F> {
    /// Makes an empty queue with the identity of `key`.
    #[must_use]
    pub const fn new(key: Key) -> Self {
        Self {
            key,
            root: Cell::new(None),
            first: None,
            run_end: None,
            last: None,
            finger: None,
            running: None,
            len: 0,
        }
    }

    /// Returns the identity that entries of this queue name as their owner.
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
        self.first.is_none()
    }

    /// Returns the entry with the smallest key.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<EntryRef<'_, F>> {
        self.follow(self.first)
    }

    /// Returns the smallest key.
    #[inline]
    #[must_use]
    pub fn first_key(&self) -> Option<F::Key> {
        self.first().map(|first| first.key.get())
    }

    /// Returns the entry with the second smallest key, and that key.
    #[inline]
    #[must_use]
    pub fn second(&self) -> Option<(EntryRef<'_, F>, F::Key)> {
        let second = self.follow(self.first()?.next.get())?;
        Some((second, second.key.get()))
    }

    /// Opens an entry that belongs to this queue, queued or not; returns `None` if it belongs to another one.
    #[inline]
    pub fn open<'t, 'e>(&'t mut self, entry: EntryRef<'e, F>) -> Option<OwnedEntry<'t, 'e, F>> {
        entry
            .belongs_to(self.id())
            .then_some(OwnedEntry { tree: self, entry })
    }

    /// Opens an entry whose callback executes; [`open`](Self::open) opens others.
    #[inline]
    pub fn open_running<'t, 'e>(
        &'t mut self,
        running: &'e Running<F>,
    ) -> Option<OwnedEntry<'t, 'e, F>> {
        self.open(running.entry())
    }

    /// Opens the first entry.
    #[inline]
    pub fn open_first(&mut self) -> Option<OwnedEntry<'_, '_, F>> {
        // SAFETY: `first` is a link of this queue, which stays borrowed.
        let entry = unsafe { EntryRef::follow(self.first) }?;
        Some(OwnedEntry { tree: self, entry })
    }

    /// Makes this queue the owner of an entry that never had one; returns `false` if it has one.
    #[inline]
    pub fn bind(&mut self, entry: EntryRef<'_, F>) -> bool {
        entry.bind(self.id())
    }

    /// Receives an entry that left another queue, and queues it under `key`.
    ///
    /// `update` is called with the head first. Returns true if the entry is now the first of this queue.
    #[inline]
    pub fn admit(
        &mut self,
        transit: Transit<'_, F>,
        key: F::Key,
        update: impl FnOnce(&mut F::Head),
    ) -> bool {
        let entry = transit.arrive(self.id());
        // SAFETY: Owner Key Invariant: the entry names this queue, which is borrowed mutably.
        update(unsafe { entry.head_mut() });
        self.link(entry, key)
    }

    /// Changes the key of every queued entry that `is_meant` selects to `key`, which must not be greater than any other
    /// key, and keeps the order of these entries. Returns the number of entries whose key changed.
    ///
    /// The cost is O(n) in the number of queued entries.
    pub fn bring_to_front(
        &mut self,
        key: F::Key,
        mut is_meant: impl FnMut(EntryRef<'_, F>) -> bool,
    ) -> usize {
        let mut brought = 0;
        let mut current = self.first;
        // SAFETY: Live Link Invariant: `current` is `first`, or the `next` of an entry that was queued when it was
        // read. What is taken out below is linked again at once, and never the entry that `current` names.
        while let Some(entry) = unsafe { EntryRef::<F>::follow(current) } {
            current = entry.next.get();
            if entry.key.get() != key && is_meant(entry) {
                self.unlink(entry);
                self.link(entry, key);
                brought += 1;
            }
        }
        brought
    }

    /// Calls `visit` for every queued entry with its key and head, in order, from the `skip`-th on, until `visit`
    /// returns false.
    pub fn for_each(
        &self,
        skip: usize,
        mut visit: impl FnMut(EntryRef<'_, F>, F::Key, &F::Head) -> bool,
    ) {
        let mut current = self.first();
        let mut position = 0;
        while let Some(entry) = current {
            if position >= skip {
                // SAFETY: Owner Key Invariant: the entry is queued here, and no caller can hold the queue mutably while
                // this borrow lasts.
                let head = unsafe { entry.head() };
                if !visit(entry, entry.key.get(), head) {
                    return;
                }
            }
            position += 1;
            current = self.follow(entry.next.get());
        }
    }

    /// Turns a link into a reference. No other function does so.
    #[inline]
    fn follow(&self, link: Link<F>) -> Option<EntryRef<'_, F>> {
        // SAFETY: Live Link Invariant: every link of this module stems from this queue or an entry queued in it.
        unsafe { EntryRef::follow(link) }
    }

    #[inline]
    fn child<'t>(&'t self, entry: EntryRef<'_, F>, side: Side) -> Option<EntryRef<'t, F>> {
        self.follow(entry.child_link(side).get())
    }

    /// Ends the claim of a thread that no longer exists on an entry whose callback it executed. The entry counts as
    /// stopped.
    pub fn abandon_running(&mut self, _others_are_gone: &LastThread) {
        // SAFETY: Live Link Invariant: the entry was marked running when the link was stored, and the link is cleared
        // before the claim ends, so the entry is still claimed. The thread that holds the claim is gone, so it ends
        // here.
        if let Some(entry) = unsafe { EntryRef::follow(self.running.take()) } {
            entry.mark_not_running();
        }
    }

    /// Links an entry that belongs here and is not linked, and marks it queued (it may be marked already, after it
    /// moved between queues or during a change of position). Returns true if it is the first entry now.
    pub(crate) fn link(&mut self, entry: EntryRef<'_, F>, key: F::Key) -> bool {
        entry.place.set(0);
        if self.is_empty() {
            self.attach_alone(entry, key);
            return true;
        }
        // Not before equal keys: first in, first out (spec Q-2).
        let is_before = |other: EntryRef<'_, F>| key >= other.key.get();
        self.make_way(is_before);
        let place = self.place_of(is_before);
        self.attach(entry, key, place)
    }

    /// Links an entry as [`link`](Self::link) does, before the entries of equal keys that are not marked
    /// [old](TieOrder::Old).
    pub(crate) fn link_before_new(&mut self, entry: EntryRef<'_, F>, key: F::Key) -> bool {
        entry.place.set(OLD);
        let is_before = |other: EntryRef<'_, F>| {
            key > other.key.get() || (key == other.key.get() && other.is_old())
        };
        self.make_way(is_before);
        let place = self.place_of(is_before);
        self.attach(entry, key, place)
    }

    /// Attaches the only entry. The entry is black, and has no neighbours, like every entry that is not linked.
    #[inline]
    fn attach_alone(&mut self, entry: EntryRef<'_, F>, key: F::Key) {
        self.len = 1;
        self.stand_alone(entry, key);
    }

    /// Attaches an entry as [`attach_alone`](Self::attach_alone) does, in place of the only one, which has no links
    /// either and stays marked.
    #[inline]
    fn replace_alone(&mut self, entry: EntryRef<'_, F>, key: F::Key) {
        debug_assert_eq!(self.len, 1, "there is one");
        entry.place.set(0);
        self.finger = None;
        self.stand_alone(entry, key);
    }

    #[inline]
    fn stand_alone(&mut self, entry: EntryRef<'_, F>, key: F::Key) {
        debug_assert!(entry.belongs_to(self.id()));
        entry.key.set(key);
        self.root.set(entry.link());
        self.first = entry.link();
        self.last = entry.link();
        if F::SUMMARISED {
            self.summarise_alone(entry);
        }
        entry.mark_queued();
    }

    #[inline]
    fn attach(
        &mut self,
        entry: EntryRef<'_, F>,
        key: F::Key,
        place: Option<(Link<F>, Side)>,
    ) -> bool {
        debug_assert!(entry.belongs_to(self.id()));
        debug_assert!(self.first != entry.link() && entry.parent_link().get().is_none());
        entry.key.set(key);
        let parent = place.and_then(|(parent, side)| Some((self.follow(parent)?, side)));
        // The place decides the neighbours: rotations never change the order.
        let (previous, next) = match parent {
            None => (self.run_end, None),
            Some((parent, Side::Left)) => (parent.previous.get(), parent.link()),
            Some((parent, Side::Right)) => (parent.link(), parent.next.get()),
        };
        entry.previous.set(previous);
        entry.next.set(next);
        if let Some(previous) = self.follow(previous) {
            previous.next.set(entry.link());
        }
        if let Some(next) = self.follow(next) {
            next.previous.set(entry.link());
        }
        entry.set_red(true);
        match parent {
            None => self.root.set(entry.link()),
            Some((parent, side)) => {
                entry.parent_link().set(parent.link());
                parent.child_link(side).set(entry.link());
            }
        }
        if F::SUMMARISED {
            self.summarise_upwards(Some(entry), Some(entry));
        }
        self.rebalance_after_link(entry);
        entry.mark_queued();
        self.len += 1;
        if next.is_none() {
            self.last = entry.link();
        } else {
            // Insertions at the end have their own short cut.
            self.finger = entry.link();
        }
        let is_first = previous.is_none();
        if is_first {
            self.first = entry.link();
        }
        is_first
    }

    /// Returns the place of an entry that follows those for which `is_before` is true; `None` in an empty tree.
    ///
    /// Timeouts of one length are armed in the order in which they expire. So this function first tries the two places
    /// that a stream of such timeouts uses: after the last entry, and next to the entry that was inserted before.
    #[inline]
    fn place_of(&self, is_before: impl Fn(EntryRef<'_, F>) -> bool) -> Option<(Link<F>, Side)> {
        let last = self.follow(self.last)?;
        let (parent, side) = if is_before(last) {
            (last, Side::Right)
        } else {
            self.place_near_finger(&is_before)
                .or_else(|| self.place_by_descent(&is_before))?
        };
        Some((parent.link(), side))
    }

    /// Returns the place next to the finger, if the entry belongs there.
    #[inline]
    fn place_near_finger(
        &self,
        is_before: &impl Fn(EntryRef<'_, F>) -> bool,
    ) -> Option<AttachPoint<'_, F>> {
        let finger = self.follow(self.finger)?;
        let (before, behind) = if is_before(finger) {
            (finger, self.follow(finger.next.get())?)
        } else {
            (self.follow(finger.previous.get())?, finger)
        };
        if !is_before(before) || is_before(behind) {
            return None;
        }
        // Of two neighbours one has no child towards the other: if the first has a right child, the second is the
        // leftmost of that subtree. If the first stands in the run, the second is the leftmost of all.
        Some(match self.child(before, Side::Right) {
            None if !before.is_in_run() => (before, Side::Right),
            _ => (behind, Side::Left),
        })
    }

    fn place_by_descent(
        &self,
        is_before: &impl Fn(EntryRef<'_, F>) -> bool,
    ) -> Option<AttachPoint<'_, F>> {
        let mut at = self.follow(self.root.get())?;
        loop {
            let side = if is_before(at) {
                Side::Right
            } else {
                Side::Left
            };
            match self.child(at, side) {
                Some(below) => at = below,
                None => return Some((at, side)),
            }
        }
    }

    /// Unlinks a queued entry and clears its links, but leaves its state to the caller. Returns true if the entry was
    /// the first.
    fn unlink(&mut self, entry: EntryRef<'_, F>) -> bool {
        debug_assert!(entry.belongs_to(self.id()));
        debug_assert!(entry.state().is_queued());
        if entry.is_in_run() {
            return self.unlink_from_run(entry);
        }
        if self.len == 1 {
            // It has no links.
            self.root.set(None);
            self.first = None;
            self.last = None;
            self.finger = None;
            self.len = 0;
            return true;
        }
        let previous = entry.previous.get();
        let next = entry.next.get();
        self.erase(entry);
        match self.follow(previous) {
            Some(previous) => previous.next.set(next),
            None => self.first = next,
        }
        match self.follow(next) {
            Some(next) => next.previous.set(previous),
            // What is before it may be the end of the run.
            None => self.last = previous.filter(|_| self.root.get().is_some()),
        }
        if self.finger == entry.link() {
            self.finger = previous.or(next);
        }
        entry.parent_link().set(None);
        entry.child_link(Side::Left).set(None);
        entry.child_link(Side::Right).set(None);
        entry.previous.set(None);
        entry.next.set(None);
        self.len -= 1;
        previous.is_none()
    }
}

impl<F: Branched> Queue<F> for Tree<F> {
    #[inline]
    fn id(&self) -> QueueId {
        self.id()
    }
}

impl<F: Branched> entry::sealed::Owner<F> for Tree<F> {
    fn note_finished(&mut self, entry: EntryRef<'_, F>) {
        if self.running == entry.link() {
            self.running = None;
        }
    }
}

impl<F: Branched> Running<F> {
    /// Ends the claim and queues the entry in `tree` under `key`, unless a thread queued it meanwhile, whose start wins
    /// (spec OBJ-13).
    ///
    /// `update` is called with the head if the entry is queued here. Returns true if the entry is now the first of the
    /// tree, or `None` if it was not queued here.
    #[inline]
    pub fn restart(
        self,
        tree: &mut Tree<F>,
        key: F::Key,
        update: impl FnOnce(&mut F::Head),
    ) -> Option<bool> {
        self.requeue(tree, update, |tree, entry| tree.link(entry, key))
    }
}

/// An entry, and the side of it on which another is to be attached.
type AttachPoint<'t, F> = (EntryRef<'t, F>, Side);

impl<F: Branched> Drop for Tree<F> {
    fn drop(&mut self) {
        while let Some(mut slot) = self.open_first() {
            slot.remove();
        }
    }
}

impl<F: Branched> fmt::Debug for Tree<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Tree")
            .field("id", &self.id())
            .field("len", &self.len)
            .field("first_key", &self.first_key())
            .finish()
    }
}

/// An open entry: a reference to an entry together with the queue that owns it.
///
/// Opening an entry checks once that it belongs to this queue; the methods here need no further check.
pub struct OwnedEntry<'t, 'e, F: Branched> {
    tree: &'t mut Tree<F>,
    entry: EntryRef<'e, F>,
}

impl<'t, 'e, F: Branched> OwnedEntry<'t, 'e, F> {
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

    /// Returns the key under which the entry is or was last queued.
    #[inline]
    #[must_use]
    pub fn key(&self) -> F::Key {
        self.entry.key.get()
    }

    /// Returns the data that the queue's owner keeps for the entry.
    ///
    /// If heads are [summarised](Family::SUMMARISED) and the entry is queued, a change of data that the summary uses
    /// MUST be followed by [`summarise`](Self::summarise).
    #[inline]
    pub fn head(&mut self) -> &mut F::Head {
        // SAFETY: Owner Key Invariant: `open` checked the owner, and the queue is borrowed mutably for as long.
        unsafe { self.entry.head_mut() }
    }

    /// Returns true if the entry is queued and first in the queue.
    #[inline]
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.tree.first == self.entry.link()
    }

    /// Queues the entry under `key`; returns true if it is now the first of the queue.
    ///
    /// # Panics
    ///
    /// When the entry is queued already.
    #[inline]
    pub fn insert(&mut self, key: F::Key) -> bool {
        assert!(!self.state().is_queued(), "an entry is queued once");
        self.tree.link(self.entry, key)
    }

    /// Shuts the entry down: no queue takes it again.
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

    /// Removes the entry, if it is queued. Returns true if it was the first, or `None` if it was not queued.
    ///
    /// Unless its callback is running, the entry is idle afterwards.
    #[inline]
    pub fn remove(&mut self) -> Option<bool> {
        if !self.state().is_queued() {
            return None;
        }
        let was_first = self.tree.unlink(self.entry);
        self.entry.mark_unqueued();
        Some(was_first)
    }

    /// Changes the key of a queued entry if it keeps its place (spec ). Returns true if it did.
    ///
    /// A key that equals the next entry's key would move the entry, to a place after the next entry. A key that equals
    /// the entry's own key is no change.
    ///
    /// Reads the keys of both neighbours and writes one, nothing else.
    #[inline]
    pub fn move_in_place(&mut self, key: F::Key) -> bool {
        if !self.state().is_queued() {
            return false;
        }
        if key == self.key() {
            return true;
        }
        let tree = &*self.tree;
        if tree
            .follow(self.entry.next.get())
            .is_some_and(|next| key >= next.key.get())
        {
            return false;
        }
        if tree
            .follow(self.entry.previous.get())
            .is_some_and(|previous| key < previous.key.get())
        {
            return false;
        }
        self.entry.key.set(key);
        self.entry.set_new();
        if F::SUMMARISED {
            tree.summarise_upwards(Some(self.entry), Some(self.entry));
        }
        true
    }

    /// Changes the key of a queued entry, and moves it to its new place. Returns true if it is now the first of the
    /// queue.
    ///
    /// The entry stays queued for every observer.
    ///
    /// # Panics
    ///
    /// When the entry is not queued.
    #[inline]
    pub fn reposition(&mut self, key: F::Key) -> bool {
        assert!(
            self.state().is_queued(),
            "only a queued entry has a position"
        );
        // Most moves are short, so the neighbours of the old place are where the new one is looked for.
        let near = self.entry.previous.get().or(self.entry.next.get());
        self.tree.unlink(self.entry);
        self.tree.finger = near;
        self.tree.link(self.entry, key)
    }

    /// Removes the entry so that another queue can admit it.
    ///
    /// A queued entry is unlinked but stays marked queued, so that no thread takes it for idle while it travels (spec
    /// LOC-8). [`Tree::admit`] ends the move.
    ///
    /// # Panics
    ///
    /// When the callback of the entry runs: it may not change queues then (spec OBJ-15).
    pub fn depart(self) -> Transit<'e, F> {
        assert!(
            !self.state().is_running(),
            "a running entry keeps its queue"
        );
        if self.state().is_queued() {
            self.tree.unlink(self.entry);
        }
        Transit::depart(self.entry)
    }

    /// Unlinks the entry from the tree without a change of its state. Another queue has to link it at once. Returns
    /// true if the entry was the first.
    ///
    /// # Panics
    ///
    /// When the callback of the entry runs: it may not change queues then.
    #[inline]
    pub(crate) fn release(self) -> (EntryRef<'e, F>, bool) {
        assert!(
            !self.state().is_running(),
            "a running entry keeps its queue"
        );
        let was_first = self.state().is_queued() && self.tree.unlink(self.entry);
        (self.entry, was_first)
    }

    /// Removes the entry, which must be queued, and [expires](crate::entry::Member::expire) it.
    ///
    /// # Panics
    ///
    /// When the entry is not queued.
    #[inline]
    pub fn expire(self) -> Fired<F> {
        assert!(self.state().is_queued(), "only a queued entry expires");
        self.tree.unlink(self.entry);
        // SAFETY: the queue is borrowed mutably and owns the entry, which was just unlinked.
        let fired = unsafe { self.entry.expire() };
        if let Fired::Call(_) = fired {
            self.tree.running = self.entry.link();
        }
        fired
    }
}

impl<F: Branched> fmt::Debug for OwnedEntry<'_, '_, F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OwnedEntry")
            .field("entry", &self.entry)
            .field("key", &self.key())
            .finish()
    }
}

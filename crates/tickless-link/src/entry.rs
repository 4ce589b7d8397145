//! The pinned entry, by which a queue links a timer, and its life cycle.
//!
//! An [`Entry`] lives wherever its user puts it. A queue never owns it, never allocates for it and never moves it. The
//! entry's state, one atomic byte of two bits, makes that sound:
//!
//! | queued | running | meaning |
//! |---|---|---|
//! | no | no | *idle*: no queue knows the entry, it may be dropped |
//! | yes | no | linked in the queue that its owner word names, or moving between two queues |
//! | no | yes | its callback executes, claimed by one [`Running`] token |
//! | yes | yes | its callback executes and a thread queued it again meanwhile |
//!
//! # Ground rules
//!
//! - Only the thread that holds the owning queue mutably changes the state. Any thread may read it.
//! - Both bits live in one word, so that a reader never sees "no longer queued" before it sees "running": an entry that
//!   is about to run is never reported idle. The original of this mechanism keeps "running" in the queue and needs a
//!   sequence counter for the same answer (spec OBJ-1, OBJ-14), because there a callback may free its own timer. Here
//!   a running entry is claimed, and the claim ends before anything runs that could free the entry.
//! - Dropping an entry that is not idle ends the process. Owners cancel first; a wrapper does it in its own `Drop`.
//!
//! # Two ways to expire
//!
//! [`Member::expire`] runs under the queue's lock and decides. It may take something out of the guarded data and
//! complete the expiry ([`Expiry::Done`]): the entry is idle before the lock is released, nothing ever waits for it,
//! and the token that was taken (a waker) is used afterwards. Or it requests a call ([`Expiry::Call`]): then the entry
//! is running, [`Member::call`] executes without the lock, and the token must be finished under the lock again.
//!
//! An entry costs, on 64-bit targets, 36 bytes, the links that only trees need (24 bytes), and its key, tag, head,
//! shared data, guarded data and member. An expiry costs one indirect call, and a callback one more.

mod always;
mod running;
mod state;
mod transit;

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::marker::{PhantomData, PhantomPinned};
use core::mem::MaybeUninit;
use core::ops::Deref;
use core::pin::Pin;
use core::ptr::NonNull;

pub use self::always::Always;
use self::always::Outcome;
pub use self::running::Running;
pub use self::state::State;
pub use self::transit::Transit;
use crate::const_unless_loom;
use crate::emplace;
use crate::emplace::Emplaced;
use crate::end::{Dropped, Dropping};
use crate::id::{self, OwnerWord, QueueId};
use crate::sync::{AtomicU8, Exclusive, Ordering};

/// The common properties of all entries in one kind of queue.
pub trait Family: Sized + 'static {
    /// The sort key.
    type Key: Copy + Ord + fmt::Debug + Send;
    /// A few bytes that are fixed when the entry is made, readable by any thread.
    type Tag: Copy + fmt::Debug + Send + Sync;
    /// Data that the queue's owner keeps for each entry, guarded by the queue.
    type Head: fmt::Debug + Send;
    /// Data of each entry that any thread may reach at any time: atomics, or nothing.
    type Shared: fmt::Debug + Send + Sync;
    /// The links of an entry besides the links to its neighbours: [`Branches`] for entries that are queued in trees,
    /// `()` for entries that are only ever in bucket arrays.
    type Branches: Branching;
    /// Token that an expiry takes out of an entry that needs no call.
    type Token;
    /// Argument of a callback.
    type Context<'a>;
    /// The answer of a callback.
    type Answer;

    /// True if each entry of a tree summarises its subtree. Then [`summarise`](Family::summarise) is called for each
    /// entry whose subtree changed, and [`Tree::first_where`](crate::tree::Tree::first_where) searches by the
    /// summaries.
    const SUMMARISED: bool = false;

    /// Returns a number for sorting many keys: it MUST NOT be less for a greater key. Sorting takes longer if it is the
    /// same for all keys.
    #[inline]
    #[must_use]
    fn rank(_key: Self::Key) -> i64 {
        0
    }

    /// Stores the summary of the entry and its children's subtrees in `own`. Returns true if the summary changed.
    ///
    /// The summary MUST be in a cell of the head, and MUST NOT depend on anything but the three heads and the key. A
    /// panic ends the process.
    #[must_use]
    fn summarise(
        _key: Self::Key,
        _own: &Self::Head,
        _left: Option<&Self::Head>,
        _right: Option<&Self::Head>,
    ) -> bool {
        false
    }
}

/// The links of an entry besides the links to its two neighbours.
pub trait Branching: Sized + sealed::Sealed {
    /// The links of an entry that is in no tree.
    const NONE: Self;
}

impl Branching for () {
    const NONE: Self = ();
}

impl<F: Family> Branching for Branches<F> {
    const NONE: Self = Self::NONE;
}

/// The links of an entry that is in a tree.
pub struct Branches<F: Family> {
    /// The children: left, right.
    pub(crate) children: [Cell<Link<F>>; 2],
    pub(crate) parent: Cell<Link<F>>,
}

impl<F: Family> Branches<F> {
    #[expect(
        clippy::declare_interior_mutable_const,
        reason = "each use is to be a copy of its own"
    )]
    pub(crate) const NONE: Self = Self {
        children: [Cell::new(None), Cell::new(None)],
        parent: Cell::new(None),
    };
}

impl<F: Family> fmt::Debug for Branches<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Branches").finish_non_exhaustive()
    }
}

/// An owner of entries: a tree or a bucket array.
pub trait Queue<F: Family>: sealed::Owner<F> {
    /// The identity that entries of this queue name as their owner.
    fn id(&self) -> QueueId;
}

pub(crate) mod sealed {
    use super::{Branches, EntryRef, Family};

    pub trait Sealed {}
    impl Sealed for () {}
    impl<F: Family> Sealed for Branches<F> {}

    pub trait Owner<F: Family> {
        /// Notes that the callback of `entry` ended.
        fn note_finished(&mut self, entry: EntryRef<'_, F>);
    }
}

/// The properties of one type of entry in a [`Family`].
pub trait Member<F: Family>: Sized {
    /// Data of this entry that is guarded by the queue, like [`Family::Head`].
    type Guarded: Send;

    /// Result of every expiry, if all have the same.
    const EXPIRY: Always<Self::Guarded, F::Token> = Always::ASKED;

    /// Returns the name of the callback in dumps.
    #[must_use]
    fn name() -> &'static str {
        core::any::type_name::<Self>()
    }

    /// Decides if the expiry calls the callback, or takes the token.
    ///
    /// Runs under the lock of the queue, after the entry was unlinked. MUST be short, and MUST NOT call foreign code.
    fn expire(guarded: &mut Self::Guarded) -> Expiry<F::Token>;

    /// Executes the callback, without any lock.
    ///
    /// Never runs twice at the same time for one entry. Called only after [`expire`](Member::expire) answered
    /// [`Expiry::Call`].
    fn call(&mut self, context: &mut F::Context<'_>) -> F::Answer;
}

/// The result of [`Member::expire`].
#[derive(Debug)]
pub enum Expiry<T> {
    /// The expiry is complete: the entry is idle, and the token is for use after the lock is released.
    Done(T),
    /// The queue has to execute [`Member::call`].
    Call,
}

/// The owner of an entry, which any thread may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// No queue owns the entry: none ever did, or the last one [released it](crate::tree::OwnedEntry::release_expired).
    Unbound,
    /// The entry is moving from one queue to another; the caller has to look again.
    Transit,
    /// The queue whose lock protects the entry.
    Queue(QueueId),
}

/// A link to another entry of the same queue.
pub(crate) type Link<F> = Option<NonNull<Raw<F>>>;

/// The part of an entry that a queue uses, without the type of the member.
///
/// The order of the fields is that of their use: the fields for a restart in place (owner, state, head) lie in 32 bytes
/// together, those for a descent (key, branches) in the next 32. Where allocations are multiples of 32 bytes that is
/// one cache line each. With a tag of one byte nothing is lost between the fields.
#[repr(C)]
pub struct Raw<F: Family> {
    pub(crate) previous: Cell<Link<F>>,
    pub(crate) next: Cell<Link<F>>,
    owner: OwnerWord,
    state: AtomicU8,
    tag: F::Tag,
    /// Colour in a tree, number of the list on a bucket array.
    pub(crate) place: Cell<u16>,
    head: UnsafeCell<F::Head>,
    shared: F::Shared,
    actions: &'static Actions<F>,
    pub(crate) key: Cell<F::Key>,
    pub(crate) branches: F::Branches,
}

/// The member's code, reached without its type.
struct Actions<F: Family> {
    /// The outcome of all expiries, from [`Member::EXPIRY`].
    outcome: Outcome,
    /// The function [`expire`] of the member's type.
    expire: unsafe fn(NonNull<Raw<F>>) -> Expiry<F::Token>,
    /// The function [`call`] of the member's type.
    call: for<'a> unsafe fn(NonNull<Raw<F>>, &mut F::Context<'a>) -> F::Answer,
    /// The function [`Member::name`] of the member's type.
    name: fn() -> &'static str,
}

/// A pinned node by which queues link a member, without an allocation.
///
/// See the [module documentation](self) for its life cycle.
#[repr(C)]
pub struct Entry<F: Family, M: Member<F>> {
    // First, and `repr(C)`: a pointer to the entry is a pointer to its raw part.
    raw: Raw<F>,
    guarded: UnsafeCell<M::Guarded>,
    member: UnsafeCell<M>,
    // Queues keep pointers to the entry, so it must not move; and a `&mut` to it must not promise the compiler that
    // no other thread looks.
    pinned: PhantomPinned,
}

/// The beginning of an entry whose guarded data is the token: an [`Entry`] has its parts in this order too.
#[repr(C)]
struct WithToken<F: Family> {
    raw: Raw<F>,
    token: UnsafeCell<F::Token>,
}

// SAFETY: moving an idle entry to another thread moves its parts, all of which are `Send`; an entry that is not idle
// is pinned (Live Link Invariant), so what moves then is only the right to name it, and access to its cells goes
// through the owning queue for every thread (Owner Key Invariant).
unsafe impl<F: Family, M: Member<F> + Send> Send for Entry<F, M> {}
// SAFETY: shared access reaches atomics, the immutable tag, and the cells only through a mutable borrow of the owning
// queue (Owner Key Invariant). The member is reached only through the one running token (Live Link Invariant), on
// whatever thread that is, hence `Send`.
unsafe impl<F: Family, M: Member<F> + Send> Sync for Entry<F, M> {}

impl<F: Family, M: Member<F>> Entry<F, M> {
    const_unless_loom! {
        /// Makes an idle entry without an owner.
        ///
        /// [`OwnedEntry::key`](crate::tree::OwnedEntry::key) returns `key` until the entry is queued for the first
        /// time.
        pub const fn new(
            key: F::Key,
            tag: F::Tag,
            head: F::Head,
            shared: F::Shared,
            guarded: M::Guarded,
            member: M,
        ) -> Self {
            Self {
                raw: Raw {
                    previous: Cell::new(None),
                    next: Cell::new(None),
                    key: Cell::new(key),
                    branches: F::Branches::NONE,
                    owner: OwnerWord::unbound(),
                    state: AtomicU8::new(0),
                    place: Cell::new(0),
                    tag,
                    head: UnsafeCell::new(head),
                    shared,
                    actions: Self::ACTIONS,
                },
                guarded: UnsafeCell::new(guarded),
                member: UnsafeCell::new(member),
                pinned: PhantomPinned,
            }
        }
    }

    /// Makes the entry that [`new`](Self::new) makes, in its final place, field by field. Nothing is copied, and the
    /// compiler knows the stored values afterwards.
    #[inline(always)]
    pub fn emplace(
        slot: &mut MaybeUninit<Self>,
        key: F::Key,
        tag: F::Tag,
        head: F::Head,
        shared: F::Shared,
        guarded: M::Guarded,
        member: M,
    ) -> Emplaced<'_, Self> {
        emplace!(slot => Self {
            guarded: UnsafeCell::new(guarded),
            member: UnsafeCell::new(member),
            pinned: PhantomPinned;
            raw <- #[inline(always)] |raw| emplace!(raw => Raw<F> {
                previous: Cell::new(None),
                next: Cell::new(None),
                owner: OwnerWord::unbound(),
                state: AtomicU8::new(0),
                tag: tag,
                place: Cell::new(0),
                head: UnsafeCell::new(head),
                shared: shared,
                actions: Self::ACTIONS,
                key: Cell::new(key),
                branches: F::Branches::NONE;
            }),
        })
    }

    const ACTIONS: &'static Actions<F> = &Actions {
        outcome: M::EXPIRY.outcome,
        expire: expire::<F, M>,
        call: call::<F, M>,
        name: M::name,
    };

    /// Returns a reference to the entry without the type of its member, as queues use it.
    ///
    /// The member must be `Send`, because a callback may run on any thread that holds the queue, and `'static`,
    /// because a pinned entry that is leaked stays queued after everything it borrows is gone.
    #[inline]
    #[must_use]
    pub fn erase(self: Pin<&Self>) -> EntryRef<'_, F>
    where
        M: Send + 'static,
    {
        // From the whole entry, not from its first field: the actions reach the member through this pointer.
        EntryRef {
            raw: NonNull::from(self.get_ref()).cast(),
            entry: PhantomData,
        }
    }

    /// Returns the member of an idle entry; `None` while the entry has an owner.
    #[inline]
    pub fn member_mut(self: Pin<&mut Self>) -> Option<&mut M> {
        if !self.raw.state().is_idle() {
            return None;
        }
        // SAFETY: Live Link Invariant: an idle entry has no running token, and while the exclusive borrow lasts no
        // other thread can name the entry to queue it.
        Some(unsafe { &mut *self.member.get() })
    }

    /// Returns the guarded data of an idle entry; `None` while the entry has an owner.
    #[inline]
    pub fn guarded_mut(self: Pin<&mut Self>) -> Option<&mut M::Guarded> {
        if !self.raw.state().is_idle() {
            return None;
        }
        // SAFETY: Live Link Invariant: no queue knows an idle entry, so none expires it, and its last expiry was over
        // before it was seen idle; while the exclusive borrow lasts no other thread can name the entry to a queue.
        Some(unsafe { &mut *self.guarded.get() })
    }

    /// Makes `queue` the owner of an entry that never had one, without the cost of a race, since the caller has the
    /// entry for itself. Returns `false` if it has an owner.
    #[inline]
    pub fn bind(self: Pin<&mut Self>, queue: &impl Queue<F>) -> bool {
        // SAFETY: nothing is moved.
        let entry = unsafe { self.get_unchecked_mut() };
        entry.raw.owner.bind_exclusively(queue.id())
    }

    /// Gives an idle entry that never had an owner to `queue` and marks the entry queued there; the caller must link
    /// the entry at once. Returns `false`, and changes nothing, if the entry is not idle or had an owner.
    ///
    /// The fields that were just stored in the entry are not read again, and need not be stored.
    #[inline(always)]
    pub(crate) fn enter(self: Pin<&mut Self>, queue: &impl Queue<F>) -> bool {
        // SAFETY: nothing is moved.
        let entry = unsafe { self.get_unchecked_mut() };
        let raw = &mut entry.raw;
        // One that never had an owner was never queued, but may be shut.
        let is_idle = raw.state.exclusively(|state| *state == 0);
        if !is_idle || !raw.owner.bind_exclusively(queue.id()) {
            return false;
        }
        raw.state.exclusively(|state| *state = State::QUEUED);
        true
    }

    /// Takes the guarded data out of an entry that is not used any more.
    ///
    /// # Safety
    ///
    /// No queue and no token may refer to the entry.
    #[inline(always)]
    pub(crate) unsafe fn end(entry: Dropping<'_, Self>) -> (M::Guarded, Dropped<'_, Self>) {
        const { assert!(!ends_with_drop::<F, M>()) };
        // SAFETY: Owner Key Invariant: the entry is borrowed mutably by *One End*. It is not read again: the entry is
        // ended here.
        let guarded = unsafe { entry.as_ref().get_ref().guarded.get().read() };
        // SAFETY: by contract nothing uses it any more; its other parts have nothing to drop, and the destructor of the
        // raw part asks for what the contract says.
        (guarded, unsafe { entry.ended() })
    }

    /// Returns the guarded data of an entry that belongs to `queue`; `None` if it belongs to another one.
    #[inline]
    pub fn guarded<'a>(
        self: Pin<&'a Self>,
        queue: &'a mut impl Queue<F>,
    ) -> Option<&'a mut M::Guarded> {
        if !self.raw.owner.is(queue.id()) {
            return None;
        }
        // SAFETY: Owner Key Invariant: the entry names `queue`, which is borrowed mutably for as long as the result.
        Some(unsafe { &mut *self.get_ref().guarded.get() })
    }
}

impl<F: Family, M: Member<F>> Deref for Entry<F, M> {
    type Target = Raw<F>;
    #[inline]
    fn deref(&self) -> &Raw<F> {
        &self.raw
    }
}

impl<F: Family, M: Member<F>> fmt::Debug for Entry<F, M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(formatter)
    }
}

/// Returns true if something of an entry is to be dropped besides its guarded data.
const fn ends_with_drop<F: Family, M: Member<F>>() -> bool {
    use core::mem::needs_drop;
    needs_drop::<M>()
        || needs_drop::<F::Key>()
        || needs_drop::<F::Head>()
        || needs_drop::<F::Shared>()
        || needs_drop::<F::Branches>()
}

/// Decides what an expiry does.
///
/// # Safety
///
/// The pointer must come from [`Entry::erase`] of this very type of entry, and the caller must hold the owning queue
/// mutably.
unsafe fn expire<F: Family, M: Member<F>>(raw: NonNull<Raw<F>>) -> Expiry<F::Token> {
    // SAFETY: by contract the pointer covers the whole entry, which is alive (Live Link Invariant).
    let entry = unsafe { raw.cast::<Entry<F, M>>().as_ref() };
    // SAFETY: by contract the owning queue is held mutably (Owner Key Invariant).
    let guarded = unsafe { &mut *entry.guarded.get() };
    M::expire(guarded)
}

/// Executes the callback.
///
/// # Safety
///
/// The pointer must come from [`Entry::erase`] of this very type of entry, and the caller must hold the entry's one
/// running token mutably.
unsafe fn call<F: Family, M: Member<F>>(
    raw: NonNull<Raw<F>>,
    context: &mut F::Context<'_>,
) -> F::Answer {
    // SAFETY: by contract the pointer covers the whole entry, which is alive (Live Link Invariant).
    let entry = unsafe { raw.cast::<Entry<F, M>>().as_ref() };
    // SAFETY: by contract the caller holds the one running token (Live Link Invariant).
    let member = unsafe { &mut *entry.member.get() };
    member.call(context)
}

impl<F: Family> Raw<F> {
    /// Returns the life cycle of the entry at this instant.
    ///
    /// Lock-free. An entry that is queued or whose callback executes is never reported as idle (spec OBJ-14); another
    /// thread may have changed it since.
    #[inline]
    pub fn state(&self) -> State {
        // Acquire: pairs with the Release of `set_state`. A thread that sees the entry idle may free it, so all that
        // the library did to the entry must have happened before.
        State::of(self.state.load(Ordering::Acquire))
    }

    /// Returns the owner of the entry at this instant.
    #[inline]
    pub fn owner(&self) -> Owner {
        match self.owner.load() {
            id::UNBOUND | id::RELEASED => Owner::Unbound,
            id::TRANSIT => Owner::Transit,
            word => Owner::Queue(QueueId(word)),
        }
    }

    /// Returns the distance from `first` to the entry's owner at this instant, in the same realm. If the entry has no
    /// owner in that realm, the result is beyond all places.
    #[inline]
    pub fn owner_behind(&self, first: QueueId) -> usize {
        // An entry without a queue has one of the numbers that are less than all identities.
        self.owner.load().wrapping_sub(first.0)
    }

    /// Returns the data that any thread may reach at any time.
    #[inline]
    pub fn shared(&self) -> &F::Shared {
        &self.shared
    }

    /// Returns the tag, which is fixed when the entry is made.
    #[inline]
    pub fn tag(&self) -> F::Tag {
        self.tag
    }

    #[inline]
    fn set_state(&self, state: u8) {
        // Release: pairs with the Acquire of `state`. Only the holder of the owning queue writes, so a plain store
        // cannot lose another's bit.
        self.state.store(state, Ordering::Release);
    }

    /// The state of the entry, as the only thread that may change it reads it.
    #[inline]
    fn own_state(&self) -> u8 {
        // Relaxed: the caller holds the owning queue, whose lock ordered all earlier writes.
        self.state.load(Ordering::Relaxed)
    }
}

impl<F: Family> Drop for Raw<F> {
    fn drop(&mut self) {
        // In a model: whatever the library did to the entry must have happened before it is freed.
        #[cfg(loom)]
        if !std::thread::panicking() {
            self.state.with_mut(|_| ());
        }
        if !self.state().is_idle() {
            crate::abort(
                "a timer was dropped while queued or running; its owner must cancel it first",
            );
        }
    }
}

impl<F: Family> fmt::Debug for Raw<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Entry")
            .field("state", &self.state())
            .field("owner", &self.owner())
            .field("tag", &self.tag)
            .finish_non_exhaustive()
    }
}

/// A borrowed entry without the type of its member.
pub struct EntryRef<'a, F: Family> {
    raw: NonNull<Raw<F>>,
    entry: PhantomData<&'a Raw<F>>,
}

impl<F: Family> Clone for EntryRef<'_, F> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: Family> Copy for EntryRef<'_, F> {}

impl<F: Family> Deref for EntryRef<'_, F> {
    type Target = Raw<F>;
    #[inline]
    fn deref(&self) -> &Raw<F> {
        // SAFETY: the reference was made from a borrow of the entry, or by `follow` from a link of a borrowed queue; in
        // both cases the entry is alive for the lifetime (Live Link Invariant).
        unsafe { self.raw.as_ref() }
    }
}

impl<F: Family> PartialEq for EntryRef<'_, F> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl<F: Family> Eq for EntryRef<'_, F> {}

impl<F: Family> fmt::Debug for EntryRef<'_, F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<'a, F: Family> EntryRef<'a, F> {
    /// Returns the address of the entry, for comparing and printing only.
    #[inline]
    #[must_use]
    pub fn address(self) -> usize {
        self.raw.addr().get()
    }

    /// Returns the address of the callback's code, for printing only.
    #[must_use]
    pub fn code_address(self) -> usize {
        self.actions.call as *const () as usize
    }

    /// Returns the [name](Member::name) of the callback in dumps.
    #[must_use]
    pub fn callback_name(self) -> &'static str {
        (self.actions.name)()
    }

    #[inline]
    pub(crate) fn link(self) -> Link<F> {
        Some(self.raw)
    }

    /// The entry that a link points to.
    ///
    /// # Safety
    ///
    /// The link must stem from a queue that is borrowed for `'a`, or from an entry queued in it.
    #[inline]
    pub(crate) unsafe fn follow(link: Link<F>) -> Option<Self> {
        link.map(|raw| Self {
            raw,
            entry: PhantomData,
        })
    }

    /// Returns true if the queue `id`, which the caller holds, owns the entry.
    #[inline]
    pub fn belongs_to(self, id: QueueId) -> bool {
        self.owner.is(id)
    }

    /// Binds an entry that has never had an owner to `id`.
    #[inline]
    pub(crate) fn bind(self, id: QueueId) -> bool {
        self.owner.bind(id)
    }

    /// Gives an entry that no queue owns to `id`. Returns `false` when a queue owns the entry, or has not finished
    /// releasing it.
    #[inline]
    pub(crate) fn adopt(self, id: QueueId) -> bool {
        if !self.owner.adopt(id) {
            return false;
        }
        // After the claim of the owner word: that a queue has let go of the word does not say that it has made its
        // last access, the store that makes the state idle. Before the claim another adopter could come between.
        if self.state().is_idle() {
            return true;
        }
        self.owner.set(id::RELEASED);
        false
    }

    #[inline]
    pub(crate) fn hand_over(self, id: QueueId) {
        self.owner.set(id.0);
    }

    /// The head of an entry, for changes by the entry's owner.
    ///
    /// # Safety
    ///
    /// The caller must hold the owning queue mutably for `'h`.
    #[inline]
    pub(crate) unsafe fn head_mut<'h>(self) -> &'h mut F::Head
    where
        'a: 'h,
    {
        let head = self.head.get();
        // SAFETY: Owner Key Invariant, by contract.
        unsafe { &mut *head }
    }

    /// The head of an entry whose owner only reads it.
    ///
    /// # Safety
    ///
    /// The caller must hold the owning queue, shared, for `'h`.
    #[inline]
    pub(crate) unsafe fn head<'h>(self) -> &'h F::Head
    where
        'a: 'h,
    {
        let head = self.head.get();
        // SAFETY: Owner Key Invariant, by contract.
        unsafe { &*head }
    }

    /// Shuts the entry down: no queue takes it again.
    #[inline]
    pub(crate) fn mark_shut(self) {
        assert!(!self.is_taken(), "what is taken out whole is not shut");
        self.set_state(self.own_state() | State::SHUT);
    }

    /// Marks an entry queued that is in no other state.
    #[inline]
    pub(crate) fn mark_queued_only(self) {
        self.set_state(State::QUEUED);
    }

    /// Marks an entry idle that is queued and in no other state: the last access of the library to it.
    #[inline]
    pub(crate) fn mark_idle(self) {
        self.set_state(0);
    }

    #[inline]
    pub(crate) fn mark_queued(self) {
        self.set_state(self.own_state() | State::QUEUED);
    }

    /// Clears the queued bit; unless the entry runs, this is the last access of the library to it.
    #[inline]
    pub(crate) fn mark_unqueued(self) {
        self.set_state(self.own_state() & !State::QUEUED);
    }

    /// Clears the running bit; unless the entry is queued, this is the last access of the library to it.
    #[inline]
    pub(crate) fn mark_not_running(self) {
        self.set_state(self.own_state() & !State::RUNNING);
    }

    /// Expires an entry that was just unlinked, and releases it: any queue may adopt the entry afterwards.
    ///
    /// # Safety
    ///
    /// As for [`expire`](Self::expire). The member must not ask for a call.
    pub(crate) unsafe fn expire_and_release(self) -> F::Token {
        // SAFETY: this pointer stems from `Entry::erase`, and the queue is held mutably by contract.
        let Expiry::Done(token) = (unsafe { (self.actions.expire)(self.raw) }) else {
            crate::abort("an entry that is let go has a callback to run");
        };
        self.release();
        token
    }

    /// Releases an entry that is not linked: any queue may adopt the entry afterwards. This is the last access of the
    /// library to the entry.
    #[inline]
    pub(crate) fn release(self) {
        // Before the owner lets go: afterwards an adopter may write the state.
        let idle = self.own_state() & !State::QUEUED;
        self.release_as(idle);
    }

    /// Releases an entry as [`release`](Self::release) does; the entry is queued and in no other state.
    #[inline]
    pub(crate) fn release_just_queued(self) {
        self.release_as(0);
    }

    #[inline]
    fn release_as(self, idle: u8) {
        // Not the other way around: what sees the entry idle may free it. An adopter that comes between finds it still
        // queued and gives it back.
        self.owner.set(id::RELEASED);
        self.set_state(idle);
    }

    /// Returns true if an expiry of this entry only [takes](Always::TAKEN) its token.
    #[inline]
    pub(crate) fn is_taken(self) -> bool {
        self.actions.outcome == Outcome::Taken
    }

    /// Returns true if an expiry of this entry is a call.
    #[inline]
    pub(crate) fn is_called(self) -> bool {
        self.actions.outcome == Outcome::Called
    }

    /// Expires an entry that was just unlinked and whose expiry [takes](Always::TAKEN) the token. Swaps the token with
    /// the old value of `place`, which the entry holds afterwards.
    ///
    /// # Safety
    ///
    /// As for [`expire`](Self::expire), and an expiry of the entry must [only take its token](Self::is_taken).
    #[inline]
    pub(crate) unsafe fn take(self, place: &mut F::Token) {
        let entry = self.raw.cast::<WithToken<F>>();
        // SAFETY: this pointer stems from `Entry::erase`, and so covers the whole entry, which is alive. After its raw
        // part that has its guarded data, which is a token by contract: both are `repr(C)`.
        let token = unsafe { &raw const (*entry.as_ptr()).token };
        // SAFETY: as above, and the owning queue is held mutably by contract (Owner Key Invariant).
        let token = unsafe { &mut *UnsafeCell::raw_get(token) };
        core::mem::swap(token, place);
        // It never runs, and is never shut.
        debug_assert!(self.state().is_just_queued());
        // The last access: the owner may free the entry as soon as it sees this.
        self.set_state(0);
    }

    /// Expires an entry that was just unlinked.
    ///
    /// # Safety
    ///
    /// The caller must hold the owning queue mutably, and the entry must not be linked any more.
    #[inline]
    pub(crate) unsafe fn expire(self) -> Fired<F> {
        let kept = self.own_state() & !State::QUEUED;
        if kept & State::RUNNING != 0 {
            // Cannot happen: a queue that fires a running entry would run its callback twice at once.
            crate::abort("a timer expired while its callback was still running");
        }
        let expiry = if self.actions.outcome == Outcome::Called {
            Expiry::Call
        } else {
            // SAFETY: this pointer stems from `Entry::erase`, and the queue is held mutably by contract.
            unsafe { (self.actions.expire)(self.raw) }
        };
        match expiry {
            Expiry::Done(token) => {
                // The last access: the owner may free the entry as soon as it sees this.
                self.set_state(kept);
                Fired::Done(token)
            }
            Expiry::Call => {
                // One store for both bits: no thread sees the entry idle in between (spec OBJ-14).
                self.set_state(kept | State::RUNNING);
                Fired::Call(Running { raw: self.raw })
            }
        }
    }
}

/// The result of a queue's expiry of an entry.
#[derive(Debug)]
pub enum Fired<F: Family> {
    /// The entry is idle, and this token was taken out of it.
    Done(F::Token),
    /// The entry is running: the caller has to release the lock, [`call`](Running::call), lock again, and finish.
    Call(Running<F>),
}

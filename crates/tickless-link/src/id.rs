//! The identities of queues, and the keys that prove them.
//!
//! A timer names the queue it belongs to by an index, never by a pointer. The host follows an index by a table look-up,
//! which safe code can do. The index alone would not suffice, because a program may hold several systems of queues (a
//! simulator makes one for each machine), and queue 3 of one is not queue 3 of the other. So an identity has two parts:
//! a *realm*, never given out twice in a process, and the index inside the realm.

use core::num::NonZeroUsize;
#[cfg(target_has_atomic = "ptr")]
use core::sync::atomic::AtomicUsize as StaticCounter;
#[cfg(not(target_has_atomic = "ptr"))]
use portable_atomic::AtomicUsize as StaticCounter;

use crate::const_unless_loom;
use crate::sync::{AtomicU32, AtomicUsize, Exclusive, Ordering};

/// Bits of an identity that hold the index; the rest holds the realm.
const INDEX_BITS: u32 = if usize::BITS == 64 { 24 } else { 16 };
/// Largest number of queues in one realm.
const INDEX_LIMIT: usize = 1 << INDEX_BITS;
/// Largest number of realms in one process: 2^40 - 1, or 2^16 - 1 on 32-bit targets.
const REALM_LIMIT: usize = (1 << (usize::BITS - INDEX_BITS)) - 1;

/// The owner word of an entry that has never been given to a queue.
pub(crate) const UNBOUND: usize = 0;
/// The owner word of an entry that travels between two queues.
pub(crate) const TRANSIT: usize = 1;
/// The owner word of an entry that its queue let go of.
pub(crate) const RELEASED: usize = 2;

/// The identity of one queue, unique in the process for its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueId(pub(crate) usize);

impl QueueId {
    /// Returns the realm of the queue.
    #[inline]
    #[must_use]
    pub const fn realm(self) -> RealmId {
        RealmId(self.0 >> INDEX_BITS)
    }

    /// Returns true if this is one of the `count` queues from `first` on, in the same realm.
    #[inline]
    #[must_use]
    pub const fn is_within(self, first: Self, count: usize) -> bool {
        self.0.wrapping_sub(first.0) < count
    }

    /// Returns the index of the queue in its realm.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 & (INDEX_LIMIT - 1)
    }
}

/// The identity of a [`Realm`], without the right to make queues in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RealmId(usize);

/// A set of queues that are numbered by consecutive indices.
#[derive(Debug)]
pub struct Realm {
    id: RealmId,
    next: AtomicU32,
}

impl Realm {
    /// Makes a realm that equals no other one, ever.
    ///
    /// # Panics
    ///
    /// When the process has used up all identities: after 2^40 realms, or 2^16 on 32-bit targets.
    #[must_use]
    pub fn new() -> Self {
        // The counter stays outside loom: identities are no part of any protocol, and a static cannot be a loom atomic.
        static NEXT: StaticCounter = StaticCounter::new(1);
        // Relaxed: only uniqueness matters. The update refuses to step over the limit, so no value is given out twice.
        let id = NEXT
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                (next <= REALM_LIMIT).then_some(next + 1)
            })
            .unwrap_or_else(|_| panic!("all {REALM_LIMIT} identities for realms are used up"));
        Self {
            id: RealmId(id),
            next: AtomicU32::new(0),
        }
    }

    /// Returns the identity of this realm.
    #[inline]
    #[must_use]
    pub const fn id(&self) -> RealmId {
        self.id
    }

    /// Makes the keys of the next `N` queues, with consecutive indices.
    ///
    /// # Panics
    ///
    /// When the realm would hold more than 2^24 queues, or 2^16 on 32-bit targets.
    #[must_use]
    pub fn keys<const N: usize>(&self) -> [Key; N] {
        let count = u32::try_from(N).unwrap_or(u32::MAX);
        // Relaxed: only uniqueness matters, see `new`.
        let first = self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                next.checked_add(count)
                    .filter(|end| *end as usize <= INDEX_LIMIT)
            })
            .unwrap_or_else(|_| panic!("a realm holds at most {INDEX_LIMIT} queues"));
        core::array::from_fn(|offset| {
            Key(QueueId(self.id.0 << INDEX_BITS | (first as usize + offset)))
        })
    }
}

impl Default for Realm {
    fn default() -> Self {
        Self::new()
    }
}

/// The only proof of being a certain queue.
///
/// There is at most one key with a given [`QueueId`], so a mutable borrow of it (or of the queue around it) is
/// exclusive access to all that names this identity as its owner. This is the Owner Key Invariant of the crate
/// documentation.
#[derive(Debug)]
pub struct Key(QueueId);

impl Key {
    /// Returns the identity that this key proves.
    #[inline]
    #[must_use]
    pub const fn id(&self) -> QueueId {
        self.0
    }
}

/// Makes identities for things that are owned by one thread at a time.
///
/// Not zero, and never the same twice: at one per nanosecond a 64-bit counter lasts for centuries, and the 32-bit one
/// panics rather than wrap.
pub(crate) fn unique() -> NonZeroUsize {
    static NEXT: StaticCounter = StaticCounter::new(1);
    // Relaxed: only uniqueness matters.
    NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
        next.checked_add(1)
    })
    .ok()
    .and_then(NonZeroUsize::new)
    .expect("there are identities left for owners")
}

/// The owner word: which queue an entry belongs to, if any.
#[derive(Debug)]
pub(crate) struct OwnerWord(AtomicUsize);

impl OwnerWord {
    const_unless_loom! {
        pub(crate) const fn unbound() -> Self {
            Self(AtomicUsize::new(UNBOUND))
        }
    }

    #[inline]
    pub(crate) fn load(&self) -> usize {
        // Acquire: pairs with the Release of `set`, so that a thread that sees a queue's identity sees what the mover
        // wrote to the entry before it arrived there (spec X-2.8a).
        self.0.load(Ordering::Acquire)
    }

    /// Returns true if the word names `id`, asked by a thread that holds that queue.
    #[inline]
    pub(crate) fn is(&self, id: QueueId) -> bool {
        // Relaxed: only the holder of the queue can change the word away from it, and the holder got the queue
        // by a lock, which ordered everything before.
        self.0.load(Ordering::Relaxed) == id.0
    }

    /// Writes the word: only for those whom the Owner Key Invariant names.
    #[inline]
    pub(crate) fn set(&self, word: usize) {
        // Release: pairs with the Acquire of `load`.
        self.0.store(word, Ordering::Release);
    }

    /// Binds the entry as [`bind`](Self::bind) does, for a caller that has exclusive access.
    #[inline]
    pub(crate) fn bind_exclusively(&mut self, id: QueueId) -> bool {
        self.0.exclusively(|word| {
            let is_unbound = *word == UNBOUND;
            if is_unbound {
                *word = id.0;
            }
            is_unbound
        })
    }

    /// Gives an entry that was never bound to the queue `id`; `false` when another thread was first.
    #[inline]
    pub(crate) fn bind(&self, id: QueueId) -> bool {
        // AcqRel: the winner publishes nothing yet, but orders its later writes after the claim; the loser's read is
        // repeated through `load`. Failure needs no order.
        self.0
            .compare_exchange(UNBOUND, id.0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Gives an entry that was never bound, or that its queue let go of, to the queue `id`; `false` when it has an
    /// owner, or another thread was first.
    #[inline]
    pub(crate) fn adopt(&self, id: QueueId) -> bool {
        // Relaxed: the exchange decides.
        let word = self.0.load(Ordering::Relaxed);
        (word == UNBOUND || word == RELEASED)
            // AcqRel: acquires what the queue before wrote to the entry, from the Release of `set` with which it let
            // go. Failure needs no order.
            && self
                .0
                .compare_exchange(word, id.0, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn identities_name_realm_and_index() {
        let realm = Realm::new();
        let [first, second] = realm.keys();
        let [third] = realm.keys();
        assert_eq!(
            [first.id().index(), second.id().index(), third.id().index()],
            [0, 1, 2]
        );
        assert_eq!(third.id().realm(), realm.id());
        assert_ne!(first.id(), second.id());
    }

    #[test]
    fn realms_never_share_an_identity() {
        let [here] = Realm::new().keys();
        let [there] = Realm::new().keys();
        assert_eq!(here.id().index(), there.id().index());
        assert_ne!(here.id(), there.id());
        assert!(here.id().0 > RELEASED && there.id().0 > RELEASED);
    }

    #[test]
    #[should_panic(expected = "a realm holds at most")]
    fn a_realm_refuses_more_queues_than_its_indices() {
        let realm = Realm::new();
        realm
            .next
            .store(u32::try_from(INDEX_LIMIT).unwrap() - 1, Ordering::Relaxed);
        let _last = realm.keys::<1>();
        let _over = realm.keys::<1>();
    }
}

//! Intrusive queues, the locks around them and the atomics below them.
//!
//! A timer subsystem is a set of queues that hold nodes living inside *other people's* structures: a future on
//! a caller's stack, a field of a connection, a static of a kernel. No container of the standard library can do
//! that, so pointers and `unsafe` are needed somewhere. This crate is that somewhere: everything above it
//! (`tickless-core` and what is built on it) contains no pointer `unsafe` at all, and everything here is small
//! enough to be checked by Miri and by loom.
//!
//! ```
//! use std::pin::pin;
//! use tickless_link::entry::{Branches, Entry, Expiry, Family, Member};
//! use tickless_link::id::Realm;
//! use tickless_link::tree::Tree;
//!
//! /// Entries that are sorted by a number, and have a letter.
//! struct Lettered;
//! impl Family for Lettered {
//!     type Key = i64;
//!     type Tag = char;
//!     type Head = ();
//!     type Shared = ();
//!     type Branches = Branches<Self>;
//!     type Token = ();
//!     type Context<'a> = ();
//!     type Answer = bool;
//! }
//!
//! /// What an entry carries: nothing, so its expiry calls nothing.
//! struct Silent;
//! impl Member<Lettered> for Silent {
//!     type Guarded = ();
//!     fn expire((): &mut ()) -> Expiry<()> {
//!         Expiry::Done(())
//!     }
//!     fn call(&mut self, (): &mut ()) -> bool {
//!         unreachable!("it expires without a call")
//!     }
//! }
//!
//! let [key] = Realm::new().keys();
//! let mut tree = Tree::new(key);
//! // Entries live on the stack; the tree allocates nothing.
//! let a = pin!(Entry::new(0, 'a', (), (), (), Silent));
//! let b = pin!(Entry::new(0, 'b', (), (), (), Silent));
//! for (entry, number) in [(a.as_ref().erase(), 20), (b.as_ref().erase(), 10)] {
//!     assert!(tree.bind(entry), "it belongs to this tree from now on");
//!     tree.open(entry).expect("bound here").insert(number);
//! }
//! assert_eq!(tree.first_key(), Some(10));
//! // Only the tree that owns an entry opens it; one that is queued cannot be dropped.
//! for entry in [a.as_ref().erase(), b.as_ref().erase()] {
//!     tree.open(entry).expect("bound here").remove();
//! }
//! ```
//!
//! # What is in it
//!
//! | module | holds |
//! |---|---|
//! | [`id`] | identities of queues, and the [`Key`](id::Key) that opens what a queue owns |
//! | [`entry`] | [`Entry`](entry::Entry): the pinned node, its life cycle and its callbacks |
//! | [`tree`] | [`Tree`](tree::Tree): a red-black tree with neighbour links and summaries of subtrees |
//! | [`buckets`] | [`BucketArray`](buckets::BucketArray): levels of buckets whose entries know their list |
//! | [`lock`] | [`Lock`](lock::Lock) over any [`RawLock`](lock::RawLock), and a spin lock for hosts without threads |
//! | [`bias`] | [`BiasedLock`](bias::BiasedLock): nearly free for its owner, possible for strangers |
//! | [`emplace`](mod@emplace) | making large values in their final place, not on the stack |
//! | [`end`](mod@end) | values that end in their place, without checks of facts that are known |
//! | [`lazy_init`] | [`LazyInit`](lazy_init::LazyInit): a value that is made after it is pinned, so that moves before that copy little |
//! | [`seqlock`] | [`SeqCell`](seqlock::SeqCell): a record that readers copy without ever blocking the writer |
//! | [`latch`] | [`LatchCell`](latch::LatchCell): a record in two copies, for readers that may interrupt the writer |
//! | [`static_table`] | [`StaticTable`](static_table::StaticTable): references that are published once and never change |
//! | [`sync`] | the atomics that all crates use, replaced by loom's in models |
//!
//! # How safe code can use intrusive nodes
//!
//! Two invariants carry the whole crate. They are stated here once and cited by name at every `unsafe` block.
//!
//! **Owner Key Invariant.** Each queue has an identity that no other queue in the process has or will have, kept in a
//! [`Key`](id::Key) that cannot be copied. Each entry names at most one queue in its *owner word*. The cells of an
//! entry (its links, its key, its head, its guarded data) are touched only through a mutable borrow of the queue that
//! the owner word names, or through an exclusive borrow of the whole entry. The owner word itself is changed only by
//! the thread that holds that queue mutably (to send the entry away, or to give it to another queue that it holds
//! mutably too, or to let it go), by the holder of the one transit token (to let it arrive), or by a compare-exchange
//! from *unbound* or *released* (to bind it for the first time, or again).
//!
//! **Live Link Invariant.** An entry whose state is not *idle* is pinned and alive: it was handed in as a
//! [`Pin`](core::pin::Pin), and its destructor aborts the process unless the state is idle. An entry that is *queued*
//! is linked in exactly the queue that its owner word names (or travels between two queues in the hands of a transit
//! token), and every link stored in a queue or in a queued entry points to an entry queued in the same queue. An entry
//! that is *running* is claimed by exactly one [`Running`](entry::Running) token. The store that makes the state idle
//! is the last access the library makes to the entry; the library leaves the state of an entry that is [ended](mod@end)
//! as it is, and the entry's destructor does not run. A queue that lets an entry go gives up the owner word just before
//! that store, so a queue that adopts a released entry checks the state after its claim, and gives the entry back if
//! the state is not idle yet.
//!
//! # Limits
//!
//! The crate needs pointers of 32 or 64 bits. A bare machine without 64-bit atomics changes them in a critical section
//! ([`sync`]), which the program provides to the crate `critical-section`.
//!
//! Requirement ids (TIM-17, INV-1, R36, B12) and sections (X-4.5, C-2.4) refer to the specifications in `laboratory/docs/spec`.
#![expect(
    unsafe_code,
    reason = "the pointers of the library stand here, under Miri and loom (decision 3)"
)]
#![no_std]
#![deny(rustdoc::broken_intra_doc_links)]

#[cfg(any(test, loom, shuttle))]
extern crate std;

pub mod bias;
pub mod buckets;
pub mod emplace;
pub mod end;
pub mod entry;
pub mod id;
pub mod latch;
pub mod lazy_init;
pub mod lock;
mod prefetch;
mod project;
#[cfg(all(test, not(loom)))]
mod properties;
pub mod seqlock;
#[cfg(target_has_atomic = "ptr")]
pub mod static_table;
pub mod sync;
pub mod tree;

#[cfg(not(any(target_pointer_width = "32", target_pointer_width = "64")))]
compile_error!("tickless is tried on targets with 32-bit and 64-bit pointers only");

/// The proof that the calling thread is the only one left: the child of a fork.
///
/// An operation that another thread was in the middle of will never be finished by that thread; with this it can be
/// given up.
#[derive(Debug)]
pub struct LastThread(());

impl LastThread {
    /// Claims that the calling thread is the only one of this process, and that none of its parent's other threads will
    /// ever run here.
    ///
    /// # Safety
    ///
    /// The claim MUST be true, as it is in the child of a fork before the child starts a thread.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

/// Ends the process with `message`.
///
/// For the few states that no caller can repair, where going on would leave a dangling pointer behind. A second panic
/// while the first one unwinds aborts everywhere: with `panic = "unwind"`, with `panic = "abort"`, and in a kernel
/// through its panic handler.
// By the C way of calling the compiler knows that it does not unwind: no caller saves what it would have to drop.
#[cold]
#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "no foreign code calls it")]
pub extern "C" fn abort(message: &'static str) -> ! {
    struct Bomb(&'static str);
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("{}", self.0);
        }
    }
    let _bomb = Bomb(message);
    panic!("{message}");
}

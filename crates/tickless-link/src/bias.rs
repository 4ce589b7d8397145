//! A biased lock: its owner thread takes it at nearly no cost, and other threads can still take it.
//!
//! A timer base is locked by its owner a million times for each time by a stranger, so the owner must not pay for
//! strangers. With an ordinary lock it would: an atomic exchange for every arm and every cancel.
//!
//! # Mechanism
//!
//! The lock is *biased* or *ordinary*, as its gate says.
//!
//! While it is **biased**, the gate names the owner. The owner, which finds itself named, announces itself with a plain
//! store, keeps the compiler from reordering, and looks at the gate again, with a plain load. A stranger closes the
//! gate, makes every other thread of the process execute a full barrier ([`LockHost::heavy_barrier`], `membarrier` on
//! Linux), and waits until the owner is outside. After the barrier one of two things holds: the owner's announcement is
//! visible to the stranger, or the owner's next look at the gate finds it closed. This is Dekker's argument with the
//! owner's fence paid by the stranger.
//!
//! While it is **ordinary**, every thread takes an inner lock: one exchange, and a futex when it is contended.
//! Strangers need no barrier then, because the owner finds the gate closed and takes the inner lock too. It announces
//! nothing for that: where threads hand timers to each other, and the lock is ordinary for long, the owner pays what
//! strangers do.
//!
//! # Policy
//!
//! The barrier costs a stranger as much as thousands of ordinary acquisitions cost the owner (`docs/base-lock.md` has
//! the figures). So each stranger that finds the lock biased makes it ordinary, and the owner makes it biased again
//! after [`REBIAS_AFTER`] acquisitions in a row in which no stranger came. Whatever strangers do, the total cost is at
//! most about twice that of the better of the two modes. A new owner starts in ordinary mode and earns its bias.
//!
//! On a host that has no such barrier ([`LockHost::barrier_works`]) the lock is ordinary for ever; on one that loses
//! it, from the next stranger on. A host that is built without one ([`LockHost::MAY_BIAS`]) has no gate at all: the
//! owner's fast paths take the inner lock by one exchange.
//!
//! # While barriers disturb
//!
//! The barrier interrupts every CPU on which a thread of the process runs, also one that must not be interrupted. While
//! the host says that there is one ([`LockHost::barrier_disturbs`]) no lock becomes biased, so that no stranger needs a
//! barrier; those that are biased already the host has made ordinary by locking each once as a stranger. The exception
//! is a lock that its owner [reserved](BiasedLock::set_reserved) because strangers have no reason to take it. Should
//! one take it after all it pays one barrier, and the lock is ordinary until the owner reserves it again.
//!
//! # Ground rules
//!
//! - Only the thread that [claimed](BiasedLock::claim) the lock holds its [`Owner`] token, which cannot leave the
//!   thread.
//! - `inside` is written by the owner alone. The gate is written only under the inner lock.
//! - The lock is not recursive, and an interrupt or signal handler must not take it.
//!
//! # Cost
//!
//! Owner, biased: two stores, two loads. Everybody, ordinary: two exchanges. Stranger, biased: a barrier, once.

use core::fmt;
use core::marker::PhantomData;
use core::num::NonZeroUsize;

use crate::LastThread;
use crate::const_unless_loom;
use crate::id;
use crate::lock::RawLock;
use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering, light_barrier, spin_loop};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

/// The number of uncontended acquisitions by the owner after which an ordinary lock becomes biased.
///
/// The barrier costs 2 to 10 µs, an exchange 2 to 10 ns: with a few thousand acquisitions the owner loses about as much
/// before the switch as the next other thread pays after it.
pub const REBIAS_AFTER: u32 = if cfg!(loom) {
    1
} else if cfg!(miri) {
    64
} else {
    4096
};

/// Polls of a contended word before the waiter goes to sleep.
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };

/// The part of the lock that the operating system provides.
///
/// # Safety
///
/// When [`barrier_works`](LockHost::barrier_works) has ever answered `true`, every call of
/// [`heavy_barrier`](LockHost::heavy_barrier) MUST make all other running threads of the process execute a full memory
/// barrier between the call and its return, or wait until each of them has done what amounts to it, and be one for the
/// caller. It MUST keep doing so after `barrier_works` has answered `false` again: locks that are biased stay so until
/// a stranger comes.
pub unsafe trait LockHost {
    /// True if locks of this host may become biased. It is false on a host that never has the barrier, whose owners
    /// always take the inner lock.
    const MAY_BIAS: bool = true;

    /// Returns true if [`heavy_barrier`](LockHost::heavy_barrier) works, and costs no more than a system call. While it
    /// does not, no lock becomes biased.
    fn barrier_works() -> bool;

    /// Executes a full memory barrier on behalf of all threads. MAY take long if
    /// [`barrier_works`](LockHost::barrier_works) has become false: once for each lock that is still biased.
    fn heavy_barrier();

    /// Returns true if a heavy barrier would interrupt a CPU that must not be interrupted at present. MAY change at any
    /// time.
    ///
    /// Asked with the inner lock held. So a host that makes it true, and afterwards locks and
    /// releases every lock that has an owner without a token, knows that no barrier is executed from there on, except
    /// for [reserved](BiasedLock::set_reserved) locks.
    fn barrier_disturbs() -> bool {
        false
    }

    /// Sleeps until a thread wakes `word`, unless it no longer has the value `expected`. MAY return early.
    fn wait(word: &AtomicU32, expected: u32);

    /// Wakes one thread that sleeps on `word`.
    fn wake_one(word: &AtomicU32);

    /// Lets other threads run for a moment, because a thread has held a lock for long.
    fn relax();
}

/// The owner is outside.
const OUTSIDE: u32 = 0;
/// The owner holds the lock, or is about to look whether it may.
const INSIDE: u32 = 1;

/// The identity of no token.
const NO_OWNER: usize = 0;

/// Holds, in the gate, that every thread takes the inner lock. It is the identity of no token and differs from
/// [`NO_OWNER`], so that a thread without a token never matches it.
const ORDINARY: usize = usize::MAX;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const CONTENDED: u32 = 2;

/// A biased lock. See the [module documentation](self).
pub struct BiasedLock<H> {
    inside: AtomicU32,
    inner: AtomicU32,
    /// Identity of the token whose thread may enter without the inner lock, or [`ORDINARY`].
    gate: AtomicUsize,
    /// Identity of the owner's token, or [`NO_OWNER`].
    owner: AtomicUsize,
    /// Acquisitions of the owner in ordinary mode since the last stranger; guarded by `inner`.
    quiet: AtomicU32,
    /// The lock may become biased although barriers disturb; guarded by `inner`.
    reserved: AtomicBool,
    host: PhantomData<fn() -> H>,
}

/// The token of a [`BiasedLock`]'s owner, which proves the ownership. It cannot leave the thread.
#[derive(Clone, Copy)]
pub struct Owner {
    /// Number of the owner; not zero, so that an optional token takes no more space.
    id: NonZeroUsize,
    stays: PhantomData<*mut ()>,
}

impl fmt::Debug for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Owner").field(&self.id).finish()
    }
}

/// The way in which a [`BiasedLock`] was taken.
#[derive(Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The owner acquired the lock through the gate, without the inner lock.
    Gate,
    /// The lock was acquired through the inner lock.
    Inner,
}

/// State in which the owner finds the gate after it announced itself.
enum Gate {
    /// The owner is inside.
    Open,
    /// Strangers come, and it has to withdraw the announcement and take the inner lock as they do.
    Closed,
}

impl<H: LockHost> BiasedLock<H> {
    const_unless_loom! {
        /// Makes a free lock without an owner.
        pub const fn new() -> Self {
            Self {
                inside: AtomicU32::new(OUTSIDE),
                inner: AtomicU32::new(FREE),
                gate: AtomicUsize::new(ORDINARY),
                owner: AtomicUsize::new(NO_OWNER),
                quiet: AtomicU32::new(0),
                reserved: AtomicBool::new(false),
                host: PhantomData,
            }
        }
    }

    /// Makes the calling thread the owner; returns `None` if there is one.
    pub fn claim(&self) -> Option<Owner> {
        self.lock_inner();
        // Relaxed: written only under the inner lock.
        let claimed = (self.owner.load(Ordering::Relaxed) == NO_OWNER).then(|| {
            let owner = Owner {
                id: id::unique(),
                stays: PhantomData,
            };
            self.owner.store(owner.id.get(), Ordering::Relaxed);
            self.quiet.store(0, Ordering::Relaxed);
            owner
        });
        self.unlock_inner();
        claimed
    }

    /// Ends the ownership that the token proves. From here on the lock is ordinary, and the token proves nothing.
    pub fn disown(&self, owner: Owner) {
        // Being the owner, the caller is outside, so closing the gate needs no barrier: the next to enter through it
        // would be the caller.
        self.lock_inner();
        // Relaxed: see `acquire`; only the owner's own thread could compare with success.
        if self.owner.load(Ordering::Relaxed) == owner.id.get() {
            self.owner.store(NO_OWNER, Ordering::Relaxed);
            // Relaxed: the inner lock orders it for all who take that.
            self.gate.store(ORDINARY, Ordering::Relaxed);
            // Relaxed: guarded by the inner lock.
            self.reserved.store(false, Ordering::Relaxed);
        }
        self.unlock_inner();
    }

    /// Allows or forbids that the lock is biased while barriers [disturb](LockHost::barrier_disturbs) a thread.
    ///
    /// It is for an owner whose lock no other thread has a reason to take. The first other thread that takes it ends
    /// this. The owner calls it while it does not hold the lock; with an outdated token it has no effect.
    pub fn set_reserved(&self, owner: Owner, reserved: bool) {
        self.lock_inner();
        // Relaxed: see `acquire`; only the owner's own thread could compare with success.
        if self.owner.load(Ordering::Relaxed) == owner.id.get() {
            // Relaxed: guarded by the inner lock.
            self.reserved.store(reserved, Ordering::Relaxed);
            if !reserved && H::barrier_disturbs() {
                // As in `disown`: needs no barrier. Relaxed: the inner lock orders it for all who take that.
                self.gate.store(ORDINARY, Ordering::Relaxed);
            }
        }
        self.unlock_inner();
    }

    /// Frees the lock and forgets its owner. It is for the child of a fork, in which the threads that held or owned it
    /// do not exist.
    pub fn free_after_fork(&self, _others_are_gone: &LastThread) {
        // Relaxed: there is no thread to be ordered with.
        self.owner.store(NO_OWNER, Ordering::Relaxed);
        self.gate.store(ORDINARY, Ordering::Relaxed);
        self.inside.store(OUTSIDE, Ordering::Relaxed);
        self.inner.store(FREE, Ordering::Relaxed);
        self.quiet.store(0, Ordering::Relaxed);
        self.reserved.store(false, Ordering::Relaxed);
    }

    /// Returns true if the owner can take the lock without the inner one at present; for statistics.
    #[must_use]
    pub fn is_biased(&self) -> bool {
        // Relaxed: a hint.
        self.gate.load(Ordering::Relaxed) != ORDINARY
    }

    /// Returns true if the gate names the thread of `token`.
    #[inline]
    fn names(&self, token: Option<Owner>) -> bool {
        // As a word, that a token is missing needs no question of its own.
        let id = token.map_or(NO_OWNER, |owner| owner.id.get());
        // Relaxed: that the gate is open for this thread was written by itself, so what was before is in its past; that
        // it is closed is ordered by the pair of barriers, see `knock`, or does not matter.
        self.gate.load(Ordering::Relaxed) == id
    }

    /// Announces the owner at the gate, and looks at it again; `None`, and nothing was done, if the gate does not name
    /// the thread of `token`.
    #[inline]
    fn knock(&self, token: Option<Owner>) -> Option<Gate> {
        if !self.names(token) {
            return None;
        }
        // Relaxed: the owner, which this is, alone writes it.
        debug_assert!(
            self.inside.load(Ordering::Relaxed) == OUTSIDE,
            "the owner of a biased lock takes it a second time while it holds it"
        );
        // Relaxed: ordered against the look at the gate by the pair of barriers, see the module documentation.
        self.inside.store(INSIDE, Ordering::Relaxed);
        light_barrier();
        if self.names(token) {
            Some(Gate::Open)
        } else {
            Some(Gate::Closed)
        }
    }

    /// Returns true if `token` is the owner's.
    #[inline]
    fn is_owner(&self, token: Option<Owner>) -> bool {
        // Relaxed: equal only for the thread that claimed the lock, which then reads its own write.
        token.is_some_and(|owner| self.owner.load(Ordering::Relaxed) == owner.id.get())
    }

    /// Tries to take the inner lock for the owner, on a host whose locks are never biased.
    #[inline]
    fn try_acquire_unbiased(&self, token: Option<Owner>) -> Option<Acquired> {
        if !self.is_owner(token) {
            return None;
        }
        // Acquire: as in `lock_inner`. Failure needs no order.
        let taken = self
            .inner
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then_some(Acquired::Inner)
    }

    /// Withdraws the announcement of the owner, which found the gate closed behind it.
    fn withdraw(&self) {
        // Release: what the owner did in earlier sections was published when it left them; this only ends the wait of
        // the stranger that closed the gate.
        self.inside.store(OUTSIDE, Ordering::Release);
    }

    /// Takes the lock for the thread of `token`, which did not find the gate open.
    #[cold]
    fn acquire_slow(&self, token: Option<Owner>) -> Acquired {
        if !self.is_owner(token) {
            return self.acquire_as_stranger();
        }
        self.lock_inner();
        self.note_quiet();
        Acquired::Inner
    }

    /// Acquires the lock for the owner as [`acquire_slow`](Self::acquire_slow) does; returns `None` if another thread
    /// has the inner lock.
    ///
    /// Where strangers keep the lock ordinary the owner is to find its shortest paths all the same.
    #[cold]
    fn try_acquire_slow(&self, token: Option<Owner>) -> Option<Acquired> {
        if !self.is_owner(token) {
            return None;
        }
        // Acquire: as in `lock_inner`. Failure needs no order.
        let taken = self
            .inner
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        taken.ok()?;
        self.note_quiet();
        Some(Acquired::Inner)
    }

    /// Counts an acquisition of the owner in ordinary mode, which may be the last. Called with the inner lock held.
    fn note_quiet(&self) {
        // Relaxed: guarded by the inner lock. Saturating: where the lock stays ordinary it counts for ever.
        let quiet = self.quiet.load(Ordering::Relaxed).saturating_add(1);
        if quiet >= REBIAS_AFTER && self.may_be_biased() {
            self.quiet.store(0, Ordering::Relaxed);
            // Relaxed, both: the owner, which this is, reads what it wrote itself; strangers read the gate under the
            // inner lock.
            let owner = self.owner.load(Ordering::Relaxed);
            self.gate.store(owner, Ordering::Relaxed);
        } else {
            self.quiet.store(quiet, Ordering::Relaxed);
        }
    }

    /// Returns true if the price of a stranger's barrier is one that may be asked. Called with the inner lock held.
    fn may_be_biased(&self) -> bool {
        // Relaxed: guarded by the inner lock.
        let is_reserved = self.reserved.load(Ordering::Relaxed);
        H::MAY_BIAS && (is_reserved || !H::barrier_disturbs()) && H::barrier_works()
    }

    #[inline]
    fn acquire_as_stranger(&self) -> Acquired {
        self.lock_inner();
        // Relaxed, both: guarded by the inner lock.
        self.quiet.store(0, Ordering::Relaxed);
        self.reserved.store(false, Ordering::Relaxed);
        // The gate is written only under the inner lock.
        if self.is_biased() {
            self.close_gate();
        }
        Acquired::Inner
    }

    /// A stranger that holds the inner lock sends the owner there too, and waits until it is not inside any more.
    #[cold]
    fn close_gate(&self) {
        // Relaxed: the barrier below orders it against the owner's look.
        self.gate.store(ORDINARY, Ordering::Relaxed);
        H::heavy_barrier();
        let mut polls = 0;
        // Acquire: pairs with the Release of the owner that leaves, so that its section happens before this one.
        while self.inside.load(Ordering::Acquire) == INSIDE {
            polls += 1;
            if polls < SPINS {
                spin_loop()
            } else {
                H::relax()
            }
        }
    }

    #[inline]
    fn lock_inner(&self) {
        // Acquire: pairs with the Release in `unlock_inner`. Failure needs no order.
        if self
            .inner
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            self.lock_inner_slow();
        }
    }

    /// Waits for the inner lock: polls it first, and leaves no mark if that is enough.
    ///
    /// The mark "contended" makes the release a system call. Two threads that hand timers to each other meet at the
    /// lock all the time and never for long: were it left by each that had to poll, each release would call.
    #[cold]
    fn lock_inner_slow(&self) {
        let mut mark = TAKEN;
        loop {
            for _ in 0..SPINS {
                // Relaxed: only to wait; the exchange below decides.
                if self.inner.load(Ordering::Relaxed) != TAKEN {
                    break;
                }
                spin_loop();
            }
            // Acquire: as in `lock_inner`. Failure needs no order.
            if self
                .inner
                .compare_exchange(FREE, mark, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
            // Acquire: as in `lock_inner`. A thread that sleeps leaves "contended" behind, so that the release wakes
            // one.
            if self.inner.swap(CONTENDED, Ordering::Acquire) == FREE {
                return;
            }
            H::wait(&self.inner, CONTENDED);
            // Others may sleep besides this thread, and the release that woke it forgot them.
            mark = CONTENDED;
        }
    }

    #[inline]
    fn unlock_inner(&self) {
        // Release: pairs with the Acquire in `lock_inner`.
        if self.inner.swap(FREE, Ordering::Release) == CONTENDED {
            H::wake_one(&self.inner);
        }
    }
}

impl<H: LockHost> Default for BiasedLock<H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H> fmt::Debug for BiasedLock<H> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("BiasedLock")
    }
}

// SAFETY: through the inner lock there is one holder at a time. Through the gate there is only the owner's thread,
// because no two tokens have the same identity and none leaves its thread; and it is never there together with a holder
// of the inner lock other than itself: a stranger that finds the gate open closes it, executes the barrier (contract of
// `LockHost`), and waits until the owner is outside, while an owner that enters later sees the gate closed. Sections
// are ordered by Release and Acquire on `inside` or on `inner`; the way back, from a stranger to an owner at the gate,
// leads through the inner lock, because the gate is only opened by the owner while it holds that.
unsafe impl<H: LockHost> RawLock for BiasedLock<H> {
    type Token = Owner;
    type Acquired = Acquired;

    #[inline]
    fn acquire(&self, token: Option<Owner>) -> Acquired {
        if !H::MAY_BIAS {
            self.lock_inner();
            return Acquired::Inner;
        }
        // Those that are known to have no token do not ask for the gate.
        if token.is_none() {
            return self.acquire_as_stranger();
        }
        match self.knock(token) {
            Some(Gate::Open) => return Acquired::Gate,
            Some(Gate::Closed) => self.withdraw(),
            None => {}
        }
        self.acquire_slow(token)
    }

    #[inline]
    fn try_acquire(&self, token: Option<Owner>) -> Option<Acquired> {
        if !H::MAY_BIAS {
            return self.try_acquire_unbiased(token);
        }
        match self.knock(token) {
            Some(Gate::Open) => return Some(Acquired::Gate),
            Some(Gate::Closed) => self.withdraw(),
            None => {}
        }
        self.try_acquire_slow(token)
    }

    /// Tries to acquire the lock through the gate alone, or, where there is none, by one exchange.
    #[inline]
    fn try_acquire_fast(&self, token: Option<Owner>) -> Option<Acquired> {
        if !H::MAY_BIAS {
            return self.try_acquire_unbiased(token);
        }
        match self.knock(token)? {
            Gate::Open => Some(Acquired::Gate),
            Gate::Closed => {
                self.withdraw();
                None
            }
        }
    }

    #[inline]
    fn release(&self, held: &Acquired) {
        match held {
            // Release: pairs with the Acquire of a waiting stranger.
            Acquired::Gate => self.inside.store(OUTSIDE, Ordering::Release),
            Acquired::Inner => self.unlock_inner(),
        }
    }
}

//! The biased lock, which its owner thread takes at nearly no cost, and which other threads can still take.
//!
//! The owner of a timer base locks the base a million times for each time that a stranger locks it. So the owner must
//! not pay for strangers. With an ordinary lock the owner would pay an atomic exchange for every arm and every cancel.
//!
//! # Mechanism
//!
//! The lock is in one of two modes, *biased* or *ordinary*. The lock's gate word holds the mode.
//!
//! While the lock is **biased**, the gate names the owner. To take the lock, the owner checks that the gate names it
//! and announces itself with a plain store. Then it keeps the compiler from reordering, and checks the gate again, with
//! a plain load. A stranger closes the gate, makes every other thread of the process execute a full barrier
//! ([`LockHost::heavy_barrier`], `membarrier` on Linux), and waits until the owner is outside. After the barrier one of
//! two facts holds: the owner's announcement is visible to the stranger, or the owner's next check finds the gate
//! closed. This is Dekker's argument, in which the stranger pays for the owner's fence.
//!
//! While the lock is **ordinary**, every thread takes an inner lock: one exchange, and a futex when the lock is
//! contended. Strangers need no barrier in this mode, because the owner finds the gate closed and takes the inner lock
//! too. The owner makes no announcement in this mode. So in programs whose threads pass timers to each other, with
//! locks that are ordinary for long, the owner pays the same as strangers.
//!
//! # Policy
//!
//! The barrier costs a stranger as much as thousands of ordinary acquisitions cost the owner (`docs/base-lock.md` has
//! the figures). So each stranger that finds the lock biased makes it ordinary, and the owner makes the lock biased
//! again after [`REBIAS_AFTER`] acquisitions in a row without a stranger. For any behaviour of the strangers, the total
//! cost is at most about twice the cost of the better of the two modes. A new owner starts in ordinary mode.
//!
//! On a host without such a barrier ([`LockHost::barrier_works`]) the lock is always ordinary. On a host that loses the
//! barrier, the lock is ordinary from the next stranger on. A host that is built without a barrier
//! ([`LockHost::MAY_BIAS`]) uses no gate: the owner's fast paths take the inner lock by one exchange.
//!
//! # While barriers disturb
//!
//! The barrier interrupts every CPU on which a thread of the process runs, also a CPU that must not be interrupted.
//! While the host reports such a CPU ([`LockHost::barrier_disturbs`]), no lock becomes biased, so that no stranger
//! needs a barrier. The host has made the locks that were biased before ordinary, by locking each once as a stranger.
//! The exception is a lock that its owner [reserved](BiasedLock::set_reserved), because strangers have no reason to
//! take that lock. If a stranger takes a reserved lock, the stranger pays one barrier, and the lock is ordinary until
//! the owner reserves it again.
//!
//! # Ground rules
//!
//! - Only the thread that [claimed](BiasedLock::claim) the lock holds its [`Owner`] token, which cannot leave the
//!   thread.
//! - Only the owner writes `inside`. The gate is written only under the inner lock.
//! - The lock is not recursive, and an interrupt or signal handler must not take it.
//!
//! # Cost
//!
//! In biased mode the owner pays two stores and two loads, and the first stranger pays a barrier once. In ordinary mode
//! every thread pays two exchanges.

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
/// The barrier costs 2 to 10 µs, an exchange 2 to 10 ns. With a few thousand acquisitions, the exchanges of the owner
/// before the switch cost about as much as the barrier of the next stranger after it.
pub const REBIAS_AFTER: u32 = if cfg!(loom) {
    1
} else if cfg!(miri) {
    64
} else {
    4096
};

/// The number of polls of a contended word before the waiter sleeps.
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };

/// The part of the lock that the operating system provides.
///
/// # Safety
///
/// When [`barrier_works`](LockHost::barrier_works) has ever returned `true`, every call of
/// [`heavy_barrier`](LockHost::heavy_barrier) MUST make all other running threads of the process execute a full memory
/// barrier between the call and its return, or wait until each of them has executed an equivalent operation. The call
/// MUST also be a full memory barrier for the caller. All this MUST still hold after `barrier_works` has returned
/// `false` again, because a biased lock stays biased until a stranger takes it.
pub unsafe trait LockHost {
    /// True if locks of this host may become biased. It is false on a host that never has the barrier. There owners
    /// always take the inner lock.
    const MAY_BIAS: bool = true;

    /// Returns true if [`heavy_barrier`](LockHost::heavy_barrier) works, and costs no more than a system call. While
    /// the result is false, no lock becomes biased.
    fn barrier_works() -> bool;

    /// Executes a full memory barrier on behalf of all threads. MAY take long if
    /// [`barrier_works`](LockHost::barrier_works) has become false. In that case it is called once for each lock that
    /// is still biased.
    fn heavy_barrier();

    /// Returns true if a heavy barrier would interrupt a CPU that must not be interrupted at present. MAY change at any
    /// time.
    ///
    /// Called with the inner lock held. So a host can make the result true, and then lock and release, without a token,
    /// every lock that has an owner. From then on no barrier is executed, except for
    /// [reserved](BiasedLock::set_reserved) locks.
    fn barrier_disturbs() -> bool {
        false
    }

    /// Sleeps until a thread wakes `word`, unless `word` no longer has the value `expected`. MAY return early.
    fn wait(word: &AtomicU32, expected: u32);

    /// Wakes one thread that sleeps on `word`.
    fn wake_one(word: &AtomicU32);

    /// Lets other threads run for a moment. Called when a thread has held a lock for long.
    fn relax();
}

/// The value of `inside` while the owner does not hold the lock through the gate.
const OUTSIDE: u32 = 0;
/// The value of `inside` while the owner holds the lock through the gate, or is about to check the gate again.
const INSIDE: u32 = 1;

/// An identity that no token has: the lock has no owner.
const NO_OWNER: usize = 0;

/// The value of the gate in ordinary mode, in which every thread takes the inner lock. No token has this identity. The
/// value differs from [`NO_OWNER`], so that a thread without a token never matches it.
const ORDINARY: usize = usize::MAX;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const CONTENDED: u32 = 2;

/// A biased lock. See the [module documentation](self).
pub struct BiasedLock<H> {
    inside: AtomicU32,
    inner: AtomicU32,
    /// The identity of the token that lets its thread enter without the inner lock, or [`ORDINARY`].
    gate: AtomicUsize,
    /// The identity of the owner's token, or [`NO_OWNER`].
    owner: AtomicUsize,
    /// The number of acquisitions of the owner in ordinary mode since the last stranger; guarded by `inner`.
    quiet: AtomicU32,
    /// True if the lock may become biased although barriers disturb a CPU; guarded by `inner`.
    reserved: AtomicBool,
    host: PhantomData<fn() -> H>,
}

/// The token of a [`BiasedLock`]'s owner, which proves the ownership. It cannot leave the thread.
#[derive(Clone, Copy)]
pub struct Owner {
    /// The identity of the token. It is not zero, so that an optional token takes no more space.
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

/// The state in which the owner finds the gate after it announced itself.
enum Gate {
    /// The gate still names the owner, which holds the lock now.
    Open,
    /// A stranger closed the gate. The owner has to withdraw its announcement and take the inner lock, as strangers do.
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

    /// Makes the calling thread the owner. Returns `None` if the lock has an owner.
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

    /// Ends the ownership that the token proves. Afterwards the lock is ordinary, and the token proves nothing.
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

    /// Allows or forbids biased mode while barriers [disturb](LockHost::barrier_disturbs) a CPU.
    ///
    /// An owner reserves its lock if no other thread has a reason to take the lock. The first other thread that takes
    /// the lock ends the reservation. The owner calls the function while it does not hold the lock. With an outdated
    /// token the call has no effect.
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

    /// Frees the lock and removes its owner. Called in the child of a fork, in which the threads that held or owned the
    /// lock do not exist.
    pub fn free_after_fork(&self, _others_are_gone: &LastThread) {
        // Relaxed: there is no thread to be ordered with.
        self.owner.store(NO_OWNER, Ordering::Relaxed);
        self.gate.store(ORDINARY, Ordering::Relaxed);
        self.inside.store(OUTSIDE, Ordering::Relaxed);
        self.inner.store(FREE, Ordering::Relaxed);
        self.quiet.store(0, Ordering::Relaxed);
        self.reserved.store(false, Ordering::Relaxed);
    }

    /// Returns true if the owner can take the lock without the inner lock at present. The result is for statistics.
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

    /// Announces the owner, and checks the gate again. Returns `None`, with nothing done, if the gate does not name the
    /// thread of `token`.
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

    /// Returns true if `token` is the token of the owner.
    #[inline]
    fn is_owner(&self, token: Option<Owner>) -> bool {
        // Relaxed: equal only for the thread that claimed the lock, which then reads its own write.
        token.is_some_and(|owner| self.owner.load(Ordering::Relaxed) == owner.id.get())
    }

    /// Tries to take the inner lock for the owner. Does not count the acquisition, which a host whose locks are never
    /// biased has no use for.
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

    /// Withdraws the announcement of the owner, which found the gate closed at its second check.
    fn withdraw(&self) {
        // Release: what the owner did in earlier sections was published when it left them; this only ends the wait of
        // the stranger that closed the gate.
        self.inside.store(OUTSIDE, Ordering::Release);
    }

    /// Takes the lock for the thread of `token`, after this thread did not get in through the gate.
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
    /// With this function the owner can use its fast paths even while strangers keep the lock ordinary.
    #[cold]
    fn try_acquire_slow(&self, token: Option<Owner>) -> Option<Acquired> {
        self.try_acquire_ordinary(token)
    }

    /// Acquires the lock as [`try_acquire_slow`](Self::try_acquire_slow) does, without a call.
    #[inline]
    fn try_acquire_ordinary(&self, token: Option<Owner>) -> Option<Acquired> {
        let held = self.try_acquire_unbiased(token)?;
        self.note_quiet();
        Some(held)
    }

    /// Counts an acquisition of the owner in ordinary mode. After enough acquisitions it makes the lock biased. Called
    /// with the inner lock held.
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

    /// Returns true if the lock may become biased, so that the next stranger pays a barrier. Called with the inner lock
    /// held.
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

    /// Closes the gate for a stranger that holds the inner lock, so that the owner takes the inner lock too. Waits
    /// until the owner has left the section that it entered through the gate.
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

    /// Waits for the inner lock. The thread polls the lock first, and does not mark it as contended if polling
    /// suffices.
    ///
    /// The mark "contended" makes the release a system call. Two threads that pass timers to each other contend for the
    /// lock often, but only for a short time. If each thread that has to poll set the mark, each release would make a
    /// system call.
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

    /// Tries to acquire the lock through the gate alone, or, on a host without a gate, by one exchange.
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

    /// Tries to acquire the lock in ordinary mode. Refuses a biased lock, which the fast path of its owner has taken.
    #[inline]
    fn try_acquire_contended(&self, token: Option<Owner>) -> Option<Acquired> {
        if !H::MAY_BIAS || self.is_biased() {
            return None;
        }
        self.try_acquire_ordinary(token)
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

//! The biased lock, which its owner thread takes at nearly no cost, and which other threads can still take.
//!
//! The owner of a timer base locks the base a million times for each time that a stranger locks it. So the owner must
//! not pay for strangers. With an ordinary lock the owner would pay an atomic exchange for every arm and every cancel.
//!
//! # Mechanism
//!
//! The owner announces itself: it stores "inside" into a word that only the owner writes, and then looks whether a
//! stranger has the lock. A stranger takes the *inner lock* first, and then waits until the owner is outside. This is
//! Dekker's argument: of the two, at least one sees the other, if a full barrier separates the store of each from its
//! look at the other. The stranger's exchange on the inner lock is such a barrier. The mode of the lock says who pays
//! for the owner's barrier. The gate word holds the mode.
//!
//! While the lock is **ordinary**, the owner pays: its announcement is an atomic exchange, and it looks at the inner
//! lock. If the inner lock is taken, the owner withdraws and waits for the inner lock as strangers do.
//!
//! While the lock is **biased**, the gate names the owner. The owner's announcement is a plain store. The owner keeps
//! the compiler from reordering, and looks at the gate, with a plain load. A stranger closes the gate, which makes the
//! lock ordinary, makes every other thread of the process execute a full barrier ([`LockHost::heavy_barrier`],
//! `membarrier` on Linux), and waits until the owner is outside. After the barrier one of two facts holds: the owner's
//! announcement is visible to the stranger, or the owner's next look finds the gate closed.
//!
//! In both modes the owner releases the lock by one store. So the owner's code is the same in both modes, except for
//! the announcement.
//!
//! # Policy
//!
//! Each stranger that finds the lock biased makes it ordinary, and the owner makes the lock biased again after
//! [`REBIAS_AFTER`] acquisitions in a row without a stranger. Then the exchanges of the owner have cost about as much
//! as a barrier costs a stranger. For any behaviour of the strangers, the total cost is at most about twice the cost of
//! the better of the two modes. A new owner starts in ordinary mode.
//!
//! On a host without such a barrier ([`LockHost::barrier_works`]) the lock is always ordinary. On a host that loses the
//! barrier, the lock is ordinary from the next stranger on.
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
//! - A thread that holds the inner lock has the data only when it has seen the owner outside. The owner itself is
//!   outside whenever it takes the inner lock.
//! - The lock is not recursive, and an interrupt or signal handler must not take it.
//!
//! # Cost
//!
//! In biased mode the owner pays two stores and two loads, and the first stranger pays a barrier once. In ordinary mode
//! the owner pays one exchange, and a stranger pays two.

use core::fmt;
use core::marker::PhantomData;
use core::num::NonZeroUsize;

use crate::LastThread;
use crate::const_unless_loom;
use crate::id;
use crate::lock::RawLock;
use crate::sync::{
    AtomicBool, AtomicU32, AtomicUsize, Ordering, light_barrier, model_barrier, spin_loop,
};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

/// The number of uncontended acquisitions by the owner after which an ordinary lock becomes biased.
///
/// The barrier costs 0.2 to 10 µs, depending on the machine and on the other threads of the process, and the exchange 5
/// to 20 ns, depending on the stores that the processor has to finish first. Their ratio is some hundred.
pub const REBIAS_AFTER: u32 = if cfg!(loom) {
    2
} else if cfg!(miri) {
    64
} else {
    128
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

    /// Lets other threads run for a moment. Called when a thread has held a lock for long, with the number of the
    /// attempt. After many attempts the function MUST let threads of a lower priority run too.
    fn relax(attempt: u32);
}

/// The value of `inside` while the owner does not hold the lock, or holds it through the inner lock.
const OUTSIDE: u32 = 0;
/// The value of `inside` while the owner holds the lock by its announcement, or is about to look for strangers.
const INSIDE: u32 = 1;

/// The message of the check, in debug builds, that the owner is outside.
const TAKEN_TWICE: &str = "the owner of a biased lock takes it a second time while it holds it";

/// An identity that no token has: the lock has no owner.
const NO_OWNER: usize = 0;

/// The value of the gate in ordinary mode. No token has this identity. The value differs from [`NO_OWNER`], so that a
/// thread without a token never matches it.
const ORDINARY: usize = usize::MAX;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const CONTENDED: u32 = 2;

/// A biased lock. See the [module documentation](self).
pub struct BiasedLock<H> {
    inside: AtomicU32,
    inner: AtomicU32,
    /// The identity of the token that lets its thread enter without an exchange, or [`ORDINARY`].
    gate: AtomicUsize,
    /// The identity of the owner's token, or [`NO_OWNER`].
    owner: AtomicUsize,
    /// The number of acquisitions of the owner in ordinary mode since the last stranger; guarded by the lock.
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
    /// The owner acquired the lock by its announcement.
    Inside,
    /// The lock was acquired through the inner lock.
    Inner,
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
    pub fn free_after_fork(&self, others_are_gone: &LastThread) {
        self.forget_strangers(others_are_gone);
        // Relaxed: there is no thread to be ordered with.
        self.owner.store(NO_OWNER, Ordering::Relaxed);
        self.gate.store(ORDINARY, Ordering::Relaxed);
        self.inside.store(OUTSIDE, Ordering::Relaxed);
        self.quiet.store(0, Ordering::Relaxed);
        self.reserved.store(false, Ordering::Relaxed);
    }

    /// Takes the inner lock from a thread that waited for the owner when the owner forked. Called in the child, in which
    /// that thread does not exist, by the owner or a thread that acts for it, while it does not hold the lock.
    pub fn forget_strangers(&self, _others_are_gone: &LastThread) {
        // Relaxed: there is no thread to be ordered with.
        self.inner.store(FREE, Ordering::Relaxed);
    }

    /// Returns true if the owner can take the lock without an exchange at present. The result is for statistics.
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
        // it is closed is ordered by the pair of barriers, see `try_enter_biased`, or does not matter.
        self.gate.load(Ordering::Relaxed) == id
    }

    #[inline]
    fn is_owner(&self, token: Option<Owner>) -> bool {
        // Relaxed: equal only for the thread that claimed the lock, which then reads its own write.
        token.is_some_and(|owner| self.owner.load(Ordering::Relaxed) == owner.id.get())
    }

    /// Announces the owner through the open gate. Returns false, and the owner is outside, if a stranger closed the gate
    /// meanwhile.
    #[inline(always)]
    fn try_enter_biased(&self, token: Option<Owner>) -> bool {
        // Relaxed: the owner, which this is, alone writes it.
        debug_assert!(
            self.inside.load(Ordering::Relaxed) == OUTSIDE,
            "{TAKEN_TWICE}"
        );
        // Relaxed: ordered against the look at the gate by the pair of barriers, see the module documentation.
        self.inside.store(INSIDE, Ordering::Relaxed);
        light_barrier();
        let is_open = self.names(token);
        if !is_open {
            self.leave();
        }
        is_open
    }

    /// Announces the owner by an exchange. Returns false, and the owner is outside, if another thread has the inner
    /// lock, or if the owner has to decide about the bias, under the inner lock.
    // Always: without a call, the paths of the owner save no register for it.
    #[inline(always)]
    fn try_enter_ordinary(&self) -> bool {
        // Relaxed: a hint, which the slow path checks under the inner lock.
        if self.quiet.load(Ordering::Relaxed) >= REBIAS_AFTER - 1 {
            return false;
        }
        // SeqCst, both: of the owner and a stranger in `acquire_as_stranger`, at least one sees the other. The load is
        // the Acquire of `lock_inner` too.
        let before = self.inside.swap(INSIDE, Ordering::SeqCst);
        debug_assert!(before == OUTSIDE, "{TAKEN_TWICE}");
        model_barrier();
        let is_free = self.inner.load(Ordering::SeqCst) == FREE;
        if is_free {
            // Relaxed, both: guarded by the lock.
            let quiet = self.quiet.load(Ordering::Relaxed);
            self.quiet.store(quiet + 1, Ordering::Relaxed);
        } else {
            self.leave();
        }
        is_free
    }

    /// Ends the announcement of the owner.
    #[inline(always)]
    fn leave(&self) {
        // Release: pairs with the Acquire of a stranger that waits for it.
        self.inside.store(OUTSIDE, Ordering::Release);
    }

    /// Takes the lock for the thread of `token`, after the thread did not get in by an announcement.
    #[cold]
    fn acquire_slow(&self, token: Option<Owner>) -> Acquired {
        if !self.is_owner(token) {
            return self.acquire_as_stranger();
        }
        self.lock_inner();
        self.note_quiet();
        Acquired::Inner
    }

    /// Counts an acquisition of the owner in ordinary mode. After enough acquisitions it makes the lock biased. Called
    /// with the inner lock held.
    fn note_quiet(&self) {
        // Relaxed: guarded by the lock.
        let mut quiet = self.quiet.load(Ordering::Relaxed) + 1;
        if quiet >= REBIAS_AFTER {
            quiet = 0;
            if self.may_be_biased() {
                // Relaxed, both: the owner, which this is, reads what it wrote itself; strangers read the gate under
                // the inner lock.
                let owner = self.owner.load(Ordering::Relaxed);
                self.gate.store(owner, Ordering::Relaxed);
            }
        }
        // Relaxed: as above.
        self.quiet.store(quiet, Ordering::Relaxed);
    }

    /// Returns true if the lock may become biased, so that the next stranger pays a barrier. Called with the inner lock
    /// held.
    fn may_be_biased(&self) -> bool {
        // Relaxed: guarded by the inner lock.
        let is_reserved = self.reserved.load(Ordering::Relaxed);
        (is_reserved || !H::barrier_disturbs()) && H::barrier_works()
    }

    #[inline]
    fn acquire_as_stranger(&self) -> Acquired {
        self.lock_inner();
        // The gate is written only under the inner lock.
        if self.is_biased() {
            self.close_gate();
        }
        model_barrier();
        // SeqCst: pairs with the owner's exchange, see `try_enter_ordinary`. Acquire: with the Release of the owner that
        // leaves, so that its section happens before this one.
        if self.inside.load(Ordering::SeqCst) == INSIDE {
            self.await_owner();
        }
        // Relaxed, both: guarded by the lock.
        self.quiet.store(0, Ordering::Relaxed);
        self.reserved.store(false, Ordering::Relaxed);
        Acquired::Inner
    }

    /// Closes the gate for a stranger that holds the inner lock, so that the owner looks at the inner lock from now on,
    /// or is seen inside.
    #[cold]
    fn close_gate(&self) {
        // Relaxed: the barrier below orders it against the owner's look.
        self.gate.store(ORDINARY, Ordering::Relaxed);
        H::heavy_barrier();
    }

    /// Waits until the owner has left the section that it entered before it saw that this stranger holds the inner
    /// lock.
    #[cold]
    fn await_owner(&self) {
        let mut polls = 0;
        // Acquire: as in `acquire_as_stranger`.
        while self.inside.load(Ordering::Acquire) == INSIDE {
            if polls < SPINS {
                spin_loop()
            } else {
                H::relax(polls)
            }
            polls = polls.saturating_add(1);
        }
    }

    #[inline]
    fn lock_inner(&self) {
        // SeqCst: pairs with the owner's look, see `try_enter_ordinary`. Acquire: with the Release in `unlock_inner`.
        // Failure needs no order.
        if self
            .inner
            .compare_exchange(FREE, TAKEN, Ordering::SeqCst, Ordering::Relaxed)
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
            // SeqCst: as in `lock_inner`. Failure needs no order.
            if self
                .inner
                .compare_exchange(FREE, mark, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
            // SeqCst: as in `lock_inner`. A thread that sleeps leaves "contended" behind, so that the release wakes one.
            if self.inner.swap(CONTENDED, Ordering::SeqCst) == FREE {
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

// SAFETY: through the inner lock there is one holder at a time, and by an announcement only the owner's thread holds the
// lock, because no two tokens have the same identity and none leaves its thread. The owner takes the inner lock only
// while it is outside. A stranger that has the inner lock and the owner that announces itself exclude each other: in
// ordinary mode by Dekker's argument over `inner` and `inside`, all of whose four accesses are SeqCst; in biased mode
// over the gate and `inside`, because the stranger closes the gate, executes the barrier (contract of `LockHost`), and
// waits until the owner is outside, while an owner that enters later sees the gate closed. Sections are ordered by
// Release and Acquire on `inside` or on `inner`; the way back, from a stranger to an owner at the gate, leads through
// the inner lock, because the gate is only opened by the owner while it holds that.
unsafe impl<H: LockHost> RawLock for BiasedLock<H> {
    type Token = Owner;
    type Acquired = Acquired;

    #[inline]
    fn acquire(&self, token: Option<Owner>) -> Acquired {
        // Those that are known to have no token do not ask for the gate.
        if token.is_none() {
            return self.acquire_as_stranger();
        }
        match self.try_acquire(token) {
            Some(held) => held,
            None => self.acquire_slow(token),
        }
    }

    /// Tries to acquire the lock for the owner, by its announcement.
    #[inline]
    fn try_acquire(&self, token: Option<Owner>) -> Option<Acquired> {
        let is_inside = if self.names(token) {
            self.try_enter_biased(token)
        } else {
            self.is_owner(token) && self.try_enter_ordinary()
        };
        is_inside.then_some(Acquired::Inside)
    }

    #[inline]
    fn release(&self, held: &Acquired) {
        match held {
            Acquired::Inside => self.leave(),
            Acquired::Inner => self.unlock_inner(),
        }
    }
}

//! Combined reads: one read of a slow shared counter serves all CPUs that wait for a read at that time (spec C-6).
//!
//! When CPUs read a slow counter at the same moment, one CPU reads it and publishes the value, and the others wait for
//! this value instead of the counter: [`Combined::read_joined`]. With `n` readers and a read that takes `r`, direct
//! reads take `n * r`, and joined reads `2 * r` at most. The counter may be any source that is slow, shared and does
//! not run backwards. `docs/clocks.md` says where combining is faster (spec C-6.4).
//!
//! # The mechanism
//!
//! One atomic word holds generation, lock and value ([`Word`]). A reader that finds the word unlocked masks interrupts,
//! locks the word, and reads the counter. Then it publishes the value with the next generation and unlocks the word, in
//! one exchange. A reader that finds the word locked polls, without masking interrupts, until the generation has
//! changed.
//!
//! A thread in user space may be preempted while it reads, and all readers would wait for it. So a host limits the
//! patience of a waiter ([`SlowCounter::relax`]). When the patience ends, the waiter *overtakes*: it reads the counter
//! itself, publishes over the locked word, and so replaces the holder. The holder then finds that the word has changed,
//! drops its sample, and returns the published value.
//!
//! # Guarantees
//!
//! All guarantees follow from one invariant: **a value that is published over a word was sampled after its publisher
//! had seen that word.** The holder samples after it locked the word, and an overtaker samples after it loaded the
//! word. Both publish by a compare-exchange from exactly that word. No other operation changes the value.
//!
//! - *The published values never go back*, even if holders are overtaken: when the sample of a publication began, the
//!   previously published value had been sampled. This needs no comparison of values. A comparison would be wrong for a
//!   counter that wraps and was not read for half its range; a clock of 32 bits would then stand still
//!   (`docs/clocks.md`).
//! - *Each returned value was the published value at some moment within the call*. The caller published it, found it
//!   after another CPU's publication, or found it when its own publication failed.
//! - *A call that begins after another call has returned does not return less.* This follows from the first two
//!   guarantees.
//! - *A joined value is at most as old as one read takes*: from its sample to a publication within the call. If a
//!   thread may be preempted in between, the value is older by the time of the preemption, and its age has no bound.
//!   [`Combined::read_fresh`] returns a sample that *began* within the call, even after a preemption. Compute deadlines
//!   from a fresh value.
//! - *Progress*: a joined reader waits for one read in flight, and a fresh reader for two. If the reading CPU gives up,
//!   by a panic of the host, a waiter reads instead.
//!
//! The exchange cannot distinguish two words that are equal in all 64 bits. With 32 bits of value, an equal word needs
//! 2^31 publications while a holder is preempted, and the same value. With [`CombinedClock`], it needs four
//! publications of the same instant. The value that such a holder publishes is not less than this instant. So all
//! guarantees hold except *fresh*, on clocks that stand still across several reads.
//!
//! # Ground rules
//!
//! - Interrupts are masked from the attempt to lock to the publication, never while a reader waits. An interrupt that
//!   reads the counter cannot meet its own CPU as the holder.
//! - A context that interrupts masked code (a non-maskable interrupt, a machine check, the path of a crash) neither
//!   locks nor waits. The host reports it by [`SlowCounter::is_non_maskable`], and the context reads directly. Its
//!   reading may be newer, by one read, than a value that an ordinary call returns afterwards (R46).
//! - With one CPU no reads are combined ([`SlowCounter::is_alone`]). The word needs 64-bit atomics; `tickless-link`
//!   refuses targets without them.
//! - A signal handler that interrupts the holder on the same thread waits until its own patience ends, and then
//!   overtakes.
//!
//! # Cost
//!
//! A reader that is alone: two exchanges and a fence, on a cache line that stays in its cache. A reader that joins: two
//! cache-line transfers.

use core::mem::{align_of, size_of};

use tickless_link::const_unless_loom;
use tickless_link::sync::{AtomicU64, CachePadded, Ordering, fence, spin_loop};

use crate::time::convert::Cycles;

mod clock;
mod word;

pub use clock::CombinedClock;
pub use word::{Step, Waiting, Word};

/// The number of polls after which, by default, a waiter reads the counter itself; they take ten to fifty microseconds.
/// This is longer than several reads of any counter for which combining is worthwhile, and short compared with the time
/// slice for which a preempted reader does not run.
pub const ATTEMPTS_MAX: u32 = 1_024;

/// The choice of a waiter: to continue to wait, or to read the counter itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// The reader continues to wait for the reading CPU.
    Lasts,
    /// The reader stops waiting: it reads the counter itself, and replaces the reading CPU.
    Ends,
}

/// The host's side of a slow counter.
///
/// # Contract
///
/// Samples MUST NOT run backwards: a sample that begins after another sample ended, on any CPU, is not less, modulo the
/// width of the counter. A counter whose copies on the CPUs differ must not be combined.
pub trait SlowCounter {
    /// The type of a sample.
    type Sample;
    /// The state that [`mask`](Self::mask) changed, for [`unmask`](Self::unmask); `()` if the host masks nothing.
    type Masked;

    /// Reads the counter. May be called by several CPUs at once, and MUST NOT read the same combined counter.
    ///
    /// If the call panics, no value is published, and a waiter reads instead.
    fn sample(&self) -> Self::Sample;

    /// Masks the interrupts of this CPU whose handlers may read this counter. In user space the call does nothing.
    fn mask(&self) -> Self::Masked;

    /// Undoes [`mask`](Self::mask).
    fn unmask(&self, masked: Self::Masked);

    /// Returns true if the caller may have interrupted code that runs with interrupts masked. The caller then reads
    /// directly.
    #[inline]
    fn is_non_maskable(&self) -> bool {
        false
    }

    /// Returns true if only one CPU is online; this CPU then reads directly. MUST return false before a second CPU
    /// reads.
    #[inline]
    fn is_alone(&self) -> bool {
        false
    }

    /// Pauses a waiter that has polled `attempt` times before (0 at the first call), and decides if the waiter
    /// continues to wait. A host whose readers cannot be preempted always lets it wait.
    #[inline]
    fn relax(&self, attempt: u32) -> Patience {
        spin_loop();
        if attempt < ATTEMPTS_MAX {
            Patience::Lasts
        } else {
            Patience::Ends
        }
    }
}

// The word is read and written as a whole, and shares its line with nothing.
const _: () = assert!(size_of::<Word<32>>() == 8);
#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<AtomicU64>() == 8);
const _: () = assert!(align_of::<CachePadded<AtomicU64>>() >= 64);
const _: () = assert!(size_of::<CachePadded<AtomicU64>>() >= 64);

/// A slow counter of `BITS` bits whose reads are combined.
///
/// ```
/// use core::sync::atomic::{AtomicU64, Ordering};
/// use tickless_core::clock::combined::{Combined, SlowCounter};
/// use tickless_core::time::convert::Cycles;
///
/// /// Stands for a device register.
/// struct Register(AtomicU64);
/// impl SlowCounter for Register {
///     type Sample = Cycles;
///     type Masked = ();
///     fn sample(&self) -> Cycles {
///         Cycles(self.0.fetch_add(1, Ordering::Relaxed))
///     }
///     fn mask(&self) {}
///     fn unmask(&self, (): ()) {}
/// }
///
/// static COUNTER: Combined<Register> = Combined::new(Register(AtomicU64::new(u32::MAX as u64)));
/// assert_eq!(COUNTER.read_joined(), Cycles(u32::MAX.into()));
/// // It wraps as a counter of 32 bits does.
/// assert_eq!(COUNTER.read_fresh(), Cycles(0));
/// ```
#[derive(Debug)]
pub struct Combined<C, const BITS: u32 = 32> {
    word: CachePadded<AtomicU64>,
    counter: C,
}

impl<C, const BITS: u32> Combined<C, BITS> {
    const_unless_loom! {
        /// Makes a counter that combines the reads of `counter`.
        #[must_use]
        pub const fn new(counter: C) -> Self {
            Self {
                word: CachePadded(AtomicU64::new(Word::<BITS>::START.bits())),
                counter,
            }
        }
    }

    /// Returns the counter whose reads are combined.
    #[must_use]
    pub const fn counter(&self) -> &C {
        &self.counter
    }

    #[inline]
    fn load(&self) -> Word<BITS> {
        // Acquire: pairs with the Release in `exchange_for`, so that a sample that this CPU takes now does not begin
        // before that of the value it has seen. Locking and giving up are exchanges and pass that on.
        Word::from_bits(self.word.load(Ordering::Acquire))
    }

    /// Publishes `value` over `seen`. If the word is no longer `seen`, returns the present word.
    #[inline]
    fn exchange_for(&self, seen: Word<BITS>, value: u64) -> Result<(), Word<BITS>> {
        // Release: a CPU that sees the value samples after this sample; pairs with the Acquire of `load` and `lock`.
        // Acquire on failure: as in `load`.
        self.word
            .compare_exchange(
                seen.bits(),
                seen.publish(value).bits(),
                Ordering::Release,
                Ordering::Acquire,
            )
            .map_or_else(|now| Err(Word::from_bits(now)), |_| Ok(()))
    }
}

impl<C: SlowCounter<Sample = Cycles>, const BITS: u32> Combined<C, BITS> {
    /// Returns the counter modulo 2^`BITS`. The sample was taken for this call, or for another call that published it
    /// during this call. So the sample may have begun before this call: by the time of a read, and in user space also
    /// by the time for which a thread may be preempted.
    ///
    /// # Interrupt context
    ///
    /// Any context; for interrupts that cannot be masked see the module's documentation.
    ///
    /// # Cost
    ///
    /// One read of the counter; or the rest of a read in flight and a cache-line transfer.
    #[inline]
    pub fn read_joined(&self) -> Cycles {
        if self.is_direct() {
            return Cycles(self.counter.sample().0 & Word::<BITS>::VALUE);
        }
        let entry = self.load();
        self.read(Waiting::for_any(entry), entry)
    }

    /// Returns the counter as [`read_joined`](Self::read_joined) does, from a sample that began during the call.
    ///
    /// # Interrupt context
    ///
    /// As for [`read_joined`](Self::read_joined).
    ///
    /// # Cost
    ///
    /// Two reads of the counter at most; the caller may do one of them itself.
    #[inline]
    pub fn read_fresh(&self) -> Cycles {
        if self.is_direct() {
            return Cycles(self.counter.sample().0 & Word::<BITS>::VALUE);
        }
        // What the caller knows of the time comes before the look at the word; pairs with the fence in `lead`: a CPU
        // that had not locked the word yet samples afterwards.
        fence(Ordering::SeqCst);
        let entry = self.load();
        self.read(Waiting::for_fresh(entry), entry)
    }

    #[inline]
    fn is_direct(&self) -> bool {
        let is_non_maskable = self.counter.is_non_maskable();
        is_non_maskable || self.counter.is_alone()
    }

    fn read(&self, mut waiting: Waiting<BITS>, mut now: Word<BITS>) -> Cycles {
        let mut attempt = 0;
        loop {
            now = match waiting.judge(now) {
                Step::Leave(value) => return Cycles(value),
                Step::Lead => match self.lead(now) {
                    Ok(value) => return Cycles(value),
                    Err(now) => now,
                },
                Step::Wait => match self.counter.relax(attempt) {
                    Patience::Lasts => {
                        attempt = attempt.saturating_add(1);
                        self.load()
                    }
                    Patience::Ends => match self.overtake(now) {
                        Ok(value) => return Cycles(value),
                        Err(now) => now,
                    },
                },
            };
        }
    }

    /// Reads the counter for all waiters, if the word is still `seen`, which is unlocked. Otherwise returns the present
    /// word.
    fn lead(&self, seen: Word<BITS>) -> Result<u64, Word<BITS>> {
        let _masked = Masked::of(&self.counter);
        let own = seen.locked();
        // Acquire: as in `load`. Its store needs no more: it passes on what the publication before it released.
        let locked = self.word.compare_exchange(
            seen.bits(),
            own.bits(),
            Ordering::Acquire,
            Ordering::Acquire,
        );
        if let Err(now) = locked {
            return Err(Word::from_bits(now));
        }
        let holder = Holder {
            combined: self,
            word: own,
        };
        // The lock before the sample; pairs with the fence in `read_fresh`.
        fence(Ordering::SeqCst);
        let value = self.counter.sample().0 & Word::<BITS>::VALUE;
        Ok(holder.publish(value))
    }

    /// Reads the counter in place of the holder that locked the word as `seen` and has not finished, and replaces the
    /// holder. If the word has changed meanwhile, returns the present word.
    #[cold]
    fn overtake(&self, seen: Word<BITS>) -> Result<u64, Word<BITS>> {
        // As in `lead`: what a fresh reader joins has begun after the word it has seen.
        fence(Ordering::SeqCst);
        let value = self.counter.sample().0 & Word::<BITS>::VALUE;
        self.exchange_for(seen, value).map(|()| value)
    }
}

/// A guard that keeps the interrupts of this CPU masked until it is dropped.
struct Masked<'a, C: SlowCounter> {
    counter: &'a C,
    masked: Option<C::Masked>,
}

impl<'a, C: SlowCounter> Masked<'a, C> {
    fn of(counter: &'a C) -> Self {
        Self {
            counter,
            masked: Some(counter.mask()),
        }
    }
}

impl<C: SlowCounter> Drop for Masked<'_, C> {
    fn drop(&mut self) {
        if let Some(masked) = self.masked.take() {
            self.counter.unmask(masked);
        }
    }
}

/// The lock of the CPU that reads for all waiters. If it is dropped by a panic, the CPU gives up.
struct Holder<'a, C, const BITS: u32> {
    combined: &'a Combined<C, BITS>,
    word: Word<BITS>,
}

impl<C, const BITS: u32> Holder<'_, C, BITS> {
    /// Publishes `value` and returns it. If another CPU has replaced this holder, returns the published value instead.
    ///
    /// A replaced holder must not return its own value: this value may be newer than the published one, and a later
    /// call would return less.
    fn publish(self, value: u64) -> u64 {
        let Self { combined, word } = self;
        core::mem::forget(self);
        match combined.exchange_for(word, value) {
            Ok(()) => value,
            Err(now) => now.value(),
        }
    }
}

impl<C, const BITS: u32> Drop for Holder<'_, C, BITS> {
    fn drop(&mut self) {
        // Relaxed: nothing was sampled. Failure: the CPU was replaced, and the lock is not its own any more.
        let _ = self.combined.word.compare_exchange(
            self.word.bits(),
            self.word.given_up().bits(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

//! Combined reads: one read of a slow shared counter serves all CPUs that wait for one at that time (spec C-6).
//!
//! A counter behind a bus takes a microsecond or more, and serves one CPU at a time. When all CPUs read it at each tick
//! they queue for it, and the last one waits for all. So one CPU reads and publishes what it got, and the others wait
//! for that instead of the counter: [`Combined::read_joined`]. With `n` readers and a read of `r`, direct reads take
//! `n * r` and the counter serves `1 / r`; joined ones take `2 * r` at most, however many they are.
//!
//! The counter may be anything that is slow, shared and does not run backwards: a device register, a clock behind a
//! system call or a file descriptor. It pays from about ten times a transfer of a cache line on, and for more than two
//! readers; a read of some ten nanoseconds only gets slower (spec C-6.4).
//!
//! # The mechanism
//!
//! One atomic word holds generation, lock and value ([`Word`]). A reader that finds it unlocked masks interrupts, locks
//! it, reads the counter, and publishes value, next generation and unlocked in one exchange. A reader that finds it
//! locked polls, with interrupts as they were, until the generation has moved on.
//!
//! A thread in user space may be preempted while it reads, and all would wait for it. So patience has an end that the
//! host sets ([`SlowCounter::relax`]): then the waiter *overtakes*. It reads the counter itself, publishes over the
//! locked word, and so replaces the holder. The holder finds that its word is gone, drops its sample, and returns what
//! stands there.
//!
//! # What it promises
//!
//! One invariant carries all: **what is published over a word was sampled after its publisher had seen that word.** The
//! holder samples after it locked the word, an overtaker after it loaded it, and both publish by a compare-exchange
//! from just that word. Nothing else changes the value.
//!
//! - *The published values never go back*, overtaken holders included: when the sample of a publication began, the
//!   value before it had been sampled. No values are compared for that. The greater of two would be wrong for a counter
//!   that wraps and was left alone for half its range, and a clock of 32 bits would stand still then
//!   (`docs/decisions/0020`).
//! - *Each value that is returned was the published one at a moment within the call*: published by the caller, found by
//!   it after a publication, or found in place of its own.
//! - *A call that begins after another one has returned does not return less.* That follows from the two above.
//! - *A joined value is as old as one read takes*: from its sample to a publication within the call. Where a thread
//!   may be preempted in between, it is older by that, and there is no bound. [`Combined::read_fresh`] returns a sample
//!   that *began* within the call, preempted or not: that is the one to reckon deadlines from.
//! - *Progress*: a reader waits for one read in flight, a fresh one for two. If the CPU that reads gives up, by a panic
//!   of the host, a waiter takes over.
//!
//! The exchange cannot tell words apart that are the same in all 64 bits. With 32 bits of value that takes 2^31
//! publications while a holder is preempted, and the same value. With [`CombinedClock`] it takes four publications of
//! one and the same instant; what such a holder publishes is not less than that, and the promises hold but for
//! *fresh*, on clocks that stand still across several reads.
//!
//! # Ground rules
//!
//! - Interrupts are masked from the attempt to lock to the publication, never while a reader waits. An interrupt that
//!   reads the counter cannot meet its own CPU as the holder.
//! - A context that interrupts masked code (a non-maskable interrupt, a machine check, the path of a crash) neither
//!   locks nor waits: it says so in [`SlowCounter::is_non_maskable`] and reads directly. Its reading may be newer than
//!   one that an ordinary call returns afterwards, by one read (R46).
//! - With one CPU there is nothing to combine ([`SlowCounter::is_alone`]). Without 64-bit atomics there is no such
//!   word; `tickless-link` refuses those targets.
//! - A signal handler that interrupts the holder on its own thread waits until its patience ends, and overtakes.
//!
//! # Cost
//!
//! Alone: two exchanges and a fence on a line that stays. Joined: the transfer of a line, twice.

use core::mem::{align_of, size_of};

use tickless_link::const_unless_loom;
use tickless_link::sync::{AtomicU64, CachePadded, Ordering, fence, spin_loop};

use crate::time::convert::Cycles;

mod clock;
mod word;

pub use clock::CombinedClock;
pub use word::{Step, Waiting, Word};

/// The number of polls after which, by default, a waiter reads the counter itself: ten to fifty microseconds. That is
/// longer than several reads of any counter for which combining pays, and short beside the time slice for which a
/// preempted reader is away.
pub const ATTEMPTS_MAX: u32 = 1_024;

/// The choice of a waiter: to wait on, or to read the counter itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// The reader waits on for the reading CPU.
    Lasts,
    /// The reader stops waiting: it reads the counter itself, and replaces the reading CPU.
    Ends,
}

/// The host's side of a slow counter.
///
/// # Contract
///
/// Samples MUST NOT run backwards: a sample that begins after another one ended, on any CPU, is not less, modulo the
/// width of the counter. A counter whose copies on the CPUs differ must not be combined.
pub trait SlowCounter {
    /// Type of a sample.
    type Sample;
    /// State that [`mask`](Self::mask) changed, for [`unmask`](Self::unmask). `()` where nothing is masked.
    type Masked;

    /// Reads the counter. May be called by several CPUs at once, and MUST NOT read the same combined counter.
    ///
    /// If it panics nothing is published, and a waiter takes over.
    fn sample(&self) -> Self::Sample;

    /// Masks the interrupts of this CPU whose handlers may read this counter. In user space it does nothing.
    fn mask(&self) -> Self::Masked;

    /// Undoes [`mask`](Self::mask).
    fn unmask(&self, masked: Self::Masked);

    /// Returns true if the caller may have interrupted code whose interrupts are masked. It reads directly then.
    #[inline]
    fn is_non_maskable(&self) -> bool {
        false
    }

    /// Returns true if only one CPU is online, which reads directly then. MUST be false before a second one reads.
    #[inline]
    fn is_alone(&self) -> bool {
        false
    }

    /// Pauses a waiter that has looked `attempt` times before, the first time with 0, and decides if it waits on. A
    /// host whose readers cannot be preempted always lets it wait.
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
        /// Combines the reads of `counter`.
        #[must_use]
        pub const fn new(counter: C) -> Self {
            Self {
                word: CachePadded(AtomicU64::new(Word::<BITS>::START.bits())),
                counter,
            }
        }
    }

    /// Returns the counter.
    #[must_use]
    pub const fn counter(&self) -> &C {
        &self.counter
    }

    /// Loads the word that was published last.
    #[inline]
    fn load(&self) -> Word<BITS> {
        // Acquire: pairs with the Release in `exchange_for`, so that a sample that this CPU takes now does not begin
        // before that of the value it has seen. Locking and giving up are exchanges and pass that on.
        Word::from_bits(self.word.load(Ordering::Acquire))
    }

    /// Publishes `value` over `seen`, or returns what stands there instead.
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
    /// Returns the counter modulo 2^`BITS`. The sample was taken for this call, or for another one that published it
    /// during this call. So it may have begun before the call, by the time of a read, and in user space by as long as a
    /// thread may be preempted.
    ///
    /// # Interrupt context
    ///
    /// Any; see the module on interrupts that cannot be masked.
    ///
    /// # Cost
    ///
    /// One read of the counter, or the rest of one and the transfer of a line.
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
    /// As there.
    ///
    /// # Cost
    ///
    /// Two reads of the counter at most, of which one may be the caller's.
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

    /// Reads the counter for all, if the word is still `seen`, which is unlocked; otherwise returns what it is.
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

    /// Reads the counter instead of the CPU that locked it as `seen` and does not come to an end, and replaces it;
    /// unless the word is another one by then, which is returned.
    #[cold]
    fn overtake(&self, seen: Word<BITS>) -> Result<u64, Word<BITS>> {
        // As in `lead`: what a fresh reader joins has begun after the word it has seen.
        fence(Ordering::SeqCst);
        let value = self.counter.sample().0 & Word::<BITS>::VALUE;
        self.exchange_for(seen, value).map(|()| value)
    }
}

/// The interrupts of this CPU are masked, until it is dropped.
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

/// The CPU that reads for all. Dropped by a panic it gives up.
struct Holder<'a, C, const BITS: u32> {
    combined: &'a Combined<C, BITS>,
    word: Word<BITS>,
}

impl<C, const BITS: u32> Holder<'_, C, BITS> {
    /// Publishes `value` and returns it, or what stands there if the CPU was replaced.
    ///
    /// Its own value it may not return then: it may be newer than what stands there, and a call that comes later would
    /// return less.
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

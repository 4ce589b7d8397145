//! The word of a combined read, as plain values and transitions without an atomic.
//!
//! ```text
//!    63            BITS+1    BITS   BITS-1               0
//!   +-----------------------+------+----------------------+
//!   |  generation           | lock |  value               |
//!   +-----------------------+------+----------------------+
//! ```
//!
//! All rules are here, so that a host that lets time pass by itself, such as a simulator, obeys those that
//! [`Combined`](super::Combined) obeys.

/// The word that all CPUs share: the last value, a bit that a CPU is reading, and the number of publications.
///
/// `BITS` is the width of the value, 1 to [`VALUE_BITS_MAX`](Self::VALUE_BITS_MAX); others fail the build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<const BITS: u32>(u64);

impl<const BITS: u32> Word<BITS> {
    /// The most bits of a value, which leaves two bits for the generation. With one bit, a waiter that misses two
    /// publications of the same value would take the word for unchanged; with two bits it has to miss four, and then
    /// merely waits on.
    pub const VALUE_BITS_MAX: u32 = 61;

    /// The word before the first read. Its value is returned to no reader.
    pub const START: Self = Self(0);

    const LOCK: u64 = {
        assert!(BITS >= 1, "a value has a bit");
        assert!(BITS <= Self::VALUE_BITS_MAX, "the generation has two bits");
        1 << BITS
    };
    /// Generation step. The last generation is followed by the first, without a carry.
    const GENERATION: u64 = Self::LOCK << 1;
    /// The bits of a value.
    pub const VALUE: u64 = Self::LOCK - 1;

    /// Makes the word that is stored as `bits`.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the stored bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the value that was published last, in units of the counter, modulo 2^`BITS`.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0 & Self::VALUE
    }

    /// Returns true if a CPU is reading the counter for all waiters.
    #[must_use]
    pub const fn is_locked(self) -> bool {
        self.0 & Self::LOCK != 0
    }

    /// Returns the word of a CPU that begins to read for all waiters.
    #[must_use]
    pub const fn locked(self) -> Self {
        Self(self.0 | Self::LOCK)
    }

    /// Returns the word of a CPU that gives up without a value.
    #[must_use]
    pub const fn given_up(self) -> Self {
        Self(self.0 & !Self::LOCK)
    }

    /// Returns the word that publishes `value`: unlocked, with the next generation. One store writes all three, so that
    /// a waiter sees all or none of it (spec C-6.5).
    #[must_use]
    pub const fn publish(self, value: u64) -> Self {
        let generation = (self.0 & !(Self::LOCK | Self::VALUE)).wrapping_add(Self::GENERATION);
        Self(generation | (value & Self::VALUE))
    }

    /// Returns true if a CPU has published between `before` and this word.
    #[must_use]
    pub const fn is_published_since(self, before: Self) -> bool {
        (self.0 ^ before.0) & !Self::LOCK != 0
    }
}

/// The next step of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Returns this value.
    Leave(u64),
    /// Tries to lock the word, to read the counter for all.
    Lead,
    /// Waits for the CPU that reads.
    Wait,
}

/// The publication that a reader waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting<const BITS: u32> {
    since: Word<BITS>,
    /// The read that is in flight since then began before the call, and may have its sample already.
    is_stale: bool,
}

impl<const BITS: u32> Waiting<BITS> {
    /// Waits for any publication after `entry`, the word that the reader found when it was called.
    #[must_use]
    pub const fn for_any(entry: Word<BITS>) -> Self {
        Self {
            since: entry,
            is_stale: false,
        }
    }

    /// Waits for the publication of a sample that began after `entry`, the word that the reader found when it was
    /// called.
    #[must_use]
    pub fn for_fresh(entry: Word<BITS>) -> Self {
        Self {
            since: entry,
            is_stale: entry.is_locked(),
        }
    }

    /// Returns the next step of a reader that finds `now`.
    ///
    /// The wait ends when a CPU has published, and the reader takes that value. It also ends when the word is unlocked
    /// without a publication (spec C-6.2): the reading CPU gave up, the value in the word may be old, and the reader
    /// reads itself.
    #[must_use]
    pub fn judge(&mut self, now: Word<BITS>) -> Step {
        if now.is_published_since(self.since) {
            if !self.is_stale {
                return Step::Leave(now.value());
            }
            // A read that is in flight by now began after that publication.
            self.since = now;
            self.is_stale = false;
        }
        if now.is_locked() {
            Step::Wait
        } else {
            Step::Lead
        }
    }
}

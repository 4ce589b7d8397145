//! The word of a combined read, as plain values and transitions without an atomic.
//!
//! ```text
//!    63            BITS+1    BITS   BITS-1               0
//!   +-----------------------+------+----------------------+
//!   |  generation           | lock |  value               |
//!   +-----------------------+------+----------------------+
//! ```
//!
//! All rules are in this module, so that a host that controls the passage of time itself, such as a simulator, obeys
//! the same rules as [`Combined`](super::Combined).

/// The word that all CPUs share: the last value, a bit that is set while a CPU reads, and the number of publications.
///
/// `BITS` is the width of the value, 1 to [`VALUE_BITS_MAX`](Self::VALUE_BITS_MAX); other widths fail the build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<const BITS: u32>(u64);

impl<const BITS: u32> Word<BITS> {
    /// The greatest width of a value, which leaves two bits for the generation. With one bit, a waiter that misses two
    /// publications of the same value would see an unchanged word. With two bits it would have to miss four
    /// publications, and then it only continues to wait.
    pub const VALUE_BITS_MAX: u32 = 61;

    /// The word before the first read. No reader gets its value.
    pub const START: Self = Self(0);

    const LOCK: u64 = {
        assert!(BITS >= 1, "a value has a bit");
        assert!(BITS <= Self::VALUE_BITS_MAX, "the generation has two bits");
        1 << BITS
    };
    /// The step of the generation. The first generation follows the last one, without a carry into other bits.
    const GENERATION: u64 = Self::LOCK << 1;
    /// The mask of the value bits.
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

    /// Returns the word that publishes `value`: unlocked, with the next generation. One store writes all three parts,
    /// so that a waiter sees all of them or none (spec C-6.5).
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
    /// The reader returns this value.
    Leave(u64),
    /// The reader tries to lock the word, to read the counter for all waiters.
    Lead,
    /// The reader waits for the CPU that reads.
    Wait,
}

/// The publication for which a reader waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting<const BITS: u32> {
    since: Word<BITS>,
    /// True if a read was in flight at entry. Such a read began before the call and may already have taken its sample.
    is_stale: bool,
}

impl<const BITS: u32> Waiting<BITS> {
    /// Makes the wait for any publication after `entry`, the word that the reader found at the beginning of its call.
    #[must_use]
    pub const fn for_any(entry: Word<BITS>) -> Self {
        Self {
            since: entry,
            is_stale: false,
        }
    }

    /// Makes the wait for the publication of a sample that began after `entry`, the word that the reader found at the
    /// beginning of its call.
    #[must_use]
    pub fn for_fresh(entry: Word<BITS>) -> Self {
        Self {
            since: entry,
            is_stale: entry.is_locked(),
        }
    }

    /// Returns the next step of a reader that finds `now`.
    ///
    /// The wait ends when a CPU has published, and the reader returns the published value. It also ends when the word
    /// is unlocked without a publication (spec C-6.2): the reading CPU gave up, the value in the word may be old, and
    /// the reader reads itself.
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

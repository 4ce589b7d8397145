//! Sets of CPUs whose size the host chooses.

use crate::cpu::CpuId;

/// The number of CPUs in one word.
pub(super) const WORD: usize = u64::BITS as usize;

/// A set of CPUs 0 to `64 * WORDS - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuMask<const WORDS: usize>([u64; WORDS]);

impl<const WORDS: usize> CpuMask<WORDS> {
    /// The empty set.
    pub const NONE: Self = Self([0; WORDS]);
    /// The set of all `64 * WORDS` CPUs.
    pub const ALL: Self = Self([u64::MAX; WORDS]);

    /// Returns the index of the word of `cpu`, and the bit in that word.
    ///
    /// # Panics
    ///
    /// When `cpu` is `64 * WORDS` or more.
    pub(super) const fn place(cpu: CpuId) -> (usize, usize) {
        let number = cpu.0 as usize;
        assert!(
            number / WORD < WORDS,
            "the mask has a word for every CPU of the host"
        );
        (number / WORD, number % WORD)
    }

    /// Adds `cpu`. Returns true if it was not in the set.
    ///
    /// # Panics
    ///
    /// When `cpu` is `64 * WORDS` or more.
    pub const fn insert(&mut self, cpu: CpuId) -> bool {
        let (word, bit) = Self::place(cpu);
        let was_missing = self.0[word] & 1 << bit == 0;
        self.0[word] |= 1 << bit;
        was_missing
    }

    /// Removes `cpu`. Returns true if it was in the set.
    ///
    /// # Panics
    ///
    /// When `cpu` is `64 * WORDS` or more.
    pub const fn remove(&mut self, cpu: CpuId) -> bool {
        let (word, bit) = Self::place(cpu);
        let was_there = self.0[word] & 1 << bit != 0;
        self.0[word] &= !(1 << bit);
        was_there
    }

    /// Returns true if `cpu` is in the set.
    ///
    /// # Panics
    ///
    /// When `cpu` is `64 * WORDS` or more.
    #[must_use]
    pub const fn contains(&self, cpu: CpuId) -> bool {
        let (word, bit) = Self::place(cpu);
        self.0[word] & 1 << bit != 0
    }

    /// Returns true if the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Returns the CPUs that are in both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(core::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// Returns the CPUs that are in either set.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self(core::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// Iterates over the mask in words of 32 CPUs, the highest CPUs first, which is the order in which masks are
    /// printed.
    pub(super) fn halves(&self) -> impl Iterator<Item = u64> {
        let halves = |word: &u64| [word >> 32, word & u64::from(u32::MAX)];
        self.0.iter().rev().flat_map(halves)
    }

    /// Returns the CPUs in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + use<WORDS> {
        let firsts = (0_u32..).step_by(WORD);
        self.0
            .into_iter()
            .zip(firsts)
            .flat_map(|(mut word, first)| {
                core::iter::from_fn(move || {
                    let bit = (word != 0).then(|| word.trailing_zeros())?;
                    word &= word - 1;
                    Some(CpuId(first + bit))
                })
            })
    }
}

impl<const WORDS: usize> Default for CpuMask<WORDS> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<const WORDS: usize> FromIterator<CpuId> for CpuMask<WORDS> {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        let mut mask = Self::NONE;
        for cpu in cpus {
            mask.insert(cpu);
        }
        mask
    }
}

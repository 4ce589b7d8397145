//! Random numbers that depend on the seed alone, in all versions: the generator is part of this project.

/// A generator of random numbers: SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators",
/// OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Makes a generator from `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Draws 64 bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Draws a number below `limit`, which must not be zero.
    #[inline]
    pub const fn below(&mut self, limit: u64) -> u64 {
        ((self.bits() as u128 * limit as u128) >> 64) as u64
    }

    /// Draws an index below `limit`, which must not be zero.
    #[inline]
    pub fn index(&mut self, limit: usize) -> usize {
        usize::try_from(self.below(limit as u64)).unwrap_or(0)
    }

    /// Draws a number from `low` to `high`, both included.
    #[inline]
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let width = u64::try_from(high - low).unwrap_or(0) + 1;
        low + i64::try_from(self.below(width)).unwrap_or(0)
    }

    /// Draws `true` once in `times` on average.
    #[inline]
    pub const fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Draws a number from 0 up to 1, excluding 1.
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        // 53 bits are what the type can hold exactly.
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Puts `items` into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for rest in (1..items.len()).rev() {
            // The bias of the remainder is below 2^-40 for any list that fits a memory.
            let other = self.bits() % (rest as u64 + 1);
            items.swap(rest, usize::try_from(other).unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;
    use crate::prelude::*;

    #[test]
    fn numbers_are_those_of_the_publication() {
        let mut random = Random::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.bits()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut order: Vec<_> = (0..1_000).collect();
        Random::new(7).shuffle(&mut order);
        assert!(!order.is_sorted());
        order.sort_unstable();
        assert_eq!(order, (0..1_000).collect::<Vec<usize>>());
    }
}

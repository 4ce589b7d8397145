//! What the demo draws from random numbers, the same for the same seed in every version of this program.

use tickless_sim::random::Random;

/// From 0 up to 1, without 1.
pub(crate) fn fraction(random: &mut Random) -> f64 {
    // 53 bits are what the type can hold exactly.
    (random.bits() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Brings `items` into a random order (Fisher and Yates).
pub(crate) fn shuffle<T>(random: &mut Random, items: &mut [T]) {
    for rest in (1..items.len()).rev() {
        // The bias of the remainder is below 2^-40 for any list that fits a memory.
        let other = random.bits() % (rest as u64 + 1);
        items.swap(rest, usize::try_from(other).unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::{Random, shuffle};

    #[test]
    fn a_shuffle_loses_nothing() {
        let mut items: Vec<u32> = (0..100).collect();
        shuffle(&mut Random::new(7), &mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}

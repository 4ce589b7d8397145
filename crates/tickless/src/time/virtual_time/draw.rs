//! Random numbers from a seed, which choose one schedule among all that could happen.

/// SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    state: u64,
}

/// The distance between two states: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Draw {
    /// Makes a generator that starts the numbers of `seed`. Each `stream` of a seed has its own numbers.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut seeds = Self { state: seed };
        Self {
            state: seeds.next() ^ stream.wrapping_mul(STEP),
        }
    }

    /// Returns the next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        let mut bits = self.state;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    /// Returns the next number below `end`, which is at least one.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let high = (u128::from(self.next()) * end as u128) >> 64;
        // The high half of the product lies below `end`, which is a `usize`.
        usize::try_from(high).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_belong_to_their_seed_and_stream() {
        let of = |seed, stream| {
            let mut draw = Draw::new(seed, stream);
            [draw.next(), draw.next()]
        };
        assert_eq!(of(1, 0), of(1, 0));
        assert_ne!(of(1, 0), of(2, 0));
        assert_ne!(of(1, 0), of(1, 1));
    }

    #[test]
    fn each_number_below_the_end_is_drawn() {
        let mut draw = Draw::new(0, 0);
        let mut drawn = [0; 3];
        for _ in 0..3_000 {
            drawn[draw.below(3)] += 1;
        }
        assert!(drawn.iter().all(|&count| count > 800), "{drawn:?}");
    }
}

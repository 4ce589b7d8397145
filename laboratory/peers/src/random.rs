//! The random delays of timers. The sequence depends on the seed alone, so every subject gets the same delays.

/// The least and the greatest delay, in nanoseconds.
const LEAST: u64 = 1_000_000;
const GREATEST: u64 = 60_000_000_000;

/// The delay of an idle timeout, the same for all timers, in nanoseconds.
pub(crate) const IDLE: u64 = GREATEST;

/// A generator of random delays and slots.
#[derive(Clone, Debug)]
pub(crate) struct Delays {
    random: fastrand::Rng,
}

impl Delays {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Returns a random delay from 1 ms to 60 s, in nanoseconds.
    #[inline]
    pub(crate) fn random(&mut self) -> u64 {
        scaled(self.random.u64(..))
    }

    /// Returns the number of a random slot, below `slots`.
    #[inline]
    pub(crate) fn slot(&mut self, slots: usize) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "it is below `slots`")]
        {
            ((u128::from(self.random.u64(..)) * slots as u128) >> 64) as usize
        }
    }
}

/// Returns the delay of a slot in nanoseconds. It is computed from the number of the slot, so that no table of delays
/// causes cache misses.
#[inline]
pub(crate) fn delay_of(slot: usize) -> u64 {
    scaled(
        (slot as u64)
            .wrapping_add(1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15),
    )
}

#[inline]
fn scaled(random: u64) -> u64 {
    LEAST + ((u128::from(random) * u128::from(GREATEST - LEAST)) >> 64) as u64
}

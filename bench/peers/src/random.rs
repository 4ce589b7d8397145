//! The random delays of timers: the same sequence for every subject, by its seed.

/// The least and the greatest delay.
const LEAST: u64 = 1_000_000;
const GREATEST: u64 = 60_000_000_000;

/// Idle timeouts are all alike.
pub(crate) const IDLE: u64 = GREATEST;

/// Random delays and slots.
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

    /// 1 ms to 60 s.
    #[inline]
    pub(crate) fn random(&mut self) -> u64 {
        scaled(self.random.u64(..))
    }

    /// One of so many slots.
    #[inline]
    pub(crate) fn slot(&mut self, slots: usize) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "it is below `slots`")]
        {
            ((u128::from(self.random.u64(..)) * slots as u128) >> 64) as usize
        }
    }
}

/// The delay of a slot: the same each time, so that no table of them costs cache misses of its own.
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

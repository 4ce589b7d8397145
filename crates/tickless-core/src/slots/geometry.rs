//! The computation of a timeout's slot in a wheel (spec C-1.2, C-1.3).
//!
//! Level `l` has 64 slots of `8^l` ticks each. The level takes timers that are less than `63 * 8^l` ticks ahead, and
//! too far ahead for the level below. The factor is 63 and not 64, because rounding up needs a spare slot. So two
//! rotations of a level never share a slot.

/// A tick of the wheels, counted from the start of the count. In some places, which say so, it is a number of ticks.
///
/// The number never wraps around: 64 bits of milliseconds are 585 million years. A host with a narrower count extends
/// the count before it passes the count to the core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

/// The number of slots in each level.
pub const SLOTS: u64 = 64;
/// The ratio of the granularities of two neighbouring levels, as a power of two.
pub const SHIFT: u32 = 3;
/// The largest number of levels of a wheel. Nine levels of milliseconds reach 12 days, and no known user has longer
/// timeouts.
pub const LEVELS_MAX: usize = 9;

/// Returns the number of ticks that a slot of `level` covers.
#[inline]
#[must_use]
pub const fn granularity(level: usize) -> u64 {
    1 << (SHIFT as usize * level)
}

/// Returns the distance in ticks from which on a timeout is too far for `level`.
#[inline]
#[must_use]
pub const fn limit(level: usize) -> u64 {
    (SLOTS - 1) * granularity(level)
}

/// Returns the range of a wheel of `levels` levels, in ticks.
#[inline]
#[must_use]
pub const fn range(levels: usize) -> u64 {
    limit(levels - 1) - granularity(levels - 1)
}

/// A slot of a wheel, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// The level in the high bits and the index in the low bits. It is also the number of the slot's list.
    number: u32,
}

impl Slot {
    /// Returns the slot of `level` that is due at `position`, which counts in units of that level.
    #[inline]
    pub(super) const fn at(level: usize, position: u64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a level is less than 9, and an index is taken modulo 64"
        )]
        Self {
            number: (level as u32) << SLOTS.trailing_zeros() | (position % SLOTS) as u32,
        }
    }

    /// Makes the slot with this number.
    ///
    /// # Panics
    ///
    /// When `number` is not less than the largest number of slots of a wheel.
    #[inline]
    #[must_use]
    pub const fn numbered(number: usize) -> Self {
        assert!(number < LEVELS_MAX << SLOTS.trailing_zeros());
        #[expect(clippy::cast_possible_truncation, reason = "the line above")]
        Self {
            number: number as u32,
        }
    }

    /// Returns the level of the slot, from 0 for the finest.
    #[inline]
    #[must_use]
    pub const fn level(self) -> usize {
        (self.number >> SLOTS.trailing_zeros()) as usize
    }

    /// Returns true if [`place`] chooses this slot for both ticks, `one` and `other`, so that the slot is due at the
    /// same tick for both. The check reads no clock, so the timeout keeps the granularity with which it was enqueued.
    #[inline]
    #[must_use]
    pub const fn serves_alike(self, one: Tick, other: Tick) -> bool {
        (one.0 ^ other.0) >> (SHIFT as usize * self.level()) == 0
    }

    /// Returns the index of the slot in its level, less than 64.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.number as usize % (1 << SLOTS.trailing_zeros())
    }

    /// Returns the number of the slot in the wheel; slots of a finer level come first.
    #[inline]
    #[must_use]
    pub const fn number(self) -> usize {
        self.number as usize
    }
}

/// The slot of a timeout, with the tick at which it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueSlot {
    /// The slot of the timeout.
    pub slot: Slot,
    /// The tick at which the slot is due. For a timeout beyond the range of the wheel this tick is before the expiry,
    /// and the timeout has to be enqueued again at this tick.
    pub due: Tick,
}

impl DueSlot {
    /// Returns the slot of `level` that is due at `at`, or the last slot that is due before `at`.
    #[inline]
    #[must_use]
    pub const fn before(level: usize, at: Tick) -> Self {
        let position = at.0 / granularity(level);
        Self {
            slot: Slot::at(level, position),
            due: Tick(position * granularity(level)),
        }
    }
}

/// Returns the slot in which a wheel of `LEVELS` levels, whose clock is `clock`, enqueues a timeout that must not fire
/// before the end of `expiry`.
///
/// The tick `expiry` may be the present tick, so the slot is due at least one tick after `expiry`. Only a timeout that
/// has passed already (`expiry < clock`) fires in the next pass.
///
/// # Cost
///
/// Constant time: one count of leading zeros finds the level.
// Always: as a call, what it answers would go through memory.
#[inline(always)]
#[must_use]
pub const fn place<const LEVELS: usize>(clock: Tick, expiry: Tick) -> DueSlot {
    const { assert!(LEVELS >= 1 && LEVELS <= LEVELS_MAX) };
    let Some(ahead) = expiry.0.checked_sub(clock.0) else {
        return DueSlot::before(0, clock);
    };
    let (level, expiry) = if ahead >= limit(LEVELS - 1) {
        (LEVELS - 1, clock.0.saturating_add(range(LEVELS)))
    } else {
        (level_for::<LEVELS>(ahead), expiry.0)
    };
    // The slot's last tick, and one more. At the end of time there is no tick left to be late by.
    let due = (expiry | (granularity(level) - 1)).saturating_add(1);
    DueSlot {
        slot: Slot::at(level, due >> (SHIFT as usize * level)),
        due: Tick(due),
    }
}

/// Returns the slot in which a wheel of `LEVELS` levels, whose clock is `clock`, enqueues an entry that must be
/// dequeued at the tick `at` or before. `None` if `at` is less than two ticks ahead.
///
/// This function is the opposite of [`place`], which rounds up so that no timer fires early. This function rounds down,
/// so that no timer stays in its slot too long. When a timer leaves such a slot, its time is less than one slot of that
/// level ahead, so the timer moves to a finer slot.
///
/// # Cost
///
/// As [`place`].
// Always: as a call, what it answers would go through memory.
#[inline(always)]
#[must_use]
pub const fn place_before<const LEVELS: usize>(clock: Tick, at: Tick) -> Option<DueSlot> {
    let ahead = at.0.saturating_sub(clock.0);
    if ahead < limit(LEVELS - 1) {
        return place_within::<LEVELS>(clock, at);
    }
    let at = Tick(clock.0.saturating_add(range(LEVELS)));
    Some(DueSlot::before(LEVELS - 1, at))
}

/// Returns the same slot as [`place_before`], but returns `None` also for a time beyond the range of the wheel.
///
/// One comparison separates the three cases. The comparison is unsigned and counts from two ticks ahead, so an earlier
/// tick wraps around to a large number.
// Always: as `place_before`.
#[inline(always)]
#[must_use]
pub const fn place_within<const LEVELS: usize>(clock: Tick, at: Tick) -> Option<DueSlot> {
    const { assert!(LEVELS >= 1 && LEVELS <= LEVELS_MAX) };
    let ahead = at.0.wrapping_sub(clock.0);
    if ahead.wrapping_sub(2) >= limit(LEVELS - 1) - 2 {
        return None;
    }
    Some(DueSlot::before(level_for::<LEVELS>(ahead), at))
}

/// The factor that stretches a distance so that its highest bit determines the level: `64/63`, as a fraction of `2^29`.
///
/// Level `l` begins at `63 * 8^l`. The factor maps this to `64 * 8^l`, a power of two. The factor is rounded up, by
/// less than half a unit. At the most distant tick before level 9 the rounding adds less than one tick, and the last
/// tick before a level is mapped to 64/63 below the beginning of the level.
const STRETCH: u64 = (SLOTS << STRETCH_SHIFT).div_ceil(SLOTS - 1);
const STRETCH_SHIFT: u32 = 29;

/// The level of a stretched distance, by the number of the distance's highest bit. The table takes half of the
/// instructions of a subtraction and a division.
const LEVEL_OF_BIT: [u8; u64::BITS as usize] = {
    let mut levels = [0; u64::BITS as usize];
    let mut highest = 0;
    while highest < u64::BITS {
        #[expect(clippy::cast_possible_truncation, reason = "it is less than 20")]
        {
            levels[highest as usize] = (highest.saturating_sub(STRETCH_SHIFT + 3) / SHIFT) as u8;
        }
        highest += 1;
    }
    levels
};

/// Returns the finest level of a wheel of `LEVELS` levels that takes a timeout `ahead` ticks ahead. The coarsest level
/// takes it in any case.
#[inline(always)]
const fn level_for<const LEVELS: usize>(ahead: u64) -> usize {
    const { assert!(LEVELS >= 1 && LEVELS <= LEVELS_MAX) };
    debug_assert!(ahead < limit(LEVELS - 1));
    // The number of the highest bit, which an exclusive or leaves of the count as one instruction.
    let highest = ((ahead * STRETCH) | 1).leading_zeros() ^ (u64::BITS - 1);
    let level = LEVEL_OF_BIT[highest as usize] as usize;
    // No other level comes out: it is said so that the compiler knows, and asks no bounds where the slot is used.
    if LEVELS.is_power_of_two() {
        level % LEVELS
    } else {
        level
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Clock, expiry, level, index and due tick of spec C-A.1, for nine levels.
    const VECTORS: [(u64, u64, usize, usize, u64); 17] = [
        (1_000_000, 999_999, 0, 0, 1_000_000),
        (1_000_000, 1_000_000, 0, 1, 1_000_001),
        (1_000_000, 1_000_001, 0, 2, 1_000_002),
        (1_000_000, 1_000_062, 0, 63, 1_000_063),
        (1_000_000, 1_000_063, 1, 16, 1_000_064),
        (1_000_000, 1_000_064, 1, 17, 1_000_072),
        (1_000_000, 1_000_503, 1, 7, 1_000_504),
        (1_000_000, 1_000_504, 2, 17, 1_000_512),
        (1_000_000, 1_004_031, 2, 8, 1_004_032),
        (1_000_000, 1_004_032, 3, 42, 1_004_544),
        (1_000_000, 1_057_964_607, 8, 0, 1_073_741_824),
        (4_096, 4_158, 0, 63, 4_159),
        (4_096, 4_159, 1, 8, 4_160),
        (4_096, 4_196, 1, 13, 4_200),
        (4_096, 4_608, 2, 9, 4_672),
        (4_096, 8_191, 3, 16, 8_192),
        (4_096, 64_096, 4, 16, 65_536),
    ];

    #[test]
    fn timeouts_go_where_appendix_a1_says() {
        for (clock, expiry, level, index, due) in VECTORS {
            let place = place::<9>(Tick(clock), Tick(expiry));
            assert_eq!(
                (place.slot.level(), place.slot.index(), place.due),
                (level, index, Tick(due)),
                "{expiry} at {clock}"
            );
            assert!(place.due > Tick(expiry));
        }
    }

    /// Tests the two rows of spec C-A.1 that the original fires early. Here the timeouts are enqueued in the same slot,
    /// and the due tick of the slot shows that they must be enqueued again.
    #[test]
    fn what_is_beyond_the_range_is_filed_in_the_farthest_slot() {
        for expiry in [1_057_964_608, 2_148_483_647, u64::MAX] {
            let place = place::<9>(Tick(1_000_000), Tick(expiry));
            assert_eq!((place.slot.level(), place.slot.index()), (8, 63));
            assert_eq!(place.due, Tick(1_056_964_608));
        }
    }

    #[test]
    fn levels_take_what_the_table_of_spec_1_2_says() {
        let lowest = [
            0,
            63,
            504,
            4_032,
            32_256,
            258_048,
            2_064_384,
            16_515_072,
            132_120_576,
        ];
        for (level, from) in lowest.into_iter().enumerate() {
            assert_eq!(level_for::<LEVELS_MAX>(from), level);
            assert_eq!(level_for::<LEVELS_MAX>(limit(level) - 1), level);
        }
        assert_eq!(limit(8), 1_056_964_608);
        assert_eq!((range(9), range(8)), (1_040_187_392, 130_023_424));
    }

    #[test]
    fn numbers_are_unique() {
        let mut seen = std::collections::BTreeSet::new();
        for level in 0..LEVELS_MAX {
            for position in 0..SLOTS {
                let slot = Slot::at(level, position);
                assert!(seen.insert(slot.number()));
                assert_eq!(Slot::numbered(slot.number()), slot);
            }
        }
        assert_eq!(seen.last(), Some(&575));
    }

    fn ahead() -> impl Strategy<Value = u64> {
        // As many near as far ones.
        (0..31_u32, any::<u64>()).prop_map(|(bits, random)| random & ((1 << bits) - 1))
    }

    proptest! {
        /// WHEEL-1, Spec C-1.3: a timeout is never early, and late by one slot at most, which is at most 8/63 of the
        /// distance.
        #[test]
        fn a_timeout_is_late_by_one_slot_at_most(clock in 0..u64::MAX / 2, ahead in ahead()) {
            let expiry = clock + ahead;
            let place = place::<9>(Tick(clock), Tick(expiry));
            prop_assume!(ahead < limit(8));
            let late = place.due.0 - expiry;
            let level = place.slot.level();
            prop_assert!((1..=granularity(level)).contains(&late));
            if level > 0 {
                prop_assert!(late * 63 <= ahead * 8);
            }
        }

        /// Spec C-1.8, 4: a timer that stays in its slot without a reading of the clock is as punctual as a newly
        /// enqueued timer.
        #[test]
        fn a_slot_that_serves_two_ticks_alike_is_due_behind_both(
            clock in 0..u64::MAX / 2, ahead in ahead(), step in 0..20_000_u64,
        ) {
            let one = Tick(clock + ahead);
            let place = place::<9>(Tick(clock), one);
            prop_assume!(ahead < limit(8));
            let unit = granularity(place.slot.level());
            for other in [one.0.saturating_sub(step), one.0 + step] {
                let is_due_behind_it = (1..=unit).contains(&place.due.0.wrapping_sub(other));
                prop_assert_eq!(place.slot.serves_alike(one, Tick(other)), is_due_behind_it);
            }
        }

        /// Spec C-1.3: two rotations never share a slot.
        #[test]
        fn a_slot_is_at_most_63_positions_ahead(clock in 0..u64::MAX / 2, ahead in any::<u32>()) {
            let place = place::<9>(Tick(clock), Tick(clock + u64::from(ahead)));
            let unit = granularity(place.slot.level());
            prop_assert!(place.due.0 / unit - clock.div_ceil(unit) <= 63);
            prop_assert_eq!(place.slot, Slot::at(place.slot.level(), place.due.0 / unit));
        }

        /// Entries that leave their slot when it is due move to a finer slot, and are never due after their time.
        #[test]
        fn filing_before_a_time_ends_in_time(clock in 0..u64::MAX / 2, ahead in ahead()) {
            let at = Tick(clock + ahead);
            let mut clock = Tick(clock);
            let mut level = LEVELS_MAX;
            while let Some(place) = place_before::<9>(clock, at) {
                prop_assert!(place.due <= at && place.due > clock);
                prop_assert!(place.slot.level() < level);
                let unit = granularity(place.slot.level());
                prop_assert!(place.due.0 / unit - clock.0.div_ceil(unit) <= 63);
                level = place.slot.level();
                clock = place.due;
            }
            prop_assert!(at.0.saturating_sub(clock.0) < 2);
        }

        #[test]
        fn filing_before_a_time_beyond_the_range_is_repeated(clock in 0..u64::MAX / 2, more in any::<u32>()) {
            let at = Tick(clock + limit(3) + u64::from(more));
            let place = place_before::<4>(Tick(clock), at).expect("it is far ahead");
            prop_assert!(place.due > Tick(clock) && place.due < at);
            let unit = granularity(3);
            prop_assert!(place.due.0 / unit - clock.div_ceil(unit) <= 63);
        }

        #[test]
        fn what_is_beyond_the_range_is_due_before_its_time(clock in 0..u64::MAX / 2, more in any::<u32>()) {
            let expiry = clock + limit(7) + u64::from(more);
            let place = place::<8>(Tick(clock), Tick(expiry));
            prop_assert!(place.due.0 <= expiry);
            prop_assert!(place.due.0 > clock);
        }
    }

    /// Arithmetic near the largest tick saturates instead of wrapping.
    #[test]
    fn the_end_of_time_is_no_slot_in_the_past() {
        for clock in [u64::MAX, u64::MAX - 1, u64::MAX - 1_000_000_000] {
            for ahead in [0, 1, 62, 63, 1_000_000, u64::MAX] {
                let place = place::<9>(Tick(clock), Tick(clock.saturating_add(ahead)));
                assert!(place.due >= Tick(clock));
            }
        }
    }
}

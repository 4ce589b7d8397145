//! The state word of a group: the set of active children, and the migrator among them.
//!
//! ```text
//!    63                      24 23      16 15                     0
//!   +--------------------------+----------+------------------------+
//!   | sequence                 | migrator | active, a bit per slot |
//!   +--------------------------+----------+------------------------+
//! ```
//!
//! Invariants of each value that is ever stored (spec C-4.3):
//!
//! - **STATE-1** the group has no migrator exactly while no child is active;
//! - **STATE-2** a migrator is one of the active children;
//! - **STATE-3** each update increments the sequence, also when nothing else changes.
//!
//! With the sequence, a CPU cannot store a conclusion from an older state, even if the masks have the same values again
//! (Example 1). The sequence has forty bits, so it repeats only after 10^12 updates during one stalled walk.

use core::fmt;

/// The largest number of children of a group. The bits of the active mask limit it.
pub const WIDTH_MAX: usize = 16;

const MIGRATOR_SHIFT: u32 = 16;
const SEQUENCE_SHIFT: u32 = 24;
const FIELD: u64 = 0xFF;
/// The mark for no child. It is not zero, because zero is the number of a child (spec C-4.3).
const NO_CHILD: u64 = FIELD;

const _: () = assert!(1 << MIGRATOR_SHIFT == 1_u64 << WIDTH_MAX);
const _: () = assert!((WIDTH_MAX as u64) < NO_CHILD);
const _: () = assert!(
    u64::BITS - SEQUENCE_SHIFT >= 32,
    "spec C-4.3: at least 32 bits of sequence"
);

/// The number of a child inside its group, below the group's width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChildSlot(u8);

impl ChildSlot {
    /// The slot that each group has before it has a parent, so that a walk from a group to its parent always finds a
    /// valid slot (spec Example 8).
    pub(super) const FIRST: Self = Self(0);

    /// Makes the slot with this number.
    ///
    /// # Panics
    ///
    /// When `number` is [`WIDTH_MAX`] or more.
    #[inline]
    #[must_use]
    pub const fn new(number: u8) -> Self {
        assert!((number as usize) < WIDTH_MAX);
        Self(number)
    }

    /// Returns the number of the slot.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }

    const fn mask(self) -> u16 {
        1 << self.0
    }
}

/// A set of child slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildSlots(u16);

impl ChildSlots {
    /// Makes the set whose members are the one-bits of `bits`.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Returns the members as one-bits.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns true if the set has no member.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the number of members.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns true if `slot` is a member.
    #[must_use]
    pub const fn contains(self, slot: ChildSlot) -> bool {
        self.0 & slot.mask() != 0
    }

    /// Returns the lowest member.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "at most 16 bits")]
    pub const fn lowest(self) -> Option<ChildSlot> {
        if self.0 == 0 {
            None
        } else {
            Some(ChildSlot(self.0.trailing_zeros() as u8))
        }
    }

    /// Returns the members above `slot`.
    #[must_use]
    pub const fn above(self, slot: ChildSlot) -> Self {
        Self(self.0 & !(slot.mask() | (slot.mask() - 1)))
    }

    const fn without(self, slot: ChildSlot) -> Self {
        Self(self.0 & !slot.mask())
    }
}

impl Iterator for ChildSlots {
    type Item = ChildSlot;

    fn next(&mut self) -> Option<ChildSlot> {
        let slot = self.lowest()?;
        *self = self.without(slot);
        Some(slot)
    }
}

/// A value of a group's state word. The transitions are pure functions that return the next value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct State(u64);

impl State {
    /// The state without an active child.
    pub const IDLE: Self = Self(NO_CHILD << MIGRATOR_SHIFT);

    #[inline]
    pub(super) const fn from_word(word: u64) -> Self {
        Self(word)
    }

    #[inline]
    pub(super) const fn word(self) -> u64 {
        self.0
    }

    /// Returns the set of active children.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the lowest bits are meant")]
    pub const fn active(self) -> ChildSlots {
        ChildSlots(self.0 as u16)
    }

    /// Returns true if any child is active.
    #[inline]
    #[must_use]
    pub const fn is_active(self) -> bool {
        !self.active().is_empty()
    }

    /// Returns the migrator: the active child that fires the timers of idle ones.
    #[inline]
    #[must_use]
    pub const fn migrator(self) -> Option<ChildSlot> {
        let field = self.0 >> MIGRATOR_SHIFT & FIELD;
        if field == NO_CHILD {
            None
        } else {
            Some(ChildSlot(field as u8))
        }
    }

    /// Returns the number of updates, modulo 2^40.
    #[inline]
    #[must_use]
    pub const fn sequence(self) -> u64 {
        self.0 >> SEQUENCE_SHIFT
    }

    /// Returns true if the child at `slot` may fire timers for the group, because this child is migrator or no child is
    /// migrator.
    ///
    /// If no child is migrator, the child is either leaving idle at this moment, or has promised to wake up for the
    /// idle group.
    #[inline]
    #[must_use]
    pub const fn accepts(self, slot: ChildSlot) -> bool {
        match self.migrator() {
            None => true,
            Some(migrator) => migrator.0 == slot.0,
        }
    }

    /// Returns the state after the child at `slot` became active. The child becomes migrator if the group had no
    /// migrator.
    #[inline]
    #[must_use]
    pub const fn activated(self, slot: ChildSlot) -> Self {
        let migrator = match self.migrator() {
            None => Some(slot),
            kept => kept,
        };
        self.next(ChildSlots(self.active().0 | slot.mask()), migrator)
    }

    /// Returns the state after the child at `slot` went idle. If that child was migrator, `choose` chooses the next
    /// migrator among the remaining active children.
    ///
    /// `choose` is called only if active children remain, and must return one of them. If its result is no active
    /// child, the lowest active child becomes migrator.
    #[inline]
    #[must_use]
    pub fn deactivated(
        self,
        slot: ChildSlot,
        choose: impl FnOnce(ChildSlots) -> ChildSlot,
    ) -> Self {
        let left = self.active().without(slot);
        let migrator = match self.migrator() {
            Some(migrator) if migrator == slot => left.lowest().map(|lowest| {
                let chosen = choose(left);
                if left.contains(chosen) {
                    chosen
                } else {
                    lowest
                }
            }),
            kept => kept,
        };
        self.next(left, migrator)
    }

    /// Returns the same state with the next sequence number, so that exchanges based on an older state fail.
    #[inline]
    #[must_use]
    pub const fn touched(self) -> Self {
        self.next(self.active(), self.migrator())
    }

    /// Returns this state without its migrator, which breaks STATE-1 if a child is active. A simulator passes such
    /// states to its checkers to see them fail; no group is ever in such a state.
    #[must_use]
    pub const fn without_migrator(self) -> Self {
        Self(self.0 | NO_CHILD << MIGRATOR_SHIFT)
    }

    const fn next(self, active: ChildSlots, migrator: Option<ChildSlot>) -> Self {
        let migrator = match migrator {
            None => NO_CHILD,
            Some(slot) => slot.0 as u64,
        };
        let sequence = self.sequence().wrapping_add(1) << SEQUENCE_SHIFT;
        Self(sequence | migrator << MIGRATOR_SHIFT | active.0 as u64)
    }

    /// Returns true if STATE-1 and STATE-2 hold.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        match self.migrator() {
            None => !self.is_active(),
            Some(migrator) => self.active().contains(migrator),
        }
    }
}

impl fmt::Debug for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:b}/", self.active().0)?;
        match self.migrator() {
            None => write!(formatter, "-")?,
            Some(slot) => write!(formatter, "{}", slot.0)?,
        }
        write!(formatter, "#{}", self.sequence())
    }
}

/// The choice of the next migrator when the present one goes idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MigratorPolicy {
    /// The lowest active child. Low-numbered CPUs have the duty most often.
    LowestBit,
    /// The next active child after the child that becomes idle, in turn. It spreads the duty as evenly as possible
    /// without a memory, and measurements made it the default.
    #[default]
    Rotating,
}

impl MigratorPolicy {
    /// Chooses a migrator among `left`, which is not empty, after the child at `leaving` became idle.
    #[must_use]
    pub fn choose(self, left: ChildSlots, leaving: ChildSlot) -> ChildSlot {
        let lowest = left.lowest().unwrap_or(leaving);
        match self {
            Self::LowestBit => lowest,
            Self::Rotating => left.above(leaving).lowest().unwrap_or(lowest),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use std::vec::Vec;

    use super::{ChildSlot, ChildSlots, MigratorPolicy, State, WIDTH_MAX};

    const fn slot(number: u8) -> ChildSlot {
        ChildSlot::new(number)
    }

    fn shown(state: State) -> (u16, Option<u8>) {
        (
            state.active().bits(),
            state.migrator().map(ChildSlot::number),
        )
    }

    fn leaves(state: State, leaving: u8) -> State {
        state.deactivated(slot(leaving), |left| left.lowest().unwrap())
    }

    #[test]
    fn no_child_is_active_or_migrator_at_first() {
        assert_eq!(shown(State::IDLE), (0, None));
        assert_eq!(State::IDLE.sequence(), 0);
        assert!(State::IDLE.is_valid());
        assert_eq!(std::format!("{:?}", State::IDLE), "0/-#0");
    }

    #[test]
    fn a_child_that_goes_without_being_migrator_leaves_the_duty_where_it_is() {
        let state = State::IDLE.activated(slot(2)).activated(slot(1));
        assert_eq!(shown(leaves(state, 1)), (0b100, Some(2)));
    }

    #[test]
    fn an_answer_that_is_no_active_child_counts_as_the_lowest() {
        let state = State::IDLE.activated(slot(0)).activated(slot(3));
        let state = state.deactivated(slot(0), |_| slot(7));
        assert_eq!(shown(state), (0b1000, Some(3)));
    }

    #[test]
    fn each_policy_hands_over_to_its_own_choice() {
        let left = ChildSlots::from_bits(0b1011);
        let chosen = |policy: MigratorPolicy, leaving| policy.choose(left, slot(leaving)).number();
        assert_eq!(chosen(MigratorPolicy::LowestBit, 2), 0);
        assert_eq!(chosen(MigratorPolicy::Rotating, 2), 3);
        assert_eq!(chosen(MigratorPolicy::Rotating, 15), 0);
    }

    proptest! {
        /// STATE-1 to STATE-3 hold after any history, and the active children equal those of a reference set.
        #[test]
        fn every_history_keeps_s1_to_s3(
            history in proptest::collection::vec((0..3_u8, 0..WIDTH_MAX), 0..60),
            policy in 0..2_usize,
        ) {
            let policy = [MigratorPolicy::LowestBit, MigratorPolicy::Rotating][policy];
            let mut state = State::IDLE;
            let mut active = [false; WIDTH_MAX];
            for (kind, number) in history {
                let child = slot(u8::try_from(number).unwrap());
                let before = state;
                state = match kind {
                    0 => state.activated(child),
                    1 => state.deactivated(child, |left| policy.choose(left, child)),
                    _ => state.touched(),
                };
                if kind < 2 {
                    active[number] = kind == 0;
                }
                prop_assert!(state.is_valid(), "{before:?} became {state:?}");
                prop_assert_eq!(state.sequence(), before.sequence() + 1);
                let expected: Vec<usize> = (0..WIDTH_MAX).filter(|slot| active[*slot]).collect();
                prop_assert_eq!(state.active().map(ChildSlot::index).collect::<Vec<_>>(), expected);
                if let (Some(kept), true) = (before.migrator(), state.active() == before.active()) {
                    prop_assert_eq!(state.migrator(), Some(kept));
                }
            }
        }
    }
}

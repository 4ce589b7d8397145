//! The bitmap of a wheel's occupied slots, which finds the first due slot (spec C-1.4 to C-1.7).
//!
//! # First due
//!
//! [`first_due`](PendingMap::first_due) is a *lower bound*. The bound is exact after each pass. When a slot becomes
//! empty the bound does not change, because a search for the next slot would make every cancellation expensive. A bound
//! that is too early costs at most one useless check. A CPU that is about to sleep until the first due tick
//! [settles](PendingMap::settle) the bound first.
//!
//! # The clock
//!
//! The clock of the map does not advance at every tick. It advances when an entry is enqueued, and never past a slot
//! that is due and was not processed. With an old clock timeouts seem farther ahead than they are, and would be
//! enqueued in slots that are too coarse (R07, R08). So a caller calls [`forward`](PendingMap::forward) before it
//! enqueues an entry.

use crate::slots::geometry::{
    DueSlot, LEVELS_MAX, SHIFT, SLOTS, Slot, Tick, granularity, limit, place,
};

/// The distance, in ticks, at which an empty wheel claims to be due, so that the sleep of an idle CPU has an end. No
/// slot is due after that distance.
pub const FAR: u64 = (1 << 30) - 1;

const _: () = assert!(limit(LEVELS_MAX - 1) < FAR);

/// The clock and the occupied slots of a wheel with `LEVELS` levels, without the timers of the wheel. The lock of the
/// wheel's owner protects the map.
#[derive(Clone, Debug)]
pub struct PendingMap<const LEVELS: usize> {
    /// One bit for each slot, set if the slot holds an entry.
    occupied: [u64; LEVELS],
    clock: Tick,
    first_due: Tick,
    /// The slot that is due at `first_due`; the coarsest, if several slots are due at that tick. Not valid if
    /// `first_due` is too early or the wheel is empty.
    first_slot: Slot,
    /// True if `first_due` may be too early.
    unsettled: bool,
    /// True if `first_due` is the due tick of a timer. False if it is the claim of an empty wheel.
    has_timers: bool,
    /// The moment in which the map was last brought up to date.
    moment: u64,
}

/// A number that no moment has.
const NO_MOMENT: u64 = u64::MAX;

/// The slots that are due at one tick, the coarsest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the timers in these slots fire now or never"]
pub struct DueSlots {
    slots: [Slot; LEVELS_MAX],
    count: usize,
    /// The tick at which the slots are due.
    pub tick: Tick,
}

impl DueSlots {
    /// Iterates over the slots, the coarsest first.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.slots[..self.count].iter().rev().copied()
    }
}

impl<const LEVELS: usize> PendingMap<LEVELS> {
    /// Makes an empty map.
    #[must_use]
    pub const fn new(now: Tick) -> Self {
        Self {
            occupied: [0; LEVELS],
            clock: now,
            first_due: far_from(now),
            first_slot: Slot::at(0, 0),
            unsettled: false,
            has_timers: false,
            moment: NO_MOMENT,
        }
    }

    /// Returns the clock of the map: the first tick that was not processed.
    #[inline]
    #[must_use]
    pub const fn clock(&self) -> Tick {
        self.clock
    }

    /// Returns a tick before which no slot is due.
    #[inline]
    #[must_use]
    pub const fn first_due(&self) -> Tick {
        self.first_due
    }

    /// Returns true if a slot may hold an entry, without a search. The result is exact after
    /// [`settle`](PendingMap::settle).
    #[inline]
    #[must_use]
    pub const fn has_timers(&self) -> bool {
        self.has_timers
    }

    /// Moves the clock to `now`, but not past the first due slot (spec C-1.4).
    ///
    /// An empty wheel has no due slot, whatever it claims. So its clock advances to `now` itself, and its claim moves
    /// ahead with the clock.
    #[inline]
    pub fn forward(&mut self, now: Tick) {
        if now <= self.clock {
            return;
        }
        if self.has_timers {
            debug_assert!(self.clock <= self.first_due);
            self.clock = now.min(self.first_due);
        } else {
            self.clock = now;
            self.first_due = far_from(now);
        }
    }

    /// Returns true if the map was brought up to date in the `moment` of the host, see
    /// [`Platform::moment`](crate::platform::Platform::moment).
    #[inline(always)]
    #[must_use]
    pub const fn is_of_moment(&self, moment: u64) -> bool {
        self.moment == moment
    }

    /// Notes the moment in which the map was brought up to date; `None` if the moment has no number.
    #[inline]
    pub fn note_moment(&mut self, moment: Option<u64>) {
        self.moment = moment.unwrap_or(NO_MOMENT);
    }

    /// Returns the slot of a timeout that must not fire before the end of `expiry`. Enqueues nothing.
    #[inline]
    #[must_use]
    pub const fn place(&self, expiry: Tick) -> DueSlot {
        place::<LEVELS>(self.clock, expiry)
    }

    /// Notes that an entry was enqueued at `place`, which this map chose at its present clock. Returns true if this
    /// entry is due before all others. In that case a CPU that sleeps until the first due tick has to be kicked.
    // What is placed would go through memory.
    #[inline(always)]
    pub fn enqueue(&mut self, place: DueSlot) -> bool {
        self.occupied[place.slot.level()] |= 1 << place.slot.index();
        // Nearly always, so it is asked first. What an empty wheel claims is beyond all slots.
        debug_assert!(self.has_timers || place.due <= self.first_due);
        if place.due > self.first_due {
            return false;
        }
        let is_first = place.due < self.first_due || !self.has_timers;
        if is_first {
            self.first_due = place.due;
            self.first_slot = place.slot;
            self.unsettled = false;
            self.has_timers = true;
        } else if place.slot.level() > self.first_slot.level() {
            self.first_slot = place.slot;
        }
        is_first
    }

    /// Notes that the last entry of `slot` was removed.
    // Always: a call in the middle is what the shortest paths have to save registers for.
    #[inline(always)]
    pub fn vacate(&mut self, slot: Slot) {
        self.occupied[slot.level()] &= !(1 << slot.index());
        self.unsettled = true;
    }

    /// Returns the first due slot and its due tick; `None` if all slots are empty. Searches for the slot if necessary.
    ///
    /// Of several slots that are due at the same tick it returns the coarsest, because a timer in a coarser slot was
    /// enqueued before any timer for the same time in a finer slot.
    pub fn first_slot(&mut self, now: Tick) -> Option<(Slot, Tick)> {
        self.settle(now);
        self.has_timers.then_some((self.first_slot, self.first_due))
    }

    /// Returns true if `slot` holds an entry.
    #[inline]
    #[must_use]
    pub const fn is_occupied(&self, slot: Slot) -> bool {
        self.occupied[slot.level()] & (1 << slot.index()) != 0
    }

    /// Returns true if an entry in `slot` for the tick `old` may stay there for the later tick `expiry`. The slot is
    /// due before `expiry` or serves it, and the pass that empties the slot enqueues the entry again. An entry in the
    /// first due slot may not stay, because a CPU that sleeps until that slot is due would wake in vain.
    #[inline]
    #[must_use]
    pub fn serves_later(&self, slot: Slot, old: Tick, expiry: Tick) -> bool {
        let is_later = expiry > old;
        is_later && slot != self.first_slot
    }

    /// Returns the tick at which `slot` is due, if it holds an entry. All entries in it belong to this rotation of its
    /// level.
    #[must_use]
    pub fn due_of(&self, slot: Slot) -> Tick {
        let position = self.clock.0.div_ceil(granularity(slot.level()));
        let index = position % SLOTS;
        let ahead = (slot.index() as u64 + SLOTS - index) % SLOTS;
        let due = position.saturating_add(ahead);
        Tick(due.saturating_mul(granularity(slot.level())))
    }

    /// Makes [`first_due`](PendingMap::first_due) exact, for a CPU that is about to sleep until that tick. For an empty
    /// wheel each call moves `first_due` far ahead of `now`, so that the claim is never reached (C-1.5).
    pub fn settle(&mut self, now: Tick) {
        if self.unsettled {
            self.search(now);
        }
        if !self.has_timers {
            self.first_due = self.claim(now);
        }
    }

    /// Marks the first due slots as empty and returns them, if they are due at `now` or before. A caller repeats the
    /// call until it returns `None`.
    ///
    /// On return the clock is past the due tick of the slots. So a timer that a callback arms for "now" is due a tick
    /// later. Otherwise the caller's loop would never end (spec C-1.7).
    ///
    /// The result has no slot if the last timer of the first slot was cancelled.
    pub fn take_due(&mut self, now: Tick) -> Option<DueSlots> {
        if now < self.clock || now < self.first_due {
            return None;
        }
        self.clock = self.first_due.max(self.clock);
        let mut due = DueSlots {
            slots: [Slot::at(0, 0); LEVELS_MAX],
            count: 0,
            tick: self.clock,
        };
        let mut position = self.clock.0;
        for level in 0..LEVELS {
            let slot = Slot::at(level, position);
            if self.is_occupied(slot) {
                self.occupied[level] &= !(1 << slot.index());
                due.slots[due.count] = slot;
                due.count += 1;
            }
            if position & LOW_BITS != 0 {
                break;
            }
            position >>= SHIFT;
        }
        self.clock = Tick(self.clock.0.saturating_add(1));
        self.search(now);
        Some(due)
    }

    /// Returns the expiry that the wheel claims at `now` when it is empty. After a pass the clock is one tick ahead of
    /// `now`. If the clock is farther ahead, the claim counts from the clock, because each entry must be due before the
    /// claim.
    fn claim(&self, now: Tick) -> Tick {
        far_from(now.max(Tick(self.clock.0.saturating_sub(1))))
    }

    /// Finds the first due slot by a search level by level (spec C-1.6).
    fn search(&mut self, now: Tick) {
        self.unsettled = false;
        let mut first: Option<(u64, Slot)> = None;
        let mut position = self.clock.0;
        for (level, &occupied) in self.occupied.iter().enumerate() {
            if occupied != 0 {
                let ahead = distance(occupied, position);
                let due = position
                    .saturating_add(ahead)
                    .saturating_mul(granularity(level));
                if first.is_none_or(|(first, _)| due <= first) {
                    first = Some((due, Slot::at(level, position.saturating_add(ahead))));
                }
                // Due before the clock of the next level moves: nothing coarser comes earlier, or at the same time.
                if ahead < position.wrapping_neg() & LOW_BITS {
                    break;
                }
            }
            position = position.div_ceil(1 << SHIFT);
        }
        self.has_timers = first.is_some();
        (self.first_due, self.first_slot) = match first {
            Some((due, slot)) => (Tick(due), slot),
            None => (self.claim(now), self.first_slot),
        };
    }
}

/// Returns the expiry that an empty wheel claims at `now`.
#[inline]
const fn far_from(now: Tick) -> Tick {
    Tick(now.0.saturating_add(FAR))
}

/// Returns the number of slots from `position` to the first occupied slot of a level.
#[inline]
fn distance(occupied: u64, position: u64) -> u64 {
    let index = (position % SLOTS) as u32;
    u64::from(occupied.rotate_right(index).trailing_zeros())
}

/// The low bits of a level's position, which the position of the next level does not have.
const LOW_BITS: u64 = (1 << SHIFT) - 1;

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// A wheel of numbers for tests: a pending map, together with a plain list as the reference.
    struct Wheel<const LEVELS: usize> {
        pending_map: PendingMap<LEVELS>,
        filed: Vec<(DueSlot, Tick)>,
    }

    impl<const LEVELS: usize> Wheel<LEVELS> {
        fn new(now: u64) -> Self {
            Self {
                pending_map: PendingMap::new(Tick(now)),
                filed: Vec::new(),
            }
        }

        fn arm(&mut self, now: u64, expiry: u64) {
            self.pending_map.forward(Tick(now));
            let place = self.pending_map.place(Tick(expiry));
            let first = self.filed.iter().map(|(place, _)| place.due).min();
            let is_first = self.pending_map.enqueue(place);
            if first.is_none_or(|first| place.due < first) {
                // The pending_map may know something earlier that is gone.
                assert!(is_first || self.pending_map.first_due() <= place.due);
            }
            self.filed.push((place, Tick(expiry)));
        }

        fn cancel(&mut self, which: usize) {
            let (place, _) = self.filed.swap_remove(which);
            if self.filed.iter().all(|(other, _)| other.slot != place.slot) {
                self.pending_map.vacate(place.slot);
            }
        }

        /// Fires all entries that are due up to `now`, and returns the ticks and the entries.
        fn run(&mut self, now: u64) -> Vec<(u64, Vec<u64>)> {
            let mut fired = Vec::new();
            while let Some(due) = self.pending_map.take_due(Tick(now)) {
                let mut batch = Vec::new();
                let mut again = Vec::new();
                for slot in due.iter() {
                    self.filed.retain(|(place, expiry)| {
                        let stays = place.slot != slot;
                        if !stays {
                            assert_eq!(place.due, due.tick, "a slot is one rotation's");
                            if place.due <= *expiry {
                                &mut again
                            } else {
                                &mut batch
                            }
                            .push(expiry.0);
                        }
                        stays
                    });
                }
                for expiry in again {
                    self.arm(now, expiry);
                }
                batch.sort_unstable();
                if !batch.is_empty() {
                    fired.push((due.tick.0, batch));
                }
                self.check();
            }
            fired
        }

        fn first(&self) -> Option<Tick> {
            self.filed.iter().map(|(place, _)| place.due).min()
        }

        fn check(&self) {
            let first = self.first();
            assert!(first.is_none_or(|first| self.pending_map.first_due() <= first));
            assert!(self.pending_map.has_timers() || first.is_none());
            for (place, _) in &self.filed {
                assert!(self.pending_map.is_occupied(place.slot));
                assert!(place.due >= self.pending_map.clock());
                assert_eq!(self.pending_map.due_of(place.slot), place.due);
            }
        }

        /// Advances from one due tick to the next until the wheel is empty.
        fn drain(&mut self) -> Vec<(u64, Vec<u64>)> {
            let mut fired = Vec::new();
            while let Some(first) = self.first() {
                fired.extend(self.run(first.0));
            }
            fired
        }
    }

    fn drained<const LEVELS: usize>(clock: u64, expiries: &[u64]) -> (u64, Vec<(u64, Vec<u64>)>) {
        let mut wheel = Wheel::<LEVELS>::new(clock);
        for &expiry in expiries {
            wheel.arm(clock, expiry);
        }
        (wheel.pending_map.first_due().0, wheel.drain())
    }

    #[test]
    fn timeouts_fire_in_the_order_of_appendix_a2() {
        let one = |tick: u64, expiry: u64| (tick, vec![expiry]);
        assert_eq!(
            drained::<9>(4_096, &[4_101, 4_159, 4_196, 4_608, 8_191]),
            (
                4_102,
                vec![
                    one(4_102, 4_101),
                    one(4_160, 4_159),
                    one(4_200, 4_196),
                    one(4_672, 4_608),
                    one(8_192, 8_191)
                ]
            )
        );
        assert_eq!(
            drained::<9>(4_099, &[4_099, 4_100, 4_163, 4_170, 4_700]),
            (
                4_100,
                vec![
                    one(4_100, 4_099),
                    one(4_101, 4_100),
                    one(4_168, 4_163),
                    one(4_176, 4_170),
                    one(4_736, 4_700)
                ]
            )
        );
        // Across 2^32, which is nothing special for a count of 64 bits.
        let (clock, [near, middle, far]) =
            (4_294_967_286, [4_294_967_291, 4_294_967_298, 4_294_967_396]);
        assert_eq!(
            drained::<9>(clock, &[near, middle, far]),
            (
                4_294_967_292,
                vec![
                    one(4_294_967_292, near),
                    one(4_294_967_299, middle),
                    one(4_294_967_400, far)
                ]
            )
        );
        assert_eq!(
            drained::<8>(63, &[64, 126, 127, 567]),
            (65, vec![one(65, 64), (128, vec![126, 127]), one(576, 567)])
        );
    }

    #[test]
    fn an_empty_wheel_claims_to_be_due_far_ahead_of_the_caller() {
        let mut pending_map = PendingMap::<9>::new(Tick(100));
        assert_eq!(pending_map.first_due(), Tick(100 + FAR));
        pending_map.settle(Tick(5_000));
        assert_eq!(pending_map.first_due(), Tick(5_000 + FAR));
        assert!(!pending_map.has_timers());
    }

    /// A sleeping CPU with an empty wheel has to be notified of the first timer, even if the old claim ends before that
    /// timer is due.
    #[test]
    fn the_first_timer_of_an_empty_wheel_is_the_first_however_long_the_wheel_was_empty() {
        for (now, expiry) in [
            // Beyond what it claimed when it was made.
            (FAR - 100, FAR + 1_000),
            (3 * FAR, 3 * FAR + 1),
            // As far as can be.
            (FAR - 100, u64::MAX),
            // At the end of time.
            (u64::MAX - 1, u64::MAX),
        ] {
            let mut pending_map = PendingMap::<9>::new(Tick(0));
            pending_map.forward(Tick(now));
            let place = pending_map.place(Tick(expiry));
            assert!(place.due <= pending_map.first_due());
            assert!(pending_map.enqueue(place));
            assert_eq!(pending_map.first_due(), place.due);
            if expiry < u64::MAX {
                assert!(!pending_map.enqueue(pending_map.place(Tick(expiry + 1_000))));
            }
        }
    }

    /// An entry that is enqueued in an empty wheel is due before the wheel's claim, even if the claim was settled by an
    /// old clock.
    #[test]
    fn what_is_filed_in_an_empty_wheel_is_before_what_the_wheel_claims() {
        let mut pending_map = PendingMap::<9>::new(Tick(2 * FAR));
        pending_map.settle(Tick(0));
        assert!(pending_map.enqueue(pending_map.place(Tick(u64::MAX))));
    }

    /// Spec C-1.7: an entry that is enqueued for "now" while slots fire is due later. Otherwise a callback that arms
    /// its timer for "now" would keep its caller busy for ever.
    #[test]
    fn what_is_filed_while_slots_fire_is_due_later() {
        let mut wheel = Wheel::<9>::new(0);
        wheel.arm(0, 10);
        let due = wheel.pending_map.take_due(Tick(11)).expect("it is due");
        assert_eq!(due.tick, Tick(11));
        for expiry in [0, 10, 11] {
            assert_eq!(wheel.pending_map.place(Tick(expiry)).due, Tick(12));
        }
    }

    /// Spec C-1.6: a coarse slot is due at the next step of its level, and a fine slot is due soon after it.
    #[test]
    fn the_search_does_not_stop_before_a_coarse_slot_that_is_due_earlier() {
        for start in 0..64 {
            let mut wheel = Wheel::<9>::new(start);
            // Due at 128, in level 1.
            wheel.arm(start, 127);
            wheel.pending_map.forward(Tick(125));
            for expiry in [129, 131, 133] {
                wheel.arm(125, expiry);
                wheel.pending_map.unsettled = true;
                wheel.pending_map.settle(Tick(125));
                assert_eq!(wheel.pending_map.first_due(), Tick(128));
            }
        }
    }

    #[test]
    fn a_slot_that_was_vacated_costs_a_look_for_nothing_unless_settled() {
        for settles in [false, true] {
            let mut wheel = Wheel::<9>::new(1_000);
            wheel.arm(1_000, 1_010);
            wheel.arm(1_000, 1_030);
            wheel.cancel(0);
            assert_eq!(wheel.pending_map.first_due(), Tick(1_011));
            if settles {
                wheel.pending_map.settle(Tick(1_000));
            }
            assert_eq!(
                wheel.pending_map.take_due(Tick(1_011)).is_some(),
                !settles,
                "an empty look is all that it costs"
            );
            assert_eq!(wheel.drain(), vec![(1_031, vec![1_030])]);
        }
    }

    /// R07, R08: with an old clock the timer would be enqueued in level 1 or above.
    #[test]
    fn a_clock_that_was_left_behind_is_moved_before_filing() {
        let mut wheel = Wheel::<9>::new(0);
        wheel.arm(100_000, 100_005);
        assert_eq!(wheel.drain(), vec![(100_006, vec![100_005])]);
    }

    /// R06: an empty wheel that no CPU checked until its claim had passed is not due.
    #[test]
    fn the_clock_of_an_empty_wheel_passes_what_it_claimed() {
        let mut wheel = Wheel::<9>::new(0);
        let now = 3 * FAR;
        wheel.arm(now, now + 5);
        assert_eq!(wheel.pending_map.clock(), Tick(now));
        assert_eq!(wheel.drain(), vec![(now + 6, vec![now + 5])]);
    }

    /// WHEEL-4.
    #[test]
    fn the_clock_does_not_pass_what_is_due() {
        let mut wheel = Wheel::<9>::new(0);
        wheel.arm(0, 10);
        wheel.pending_map.forward(Tick(500));
        assert_eq!(wheel.pending_map.clock(), Tick(11));
        wheel.pending_map.forward(Tick(3));
        assert_eq!(wheel.pending_map.clock(), Tick(11));
        assert_eq!(wheel.run(500), vec![(11, vec![10])]);
    }

    #[test]
    fn what_is_beyond_the_range_fires_at_its_time() {
        let expiry = 3_000_000_000;
        let mut wheel = Wheel::<9>::new(1_000_000);
        wheel.arm(1_000_000, expiry);
        let fired = wheel.drain();
        let [(tick, expiries)] = fired.as_slice() else {
            panic!("{fired:?}");
        };
        assert_eq!(expiries, &[expiry]);
        assert!(*tick > expiry);
        assert!((*tick - expiry) * 7 <= expiry);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Arm(u64),
        Cancel(usize),
        Pass(u64),
        Settle,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let ahead =
            || (0..34_u32, any::<u64>()).prop_map(|(bits, random)| random & ((1 << bits) - 1));
        let step = prop_oneof![
            4 => ahead().prop_map(Step::Arm),
            2 => any::<usize>().prop_map(Step::Cancel),
            2 => ahead().prop_map(|ticks| Step::Pass(ticks / 16)),
            1 => Just(Step::Settle),
        ];
        proptest::collection::vec(step, 1..200)
    }

    fn play<const LEVELS: usize>(start: u64, steps: Vec<Step>) {
        let mut now = start;
        let mut wheel = Wheel::<LEVELS>::new(now);
        for step in steps {
            match step {
                Step::Arm(ahead) => wheel.arm(now, now + ahead),
                Step::Cancel(which) if !wheel.filed.is_empty() => {
                    wheel.cancel(which % wheel.filed.len());
                }
                Step::Cancel(_) => {}
                Step::Pass(ticks) => {
                    now += ticks;
                    for (tick, expiries) in wheel.run(now) {
                        assert!(expiries.iter().all(|expiry| *expiry < tick), "never early");
                        assert!(tick <= now);
                    }
                    assert!(
                        wheel.first().is_none_or(|first| first.0 > now),
                        "never lost"
                    );
                }
                Step::Settle => {
                    wheel.pending_map.settle(Tick(now));
                    let first = wheel.first().unwrap_or(Tick(now + FAR));
                    assert_eq!(wheel.pending_map.first_due(), first, "settled means exact");
                    let slot = wheel.pending_map.first_slot(Tick(now));
                    assert_eq!(slot.map(|slot| slot.1), wheel.first());
                    let coarsest = wheel
                        .filed
                        .iter()
                        .filter(|(place, _)| place.due == first)
                        .max_by_key(|(place, _)| place.slot.level());
                    assert_eq!(
                        slot.map(|slot| slot.0),
                        coarsest.map(|(place, _)| place.slot)
                    );
                    assert_eq!(wheel.pending_map.has_timers(), !wheel.filed.is_empty());
                }
            }
            wheel.check();
        }
        wheel.drain();
        assert!(wheel.filed.is_empty());
    }

    proptest! {
        #[test]
        fn nine_levels_behave_like_a_list(start in 0..u64::MAX / 4, steps in steps()) {
            play::<9>(start, steps);
        }

        #[test]
        fn two_levels_behave_like_a_list(start in 0..1_u64 << 40, steps in steps()) {
            // Few levels: nearly everything is beyond the range, and is enqueued again and again.
            let steps = steps
                .into_iter()
                .map(|step| match step {
                    Step::Arm(ahead) => Step::Arm(ahead % 5_000),
                    other => other,
                })
                .collect();
            play::<2>(start, steps);
        }
    }
}

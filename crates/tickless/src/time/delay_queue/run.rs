//! The run of a [`Wheel`](super::wheel::Wheel): an array of entries that are due soon, sorted by their deadlines.

/// The number of bits of a digit by which a run is sorted.
const SORT_BITS: u32 = 8;

/// The largest number of places that are sorted by insertion; for more, counting digits is faster.
const FEW: usize = 32;

/// An entry of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunEntry {
    pub(super) deadline: u64,
    pub(super) index: u32,
    /// Distinguishes the entry from a later entry with the same index.
    pub(super) generation: u32,
}

impl RunEntry {
    const NOWHERE: Self = Self {
        deadline: 0,
        index: u32::MAX,
        generation: 0,
    };
}

/// A sorted array of entries that are due soon. Entries of equal deadlines are in the order in which they were
/// inserted.
#[derive(Debug)]
pub(super) struct Run {
    places: Vec<RunEntry>,
    /// Holds the second half while a run is gathered, last entry first; otherwise it is the buffer in which entries are
    /// sorted.
    spare: Vec<RunEntry>,
    /// The index of the first place that was not taken.
    next: usize,
    /// The number of entries that are in the run; places of removed entries are skipped.
    left: usize,
}

impl Run {
    pub(super) const fn new() -> Self {
        Self {
            places: Vec::new(),
            spare: Vec::new(),
            next: 0,
            left: 0,
        }
    }

    /// Returns the first place, the entry of which may have left the run; `None` if all entries have left.
    #[inline]
    pub(super) fn first(&self) -> Option<RunEntry> {
        if self.left == 0 {
            return None;
        }
        self.places.get(self.next).copied()
    }

    /// Returns all places that were not taken.
    pub(super) fn places(&self) -> impl Iterator<Item = &RunEntry> {
        self.places
            .iter()
            .skip(self.next)
            .take_while(|_| self.left > 0)
    }

    /// Takes the first place; its entry leaves the run.
    #[inline]
    pub(super) fn take_first(&mut self) {
        self.next += 1;
        self.left -= 1;
    }

    /// Drops the first place; its entry left the run before.
    #[inline]
    pub(super) fn drop_first(&mut self) {
        self.next += 1;
    }

    /// Notes that an entry left the run; its place stays.
    #[inline]
    pub(super) fn note_left(&mut self) {
        self.left -= 1;
    }

    /// Begins an empty run.
    pub(super) fn begin(&mut self) {
        self.places.clear();
        self.spare.clear();
        self.next = 0;
        self.left = 0;
    }

    /// Appends an entry to the first half.
    #[inline]
    pub(super) fn push_front_half(&mut self, place: RunEntry) {
        self.places.push(place);
    }

    /// Puts an entry in front of the second half.
    #[inline]
    pub(super) fn push_back_half(&mut self, place: RunEntry) {
        self.spare.push(place);
    }

    /// Sorts the entries by deadline, stably: both halves become the run.
    pub(super) fn sort(&mut self) {
        self.places.extend(self.spare.drain(..).rev());
        self.left = self.places.len();
        if self.left <= FEW {
            // Stable, and by insertion for so few.
            self.places.sort_by_key(|place| place.deadline);
            return;
        }
        let first = self.places.iter().map(|place| place.deadline).min();
        let last = self.places.iter().map(|place| place.deadline).max();
        let (first, last) = (first.unwrap_or(0), last.unwrap_or(0));
        let bits = u64::BITS - (last - first).leading_zeros();
        self.spare.resize(self.left, RunEntry::NOWHERE);
        let mut shift = 0;
        while shift < bits {
            sort_by_digit(&self.places, &mut self.spare, first, shift);
            std::mem::swap(&mut self.places, &mut self.spare);
            shift += SORT_BITS;
        }
        self.spare.clear();
    }

    /// Reserves memory for a run of `count` entries.
    pub(super) fn reserve(&mut self, count: usize) {
        self.places.reserve(count.saturating_sub(self.places.len()));
        self.spare.reserve(count);
    }

    /// Frees the memory beyond `count` entries, but keeps the memory of the entries that are left.
    pub(super) fn shrink(&mut self, count: usize) {
        if self.left == 0 {
            self.begin();
        }
        self.places.shrink_to(count);
        self.spare.shrink_to(count);
    }
}

/// Copies `from` into `to`, which is as long, sorted stably by one digit of the distance from `first`.
fn sort_by_digit(from: &[RunEntry], to: &mut [RunEntry], first: u64, shift: u32) {
    const DIGITS: usize = 1 << SORT_BITS;
    #[expect(clippy::cast_possible_truncation, reason = "a digit of eight bits")]
    let digit = |place: &RunEntry| ((place.deadline - first) >> shift) as usize & (DIGITS - 1);
    let mut begins = [0_usize; DIGITS];
    for place in from {
        begins[digit(place)] += 1;
    }
    let mut sum = 0;
    for begin in &mut begins {
        sum += std::mem::replace(begin, sum);
    }
    for place in from {
        let begin = &mut begins[digit(place)];
        to[*begin] = *place;
        *begin += 1;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Generates random deadlines; some lists have few different deadlines, so that equal deadlines occur.
    fn deadlines() -> impl Strategy<Value = Vec<u64>> {
        let shift = 0_u32..34;
        shift.prop_flat_map(|shift| {
            let deadline = (0_u64..1_000).prop_map(move |value| (7 << 40) + (value << shift));
            proptest::collection::vec(deadline, 1..300)
        })
    }

    proptest! {
        #[test]
        fn a_run_is_sorted_and_equal_deadlines_keep_their_order(deadlines in deadlines()) {
            let mut expected: Vec<_> = deadlines.iter().copied().zip(0_u32..).collect();
            expected.sort_by_key(|(deadline, _)| *deadline);
            let place = |(deadline, index)| RunEntry { deadline, index, generation: 0 };
            let mut run = Run::new();
            run.begin();
            let half = deadlines.len() / 2;
            let all: Vec<_> = deadlines.iter().copied().zip(0_u32..).map(place).collect();
            for place in &all[..half] {
                run.push_front_half(*place);
            }
            for place in all[half..].iter().rev() {
                run.push_back_half(*place);
            }
            run.sort();
            let sorted: Vec<_> = run.places().map(|place| (place.deadline, place.index)).collect();
            prop_assert_eq!(sorted, expected);
        }
    }
}

//! The slab and the radix wheel of a [`DelayQueue`](super::DelayQueue): exact deadlines in lists of indices.
//!
//! Entries lie in one vector. Their links are indices, so an entry may be moved with the vector and no entry is pinned.
//! The intrusive queues of the core cannot be used here, because their entries have fixed addresses.
//!
//! A list belongs to a digit of six bits and to a value of this digit. An entry is in the list of the highest digit in
//! which its deadline differs from [`elapsed`](Wheel::elapsed), and of the value that its deadline has there. Lower
//! digits are ignored until the list is due. Then the wheel moves the entries of the list to lists of lower digits, in
//! their order. So
//!
//! 1. no deadline in a list is before a deadline in a list of a lower digit, or of the same digit and a lower value;
//! 2. entries of equal deadlines are always in one list, in the order in which they were inserted.
//!
//! A list stores the range of its deadlines. If all deadlines of a list are equal, no entry has to move, whatever the
//! digit: many equal deadlines cost one wake-up and no move. After a removal a range may be too wide, never too narrow.
//! If the range is too wide, the wheel wakes its task once for nothing.
//!
//! A list of different deadlines within 2^24 ns does not move down: its entries are gathered, from both ends of the
//! list at a time, into a *run*, an array of deadlines and indices that is sorted by digits of eight bits. Expiring
//! walks along this array, so that the processor can load the next entries while it waits for the memory of one entry;
//! links would not allow that. A list that becomes due before the end of the run, because its entries were inserted
//! since, moves down as other lists do. An entry of the run is never newer than an entry of the same deadline in a
//! list. An entry that leaves the run early leaves its place in the array, and the place is skipped.
//!
//! Limits and cost: to insert, remove or move an entry is O(1). Each entry moves at most ten times before it expires,
//! and mostly once or twice. The 704 lists take 17 KiB, allocated with the first entry. Each entry takes 24 bytes in
//! addition to its value. Each entry of a run takes 32 bytes, allocated for all entries up to 1,024.
//!
//! The wheel reads no clock: `now` is an argument.

use super::run::{Run, RunEntry};
use super::slab::{Entry, Key, ListNumber, NONE, Slab, Taken};

/// The number of bits of a digit.
const BITS: u32 = 6;
/// The number of values of a digit.
const VALUES: usize = 1 << BITS;
/// The number of digits of a deadline: 64 bits divided by six, rounded up.
const DIGITS: usize = 11;

/// The number of places of a run that have memory from the beginning. So a queue that does not grow allocates nothing,
/// unless more than 1,024 entries are due within 2^24 ns.
const RUN_ROOM: usize = 1_024;

/// The digits whose lists become runs instead of moving down. A list of the last of these digits spans 2^24 ns; a list
/// of a higher digit is too wide for its entries to lie near to each other in memory when they expire.
const RUN_DIGITS: std::ops::Range<usize> = 1..5;

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    /// A lower bound of the list's deadlines.
    first: u64,
    /// An upper bound of the list's deadlines.
    last: u64,
}

impl List {
    const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
        first: u64::MAX,
        last: 0,
    };
}

/// The outcome of [`Wheel::expire`].
#[derive(Debug)]
pub(super) enum Next<T> {
    /// An entry was due and is removed.
    Due(Taken<T>),
    /// No entry is due before this time.
    Wait(u64),
    /// The queue has no entry.
    Empty,
}

/// The radix wheel: the entries of a queue, by deadline.
#[derive(Debug)]
pub(super) struct Wheel<T> {
    entries: Slab<T>,
    /// A lower bound of all deadlines: not after any deadline in a list, and not after the last `now`. It goes back by
    /// [`rewind`](Self::rewind) alone.
    elapsed: u64,
    /// The digits with a list that is not empty.
    digits: u16,
    /// The values of each digit whose lists are not empty.
    values: [u64; DIGITS],
    lists: Vec<List>,
    run: Run,
}

impl<T> Wheel<T> {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self {
            entries: Slab::with_capacity(capacity),
            elapsed: 0,
            digits: 0,
            values: [0; DIGITS],
            lists: Vec::new(),
            run: Run::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// Returns true if `additional` more entries can have an index.
    pub(super) fn has_indices_for(&self, additional: usize) -> bool {
        self.entries.has_indices_for(additional)
    }

    pub(super) fn reserve(&mut self, additional: usize) {
        self.entries.reserve(additional);
        self.reserve_run();
    }

    /// Reserves memory in the run for as many entries as the slab has memory for, but for [`RUN_ROOM`] at most.
    fn reserve_run(&mut self) {
        self.run.reserve(self.entries.capacity().min(RUN_ROOM));
    }

    /// Reserves memory for one more entry.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.reserve(1);
    }

    /// Adds `value` after all entries with the same deadline.
    ///
    /// # Panics
    ///
    /// If no index is left.
    #[inline]
    #[track_caller]
    pub(super) fn insert(&mut self, deadline: u64, value: T) -> Key {
        if self.entries.is_full() {
            self.grow();
        }
        let index = self.entries.next_index();
        let (list, previous) = self.append(deadline, index);
        let in_list = (list, previous);
        let key = self.entries.put(index, (deadline, value), in_list);
        self.link_behind(list, previous, index);
        key
    }

    /// Removes an entry; returns `None` if the queue does not contain `key`.
    pub(super) fn remove(&mut self, key: Key) -> Option<Taken<T>> {
        self.deadline(key)?;
        self.unlink(key.index);
        self.entries.release(key.index)
    }

    /// Returns the deadline of an entry, or `None` if the queue does not contain `key`.
    pub(super) fn deadline(&self, key: Key) -> Option<u64> {
        self.entries.by_key(key).map(|entry| entry.deadline)
    }

    /// Moves an entry to its new deadline, after all entries with that deadline. Returns false if the queue does not
    /// contain `key`.
    pub(super) fn reset(&mut self, key: Key, deadline: u64) -> bool {
        if self.deadline(key).is_none() {
            return false;
        }
        self.unlink(key.index);
        self.entries.at_mut(key.index).deadline = deadline;
        self.link(key.index);
        true
    }

    /// Removes the first entry if it is due at `now`.
    pub(super) fn expire(&mut self, now: u64) -> Next<T> {
        loop {
            let in_run = self.first_of_run();
            let Some(list) = self.first_list() else {
                let Some((deadline, index)) = in_run else {
                    return Next::Empty;
                };
                return self.expire_of_run(deadline, index, now);
            };
            let List {
                head, first, last, ..
            } = self.exact_if_single(list);
            if let Some((deadline, index)) = in_run
                && deadline <= first
            {
                return self.expire_of_run(deadline, index, now);
            }
            if first > now {
                return Next::Wait(first);
            }
            if first != last {
                if in_run.is_none() && RUN_DIGITS.contains(&(list / VALUES)) {
                    self.gather(list, first);
                } else {
                    self.cascade(list, first);
                }
                continue;
            }
            self.unlink(head);
            // While the list has others they are where they belong only as long as `elapsed` stays.
            if self.lists[list].head == NONE {
                self.elapsed = self.elapsed.max(first);
            }
            if let Some(taken) = self.entries.release(head) {
                return Next::Due(taken);
            }
        }
    }

    /// Removes `index`, the first entry of the run, if its `deadline` is due at `now`.
    #[inline]
    fn expire_of_run(&mut self, deadline: u64, index: u32, now: u64) -> Next<T> {
        if deadline > now {
            return Next::Wait(deadline);
        }
        self.run.take_first();
        match self.entries.release(index) {
            Some(taken) => Next::Due(taken),
            None => Next::Wait(deadline),
        }
    }

    /// Returns the deadline and the index of the first entry that is still in the run; drops the places before it, the
    /// entries of which left the run.
    #[inline]
    fn first_of_run(&mut self) -> Option<(u64, u32)> {
        while let Some(place) = self.run.first() {
            if self.is_in_run(place) {
                return Some((place.deadline, place.index));
            }
            self.run.drop_first();
        }
        None
    }

    /// Returns true if the entry of a place is still in the run.
    #[inline]
    fn is_in_run(&self, place: RunEntry) -> bool {
        let entry = self.entries.get(place.index);
        entry.is_some_and(|entry| {
            entry.list == ListNumber::RUN && entry.generation == place.generation
        })
    }

    /// Moves the entries of the first list into the run, which is empty; no entry is before `first`.
    #[inline(never)]
    fn gather(&mut self, list: usize, first: u64) {
        let List { head, tail, .. } = self.lists[list];
        self.set_empty(list);
        self.elapsed = first;
        let (mut front, mut back) = (head, tail);
        self.run.begin();
        // From both ends, so that the memory of two entries is waited for at a time.
        while front != back {
            let (place, next) = self.move_into_run(front, |entry| entry.next);
            self.run.push_front_half(place);
            front = next;
            if front == back {
                break;
            }
            let (place, previous) = self.move_into_run(back, |entry| entry.previous);
            self.run.push_back_half(place);
            back = previous;
        }
        let (place, _) = self.move_into_run(front, |_| NONE);
        self.run.push_front_half(place);
        self.run.sort();
    }

    #[inline]
    fn move_into_run(
        &mut self,
        index: u32,
        neighbour: impl FnOnce(&Entry<T>) -> u32,
    ) -> (RunEntry, u32) {
        let entry = self.entries.at_mut(index);
        entry.list = ListNumber::RUN;
        let place = RunEntry {
            deadline: entry.deadline,
            index,
            generation: entry.generation,
        };
        (place, neighbour(entry))
    }

    /// Returns the key of the first entry.
    pub(super) fn peek(&self) -> Option<Key> {
        let in_run = self.run.places().find(|place| self.is_in_run(**place));
        let of_run = |place: &RunEntry| self.entries.key(place.index, place.generation);
        let Some(list) = self.first_list() else {
            return in_run.map(of_run);
        };
        let List {
            head, first, last, ..
        } = self.exact_if_single(list);
        let mut best = head;
        let mut index = self.entries.at(head).next;
        while first != last && index != NONE {
            let entry = self.entries.at(index);
            if entry.deadline < self.entries.at(best).deadline {
                best = index;
            }
            index = entry.next;
        }
        let best_deadline = self.entries.at(best).deadline.max(self.elapsed);
        if let Some(place) = in_run
            && place.deadline <= best_deadline
        {
            return Some(of_run(place));
        }
        let generation = self.entries.at(best).generation;
        Some(self.entries.key(best, generation))
    }

    /// Removes all entries and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.digits = 0;
        self.values = [0; DIGITS];
        self.lists.fill(List::EMPTY);
        self.run.begin();
        // Last: a destructor may panic.
        self.entries.clear();
    }

    /// Frees the memory after the last entry in use. No entry moves, because keys are indices.
    pub(super) fn shrink(&mut self) {
        self.entries.shrink();
        self.run.shrink(self.entries.capacity().min(RUN_ROOM));
    }

    fn first_list(&self) -> Option<usize> {
        let digit = self.digits.trailing_zeros() as usize;
        let values = self.values.get(digit)?;
        Some(digit * VALUES + values.trailing_zeros() as usize)
    }

    /// Returns the list. If the list has one entry, its range is exact even after removals.
    fn exact_if_single(&self, list: usize) -> List {
        let mut list = self.lists[list];
        if list.head == list.tail {
            let deadline = self.entries.at(list.head).deadline;
            list.first = deadline.max(self.elapsed);
            list.last = list.first;
        }
        list
    }

    /// Moves the entries of the first list to lists of lower digits; no entry is before `first`.
    fn cascade(&mut self, list: usize, first: u64) {
        let mut index = self.lists[list].head;
        self.set_empty(list);
        self.elapsed = first;
        while index != NONE {
            let next = self.entries.at(index).next;
            self.link(index);
            index = next;
        }
    }

    /// Files all entries anew, in their order, so that the next `now` may be any time.
    pub(super) fn rewind(&mut self) {
        let in_run = self.run.places().filter(|place| self.is_in_run(**place));
        let mut indices: Vec<u32> = in_run.map(|place| place.index).collect();
        while let Some(list) = self.first_list() {
            let mut index = self.lists[list].head;
            while index != NONE {
                indices.push(index);
                index = self.entries.at(index).next;
            }
            self.set_empty(list);
        }
        self.run.begin();
        self.elapsed = 0;
        for index in indices {
            self.link(index);
        }
    }

    /// Puts an entry at the end of the list in which it belongs.
    #[inline]
    fn link(&mut self, index: u32) {
        let deadline = self.entries.at(index).deadline;
        let (list, previous) = self.append(deadline, index);
        let entry = self.entries.at_mut(index);
        entry.list = list;
        entry.previous = previous;
        entry.next = NONE;
        self.link_behind(list, previous, index);
    }

    /// Makes `index` the tail of the list for `deadline`; returns the list and its previous tail. The caller writes
    /// both into the entry, and [links](Self::link_behind) it.
    #[inline]
    fn append(&mut self, deadline: u64, index: u32) -> (ListNumber, u32) {
        // An entry that is late already takes its turn now, behind the others that did.
        let deadline = deadline.max(self.elapsed);
        let differs = (deadline ^ self.elapsed) | 1;
        let digit = differs.ilog2() / BITS;
        let value = (deadline >> (BITS * digit)) & (VALUES as u64 - 1);
        #[expect(clippy::cast_possible_truncation, reason = "less than 704")]
        let list = (digit * VALUES as u32) as u16 | value as u16;
        if self.lists.is_empty() {
            self.allocate_lists();
        }
        let in_list = &mut self.lists[usize::from(list)];
        let tail = std::mem::replace(&mut in_list.tail, index);
        in_list.first = in_list.first.min(deadline);
        in_list.last = in_list.last.max(deadline);
        (ListNumber::new(list), tail)
    }

    #[cold]
    fn allocate_lists(&mut self) {
        self.lists = vec![List::EMPTY; DIGITS * VALUES];
        self.reserve_run();
    }

    /// Links the entry that was [appended](Self::append) to `previous`, the old tail of the list, or to the list if it
    /// was empty.
    #[inline]
    fn link_behind(&mut self, list: ListNumber, previous: u32, index: u32) {
        match self.entries.get_mut(previous) {
            Some(previous) => previous.next = index,
            None => self.link_first(list.index(), index),
        }
    }

    /// Notes the first entry of a list that was empty.
    fn link_first(&mut self, list: usize, index: u32) {
        self.lists[list].head = index;
        let (digit, value) = (list / VALUES, list % VALUES);
        self.digits |= 1 << digit;
        self.values[digit] |= 1 << value;
    }

    /// Removes an entry from its list.
    #[inline]
    fn unlink(&mut self, index: u32) {
        let Entry {
            previous,
            next,
            list,
            ..
        } = *self.entries.at(index);
        if list == ListNumber::RUN {
            // Its place in the run names an entry that is not there, or is in a list, from here on.
            self.run.note_left();
            return;
        }
        let list = list.index();
        match self.entries.get_mut(next) {
            Some(entry) => entry.previous = previous,
            None => self.lists[list].tail = previous,
        }
        match self.entries.get_mut(previous) {
            Some(entry) => entry.next = next,
            None if next == NONE => self.set_empty(list),
            None => self.lists[list].head = next,
        }
    }

    fn set_empty(&mut self, list: usize) {
        self.lists[list] = List::EMPTY;
        let (digit, value) = (list / VALUES, list % VALUES);
        self.values[digit] &= !(1 << value);
        if self.values[digit] == 0 {
            self.digits &= !(1 << digit);
        }
    }

    /// Returns the wheel's time; an earlier deadline counts as this time.
    #[cfg(all(test, not(loom)))]
    pub(super) fn elapsed(&self) -> u64 {
        self.elapsed
    }
}

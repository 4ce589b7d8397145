//! The slab and the radix wheel of a [`DelayQueue`](super::DelayQueue): exact deadlines in lists of indices.
//!
//! Entries lie in one vector; their links are indices, so that an entry may be moved with the vector and none is
//! pinned. That is why the intrusive queues of the core do not serve here: their entries have fixed addresses.
//!
//! An entry is in the list of the highest digit, of six bits, in which its deadline differs from
//! [`elapsed`](Wheel::elapsed), and of the value of that digit. Digits below are ignored until the wheel gets there.
//! Then it moves the entries of the list to lists of lower digits, in their order. So
//!
//! 1. no deadline in a list is before one in a list of a lower digit, or of the same digit and a lower value;
//! 2. entries of equal deadlines are always in one list, in the order in which they were put there.
//!
//! A list knows the range of its deadlines. If all are equal none has to move, whatever the digit: many equal deadlines
//! cost one wake-up and no move. A range may be too wide after a removal, never too narrow: then the wheel wakes its
//! task once for nothing.
//!
//! A list of different deadlines within 2^24 ns does not move down: its entries are gathered, from both of its ends at
//! a time, into a *run*, an array of deadlines and indices that is sorted by digits of eight bits. Expiring goes along
//! it, so that the processor knows which entries come next while it waits for the memory of one, which links do not
//! tell. A list that becomes due before the end of the run, because its entries were put there since, moves down as
//! others do. An entry of the run is newer than none of its deadline in a list. Whatever leaves the run early leaves
//! its place in it, which is passed over.
//!
//! Limits and cost: O(1) to put, take and move an entry; each entry moves at most ten times before it expires, and
//! mostly once or twice. 704 lists in 17 KiB, allocated with the first entry. 24 bytes an entry beside its value, and
//! 32 for each entry of a run, allocated for all entries up to 1,024.
//!
//! It reads no clock: `now` is an argument.

use super::run::{Run, RunEntry};
use super::slab::{Entry, Key, ListNumber, NONE, Slab, Taken};

/// Bits of a digit.
const BITS: u32 = 6;
/// Values of a digit.
const VALUES: usize = 1 << BITS;
/// Digits of a deadline: 64 bits in sixes, rounded up.
const DIGITS: usize = 11;

/// Places of a run for which there is room from the beginning: a queue that is as full as it was allocates nothing,
/// unless more entries than that are due within 2^24 ns.
const RUN_ROOM: usize = 1_024;

/// Digits whose lists become runs, in place of moving down: a list of the last of them spans 2^24 ns, and one of the
/// digits above is too wide for its entries to lie near to each other in memory when they expire.
const RUN_DIGITS: std::ops::Range<usize> = 1..5;

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    /// A lower bound of its deadlines.
    first: u64,
    /// An upper bound of its deadlines.
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
    /// The entry was due and is removed.
    Due(Taken<T>),
    /// No entry is due before this time.
    Wait(u64),
    /// The queue has no entry.
    Empty,
}

/// Entries by deadline.
#[derive(Debug)]
pub(super) struct Wheel<T> {
    entries: Slab<T>,
    /// A lower bound of all deadlines: not after any deadline in a list, and not after the last `now`.
    elapsed: u64,
    /// The digits with a list that is not empty.
    digits: u16,
    /// Values whose list is not empty, for each digit.
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

    /// True if so many more entries than there are have an index.
    pub(super) fn has_indices_for(&self, additional: usize) -> bool {
        self.entries.has_indices_for(additional)
    }

    pub(super) fn reserve(&mut self, additional: usize) {
        self.entries.reserve(additional);
        self.reserve_run();
    }

    /// Makes room in the run for all entries that there is room for, but for no more than [`RUN_ROOM`].
    fn reserve_run(&mut self) {
        self.run.reserve(self.entries.capacity().min(RUN_ROOM));
    }

    /// Makes room for one more entry.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.reserve(1);
    }

    /// Adds `value`, behind all of its deadline.
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

    /// Takes an entry out, unless it is gone.
    pub(super) fn remove(&mut self, key: Key) -> Option<Taken<T>> {
        self.deadline(key)?;
        self.unlink(key.index);
        self.entries.release(key.index)
    }

    /// The deadline of an entry, unless it is gone.
    pub(super) fn deadline(&self, key: Key) -> Option<u64> {
        self.entries.by_key(key).map(|entry| entry.deadline)
    }

    /// Moves an entry behind all of its new deadline. Returns false if it is gone.
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

    /// Returns the deadline and the index of the first entry that is still in the run; drops the places of those in
    /// front that left it.
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

    /// Returns whether the entry of a place in the run is still there.
    #[inline]
    fn is_in_run(&self, place: RunEntry) -> bool {
        let entry = self.entries.get(place.index);
        entry.is_some_and(|entry| {
            entry.list == ListNumber::RUN && entry.generation == place.generation
        })
    }

    /// Moves the entries of the first list into the run, which is empty; none of them is before `first`.
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

    /// The first entry.
    pub(super) fn peek(&self) -> Option<Key> {
        let in_run = self.run.places().find(|place| self.is_in_run(**place));
        let of_run = |place: &RunEntry| Key {
            index: place.index,
            generation: place.generation,
        };
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
        Some(Key {
            index: best,
            generation,
        })
    }

    /// Removes all entries; the room stays.
    pub(super) fn clear(&mut self) {
        self.digits = 0;
        self.values = [0; DIGITS];
        self.lists.fill(List::EMPTY);
        self.run.begin();
        // Last: a destructor may panic.
        self.entries.clear();
    }

    /// Gives back the room behind the last entry in use. No entry moves: keys are indices.
    pub(super) fn shrink(&mut self) {
        self.entries.shrink();
        self.run.shrink(self.entries.capacity().min(RUN_ROOM));
    }

    fn first_list(&self) -> Option<usize> {
        let digit = self.digits.trailing_zeros() as usize;
        let values = self.values.get(digit)?;
        Some(digit * VALUES + values.trailing_zeros() as usize)
    }

    /// The list, and its range without what removals left if there is one entry.
    fn exact_if_single(&self, list: usize) -> List {
        let mut list = self.lists[list];
        if list.head == list.tail {
            let deadline = self.entries.at(list.head).deadline;
            list.first = deadline.max(self.elapsed);
            list.last = list.first;
        }
        list
    }

    /// Moves the entries of the first list to lists of lower digits; none of them is before `first`.
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

    /// Makes `index` the tail of the list for `deadline`: returns the list and the tail of before. The caller writes
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

    /// Lets the list or its old tail, `previous`, name the entry that was [appended](Self::append).
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

    /// Takes an entry out of its list.
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

    /// Returns the wheel's time: an earlier deadline counts as this one.
    #[cfg(all(test, not(loom)))]
    pub(super) fn elapsed(&self) -> u64 {
        self.elapsed
    }
}

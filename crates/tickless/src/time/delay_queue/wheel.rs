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
//! Limits and cost: O(1) to put, take and move an entry; each entry moves at most ten times before it expires, and
//! mostly two or three times. 704 lists in 17 KiB, allocated with the first entry. 24 bytes an entry beside its value.
//!
//! It reads no clock: `now` is an argument.

use super::Key;

/// Bits of a digit.
const BITS: u32 = 6;
/// Values of a digit.
const VALUES: usize = 1 << BITS;
/// Digits of a deadline: 64 bits in sixes, rounded up.
const DIGITS: usize = 11;

/// The end of a list. No entry has this index.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Entry<T> {
    deadline: u64,
    previous: u32,
    /// The next one of its list, or the next vacant one.
    next: u32,
    generation: u32,
    list: u16,
    /// None if it is vacant.
    value: Option<T>,
}

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    /// No deadline of it is earlier.
    first: u64,
    /// No deadline of it is later.
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

/// An entry that left the wheel.
#[derive(Debug)]
pub(super) struct Taken<T> {
    pub(super) key: Key,
    pub(super) deadline: u64,
    pub(super) value: T,
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
    entries: Vec<Entry<T>>,
    len: usize,
    vacant: u32,
    /// The generation of the next entry: counted for the queue, so that it survives entries that are given back.
    generation: u32,
    /// No entry counts as earlier: not after any deadline in a list, and not after the last `now`.
    elapsed: u64,
    /// The digits with a list that is not empty.
    digits: u16,
    /// Values whose list is not empty, for each digit.
    values: [u64; DIGITS],
    lists: Vec<List>,
}

impl<T> Wheel<T> {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self {
            entries: Vec::with_capacity(capacity),
            len: 0,
            vacant: NONE,
            generation: 0,
            elapsed: 0,
            digits: 0,
            values: [0; DIGITS],
            lists: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// True if so many more entries than there are have an index.
    pub(super) fn has_indices_for(&self, additional: usize) -> bool {
        let total = self.len.checked_add(additional);
        total.is_some_and(|total| total < NONE as usize)
    }

    pub(super) fn reserve(&mut self, additional: usize) {
        let vacant = self.entries.len() - self.len;
        self.entries.reserve(additional.saturating_sub(vacant));
    }

    /// Adds `value`, behind all of its deadline. [`has_indices_for`](Self::has_indices_for) one more MUST hold.
    pub(super) fn insert(&mut self, deadline: u64, value: T) -> Key {
        if self.lists.is_empty() {
            self.lists = vec![List::EMPTY; DIGITS * VALUES];
        }
        let generation = self.generation;
        self.generation = generation.wrapping_add(1);
        let index = self.vacant;
        let index = if let Some(entry) = self.entries.get_mut(index as usize) {
            self.vacant = entry.next;
            entry.deadline = deadline;
            entry.generation = generation;
            entry.value = Some(value);
            index
        } else {
            let index = u32::try_from(self.entries.len()).unwrap_or(NONE);
            assert!(index < NONE, "an entry without an index");
            self.entries.push(Entry {
                deadline,
                previous: NONE,
                next: NONE,
                generation,
                list: 0,
                value: Some(value),
            });
            index
        };
        self.len += 1;
        self.link(index);
        Key { index, generation }
    }

    /// Takes an entry out, unless it is gone.
    pub(super) fn remove(&mut self, key: Key) -> Option<Taken<T>> {
        self.deadline(key)?;
        self.unlink(key.index);
        self.release(key.index)
    }

    /// The deadline of an entry, unless it is gone.
    pub(super) fn deadline(&self, key: Key) -> Option<u64> {
        let entry = self.entries.get(key.index as usize)?;
        let is_it = entry.value.is_some() && entry.generation == key.generation;
        is_it.then_some(entry.deadline)
    }

    /// Moves an entry behind all of its new deadline. Returns false if it is gone.
    pub(super) fn reset(&mut self, key: Key, deadline: u64) -> bool {
        if self.deadline(key).is_none() {
            return false;
        }
        self.unlink(key.index);
        self.entries[key.index as usize].deadline = deadline;
        self.link(key.index);
        true
    }

    /// Removes the first entry if it is due at `now`.
    pub(super) fn expire(&mut self, now: u64) -> Next<T> {
        while let Some(list) = self.first_list() {
            let List {
                head, first, last, ..
            } = self.exact_if_single(list);
            if first > now {
                return Next::Wait(first);
            }
            if first != last {
                self.cascade(list, first);
                continue;
            }
            self.unlink(head);
            // While the list has others they are where they belong only as long as `elapsed` stays.
            if self.lists[list].head == NONE {
                self.elapsed = self.elapsed.max(first);
            }
            if let Some(taken) = self.release(head) {
                return Next::Due(taken);
            }
        }
        Next::Empty
    }

    /// The first entry.
    pub(super) fn peek(&self) -> Option<Key> {
        let list = self.first_list()?;
        let List {
            head, first, last, ..
        } = self.exact_if_single(list);
        let mut best = head;
        let mut index = self.entries[head as usize].next;
        while first != last && index != NONE {
            let entry = &self.entries[index as usize];
            if entry.deadline < self.entries[best as usize].deadline {
                best = index;
            }
            index = entry.next;
        }
        let generation = self.entries[best as usize].generation;
        Some(Key {
            index: best,
            generation,
        })
    }

    /// Removes all entries; the room stays.
    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.vacant = NONE;
        self.digits = 0;
        self.values = [0; DIGITS];
        self.lists.fill(List::EMPTY);
        // Last: a destructor may panic.
        self.entries.clear();
    }

    /// Gives back the room behind the last entry in use. No entry moves: keys are indices.
    pub(super) fn shrink(&mut self) {
        let is_vacant = |entry: &Entry<T>| entry.value.is_none();
        let mut shorter = false;
        while self.entries.last().is_some_and(is_vacant) {
            self.entries.pop();
            shorter = true;
        }
        if shorter {
            self.vacant = NONE;
            for (index, entry) in (0..).zip(&mut self.entries) {
                if entry.value.is_none() {
                    entry.next = self.vacant;
                    self.vacant = index;
                }
            }
        }
        self.entries.shrink_to_fit();
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
            let deadline = self.entries[list.head as usize].deadline;
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
            let next = self.entries[index as usize].next;
            self.link(index);
            index = next;
        }
    }

    /// Puts an entry at the end of the list in which it belongs.
    #[inline]
    fn link(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        // An entry that is late already takes its turn now, behind the others that did.
        let deadline = entry.deadline.max(self.elapsed);
        let differs = (deadline ^ self.elapsed) | 1;
        let digit = (differs.ilog2() / BITS) as usize;
        let value = (deadline >> (BITS as usize * digit)) & (VALUES as u64 - 1);
        #[expect(clippy::cast_possible_truncation, reason = "less than 704")]
        let list = (digit * VALUES) as u16 | value as u16;
        self.digits |= 1 << digit;
        self.values[digit] |= 1 << value;
        let in_list = &mut self.lists[usize::from(list)];
        let tail = in_list.tail;
        entry.list = list;
        entry.previous = tail;
        entry.next = NONE;
        in_list.tail = index;
        in_list.first = in_list.first.min(deadline);
        in_list.last = in_list.last.max(deadline);
        match self.entries.get_mut(tail as usize) {
            Some(tail) => tail.next = index,
            None => in_list.head = index,
        }
    }

    /// Takes an entry out of its list.
    #[inline]
    fn unlink(&mut self, index: u32) {
        let Entry {
            previous,
            next,
            list,
            ..
        } = self.entries[index as usize];
        let list = usize::from(list);
        match self.entries.get_mut(next as usize) {
            Some(entry) => entry.previous = previous,
            None => self.lists[list].tail = previous,
        }
        match self.entries.get_mut(previous as usize) {
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

    /// Makes an entry that is in no list vacant.
    #[inline]
    fn release(&mut self, index: u32) -> Option<Taken<T>> {
        let entry = &mut self.entries[index as usize];
        let value = entry.value.take()?;
        let generation = entry.generation;
        entry.next = self.vacant;
        self.vacant = index;
        self.len -= 1;
        Some(Taken {
            key: Key { index, generation },
            deadline: entry.deadline,
            value,
        })
    }

    /// Returns the wheel's time: an earlier deadline counts as this one.
    #[cfg(all(test, not(loom)))]
    pub(super) fn elapsed(&self) -> u64 {
        self.elapsed
    }
}

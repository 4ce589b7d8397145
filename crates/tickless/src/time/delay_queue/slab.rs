//! The entries of a [`Wheel`](super::wheel::Wheel), in one vector: links are indices, and the place of a removed entry
//! is used again.

use std::num::NonZeroU16;
use std::sync::atomic::{AtomicU32, Ordering};

/// No entry has this index.
pub(super) const NONE: u32 = u32::MAX;

/// The number of the list in which an entry is, or the number of the run.
///
/// The number is never zero: zero marks a vacant place of the vector, so that a place takes no more memory than an
/// entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListNumber(NonZeroU16);

impl ListNumber {
    /// The number of the run.
    pub(super) const RUN: Self = Self(NonZeroU16::MAX);

    /// Makes the number of a list; there are fewer than 2^15 - 1 lists.
    #[inline]
    pub(super) fn new(list: u16) -> Self {
        Self(NonZeroU16::MIN | (list << 1))
    }

    #[inline]
    pub(super) fn index(self) -> usize {
        usize::from(self.0.get() >> 1)
    }
}

/// The name of a value in the [`DelayQueue`](super::DelayQueue) that returned it. Every other queue refuses the key, as
/// the key of a value that it does not contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The number of the queue.
    queue: u32,
    pub(super) index: u32,
    pub(super) generation: u32,
}

#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) deadline: u64,
    pub(super) previous: u32,
    pub(super) next: u32,
    pub(super) generation: u32,
    pub(super) list: ListNumber,
    value: T,
}

/// A place in the vector.
#[derive(Debug)]
enum SlabPlace<T> {
    Vacant {
        /// The index of the next vacant place.
        next: u32,
    },
    Taken(Entry<T>),
}

/// An entry that left its queue.
#[derive(Debug)]
pub(super) struct Taken<T> {
    pub(super) key: Key,
    pub(super) deadline: u64,
    pub(super) value: T,
}

/// The entries of a wheel, by index.
#[derive(Debug)]
pub(super) struct Slab<T> {
    /// The number of the queue, which the queues of a process share only after 2^32 others.
    queue: u32,
    slots: Vec<SlabPlace<T>>,
    len: usize,
    vacant: u32,
    /// The generation of the next entry. It is counted for the whole queue, so that it survives places that are freed.
    generation: u32,
}

impl<T> Slab<T> {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        static QUEUES: AtomicU32 = AtomicU32::new(0);
        Self {
            // Relaxed: a count, whose values differ because each addition is atomic.
            queue: QUEUES.fetch_add(1, Ordering::Relaxed),
            slots: Vec::with_capacity(capacity),
            len: 0,
            vacant: NONE,
            generation: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Returns true if `additional` more entries can have an index.
    pub(super) fn has_indices_for(&self, additional: usize) -> bool {
        let total = self.len.checked_add(additional);
        total.is_some_and(|total| total < NONE as usize)
    }

    pub(super) fn reserve(&mut self, additional: usize) {
        let vacant = self.slots.len() - self.len;
        self.slots.reserve(additional.saturating_sub(vacant));
    }

    /// Returns true if the vector has no memory for the next entry yet.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.vacant == NONE && self.slots.len() == self.slots.capacity()
    }

    /// Returns the index of the next entry; the caller reserves memory for this entry if the slab [is
    /// full](Self::is_full).
    ///
    /// # Panics
    ///
    /// If no index is left.
    #[inline]
    #[track_caller]
    pub(super) fn next_index(&mut self) -> u32 {
        if self.vacant != NONE {
            return self.vacant;
        }
        let index = u32::try_from(self.slots.len()).unwrap_or(NONE);
        assert!(index < NONE, "max queue capacity exceeded");
        index
    }

    /// Puts an entry at `index`, which is the [next index](Self::next_index), as the last entry of its list.
    #[inline]
    pub(super) fn put(
        &mut self,
        index: u32,
        (deadline, value): (u64, T),
        (list, previous): (ListNumber, u32),
    ) -> Key {
        let generation = self.generation;
        self.generation = generation.wrapping_add(1);
        self.len += 1;
        let entry = SlabPlace::Taken(Entry {
            deadline,
            previous,
            next: NONE,
            generation,
            list,
            value,
        });
        if let Some(slot) = self.slots.get_mut(index as usize) {
            if let SlabPlace::Vacant { next } = *slot {
                self.vacant = next;
            }
            *slot = entry;
        } else {
            self.slots.push(entry);
        }
        self.key(index, generation)
    }

    /// Returns the key of an entry.
    #[inline]
    pub(super) const fn key(&self, index: u32, generation: u32) -> Key {
        Key {
            queue: self.queue,
            index,
            generation,
        }
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&Entry<T>> {
        match self.slots.get(index as usize) {
            Some(SlabPlace::Taken(entry)) => Some(entry),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Entry<T>> {
        match self.slots.get_mut(index as usize) {
            Some(SlabPlace::Taken(entry)) => Some(entry),
            _ => None,
        }
    }

    /// Returns the entry that a link names.
    #[inline]
    pub(super) fn at(&self, index: u32) -> &Entry<T> {
        self.get(index).expect("links name entries")
    }

    /// Returns the entry that a link names.
    #[inline]
    pub(super) fn at_mut(&mut self, index: u32) -> &mut Entry<T> {
        self.get_mut(index).expect("links name entries")
    }

    /// Returns the entry that `key` names, or `None` if it was removed or belongs to another queue.
    #[inline]
    pub(super) fn by_key(&self, key: Key) -> Option<&Entry<T>> {
        let entry = self.get(key.index)?;
        (key == self.key(key.index, entry.generation)).then_some(entry)
    }

    /// Removes an entry that is in no list.
    #[inline]
    pub(super) fn release(&mut self, index: u32) -> Option<Taken<T>> {
        let slot = self.slots.get_mut(index as usize)?;
        if let SlabPlace::Vacant { .. } = slot {
            return None;
        }
        let vacant = SlabPlace::Vacant { next: self.vacant };
        let SlabPlace::Taken(entry) = std::mem::replace(slot, vacant) else {
            return None;
        };
        self.vacant = index;
        self.len -= 1;
        let generation = entry.generation;
        Some(Taken {
            key: self.key(index, generation),
            deadline: entry.deadline,
            value: entry.value,
        })
    }

    /// Drops all entries and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.vacant = NONE;
        // Last: a destructor may panic.
        self.slots.clear();
    }

    /// Frees the memory after the last entry. No entry moves, because keys are indices.
    pub(super) fn shrink(&mut self) {
        let mut shorter = false;
        while let Some(SlabPlace::Vacant { .. }) = self.slots.last() {
            self.slots.pop();
            shorter = true;
        }
        if shorter {
            self.vacant = NONE;
            for (index, slot) in (0..).zip(&mut self.slots) {
                if let SlabPlace::Vacant { next } = slot {
                    *next = std::mem::replace(&mut self.vacant, index);
                }
            }
        }
        self.slots.shrink_to_fit();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_entry_takes_24_bytes_beside_its_value() {
        assert_eq!(size_of::<SlabPlace<u64>>(), 32);
        assert_eq!(size_of::<SlabPlace<[u64; 4]>>(), 56);
    }

    #[test]
    fn numbers_of_lists_are_told_apart_from_the_run() {
        for list in [0, 1, 703] {
            let number = ListNumber::new(list);
            assert_eq!(number.index(), usize::from(list));
            assert_ne!(number, ListNumber::RUN);
        }
    }
}

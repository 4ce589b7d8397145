//! The sorted queues of a CPU, one for each clock and stage.

use core::ops::{Index, IndexMut};

use tickless_link::entry::EntryRef;
use tickless_link::id::Key;
use tickless_link::tree::Tree;

use crate::clock::Offsets;
use crate::exact::family::Hr;
use crate::time::{Clock, Deadline, Instant, Offset};

/// The number of sorted queues of a base: four clocks, hard and soft (spec Q-15).
pub(crate) const QUEUES: usize = 8;

/// The bits of the hard queues in an active mask.
pub(crate) const HARD: u8 = 0x0F;

/// The bits of the soft queues in an active mask.
pub(crate) const SOFT: u8 = 0xF0;

/// The sorted queue of a base for one clock and one stage.
#[derive(Debug)]
pub(crate) struct ClockBase {
    pub(crate) tree: Tree<Hr>,
    /// The first key in the tree, `FOREVER` when the tree is empty (INV-6). With this copy a search for the next event
    /// of a CPU touches no timer's memory (spec Q-7). The key equals the first deadline, with two exceptions. The key
    /// is earlier while many timers wait to be requeued. The key is later if the first timer was restarted into the
    /// past.
    pub(crate) first_deadline: Deadline,
    /// Copy of the offset of the clock, as of the base's last refresh (spec TIM-8).
    pub(crate) offset: Offset,
}

/// The maximum number of timers that one operation requeues. It bounds the time for which the lock is held.
pub(crate) const REFILES_MAX: u32 = 16;

/// Iterates over the numbers of the bits that are set in a mask at the call, lowest first (spec Q-14).
#[inline]
pub(crate) fn bits(mut mask: u8) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        (mask != 0).then(|| {
            let index = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            index
        })
    })
}

/// The sorted queues of a CPU: four clocks, hard and soft.
#[derive(Debug)]
pub(crate) struct ExactQueues {
    queues: [ClockBase; QUEUES],
    /// Bit i is set exactly while queue i is not empty (spec Q-9).
    pub(crate) active: u8,
}

impl ExactQueues {
    /// Makes empty queues. `key` makes their identities, in the order of their numbers.
    pub(crate) fn new(mut key: impl FnMut() -> Key) -> Self {
        Self {
            queues: core::array::from_fn(|_| ClockBase {
                tree: Tree::new(key()),
                first_deadline: Deadline::FOREVER,
                offset: Offset::NONE,
            }),
            active: 0,
        }
    }

    /// Iterates over the queues, in the order of their numbers.
    pub(crate) fn iter(&self) -> core::slice::Iter<'_, ClockBase> {
        self.queues.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> core::slice::IterMut<'_, ClockBase> {
        self.queues.iter_mut()
    }

    pub(crate) fn pending(&self) -> usize {
        self.iter().map(|queue| queue.tree.len()).sum()
    }

    /// Updates the cached first deadline of a queue, and its active bit, after a timer was inserted into the queue.
    #[inline]
    pub(crate) fn after_insertion(&mut self, index: usize, is_first: bool, deadline: Deadline) {
        self.active |= 1 << index;
        if is_first {
            self.queues[index].first_deadline = deadline;
        }
    }

    /// Returns the time of the next event among the queues of `mask`, and the address of its timer. The time may be
    /// negative (spec ).
    #[inline]
    pub(crate) fn minimum(&self, mask: u8) -> (Instant, usize) {
        let mut best = Instant::FOREVER;
        let mut who = 0;
        for index in bits(self.active & mask) {
            let queue = &self.queues[index];
            let event = queue.offset.to_monotonic(queue.first_deadline);
            if event < best {
                best = event;
                who = queue.tree.first().map_or(0, EntryRef::address);
            }
        }
        (best, who)
    }

    /// Returns the slack, in nanoseconds, of the timer at the address `who`, if this timer is the first of one of the
    /// queues of `mask` and its key is its deadline. Returns 0 otherwise.
    #[inline]
    pub(crate) fn slack_of_first(&self, mask: u8, who: usize) -> u32 {
        let mut slack = 0;
        for index in bits(self.active & mask) {
            let tree = &self.queues[index].tree;
            if tree.first().is_some_and(|first| first.address() == who) {
                tree.for_each(0, |_, filed, head| {
                    if filed == head.deadline() {
                        slack = head.slack();
                    }
                    false
                });
            }
        }
        slack
    }

    /// Returns the minimum as [`minimum`](Self::minimum) does, without the timer at the address `excluded`.
    pub(crate) fn minimum_without(&self, mask: u8, excluded: usize) -> Instant {
        let mut best = Instant::FOREVER;
        for index in bits(self.active & mask) {
            let queue = &self.queues[index];
            // The cached first is not later than what is behind it, so it rejects the whole queue (spec Q-24).
            let event = queue.offset.to_monotonic(queue.first_deadline);
            if event >= best {
                continue;
            }
            if queue.tree.first().map(EntryRef::<'_, Hr>::address) != Some(excluded) {
                best = event;
            } else {
                // Those behind it may be enqueued earlier than they are due, so all count that are enqueued before the best.
                queue.tree.for_each(1, |_, filed, head| {
                    if queue.offset.to_monotonic(filed) >= best {
                        return false;
                    }
                    let due = if filed == Deadline::CLOCK_SET {
                        filed
                    } else {
                        // Or enqueued late: restarted into the past.
                        head.deadline().max(filed)
                    };
                    best = best.min(queue.offset.to_monotonic(due));
                    true
                });
            }
        }
        best
    }

    /// Copies new offsets into all queues of their clocks, hard and soft alike (spec TIM-8).
    pub(crate) fn adopt(&mut self, offsets: &Offsets) {
        for (index, queue) in self.queues.iter_mut().enumerate() {
            queue.offset = offsets.of(Clock::ALL[index % 4]);
        }
    }
}

impl Index<usize> for ExactQueues {
    type Output = ClockBase;
    #[inline]
    fn index(&self, index: usize) -> &ClockBase {
        &self.queues[index]
    }
}

impl IndexMut<usize> for ExactQueues {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut ClockBase {
        &mut self.queues[index]
    }
}

//! Simple queues as a programmer writes them in an afternoon, and the queue of `tokio-util`. Their deadlines are
//! instants of the standard library.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tickless::time as our_queue;
use tokio_util::time as tokio_queue;

use super::tickless::on_a_worker;
use super::tokio_time::entered;
use crate::subject::Subject;

/// Implements the part that all these subjects share.
macro_rules! on_the_clock_of_std {
    () => {
        on_a_clock!(Instant);

        #[inline]
        fn arm_and_cancel(&mut self, deadline: Instant) -> bool {
            let slot = self.last();
            self.arm(slot, deadline) & self.cancel(slot)
        }
    };
}

/// A `BTreeMap<(Instant, id)>`, with the deadline of each slot.
#[derive(Debug)]
pub(crate) struct Map {
    queue: BTreeMap<(Instant, u32), ()>,
    deadlines: Vec<Option<Instant>>,
    fired: u64,
}

impl Map {
    fn last(&self) -> usize {
        self.deadlines.len() - 1
    }
}

impl Subject for Map {
    on_the_clock_of_std!();

    fn new((): &(), slots: usize, _counts: bool) -> Self {
        Self {
            queue: BTreeMap::new(),
            deadlines: vec![None; slots + 1],
            fired: 0,
        }
    }

    #[inline]
    fn arm(&mut self, slot: usize, deadline: Instant) -> bool {
        self.deadlines[slot] = Some(deadline);
        self.queue.insert((deadline, number(slot)), ()).is_none()
    }

    #[inline]
    fn cancel(&mut self, slot: usize) -> bool {
        let deadline = self.deadlines[slot].take();
        deadline.is_some_and(|deadline| self.queue.remove(&(deadline, number(slot))).is_some())
    }

    #[inline]
    fn push_out(&mut self, slot: usize, deadline: Instant) {
        self.cancel(slot);
        self.arm(slot, deadline);
    }

    fn is_armed(&mut self, slot: usize) -> bool {
        self.deadlines[slot].is_some()
    }

    fn fire(&mut self, (): &()) -> u64 {
        let now = Instant::now();
        while let Some(first) = self.queue.first_entry() {
            let (deadline, slot) = *first.key();
            if deadline > now {
                break;
            }
            first.remove();
            self.deadlines[slot as usize] = None;
            self.fired += 1;
        }
        self.fired
    }
}

#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "there are fewer slots than that (MOST_PENDING)"
)]
const fn number(slot: usize) -> u32 {
    slot as u32
}

/// The number of entries without a timer above which a heap is rebuilt.
///
/// With a smaller number the heap would be rebuilt all the time while few timers are pending.
const FEW_STALE: usize = 1_024;

/// A timer of a heap. An entry of the heap belongs to the timer while the timer is armed and has the generation of the
/// entry.
#[derive(Clone, Copy, Debug)]
struct HeapSlot {
    deadline: Instant,
    generation: u32,
    is_armed: bool,
}

type Entry = Reverse<(Instant, u32, u32)>;

/// A binary heap in which the entries of cancelled timers stay until they reach the top, or until half of the entries
/// are stale. With `EXTENDS`, a push-out only stores the new deadline; the timer is enqueued for it when its old entry
/// reaches the top.
#[derive(Debug)]
pub(crate) struct Heap<const EXTENDS: bool> {
    queue: BinaryHeap<Entry>,
    slots: Vec<HeapSlot>,
    armed: usize,
    fired: u64,
}

impl<const EXTENDS: bool> Heap<EXTENDS> {
    fn last(&self) -> usize {
        self.slots.len() - 1
    }

    #[inline]
    fn shrink(&mut self) {
        if self.queue.len() > 2 * self.armed + FEW_STALE {
            self.build_again();
        }
    }

    #[cold]
    fn build_again(&mut self) {
        let slots = &self.slots;
        self.queue.retain(|Reverse((_, slot, generation))| {
            let slot = &slots[*slot as usize];
            slot.is_armed && slot.generation == *generation
        });
    }
}

impl<const EXTENDS: bool> Subject for Heap<EXTENDS> {
    on_the_clock_of_std!();

    fn new((): &(), slots: usize, _counts: bool) -> Self {
        let empty = HeapSlot {
            deadline: Instant::now(),
            generation: 0,
            is_armed: false,
        };
        Self {
            queue: BinaryHeap::new(),
            slots: vec![empty; slots + 1],
            armed: 0,
            fired: 0,
        }
    }

    #[inline]
    fn arm(&mut self, slot: usize, deadline: Instant) -> bool {
        let timer = &mut self.slots[slot];
        timer.deadline = deadline;
        timer.generation = timer.generation.wrapping_add(1);
        self.armed += usize::from(!timer.is_armed);
        timer.is_armed = true;
        self.queue
            .push(Reverse((deadline, number(slot), timer.generation)));
        true
    }

    #[inline]
    fn cancel(&mut self, slot: usize) -> bool {
        let was_armed = std::mem::replace(&mut self.slots[slot].is_armed, false);
        self.armed -= usize::from(was_armed);
        self.shrink();
        was_armed
    }

    #[inline]
    fn push_out(&mut self, slot: usize, deadline: Instant) {
        let timer = &mut self.slots[slot];
        if EXTENDS && timer.is_armed && deadline >= timer.deadline {
            timer.deadline = deadline;
            return;
        }
        self.arm(slot, deadline);
        self.shrink();
    }

    fn is_armed(&mut self, slot: usize) -> bool {
        self.slots[slot].is_armed
    }

    fn fire(&mut self, (): &()) -> u64 {
        let now = Instant::now();
        while let Some(&Reverse((filed, number, generation))) = self.queue.peek() {
            if filed > now {
                break;
            }
            self.queue.pop();
            let timer = &mut self.slots[number as usize];
            if !timer.is_armed || timer.generation != generation {
                continue;
            }
            if timer.deadline > now {
                self.queue
                    .push(Reverse((timer.deadline, number, generation)));
                continue;
            }
            timer.is_armed = false;
            self.armed -= 1;
            self.fired += 1;
        }
        self.fired
    }
}

/// Makes a subject of a `DelayQueue`, ours or that of `tokio-util`, which have the same methods.
macro_rules! delay_queue {
    ($name:ident, $library:ident, $instant:ty, $within:ident) => {
        #[derive(Debug)]
        pub(crate) struct $name {
            queue: $library::DelayQueue<u32>,
            keys: Vec<Option<$library::delay_queue::Key>>,
            fired: u64,
        }

        impl Subject for $name {
            type Time = $instant;
            type Environment = ();

            fn within<R>(body: impl FnOnce(&()) -> R) -> R {
                $within(|| body(&()))
            }

            fn new((): &(), slots: usize, _counts: bool) -> Self {
                Self {
                    queue: $library::DelayQueue::new(),
                    keys: std::iter::repeat_with(|| None).take(slots + 1).collect(),
                    fired: 0,
                }
            }

            #[inline]
            fn now(&mut self) -> Self::Time {
                <$instant>::now()
            }

            #[inline]
            fn later(time: Self::Time, nanos: u64) -> Self::Time {
                time + Duration::from_nanos(nanos)
            }

            #[inline]
            fn arm(&mut self, slot: usize, deadline: Self::Time) -> bool {
                self.keys[slot] = Some(self.queue.insert_at(number(slot), deadline));
                true
            }

            #[inline]
            fn cancel(&mut self, slot: usize) -> bool {
                let key = self.keys[slot].take();
                key.is_some_and(|key| self.queue.try_remove(&key).is_some())
            }

            #[inline]
            fn push_out(&mut self, slot: usize, deadline: Self::Time) {
                if let Some(key) = &self.keys[slot] {
                    self.queue.reset_at(key, deadline);
                }
            }

            #[inline]
            fn arm_and_cancel(&mut self, deadline: Self::Time) -> bool {
                let slot = self.keys.len() - 1;
                self.arm(slot, deadline) & self.cancel(slot)
            }

            fn is_armed(&mut self, slot: usize) -> bool {
                self.keys[slot].is_some()
            }

            fn fire(&mut self, (): &()) -> u64 {
                let mut context = Context::from_waker(Waker::noop());
                while let Poll::Ready(Some(expired)) = self.queue.poll_expired(&mut context) {
                    self.keys[expired.into_inner() as usize] = None;
                    self.fired += 1;
                }
                self.fired
            }
        }
    };
}

// In a runtime with no other user.
delay_queue!(Delayed, tokio_queue, tokio::time::Instant, entered);
delay_queue!(OnWorker, our_queue, tickless::time::Instant, on_a_worker);

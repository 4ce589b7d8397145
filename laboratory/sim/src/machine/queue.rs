//! The queue of the simulator's events, in the order of time, and at equal times in the order in which they were
//! requested.
//!
//! The events of the next milliseconds are put by time into unsorted buckets; a bucket is sorted when its turn comes.
//! Each event is therefore touched twice, however many events there are. A heap holds only the events that are further
//! away.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::model::time::Picos;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum EventKind {
    /// The event device of a CPU may fire.
    Device,
    /// An inter-processor interrupt: the CPU checks its timers.
    Kick,
    /// An inter-processor interrupt: the CPU checks its run queue.
    Reschedule,
    /// An inter-processor interrupt: the CPU leaves idle, and enters it again.
    Activate,
    /// An inter-processor interrupt: the CPU runs the soft stage.
    Poke,
    /// The task of a CPU has run for as long as it wanted.
    Segment,
    /// An input from outside arrives for a task.
    Arrival,
    /// The checkers inspect the whole machine.
    Sample,
    /// A change of the clocks takes effect.
    Clock,
    /// A fault of the clocks happens that had to wait for another one.
    ClockFault,
    /// A CPU notifies the timers that the time of day was set.
    ClockSet,
    /// An occurrence of a fault: the CPU that the fault hits is picked.
    Plan,
    /// A fault hits a CPU.
    Fault,
    /// A timer interrupt comes for which the CPU did not program its device.
    Spurious,
    /// A CPU that was taken offline comes back.
    Return,
    /// The device that wakes CPUs whose own device has stopped may fire.
    Broadcast,
    /// An inter-processor interrupt in place of the interrupt of the CPU's own device, which has stopped.
    Called,
    /// A CPU whose interrupt lasted past the end of a tick continues from there.
    Continue,
    /// The task of a CPU leaves the critical section for which its slice was extended.
    SectionEnd,
}

impl EventKind {
    /// Returns the name of an interrupt.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Device => "timer",
            Self::Kick => "kick",
            Self::Reschedule => "reschedule",
            Self::Activate => "activate",
            Self::Poke => "poke",
            Self::Arrival => "arrival",
            Self::Spurious => "spurious",
            Self::Fault => "fault",
            Self::ClockSet => "clock-set",
            Self::Broadcast => "broadcast",
            Self::Called => "call",
            // The rest are no interrupts.
            _ => "none",
        }
    }
}

/// A pending event of the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SimEvent {
    pub(crate) at: Picos,
    pub(crate) cpu: u32,
    /// The argument of the event: the generation of a [`Segment`](EventKind::Segment), the extension of a
    /// [`SectionEnd`](EventKind::SectionEnd), the task of an [`Arrival`](EventKind::Arrival), the fault of a
    /// [`Plan`](EventKind::Plan), [`Clock`](EventKind::Clock), [`ClockFault`](EventKind::ClockFault) or
    /// [`Fault`](EventKind::Fault), and for a [`Spurious`](EventKind::Spurious) whether the interrupt replaces a lost
    /// one.
    pub(crate) argument: u32,
    pub(crate) kind: EventKind,
}

/// The time that all buckets cover, as a power of two of picoseconds: 4.3 ms, some ticks.
const REACH: u32 = 32;
/// The largest number of buckets: more buckets would not stay in a cache.
const BUCKETS_MAX: usize = 4_096;
const WORD: usize = 64;

/// An event beyond the buckets. The number orders events at equal times by when they were requested.
type Far = Reverse<(Picos, u64, SimEvent)>;

#[derive(Debug)]
pub(crate) struct EventQueue {
    /// The events of the current bucket and of everything before it, sorted; those before `taken` are over.
    near: Vec<SimEvent>,
    taken: usize,
    /// The number of the current bucket. Buckets are numbered through all of time.
    turn: u64,
    /// The time that a bucket covers, as a power of two of picoseconds.
    width: u32,
    /// The buckets after the current one, by the last digits of their numbers.
    buckets: Vec<Vec<SimEvent>>,
    /// A bit for each bucket that is not empty.
    occupied: Vec<u64>,
    far: BinaryHeap<Far>,
    sequence: u64,
}

impl EventQueue {
    /// Makes an empty queue for a machine of so many CPUs.
    pub(crate) fn new(cpus: usize) -> Self {
        // About a tick is between two events of a kind on a CPU: a few events come to a bucket.
        let count = (cpus * 8).next_power_of_two().clamp(WORD, BUCKETS_MAX);
        Self {
            near: Vec::new(),
            taken: 0,
            turn: 0,
            width: REACH - count.ilog2(),
            buckets: vec![Vec::new(); count],
            occupied: vec![0; count / WORD],
            far: BinaryHeap::new(),
            sequence: 0,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, at: Picos, kind: EventKind, cpu: u32, argument: u32) {
        let event = SimEvent {
            at,
            cpu,
            argument,
            kind,
        };
        let number = at.0 >> self.width;
        if number <= self.turn {
            // Behind those of the same time, which were asked for before.
            let rest = &self.near[self.taken..];
            let place = self.taken + rest.partition_point(|other| other.at <= at);
            self.near.insert(place, event);
        } else if number - self.turn < self.buckets.len() as u64 {
            let index = self.index(number);
            self.buckets[index].push(event);
            self.occupied[index / WORD] |= 1 << (index % WORD);
        } else {
            self.sequence += 1;
            self.far.push(Reverse((at, self.sequence, event)));
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<SimEvent> {
        if self.taken == self.near.len() && !self.advance() {
            return None;
        }
        let event = self.near[self.taken];
        self.taken += 1;
        Some(event)
    }

    #[inline]
    fn index(&self, number: u64) -> usize {
        // Lossless: the number of buckets is a power of two.
        usize::try_from(number & (self.buckets.len() as u64 - 1)).unwrap_or(0)
    }

    /// Makes the next bucket that is not empty the current one. Returns `false` if all are empty.
    fn advance(&mut self) -> bool {
        self.near.clear();
        self.taken = 0;
        let far = self.far.peek();
        let far = far.map(|Reverse((at, ..))| at.0 >> self.width);
        let bucket = self.next_bucket();
        let Some(turn) = far.into_iter().chain(bucket).min() else {
            return false;
        };
        self.turn = turn;
        // Events in the heap were asked for while the bucket was too far away: before all that are in the bucket.
        while let Some(Reverse((at, _, event))) = self.far.peek() {
            if at.0 >> self.width > turn {
                break;
            }
            self.near.push(*event);
            self.far.pop();
        }
        if bucket == Some(turn) {
            let index = self.index(turn);
            self.near.append(&mut self.buckets[index]);
            self.occupied[index / WORD] &= !(1 << (index % WORD));
        }
        // Stable: equal times stay in the order of asking.
        self.near.sort_by_key(|event| event.at);
        true
    }

    /// Returns the number of the next bucket that is not empty.
    fn next_bucket(&self) -> Option<u64> {
        let words = self.occupied.len();
        let first = self.index(self.turn + 1);
        // The word of the first one twice: what is in it before that one comes last.
        (0..=words).find_map(|step| {
            let word = (first / WORD + step) % words;
            let mut bits = self.occupied[word];
            if step == 0 {
                bits &= u64::MAX << (first % WORD);
            }
            (bits != 0).then(|| {
                let index = word * WORD + bits.trailing_zeros() as usize;
                let ahead = index.wrapping_sub(first) & (self.buckets.len() - 1);
                self.turn + 1 + ahead as u64
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{EventKind, EventQueue};
    use crate::model::time::Picos;
    use tickless_conformance::random::Random;

    #[test]
    fn events_come_as_from_a_sorted_map() {
        for (seed, cpus) in [(1, 1), (2, 64), (3, 4_096)] {
            let mut random = Random::new(seed);
            let mut queue = EventQueue::new(cpus);
            let mut oracle = BTreeMap::new();
            let mut now = 0;
            for number in 0..200_000_u32 {
                if random.one_in(2) {
                    // Near, far, and so coarse that many are equal, across the end of the buckets too.
                    let digits = random.below(36);
                    let ahead = random.below(1 << digits);
                    let grain = 1_u64 << random.below(34);
                    let at = (now + ahead).next_multiple_of(grain);
                    queue.push(Picos(at), EventKind::Arrival, 0, number);
                    oracle.insert((at, number), ());
                } else {
                    let expected = oracle.pop_first().map(|(key, ())| key);
                    let came = queue.pop().map(|event| (event.at.0, event.argument));
                    assert_eq!(came, expected);
                    now = came.map_or(now, |(at, _)| at);
                }
            }
        }
    }
}

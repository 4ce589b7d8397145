//! The lower limit: the cost that no implementation of the same semantics can avoid. The timers of these subjects do
//! not fire.

use tickless::time::Instant;

use crate::subject::Subject;

/// Implements the part that all limits share, with the cheapest clock whose times threads can compare.
macro_rules! limit {
    () => {
        on_a_clock!(Instant);

        const FIRES: bool = false;

        fn is_armed(&mut self, _slot: usize) -> bool {
            true
        }

        fn fire(&mut self, (): &()) -> u64 {
            0
        }
    };
}

/// The measuring loop without an operation.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Subject for Nothing {
    limit!();

    // For the loop around one.
    const IS_FUTURE: bool = true;

    fn new((): &(), _slots: usize, _counts: bool) -> Self {
        Self
    }

    #[inline]
    fn arm(&mut self, slot: usize, deadline: Instant) -> bool {
        std::hint::black_box((slot, deadline));
        true
    }

    #[inline]
    fn cancel(&mut self, slot: usize) -> bool {
        std::hint::black_box(slot);
        true
    }

    #[inline]
    fn push_out(&mut self, slot: usize, deadline: Instant) {
        std::hint::black_box((slot, deadline));
    }

    #[inline]
    fn arm_and_cancel(&mut self, deadline: Instant) -> bool {
        std::hint::black_box(deadline);
        true
    }

    #[inline]
    fn drop_unpolled(&mut self, deadline: Instant) {
        std::hint::black_box(deadline);
    }
}

/// An array of nodes, sorted by their keys, with a cache line for each and links between neighbours. A timer that is
/// pushed out by a small step keeps its place.
#[derive(Debug)]
pub(crate) struct Line {
    nodes: Vec<(Node, Instant)>,
}

impl Subject for Line {
    limit!();

    fn new((): &(), slots: usize, _counts: bool) -> Self {
        let now = Instant::now();
        let node = |slot: usize| Node {
            previous: number(slot.saturating_sub(1)),
            next: number((slot + 1).min(slots)),
            ..Node::default()
        };
        Self {
            nodes: (0..=slots).map(|slot| (node(slot), now)).collect(),
        }
    }

    #[inline]
    fn arm(&mut self, slot: usize, deadline: Instant) -> bool {
        self.nodes[slot].1 = deadline;
        true
    }

    #[inline]
    fn cancel(&mut self, slot: usize) -> bool {
        std::hint::black_box(slot);
        true
    }

    /// Reads the keys of both neighbours and writes the node, whatever the keys are: deadlines are drawn, and the order
    /// of the nodes is that of the slots.
    #[inline]
    fn push_out(&mut self, slot: usize, deadline: Instant) {
        let (Node { previous, next, .. }, _) = self.nodes[slot];
        let beside = [previous, next].map(|slot| self.nodes[slot as usize].1);
        std::hint::black_box((beside[0] <= deadline) & (deadline <= beside[1]));
        self.nodes[slot].1 = deadline;
    }

    #[inline]
    fn arm_and_cancel(&mut self, deadline: Instant) -> bool {
        let slot = self.nodes.len() - 1;
        self.arm(slot, deadline) & self.cancel(slot)
    }
}

/// The index that stands for no node.
const NONE: u32 = u32::MAX;
/// The number of buckets of a level, and the number of levels: as in a wheel of milliseconds that covers more than a
/// minute.
const BUCKETS: usize = 64;
const LEVELS: usize = 9;

/// A timer that knows its neighbours and its bucket, in one cache line.
#[repr(align(64))]
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    previous: u32,
    next: u32,
    bucket: u32,
    expiry: u64,
    _what_to_call: [u64; 2],
}

/// A list for each bucket, with a bitmap of the buckets that are not empty: a wheel without clock, lock, states and
/// cascading levels.
#[derive(Debug)]
pub(crate) struct Lists {
    nodes: Vec<Node>,
    first: Vec<u32>,
    occupied: [u64; LEVELS],
    origin: Instant,
}

impl Lists {
    /// Returns the expiry in milliseconds since the beginning, and its bucket, whose width is an eighth of the
    /// distance.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "less than the number of buckets"
    )]
    fn place(&self, deadline: Instant) -> (u64, u32) {
        let nanos = deadline.duration_since(self.origin).as_nanos() as u64;
        // Two to the twentieth nanoseconds are a tick: a shift, where a division would cost more than all the rest.
        let tick = nanos >> 20;
        let level = (tick | 63)
            .ilog2()
            .saturating_sub(5)
            .div_ceil(3)
            .min(LEVELS as u32 - 1);
        let bucket = (tick >> (3 * level)) % BUCKETS as u64;
        (tick, level * BUCKETS as u32 + bucket as u32)
    }

    #[inline]
    fn link(&mut self, slot: u32, expiry: u64, bucket: u32) {
        let first = std::mem::replace(&mut self.first[bucket as usize], slot);
        if first != NONE {
            self.nodes[first as usize].previous = slot;
        }
        let node = &mut self.nodes[slot as usize];
        (node.previous, node.next) = (NONE, first);
        (node.bucket, node.expiry) = (bucket, expiry);
        self.occupied[bucket as usize / BUCKETS] |= 1 << (bucket as usize % BUCKETS);
    }

    #[inline]
    fn unlink(&mut self, slot: u32) {
        let Node {
            previous,
            next,
            bucket,
            ..
        } = self.nodes[slot as usize];
        if next != NONE {
            self.nodes[next as usize].previous = previous;
        }
        if previous != NONE {
            self.nodes[previous as usize].next = next;
            return;
        }
        self.first[bucket as usize] = next;
        if next == NONE {
            self.occupied[bucket as usize / BUCKETS] &= !(1 << (bucket as usize % BUCKETS));
        }
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

impl Subject for Lists {
    limit!();

    fn new((): &(), slots: usize, _counts: bool) -> Self {
        let node = Node {
            previous: NONE,
            next: NONE,
            ..Node::default()
        };
        Self {
            nodes: vec![node; slots + 1],
            first: vec![NONE; BUCKETS * LEVELS],
            occupied: [0; LEVELS],
            origin: Instant::now(),
        }
    }

    #[inline]
    fn arm(&mut self, slot: usize, deadline: Instant) -> bool {
        let (expiry, bucket) = self.place(deadline);
        self.link(number(slot), expiry, bucket);
        true
    }

    #[inline]
    fn cancel(&mut self, slot: usize) -> bool {
        self.unlink(number(slot));
        true
    }

    #[inline]
    fn push_out(&mut self, slot: usize, deadline: Instant) {
        let (expiry, bucket) = self.place(deadline);
        let node = &mut self.nodes[slot];
        if node.bucket == bucket {
            node.expiry = expiry;
            return;
        }
        self.unlink(number(slot));
        self.link(number(slot), expiry, bucket);
    }

    #[inline]
    fn arm_and_cancel(&mut self, deadline: Instant) -> bool {
        let slot = self.nodes.len() - 1;
        self.arm(slot, deadline) & self.cancel(slot)
    }
}

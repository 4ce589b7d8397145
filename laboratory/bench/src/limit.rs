//! The lower limit: the cost that no implementation of the same semantics can avoid.

use std::cell::Cell;
use std::hint::black_box;

/// A node as large as a timer that knows its neighbours.
#[derive(Default)]
struct Node {
    previous: Cell<Option<&'static Node>>,
    next: Cell<Option<&'static Node>>,
    key: Cell<i64>,
    earliest: Cell<i64>,
    _rest_of_a_timer: [u64; 7],
}

/// An array of nodes, sorted by their keys.
pub(crate) struct Line {
    nodes: Vec<&'static Node>,
}

impl Line {
    /// Makes nodes with keys from `origin` on, `spacing` apart. The nodes are leaked, because a benchmark ends soon.
    pub(crate) fn new(count: usize, origin: i64, spacing: i64) -> Self {
        let nodes: Vec<&'static Node> = (0..count).map(|_| &*Box::leak(Box::default())).collect();
        let mut key = origin;
        for (index, node) in nodes.iter().enumerate() {
            node.key.set(key);
            key += spacing;
            node.previous
                .set(index.checked_sub(1).map(|previous| nodes[previous]));
            node.next.set(nodes.get(index + 1).copied());
        }
        Self { nodes }
    }

    /// Reads the keys of both neighbours and writes the node if it keeps its place under `key`.
    pub(crate) fn visit(&self, index: usize, key: i64) {
        let node = self.nodes[index];
        let after = node
            .previous
            .get()
            .is_none_or(|previous| previous.key.get() <= key);
        let before = node.next.get().is_none_or(|next| key <= next.key.get());
        if after && before {
            node.key.set(key);
            node.earliest.set(key);
        }
        black_box(node);
    }
}

/// A list node as large as a coarse timer.
#[derive(Default)]
struct Filed {
    previous: Cell<Option<&'static Filed>>,
    next: Cell<Option<&'static Filed>>,
    slot: Cell<usize>,
    expiry: Cell<u64>,
    function: Option<fn(&Filed)>,
    _rest_of_a_timer: [u64; 2],
}

/// A list for each slot, with a bitmap of the slots that are not empty: a wheel without levels, clock, lock and states.
pub(crate) struct Slots {
    nodes: Vec<&'static Filed>,
    first: Vec<Cell<Option<&'static Filed>>>,
    occupied: [Cell<u64>; 9],
}

impl Slots {
    /// Makes nodes that are on no list. The nodes are leaked, because a benchmark ends soon.
    pub(crate) fn new(count: usize) -> Self {
        let node = || Filed {
            function: Some(|node| {
                black_box(node.expiry.get());
            }),
            ..Filed::default()
        };
        Self {
            nodes: (0..count).map(|_| &*Box::leak(Box::new(node()))).collect(),
            first: vec![Cell::new(None); 9 * 64],
            occupied: std::array::from_fn(|_| Cell::new(0)),
        }
    }

    /// Puts a node in front of the list of `slot`.
    pub(crate) fn link(&self, index: usize, slot: usize, expiry: u64) {
        let node = self.nodes[index];
        let first = &self.first[slot];
        node.slot.set(slot);
        node.expiry.set(expiry);
        node.next.set(first.get());
        if let Some(next) = first.replace(Some(node)) {
            next.previous.set(Some(node));
        }
        let bits = &self.occupied[slot / 64];
        bits.set(bits.get() | 1 << (slot % 64));
    }

    /// Removes a node from its list.
    pub(crate) fn unlink(&self, index: usize) {
        self.take(self.nodes[index]);
    }

    fn take(&self, node: &'static Filed) {
        let (previous, next) = (node.previous.take(), node.next.take());
        if let Some(next) = next {
            next.previous.set(previous);
        }
        let Some(previous) = previous else {
            let slot = node.slot.get();
            self.first[slot].set(next);
            if next.is_none() {
                let bits = &self.occupied[slot / 64];
                bits.set(bits.get() & !(1 << (slot % 64)));
            }
            return;
        };
        previous.next.set(next);
    }

    /// Removes every node from its list, slot by slot, and calls the function of the node. Returns the number of nodes.
    pub(crate) fn drain(&self) -> usize {
        let mut count = 0;
        for first in &self.first {
            while let Some(node) = first.get() {
                self.take(node);
                if let Some(function) = node.function {
                    function(node);
                }
                count += 1;
            }
        }
        count
    }
}

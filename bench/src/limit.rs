//! The least that is possible: what no implementation of the same semantics can avoid.

use std::cell::Cell;
use std::collections::BTreeMap;
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

/// Nodes in a line.
pub(crate) struct Line {
    nodes: Vec<&'static Node>,
}

impl Line {
    /// Nodes with keys from `origin` on, `spacing` apart. They are leaked: a benchmark ends soon.
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

/// The queue that everybody writes first: a sorted map of (deadline, number).
pub(crate) struct Map {
    queue: BTreeMap<(i64, u64), ()>,
}

impl Map {
    pub(crate) fn new(deadlines: &[i64]) -> Self {
        Self {
            queue: deadlines
                .iter()
                .zip(0..)
                .map(|(deadline, number)| ((*deadline, number), ()))
                .collect(),
        }
    }

    /// Moves one entry to another deadline.
    pub(crate) fn restart(&mut self, index: usize, old: i64, new: i64) {
        let number = index as u64;
        self.queue.remove(&(old, number));
        self.queue.insert((new, number), ());
    }
    /// Removes the first entry if it is due at `now`.
    pub(crate) fn pop_due(&mut self, now: i64) -> bool {
        match self.queue.first_entry() {
            Some(first) if first.key().0 <= now => {
                first.remove();
                true
            }
            _ => false,
        }
    }
}

//! What happens next: events, in the order of time, and among equal times in the order in which they were asked for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::time::Picos;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum What {
    /// The event device of a CPU may fire.
    Device,
    /// An inter-processor interrupt: look at your timers.
    Kick,
    /// An inter-processor interrupt: look at your run queue.
    Reschedule,
    /// An inter-processor interrupt: leave idle, and come back to it.
    Activate,
    /// An inter-processor interrupt: run the soft stage.
    Poke,
    /// The task of a CPU has run for as long as it wanted.
    Segment,
    /// Something came from outside for a task.
    Arrival,
    /// The checkers look at the whole machine.
    Sample,
    /// A moment of a fault: whom it hits.
    Plan,
    /// A fault hits a CPU.
    Fault,
    /// A timer interrupt for which nobody asked.
    Spurious,
    /// A CPU that was taken off comes back.
    Return,
    /// The device that wakes CPUs whose own has stopped may fire.
    Broadcast,
    /// An inter-processor interrupt: what the own device would have said, had it not stopped.
    Called,
    /// A CPU that was in an interrupt past the end of a tick goes on from there.
    Continue,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    pub(crate) at: Picos,
    sequence: u64,
    pub(crate) what: What,
    pub(crate) cpu: u32,
    /// Of [`Segment`](What::Segment) its generation, of [`Arrival`](What::Arrival) the task, of [`Plan`](What::Plan)
    /// and [`Fault`](What::Fault) the fault, of [`Spurious`](What::Spurious) whether it comes in place of a lost one.
    pub(crate) argument: u32,
}

/// The events to come.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<Event>>,
    sequence: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, at: Picos, what: What, cpu: u32, argument: u32) {
        self.sequence += 1;
        self.heap.push(Reverse(Event {
            at,
            sequence: self.sequence,
            what,
            cpu,
            argument,
        }));
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.heap.pop().map(|Reverse(event)| event)
    }
}

#[cfg(test)]
mod tests {
    use super::{Queue, What};
    use crate::world::time::Picos;

    #[test]
    fn equal_times_come_in_the_order_of_asking() {
        let mut queue = Queue::default();
        for (at, cpu) in [(5, 0), (3, 1), (5, 2), (3, 3), (4, 4)] {
            queue.push(Picos(at), What::Segment, cpu, 0);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop())
            .map(|event| event.cpu)
            .collect();
        assert_eq!(order, [1, 3, 4, 0, 2]);
    }
}

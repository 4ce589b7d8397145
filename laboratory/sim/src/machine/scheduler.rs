//! A minimal scheduler for workloads: tasks that run, sleep and wake, and a run queue on each CPU.
//!
//! [`RunQueue`] is the interface of a run queue: [`Fifo`] implements it without fairness, and
//! [`FairClass`](crate::machine::fair::FairClass) with fairness.

use std::fmt;
use std::pin::Pin;

use tickless_core::tick::Dependencies;
use tickless_sched::deadline::DeadlineQueue;
use tickless_sched::{Entity, FairQueue, RunTime, Weight};

use crate::machine::reserved::Reserved;
use crate::machine::sections::Sections;
use crate::machine::timers::Exact;
use crate::model::time::Picos;

pub(crate) type TaskId = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The task computes for this long, unless it is interrupted, and takes another step.
    Run(Picos),
    /// The task computes for ever.
    RunOn,
    /// The task sleeps until this time, by an exact timer of the CPU, and takes another step.
    SleepUntil(Picos),
    /// The task sleeps until it is woken, and takes another step.
    Wait,
    /// The task ends; its timers stay armed.
    Exit,
}

/// The states of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// The task is on a CPU or in its run queue.
    Ready,
    /// The task sleeps.
    Blocked,
    /// The task has ended.
    Done,
}

pub(crate) struct Task {
    pub(crate) cpu: u32,
    pub(crate) priority: u8,
    pub(crate) life: Life,
    /// The task's place in a fair queue.
    pub(crate) entity: Pin<Box<Entity<TaskId>>>,
    /// The task's reservation, if it is of the deadline class.
    pub(crate) reserved: Option<Reserved>,
    /// The part of a CPU to which the task is entitled.
    pub(crate) weight: Weight,
    /// The time for which the task wants to run at a time.
    pub(crate) request: Picos,
    /// The CPU time that the task had, as far as it was accounted.
    pub(crate) had: Picos,
    /// The rest of the task's [`Next::Run`].
    pub(crate) left: Picos,
    /// True if the task was woken before it slept.
    pub(crate) woken: bool,
    pub(crate) sleep: Exact,
    /// The critical sections in which the task requests an extension before it is preempted.
    pub(crate) sections: Option<Sections>,
    /// The reasons to keep the tick while the task runs, on a CPU whose tasks run without a tick.
    pub(crate) dependencies: Dependencies,
    /// True if the times are noted for which interrupts keep the task from running.
    pub(crate) is_watched: bool,
}

impl fmt::Debug for Task {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Task")
            .field("cpu", &self.cpu)
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}

pub(crate) trait RunQueue {
    /// Puts a task that can run into the queue, at `now` by the clock of the queue. A task that was `preempted` keeps
    /// its place. Returns true if the task should run in place of the running one, which has the same priority.
    fn put(&mut self, id: TaskId, task: &Task, preempted: bool, now: RunTime) -> bool;

    fn take(&mut self, now: RunTime) -> Option<TaskId>;

    /// Takes a waiting task, for another CPU that has none.
    fn give(&mut self, _now: RunTime) -> Option<TaskId> {
        None
    }

    /// Notes that a task that slept goes to another CPU: the task keeps its debt in this queue.
    fn forgets(&mut self, _task: &Task, _now: RunTime) {}

    /// Returns the number of tasks that may move to another CPU.
    fn movable(&self) -> usize {
        0
    }

    /// Notes that the running task sleeps, or has ended.
    fn stops(&mut self, _task: &Task, _is_done: bool, _now: RunTime) {}

    /// Returns the queue of the tasks that share the CPU fairly, if there is one.
    fn fair(&mut self) -> Option<&mut FairQueue<TaskId>> {
        None
    }

    fn deadline(&mut self) -> Option<&mut DeadlineQueue<TaskId>> {
        None
    }

    /// Returns true if no task waits.
    fn is_empty(&self) -> bool;

    /// Returns true if a waiting task should run in place of a task with this priority.
    fn preempts(&self, priority: u8) -> bool;

    /// Returns the time for which a task with this priority may run while others wait, counted from its pick; `None` if
    /// no task waits for its turn, or if the waiting task is [run at once](RunQueue::preempts).
    fn slice(&self, priority: u8) -> Option<Picos>;
}

/// A queue that runs the highest priority first, and among equal priorities the task that was queued first; with a
/// slice, the equal tasks run in turn.
#[derive(Clone, Debug)]
pub(crate) struct Fifo {
    /// The waiting tasks; the next one is last.
    waiting: Vec<(u8, TaskId)>,
    /// The time that a task runs while tasks of its priority wait; `None` if it runs as long as it wants.
    slice: Option<Picos>,
}

impl Fifo {
    /// Makes a queue without a task.
    pub(crate) const fn new(slice: Option<Picos>) -> Self {
        Self {
            waiting: Vec::new(),
            slice,
        }
    }

    fn enqueue(&mut self, task: TaskId, priority: u8, preempted: bool) {
        // Sorted upwards: a task that is taken before the new one stands behind it.
        let is_below = |other: u8| other < priority || (preempted && other == priority);
        let place = self.waiting.partition_point(|(other, _)| is_below(*other));
        self.waiting.insert(place, (priority, task));
    }

    fn next(&mut self) -> Option<TaskId> {
        self.waiting.pop().map(|(_, task)| task)
    }
}

impl RunQueue for Fifo {
    fn put(&mut self, id: TaskId, task: &Task, preempted: bool, _now: RunTime) -> bool {
        self.enqueue(id, task.priority, preempted);
        false
    }

    fn take(&mut self, _now: RunTime) -> Option<TaskId> {
        self.next()
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn preempts(&self, priority: u8) -> bool {
        self.waiting
            .last()
            .is_some_and(|(best, _)| *best > priority)
    }

    fn slice(&self, priority: u8) -> Option<Picos> {
        let (best, _) = self.waiting.last()?;
        self.slice.filter(|_| *best == priority)
    }
}

#[cfg(test)]
mod tests {
    use super::{Fifo, RunQueue};
    use crate::model::time::Picos;

    #[test]
    fn the_highest_priority_comes_first_and_then_the_longest_wait() {
        let mut queue = Fifo::new(None);
        for (task, priority) in [(0, 1), (1, 2), (2, 1), (3, 2), (4, 0)] {
            queue.enqueue(task, priority, false);
        }
        assert!(queue.preempts(1) && !queue.preempts(2));
        let order: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(order, [1, 3, 0, 2, 4]);
    }

    #[test]
    fn a_preempted_task_goes_on_first() {
        let mut queue = Fifo::new(None);
        queue.enqueue(0, 1, false);
        queue.enqueue(1, 1, true);
        queue.enqueue(2, 2, false);
        let order: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(order, [2, 1, 0]);
    }

    #[test]
    fn slices_are_for_tasks_whose_equals_wait() {
        let length = Picos::from_millis(3);
        let mut queue = Fifo::new(Some(length));
        assert_eq!(queue.slice(1), None, "alone");
        queue.enqueue(0, 1, false);
        assert_eq!(
            [0, 1, 2].map(|one| queue.slice(one)),
            [None, Some(length), None]
        );
        let mut endless = Fifo::new(None);
        endless.enqueue(0, 1, false);
        assert_eq!(endless.slice(1), None);
    }
}

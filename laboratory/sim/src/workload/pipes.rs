//! `hackbench`: groups of tasks that send each other small messages through pipes, as fast as they can.
//!
//! Each receiver of a group has a pipe, and each sender writes a given number of messages into each pipe of its group,
//! one pipe after the other. A pipe has a limited capacity in bytes: a task that finds its pipe full sleeps until space
//! is free, and a task that finds its pipe empty sleeps until a message arrives. No task sleeps by a timer: all timers
//! of this workload belong to ticks and slices, which it is meant to exercise.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use tickless_sched::Weight;
use tickless_sched::deadline::Reservation;

use crate::machine::executor::Executor;
use crate::machine::scheduler::{Next, TaskId};
use crate::machine::task_context::Program;
use crate::machine::task_context::TaskContext;
use crate::model::cost_model::CacheLine;
use crate::model::time::Picos;

/// Bytes that are transferred between caches at a time.
const LINE_BYTES: u32 = 64;
/// Bytes that are copied at a time.
const WORD_BYTES: u32 = 8;

/// The messages of a workload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages {
    /// The number of messages from each sender to each receiver of its group.
    pub(super) count: u32,
    pub(super) size: u32,
    /// The bytes that a pipe holds.
    pub(super) room: u32,
    /// The time to send or receive a message, besides the transfer of cache lines.
    pub(super) work: Picos,
}

impl Messages {
    /// Returns the number of messages that a pipe holds.
    fn capacity(self) -> usize {
        (self.room / self.size.max(1)).max(1) as usize
    }
}

/// A pipe with its messages and the tasks that wait for it.
#[derive(Debug, Default)]
struct Pipe {
    /// The times at which the messages in the pipe were put there.
    filled: VecDeque<Picos>,
    receiver: Option<TaskId>,
    /// True if the receiver found no message and sleeps.
    is_awaited: bool,
    /// The senders that found the pipe full and sleep.
    blocked: VecDeque<TaskId>,
    /// The cache lines of the pipe, with the CPU that wrote to them last.
    lines: CacheLine,
}

impl Pipe {
    /// Transfers the pipe itself, and `size` bytes of its messages, to the CPU that executes.
    fn touch(&self, context: &TaskContext<'_>, size: u32) {
        context.touch(&self.lines, 1 + u64::from(size.div_ceil(LINE_BYTES)));
        context.copy(u64::from(size.div_ceil(WORD_BYTES)));
    }
}

/// A group: its pipes, and the number of receivers that have not received all their messages.
#[derive(Debug)]
struct Group {
    pipes: Vec<Pipe>,
    unfinished: usize,
}

/// A task that sends.
#[derive(Debug)]
struct Sender {
    group: Rc<RefCell<Group>>,
    messages: Messages,
    /// The number of messages that the task has sent.
    sent: u32,
    /// True if the next message is ready to be put into its pipe.
    is_ready: bool,
}

impl Program for Sender {
    fn step(&mut self, context: &mut TaskContext<'_>) -> Next {
        let mut group = self.group.borrow_mut();
        let count = u32::try_from(group.pipes.len()).unwrap_or(u32::MAX);
        if std::mem::take(&mut self.is_ready) {
            let pipe = &mut group.pipes[(self.sent % count) as usize];
            pipe.touch(context, self.messages.size);
            if pipe.filled.len() >= self.messages.capacity() {
                pipe.blocked.push_back(context.task());
                self.is_ready = true;
                return Next::Wait;
            }
            pipe.filled.push_back(context.now());
            self.sent += 1;
            if std::mem::take(&mut pipe.is_awaited)
                && let Some(receiver) = pipe.receiver
            {
                context.wake(receiver);
            }
        }
        if self.sent == self.messages.count * count {
            return Next::Exit;
        }
        self.is_ready = true;
        Next::Run(self.messages.work)
    }
}

/// A task that receives.
#[derive(Debug)]
struct Receiver {
    group: Rc<RefCell<Group>>,
    pipe: usize,
    messages: Messages,
    /// The number of messages that the task has still to receive.
    left: u32,
}

impl Program for Receiver {
    fn step(&mut self, context: &mut TaskContext<'_>) -> Next {
        let mut group = self.group.borrow_mut();
        if self.left == 0 {
            group.unfinished -= 1;
            if group.unfinished == 0 {
                context.note("finish", context.now());
            }
            return Next::Exit;
        }
        let pipe = &mut group.pipes[self.pipe];
        pipe.receiver = Some(context.task());
        pipe.touch(context, self.messages.size);
        let Some(put) = pipe.filled.pop_front() else {
            pipe.is_awaited = true;
            return Next::Wait;
        };
        // Executed later and put later may be seen the other way round by CPUs that are ahead of each other.
        context.note("message", context.now() - put);
        self.left -= 1;
        if let Some(sender) = pipe.blocked.pop_front() {
            context.wake(sender);
        }
        Next::Run(self.messages.work)
    }
}

/// Adds `groups` groups to a machine, each with equally many senders and receivers, distributed over `cpus` in turn.
pub(super) fn add_groups(
    executor: &mut Executor,
    cpus: &[u32],
    (priority, entitlement): (u8, (Weight, Option<Picos>, Option<Reservation>)),
    groups: u32,
    tasks: u32,
    messages: Messages,
) {
    let mut cpus = cpus.iter().cycle();
    for _ in 0..groups {
        let group = Rc::new(RefCell::new(Group {
            pipes: (0..tasks).map(|_| Pipe::default()).collect(),
            unfinished: tasks as usize,
        }));
        for pipe in 0..tasks as usize {
            let receiver = Receiver {
                group: Rc::clone(&group),
                pipe,
                messages,
                left: messages.count * tasks,
            };
            let sender = Sender {
                group: Rc::clone(&group),
                messages,
                sent: 0,
                is_ready: false,
            };
            let programs: [Box<dyn Program>; 2] = [Box::new(receiver), Box::new(sender)];
            for (program, cpu) in programs.into_iter().zip(&mut cpus) {
                executor.add_task(program, *cpu, priority, entitlement);
            }
        }
    }
}

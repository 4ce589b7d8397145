//! Workloads that imitate servers: their tasks compute and wait.

use tickless_conformance::random::Random;
use tickless_core::coarse::{Restart, Timeout, WheelKind};

use super::values::{Range, around, log_uniform};
use crate::machine::scheduler::{Next, TaskId};
use crate::machine::task_context::Program;
use crate::machine::task_context::{TaskContext, charge};
use crate::machine::timers::Coarse;
use crate::model::time::Picos;

/// A program that computes and sleeps in turn.
#[derive(Debug)]
pub(super) struct Duty {
    work: Picos,
    gap: Picos,
    is_done: bool,
    random: Random,
}

impl Duty {
    pub(super) const fn new(work: Picos, gap: Picos, random: Random) -> Self {
        Self {
            work,
            gap,
            is_done: true,
            random,
        }
    }

    /// Chooses a random time from half of `mean` to three halves of it.
    fn about(&mut self, mean: Picos) -> Picos {
        Picos(mean.0 / 2) + Picos(self.random.below(mean.0.max(1)))
    }
}

impl Program for Duty {
    fn step(&mut self, context: &mut TaskContext<'_>) -> Next {
        self.is_done = !self.is_done;
        if self.is_done {
            let gap = self.about(self.gap);
            Next::SleepUntil(context.shown() + gap)
        } else {
            Next::Run(self.about(self.work).max(Picos(1)))
        }
    }
}

/// A program of periodic timers whose callbacks do the work.
#[derive(Debug)]
pub(super) struct Polls {
    count: u32,
    period: Range,
    work: Range,
    random: Random,
    timers: Vec<Coarse>,
}

impl Polls {
    pub(super) const fn new(count: u32, period: Range, work: Range, random: Random) -> Self {
        Self {
            count,
            period,
            work,
            random,
            timers: Vec::new(),
        }
    }
}

impl Program for Polls {
    fn step(&mut self, context: &mut TaskContext<'_>) -> Next {
        for _ in 0..self.count {
            let mut random = Random::new(self.random.bits());
            let period = log_uniform(&mut random, self.period);
            let ticks = period.0.div_ceil(context.tick_period().0).max(1) - 1;
            let work = self.work;
            let first = around(&mut random, period);
            let timer = context.coarse_with(WheelKind::Global, move |timeout| {
                charge(log_uniform(&mut random, work));
                timeout.set_expiry_after(ticks);
                Restart::Yes
            });
            context.arm(&timer, first);
            self.timers.push(timer);
        }
        Next::Exit
    }
}

/// The properties of packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packets {
    pub(super) gap: Picos,
    pub(super) work: Picos,
    pub(super) timeout: Range,
    /// The percentage of timeouts that are cancelled.
    pub(super) cancelled: u32,
}

/// A server. `F` is the callback of its connections' timers.
#[derive(Debug)]
pub(super) struct Network<F>
where
    F: FnMut(&mut Timeout) -> Restart + Send + 'static,
{
    count: u32,
    make: fn(TaskId, u32) -> F,
    packets: Packets,
    random: Random,
    connections: Vec<Coarse<F>>,
    /// True for each connection whose client disappeared: no packet arrives until the connection's timeout fires.
    silent: Vec<bool>,
    backlog: u32,
    has_begun: bool,
}

impl<F: FnMut(&mut Timeout) -> Restart + Send + 'static> Network<F> {
    /// Makes a server. `make` is [`notes`](crate::machine::task_context::notes).
    pub(super) const fn new(
        count: u32,
        packets: Packets,
        random: Random,
        make: fn(TaskId, u32) -> F,
    ) -> Self {
        Self {
            count,
            make,
            packets,
            random,
            connections: Vec::new(),
            silent: Vec::new(),
            backlog: 0,
            has_begun: false,
        }
    }

    fn await_next(&mut self, context: &mut TaskContext<'_>) {
        let gap = around(&mut self.random, self.packets.gap);
        context.arrive(gap);
    }
}

impl<F: FnMut(&mut Timeout) -> Restart + Send + 'static> Program for Network<F> {
    fn step(&mut self, context: &mut TaskContext<'_>) -> Next {
        if !self.has_begun {
            self.has_begun = true;
            self.connections = (0..self.count)
                .map(|index| context.coarse_of_many(WheelKind::Global, index, self.make))
                .collect();
            self.silent = vec![false; self.connections.len()];
            self.await_next(context);
        }
        if self.backlog == 0 {
            return Next::Wait;
        }
        self.backlog -= 1;
        let from = self.random.index(self.connections.len());
        let goes_silent = self.random.below(100) >= u64::from(self.packets.cancelled);
        let timeout = log_uniform(&mut self.random, self.packets.timeout);
        let mut candidates = (from..self.connections.len()).chain(0..from);
        if let Some(connection) = candidates.find(|index| !self.silent[*index]) {
            let timer = &self.connections[connection];
            // A request is answered and the next one comes; or the connection was not idle.
            if self.random.one_in(2) {
                context.cancel(timer);
                context.arm(timer, timeout);
            } else {
                context.modify(timer, timeout);
            }
            self.silent[connection] = goes_silent;
        }
        Next::Run(self.packets.work)
    }

    fn arrived(&mut self, context: &mut TaskContext<'_>) {
        self.backlog += 1;
        self.await_next(context);
        let task = context.task();
        context.wake(task);
    }

    fn expired(&mut self, index: u32, _turn: &mut TaskContext<'_>) {
        // The connection is given up, and another client takes its place.
        self.silent[index as usize] = false;
    }
}

/// A program that sleeps by a coarse timer, and computes.
#[derive(Debug)]
pub(super) struct Daemon {
    period: Picos,
    work: Range,
    random: Random,
    timer: Option<Coarse>,
    has_slept: bool,
}

impl Daemon {
    pub(super) const fn new(period: Picos, work: Range, random: Random) -> Self {
        Self {
            period,
            work,
            random,
            timer: None,
            has_slept: false,
        }
    }
}

impl Program for Daemon {
    fn step(&mut self, context: &mut TaskContext<'_>) -> Next {
        if std::mem::take(&mut self.has_slept) {
            return Next::Run(log_uniform(&mut self.random, self.work));
        }
        self.has_slept = true;
        let is_new = self.timer.is_none();
        let timer = self
            .timer
            .get_or_insert_with(|| context.coarse(WheelKind::Global, 0));
        let sleep = if is_new {
            // Not all at once.
            around(&mut self.random, self.period)
        } else {
            self.period
        };
        context.arm(timer, sleep);
        Next::Wait
    }
}

//! Workloads that imitate interactive programs: clients that wait for servers, and a desktop that waits for its user.

use std::cell::RefCell;
use std::rc::Rc;

use tickless_conformance::random::Random;
use tickless_core::coarse::WheelKind;
use tickless_core::hrtimer::{Restart, Start};
use tickless_core::time::Span;

use super::values::{Range, around, log_uniform};
use crate::machine::scheduler::{Next, TaskId};
use crate::machine::task_context::Program;
use crate::machine::task_context::{TaskContext, charge};
use crate::machine::timers::{Coarse, Exact, Operations};
use crate::model::time::Picos;

/// The state that a client and its server share.
#[derive(Debug, Default)]
pub(super) struct Channel {
    client: Option<TaskId>,
    server: Option<TaskId>,
    /// True if a request is pending that the server has not received.
    is_asked: bool,
    /// True if an answer is pending that the client has not received.
    is_answered: bool,
}

/// A client or a server. It waits for a message of the other half with a timeout, which each message pushes out; it
/// computes, and sends its own message.
#[derive(Debug)]
pub(super) struct Half {
    channel: Rc<RefCell<Channel>>,
    is_client: bool,
    work: Range,
    timeout: Picos,
    random: Random,
    timer: Option<Coarse>,
    /// The time of the half's last message.
    asked: Option<Picos>,
    /// True if the half has computed its next message.
    is_ready: bool,
    has_begun: bool,
}

impl Half {
    pub(super) const fn new(
        channel: Rc<RefCell<Channel>>,
        is_client: bool,
        work: Range,
        timeout: Picos,
        random: Random,
    ) -> Self {
        Self {
            channel,
            is_client,
            work,
            timeout,
            random,
            timer: None,
            asked: None,
            is_ready: false,
            has_begun: false,
        }
    }

    fn begin(&mut self, context: &TaskContext<'_>) {
        let mut channel = self.channel.borrow_mut();
        if self.is_client {
            channel.client = Some(context.task());
        } else {
            channel.server = Some(context.task());
        }
        drop(channel);
        self.timer = Some(context.coarse(WheelKind::Global, 0));
        // The client has the first word.
        self.is_ready = self.is_client;
    }

    /// Takes a message, if a message is pending. Returns true if one was.
    fn receives(&self) -> bool {
        let mut channel = self.channel.borrow_mut();
        std::mem::take(if self.is_client {
            &mut channel.is_answered
        } else {
            &mut channel.is_asked
        })
    }

    fn send(&mut self, context: &mut TaskContext<'_>) {
        let mut channel = self.channel.borrow_mut();
        let other = if self.is_client {
            channel.is_asked = true;
            channel.server
        } else {
            channel.is_answered = true;
            channel.client
        };
        drop(channel);
        self.asked = Some(context.now());
        if let Some(other) = other {
            context.wake(other);
        }
    }
}

impl Program for Half {
    fn step(&mut self, context: &mut TaskContext<'_>) -> Next {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.begin(context);
        }
        if std::mem::take(&mut self.is_ready) {
            self.send(context);
        }
        if self.receives() {
            if let (true, Some(asked)) = (self.is_client, self.asked) {
                context.note("round-trip", context.now() - asked);
            }
            if let Some(timer) = &self.timer {
                context.modify(timer, self.timeout);
            }
            self.is_ready = true;
            return Next::Run(log_uniform(&mut self.random, self.work));
        }
        Next::Wait
    }

    fn expired(&mut self, _index: u32, context: &mut TaskContext<'_>) {
        // The other one took too long: noted, and waited for again.
        let asked = self.asked.unwrap_or_default();
        context.note("no-answer", context.now() - asked);
        if let Some(timer) = self.timer.as_ref().filter(|timer| !timer.is_queued()) {
            context.modify(timer, self.timeout);
        }
    }
}

/// The number of timers that a burst starts for each periodic timer.
const BURST: u32 = 4;

/// The load of a desktop without a user: periodic exact timers with slack, and from time to time a burst of short
/// timers.
#[derive(Debug)]
pub(super) struct Desktop {
    count: u32,
    period: Range,
    work: Range,
    slack: Picos,
    gap: Picos,
    random: Random,
    periodic: Vec<Exact>,
    burst: Vec<Coarse>,
    has_begun: bool,
}

impl Desktop {
    pub(super) const fn new(
        count: u32,
        period: Range,
        work: Range,
        (slack, gap): (Picos, Picos),
        random: Random,
    ) -> Self {
        Self {
            count,
            period,
            work,
            slack,
            gap,
            random,
            periodic: Vec::new(),
            burst: Vec::new(),
            has_begun: false,
        }
    }

    fn begin(&mut self, context: &TaskContext<'_>) {
        for _ in 0..self.count {
            let mut random = Random::new(self.random.bits());
            let period = log_uniform(&mut random, self.period);
            let first = context.shown() + around(&mut random, period);
            let (work, interval) = (self.work, Span::from_nanos(period.as_nanos().max(1)));
            let timer = context.exact_with(move |expired| {
                charge(log_uniform(&mut random, work));
                let now = expired.now();
                expired.forward(now, interval);
                Restart::Yes
            });
            let slack = Span::from_nanos(self.slack.as_nanos());
            timer.start_movable(Start::at(first.instant()).slack(slack));
            self.periodic.push(timer);
        }
        for _ in 0..self.count * BURST {
            let (mut random, work) = (Random::new(self.random.bits()), self.work);
            self.burst
                .push(context.coarse_with(WheelKind::Global, move |_| {
                    charge(log_uniform(&mut random, work));
                    Restart::No
                }));
        }
    }
}

impl Program for Desktop {
    fn step(&mut self, context: &mut TaskContext<'_>) -> Next {
        if std::mem::replace(&mut self.has_begun, true) {
            // The user came by: everything is drawn again, for a while.
            for timer in &self.burst {
                let after = around(&mut self.random, Picos(self.period.low.0 / 2));
                context.modify(timer, after);
            }
            let work = log_uniform(&mut self.random, self.work);
            let gap = around(&mut self.random, self.gap);
            return Next::SleepUntil(context.shown() + work + gap);
        }
        self.begin(context);
        Next::SleepUntil(context.shown() + around(&mut self.random, self.gap))
    }
}

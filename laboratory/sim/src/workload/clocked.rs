//! Workloads that use clocks: alarms at times of day, and jobs that read the clock all the time.

use tickless_conformance::random::Random;
use tickless_core::hrtimer::{Restart, Start};
use tickless_core::time::{ClockId, Instant, Span};

use super::values::{Range, log_uniform};
use crate::machine::fired::{self, Fired};
use crate::machine::scheduler::Next;
use crate::machine::task_context::Program;
use crate::machine::task_context::TaskContext;
use crate::machine::timers::{Exact, Operations};
use crate::model::time::Picos;

/// A program with timers at whole multiples of their periods.
#[derive(Debug)]
pub(super) struct Alarms<C: ClockId> {
    count: u32,
    period: Range,
    random: Random,
    timers: Vec<Exact<C>>,
    shortest: Span,
}

impl<C: ClockId> Alarms<C> {
    pub(super) const fn new(count: u32, period: Range, random: Random) -> Self {
        Self {
            count,
            period,
            random,
            timers: Vec::new(),
            shortest: Span::MAX,
        }
    }

    fn begin(&mut self, context: &TaskContext<'_>) {
        let task = context.task();
        for _ in 0..self.count {
            // Whole microseconds, as calendars have whole seconds.
            let drawn = log_uniform(&mut self.random, self.period).as_nanos();
            let period = Span::from_micros((drawn / 1_000).max(1));
            self.shortest = self.shortest.min(period);
            let timer = context.exact_with(move |expired| {
                fired::note(Fired::Task(task));
                let now = expired.now();
                expired.forward(now, period);
                Restart::Yes
            });
            let now = context.read_clock_of::<C>();
            timer.start_movable(Start::at(Instant::from_nanos(
                now.as_nanos() + ahead(now, period),
            )));
            self.timers.push(timer);
        }
    }
}

/// Returns the time from `now` to the next multiple of `period`, in nanoseconds.
fn ahead<C: ClockId>(now: Instant<C>, period: Span) -> i64 {
    let period = i64::try_from(period.as_nanos()).unwrap_or(i64::MAX);
    period - now.as_nanos().rem_euclid(period)
}

impl<C: ClockId> Program for Alarms<C> {
    fn step(&mut self, context: &mut TaskContext<'_>) -> Next {
        if self.timers.is_empty() {
            self.begin(context);
            return Next::Wait;
        }
        let period = self.shortest.as_nanos();
        let now = context.read_clock_of::<C>();
        let behind = period - ahead(now, self.shortest).unsigned_abs();
        context.note("alarm", Picos::from_nanos(behind));
        Next::Wait
    }
}

/// A program that computes, and reads the clock after each piece.
#[derive(Debug)]
pub(super) struct Compute {
    work: Picos,
    repetitions: u32,
    done: u32,
    /// True if the task has computed a piece, and reads the clock next.
    has_begun: bool,
    since: Picos,
    random: Random,
}

impl Compute {
    pub(super) const fn new(work: Picos, repetitions: u32, random: Random) -> Self {
        Self {
            work,
            repetitions,
            done: 0,
            has_begun: false,
            since: Picos::ZERO,
            random,
        }
    }
}

impl Program for Compute {
    fn step(&mut self, context: &mut TaskContext<'_>) -> Next {
        if std::mem::replace(&mut self.has_begun, true) {
            let _read = context.read_clock();
            self.done += 1;
            if self.done == self.repetitions {
                context.note("job", context.now() - self.since);
                self.since = context.now();
                self.done = 0;
            }
        } else {
            self.since = context.now();
        }
        let half = self.work.0 / 2;
        Next::Run(Picos(half + self.random.below(self.work.0).max(1)))
    }
}

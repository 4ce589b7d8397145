//! Workloads that measure latency, and workloads that disturb the measurement.

use tickless_conformance::random::Random;
use tickless_core::coarse::WheelKind;
use tickless_core::hrtimer::Start;

use super::values::around;
use crate::machine::scheduler::Next;
use crate::machine::task_context::Program;
use crate::machine::task_context::TaskContext;
use crate::machine::timers::{Coarse, Exact, Operations};
use crate::model::time::Picos;

/// A program that sleeps, and measures its lateness.
#[derive(Debug)]
pub(super) struct Cyclictest {
    period: Picos,
    due: Option<Picos>,
    has_begun: bool,
    random: Random,
}

impl Cyclictest {
    pub(super) const fn new(period: Picos, random: Random) -> Self {
        Self {
            period,
            due: None,
            has_begun: false,
            random,
        }
    }

    fn sleep_until(&mut self, due: Picos) -> Next {
        self.due = Some(due);
        Next::SleepUntil(due)
    }
}

impl Program for Cyclictest {
    fn step(&mut self, context: &mut TaskContext<'_>) -> Next {
        let now = Picos::of_instant(context.read_clock());
        let Some(before) = self.due else {
            // It starts at any moment of a tick.
            let start = now + Picos(self.random.below(context.tick_period().0));
            return self.sleep_until(start);
        };
        if std::mem::replace(&mut self.has_begun, true) {
            context.note("latency", now - before);
        }
        // The next one that is not over: a period that was missed shows as the latency of the one before.
        let due = before + self.period;
        let missed = (now - due).0.div_ceil(self.period.0);
        self.sleep_until(due + self.period * missed)
    }
}

/// A program that computes for ever.
#[derive(Debug)]
pub(super) struct Oslat;

impl Program for Oslat {
    fn step(&mut self, _turn: &mut TaskContext<'_>) -> Next {
        Next::RunOn
    }
}

/// Pairs that are executed at once; between two such lots other tasks may run.
const LOT: u32 = 10;

/// A program that arms and cancels a coarse timer.
#[derive(Debug)]
pub(super) struct Enqueue {
    repetitions: u32,
    timeout: Picos,
    gap: Picos,
    timer: Option<Coarse>,
    done: u32,
    took: Picos,
}

impl Enqueue {
    pub(super) const fn new(repetitions: u32, timeout: Picos, gap: Picos) -> Self {
        Self {
            repetitions,
            timeout,
            gap,
            timer: None,
            done: 0,
            took: Picos::ZERO,
        }
    }
}

impl Program for Enqueue {
    fn step(&mut self, context: &mut TaskContext<'_>) -> Next {
        let timer = self
            .timer
            .get_or_insert_with(|| context.coarse(WheelKind::Global, 0));
        let lot = LOT.min(self.repetitions - self.done);
        let start = context.now();
        for _ in 0..lot {
            context.arm(timer, self.timeout);
            context.cancel(timer);
        }
        self.took += context.now() - start;
        self.done += lot;
        if self.done < self.repetitions {
            return Next::Run(Picos(1));
        }
        context.note("pair", Picos(self.took.0 / u64::from(self.done)));
        self.done = 0;
        self.took = Picos::ZERO;
        Next::Run(self.gap)
    }
}

/// A program that starts exact timers again and again.
#[derive(Debug)]
pub(super) struct Starts {
    count: u32,
    repetitions: u32,
    gap: Picos,
    timers: Vec<Exact>,
}

/// The distance of one timer from the next, within which a timer can move and keep its place.
const APART: Picos = Picos::from_micros(3);

impl Starts {
    pub(super) const fn new(count: u32, repetitions: u32, gap: Picos) -> Self {
        Self {
            count,
            repetitions,
            gap,
            timers: Vec::new(),
        }
    }

    /// Measures a start of a timer that `prepare` prepared, and returns its time.
    fn measure(
        &self,
        context: &TaskContext<'_>,
        due: [Picos; 2],
        prepare: impl Fn(&Exact),
    ) -> Picos {
        let timer = &self.timers[self.timers.len() / 2];
        let mut took = Picos::ZERO;
        for (_, due) in (0..self.repetitions).zip(due.into_iter().cycle()) {
            prepare(timer);
            let start = context.now();
            timer.start(Start::at(due.instant()));
            took += context.now() - start;
        }
        Picos(took.0 / u64::from(self.repetitions))
    }
}

impl Program for Starts {
    fn step(&mut self, context: &mut TaskContext<'_>) -> Next {
        // So near that they are sorted and not filed, and not over before the loop is.
        let first = context.shown() + Picos::from_micros(90);
        let place = |index: u32| first + APART * u64::from(index);
        self.timers
            .resize_with(self.count as usize, || context.exact());
        for (index, timer) in (0..).zip(&self.timers) {
            timer.start(Start::at(place(index).instant()));
        }
        let middle = place(self.count / 2);
        let near = [middle + Picos::from_micros(1), middle];
        let in_place = self.measure(context, near, |_| {});
        let fresh = self.measure(context, near, Exact::cancel);
        context.note("in-place", in_place);
        context.note("fresh", fresh);
        Next::Run(self.gap)
    }
}

/// The largest number of timers that are armed on the isolated CPUs at a time.
const UNDER_WAY: u32 = 64;

/// A program that arms timers on other CPUs.
#[derive(Debug)]
pub(super) struct RemoteArms {
    gap: Picos,
    timeout: Picos,
    targets: Vec<u32>,
    timers: Vec<Coarse>,
    next: usize,
    random: Random,
}

impl RemoteArms {
    pub(super) const fn new(gap: Picos, timeout: Picos, targets: Vec<u32>, random: Random) -> Self {
        Self {
            gap,
            timeout,
            targets,
            timers: Vec::new(),
            next: 0,
            random,
        }
    }
}

impl Program for RemoteArms {
    fn step(&mut self, context: &mut TaskContext<'_>) -> Next {
        if self.targets.is_empty() {
            return Next::Exit;
        }
        if self.timers.is_empty() {
            self.timers = (0..UNDER_WAY)
                .map(|index| context.coarse(WheelKind::Local, index))
                .collect();
        } else {
            let target = self.targets[self.random.index(self.targets.len())];
            let timer = &self.timers[self.next];
            self.next = (self.next + 1) % self.timers.len();
            if !timer.is_queued() {
                context.arm_on(timer, target, self.timeout);
            }
        }
        Next::SleepUntil(context.shown() + around(&mut self.random, self.gap))
    }

    fn expired(&mut self, _index: u32, _turn: &mut TaskContext<'_>) {}
}

/// A program that only keeps a far timer queued.
#[derive(Debug)]
pub(super) struct Far {
    timeout: Picos,
    timer: Option<Coarse>,
}

impl Far {
    pub(super) const fn new(timeout: Picos) -> Self {
        Self {
            timeout,
            timer: None,
        }
    }
}

impl Program for Far {
    fn step(&mut self, context: &mut TaskContext<'_>) -> Next {
        let timer = self
            .timer
            .get_or_insert_with(|| context.coarse(WheelKind::Local, 0));
        let cpu = context.cpu();
        context.arm_on(timer, cpu, self.timeout);
        Next::Exit
    }

    fn expired(&mut self, _index: u32, _turn: &mut TaskContext<'_>) {}
}

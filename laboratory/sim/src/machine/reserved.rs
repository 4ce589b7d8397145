//! Tasks of the deadline class, and the check that each gets its reserved runtime (spec ).
//!
//! The queue of `tickless-sched` throttles and replenishes. The check here uses the clock of the run queue too, but not
//! the accounts of that queue: it uses the CPU time that the machine saw the task have, and the times at which the task
//! could run.

use std::pin::Pin;

use tickless_sched::RunTime;
use tickless_sched::deadline::Server;

use crate::model::time::Picos;
use crate::promise::runtime_bounded::{self, Bucket};
use crate::promise::runtime_given;

/// The priority of tasks with a reservation, which is higher than all others.
pub(crate) const DEADLINE: u8 = u8::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Late {
    /// The allowed delay of one decision.
    pub(super) each: Picos,
    /// The total delay for which a task with a reservation may have to wait.
    pub(super) all: Picos,
}

/// The states of a task with regard to the task's runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Asleep,
    /// The task has been able to run since this time, with its whole runtime or with the rest of it.
    Ready {
        since: Picos,
        is_whole: bool,
    },
    /// The task has spent its runtime, and has runtime again by this time.
    Throttled {
        by: Picos,
    },
}

pub(crate) struct Reserved {
    /// The task's place in a queue, which hands out the number of the task.
    pub(super) server: Pin<Box<Server<u32>>>,
    runtime: Picos,
    deadline: Picos,
    period: Picos,
    phase: Phase,
    /// The runtime that the task used since it became able to run.
    spent: Picos,
    bucket: Bucket,
    /// The time up to which the bucket has leaked.
    leaked: Picos,
}

impl Reserved {
    /// Makes the record of a sleeping task whose server was admitted.
    pub(super) fn new(server: Server<u32>) -> Self {
        let reservation = server.reservation();
        let picos = |span: tickless_core::time::Span| Picos::from_nanos(span.as_nanos());
        Self {
            server: Box::pin(server),
            runtime: picos(reservation.runtime()),
            deadline: picos(reservation.deadline()),
            period: picos(reservation.period()),
            phase: Phase::Asleep,
            spent: Picos::ZERO,
            bucket: Bucket::default(),
            leaked: Picos::ZERO,
        }
    }

    /// Notes that the task was put into its queue at `now`, where it is throttled or not as `is_throttled` says.
    /// Returns the violation, if there is one.
    pub(super) fn queued(
        &mut self,
        now: RunTime,
        is_throttled: bool,
        late: Late,
    ) -> Option<String> {
        let now = picos(now);
        match (self.phase, is_throttled) {
            (Phase::Asleep, false) => self.begins(now, false),
            // Its deadline is within one of what it has now, and it ran over by less than that takes periods.
            (Phase::Asleep, true) => self.phase = self.throttled_at(now, late),
            (Phase::Ready { since, is_whole }, true) => {
                self.phase = self.throttled_at(since, late);
                let wrong = runtime_given::late(now.saturating_sub(since), self.deadline, late.all);
                let short = || runtime_given::short(self.spent, self.runtime, late.each);
                return wrong.or_else(|| is_whole.then(short).flatten());
            }
            _ => {}
        }
        None
    }

    /// Returns the throttled state for a period that began at `since` or before.
    fn throttled_at(&self, since: Picos, late: Late) -> Phase {
        let debts = late.each.0.div_ceil(self.runtime.0.max(1));
        let by = since + self.period * (1 + debts) + late.all;
        Phase::Throttled { by }
    }

    /// Notes that the queue has replenished all tasks due by `now`, so that the task may run again.
    pub(super) fn replenished(&mut self, now: RunTime) -> Option<String> {
        let Phase::Throttled { by } = self.phase else {
            return None;
        };
        let now = picos(now);
        self.begins(now, true);
        runtime_given::withheld(now, by)
    }

    /// Notes that the task sleeps from `now` on, or has ended. Returns the violation, if there is one.
    pub(super) fn sleeps(&mut self, now: RunTime, late: Late) -> Option<String> {
        let wrong = self.waits(now, late);
        self.phase = Phase::Asleep;
        wrong
    }

    /// Checks the task, which is not asleep at `now`. Returns the violation, if there is one.
    pub(super) fn waits(&self, now: RunTime, late: Late) -> Option<String> {
        let now = picos(now);
        match self.phase {
            Phase::Asleep => None,
            Phase::Ready { since, .. } => {
                runtime_given::late(now.saturating_sub(since), self.deadline, late.all)
            }
            Phase::Throttled { by } => runtime_given::withheld(now, by),
        }
    }

    /// Notes that the task had the CPU for `had` until `now`. Returns the violation, if there is one.
    pub(super) fn had(&mut self, had: Picos, now: RunTime, late: Late) -> Option<String> {
        let now = picos(now);
        self.spent += had;
        let passed = now.saturating_sub(self.leaked);
        self.leaked = self.leaked.max(now);
        let rate = (self.runtime, self.period);
        let wrong = self
            .bucket
            .pours((had, passed), rate, (late.each, late.all));
        runtime_bounded::overspent(self.spent, self.runtime, late.each).or(wrong)
    }

    fn begins(&mut self, now: Picos, is_whole: bool) {
        self.spent = Picos::ZERO;
        self.phase = Phase::Ready {
            since: now,
            is_whole,
        };
    }
}

fn picos(time: RunTime) -> Picos {
    Picos::from_nanos(time.as_nanos())
}

//! The tasks with reservations on a machine: the deadline class, and the timer that refills the runtime of throttled
//! tasks.

use tickless_sched::RunTime;
use tickless_sched::deadline::Reservation;

use crate::machine::fair::Precise;
use crate::machine::machine::Machine;
use crate::machine::reserved::{Late, Reserved};
use crate::machine::scheduler::TaskId;
use crate::model::current_cpu;
use crate::model::time::Picos;
use crate::promise::{Promise, lag_bounded};

impl Machine {
    /// Gives a reservation to `task`, which was made for `cpu` and is in no queue yet. Returns false if the CPU has no
    /// deadline class: the task is then an ordinary task.
    ///
    /// # Panics
    ///
    /// When the CPU has less time left than the reservation takes. The reader of a scenario checks this before.
    pub(super) fn reserve(&mut self, cpu: u32, task: TaskId, reservation: Reservation) -> bool {
        let state = &mut self.cpus[cpu as usize];
        let (Some(precise), Some(queue)) = (&mut state.precise, state.waiting.deadline()) else {
            return false;
        };
        let server = queue.admit(reservation).expect("there is room");
        precise.reserved.push(task);
        self.tasks[task as usize].reserved = Some(Reserved::new(server));
        true
    }

    /// Notes that `task`, which may have a reservation, was put into the queue of `cpu` at `now`.
    pub(super) fn reserved_queued(&mut self, cpu: u32, task: TaskId, now: RunTime) {
        let late = self.late_decision(cpu);
        let Some(reserved) = &mut self.tasks[task as usize].reserved else {
            return;
        };
        let queue = self.cpus[cpu as usize].waiting.deadline();
        let is_throttled = queue.is_some_and(|queue| queue.is_throttled(reserved.server.as_ref()));
        let wrong = reserved.queued(now, is_throttled, late);
        if is_throttled {
            self.host().checker.borrow_mut().counts.throttled += 1;
            self.start_bandwidth(cpu);
        }
        self.check_given(cpu, wrong);
    }

    /// Notes that `task`, which may have a reservation, had the CPU `cpu` for `had` until `now`.
    pub(super) fn reserved_had(&mut self, cpu: u32, task: TaskId, had: Picos, now: RunTime) {
        let late = self.late_decision(cpu);
        let Some(reserved) = &mut self.tasks[task as usize].reserved else {
            return;
        };
        let wrong = reserved.had(had, now, late);
        if self.host().faults.is_none() {
            self.host().check(Promise::RuntimeBounded, cpu, wrong);
        }
    }

    /// Notes that `task`, which may have a reservation and runs on `cpu`, sleeps from `now` on.
    pub(super) fn reserved_sleeps(&mut self, cpu: u32, task: TaskId, now: RunTime) {
        let late = self.late_decision(cpu);
        if let Some(reserved) = &mut self.tasks[task as usize].reserved {
            let wrong = reserved.sleeps(now, late);
            self.check_given(cpu, wrong);
        }
    }

    /// Checks the tasks with reservations of `cpu`. May be called while the CPU executes nothing.
    pub(super) fn check_reserved(&self, cpu: u32) {
        let state = &self.cpus[cpu as usize];
        let Some(precise) = &state.precise else {
            return;
        };
        // What it executes has moved its cursor beyond this moment; what interrupts take until then is not known.
        let now = self.run_time(cpu, current_cpu::cursor());
        let late = self.late_decision(cpu);
        for task in &precise.reserved {
            let reserved = self.tasks[*task as usize].reserved.as_ref();
            let wrong = reserved.and_then(|reserved| reserved.waits(now, late));
            self.check_given(cpu, wrong);
        }
    }

    fn check_given(&self, cpu: u32, wrong: Option<String>) {
        if self.host().faults.is_none() {
            self.host().check(Promise::RuntimeGiven, cpu, wrong);
        }
    }

    /// Returns the largest delay of decisions about tasks with reservations on `cpu`.
    fn late_decision(&self, cpu: u32) -> Late {
        let precise = self.cpus[cpu as usize].precise.as_ref();
        let mut each = lag_bounded::SLOP + self.longest_piece();
        if !precise.is_some_and(Precise::deadline_is_on) {
            each += self.period;
        }
        let others = precise.map_or(0, |precise| precise.reserved.len() as u64);
        Late {
            each,
            all: each * (others + 1),
        }
    }

    /// Starts the bandwidth timer of `cpu`, which executes, if a task is throttled on that CPU.
    pub(super) fn start_bandwidth(&mut self, cpu: u32) {
        let is_broken = self.breaks(Promise::RuntimeGiven);
        let state = &mut self.cpus[cpu as usize];
        let (Some(precise), Some(queue)) = (&mut state.precise, state.waiting.deadline()) else {
            return;
        };
        if let Some(until) = queue.next_replenishment().filter(|_| !is_broken) {
            precise.replenishes(until);
        }
    }

    /// Notes that the bandwidth timer of `cpu` fired: the clock of the CPU's run queue stands until the interrupt is
    /// over.
    pub(super) fn bandwidth_fired(&mut self, cpu: u32) {
        if let Some(precise) = &mut self.cpus[cpu as usize].precise {
            precise.is_replenishment_due = true;
        }
    }

    /// Replenishes the tasks of `cpu` whose next period has begun. The bandwidth timer of `cpu`, which executes, fired
    /// in the interrupt that ends now.
    pub(super) fn replenish(&mut self, cpu: u32) {
        let now = self.run_time(cpu, current_cpu::cursor());
        let state = &mut self.cpus[cpu as usize];
        let (Some(precise), Some(queue)) = (&mut state.precise, state.waiting.deadline()) else {
            return;
        };
        if !std::mem::take(&mut precise.is_replenishment_due) {
            return;
        }
        let count = queue.replenish(now);
        self.host().checker.borrow_mut().counts.replenished += count as u64;
        for place in 0..self.reserved_on(cpu) {
            self.has_runtime_again(cpu, place, now);
        }
        self.account(cpu);
        self.start_bandwidth(cpu);
    }

    /// Returns true if the runtime of the task of `cpu` ends only at ticks, so that the task needs ticks.
    pub(super) fn ends_at_tick(&self, cpu: u32) -> bool {
        let state = &self.cpus[cpu as usize];
        let is_on = state.precise.as_ref().is_some_and(Precise::deadline_is_on);
        let is_reserved = |task: TaskId| self.tasks[task as usize].reserved.is_some();
        !is_on && state.current.is_some_and(is_reserved)
    }

    fn reserved_on(&self, cpu: u32) -> usize {
        let precise = self.cpus[cpu as usize].precise.as_ref();
        precise.map_or(0, |precise| precise.reserved.len())
    }

    /// Checks whether the task at `place` in the list of tasks with reservations on `cpu` was replenished at `now`.
    fn has_runtime_again(&mut self, cpu: u32, place: usize, now: RunTime) {
        let state = &mut self.cpus[cpu as usize];
        let (Some(precise), Some(queue)) = (&state.precise, state.waiting.deadline()) else {
            return;
        };
        let task = precise.reserved[place];
        let Some(reserved) = &mut self.tasks[task as usize].reserved else {
            return;
        };
        if !queue.is_throttled(reserved.server.as_ref()) {
            let wrong = reserved.replenished(now);
            self.check_given(cpu, wrong);
        }
    }
}

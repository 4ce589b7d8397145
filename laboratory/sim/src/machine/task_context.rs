//! The programs of tasks, and the operations that a program may call while it executes.

use tickless_core::Port;
use tickless_core::coarse::{ArmError, Tick, Timeout, WheelKind};
use tickless_core::hrtimer::{Expired, Restart};
use tickless_core::platform::CpuId;
use tickless_core::time::{ClockId, Instant};

use crate::baseline::{Soft, Target};
use crate::machine::fired::{self, Fired};
use crate::machine::machine::Machine;
use crate::machine::queue::EventKind;
use crate::machine::scheduler::{Next, TaskId};
use crate::machine::timers::{Coarse, Exact};
use crate::model::cost_model::CacheLine;
use crate::model::current_cpu;
use crate::model::time::Picos;
use crate::promise::{Promise, cancel_means_not_running};

/// The operations that a task may call while it executes, and that callbacks of its timers may call.
#[derive(Debug)]
pub(crate) struct TaskContext<'m> {
    machine: &'m mut Machine,
    task: TaskId,
}

impl<'m> TaskContext<'m> {
    pub(super) const fn new(machine: &'m mut Machine, task: TaskId) -> Self {
        Self { machine, task }
    }

    #[must_use]
    pub(crate) const fn task(&self) -> TaskId {
        self.task
    }

    /// Returns the CPU that executes.
    #[must_use]
    pub(crate) fn cpu(&self) -> u32 {
        current_cpu::cpu()
    }

    /// Returns the true time, without a cost.
    #[must_use]
    pub(crate) fn now(&self) -> Picos {
        current_cpu::cursor()
    }

    /// Returns the time on the monotonic clock, without a cost.
    #[must_use]
    pub(crate) fn shown(&self) -> Picos {
        self.machine.host().shows_picos()
    }

    /// Reads the monotonic clock, at the cost of a read.
    #[must_use]
    pub(crate) fn read_clock(&self) -> Instant {
        self.machine.host().now()
    }

    /// Reads the clock `C`, at the cost of a read of the monotonic clock.
    #[must_use]
    pub(crate) fn read_clock_of<C: ClockId>(&self) -> Instant<C> {
        self.machine.timers.now()
    }

    /// Returns the tick in progress.
    #[must_use]
    pub(crate) fn tick(&self) -> Tick {
        self.machine.tick_time().tick
    }

    #[must_use]
    pub(crate) const fn tick_period(&self) -> Picos {
        self.machine.period
    }

    /// Makes a coarse timer that calls [`expired`](Program::expired) with `index`.
    #[must_use]
    pub(crate) fn coarse(&self, kind: WheelKind, index: u32) -> Coarse {
        Coarse::new(&self.machine.timers, kind, notes(self.task, index))
    }

    /// Makes a coarse timer as [`coarse`](Self::coarse) does, for tasks with many timers: `make` is [`notes`], whose
    /// result type has no name.
    #[must_use]
    pub(crate) fn coarse_of_many<F>(
        &self,
        kind: WheelKind,
        index: u32,
        make: fn(TaskId, u32) -> F,
    ) -> Coarse<F>
    where
        F: FnMut(&mut Timeout) -> Restart + Send + 'static,
    {
        Coarse::with(&self.machine.timers, kind, make(self.task, index))
    }

    /// Makes a coarse timer with a callback of its own. The cost of making it is [charged](charge) by the caller.
    #[must_use]
    pub(crate) fn coarse_with(
        &self,
        kind: WheelKind,
        call: impl FnMut(&mut Timeout) -> Restart + Send + 'static,
    ) -> Coarse {
        Coarse::new(&self.machine.timers, kind, call)
    }

    /// Makes an exact timer whose callback does nothing.
    pub(crate) fn exact(&self) -> Exact {
        Exact::new(&self.machine.timers, |_| Restart::No)
    }

    /// Makes an exact timer with a callback of its own. The cost of making it is [charged](charge) by the caller.
    pub(crate) fn exact_with<C: ClockId>(
        &self,
        call: impl FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
    ) -> Exact<C> {
        Exact::new(&self.machine.timers, call)
    }

    /// Arms an inactive timer to fire when `after` has passed, on the CPU that the policy of the machine selects.
    ///
    /// # Panics
    ///
    /// When the timer is queued.
    pub(crate) fn arm<F>(&mut self, timer: &Coarse<F>, after: Picos)
    where
        F: FnMut(&mut Timeout) -> Restart + Send + 'static,
    {
        let now = self.tick();
        let expiry = self.expiry(after);
        let target = self.target();
        let timers = &self.machine.timers;
        let armed = match target {
            None => timer.pinned().arm(timers, now, expiry),
            Some(cpu) => self.arm_there(timer, cpu, now, expiry),
        };
        assert_eq!(armed, Ok(()), "only an inactive timer is armed");
    }

    /// Arms the timer on `cpu`, or on the executing CPU if `cpu` was taken offline.
    fn arm_there<F>(
        &self,
        timer: &Coarse<F>,
        cpu: u32,
        now: Tick,
        expiry: Tick,
    ) -> Result<(), ArmError>
    where
        F: FnMut(&mut Timeout) -> Restart + Send + 'static,
    {
        let timers = &self.machine.timers;
        match timer.pinned().arm_on(timers, CpuId(cpu), now, expiry) {
            Err(ArmError::Offline(_)) => timer.pinned().arm(timers, now, expiry),
            result => result,
        }
    }

    /// Arms an inactive timer on `cpu`, to which it is pinned.
    ///
    /// # Panics
    ///
    /// When the timer is queued.
    pub(crate) fn arm_on(&mut self, timer: &Coarse, cpu: u32, after: Picos) {
        let now = self.tick();
        let expiry = self.expiry(after);
        let armed = self.arm_there(timer, cpu, now, expiry);
        assert_eq!(armed, Ok(()), "only an inactive timer is armed");
        self.filed_for(cpu);
    }

    /// Makes a timer fire when `after` has passed, whether it is queued or not.
    ///
    /// # Panics
    ///
    /// When the timer was shut down.
    pub(crate) fn modify<F>(&mut self, timer: &Coarse<F>, after: Picos)
    where
        F: FnMut(&mut Timeout) -> Restart + Send + 'static,
    {
        let now = self.tick();
        let expiry = self.expiry(after);
        let Some(target) = self.target() else {
            let host = self.machine.host();
            let before = host.checker.borrow().counts.coarse_arms;
            let modified = timer.pinned().modify(&self.machine.timers, now, expiry);
            assert!(modified.has_armed(), "no timer of a machine is shut down");
            if host.checker.borrow().counts.coarse_arms == before {
                // Two loads and no lock.
                host.checker.borrow_mut().counts.lockless += 1;
                current_cpu::charge(self.machine.model.charges.load * 2);
            }
            return;
        };
        let timers = &self.machine.timers;
        let is_there = timer.pinned().wheel(timers).map(|(cpu, _)| cpu.0) == Some(target);
        if is_there {
            let modified = timer.pinned().modify(timers, now, expiry);
            assert!(modified.has_armed(), "no timer of a machine is shut down");
        } else {
            timer.pinned().delete(timers);
            let armed = self.arm_there(timer, target, now, expiry);
            assert_eq!(armed, Ok(()), "it was taken out before");
        }
    }

    /// Cancels a timer and waits for its callback. Returns true if the timer was queued.
    pub(crate) fn cancel<F>(&mut self, timer: &Coarse<F>) -> bool
    where
        F: FnMut(&mut Timeout) -> Restart + Send + 'static,
    {
        let host = self.machine.host();
        let is_broken = host.breaks(Promise::CancelMeansNotRunning);
        let was_queued = !is_broken && timer.pinned().delete_sync(&self.machine.timers);
        let pinned = timer.pinned();
        if let Some(recorder) = &host.recorder {
            recorder.deleted(&*pinned);
        }
        let wrong =
            cancel_means_not_running::cancelled(pinned.is_active(), || "a timer".to_owned());
        if !host.check(Promise::CancelMeansNotRunning, current_cpu::cpu(), wrong) {
            // One canary, not two.
            pinned.delete_sync(&self.machine.timers);
        }
        was_queued
    }

    pub(crate) fn wake(&mut self, task: TaskId) {
        self.machine.wake(task);
    }

    /// Requests an input from outside for this task, `after` from now, as an interrupt on the task's CPU.
    pub(crate) fn arrive(&mut self, after: Picos) {
        let cpu = self.machine.tasks[self.task as usize].cpu;
        let at = current_cpu::cursor() + after;
        self.machine.push(at, EventKind::Arrival, cpu, self.task);
    }

    /// Writes `lines` cache lines, which are transferred from the CPU that wrote them last.
    pub(crate) fn touch(&self, line: &CacheLine, lines: u64) {
        line.write(&self.machine.model, lines);
    }

    /// Copies so many words, which are in the nearest cache.
    pub(crate) fn copy(&self, words: u64) {
        current_cpu::charge(self.machine.model.charges.load * words);
    }

    /// Notes a value of a series of the outcome.
    pub(crate) fn note(&mut self, series: &'static str, value: Picos) {
        self.machine.note(series, value);
    }

    /// Returns the tick at whose end the time `after` has passed.
    fn expiry(&self, after: Picos) -> Tick {
        let machine = &self.machine;
        machine.host().expiry(after, machine.period)
    }

    /// Returns the CPU on which the policy enqueues a timer that this CPU arms, if that is another CPU.
    fn target(&mut self) -> Option<u32> {
        match self.machine.policy.target {
            Target::Local | Target::Own => None,
            Target::Search => Some(self.find_busy()),
        }
    }

    /// Returns the CPU that takes the timers that the executing CPU arms.
    fn find_busy(&mut self) -> u32 {
        let machine = &mut *self.machine;
        let me = current_cpu::cpu() as usize;
        let mut searcher = std::mem::take(&mut machine.cpus[me].searcher);
        let found = searcher.find_busy(&*machine, &machine.model);
        machine.cpus[me].searcher = searcher;
        found
    }

    /// Interrupts the isolated `cpu` after another CPU enqueued a timer for it, as a bitmap without a lock needs
    /// (baseline).
    fn filed_for(&self, cpu: u32) {
        let machine = &self.machine;
        if machine.policy.soft == Soft::Bitmap
            && machine.isolated[cpu as usize]
            && cpu != current_cpu::cpu()
        {
            machine.host().send(cpu, EventKind::Poke);
        }
    }
}

/// The program of a task, with the steps that it executes. The program makes its timers through its [`TaskContext`].
pub(crate) trait Program {
    /// Takes a step. The operations of a step take their modelled time, and are not interrupted.
    fn step(&mut self, context: &mut TaskContext<'_>) -> Next;

    /// Handles a [timer](TaskContext::coarse) of the task that fired, on the CPU that executes.
    fn expired(&mut self, index: u32, context: &mut TaskContext<'_>) {
        let _ = index;
        let task = context.task();
        context.wake(task);
    }

    /// Handles an input from outside that the task [requested](TaskContext::arrive), in an interrupt on its CPU.
    fn arrived(&mut self, context: &mut TaskContext<'_>) {
        let task = context.task();
        context.wake(task);
    }
}

/// Keeps the executing CPU busy for `time`. Called by callbacks of timers.
pub(crate) fn charge(time: Picos) {
    current_cpu::charge(time);
}

/// Makes the callback of a coarse timer. The callback notes for `task` that its timer `index` fired.
pub(crate) fn notes(
    task: TaskId,
    index: u32,
) -> impl FnMut(&mut Timeout) -> Restart + Send + 'static {
    move |_| {
        fired::note(Fired::Coarse { task, index });
        Restart::No
    }
}

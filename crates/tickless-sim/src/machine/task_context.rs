//! What a program can do when it executes.

use tickless_core::Platform;
use tickless_core::coarse::{ArmError, Kind, Rearm, Tick, Timeout};
use tickless_core::hrtimer::{Expired, Restart};
use tickless_core::platform::CpuId;
use tickless_core::time::{ClockId, Instant};

use crate::baseline::Target;
use crate::baseline::search::find_busy;
use crate::machine::fired::{self, Fired};
use crate::machine::machine::World;
use crate::machine::queue::What;
use crate::machine::scheduler::TaskId;
use crate::machine::timers::{Coarse, Exact};
use crate::model::cost_model::CacheLine;
use crate::model::current_cpu;
use crate::model::time::Picos;
use crate::promise::Promise;

/// The turn of a task, or of the callback of one of its timers.
#[derive(Debug)]
pub(crate) struct Turn<'w> {
    world: &'w mut World,
    task: TaskId,
}

impl<'w> Turn<'w> {
    pub(crate) const fn new(world: &'w mut World, task: TaskId) -> Self {
        Self { world, task }
    }

    /// The task.
    #[must_use]
    pub(crate) const fn task(&self) -> TaskId {
        self.task
    }

    /// The CPU that executes.
    #[must_use]
    pub(crate) fn cpu(&self) -> u32 {
        current_cpu::cpu()
    }

    /// The true time, which costs nothing to know.
    #[must_use]
    pub(crate) fn now(&self) -> Picos {
        current_cpu::cursor()
    }

    /// What the monotonic clock shows, which costs nothing to know.
    #[must_use]
    pub(crate) fn shown(&self) -> Picos {
        self.world.timers.platform().shows_picos()
    }

    /// Reads the clock, which takes time.
    #[must_use]
    pub(crate) fn read_clock(&self) -> Instant {
        self.world.timers.platform().now()
    }

    /// Reads another clock, which takes as long.
    #[must_use]
    pub(crate) fn read_clock_of<C: ClockId>(&self) -> Instant<C> {
        self.world.timers.now()
    }

    /// The tick in progress.
    #[must_use]
    pub(crate) fn tick(&self) -> Tick {
        self.world.tick_time().tick
    }

    /// How long a tick is.
    #[must_use]
    pub(crate) const fn tick_period(&self) -> Picos {
        self.world.period
    }

    /// Makes a coarse timer that calls [`expired`](crate::machine::scheduler::Program::expired) with `index`.
    #[must_use]
    pub(crate) fn coarse(&self, kind: Kind, index: u32) -> Coarse {
        Coarse::new(&self.world.timers, kind, notes(self.task, index))
    }

    /// As [`coarse`](Self::coarse), for tasks that have many: `make` is [`notes`], whose result has no name.
    #[must_use]
    pub(crate) fn coarse_of_many<F>(
        &self,
        kind: Kind,
        index: u32,
        make: fn(TaskId, u32) -> F,
    ) -> Coarse<F>
    where
        F: FnMut(&Timeout) -> Rearm + Send + 'static,
    {
        Coarse::with(&self.world.timers, kind, make(self.task, index))
    }

    /// Makes a coarse timer with a callback of its own. What that takes it [charges](charge) itself.
    #[must_use]
    pub(crate) fn coarse_with(
        &self,
        kind: Kind,
        call: impl FnMut(&Timeout) -> Rearm + Send + 'static,
    ) -> Coarse {
        Coarse::new(&self.world.timers, kind, call)
    }

    /// Makes an exact timer whose callback does nothing.
    pub(crate) fn exact(&self) -> Exact {
        Exact::new(&self.world.timers, |_| Restart::No)
    }

    /// Makes an exact timer with a callback of its own. What that takes it [charges](charge) itself.
    pub(crate) fn exact_with<C: ClockId>(
        &self,
        call: impl FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
    ) -> Exact<C> {
        Exact::new(&self.world.timers, call)
    }

    /// Arms an inactive timer to fire when `after` is over, where the policy of the world says.
    ///
    /// # Panics
    ///
    /// When it is queued.
    pub(crate) fn arm<F>(&mut self, timer: &Coarse<F>, after: Picos)
    where
        F: FnMut(&Timeout) -> Rearm + Send + 'static,
    {
        let now = self.tick();
        let expiry = self.expiry(after);
        let target = self.target();
        let timers = &self.world.timers;
        let armed = match target {
            None => timer.pinned().arm(timers, now, expiry),
            Some(cpu) => self.arm_there(timer, cpu, now, expiry),
        };
        assert_eq!(armed, Ok(()), "only an inactive timer is armed");
    }

    /// Arms it on `cpu`, or here if that was taken off.
    fn arm_there<F>(
        &self,
        timer: &Coarse<F>,
        cpu: u32,
        now: Tick,
        expiry: Tick,
    ) -> Result<(), ArmError>
    where
        F: FnMut(&Timeout) -> Rearm + Send + 'static,
    {
        let timers = &self.world.timers;
        match timer.pinned().arm_on(timers, CpuId(cpu), now, expiry) {
            Err(ArmError::Offline(_)) => timer.pinned().arm(timers, now, expiry),
            result => result,
        }
    }

    /// Arms an inactive timer on `cpu`, to which it is pinned.
    ///
    /// # Panics
    ///
    /// When it is queued.
    pub(crate) fn arm_on(&mut self, timer: &Coarse, cpu: u32, after: Picos) {
        let now = self.tick();
        let expiry = self.expiry(after);
        let armed = self.arm_there(timer, cpu, now, expiry);
        assert_eq!(armed, Ok(()), "only an inactive timer is armed");
        self.world.filed_for(cpu);
    }

    /// Makes a timer fire when `after` is over, whether it is queued or not.
    ///
    /// # Panics
    ///
    /// When it was shut down.
    pub(crate) fn modify<F>(&mut self, timer: &Coarse<F>, after: Picos)
    where
        F: FnMut(&Timeout) -> Rearm + Send + 'static,
    {
        let now = self.tick();
        let expiry = self.expiry(after);
        let Some(target) = self.target() else {
            let host = self.world.timers.platform();
            let before = host.watch.borrow().counts.coarse_arms;
            let modified = timer.pinned().modify(&self.world.timers, now, expiry);
            assert!(modified.is_ok(), "no timer of a world is shut down");
            if host.watch.borrow().counts.coarse_arms == before {
                // Two loads and no lock.
                host.watch.borrow_mut().counts.lockless += 1;
                current_cpu::charge(self.world.model.charges.load * 2);
            }
            return;
        };
        let timers = &self.world.timers;
        let is_there = timer.pinned().wheel(timers).map(|(cpu, _)| cpu.0) == Some(target);
        if is_there {
            let modified = timer.pinned().modify(timers, now, expiry);
            assert!(modified.is_ok(), "no timer of a world is shut down");
        } else {
            timer.pinned().delete(timers);
            let armed = self.arm_there(timer, target, now, expiry);
            assert_eq!(armed, Ok(()), "it was taken out before");
        }
    }

    /// Cancels a timer and waits for its callback; says whether it was queued.
    pub(crate) fn cancel<F>(&mut self, timer: &Coarse<F>) -> bool
    where
        F: FnMut(&Timeout) -> Rearm + Send + 'static,
    {
        let host = self.world.timers.platform();
        let is_broken = host.breaks(Promise::CancelMeansNotRunning);
        let was_queued = !is_broken && timer.pinned().delete_sync(&self.world.timers);
        let pinned = timer.pinned();
        host.record_deleted(&*pinned);
        if !host.is_cancelled(&pinned) {
            // One canary, not two.
            pinned.delete_sync(&self.world.timers);
        }
        was_queued
    }

    /// Wakes a task.
    pub(crate) fn wake(&mut self, task: TaskId) {
        self.world.wake(task);
    }

    /// Asks for something that comes from outside for this task, `after` from now, as an interrupt on its CPU.
    pub(crate) fn arrive(&mut self, after: Picos) {
        let cpu = self.world.tasks[self.task as usize].cpu;
        let at = current_cpu::cursor() + after;
        let host = self.world.timers.platform();
        let mut queue = host.queue.borrow_mut();
        queue.push(at, What::Arrival, cpu, self.task);
    }

    /// Writes `lines` cache lines, which come from where they were written last.
    pub(crate) fn touch(&self, line: &CacheLine, lines: u64) {
        line.write(&self.world.model, lines);
    }

    /// Notes a value of a series of the outcome.
    pub(crate) fn note(&mut self, series: &'static str, value: Picos) {
        self.world.note(series, value);
    }

    /// The tick that has to be over so that `after` is over.
    fn expiry(&self, after: Picos) -> Tick {
        let world = &self.world;
        world.timers.platform().expiry(after, world.period)
    }

    /// Where the policy files what this CPU arms, if it does not stay.
    fn target(&mut self) -> Option<u32> {
        match self.world.policy.target {
            Target::Local | Target::Own => None,
            Target::Search => Some(find_busy(self.world)),
            Target::Single => Some(0),
        }
    }
}

/// The CPU that executes is busy for `time`: for callbacks of timers.
pub(crate) fn charge(time: Picos) {
    current_cpu::charge(time);
}

/// What a coarse timer does that tells its task, as number `index`.
pub(crate) fn notes(task: TaskId, index: u32) -> impl FnMut(&Timeout) -> Rearm + Send + 'static {
    move |_| {
        fired::note(Fired::Coarse { task, index });
        Rearm::No
    }
}

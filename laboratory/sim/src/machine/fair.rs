//! The fair run queue of a CPU, and the slice tick that ends its slices precisely (spec X-5).
//!
//! Tasks with reservations run first, by a [`DeadlineQueue`]. Tasks of [one priority](FAIR) share a [`FairQueue`] of
//! `tickless-sched`. Tasks of higher and lower priorities wait in a [`Fifo`], as tasks of other classes do. [`Precise`]
//! holds the [`HrTick`] of the CPU on a timer of the core, the clock of the run queue, which stands during interrupts,
//! and the mark that a decision is due.
//!
//! A wake-up from another CPU is noted in [`Precise`]. The CPU itself enqueues the task when its interrupt comes,
//! because the accounts of a CPU are kept by its own clock.

use std::rc::Rc;

use tickless_core::base::Timers;
use tickless_core::event::Flush;
use tickless_core::hrtimer::{Restart, Start};
use tickless_core::platform::CpuId;
use tickless_core::time::{Instant, Span};
use tickless_sched::deadline::{Bandwidth, DeadlineQueue, RuntimeLeft};
use tickless_sched::fair::{Sleep, Slice as FairSlice};
use tickless_sched::hrtick::{
    Decision, EXTENSION, Extension, HrTick, LEAST_DELAY, Length, Reschedule, SliceTimer, Switches,
    TOLERANCE, fair_length,
};
use tickless_sched::load::RunClock;
use tickless_sched::{FairQueue, Request, RunTime};

use crate::baseline::{DeadlineTick, Hrtick, Rearm};
use crate::machine::fired::{self, Fired};
use crate::machine::host::Host;
use crate::machine::rearm;
use crate::machine::reserved::DEADLINE;
use crate::machine::scheduler::{Fifo, RunQueue, Task, TaskId};
use crate::machine::timers::{Exact, Operations};
use crate::model::current_cpu;
use crate::model::time::Picos;

/// The priority of tasks that share a CPU fairly, which is the default priority.
pub(crate) const FAIR: u8 = 1;

/// The share of a CPU that reservations may take. The rest is for work that is charged to no task.
pub(crate) const RESERVED_MOST: Bandwidth = Bandwidth::percent(95);

/// A fair queue, with the queues of the higher and the lower priorities.
pub(crate) struct FairClass {
    deadline: DeadlineQueue<TaskId>,
    fair: FairQueue<TaskId>,
    others: Fifo,
}

impl FairClass {
    /// Makes a class without a task.
    pub(super) fn new() -> Self {
        let [key] = tickless_link::id::Realm::new().keys();
        Self {
            deadline: DeadlineQueue::new(RESERVED_MOST),
            fair: FairQueue::new(key),
            others: Fifo::new(None),
        }
    }
}

impl RunQueue for FairClass {
    fn put(&mut self, id: TaskId, task: &Task, preempted: bool, now: RunTime) -> bool {
        if let Some(reserved) = &task.reserved {
            let enqueued = self.deadline.enqueue(reserved.server.as_ref(), id, now);
            return enqueued.expect("it runs or sleeps").preempts;
        }
        if task.priority != FAIR {
            return self.others.put(id, task, preempted, now);
        }
        let runs = self.fair.is_running();
        let enqueued = self.fair.enqueue(task.entity.as_ref(), id, now);
        // A task is in one queue at a time, and is not woken while it waits.
        let enqueued = enqueued.expect("it runs, sleeps, or comes from another CPU");
        runs && enqueued.preempts && !enqueued.was_current
    }

    fn take(&mut self, now: RunTime) -> Option<TaskId> {
        if let Some(task) = self.deadline.pick(now) {
            return Some(task);
        }
        if self.others.preempts(FAIR) {
            return self.others.take(now);
        }
        self.fair.pick(now).or_else(|| self.others.take(now))
    }

    fn give(&mut self, now: RunTime) -> Option<TaskId> {
        self.fair.pull(now)
    }

    fn forgets(&mut self, task: &Task, now: RunTime) {
        // It is here only while it sleeps in debt.
        let _item = self.fair.dequeue(task.entity.as_ref(), now);
    }

    fn movable(&self) -> usize {
        self.fair.waiting()
    }

    fn is_empty(&self) -> bool {
        self.deadline.waiting() == 0 && self.fair.waiting() == 0 && self.others.is_empty()
    }

    fn preempts(&self, priority: u8) -> bool {
        (priority < DEADLINE && self.deadline.waiting() > 0)
            || self.others.preempts(priority)
            || (priority < FAIR && self.fair.waiting() > 0)
    }

    fn slice(&self, _priority: u8) -> Option<Picos> {
        None
    }

    fn stops(&mut self, task: &Task, is_done: bool, now: RunTime) {
        if let Some(reserved) = &task.reserved {
            let server = reserved.server.as_ref();
            let slept = self.deadline.sleep(server, now);
            debug_assert!(slept.is_ok(), "it runs here");
            if is_done {
                let dismissed = self.deadline.dismiss(server);
                debug_assert!(dismissed.is_ok(), "it was admitted here");
            }
            return;
        }
        if task.priority != FAIR {
            return;
        }
        if is_done {
            self.fair.retire(now);
            return;
        }
        let slept: Result<Sleep, _> = self.fair.sleep(task.entity.as_ref(), now);
        debug_assert!(slept.is_ok(), "it runs here");
    }

    fn fair(&mut self) -> Option<&mut FairQueue<TaskId>> {
        Some(&mut self.fair)
    }

    fn deadline(&mut self) -> Option<&mut DeadlineQueue<TaskId>> {
        Some(&mut self.deadline)
    }
}

/// The timer of the tick, on the CPU that executes: a run queue is changed only by its own CPU.
struct Timer<'a> {
    timer: &'a Exact,
    is_lazy: bool,
}

impl<'a> Timer<'a> {
    const fn new(timer: &'a Exact, is_lazy: bool) -> Self {
        Self { timer, is_lazy }
    }
}

impl SliceTimer for Timer<'_> {
    fn now(&self) -> Instant {
        self.timer.timers().platform().read()
    }

    fn queued(&self) -> Option<Instant> {
        // Under the lock of the run queue it does not change: no lock of the base.
        current_cpu::looking(|| self.timer.pinned().deadline(self.timer.timers()))
    }

    fn is_active(&self) -> bool {
        self.timer.pinned().is_active()
    }

    fn start(&self, at: Instant) {
        self.timer.start(Start::at(at));
    }

    fn cancel(&self) {
        self.timer.cancel();
    }

    /// Carries out the owed rearm. At [`Flush::KernelExit`] the rearm is only noted as owed, because a CPU that goes
    /// idle stops its tick first.
    fn flush(&self, place: Flush) {
        let timers = self.timer.timers();
        let cpu = current_cpu::cpu();
        match place {
            Flush::KernelExit => rearm::owe(timers.platform(), cpu),
            // The interrupt that found the slice over may owe nothing.
            Flush::SliceExtension => rearm::pay_if_owed(timers, cpu, place),
            _ => rearm::pay(timers, cpu, place),
        }
    }

    fn fires(&self) -> Option<Instant> {
        let host = self.timer.timers().platform();
        // It is a line of this CPU.
        let armed = host.base_of(current_cpu::cpu()).armed();
        (self.is_lazy && !armed.is_forever()).then_some(armed)
    }

    fn settle(&self) {
        let timers = self.timer.timers();
        let _armed = timers.settle_armed(CpuId(current_cpu::cpu()));
    }
}

/// The precise tick of a CPU, and the state of its run queue.
pub(crate) struct Precise {
    tick: HrTick,
    timer: Exact,
    clock: RunClock,
    /// True if another task may have to run.
    pub(crate) is_decision_due: bool,
    /// Tasks that other CPUs woke and that are not enqueued yet.
    pub(crate) woken: Vec<TaskId>,
    /// The task that ran before, until the next task is known.
    pub(crate) previous: Option<TaskId>,
    /// The latest time of the next decision about the running task, if other tasks wait: its slice is over by then. The
    /// checker of `slice_ends` reads this field.
    pub(crate) decides_by: Picos,
    /// The time up to which the running task is accounted, on the clock of the run queue.
    pub(crate) since: RunTime,
    /// The time at which the running task was picked, on the clock of the run queue and on the wall clock.
    pub(crate) picked_at: (RunTime, Picos),
    /// The request of the running task for an extension of its slice.
    extension: Extension,
    /// The number of extensions of the running task's slice, at most 1. The checker of `slice_ends` reads this field.
    pub(crate) extensions: u32,
    /// The time at which the running task leaves the extended section, if nothing interrupts it.
    pub(crate) section_ends: Picos,
    /// The timer that fires when the first throttled task has runtime again.
    bandwidth: Exact,
    /// True if the replenishment timer fired.
    pub(crate) is_replenishment_due: bool,
    /// The tasks of the CPU that have reservations.
    pub(crate) reserved: Vec<TaskId>,
    /// True if the earlier tick is cancelled, and the device written for that, before each decision (TICK-20, undone).
    cancels_first: bool,
    /// True if the device may be left armed too early.
    is_lazy: bool,
}

impl Precise {
    /// Makes the tick of `cpu`.
    pub(super) fn new(
        timers: &Rc<Timers<Host>>,
        (hrtick, deadline): (Hrtick, DeadlineTick),
        rearm: Rearm,
        cpu: u32,
    ) -> Self {
        let timer = Exact::with_setup(timers, rearm.lazy_setup(), move |_| {
            fired::note(Fired::Slice(cpu));
            Restart::No
        });
        let bandwidth = Exact::new(timers, move |_| {
            fired::note(Fired::Bandwidth(cpu));
            Restart::No
        });
        let switches = Switches {
            fair: hrtick != Hrtick::Off,
            deadline: deadline == DeadlineTick::On,
            filter: hrtick != Hrtick::Unfiltered,
        };
        Self {
            tick: HrTick::new(switches),
            timer,
            clock: RunClock::new(Instant::ZERO),
            is_decision_due: false,
            woken: Vec::new(),
            previous: None,
            decides_by: Picos::FOREVER,
            since: RunTime::ZERO,
            picked_at: (RunTime::ZERO, Picos::ZERO),
            extension: Extension::None,
            extensions: 0,
            section_ends: Picos::FOREVER,
            bandwidth,
            is_replenishment_due: false,
            reserved: Vec::new(),
            cancels_first: rearm == Rearm::Immediate,
            is_lazy: rearm == Rearm::Deferred,
        }
    }

    /// Returns true if slices end at their deadline, and not only at the next tick.
    pub(crate) const fn is_on(&self) -> bool {
        self.tick.fair_is_on()
    }

    /// Returns true if a task with a reservation stops when its runtime is spent, and not only at the next tick.
    pub(crate) const fn deadline_is_on(&self) -> bool {
        self.tick.deadline_is_on()
    }

    pub(crate) fn interrupt_begins(&mut self, at: Picos) {
        self.clock.interrupt_begins(at.instant());
    }

    pub(crate) fn interrupt_ends(&mut self) {
        self.clock.interrupt_ends(current_cpu::cursor().instant());
    }

    /// Returns the time of the run queue's clock at `at`.
    pub(crate) fn shows(&self, at: Picos) -> RunTime {
        self.clock.at(at.instant())
    }

    /// Returns the time that interrupts took until `now`, since the running task was picked.
    pub(crate) fn stolen(&self, now: Picos) -> Picos {
        let (run, began) = self.picked_at;
        let had = picos(self.shows(now).saturating_since(run));
        now.saturating_sub(began).saturating_sub(had)
    }

    /// Notes that the timer fired. `fair` says that a task of the fair class runs.
    pub(crate) fn fired(&mut self, fair: bool) {
        self.is_decision_due |= self.tick.fired(fair) == Reschedule::Hard;
    }

    /// Begins a decision. `owes` says that the interrupt before left the rearm to the decision (FLUSH-5).
    pub(crate) fn begin(&mut self, owes: bool) {
        self.is_decision_due = false;
        self.decides_by = Picos::FOREVER;
        self.extension.picked();
        self.extensions = 0;
        self.section_ends = Picos::FOREVER;
        if self.cancels_first && self.timer.pinned().is_queued() {
            self.timer.cancel();
        }
        self.tick.begin_batch(owes);
    }

    /// Extends the slice of the running task, which should yield the CPU but is in a critical section that it leaves in
    /// `left`. Returns true if the task goes on. The tick ends the extension if the task has not yielded before.
    pub(crate) fn extends(&mut self, left: Picos) -> bool {
        self.extension.ask();
        let timer = Timer::new(&self.timer, self.is_lazy);
        let ticks = self.tick.fair_is_on();
        if !self.extension.grant(ticks, &mut self.tick, &timer) {
            return false;
        }
        let now = current_cpu::cursor();
        self.is_decision_due = false;
        self.extensions += 1;
        self.section_ends = now + left;
        self.decides_by = now + picos(EXTENSION) + picos(TOLERANCE);
        true
    }

    /// Notes that the running task leaves its section. Returns true if the task has to yield the CPU at once.
    pub(crate) fn leaves_section(&mut self) -> bool {
        self.section_ends = Picos::FOREVER;
        self.extension.withdraw()
    }

    /// Starts the tick for a picked task of the fair class, which may be the same task as before. `slice` is the task's
    /// slice, and `runnable` the number of runnable tasks.
    ///
    /// With `forgets` the tick is not started, like in schedulers that overlook a task that is picked again (TICK-8).
    pub(crate) fn picked(&mut self, slice: FairSlice, runnable: usize, forgets: bool) {
        let now = current_cpu::cursor();
        let load = self.clock.load(now.instant());
        let timer = Timer::new(&self.timer, self.is_lazy);
        if !forgets {
            let reschedule = self.tick.picked(slice, runnable, load, true, &timer);
            self.is_decision_due |= reschedule == Reschedule::Hard;
        }
        self.expects(fair_length(slice, runnable, load), now);
    }

    /// Starts the tick for a task with a reservation that was picked or goes on, and that has `left` of its runtime.
    pub(crate) fn picked_deadline(&mut self, left: RuntimeLeft) {
        let timer = Timer::new(&self.timer, self.is_lazy);
        let reschedule = self.tick.picked_deadline(left, &timer);
        self.is_decision_due |= reschedule == Reschedule::Hard;
    }

    /// Starts the bandwidth timer: the first throttled task has runtime again when the clock of the run queue shows
    /// `until`. The distance to `until` is added to the timer's clock.
    ///
    /// Interrupts in the meantime stop the clock of the run queue, so that the timer fires early by their length and is
    /// started again. Each start is for the shortest tick at least, because the timer would otherwise be early again by
    /// the rest of its own interrupt, and so on.
    pub(crate) fn replenishes(&mut self, until: RunTime) {
        let now = current_cpu::cursor();
        let left = until.saturating_since(self.shows(now)).max(LEAST_DELAY);
        let timers = self.bandwidth.timers();
        let at = timers.platform().shows().saturating_add(left);
        let queued = current_cpu::looking(|| self.bandwidth.pinned().deadline(timers));
        // One that is early finds that out, and is started again.
        if queued.is_none_or(|queued| queued > at) {
            self.bandwidth.start(Start::at(at));
        }
    }

    /// Starts the tick if needed: a task was enqueued while a task of the fair class runs.
    pub(crate) fn enqueued(&mut self, slice: FairSlice, runnable: usize) {
        let now = current_cpu::cursor();
        let load = self.clock.load(now.instant());
        let timer = Timer::new(&self.timer, self.is_lazy);
        let reschedule = self.tick.enqueued(Some(slice), runnable, load, &timer);
        self.is_decision_due |= reschedule == Reschedule::Hard;
        // A tick of before is not touched by a task that comes.
        let queued = timer.queued();
        if self.decides_by == Picos::FOREVER {
            self.expects(fair_length(slice, runnable, load), now);
            if let Some(queued) = queued.filter(|_| self.decides_by != Picos::FOREVER) {
                // It is queued by the clock, which may be off by now.
                let fires = self.timer.timers().platform().moment(queued);
                self.decides_by = self.decides_by.max(fires);
            }
        }
    }

    /// Returns true if a decision has begun and not ended.
    pub(crate) const fn decides(&self) -> bool {
        self.tick.in_batch()
    }

    /// Ends a decision: another task runs, or the same task goes on. The tick is started first; then the device is
    /// written, if a rearm is owed.
    pub(crate) fn end(&mut self, is_same: bool) {
        let place = if is_same {
            Flush::SameTask
        } else {
            Flush::Switched
        };
        let timer = Timer::new(&self.timer, self.is_lazy);
        self.tick.end_batch(Decision::Keep, place, &timer);
    }

    /// Ends a decision that found no task.
    pub(crate) fn end_idle(&mut self) {
        // One that is throttled comes back from idle, and that is a switch.
        self.previous = None;
        let timer = Timer::new(&self.timer, self.is_lazy);
        self.tick
            .end_batch(Decision::CancelIfIdle, Flush::KernelExit, &timer);
    }

    /// Stops the timers, because the CPU goes offline.
    pub(crate) fn offline(&mut self) {
        self.tick.offline(&Timer::new(&self.timer, self.is_lazy));
        if self.bandwidth.pinned().is_queued() {
            self.bandwidth.cancel();
        }
        self.decides_by = Picos::FOREVER;
    }

    /// Notes that the CPU is online again.
    pub(crate) const fn online(&mut self) {
        self.tick.online();
    }

    fn expects(&mut self, length: Length, now: Picos) {
        if !self.is_on() {
            return;
        }
        self.decides_by = match length {
            Length::Nothing => Picos::FOREVER,
            Length::Over => now,
            Length::Left(span) => now + picos(span.max(LEAST_DELAY)) + picos(TOLERANCE),
        };
    }
}

/// Returns the request of tasks without one of their own, in a scenario with slices of this length.
pub(crate) fn request(slice: Option<Picos>) -> Request {
    slice.map_or(Request::DEFAULT, |slice| {
        Request::clamped(Span::from_nanos(slice.as_nanos()))
    })
}

fn picos(span: Span) -> Picos {
    Picos::from_nanos(span.as_nanos())
}

//! The fair run queue of a CPU, and the slice tick that ends its slices precisely (spec X-5).
//!
//! Tasks with reservations come first, by a [`DeadlineQueue`]. Tasks of [one priority](FAIR) share a [`FairQueue`] of
//! `tickless-sched`; those above and below it stand in a [`Fifo`], as tasks of other classes do. [`Precise`] is the
//! [`HrTick`] of the CPU on a timer of the core, and what a run queue knows besides: the clock that stands while
//! interrupts have the CPU, and whether a decision is due.
//!
//! A wake-up from another CPU is noted there, and filed by the CPU itself when its interrupt comes: accounts of a CPU
//! are kept by its own clock.

use std::rc::Rc;

use tickless_core::base::Timers;
use tickless_core::event::Flush;
use tickless_core::hrtimer::{Restart, Start};
use tickless_core::platform::CpuId;
use tickless_core::time::{Instant, Span};
use tickless_sched::deadline::{Bandwidth, DeadlineQueue, RuntimeLeft};
use tickless_sched::fair::{Rules, Sleep, Slice as FairSlice};
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
use crate::machine::timers::Exact;
use crate::model::current_cpu;
use crate::model::time::Picos;

/// The priority of tasks that share a CPU fairly: the one of tasks that say nothing.
pub(crate) const FAIR: u8 = 1;

/// The share of a CPU that reservations may take: the rest is for work that no task is charged for.
pub(crate) const RESERVED_MOST: Bandwidth = Bandwidth::percent(95);

/// A fair queue between those of the classes above and below it.
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
            fair: FairQueue::new(key, Rules::default()),
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

/// The timer of the tick, on the CPU that executes: a run queue is only ever changed by its own CPU.
struct Timer<'a> {
    timer: &'a Exact,
    /// The timer is lazy.
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

    /// A CPU that goes idle stops its tick first: it pays behind that.
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
    /// Another task may have to run.
    pub(crate) is_decision_due: bool,
    /// Tasks that other CPUs woke, and that are not filed yet.
    pub(crate) woken: Vec<TaskId>,
    /// The task that ran before, while it is not known which one is next.
    pub(crate) previous: Option<TaskId>,
    /// The latest time of the next decision about the running task: by then its slice is over, and others wait. The
    /// checker of `slice_ends` reads it.
    pub(crate) decides_by: Picos,
    /// The time up to which the running task is accounted, on the clock of the run queue.
    pub(crate) since: RunTime,
    /// The time at which it was picked, on that clock and on the wall's.
    pub(crate) picked_at: (RunTime, Picos),
    /// The wish of the task that runs.
    extension: Extension,
    /// The number of extensions of its slice, which is one at most. The checker of `slice_ends` reads it.
    pub(crate) extensions: u32,
    /// The time at which it leaves the extended section, if nothing interrupts it.
    pub(crate) section_ends: Picos,
    /// Fires when the first task that is throttled has runtime again.
    bandwidth: Exact,
    /// True if the replenishment timer fired.
    pub(crate) is_replenishment_due: bool,
    /// The tasks of the CPU that have reservations.
    pub(crate) reserved: Vec<TaskId>,
    /// A tick of before is taken out, and written for, before each decision (TICK-20, undone).
    cancels_first: bool,
    /// The device may be left armed too early.
    is_lazy: bool,
}

impl Precise {
    /// The tick of `cpu`.
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

    /// Returns true if slices end at their deadline, and not at the next tick.
    pub(crate) const fn is_on(&self) -> bool {
        self.tick.fair_is_on()
    }

    /// Returns true if a task with a reservation stops when its runtime is spent, and not at the next tick.
    pub(crate) const fn deadline_is_on(&self) -> bool {
        self.tick.deadline_is_on()
    }

    /// An interrupt begins at `at`.
    pub(crate) fn interrupt_begins(&mut self, at: Picos) {
        self.clock.interrupt_begins(at.instant());
    }

    /// The interrupt that the CPU executes ends.
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

    /// The timer fired. `fair` says that a task of the fair class runs.
    pub(crate) fn fired(&mut self, fair: bool) {
        self.is_decision_due |= self.tick.fired(fair) == Reschedule::Hard;
    }

    /// A decision begins. `owes` says that the interrupt before left the device to it (FLUSH-5).
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

    /// The task that runs has to make room, and is in a critical section, which it leaves in `left`. Returns true if it
    /// goes on for a little instead. The tick ends that, if the task is not done before.
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

    /// The task that runs leaves its section. Returns true if it has to make room at once.
    pub(crate) fn leaves_section(&mut self) -> bool {
        self.section_ends = Picos::FOREVER;
        self.extension.withdraw()
    }

    /// A task of the fair class was picked, another one or the same; `slice` is what it has, and `runnable` how many
    /// there are.
    ///
    /// With `forgets` the tick is not started, as by schedulers that overlook a task that is picked again (TICK-8).
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

    /// A task with a reservation was picked, or goes on; it has so much `left` of its runtime.
    pub(crate) fn picked_deadline(&mut self, left: RuntimeLeft) {
        let timer = Timer::new(&self.timer, self.is_lazy);
        let reschedule = self.tick.picked_deadline(left, &timer);
        self.is_decision_due |= reschedule == Reschedule::Hard;
    }

    /// The first task that is throttled has runtime again when the clock of the run queue shows `until`: what that is
    /// ahead is added to the clock of the timer.
    ///
    /// The timer is early by the interrupts that come meanwhile, and then started again, for as long as the shortest
    /// tick at least: it would be early by the rest of that interrupt again, and so on.
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

    /// A task came to wait while one of the fair class runs.
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

    /// A decision began and did not end.
    pub(crate) const fn decides(&self) -> bool {
        self.tick.in_batch()
    }

    /// A decision ends: another task runs, or the same goes on. First the tick, then the device, if that is owed.
    pub(crate) fn end(&mut self, is_same: bool) {
        let place = if is_same {
            Flush::SameTask
        } else {
            Flush::Switched
        };
        let timer = Timer::new(&self.timer, self.is_lazy);
        self.tick.end_batch(Decision::Keep, place, &timer);
    }

    /// A decision ends: no task runs.
    pub(crate) fn end_idle(&mut self) {
        // One that is throttled comes back from idle, and that is a switch.
        self.previous = None;
        let timer = Timer::new(&self.timer, self.is_lazy);
        self.tick
            .end_batch(Decision::CancelIfIdle, Flush::KernelExit, &timer);
    }

    /// The CPU leaves.
    pub(crate) fn offline(&mut self) {
        self.tick.offline(&Timer::new(&self.timer, self.is_lazy));
        if self.bandwidth.pinned().is_queued() {
            self.bandwidth.cancel();
        }
        self.decides_by = Picos::FOREVER;
    }

    /// The CPU is back.
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

/// The request of tasks that say nothing, in a scenario whose slices are so long.
pub(crate) fn request(slice: Option<Picos>) -> Request {
    slice.map_or(Request::DEFAULT, |slice| {
        Request::clamped(Span::from_nanos(slice.as_nanos()))
    })
}

fn picos(span: Span) -> Picos {
    Picos::from_nanos(span.as_nanos())
}

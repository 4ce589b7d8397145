//! Tasks on the first CPU: threads that the queues of `tickless-sched` schedule, and that the tick of the CPU preempts.
//!
//! The tick is a lazy timer that each switch restarts. When it fires, the interrupt notes that a decision is due; the
//! end of the interrupt decides, restarts the tick, writes the device once for the interrupt and the tick, and
//! continues with the chosen thread, on its stack. A second timer fires at the begin of the next period of a
//! [reservation](Want::Reserved) whose runtime is spent. A task that asked for an extension has a little more time at
//! the end of its slice, once.
//!
//! The clock of the queues stands still during an interrupt, so no task is charged for the interrupt. The clock
//! continues at the decision at the end of the interrupt, or at the end itself if the interrupt makes no decision.

use alloc::boxed::Box;
use core::pin::Pin;

use tickless_core::event::Flush;
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Stage, Start};
use tickless_core::link::lock::Lock;
use tickless_core::platform::CpuId;
use tickless_core::time::{Instant, Monotonic};
use tickless_sched::hrtick::{
    CoreHost, CoreTimer, Decision, Extension, LEAST_DELAY, Reschedule, SETUP, Stats, Switches,
};
use tickless_sched::load::RunClock;
use tickless_sched::{HrTick, Request, RunTime, Weight};

use crate::arch;
use crate::classes::{Classes, Rest, Want};
use crate::host::Host;
use crate::idle;
use crate::late::Late;
use crate::lock::MaskingLock;
use crate::machine::machine;
use crate::note::Note;
use crate::soft;
use crate::thread::{Thread, switch};

/// The most tasks of a run.
pub(crate) const MOST: usize = 40;
/// The slice of the thread that does the rest of soft work: a stage.
const REST: Want = Want::Share(Weight::UNIT, Request::clamped(soft::TIME));

pub(crate) type Function = fn(&mut Expired<'_, '_, Monotonic>) -> Restart;

/// The lazy timer of the tick; `EXACT` is a timer of the tick that is not lazy.
pub(crate) static LAZY: HrTimer<Function> = HrTimer::with_setup(SETUP, false, slice_ends);
static EXACT: HrTimer<Function> =
    HrTimer::with_setup(Setup::new().stage(Stage::Hard), false, slice_ends);
/// The timer of the next period.
static PERIOD: HrTimer<Function> =
    HrTimer::with_setup(Setup::new().stage(Stage::Hard), false, period_begins);
static TASKS: Late<Lock<MaskingLock, Tasks>> = Late::new();
static THREADS: Late<[Thread; MOST + 1]> = Late::new();
/// True while tasks run, on the first CPU.
static IS_ON: Note = Note::new();
/// The thread of the kernel itself, which runs the tests.
static KERNEL: Thread = Thread::running();

/// The behaviour of the tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tick {
    pub(crate) is_lazy: bool,
    pub(crate) filter: bool,
    /// True if slices end at all.
    pub(crate) slices: bool,
}

impl Tick {
    /// The tick with all its mechanisms.
    pub(crate) const WHOLE: Self = Self {
        is_lazy: true,
        filter: true,
        slices: true,
    };
}

/// The counts of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ran {
    /// The time at which all tasks were queued.
    pub(crate) began: Instant,
    /// The number of times that a task was chosen to run.
    pub(crate) switches: u64,
    /// The number of times that an interrupt took the CPU from one task for another one.
    pub(crate) preempted: u64,
    /// Tasks that did not finish.
    pub(crate) left: usize,
    /// The number of times that a task got an extension.
    pub(crate) extended: u64,
    /// The counts of the tick.
    pub(crate) tick: Stats,
}

struct Tasks {
    classes: Classes,
    tick: HrTick,
    clock: RunClock,
    /// The request of the running task for an extension.
    extension: Extension,
    /// The begin of the period for which [`PERIOD`] was started.
    replenishes: Option<RunTime>,
    running: Option<usize>,
    /// The number of the thread that does the rest of soft work, and whether it is awake.
    rest: usize,
    is_rest_awake: bool,
    timer: Pin<&'static HrTimer<Function>>,
    is_ended: bool,
    ran: Ran,
}

/// The state in which the running task leaves the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    Ready,
    Asleep,
    Finished,
}

/// The way to kick the CPU of the tasks when another CPU requests the tick.
struct Kicks;

impl CoreHost for Kicks {
    fn kick(&self, cpu: CpuId) {
        let cpu = cpu.0 as usize;
        machine().host().local(cpu).is_tick_kicked.leave();
        arch::interrupt_cpu(cpu);
    }

    fn masked(&self, work: impl FnOnce()) {
        let before = arch::mask();
        work();
        arch::restore(before);
    }
}

type SliceTimer<'a> = CoreTimer<'a, Host, Function, Kicks>;

impl Tasks {
    fn timer(&self) -> SliceTimer<'static> {
        CoreTimer::new(machine().timers, self.timer, CpuId(0), Kicks)
    }

    /// Chooses the task that runs next. `owes` is true if the interrupt that ends here left the device unwritten.
    fn decide(&mut self, leaves: Leaves, owes: bool) {
        let instant = machine().now();
        let now = self.clock.at(instant);
        let timer = self.timer();
        self.tick.begin_batch(owes);
        let before = self.running;
        if let Some(task) = self.running.take() {
            match leaves {
                Leaves::Ready => {
                    let _preempts = self.classes.enqueue(task, now);
                }
                Leaves::Asleep => self.classes.sleep(task, now),
                Leaves::Finished => self.ran.left -= 1,
            }
        }
        self.running = self.classes.pick(now);
        // A run that is ended from outside lets go of all that is queued.
        while self.is_ended && self.running.is_some() {
            self.running = self.classes.pick(now);
        }
        self.extension.picked();
        self.ran.switches += 1;
        self.await_period(instant);
        let decision = match self.classes.rest(now) {
            Some(Rest::Runtime(left)) => {
                let _later = self.tick.picked_deadline(left, &timer);
                Decision::Keep
            }
            Some(Rest::Slice(slice)) => {
                let load = self.clock.load(instant);
                let runnable = self.classes.fair_runnable();
                let _later = self.tick.picked(slice, runnable, load, true, &timer);
                Decision::Keep
            }
            None => Decision::CancelIfIdle,
        };
        let end = if self.running == before {
            Flush::SameTask
        } else {
            Flush::Switched
        };
        self.tick.end_batch(decision, end, &timer);
    }

    /// Handles a due decision: returns true if the running task gets an extension instead, and the device is written.
    fn is_extended(&mut self) -> bool {
        let has_ticks = if self.classes.runs_reserved() {
            self.tick.deadline_is_on()
        } else {
            self.tick.fair_is_on()
        };
        let timer = self.timer();
        let is_extended = !self.is_ended && self.extension.grant(has_ticks, &mut self.tick, &timer);
        self.ran.extended += u64::from(is_extended);
        is_extended
    }

    /// Returns true if no task can run, and one will be able to run when its next period begins.
    fn is_waiting(&self) -> bool {
        self.running.is_none() && self.replenishes.is_some() && !self.is_ended
    }

    /// Starts the timer of the next period, if a task waits for a period for which the timer was not started.
    fn await_period(&mut self, now: Instant) {
        let next = self.classes.next_replenishment();
        if next == self.replenishes {
            return;
        }
        self.replenishes = next;
        let (timer, timers) = (Pin::static_ref(&PERIOD), machine().timers);
        match next {
            Some(next) => {
                // Early by the interrupts that come meanwhile, and then started again: not at once, or it would be
                // early by the rest of its own interrupt, and so on.
                let soonest = now.saturating_add(LEAST_DELAY);
                let at = self.clock.expiry(next, now).max(soonest);
                let _started = timer.start(timers, Start::at(at).pinned());
            }
            None => {
                let _removed = timer.try_cancel(timers);
            }
        }
    }

    /// Wakes a task; returns true if the task preempts the running one.
    fn wake(&mut self, task: usize) -> bool {
        let instant = machine().now();
        let now = self.clock.at(instant);
        let preempts = self.classes.enqueue(task, now);
        self.await_period(instant);
        let ends = match self.classes.rest(now) {
            Some(Rest::Slice(slice)) => {
                let runnable = self.classes.fair_runnable();
                let load = self.clock.load(instant);
                let timer = self.timer();
                let slice = Some(slice);
                self.tick.enqueued(slice, runnable, load, &timer) == Reschedule::Hard
            }
            Some(Rest::Runtime(_)) | None => false,
        };
        ends || (self.running.is_some() && preempts)
    }
}

/// Handles the tick: a decision is due at the end of the interrupt.
pub(crate) fn slice_ends(_: &mut Expired<'_, '_, Monotonic>) -> Restart {
    machine().host().here().must_decide.leave();
    if let Some(tasks) = TASKS.get() {
        let mut tasks = tasks.lock(None);
        let is_fair = !tasks.classes.runs_reserved();
        // Of either class it decides: a task that has runtime left is picked again, with its tick.
        let _decides = tasks.tick.fired(is_fair);
    }
    Restart::No
}

/// Handles the begin of a period, in which a task has runtime again. The decision gives the task its runtime, or starts
/// the timer again if interrupts took time since.
fn period_begins(_: &mut Expired<'_, '_, Monotonic>) -> Restart {
    machine().host().here().must_decide.leave();
    if let Some(tasks) = TASKS.get() {
        tasks.lock(None).replenishes = None;
    }
    Restart::No
}

/// Returns the tasks, if they run on the executing CPU.
fn running_here() -> Option<&'static Lock<MaskingLock, Tasks>> {
    let is_here = IS_ON.is_there() && arch::cpu() == 0;
    TASKS.get().filter(|_| is_here)
}

/// Begins an interrupt, for the clock. The interrupt is not nested in another one.
pub(crate) fn interrupt_begins() {
    if let Some(tasks) = running_here() {
        tasks.lock(None).clock.interrupt_begins(machine().now());
    }
}

/// Ends the interrupt for the clock: the CPU continues, or a task is chosen.
pub(crate) fn interrupt_ends() {
    if let Some(tasks) = running_here() {
        tasks.lock(None).clock.interrupt_ends(machine().now());
    }
}

/// Ends an interrupt that ended a slice: chooses another task, writes the device, calls `written`, and continues with
/// the task.
pub(crate) fn decide_in_interrupt(owes: bool, written: impl FnOnce()) {
    let Some(tasks) = TASKS.get() else {
        return;
    };
    let (from, to) = {
        let mut tasks = tasks.lock(None);
        if tasks.is_extended() {
            // It flushed the device in place of the decision (FLUSH-7).
            written();
            return;
        }
        let from = tasks.running;
        tasks.decide(Leaves::Ready, owes);
        let to = tasks.running;
        tasks.ran.preempted += u64::from(from.is_some() && from != to);
        (from, to)
    };
    written();
    go_on(from, to);
}

/// Continues with the chosen task, masked.
fn go_on(from: Option<usize>, to: Option<usize>) {
    let threads = THREADS.get();
    let thread = |task: Option<usize>| match (task, threads) {
        (Some(task), Some(threads)) => &threads[task],
        _ => &KERNEL,
    };
    if from != to {
        switch(thread(from), thread(to));
    }
}

/// Makes the executing task sleep until [`wake`], or end; another task continues. Called masked, and returns masked.
pub(crate) fn leave(leaves: Leaves) {
    let Some(tasks) = TASKS.get() else {
        return;
    };
    let (from, to) = {
        let mut tasks = tasks.lock(None);
        let from = tasks.running;
        tasks.decide(leaves, false);
        (from, tasks.running)
    };
    go_on(from, to);
}

/// Returns the number of bytes of the stack of `task` that were ever used.
pub(crate) fn stack_used(task: usize) -> usize {
    THREADS.get().map_or(0, |threads| threads[task].used())
}

/// Wakes a task that sleeps; returns true if the running task, which calls this, has to let it run.
pub(crate) fn wake(task: usize) -> bool {
    TASKS.get().is_some_and(|tasks| tasks.lock(None).wake(task))
}

/// Wakes a task that sleeps, from another CPU than that of the tasks. The tick or the decision reaches the CPU of the
/// tasks as an interrupt.
pub(crate) fn wake_from_afar(task: usize) {
    let Some(tasks) = TASKS.get() else {
        return;
    };
    if tasks.lock(None).wake(task) {
        machine().host().local(0).must_decide.leave();
        arch::interrupt_cpu(0);
    }
}

/// Returns true if the thread that does the rest of soft work is awake on the executing CPU: no interrupt takes the work
/// from it, or the interrupted thread would pay for both.
pub(crate) fn has_the_rest() -> bool {
    running_here().is_some_and(|tasks| tasks.lock(None).is_rest_awake)
}

/// Gives the rest of the soft work of the executing CPU to its thread for that. Called masked, in an interrupt. Returns
/// false if the CPU has no threads.
pub(crate) fn do_the_rest() -> bool {
    let Some(tasks) = running_here() else {
        return false;
    };
    let mut tasks = tasks.lock(None);
    let thread = tasks.rest;
    if !core::mem::replace(&mut tasks.is_rest_awake, true)
        && (tasks.wake(thread) || tasks.running.is_none())
    {
        machine().host().here().must_decide.leave();
    }
    true
}

/// The thread that does the rest of soft work: after each stage it lets another thread run.
fn rest(_: usize) {
    let machine = machine();
    let local = machine.host().here();
    arch::mask();
    loop {
        if soft::is_due(local) {
            soft::stage(machine, local);
            local.must_decide.set(false);
            leave(Leaves::Ready);
        } else {
            if let Some(tasks) = TASKS.get() {
                tasks.lock(None).is_rest_awake = false;
            }
            leave(Leaves::Asleep);
        }
    }
}

/// Wakes a task that sleeps, from the callback of a timer: the interrupt that calls it decides at its end.
pub(crate) fn wake_in_interrupt(task: usize) {
    let Some(tasks) = TASKS.get() else {
        return;
    };
    let mut tasks = tasks.lock(None);
    if tasks.wake(task) || tasks.running.is_none() {
        machine().host().here().must_decide.leave();
    }
}

/// Requests an extension for the executing task, in case its slice ends soon.
pub(crate) fn ask_for_more() {
    if let Some(tasks) = TASKS.get() {
        tasks.lock(None).extension.ask();
    }
}

/// Gives up the extension of the executing task, and lets another task run if the task had more time already.
pub(crate) fn need_no_more() {
    let before = arch::mask();
    let makes_room = TASKS
        .get()
        .is_some_and(|tasks| tasks.lock(None).extension.withdraw());
    if makes_room {
        leave(Leaves::Ready);
    }
    arch::restore(before);
}

/// Handles the kick for a tick that another CPU requested. The kick comes as an interrupt to the CPU of the tasks.
pub(crate) fn tick_kicked() {
    if let Some(tasks) = TASKS.get() {
        let mut tasks = tasks.lock(None);
        let (timer, is_idle) = (tasks.timer(), tasks.running.is_none());
        tasks.tick.kicked(is_idle, &timer);
    }
}

/// Ends the run from an interrupt, at any point of its tasks.
pub(crate) fn end() {
    if let Some(tasks) = TASKS.get() {
        tasks.lock(None).is_ended = true;
    }
    machine().host().here().must_decide.leave();
}

/// Runs a task for each of `wants`, all of them with `body(its number)`, until no task can continue.
///
/// # Panics
///
/// When the reservations exceed the limit.
pub(crate) fn run(tick: Tick, wants: &[Want], body: fn(usize)) -> Ran {
    let timer = Pin::static_ref(if tick.is_lazy { &LAZY } else { &EXACT });
    run_by(timer, tick, wants, body)
}

/// Runs tasks as [`run`] does, by a tick of the caller, whose callback calls [`slice_ends`].
pub(crate) fn run_by(
    timer: Pin<&'static HrTimer<Function>>,
    tick: Tick,
    wants: &[Want],
    body: fn(usize),
) -> Ran {
    let fresh = Tasks {
        classes: Classes::new(&[wants, &[REST]].concat()).expect("the reservations fit"),
        tick: HrTick::new(Switches {
            fair: tick.slices,
            deadline: tick.slices,
            filter: tick.filter,
        }),
        clock: RunClock::new(machine().now()),
        extension: Extension::default(),
        replenishes: None,
        running: None,
        rest: wants.len(),
        is_rest_awake: false,
        timer,
        is_ended: false,
        ran: Ran {
            began: Instant::ZERO,
            switches: 0,
            preempted: 0,
            left: wants.len(),
            extended: 0,
            tick: Stats::default(),
        },
    };
    let threads = match THREADS.get() {
        Some(threads) => threads,
        None => THREADS.set(Box::new(core::array::from_fn(|_| Thread::new()))),
    };
    let tasks = match TASKS.get() {
        None => TASKS.set(Box::new(Lock::new(MaskingLock::new(), fresh))),
        Some(tasks) => {
            *tasks.lock(None) = fresh;
            tasks
        }
    };
    let before = arch::mask();
    {
        let mut tasks = tasks.lock(None);
        tasks.ran.began = machine().now();
        let now = tasks.clock.at(tasks.ran.began);
        for (task, thread) in threads.iter().enumerate().take(wants.len()) {
            thread.begin(body, task);
            let _preempts = tasks.classes.enqueue(task, now);
        }
        threads[wants.len()].begin(rest, 0);
    }
    IS_ON.leave();
    leave(Leaves::Ready);
    idle::until(|| !tasks.lock(None).is_waiting());
    IS_ON.set(false);
    arch::restore(before);
    for timer in [timer, Pin::static_ref(&PERIOD)] {
        let _removed = timer.try_cancel(machine().timers);
    }
    let tasks = tasks.lock(None);
    Ran {
        tick: tasks.tick.stats(),
        ..tasks.ran
    }
}

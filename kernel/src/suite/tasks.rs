//! Tasks on the first CPU: threads that the queues of `tickless-sched` choose among, and that its tick preempts.
//!
//! The tick is a lazy timer that each switch restarts. When it fires, the interrupt notes that a decision is due; the
//! end of the interrupt decides, restarts the tick, writes the device for both, and goes on with the thread that was
//! chosen, on its stack. A second timer fires when the next period of a [reservation](Want::Reserved) begins whose
//! runtime is spent. A task that asked for it has a little more time at the end of its slice, once.
//!
//! The clock of the queues stands while an interrupt has the CPU, from its entry to the decision at its end, or to its
//! end if there is none: no task is charged for that.

use alloc::boxed::Box;
use core::pin::Pin;

use tickless_core::event::Flush;
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Stage, Start};
use tickless_core::link::lock::Lock;
use tickless_core::platform::CpuId;
use tickless_core::time::{Instant, Monotonic, Span};
use tickless_sched::hrtick::{
    CoreHost, CoreTimer, Decision, Extension, LEAST_DELAY, Reschedule, SETUP, Stats, Switches,
};
use tickless_sched::load::RunClock;
use tickless_sched::{HrTick, RunTime};

use super::classes::{Classes, Rest, Want};
use super::timer;
use crate::arch;
use crate::host::{Host, Note};
use crate::idle;
use crate::late::Late;
use crate::lock::MaskingLock;
use crate::machine::{Machine, machine};
use crate::thread::{Thread, switch};

/// The most tasks of a run.
pub(super) const MOST: usize = 40;

pub(super) type Function = fn(&mut Expired<'_, '_, Monotonic>) -> Restart;

/// The timer of the tick, lazy and not.
pub(super) static LAZY: HrTimer<Function> = HrTimer::with_setup(SETUP, false, slice_ends);
static EXACT: HrTimer<Function> =
    HrTimer::with_setup(Setup::new().stage(Stage::Hard), false, slice_ends);
/// The timer of the next period.
static PERIOD: HrTimer<Function> =
    HrTimer::with_setup(Setup::new().stage(Stage::Hard), false, period_begins);
static TASKS: Late<Lock<MaskingLock, Tasks>> = Late::new();
static THREADS: Late<[Thread; MOST]> = Late::new();
/// True while tasks run, on the first CPU.
static IS_ON: Note = Note::new();
/// The kernel itself, which runs the tests.
static KERNEL: Thread = Thread::running();

/// The behaviour of the tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tick {
    pub(super) is_lazy: bool,
    pub(super) filter: bool,
    /// Slices end at all.
    pub(super) slices: bool,
}

impl Tick {
    /// All of it.
    pub(super) const WHOLE: Self = Self {
        is_lazy: true,
        filter: true,
        slices: true,
    };
}

/// The counts of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    /// The time at which all tasks were queued.
    pub(super) began: Instant,
    /// The number of times that a task was chosen.
    pub(super) switches: u64,
    /// The number of times that an interrupt took the CPU from one task for another one.
    pub(super) preempted: u64,
    /// Tasks that did not finish.
    pub(super) left: usize,
    /// The number of times that a task had a little more time.
    pub(super) extended: u64,
    /// The counts of the tick.
    pub(super) tick: Stats,
}

struct Tasks {
    classes: Classes,
    tick: HrTick,
    clock: RunClock,
    /// The wish of the task that runs for a little more time.
    extension: Extension,
    /// The begin of the period for which [`PERIOD`] was started.
    replenishes: Option<RunTime>,
    running: Option<usize>,
    timer: Pin<&'static HrTimer<Function>>,
    is_ended: bool,
    ran: Ran,
}

/// The state in which the running task leaves the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    Ready,
    Asleep,
    Finished,
}

/// The way to the CPU of the tasks, for a tick that another CPU asks for.
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

    /// Chooses the task that runs next. `owes`: the interrupt that this ends left the device unwritten.
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

    /// A decision is due: true if the task that runs has a little more time in place of it, and the device is written.
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

    /// Returns true if no task can run and one will, by itself.
    fn is_waiting(&self) -> bool {
        self.running.is_none() && self.replenishes.is_some() && !self.is_ended
    }

    /// Starts the timer of the next period, if a task waits for one that it was not started for.
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

    /// Wakes a task; true if that preempts the one that runs.
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

/// The callback of a tick: a decision is due at the end of the interrupt.
pub(super) fn slice_ends(_: &mut Expired<'_, '_, Monotonic>) -> Restart {
    machine().host().here().must_decide.leave();
    if let Some(tasks) = TASKS.get() {
        let mut tasks = tasks.lock(None);
        let is_fair = !tasks.classes.runs_reserved();
        // Of either class it decides: a task that has runtime left is picked again, with its tick.
        let _decides = tasks.tick.fired(is_fair);
    }
    Restart::No
}

/// A task has runtime again: the decision gives it that, or starts the timer again where interrupts took time since.
fn period_begins(_: &mut Expired<'_, '_, Monotonic>) -> Restart {
    machine().host().here().must_decide.leave();
    if let Some(tasks) = TASKS.get() {
        tasks.lock(None).replenishes = None;
    }
    Restart::No
}

/// The tasks of the executing CPU, if they run there.
fn running_here() -> Option<&'static Lock<MaskingLock, Tasks>> {
    let is_here = IS_ON.is_there() && arch::cpu() == 0;
    TASKS.get().filter(|_| is_here)
}

/// Begins an interrupt, for the clock, that is not on top of another one.
pub(crate) fn interrupt_begins() {
    if let Some(tasks) = running_here() {
        tasks.lock(None).clock.interrupt_begins(machine().now());
    }
}

/// Ends the interrupt for the clock: the CPU goes on, or a task is chosen.
pub(crate) fn interrupt_ends() {
    if let Some(tasks) = running_here() {
        tasks.lock(None).clock.interrupt_ends(machine().now());
    }
}

/// The end of an interrupt that ended a slice: another task is chosen, the device is written, which `written` is told,
/// and the CPU goes on with the task.
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

/// The executing task sleeps until [`wake`], or ends: another one goes on. Called masked, and returns masked.
pub(super) fn leave(leaves: Leaves) {
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
pub(super) fn stack_used(task: usize) -> usize {
    THREADS.get().map_or(0, |threads| threads[task].used())
}

/// Wakes a task that sleeps; true if the running task, which does this, is to let it run.
pub(super) fn wake(task: usize) -> bool {
    TASKS.get().is_some_and(|tasks| tasks.lock(None).wake(task))
}

/// Wakes a task that sleeps, from another CPU than that of the tasks: the tick, or the decision, comes there as an
/// interrupt.
pub(super) fn wake_from_afar(task: usize) {
    let Some(tasks) = TASKS.get() else {
        return;
    };
    if tasks.lock(None).wake(task) {
        machine().host().local(0).must_decide.leave();
        arch::interrupt_cpu(0);
    }
}

/// Wakes a task that sleeps, from the callback of a timer: the interrupt that calls it decides at its end.
pub(super) fn wake_in_interrupt(task: usize) {
    let Some(tasks) = TASKS.get() else {
        return;
    };
    let mut tasks = tasks.lock(None);
    if tasks.wake(task) || tasks.running.is_none() {
        machine().host().here().must_decide.leave();
    }
}

/// The executing task asks for a little more time, should its slice end soon.
pub(super) fn ask_for_more() {
    if let Some(tasks) = TASKS.get() {
        tasks.lock(None).extension.ask();
    }
}

/// The executing task needs no more time, and makes room if it had more.
pub(super) fn need_no_more() {
    let before = arch::mask();
    let makes_room = TASKS
        .get()
        .is_some_and(|tasks| tasks.lock(None).extension.withdraw());
    if makes_room {
        leave(Leaves::Ready);
    }
    arch::restore(before);
}

/// The kick for a tick that another CPU asked for came, in an interrupt of the CPU of the tasks.
pub(crate) fn tick_kicked() {
    if let Some(tasks) = TASKS.get() {
        let mut tasks = tasks.lock(None);
        let (timer, is_idle) = (tasks.timer(), tasks.running.is_none());
        tasks.tick.kicked(is_idle, &timer);
    }
}

/// Ends the run from an interrupt, whatever its tasks are at.
pub(super) fn end() {
    if let Some(tasks) = TASKS.get() {
        tasks.lock(None).is_ended = true;
    }
    machine().host().here().must_decide.leave();
}

/// Performs `run`, which ends after `length`.
pub(super) fn ending_after(
    machine: &'static Machine,
    length: Span,
    run: impl FnOnce() -> Ran,
) -> Ran {
    let ending = timer(Setup::new(), |_| {
        end();
        Restart::No
    });
    let _started = ending.start(machine.timers, Start::after(length).pinned());
    run()
}

/// Runs a task for each of `wants`, all of them with `body(its number)`, until none can go on.
///
/// # Panics
///
/// When the reservations come to more than there is.
pub(super) fn run(tick: Tick, wants: &[Want], body: fn(usize)) -> Ran {
    let timer = Pin::static_ref(if tick.is_lazy { &LAZY } else { &EXACT });
    run_by(timer, tick, wants, body)
}

/// Runs tasks as [`run`] does, by a tick of the caller, whose callback calls [`slice_ends`].
pub(super) fn run_by(
    timer: Pin<&'static HrTimer<Function>>,
    tick: Tick,
    wants: &[Want],
    body: fn(usize),
) -> Ran {
    let fresh = Tasks {
        classes: Classes::new(wants).expect("the reservations fit"),
        tick: HrTick::new(Switches {
            fair: tick.slices,
            deadline: tick.slices,
            filter: tick.filter,
        }),
        clock: RunClock::new(machine().now()),
        extension: Extension::default(),
        replenishes: None,
        running: None,
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

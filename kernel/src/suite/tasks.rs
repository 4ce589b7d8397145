//! Tasks on the first CPU: threads that the fair queue of `tickless-sched` chooses among, and that its tick preempts.
//!
//! The tick is a lazy timer that each switch restarts. When it fires, the interrupt notes that a decision is due; the
//! end of the interrupt decides, restarts the tick, writes the device for both, and goes on with the thread that was
//! chosen, on its stack.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::pin::Pin;

use tickless_core::event::Flush;
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Stage};
use tickless_core::link::id::Realm;
use tickless_core::link::lock::Lock;
use tickless_core::platform::CpuId;
use tickless_core::time::Monotonic;
use tickless_sched::fair::Rules;
use tickless_sched::hrtick::{CoreHost, CoreTimer, Decision, Reschedule, SETUP, Stats, Switches};
use tickless_sched::load::RunClock;
use tickless_sched::{Entity, FairQueue, HrTick, Request, Weight};

use crate::arch;
use crate::host::Host;
use crate::late::Late;
use crate::lock::MaskingLock;
use crate::machine::machine;
use crate::thread::{Thread, switch};

/// The most tasks of a run.
pub(super) const MOST: usize = 40;

pub(super) type Function = fn(&mut Expired<'_, '_, Monotonic>) -> Restart;

/// The timer of the tick, lazy and not.
pub(super) static LAZY: HrTimer<Function> = HrTimer::with_setup(SETUP, false, slice_ends);
static EXACT: HrTimer<Function> =
    HrTimer::with_setup(Setup::new().stage(Stage::Hard), false, slice_ends);
static TASKS: Late<Lock<MaskingLock, Tasks>> = Late::new();
static THREADS: Late<[Thread; MOST]> = Late::new();
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

/// The counts of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    /// The number of times that a task was chosen.
    pub(super) switches: u64,
    /// The number of times that an interrupt took the CPU from one task for another one.
    pub(super) preempted: u64,
    /// Tasks that did not finish.
    pub(super) left: usize,
    /// The counts of the tick.
    pub(super) tick: Stats,
}

struct Tasks {
    queue: FairQueue<usize>,
    tick: HrTick,
    clock: RunClock,
    entities: Vec<Pin<Box<Entity<usize>>>>,
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
        if let Some(task) = self.running.take() {
            let entity = self.entities[task].as_ref();
            let is_known = match leaves {
                Leaves::Ready => self.queue.enqueue(entity, task, now).is_ok(),
                Leaves::Asleep => self.queue.sleep(entity, now).is_ok(),
                Leaves::Finished => {
                    self.ran.left -= 1;
                    true
                }
            };
            assert!(is_known, "the task that runs is in no queue");
        }
        self.running = self.queue.pick(now);
        // A run that is ended from outside lets go of all that is queued.
        while self.is_ended && self.running.is_some() {
            self.running = self.queue.pick(now);
        }
        self.ran.switches += 1;
        let decision = match self.queue.slice() {
            Some(slice) => {
                let load = self.clock.load(instant);
                let runnable = self.queue.runnable();
                let _later = self.tick.picked(slice, runnable, load, true, &timer);
                Decision::Keep
            }
            None => Decision::CancelIfIdle,
        };
        self.tick.end_batch(decision, Flush::Switched, &timer);
    }

    /// Wakes a task; true if that preempts the one that runs.
    fn wake(&mut self, task: usize) -> bool {
        let instant = machine().now();
        let now = self.clock.at(instant);
        let woken = self.queue.enqueue(self.entities[task].as_ref(), task, now);
        let woken = woken.expect("a task that sleeps is in no queue");
        let (slice, runnable) = (self.queue.slice(), self.queue.runnable());
        let load = self.clock.load(instant);
        let timer = self.timer();
        let ends = self.tick.enqueued(slice, runnable, load, &timer) == Reschedule::Hard;
        ends || (self.running.is_some() && woken.preempts && !woken.was_current)
    }
}

fn slice_ends(_: &mut Expired<'_, '_, Monotonic>) -> Restart {
    machine().host().here().must_decide.leave();
    if let Some(tasks) = TASKS.get() {
        let _decides = tasks.lock(None).tick.fired(true);
    }
    Restart::No
}

/// The end of an interrupt that ended a slice: another task is chosen, the device is written, which `written` is told,
/// and the CPU goes on with the task.
pub(crate) fn decide_in_interrupt(owes: bool, written: impl FnOnce()) {
    let Some(tasks) = TASKS.get() else {
        return;
    };
    let (from, to) = {
        let mut tasks = tasks.lock(None);
        let from = tasks.running;
        tasks.decide(Leaves::Ready, owes);
        let to = tasks.running;
        tasks.ran.preempted += u64::from(from != to);
        (from, to)
    };
    written();
    go_on(from, to);
}

/// Goes on with the chosen task, masked.
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

/// Runs a task for each of `wants`, all of them with `body(its number)`, until none can go on.
pub(super) fn run(tick: Tick, wants: &[(Weight, Request)], body: fn(usize)) -> Ran {
    let timer = Pin::static_ref(if tick.is_lazy { &LAZY } else { &EXACT });
    let [key] = Realm::new().keys();
    let fresh = Tasks {
        queue: FairQueue::new(key, Rules::default()),
        tick: HrTick::new(Switches {
            fair: tick.slices,
            deadline: false,
            filter: tick.filter,
        }),
        clock: RunClock::new(machine().now()),
        entities: wants
            .iter()
            .map(|&(weight, request)| Box::pin(Entity::new(weight, request)))
            .collect(),
        running: None,
        timer,
        is_ended: false,
        ran: Ran {
            switches: 0,
            preempted: 0,
            left: wants.len(),
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
        let now = tasks.clock.at(machine().now());
        for (task, thread) in threads.iter().enumerate().take(wants.len()) {
            thread.begin(body, task);
            let Tasks {
                queue, entities, ..
            } = &mut *tasks;
            let queued = queue.enqueue(entities[task].as_ref(), task, now);
            assert!(queued.is_ok(), "a new task is in no queue");
        }
    }
    leave(Leaves::Ready);
    arch::restore(before);
    let _removed = timer.try_cancel(machine().timers);
    let tasks = tasks.lock(None);
    Ran {
        tick: tasks.tick.stats(),
        ..tasks.ran
    }
}

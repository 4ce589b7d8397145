//! What each mechanism saves: a load of many short switches, with and without it.
//!
//! The load has the shape of hackbench: pairs of tasks, a pipe between the two of each, a sender that sleeps when its
//! pipe is full and a receiver that sleeps when it is empty. The fair queue of `tickless-sched` says which task runs,
//! and its tick, a lazy timer that each switch restarts, ends slices: from an interrupt, by a decision at its exit.
//!
//! A task has no stack of its own. It is a step that the first CPU repeats; one that is interrupted by a decision for
//! another task begins its step anew when it runs again.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::black_box;
use core::pin::Pin;

use tickless_core::base::Stats;
use tickless_core::event::Flush;
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Stage, Start};
use tickless_core::link::id::Realm;
use tickless_core::link::lock::Lock;
use tickless_core::platform::{CpuId, Platform};
use tickless_core::time::{Monotonic, Span};
use tickless_sched::fair::Rules;
use tickless_sched::hrtick::{CoreHost, CoreTimer, Decision, SETUP, Switches};
use tickless_sched::load::RunClock;
use tickless_sched::{Entity, FairQueue, HrTick, Request, Weight};

use super::{Verdict, ensure};
use crate::arch;
use crate::console::say;
use crate::host::Host;
use crate::late::Late;
use crate::lock::MaskingLock;
use crate::machine::{Machine, machine};
use crate::parameters::Parameters;

const PAIRS: usize = 10;
/// Messages of each pair.
const MESSAGES: u32 = 1_000;
/// Messages that a pipe holds, and how long a task runs before another one does, if it can go on. Tasks sleep before
/// their slice ends, or nearly never.
const LOADS: [(u32, Request); 2] = [
    (16, Request::DEFAULT),
    (1_000, Request::clamped(Span::from_micros(200))),
];
/// Rounds of the loop that a message takes.
const WORK: u32 = 500;

type Function = fn(&mut Expired<'_, '_, Monotonic>) -> Restart;

/// The timer of the tick, lazy and not.
static LAZY: HrTimer<Function> = HrTimer::with_setup(SETUP, false, slice_ends);
static EXACT: HrTimer<Function> =
    HrTimer::with_setup(Setup::new().stage(Stage::Hard), false, slice_ends);
static LOAD: Late<Lock<MaskingLock, Load>> = Late::new();

struct Pipe {
    room: u32,
    filled: u32,
    /// Messages that are still to be sent, and to be received.
    left: [u32; 2],
    is_asleep: [bool; 2],
}

/// The tasks, by number: a sender is even, and its receiver the next one.
struct Load {
    queue: FairQueue<usize>,
    tick: HrTick,
    clock: RunClock,
    entities: Vec<Pin<Box<Entity<usize>>>>,
    pipes: Vec<Pipe>,
    running: Option<usize>,
    timer: Pin<&'static HrTimer<Function>>,
    switches: u64,
}

/// What becomes of the task that runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaves {
    Ready,
    Asleep,
    Finished,
}

struct OneCpu;

impl CoreHost for OneCpu {
    /// The load has one CPU, which is never asked from another one.
    fn kick(&self, _cpu: CpuId) {}
}

type SliceTimer<'a> = CoreTimer<'a, Host, Function, OneCpu>;

impl Load {
    fn timer(&self) -> SliceTimer<'static> {
        CoreTimer::new(machine().timers, self.timer, CpuId(0), OneCpu)
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
                Leaves::Finished => true,
            };
            assert!(is_known, "the task that runs is in no queue");
        }
        self.running = self.queue.pick(now);
        self.switches += 1;
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

    /// The task that runs has worked for a message.
    fn step(&mut self, task: usize) {
        let (pipe, side) = (&mut self.pipes[task / 2], task % 2);
        let is_stuck = match side {
            0 => pipe.filled == pipe.room,
            _ => pipe.filled == 0,
        };
        if is_stuck {
            pipe.is_asleep[side] = true;
            return self.decide(Leaves::Asleep, false);
        }
        pipe.filled = if side == 0 {
            pipe.filled + 1
        } else {
            pipe.filled - 1
        };
        pipe.left[side] -= 1;
        let is_over = pipe.left[side] == 0;
        // The other one is woken when it has half a pipe to do.
        let is_worth = pipe.filled == pipe.room / 2 || is_over;
        let other = task ^ 1;
        if is_worth && core::mem::take(&mut pipe.is_asleep[1 - side]) {
            self.wake(other);
        }
        if is_over {
            self.decide(Leaves::Finished, false);
        }
    }

    fn wake(&mut self, task: usize) {
        let instant = machine().now();
        let now = self.clock.at(instant);
        let woken = self.queue.enqueue(self.entities[task].as_ref(), task, now);
        assert!(
            woken.is_ok(),
            "a task that sleeps is in no queue, or owes time"
        );
        let (slice, runnable) = (self.queue.slice(), self.queue.runnable());
        let load = self.clock.load(instant);
        let timer = self.timer();
        let _later = self.tick.enqueued(slice, runnable, load, &timer);
    }
}

fn slice_ends(_: &mut Expired<'_, '_, Monotonic>) -> Restart {
    machine().host().here().must_decide.leave();
    if let Some(load) = LOAD.get() {
        let _decides = load.lock(None).tick.fired(true);
    }
    Restart::No
}

/// The end of an interrupt that ended a slice: another task is chosen, and the device is written behind that.
pub(crate) fn decide_in_interrupt(owes: bool) {
    if let Some(load) = LOAD.get() {
        load.lock(None).decide(Leaves::Ready, owes);
    }
}

/// One way to run the load.
struct Way {
    name: &'static str,
    is_lazy: bool,
    in_place: bool,
    filter: bool,
    slices: bool,
}

const fn way(name: &'static str, [is_lazy, in_place, filter, slices]: [bool; 4]) -> Way {
    Way {
        name,
        is_lazy,
        in_place,
        filter,
        slices,
    }
}

const WAYS: [Way; 6] = [
    way("all of them", [true, true, true, true]),
    way("not lazy", [false, true, true, true]),
    way("not in place", [true, false, true, true]),
    way("no filter", [true, true, false, true]),
    way("none of them", [false, false, false, true]),
    way("no hrtick", [true, true, true, false]),
];

/// Runs the load each way, and prints what it cost.
pub(super) fn switches(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    for (room, request) in LOADS {
        table(machine, room, request)?;
    }
    starts_alone(machine);
    let miswritten = machine.host().here().miswritten.get();
    ensure!(
        miswritten == 0 || !Host::DEFERRED_REARM,
        "{miswritten} interrupts did not write once"
    );
    Ok(())
}

fn table(machine: &'static Machine, room: u32, request: Request) -> Verdict {
    say!(
        "  pipes that hold {room} messages, slices of {} us",
        request.length().as_nanos() / 1_000
    );
    say!("  way            switches   starts   writes  interrupts  spurious  in place  time/us");
    for way in &WAYS {
        let before = Counted::now(machine);
        machine.host().set_in_place(way.in_place);
        let switches = run(machine, way, room, request);
        machine.host().set_in_place(true);
        let did = Counted::now(machine);
        let stats = (before.stats, did.stats);
        let starts = stats.1.starts - stats.0.starts;
        let writes = did.writes - before.writes;
        say!(
            "  {:<13} {switches:>9} {starts:>8} {writes:>8} {:>11} {:>9} {:>9} {:>8}",
            way.name,
            did.interrupts - before.interrupts,
            stats.1.spurious - stats.0.spurious,
            stats.1.in_place - stats.0.in_place,
            (did.nanos - before.nanos) / 1_000,
        );
        ensure!(switches > 0, "the load did not run");
        ensure!(
            stats.1.missed_flushes == 0,
            "{} flushes were missed",
            stats.1.missed_flushes
        );
    }
    Ok(())
}

/// What was counted until a moment.
struct Counted {
    stats: Stats,
    writes: u64,
    interrupts: u64,
    nanos: i64,
}

impl Counted {
    fn now(machine: &Machine) -> Self {
        let local = machine.host().here();
        Self {
            stats: machine.timers.stats(machine.here()),
            writes: local.device_writes.get(),
            interrupts: local.timer_interrupts.get(),
            nanos: machine.now().as_nanos(),
        }
    }
}

/// Runs the load one way; how often a task was chosen.
fn run(machine: &'static Machine, way: &Way, room: u32, request: Request) -> u64 {
    let timer = Pin::static_ref(if way.is_lazy { &LAZY } else { &EXACT });
    let [key] = Realm::new().keys();
    let fresh = Load {
        queue: FairQueue::new(key, Rules::default()),
        tick: HrTick::new(Switches {
            fair: way.slices,
            deadline: false,
            filter: way.filter,
        }),
        clock: RunClock::new(machine.now()),
        entities: (0..2 * PAIRS)
            .map(|_| Box::pin(Entity::new(Weight::UNIT, request)))
            .collect(),
        pipes: (0..PAIRS)
            .map(|_| Pipe {
                room,
                filled: 0,
                left: [MESSAGES; 2],
                is_asleep: [false; 2],
            })
            .collect(),
        running: None,
        timer,
        switches: 0,
    };
    let load = match LOAD.get() {
        None => LOAD.set(Box::new(Lock::new(MaskingLock::new(), fresh))),
        Some(load) => {
            *load.lock(None) = fresh;
            load
        }
    };
    {
        let mut load = load.lock(None);
        let now = load.clock.at(machine.now());
        for task in 0..2 * PAIRS {
            let Load {
                queue, entities, ..
            } = &mut *load;
            let queued = queue.enqueue(entities[task].as_ref(), task, now);
            assert!(queued.is_ok(), "a new task is in no queue");
        }
        load.decide(Leaves::Ready, false);
    }
    loop {
        let Some(task) = load.lock(None).running else {
            break;
        };
        for round in 0..WORK {
            black_box(round);
        }
        let mut load = load.lock(None);
        if load.running == Some(task) {
            load.step(task);
        }
    }
    let _removed = timer.try_cancel(machine.timers);
    load.lock(None).switches
}

/// What a start takes by itself, in nanoseconds of guest time: with counted instructions, so many of them.
fn starts_alone(machine: &'static Machine) {
    const TIMES: u64 = 1_000;
    let timer = Pin::static_ref(&LAZY);
    let measure = |name: &str, ahead: fn(u64) -> Span| {
        let before = arch::mask();
        let began = arch::counter();
        for time in 0..TIMES {
            let _started = timer.start(machine.timers, Start::after(ahead(time)).pinned());
        }
        let took = arch::counter() - began;
        arch::restore(before);
        let nanos = took * 1_000_000 / u64::from(arch::kilohertz().0) / TIMES;
        say!("  a start {name}: {nanos} ns");
        let _removed = timer.try_cancel(machine.timers);
    };
    measure("that moves a lazy timer later", |time| {
        Span::from_nanos(3_000_000 + time * 1_000)
    });
    measure("that moves it earlier, and writes the device", |time| {
        Span::from_nanos(9_000_000 - time * 5_000)
    });
}

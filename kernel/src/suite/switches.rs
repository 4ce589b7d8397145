//! The measurement of the saving by each mechanism: a load of many short switches runs with and without the mechanism.
//!
//! The load has the shape of hackbench: pairs of [threads](crate::tasks), with a pipe between the two threads of a
//! pair. The sender sleeps when its pipe is full, and the receiver sleeps when the pipe is empty.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::hint::black_box;
use core::ops::RangeBounds;
use core::pin::Pin;

use tickless_core::base::Stats;
use tickless_core::hrtimer::Start;
use tickless_core::link::lock::Lock;
use tickless_core::time::Span;
use tickless_sched::{Request, Weight, hrtick as tick};

use super::fixture::{Verdict, ensure};
use crate::arch;
use crate::classes::Want;
use crate::console::say;
use crate::lock::MaskingLock;
use crate::machine::Machine;
use crate::note::Count;
use crate::parameters::Parameters;
use crate::tasks::{self, LAZY, Leaves, Ran, Tick};

const PAIRS: usize = 10;
/// The number of loads of each shape that are measured.
const LOADS: usize = 11;
/// The shapes: in one, tasks sleep before their slice ends; in the other, they nearly never do.
const SHAPES: [Shape; 2] = [
    Shape {
        room: 16,
        request: Request::DEFAULT,
        messages: 1_000,
        work: 500,
        wakes: Wakes::HalfFull,
    },
    Shape {
        room: 1_000,
        request: Request::clamped(Span::from_micros(200)),
        messages: 1_000,
        work: 500,
        wakes: Wakes::HalfFull,
    },
];

/// The message that wakes the task at the other end of a pipe.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wakes {
    /// The message that leaves the woken task half a pipe of work.
    HalfFull,
    /// Each message, as in the simulator: the woken task runs at once if the fair queue says so. A receiver runs before
    /// its sender, and checks the pipe before it works.
    AtOnce,
}

/// The shape of a load.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// The number of messages that a pipe holds.
    pub(super) room: u32,
    /// The time that a task that can continue runs before another task does.
    pub(super) request: Request,
    /// Messages of each pair.
    pub(super) messages: u32,
    /// Rounds of a loop that a message takes on each side.
    pub(super) work: u32,
    pub(super) wakes: Wakes,
}

/// The rounds of work for each message in the current load.
static WORK: Count = Count::new();

/// The pipes. The numbers of tasks identify them: a sender is even, and its receiver is the next number.
static PIPES: Lock<MaskingLock, Vec<Pipe>> = Lock::new(MaskingLock::new(), Vec::new());

struct Pipe {
    wakes: Wakes,
    room: u32,
    filled: u32,
    /// The messages that are still to be sent, and those that are still to be received.
    left: [u32; 2],
    is_asleep: [bool; 2],
}

impl Pipe {
    /// Takes a message or leaves one; returns false if the pipe has no message or no space, and the task has to sleep.
    fn pass(&mut self, side: usize) -> bool {
        let is_stuck = match side {
            0 => self.filled == self.room,
            _ => self.filled == 0,
        };
        if is_stuck {
            self.is_asleep[side] = true;
            return false;
        }
        self.filled = if side == 0 {
            self.filled + 1
        } else {
            self.filled - 1
        };
        self.left[side] -= 1;
        true
    }

    /// Returns true if a message of `side` wakes the other side, which sleeps until half a pipe of work is ready.
    fn wakes(&mut self, side: usize) -> bool {
        let is_worth =
            self.wakes == Wakes::AtOnce || self.filled == self.room / 2 || self.left[side] == 0;
        is_worth && core::mem::take(&mut self.is_asleep[1 - side])
    }
}

/// Does the work for a message.
fn work() {
    for round in 0..WORK.get() {
        black_box(round);
    }
}

/// The body of each task.
fn talk(task: usize) {
    let (pair, side) = (task / 2, task % 2);
    let mut is_over = false;
    while !is_over {
        work();
        is_over = pass(task, pair, side);
    }
    finish();
}

/// The body of each task where [each message wakes](Wakes::AtOnce).
fn talk_at_once(task: usize) {
    let (pair, side) = (task / 2, 1 - task % 2);
    let mut is_over = false;
    while !is_over {
        if side == 0 {
            work();
        }
        is_over = pass(task, pair, side);
        if side == 1 {
            work();
        }
    }
    finish();
}

fn finish() {
    let before = arch::mask();
    tasks::leave(Leaves::Finished);
    arch::restore(before);
}

/// Passes a message as soon as the pipe has a message or space for one; returns true if it was the last message.
fn pass(task: usize, pair: usize, side: usize) -> bool {
    // A task that was seen asleep is: between the look at the pipe and the sleep none else runs.
    let before = arch::mask();
    while !PIPES.lock(None)[pair].pass(side) {
        tasks::leave(Leaves::Asleep);
    }
    let (wakes, is_over, is_at_once) = {
        let pipe = &mut PIPES.lock(None)[pair];
        let is_over = pipe.left[side] == 0;
        (pipe.wakes(side), is_over, pipe.wakes == Wakes::AtOnce)
    };
    if wakes && tasks::wake(task ^ 1) && is_at_once {
        tasks::leave(Leaves::Ready);
    }
    arch::restore(before);
    is_over
}

/// One set of mechanisms with which the load runs.
pub(super) struct Way {
    pub(super) name: &'static str,
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

pub(super) const WAYS: [Way; 6] = [
    way("all of them", [true, true, true, true]),
    way("not lazy", [false, true, true, true]),
    way("not in place", [true, false, true, true]),
    way("no filter", [true, true, false, true]),
    way("none of them", [false, false, false, true]),
    way("no hrtick", [true, true, true, false]),
];

/// Runs the load with each set of mechanisms, and prints the costs.
pub(super) fn switches(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    for shape in SHAPES {
        introduce(&shape);
        say!(
            "  way            switches   starts   writes  interrupts  spurious  in place  time/us"
        );
        let (mut writes, mut settled) = (Vec::new(), 0);
        for way in &WAYS {
            let did = run(machine, way, &shape)?;
            writes.push(did.writes);
            settled += did.settled;
            for (what, count, is_on) in [
                ("dropped", did.filtered, way.filter),
                ("in place", did.in_place, way.in_place),
                ("made", did.starts, true),
            ] {
                let is_right = (count > 0) == (is_on && way.slices) || !parameters.is_exact;
                ensure!(is_right, "{}: {count} starts {what}", way.name);
            }
            say!(
                "  {:<13} {:>9} {:>8} {:>8} {:>11} {:>9} {:>9} {:>8}",
                way.name,
                did.switches,
                did.starts,
                did.writes,
                did.interrupts,
                did.spurious,
                did.in_place,
                did.micros,
            );
        }
        // Where slices end, most writes are for an end that comes.
        let has_ends = shape.room > SHAPES[0].room;
        ensure!(
            settled > 0 || has_ends || !parameters.is_exact,
            "no lazy device was written before it fired for nothing"
        );
        let [lazy, not_lazy] = [writes[0], writes[1]];
        let is_saved = lazy * 10 < not_lazy || has_ends;
        ensure!(
            is_saved || !parameters.is_exact,
            "{lazy} writes of a lazy tick, {not_lazy} of one that is not"
        );
    }
    let _later = starts_alone(machine);
    Ok(())
}

/// Runs eleven loads of each shape with each set of mechanisms, and prints medians and spreads; then runs one load with
/// messages of each size.
pub(super) fn measure(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    let (mut fewer, mut spurious_of, mut kept_of) = ([0; 2], [0; 2], [0; 2]);
    for (place, shape) in SHAPES.into_iter().enumerate() {
        introduce(&shape);
        say!(
            "  {LOADS} loads, 500 to 1,000 messages of each pair: the median (the least to the greatest)"
        );
        say!(
            "  {:<13} {:>20} {:>20} {:>18} {:>16} {:>16}",
            "way",
            "writes",
            "interrupts",
            "spurious/1000",
            "in place/1000",
            "time/us"
        );
        let mut writes = [[0; LOADS]; WAYS.len()];
        for (way, writes) in WAYS.iter().zip(&mut writes) {
            let mut columns = [[0; LOADS]; 5];
            for load in 0..LOADS {
                let messages = 500 + 50 * load as u32;
                let did = run(machine, way, &Shape { messages, ..shape })?;
                let of = |part: u64, all: u64| part * 1_000 / all.max(1);
                let values = [
                    did.writes,
                    did.interrupts,
                    of(did.spurious, did.interrupts),
                    of(did.in_place, did.starts),
                    did.micros,
                ];
                for (column, value) in columns.iter_mut().zip(values) {
                    column[load] = value;
                }
            }
            *writes = columns[0];
            if way.name == WAYS[0].name {
                spurious_of[place] = Median::of(columns[2]).0[0];
                kept_of[place] = Median::of(columns[3]).0[0];
            }
            let [writes, interrupts, spurious, in_place, micros] =
                columns.map(|column| alloc::format!("{}", Median::of(column)));
            say!(
                "  {:<13} {writes:>20} {interrupts:>20} {spurious:>18} {in_place:>16} {micros:>24}",
                way.name
            );
        }
        // Load by load: all of them is the first way, and none of them the last but one.
        let times =
            core::array::from_fn(|load| writes[WAYS.len() - 2][load] * 10 / writes[0][load].max(1));
        let times = Median::of(times);
        fewer[place] = times.0[0];
        say!("  none of them writes {times} tenths of all of them");
    }
    by_bytes(machine)?;
    let start = starts_alone(machine);
    print_claims(fewer, spurious_of, kept_of, start);
    Ok(())
}

/// Runs one load with messages of each size, and prints the times.
fn by_bytes(machine: &'static Machine) -> Verdict {
    say!("  time/us by bytes of a message (a round of the loop for each byte, on each side)");
    say!(
        "  {:<13} {:>8} {:>8} {:>8}",
        "bytes",
        "all",
        "none",
        "no tick"
    );
    for bytes in [8, 16, 32, 64, 128, 256] {
        let shape = Shape {
            work: bytes,
            ..SHAPES[0]
        };
        let [all, none, no_tick] = [0, WAYS.len() - 2, WAYS.len() - 1].map(|way| &WAYS[way]);
        let [all, none, no_tick] = [all, none, no_tick].map(|way| run(machine, way, &shape));
        let (all, none, no_tick) = (all?.micros, none?.micros, no_tick?.micros);
        say!("  {bytes:<13} {all:>8} {none:>8} {no_tick:>8}");
    }
    Ok(())
}

/// Prints which claims of the sources the medians reproduce: by shape, how many tenths of the writes none of the
/// mechanisms makes, and how many thousandths of interrupts are spurious and of restarts in place.
fn print_claims(fewer: [u64; 2], spurious: [u64; 2], kept: [u64; 2], start: u64) {
    say!("  the claims of the sources, by the medians:");
    let [sleeping, ending] = fewer;
    let [_, spurious] = spurious;
    let [kept, _] = kept;
    let why = "starts seldom change the first timer";
    claim(
        "fewer writes/tenths, tasks sleep first",
        250..,
        sleeping,
        why,
    );
    let why = "the end of a slice needs its write";
    claim("fewer writes/tenths, slices end", 250.., ending, why);
    let why = "most interrupts end a slice";
    claim("spurious/1000, slices end", 200..300, spurious, why);
    let why = "a restart seldom leaves the timer between its neighbours";
    claim("in place/1000, tasks sleep first", 350.., kept, why);
    let why = "it reads the clock, takes the lock and files the timer";
    claim("instructions of a start", ..=100, start, why);
    say!(
        "  a write is a VM exit, and dear: not here, because no processor executes this kernel natively"
    );
}

/// Prints whether the kernel reproduces a claim, with the reason if it does not.
fn claim(name: &str, claimed: impl RangeBounds<u64>, here: u64, why: &str) {
    if claimed.contains(&here) {
        say!("  {name}: {here}: yes");
    } else {
        say!("  {name}: {here}: no, because {why}");
    }
}

fn introduce(shape: &Shape) {
    say!(
        "  pipes that hold {} messages, slices of {} us",
        shape.room,
        shape.request.length().as_nanos() / 1_000
    );
}

/// The median of the loads, and the spread around it.
struct Median([u64; 3]);

impl Median {
    fn of(mut values: [u64; LOADS]) -> Self {
        values.sort_unstable();
        Self([values[LOADS / 2], values[0], values[LOADS - 1]])
    }
}

impl fmt::Display for Median {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([median, least, greatest]) = self;
        write!(formatter, "{median} ({least} to {greatest})")
    }
}

/// The costs of a run.
#[derive(Clone, Copy)]
pub(super) struct Did {
    pub(super) switches: u64,
    pub(super) starts: u64,
    /// Starts that the first filter dropped.
    filtered: u64,
    /// Writes of a lazy device that would soon have fired for nothing (LAZY-8).
    settled: u64,
    pub(super) in_place: u64,
    /// Restarts that left the timer in its place in the queue, or in its slot.
    pub(super) kept: u64,
    pub(super) spurious: u64,
    pub(super) writes: u64,
    pub(super) interrupts: u64,
    pub(super) micros: u64,
}

/// Runs the load with one set of mechanisms.
pub(super) fn run(machine: &'static Machine, way: &Way, shape: &Shape) -> Result<Did, String> {
    let pipe = |_| Pipe {
        wakes: shape.wakes,
        room: shape.room,
        filled: 0,
        left: [shape.messages; 2],
        is_asleep: [false; 2],
    };
    *PIPES.lock(None) = (0..PAIRS).map(pipe).collect();
    WORK.set(u64::from(shape.work));
    let tick = Tick {
        is_lazy: way.is_lazy,
        filter: way.filter,
        slices: way.slices,
    };
    let local = machine.host().here();
    let counted = || {
        (
            machine.timers.stats(machine.here()),
            local.device_writes.get(),
            local.timer_interrupts.get(),
            machine.now(),
        )
    };
    let kept = |stats: &Stats| stats.in_place + stats.filed_early + stats.far_in_slot;
    let before = counted();
    machine.host().set_in_place(way.in_place);
    let wants = [Want::Share(Weight::UNIT, shape.request); 2 * PAIRS];
    let body = match shape.wakes {
        Wakes::HalfFull => talk,
        Wakes::AtOnce => talk_at_once,
    };
    let ran = tasks::run(tick, &wants, body);
    let Ran { switches, left, .. } = ran;
    machine.host().set_in_place(true);
    let now = counted();
    ensure!(left == 0, "{left} tasks did not finish");
    let starts = now.0.starts - before.0.starts;
    // Each start that is asked for is made, replaced in its batch, or dropped by the first filter.
    let tick::Stats {
        asked,
        replaced,
        filtered,
        started,
        settled,
        ..
    } = ran.tick;
    ensure!(
        starts == started && asked == replaced + filtered + started,
        "{starts} starts of {asked}: {replaced} replaced, {filtered} dropped, {started} made"
    );
    Ok(Did {
        switches,
        starts,
        filtered,
        settled,
        in_place: now.0.in_place - before.0.in_place,
        kept: kept(&now.0) - kept(&before.0),
        spurious: now.0.spurious - before.0.spurious,
        writes: now.1 - before.1,
        interrupts: now.2 - before.2,
        micros: now.3.saturating_since(before.3).as_nanos() / 1_000,
    })
}

/// Measures a single start, in nanoseconds of guest time; with counted instructions, this is the number of
/// instructions. Returns the result for a timer that moves later.
fn starts_alone(machine: &'static Machine) -> u64 {
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
        nanos
    };
    let later = measure("that moves a lazy timer later", |time| {
        Span::from_nanos(3_000_000 + time * 1_000)
    });
    let _earlier = measure("that moves it earlier, and writes the device", |time| {
        Span::from_nanos(9_000_000 - time * 5_000)
    });
    later
}

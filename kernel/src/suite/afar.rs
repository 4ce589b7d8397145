//! Tests of a task that another CPU wakes: the start of the tick reaches the CPU of the tick as a kick (TICK-17).

use core::hint::black_box;

use tickless_core::time::Span;
use tickless_sched::{Request, Weight};

use super::fixture::{Verdict, ensure};
use crate::arch;
use crate::classes::Want;
use crate::clock::pause_masked;
use crate::console::say;
use crate::machine::Machine;
use crate::note::{Count, Note};
use crate::parameters::Parameters;
use crate::tasks::{self, Leaves, Tick};

/// Rounds of each kind.
const ROUNDS: u64 = 8;
const SLICE: Span = Span::from_millis(3);
/// The number of the task that never gives up the CPU; the next number is the task that the other CPU wakes.
const SPINS: usize = 0;
const SLEEPS: usize = 1;

/// The sleeps of the task, the wake-ups by the other CPU, and the wake-ups that the task saw.
static SLEPT: Count = Count::new();
static WOKEN: Count = Count::new();
static RAN: Count = Count::new();
static IS_OVER: Note = Note::new();

/// Wakes the task, on the other CPU.
fn wake() {
    tasks::wake_from_afar(SLEEPS);
    WOKEN.add(1);
}

fn body(task: usize) {
    if task == SPINS { spin() } else { sleep() }
}

fn sleep() {
    loop {
        let before = arch::mask();
        SLEPT.add(1);
        tasks::leave(Leaves::Asleep);
        RAN.add(1);
        if IS_OVER.is_there() {
            tasks::leave(Leaves::Finished);
        }
        arch::restore(before);
    }
}

/// Computes until `is_over` returns true, and never gives up the CPU.
fn spin_until(is_over: impl Fn() -> bool) {
    let mut count = 0_u64;
    while !is_over() {
        count = black_box(count + 1);
    }
}

/// Makes the other CPU wake the task, and spins until the task ran. In every second round the wake-up comes while this
/// CPU is masked and about to decide: the decision starts the tick, and the kick comes afterwards.
fn spin() {
    let machine = crate::machine::machine();
    for round in 0..2 * ROUNDS {
        let ran = RAN.get();
        let is_deciding = round % 2 == 1;
        // The tick of the round before is over, too.
        spin_until(|| SLEPT.get() > round && !tasks::LAZY.is_active());
        let before = arch::mask();
        machine.run_on(1, wake);
        while WOKEN.get() <= round {
            if is_deciding {
                pause_masked();
            } else {
                // An emulator that executes CPUs by turns runs the other one meanwhile; the kick is taken behind that.
                arch::wait();
            }
        }
        if is_deciding {
            tasks::leave(Leaves::Ready);
        }
        arch::restore(before);
        spin_until(|| RAN.get() != ran);
    }
    spin_until(|| SLEPT.get() > 2 * ROUNDS);
    let before = arch::mask();
    IS_OVER.leave();
    let _preempts = tasks::wake(SLEEPS);
    tasks::leave(Leaves::Finished);
    arch::restore(before);
}

/// A tick that another CPU requests is started by a kick, unless the CPU of the tick started a tick meanwhile. In both
/// cases the spinning task is preempted.
pub(super) fn afar(_machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    let wants = [Want::Share(Weight::UNIT, Request::clamped(SLICE)); 2];
    let ran = tasks::run(Tick::WHOLE, &wants, body);
    let stats = ran.tick;
    say!(
        "  {} wake-ups from afar: {} kicks, {} of them found a tick, {} times one that spins was preempted",
        WOKEN.get(),
        stats.kicks,
        stats.filtered_by_kick,
        ran.preempted
    );
    ensure!(ran.left == 0, "{} tasks did not finish", ran.left);
    ensure!(
        stats.kicks == 2 * ROUNDS,
        "{} kicks for {} wake-ups",
        stats.kicks,
        2 * ROUNDS
    );
    ensure!(
        stats.filtered_by_kick == ROUNDS,
        "{} of {} kicks behind a decision were dropped",
        stats.filtered_by_kick,
        ROUNDS
    );
    ensure!(
        ran.preempted >= ROUNDS,
        "{} of {ROUNDS} ticks took the CPU from the task that spins",
        ran.preempted
    );
    Ok(())
}

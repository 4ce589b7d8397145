//! A test of the accounting of interrupt time: of two threads of equal weight, one gets all interrupts. Neither thread
//! is charged for them, so both have the same time on the CPU.

use core::hint::black_box;
use core::pin::Pin;

use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Stage, Start};
use tickless_core::time::{Monotonic, Span};
use tickless_sched::{Request, Weight};

use super::fixture::{Verdict, ending_after, ensure};
use crate::arch;
use crate::classes::Want;
use crate::console::say;
use crate::machine::{Machine, machine};
use crate::note::Count;
use crate::parameters::Parameters;
use crate::tasks::{self, Function, Tick};

/// The thread that all interrupts of the test hit, and not only its ticks.
const DISTURBED: usize = 0;
const LENGTH: Span = Span::from_millis(600);
const SLICE: Span = Span::from_millis(3);
/// The time between two interrupts, and the time that each takes from the thread.
const PERIOD: Span = Span::from_micros(100);
const WORK: Span = Span::from_micros(30);
/// The greatest difference of a thread's time from one half, in thousandths of the whole: a slice of 3 ms is 5.
const MOST_OFF: u64 = 8;

static COUNTS: [Count; 2] = [const { Count::new() }; 2];
static RUNS: Count = Count::new();
/// Interrupts that took time of the disturbed thread.
static TOOK: Count = Count::new();
static TIMER: HrTimer<Function> =
    HrTimer::with_setup(Setup::new().stage(Stage::Hard), false, disturb);

/// Spends much time in an interrupt of the disturbed thread.
fn disturb(expired: &mut Expired<'_, '_, Monotonic>) -> Restart {
    if RUNS.get() == DISTURBED as u64 {
        TOOK.add(1);
        let end = machine().now().saturating_add(WORK);
        while machine().now() < end {
            arch::relax();
        }
    }
    expired.forward(expired.now(), PERIOD);
    Restart::Yes
}

fn spin(task: usize) {
    let mut count = 0_u64;
    loop {
        count = black_box(count + 1);
        COUNTS[task].set(count);
        RUNS.set(task as u64);
    }
}

/// Runs two threads that spin, and a timer whose callback takes three tenths of the time of one thread.
pub(super) fn interrupted(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    let timer = Pin::static_ref(&TIMER);
    let _started = timer.start(machine.timers, Start::after(PERIOD).pinned());
    let wants = [Want::Share(Weight::UNIT, Request::clamped(SLICE)); 2];
    let run = || tasks::run(Tick::WHOLE, &wants, spin);
    let ran = ending_after(machine, LENGTH, run);
    timer.cancel(machine.timers);
    let [disturbed, other] = [0, 1].map(|task| COUNTS[task].get());
    let part = disturbed * 1_000 / (disturbed + other).max(1);
    let (took, each) = (TOOK.get(), WORK.as_nanos() / 1_000);
    say!(
        "  {took} interrupts of {each} us in the time of one of two threads: it counted {part} of 1000"
    );
    ensure!(
        took > 0 && ran.preempted > 0,
        "it was interrupted {took} times, and preempted {}",
        ran.preempted
    );
    ensure!(
        part.abs_diff(500) <= MOST_OFF || !parameters.is_exact,
        "the thread that was interrupted had {part} thousandths of the time of both"
    );
    Ok(())
}

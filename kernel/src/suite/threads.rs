//! Tests of threads that never give up the CPU: the tick of the scheduler preempts them, and gives each thread its
//! share.

use core::hint::black_box;

use tickless_core::time::Span;
use tickless_sched::{Request, Weight};

use super::fixture::{Verdict, ending_after, ensure};
use crate::classes::Want;
use crate::console::say;
use crate::machine::Machine;
use crate::note::Count;
use crate::parameters::Parameters;
use crate::tasks::{self, Ran, Tick};

/// The weights of the threads, in units.
const WEIGHTS: [u32; 4] = [1, 1, 2, 4];
const SLICE: Span = Span::from_millis(3);
const LENGTH: Span = Span::from_millis(800);
/// The greatest difference of a thread's time from its share, in thousandths of the whole: two slices of 3 ms are 7.5.
const MOST_OFF: u64 = 8;

static COUNTS: [Count; WEIGHTS.len()] = [const { Count::new() }; WEIGHTS.len()];

/// Counts for ever, in a register.
fn spin(task: usize) {
    let mut count = 0_u64;
    loop {
        count = black_box(count + 1);
        COUNTS[task].set(count);
    }
}

/// Runs four threads that spin, for 800 ms: each is preempted, and has counted according to its weight.
pub(super) fn threads(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    let wants =
        WEIGHTS.map(|units| Want::Share(Weight::UNIT.times(units), Request::clamped(SLICE)));
    let run = || tasks::run(Tick::WHOLE, &wants, spin);
    let Ran { preempted, .. } = ending_after(machine, LENGTH, run);
    let all: u64 = COUNTS.iter().map(Count::get).sum();
    let weights = u64::from(WEIGHTS.iter().sum::<u32>());
    let mut furthest = 0;
    for (count, &weight) in COUNTS.iter().zip(&WEIGHTS) {
        let (had, due) = (
            count.get() * 1_000 / all.max(1),
            u64::from(weight) * 1_000 / weights,
        );
        ensure!(had > 0, "a thread did not run");
        furthest = furthest.max(had.abs_diff(due));
    }
    say!("  {preempted} times one that spins was preempted, {furthest} of 1000 off its share");
    let slices = LENGTH.as_nanos() / SLICE.as_nanos();
    ensure!(
        preempted > slices / 2 || !parameters.is_exact && preempted > 0,
        "threads that spin were preempted {preempted} times in {slices} slices"
    );
    ensure!(
        furthest <= MOST_OFF || !parameters.is_exact,
        "a thread is {furthest} thousandths off its share"
    );
    Ok(())
}

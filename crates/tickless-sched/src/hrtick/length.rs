//! The time for which the running task may continue to run.

use tickless_core::time::Span;

use crate::amount::Weight;
use crate::fair::Slice;
use crate::load::Load;

/// The result of [`fair_length`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// The running task has no limit, because no other task waits.
    Nothing,
    /// The virtual deadline has passed: reschedule at once, without a timer.
    Over,
    /// The rest of the time, on the wall clock.
    Left(Span),
}

/// Returns how long a task of the fair class may run until its virtual deadline, when `runnable` tasks of the class
/// could run on the CPU, counted through groups, itself among them (TICK-5).
///
/// The time of interrupts is added, by their load. The time of other classes is not, because it does not pass while the
/// task runs (TICK-6). The result is an estimate: if the tick fires early, the task is picked again, and gets another
/// tick (TICK-7, TICK-8).
///
/// ```
/// use tickless_core::time::Span;
/// use tickless_sched::fair::Slice;
/// use tickless_sched::hrtick::{Length, fair_length};
/// use tickless_sched::load::Load;
/// use tickless_sched::Weight;
///
/// let slice = Slice { weight: Weight::UNIT, left: 2_800_000 };
/// let length = fair_length(slice, 2, Load::of_1024(256));
/// assert_eq!(length, Length::Left(Span::from_nanos(3_732_421)));
/// ```
#[must_use]
#[inline]
pub fn fair_length(slice: Slice, runnable: usize, interrupts: Load) -> Length {
    if runnable <= 1 {
        return Length::Nothing;
    }
    let Ok(left) = u64::try_from(slice.left) else {
        return Length::Over;
    };
    if slice.weight == Weight::UNIT && interrupts == Load::NONE {
        // Most tasks: what is left is the length, and nothing is multiplied.
        return Length::Left(Span::from_nanos(left));
    }
    // As wide as the product can be: neither a large difference of weights nor a foreign deadline overflows (TICK-10).
    let work = u128::from(left) * u128::from(slice.weight.get()) / u128::from(Weight::UNIT.get());
    let length = match u128::from(interrupts.get()) {
        0 => work,
        1024.. => work,
        // The quotient first, as the specification has it (spec X-13.5).
        load => work * (1024 * 1024 / (1024 - load)) / 1024,
    };
    Length::Left(Span::from_nanos(u64::try_from(length).unwrap_or(u64::MAX)))
}

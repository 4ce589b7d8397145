//! The turn of one subject: its measurements, while no timer of another subject is pending.
//!
//! Each turn runs on a thread of its own. A worker, an entered runtime and their thread-local data end with this
//! thread. A subject that does not sleep is measured in processor time of its thread, because on a machine with other
//! work the time in which the thread did not run says nothing. An operation in which threads wait for each other is
//! measured in elapsed time.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::memory;
use crate::operation::Operation;
use crate::random::{Delays, IDLE, delay_of};
use crate::subject::Subject;

/// The work of one turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) operations: &'a [Operation],
    pub(crate) pending: usize,
    /// The number of repetitions of each operation.
    pub(crate) repeats: u64,
    pub(crate) seed: u64,
}

/// The number of operations between two readings of the clock, for operations that do not read the clock each time.
const READ_EACH: u64 = 1_024;
/// The number of timers of each thread, for operations that compare threads.
pub(crate) const FEW: usize = 1_000;

fn nanos_of(clock: ClockId) -> i128 {
    let time = clock_gettime(clock);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn each(nanos: i128, count: u64) -> f64 {
    nanos as f64 / count as f64
}

/// Arms the timers of all slots, and returns the number of timers that wait to fire.
fn fill<S: Subject>(subject: &mut S, place: &S::Environment, pending: usize) -> usize {
    let mut now = subject.now();
    let mut armed = 0;
    for slot in 0..pending {
        if (slot as u64).is_multiple_of(READ_EACH) {
            S::serve(place);
            now = subject.now();
        }
        armed += usize::from(subject.arm(slot, S::later(now, delay_of(slot))));
    }
    armed
}

/// Repeats `body`, which takes the time of the subject's clock. Returns the nanoseconds for one call, and the number of
/// calls that returned true.
fn repeated<S: Subject, const CLOCK_EACH: bool>(
    (subject, place): (&mut S, &S::Environment),
    count: u64,
    mut body: impl FnMut(&mut S, S::Time, u64) -> bool,
) -> (f64, u64) {
    let mut good = 0;
    let start = nanos_of(ClockId::ThreadCPUTime);
    let mut now = subject.now();
    for number in 0..count {
        if number % READ_EACH == 0 {
            S::serve(place);
        }
        if CLOCK_EACH || number % READ_EACH == 0 {
            now = subject.now();
        }
        good += u64::from(body(subject, now, number));
    }
    let nanos = nanos_of(ClockId::ThreadCPUTime) - start;
    (each(nanos, count), black_box(good))
}

/// Measures one of the operations that need pending timers.
fn operate<S: Subject>(
    subject: (&mut S, &S::Environment),
    operation: Operation,
    pending: usize,
    count: u64,
    delays: &mut Delays,
) -> (f64, u64) {
    let push = |subject: &mut S, slot, deadline| {
        subject.push_out(slot, deadline);
        true
    };
    // Later by nanoseconds than what the same slot got from the same reading of the clock.
    let small = |subject: &mut S, now, number: u64, delays: &mut Delays| {
        let slot = delays.slot(pending);
        let delay = delay_of(slot) + number % READ_EACH;
        push(subject, slot, S::later(now, delay))
    };
    match operation {
        Operation::ArmCancel => repeated::<S, false>(subject, count, |subject, now, _| {
            subject.arm_and_cancel(S::later(now, delays.random()))
        }),
        Operation::PushSmall => repeated::<S, false>(subject, count, |subject, now, number| {
            small(subject, now, number, delays)
        }),
        Operation::PushSmallClock => repeated::<S, true>(subject, count, |subject, now, number| {
            small(subject, now, number, delays)
        }),
        Operation::PushRandom => repeated::<S, false>(subject, count, |subject, now, _| {
            let slot = delays.slot(pending);
            push(subject, slot, S::later(now, delays.random()))
        }),
        Operation::PushIdle => repeated::<S, false>(subject, count, |subject, now, number| {
            let slot = delays.slot(pending);
            push(subject, slot, S::later(now, IDLE + number % READ_EACH))
        }),
        Operation::Churn => repeated::<S, false>(subject, count, |subject, now, _| {
            let slot = delays.slot(pending);
            let was_armed = subject.cancel(slot);
            subject.arm(slot, S::later(now, delays.random())) & (was_armed | S::FIRES)
        }),
        // Of another setting.
        _ => (0.0, count),
    }
}

/// Measures the operations of a turn in a queue that is filled once.
///
/// # Errors
///
/// The turn had a fault: fewer timers were armed or pending than expected.
pub(crate) fn pending<S: Subject>(turn: Turn<'_>) -> Result<Vec<(Operation, f64)>, String> {
    let began = Instant::now();
    S::within(|place| {
        let mut measured = Vec::new();
        let before = memory::allocated();
        let mut subject = S::new(place, turn.pending, false);
        let armed = fill(&mut subject, place, turn.pending);
        let after = memory::allocated();
        if (armed as u64) < at_least(turn.pending as u64, began.elapsed()) {
            return Err(format!(
                "only {armed} of {} timers were armed",
                turn.pending
            ));
        }
        let mut delays = Delays::new(turn.seed);
        for &operation in turn.operations {
            if operation == Operation::Memory {
                if let (Some(before), Some(after)) = (before, after) {
                    let bytes = after.saturating_sub(before);
                    measured.push((operation, each(bytes.into(), turn.pending as u64)));
                }
                continue;
            }
            let mut run = |count| {
                operate(
                    (&mut subject, place),
                    operation,
                    turn.pending,
                    count,
                    &mut delays,
                )
            };
            run(turn.repeats / 8 + 1);
            let started = Instant::now();
            let (nanos, good) = run(turn.repeats);
            if good < at_least(turn.repeats, started.elapsed()) {
                return Err(format!(
                    "{}: only {good} of {} timers were armed and taken back",
                    operation.name(),
                    turn.repeats
                ));
            }
            measured.push((operation, nanos));
        }
        settle(&mut subject, turn.pending, began)?;
        Ok(measured)
    })
}

/// Returns how many of `count` timers with random delays must at least still be pending after `passed` since the clock
/// was read. Some may have fired already, because the thread can lose its CPU.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a count"
)]
fn at_least(count: u64, passed: Duration) -> u64 {
    // Delays are spread evenly over a minute. Five standard deviations, and a few for small counts.
    let share = passed.as_secs_f64() / Duration::from_nanos(IDLE).as_secs_f64();
    let over = count as f64 * share;
    (count as f64 - over - 5.0 * over.sqrt() - 3.0).max(0.0) as u64
}

/// Checks that enough timers are pending, cancels all of them, and checks that none is pending afterwards.
fn settle<S: Subject>(subject: &mut S, pending: usize, began: Instant) -> Result<(), String> {
    if !S::FIRES {
        return Ok(());
    }
    let live = (0..pending).filter(|&slot| subject.is_armed(slot)).count();
    if (live as u64) < at_least(pending as u64, began.elapsed()) {
        return Err(format!(
            "only {live} of {pending} timers are pending at the end"
        ));
    }
    for slot in 0..pending {
        subject.cancel(slot);
    }
    let left = (0..pending).filter(|&slot| subject.is_armed(slot)).count();
    if left > 0 {
        return Err(format!("{left} timers are pending that were cancelled"));
    }
    Ok(())
}

/// The time between arming and the deadline of timers that all fire at once: a constant, and the time that arming
/// takes.
const LEAD: Duration = Duration::from_millis(200);
const LEAD_FOR_EACH: Duration = Duration::from_micros(2);
/// The longest wait for a timer: longer than any library is late, on any machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Fires timers that are due at once. Returns the processor time of the whole process for one timer, so that the result
/// does not depend on which thread fires it.
pub(crate) fn expire<S: Subject>(turn: Turn<'_>) -> Result<f64, String> {
    let count = turn.pending;
    let times = u32::try_from(count).unwrap_or(u32::MAX);
    let mut lead = LEAD + LEAD_FOR_EACH * times;
    loop {
        let measured = S::within(|place| -> Result<Option<f64>, String> {
            let Some((mut subject, deadline)) = all_due::<S>(place, count, lead, turn.seed) else {
                return Ok(None);
            };
            let start = nanos_of(ClockId::ProcessCPUTime);
            let fired = fire_all(&mut subject, place, count, deadline)?;
            let nanos = nanos_of(ClockId::ProcessCPUTime) - start;
            if fired > count as u64 {
                return Err(format!("{fired} timers fired of {count}"));
            }
            Ok(Some(each(nanos, count as u64)))
        })?;
        match measured {
            Some(nanos) => return Ok(nanos),
            None if lead > PATIENCE => return Err(format!("{count} timers take too long to arm")),
            None => lead *= 2,
        }
    }
}

/// Arms timers that are due at once, `lead` from now. Returns `None` if arming took longer than `lead`.
fn all_due<S: Subject>(
    place: &S::Environment,
    count: usize,
    lead: Duration,
    seed: u64,
) -> Option<(S, Instant)> {
    let mut subject = S::new(place, count, true);
    let deadline = Instant::now() + lead;
    let now = subject.now();
    let lead = u64::try_from(lead.as_nanos()).unwrap_or(u64::MAX);
    // Within a tenth of a nanosecond for each: all at once for what takes longer than that to fire one.
    let window = (count as u64 / 10).max(1);
    let mut delays = Delays::new(seed);
    for slot in 0..count {
        let at = delays.random() % window;
        subject.arm(slot, S::later(now, lead + at));
    }
    (Instant::now() < deadline).then_some((subject, deadline))
}

/// Waits for the deadline and fires the timers. Returns the number of timers that fired.
fn fire_all<S: Subject>(
    subject: &mut S,
    place: &S::Environment,
    count: usize,
    deadline: Instant,
) -> Result<u64, String> {
    std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
    let mut fired = 0;
    while fired < count as u64 {
        fired = subject.fire(place);
        if deadline.elapsed() > PATIENCE {
            return Err(format!("only {fired} of {count} timers fired"));
        }
    }
    Ok(fired)
}

/// Measures making a future and dropping it without a poll.
pub(crate) fn unpolled<S: Subject>(turn: Turn<'_>) -> f64 {
    S::within(|place| {
        let mut subject = S::new(place, 0, false);
        let mut delays = Delays::new(turn.seed);
        let mut run = |count| {
            repeated::<S, false>((&mut subject, place), count, |subject, now, _| {
                subject.drop_unpolled(S::later(now, delays.random()));
                true
            })
        };
        run(turn.repeats / 8 + 1);
        run(turn.repeats).0
    })
}

/// Measures the operations of a turn on several threads at once, each with timers of its own. Returns the elapsed time
/// for one operation of one thread.
pub(crate) fn threads<S: Subject>(
    turn: Turn<'_>,
    threads: u32,
) -> Result<Vec<(Operation, f64)>, String> {
    let barrier = Barrier::new(threads as usize);
    let all: Vec<_> = std::thread::scope(|scope| {
        let barrier = &barrier;
        let handles: Vec<_> = (0..threads)
            .map(|number| scope.spawn(move || on_one_of::<S>(turn, number, barrier)))
            .collect();
        let joined = handles.into_iter().map(|handle| {
            let measured = handle.join().map_err(|_| "a thread panicked".to_owned())?;
            measured.map_err(|what| format!("{what} on one of {threads} threads"))
        });
        joined.collect::<Result<_, _>>()
    })?;
    let mean = |index: usize| {
        let sum: f64 = all.iter().map(|nanos: &Vec<f64>| nanos[index]).sum();
        sum / f64::from(threads)
    };
    let measured = turn.operations.iter().enumerate();
    Ok(measured
        .map(|(index, &operation)| (operation, mean(index)))
        .collect())
}

/// Measures one of the threads, operation by operation. The thread waits at every barrier even after an error.
fn on_one_of<S: Subject>(
    turn: Turn<'_>,
    number: u32,
    barrier: &Barrier,
) -> Result<Vec<f64>, String> {
    let began = Instant::now();
    S::within(|place| {
        let mut subject = S::new(place, FEW, false);
        let armed = fill(&mut subject, place, FEW) as u64;
        let mut delays = Delays::new(turn.seed + u64::from(number));
        let (mut measured, mut fault) = (Vec::new(), None);
        if armed < at_least(FEW as u64, began.elapsed()) {
            fault = Some(format!("only {armed} of {FEW} timers were armed"));
        }
        for operation in turn.operations {
            let same = operation.of_one_thread();
            let mut run = |count| operate((&mut subject, place), same, FEW, count, &mut delays).1;
            run(turn.repeats / 8 + 1);
            barrier.wait();
            let start = Instant::now();
            let good = run(turn.repeats);
            let passed = start.elapsed();
            measured.push(each(passed.as_nanos().cast_signed(), turn.repeats));
            if good < at_least(turn.repeats, passed) {
                let (name, repeats) = (operation.name(), turn.repeats);
                fault = Some(format!("{name}: only {good} of {repeats} were done"));
            }
        }
        fault.map_or(Ok(measured), Err)
    })
}

/// Checks that a subject does the measured operations, with four timers: the first is due, the second is pulled forward
/// until it is due, the third is cancelled, and the fourth is pushed out.
pub(crate) fn proof<S: Subject>() -> Result<(), String> {
    // On a machine that is busy a thread may lose its CPU for longer than that, and then its timers are over before
    // they are cancelled: another time, with twice as much.
    let mut soon = Duration::from_millis(20);
    loop {
        match prove::<S>(soon) {
            Some(proven) => return proven,
            None if soon > PATIENCE => return Err("this machine is too busy to tell".to_owned()),
            None => soon *= 2,
        }
    }
}

/// Checks a subject with timers that are due after `soon`; returns `None` if the thread took longer than `soon` to arm
/// them.
fn prove<S: Subject>(soon: Duration) -> Option<Result<(), String>> {
    const LATER: u64 = 3_600_000_000_000;
    S::within(|place| {
        let mut subject = S::new(place, 4, true);
        let due = Instant::now() + soon;
        let soon = u64::try_from(soon.as_nanos()).unwrap_or(u64::MAX);
        let now = subject.now();
        let delays = [soon, LATER, soon, soon];
        let armed = delays.into_iter().enumerate();
        let armed = armed.filter(|&(slot, delay)| subject.arm(slot, S::later(now, delay)));
        let armed = armed.count();
        subject.push_out(1, S::later(now, soon));
        let was_cancelled = subject.cancel(2);
        subject.push_out(3, S::later(now, LATER));
        if Instant::now() >= due {
            return None;
        }
        if armed < delays.len() {
            return Some(Err("a timer does not wait to fire".to_owned()));
        }
        if !was_cancelled {
            return Some(Err("a pending timer cannot be cancelled".to_owned()));
        }
        Some(fires_two(&mut subject, place, due))
    })
}

/// Checks the second half of the proof: the first two timers fire, and not before they are due. The third timer is no
/// longer armed, and the fourth is pending.
fn fires_two<S: Subject>(
    subject: &mut S,
    place: &S::Environment,
    due: Instant,
) -> Result<(), String> {
    let mut fired = 0;
    while fired < 2 {
        fired = subject.fire(place);
        if due.elapsed() > PATIENCE {
            return Err(format!("{fired} of two timers fired that were due"));
        }
    }
    // Some clocks go in milliseconds.
    if Instant::now() + Duration::from_millis(1) < due {
        return Err("timers fired before they were due".to_owned());
    }
    if fired > 2 {
        return Err(format!("{fired} timers fired of two that were due"));
    }
    if subject.is_armed(2) {
        return Err("a timer is pending that was cancelled".to_owned());
    }
    if !subject.is_armed(3) {
        return Err("a timer that was pushed out is not pending".to_owned());
    }
    Ok(())
}

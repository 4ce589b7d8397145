//! Tests of threads with a reservation together with threads that never give up the CPU: each reserved thread gets its
//! runtime in each period, before its deadline, and no more.
//!
//! The tests do not trust the accounts of the queue. A thread reads the counter for ever, and a gap between two
//! readings is a time in which the thread did not run.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::pin::Pin;

use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Start};
use tickless_core::link::lock::Lock;
use tickless_core::time::{Instant, Monotonic, Span};
use tickless_sched::deadline::{Bandwidth, Reservation};
use tickless_sched::hrtick::{LEAST_DELAY, SETUP};
use tickless_sched::{Request, Weight};

use super::fixture::{Spread, Verdict, ending_after, ensure};
use crate::arch;
use crate::classes::{Classes, Want};
use crate::console::say;
use crate::late::Late;
use crate::lock::MaskingLock;
use crate::machine::{Machine, machine};
use crate::note::{Count, Note};
use crate::parameters::Parameters;
use crate::tasks::{self, Function, Leaves, Ran, Tick};

/// The runtime, deadline and period of each thread with a reservation, in microseconds. The first two threads want more
/// than their runtime.
const RESERVED: [[u64; 3]; 3] = [
    [2_000, 5_000, 10_000],
    [1_000, 4_000, 4_000],
    [500, 2_000, 5_000],
];
/// The thread that a timer wakes at the begin of each of its periods, and the length of its work.
const SLEEPS: usize = 2;
const WORK: Span = Span::from_micros(300);
/// The first of two fair threads.
const FAIR: usize = RESERVED.len();
const THREADS: usize = FAIR + 2;
const LENGTH: Span = Span::from_millis(100);
/// The longest gap between two readings without an interrupt.
const GAP: Span = Span::from_nanos(500);
/// The greatest lateness of a tick, which may come while a switch has interrupts masked.
const LATE_MAX: Span = Span::from_micros(5);
/// The most by which the time that a thread reads in a period may be below its runtime: the thread is also charged for
/// the switch, and for the begin and the end of interrupts.
const LOST_MAX: Span = Span::from_micros(25);

/// A time in which a thread ran.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: Instant,
    to: Instant,
}

static PIECES: Lock<MaskingLock, [Vec<Piece>; THREADS]> =
    Lock::new(MaskingLock::new(), [const { Vec::new() }; THREADS]);
/// The tick, whose callback notes how late its interrupt is entered.
static TICK: HrTimer<Function> = HrTimer::with_setup(SETUP, false, ends);
/// The timer of the thread that sleeps.
static RELEASE: HrTimer<Function> = HrTimer::with_setup(Setup::new(), false, release);
/// The number of ticks, the number of ticks that were entered in time, and the greatest lateness of a tick, in
/// nanoseconds.
static ENDS: [Count; 3] = [const { Count::new() }; 3];
/// True while the periodic thread sleeps.
static IS_ASLEEP: Note = Note::new();
/// The last release of the periodic thread, in nanoseconds.
static RELEASED: Count = Count::new();

fn ends(expired: &mut Expired<'_, '_, Monotonic>) -> Restart {
    let host = machine().host();
    let entered = host.time_of(host.here().entered.get());
    // The device fires with the first count that is not before the deadline.
    let count = 1_000_000_u64.div_ceil(u64::from(arch::kilohertz().0));
    let late = entered.saturating_since(expired.deadline()).as_nanos() / count * count;
    let [all, exact, latest] = &ENDS;
    all.add(1);
    exact.add(u64::from(late <= *arch::ENTRY_LATENESS.end()));
    latest.set(latest.get().max(late));
    tasks::slice_ends(expired)
}

fn reservation([runtime, deadline, period]: [u64; 3]) -> Reservation {
    let [runtime, deadline, period] = [runtime, deadline, period].map(Span::from_micros);
    Reservation::new(runtime, deadline, period).expect("it makes sense")
}

/// Reads the counter until the thread ran for `length`, and records the times in which the thread ran.
fn spin(task: usize, length: Span) {
    let counts = |span: Span| span.as_nanos() * u64::from(arch::kilohertz().0) / 1_000_000;
    let (gap, mut left) = (counts(GAP), counts(length));
    let mut from = arch::counter();
    let mut to = from;
    let note = |from, to| {
        let host = machine().host();
        let [from, to] = [from, to].map(|count| host.time_of(count));
        PIECES.lock(None)[task].push(Piece { from, to });
    };
    while left > 0 {
        let now = arch::counter();
        let passed = now - to;
        if passed > gap {
            note(from, to);
            from = now;
            // What the note takes is the thread's own time.
            to = arch::counter();
        } else {
            left = left.saturating_sub(passed);
            to = now;
        }
    }
    note(from, to);
}

/// Wakes the thread that sleeps, at the begin of each of its periods.
fn release(expired: &mut Expired<'_, '_, Monotonic>) -> Restart {
    let [.., period] = RESERVED[SLEEPS];
    RELEASED.set(expired.deadline().as_nanos().unsigned_abs());
    if IS_ASLEEP.take() {
        tasks::wake_in_interrupt(SLEEPS);
    }
    expired.forward(expired.now(), Span::from_micros(period));
    Restart::Yes
}

/// The body of the periodic thread: works when its timer wakes it, and records the time from the wake-up to the end of
/// the work.
fn work_when_woken(took: &Spread) -> ! {
    loop {
        let before = arch::mask();
        IS_ASLEEP.leave();
        tasks::leave(Leaves::Asleep);
        arch::restore(before);
        spin(SLEEPS, WORK);
        took.note(machine().now().as_nanos().unsigned_abs() - RELEASED.get());
    }
}

static TOOK: Late<Spread> = Late::new();

fn body(task: usize) {
    match TOOK.get() {
        Some(took) if task == SLEEPS => work_when_woken(took),
        _ => spin(task, Span::from_secs(3_600)),
    }
}

/// Returns the time that a thread ran from `from` to `to`, the number of pieces, and the end of the last piece.
fn had(task: usize, from: Instant, to: Instant) -> (u64, u64, Instant) {
    let (mut nanos, mut pieces, mut last) = (0, 0, from);
    for piece in &PIECES.lock(None)[task] {
        let (begin, end) = (piece.from.max(from), piece.to.min(to));
        if begin < end {
            nanos += end.saturating_since(begin).as_nanos();
            pieces += 1;
            last = end;
        }
    }
    (nanos, pieces, last)
}

/// Runs a thread for each of `wants`, for [`LENGTH`].
fn run(machine: &'static Machine, wants: &[Want]) -> Ran {
    for pieces in PIECES.lock(None).iter_mut() {
        pieces.clear();
    }
    ending_after(machine, LENGTH, || {
        tasks::run_by(Pin::static_ref(&TICK), Tick::WHOLE, wants, body)
    })
}

/// Checks each whole period of a thread that wants more than its reservation.
fn judge(task: usize, began: Instant, is_exact: bool) -> Verdict {
    let [runtime, deadline, period] = RESERVED[task].map(Span::from_micros);
    let (runtime, spread, latest) = (runtime.as_nanos(), Spread::new(), Spread::new());
    // A tick is early by the interrupts that come before it, and then started again, for the shortest delay at least.
    let (least, most) = (
        runtime - LOST_MAX.as_nanos(),
        runtime + LEAST_DELAY.as_nanos(),
    );
    let (mut begin, mut all, mut pieces) = (began, 0, 0);
    // What ran when the run ended is not noted.
    let end = began.saturating_add(Span::from_nanos(LENGTH.as_nanos() - period.as_nanos()));
    while begin < end {
        let next = begin.saturating_add(period);
        let (nanos, times, last) = had(task, begin, next);
        let response = last.saturating_since(begin);
        ensure!(
            !is_exact || (least..=most).contains(&nanos),
            "thread {task} had {nanos} ns of {runtime}, from {} on",
            begin.as_nanos()
        );
        ensure!(
            !is_exact || response <= deadline,
            "thread {task} had its runtime {} ns behind the begin of its period",
            response.as_nanos()
        );
        spread.note(nanos);
        latest.note(response.as_nanos());
        (begin, all, pieces) = (next, all + nanos, pieces + times);
    }
    let periods = spread.count.get();
    say!(
        "  {} of {} us: had {spread} in each of {periods} periods, {pieces} times the CPU, by {latest}",
        runtime / 1_000,
        period.as_nanos() / 1_000,
    );
    // What it had too much in one is taken from the next.
    ensure!(
        !is_exact || all <= periods * runtime + LEAST_DELAY.as_nanos(),
        "thread {task} had {all} ns in {periods} periods of {runtime} ns"
    );
    Ok(())
}

/// A reservation is refused if it exceeds 95 % together with the existing ones, and accepted when an existing one has
/// ended.
fn admission(wants: &[Want]) -> Verdict {
    let mut classes = Classes::new(wants).map_err(|error| alloc::format!("{error}"))?;
    let half = reservation([5_000, 10_000, 10_000]);
    let Err(refused) = classes.reserve(half) else {
        return Err(String::from("105 % of the CPU was reserved"));
    };
    say!("  refused: {refused}");
    ensure!(
        refused.limit == Bandwidth::percent(95) && refused.asked == half.bandwidth(),
        "the refusal says {refused:?}"
    );
    ensure!(classes.dismiss(1), "a thread had no reservation");
    let again = classes.reserve(half);
    ensure!(again.is_ok(), "80 % of the CPU are refused: {again:?}");
    Ok(())
}

/// Runs two threads that want more than their reservations, one thread that sleeps and works, and two fair threads;
/// then a single thread that wants more than its reservation.
pub(super) fn reserved(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    let is_exact = parameters.is_exact;
    let [first, second, third] = RESERVED.map(|numbers| Want::Reserved(reservation(numbers)));
    let fair = Want::Share(Weight::UNIT, Request::DEFAULT);
    admission(&[first, second, third, fair, fair])?;
    let took = TOOK.set(Box::new(Spread::new()));
    let (release, [_, deadline, period]) = (Pin::static_ref(&RELEASE), RESERVED[SLEEPS]);
    let [deadline, period] = [deadline, period].map(Span::from_micros);
    let _started = release.start(machine.timers, Start::after(period).pinned());
    let ran = run(machine, &[first, second, third, fair, fair]);
    release.cancel(machine.timers);
    for task in 0..SLEEPS {
        judge(task, ran.began, is_exact)?;
    }
    say!(
        "  {} us of work that a timer asks for: done {took} behind it",
        WORK.as_nanos() / 1_000
    );
    ensure!(
        took.count.get() >= LENGTH.as_nanos() / period.as_nanos() - 1,
        "it was woken {} times",
        took.count.get()
    );
    ensure!(
        !is_exact || took.greatest.get() <= deadline.as_nanos(),
        "it was done {} ns behind its release",
        took.greatest.get()
    );
    let end = ran.began.saturating_add(LENGTH);
    let [left, right] = [FAIR, FAIR + 1].map(|task| had(task, ran.began, end).0);
    let [ticks, exact, latest] = [0, 1, 2].map(|count| ENDS[count].get());
    say!(
        "  {left} and {right} ns for the fair ones; {exact} of {ticks} ticks up to {} ns late, none over {latest}",
        arch::ENTRY_LATENESS.end()
    );
    ensure!(
        !is_exact || latest <= LATE_MAX.as_nanos() && exact + 2 >= ticks,
        "{exact} of {ticks} ticks are entered in time, and one {latest} ns late"
    );
    // 51 of 100 ms are not reserved, or not used. What ran when the run ended is not noted.
    let is_right =
        left.abs_diff(right) <= 6_000_000 && (44..=50).contains(&((left + right) / 1_000_000));
    ensure!(
        !is_exact || is_right,
        "the fair threads had {left} and {right} ns"
    );
    let local = machine.host().here();
    let sleeps = local.sleeps.get();
    let ran = run(machine, &[first]);
    judge(0, ran.began, is_exact)?;
    let sleeps = local.sleeps.get() - sleeps;
    ensure!(
        sleeps > 0,
        "the CPU did not sleep when the one thread had its runtime"
    );
    Ok(())
}

//! Tests of an executor of embassy as a guest: its tasks sleep by the timers of the kernel, and each wakes at its
//! instant.
//!
//! The executor runs alone on a CPU that sleeps between wake-ups, and as a thread together with threads that never give
//! up the CPU. A thread with a reservation runs at once when it is woken; a thread of the fair class waits for its
//! turn.

use alloc::boxed::Box;

use embassy_time::{Duration, Instant, Ticker, Timer, with_deadline, with_timeout};
use tickless_core::time::Span;
use tickless_sched::deadline::Reservation;
use tickless_sched::{Request, Weight};

use super::fixture::{Spread, Verdict, ensure};
use crate::arch;
use crate::classes::Want;
use crate::console::say;
use crate::embassy::Guest;
use crate::idle;
use crate::late::Late;
use crate::machine::{Machine, machine};
use crate::note::{Count, Note};
use crate::parameters::Parameters;
use crate::tasks::{self, Leaves, Tick};

/// The number of the executor that the first CPU polls, and the numbers of the executors of threads.
const ALONE: usize = 0;
const IN_THREAD: usize = 1;
/// The number of the thread that has an executor; the other threads compute.
const GUEST: usize = 0;
/// The number of ticks of a ticker, and the time between two ticks.
const TICKS: u64 = 40;
const EVERY: Duration = Duration::from_millis(1);
/// Lengths of the sleeps of each task that sleeps, in microseconds: whole counts of each machine.
const SLEEPS: [u64; 4] = [40, 170, 332, 1_010];
const TIMES: u64 = 10;
/// The greatest time in nanoseconds from an instant to the run of the task that waits for it. The time covers the
/// interrupt, the callback, the waker, the switch to the thread and the poll, and the polls of other tasks that wait,
/// too.
const LATE_MAX: u64 = 8_000;
/// The percentage of waits, at least, whose interrupt is not delayed by another interrupt.
const IN_TIME: u64 = 85;

/// True if an executor was pended since its last poll.
static IS_PENDED: Note = Note::new();
/// True if the thread of an executor sleeps.
static IS_ASLEEP: Note = Note::new();
/// Tasks that are not over.
static LEFT: Count = Count::new();
/// Interrupts that were entered as late after their instant as the machine always is.
static EXACT: Count = Count::new();

static LATE: [Late<Spread>; 3] = [const { Late::new() }; 3];
/// The number of the spread that the run writes.
static WAY: Count = Count::new();

/// Notes that the executor with this number has work.
fn pended(number: usize) {
    IS_PENDED.leave();
    if number == IN_THREAD && IS_ASLEEP.take() {
        tasks::wake_in_interrupt(GUEST);
    }
    if arch::cpu() != 0 {
        arch::interrupt_cpu(0);
    }
}

/// Notes the lateness of a wait that was due at `due`.
fn note(due: Instant) {
    let late = Instant::now().checked_duration_since(due);
    if let (Some(spread), Some(late)) = (LATE[WAY.get() as usize].get(), late) {
        spread.note(late.as_ticks());
    }
    let host = machine().host();
    let entered = host.time_of(host.here().entered.get()).as_nanos();
    let entry = entered.unsigned_abs().checked_sub(due.as_ticks());
    EXACT.add(u64::from(
        entry.is_some_and(|late| late <= *arch::ENTRY_LATENESS.end()),
    ));
}

/// Sleeps several times for `micros` microseconds.
async fn sleep(micros: u64) {
    for _ in 0..TIMES {
        let due = Instant::now() + Duration::from_micros(micros);
        Timer::at(due).await;
        note(due);
    }
    LEFT.set(LEFT.get() - 1);
}

/// Waits for each tick of a ticker.
async fn tick() {
    let mut ticker = Ticker::every(EVERY);
    let mut due = Instant::now();
    ticker.reset_at(due);
    for _ in 0..TICKS {
        due += EVERY;
        ticker.next().await;
        note(due);
    }
    LEFT.set(LEFT.get() - 1);
}

/// Ends a sleep of a minute by a timeout, and does not end one of a moment.
async fn try_timeouts() {
    let due = Instant::now() + Duration::from_micros(250);
    let slow = with_deadline(due, Timer::after_secs(60)).await;
    note(due);
    let fast = with_timeout(Duration::from_secs(60), Timer::after_micros(90)).await;
    if slow.is_err() && fast.is_ok() {
        LEFT.set(LEFT.get() - 1);
    }
}

/// Begins the run with the number `way`, which has `tasks` tasks.
fn begin(way: usize, tasks: u64) -> &'static Spread {
    WAY.set(way as u64);
    LEFT.set(tasks);
    EXACT.set(0);
    LATE[way].set(Box::new(Spread::new()))
}

/// Runs an executor on the CPU, which sleeps between the wake-ups of the tasks.
fn alone(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    let late = begin(0, SLEEPS.len() as u64 + 2);
    let mut guest = Guest::new(ALONE, pended);
    for micros in SLEEPS {
        guest.spawn(sleep(micros));
    }
    guest.spawn(tick());
    guest.spawn(try_timeouts());
    let local = machine.host().here();
    let before = (local.timer_interrupts.get(), local.sleeps.get());
    // Those of a timeout that is over in time stay.
    while LEFT.get() > 0 {
        guest.poll();
        idle::until(|| IS_PENDED.take() || LEFT.get() == 0);
    }
    let interrupts = local.timer_interrupts.get() - before.0;
    let sleeps = local.sleeps.get() - before.1;
    let waits = late.count.get();
    say!(
        "  alone: {waits} waits end {late} late, {} by an interrupt in time; {interrupts} interrupts, {sleeps} sleeps",
        EXACT.get()
    );
    let wanted = SLEEPS.len() as u64 * TIMES + TICKS + 1;
    ensure!(
        waits == wanted,
        "{} of {wanted} waits were early",
        wanted - waits
    );
    ensure!(
        !parameters.is_exact || late.greatest.get() <= LATE_MAX,
        "a task was {} ns late",
        late.greatest.get()
    );
    ensure!(
        !parameters.is_exact || EXACT.get() * 100 >= waits * IN_TIME,
        "{} of {waits} interrupts were entered in time",
        EXACT.get()
    );
    // The sleep behind the timeout is a wait, too. One more is let pass: how instants fall together depends on the phase
    // in which the tests before leave the machine (80 to 83 were seen).
    ensure!(
        !parameters.is_exact || interrupts <= waits + 2,
        "{interrupts} interrupts for {} waits",
        waits + 1
    );
    Ok(())
}

/// The body of the threads: one runs the executor, and the others compute until its tasks have finished.
fn body(task: usize) {
    if task == GUEST {
        let mut guest = Guest::new(IN_THREAD, pended);
        guest.spawn(tick());
        while LEFT.get() > 0 {
            guest.poll();
            let before = arch::mask();
            while !IS_PENDED.take() && LEFT.get() > 0 {
                IS_ASLEEP.leave();
                tasks::leave(Leaves::Asleep);
            }
            arch::restore(before);
        }
    } else {
        while LEFT.get() > 0 {
            arch::counter();
        }
    }
    let before = arch::mask();
    tasks::leave(Leaves::Finished);
    arch::restore(before);
}

/// Runs an executor as a thread together with two threads that compute.
fn beside(way: usize, name: &str, guest: Want) -> Result<&'static Spread, alloc::string::String> {
    let late = begin(way, 1);
    let fair = Want::Share(Weight::UNIT, Request::DEFAULT);
    let ran = tasks::run(Tick::WHOLE, &[guest, fair, fair], body);
    say!(
        "  {name}, beside two that compute: {} ticks are {late} late, {} by an interrupt in time",
        late.count.get(),
        EXACT.get()
    );
    ensure!(ran.left == 0, "{} threads did not finish", ran.left);
    ensure!(
        late.count.get() == TICKS,
        "{} of {TICKS} ticks were early",
        TICKS - late.count.get()
    );
    Ok(late)
}

/// Tests an executor alone, as a thread with a reservation, and as a thread of the fair class.
pub(super) fn embassy(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    alone(machine, parameters)?;
    let [runtime, period] = [100, 1_000].map(Span::from_micros);
    let reservation = Reservation::new(runtime, period, period).expect("it makes sense");
    let late = beside(1, "with a reservation", Want::Reserved(reservation))?;
    ensure!(
        !parameters.is_exact || late.greatest.get() <= LATE_MAX,
        "a tick was {} ns late beside threads that compute",
        late.greatest.get()
    );
    ensure!(
        !parameters.is_exact || EXACT.get() == TICKS,
        "{} of {TICKS} interrupts were entered in time",
        EXACT.get()
    );
    let request = Request::clamped(Span::from_micros(200));
    let late = beside(2, "of the fair class", Want::Share(Weight::UNIT, request))?;
    let request = Request::DEFAULT.length().as_nanos();
    ensure!(
        !parameters.is_exact || late.greatest.get() <= request + LATE_MAX,
        "a tick waited {} ns for a turn",
        late.greatest.get()
    );
    Ok(())
}

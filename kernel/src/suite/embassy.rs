//! An executor of embassy as a guest: its tasks sleep in the timers of the kernel, and each wakes at its instant.
//!
//! The executor runs on the CPU that sleeps when there is nothing to do, and as a thread beside others that never let
//! go of the CPU: one with a reservation is called at once, one of the fair class when its turn comes.

use alloc::boxed::Box;

use embassy_time::{Duration, Instant, Ticker, Timer, with_deadline, with_timeout};
use tickless_core::time::Span;
use tickless_sched::deadline::Reservation;
use tickless_sched::{Request, Weight};

use super::classes::Want;
use super::tasks::{self, Leaves, Tick};
use super::{Spread, Verdict, ensure};
use crate::arch;
use crate::console::say;
use crate::embassy::Guest;
use crate::host::{Count, Note};
use crate::idle;
use crate::late::Late;
use crate::machine::{Machine, machine};
use crate::parameters::Parameters;

/// The executor that the first CPU polls, and those of threads.
const ALONE: usize = 0;
const IN_THREAD: usize = 1;
/// The thread that has an executor; the others compute.
const GUEST: usize = 0;
/// Ticks of a ticker, and the time between two.
const TICKS: u64 = 40;
const EVERY: Duration = Duration::from_millis(1);
/// Lengths of the sleeps of each task that sleeps, in microseconds: whole counts of each machine.
const SLEEPS: [u64; 4] = [40, 170, 332, 1_010];
const TIMES: u64 = 10;
/// Nanoseconds from an instant to the task that waits for it: the interrupt, the callback, the waker, the switch to the
/// thread and the poll. Where several tasks wait another one may be at it.
const LATE_MAX: u64 = 8_000;
/// Waits of a hundred, at least, whose interrupt finds no other one at it.
const IN_TIME: u64 = 85;

/// True if an executor was pended since its last poll.
static IS_PENDED: Note = Note::new();
/// True if the thread of an executor sleeps.
static IS_ASLEEP: Note = Note::new();
/// Tasks that are not over.
static LEFT: Count = Count::new();
/// Interrupts that were entered behind the instant that they are for as late as any.
static EXACT: Count = Count::new();

static LATE: [Late<Spread>; 3] = [const { Late::new() }; 3];
/// The number of the spread that is written.
static WAY: Count = Count::new();

/// The executor of the number has something to do.
pub(crate) fn pended(number: usize) {
    IS_PENDED.leave();
    if number == IN_THREAD && IS_ASLEEP.take() {
        tasks::wake_in_interrupt(GUEST);
    }
    if arch::cpu() != 0 {
        arch::interrupt_cpu(0);
    }
}

/// Notes how late it is.
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

/// Sleeps some times for so many microseconds.
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

/// Begins the way of the number, which has so many tasks.
fn begin(way: usize, tasks: u64) -> &'static Spread {
    WAY.set(way as u64);
    LEFT.set(tasks);
    EXACT.set(0);
    LATE[way].set(Box::new(Spread::new()))
}

/// Runs an executor on the CPU, which sleeps while none of its tasks was woken.
fn alone(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    let late = begin(0, SLEEPS.len() as u64 + 2);
    let mut guest = Guest::new(ALONE);
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
    // The sleep behind the timeout is a wait, too, and no other instant is one.
    ensure!(
        !parameters.is_exact || interrupts <= waits + 1,
        "{interrupts} interrupts for {} waits",
        waits + 1
    );
    Ok(())
}

/// The thread with the executor, and those that compute until its tasks are over.
fn body(task: usize) {
    if task == GUEST {
        let mut guest = Guest::new(IN_THREAD);
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

/// Runs an executor as a thread beside two that compute.
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

/// An executor alone, as a thread with a reservation, and as one of the fair class.
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

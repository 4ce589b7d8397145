//! Tests of the soft stage: what runs in it, and how long the interrupted code waits for it.

use core::pin::Pin;

use tickless_core::event::Flush;
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Stage, Start};
use tickless_core::platform::Platform;
use tickless_core::time::{Monotonic, Span};
use tickless_sched::{Request, Weight};

use super::fixture::{Verdict, ensure, kept, timer};
use crate::arch;
use crate::classes::Want;
use crate::console::say;
use crate::host::Host;
use crate::idle;
use crate::machine::{Machine, machine};
use crate::note::{Count, Note};
use crate::parameters::Parameters;
use crate::soft::TIME;
use crate::tasks::{self, Function, Leaves, Tick};

/// The delay of a timer that must not fire before its test has checked it.
const AHEAD: Span = Span::from_millis(10);

/// A callback of the soft stage runs with interrupts unmasked, and a timer of the hard stage interrupts it.
pub(super) fn soft(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    let (was_masked, is_hard_over, is_over) = (
        kept(Note::default()),
        kept(Note::default()),
        kept(Note::default()),
    );
    let flushes = |place: Flush| machine.timers.stats(machine.here()).flushes[place as usize];
    let before = flushes(Flush::SoftWork);
    let when = machine.now().saturating_add(AHEAD);
    let hard = timer(Setup::new().stage(Stage::Hard), move |_| {
        is_hard_over.leave();
        Restart::No
    });
    let soft = timer(Setup::new().stage(Stage::Soft), move |_| {
        was_masked.set(arch::is_masked());
        // The other timer is due in the middle of this.
        while !is_hard_over.is_there() {
            arch::relax();
        }
        is_over.leave();
        Restart::No
    });
    let _started = soft.start(machine.timers, Start::at(when).pinned());
    let _started = hard.start(
        machine.timers,
        Start::at(when.saturating_add(Span::from_micros(100))).pinned(),
    );
    idle::until(|| is_over.is_there());
    ensure!(
        !was_masked.is_there(),
        "the soft stage runs with interrupts masked"
    );
    let flushed = flushes(Flush::SoftWork) - before;
    let expected = u64::from(Host::DEFERRED_REARM);
    ensure!(
        flushed == expected,
        "{flushed} flushes before soft work, not {expected}"
    );
    Ok(())
}

/// The callbacks of a timer that restarts itself for the past.
const AGAIN: u64 = 20_000;
static CALLED: Count = Count::new();
static LOOPING: HrTimer<Function> =
    HrTimer::with_setup(Setup::new().stage(Stage::Soft), false, again);
/// The longest time for which the code that reads the counter did not run, and the sum of such times, in counts.
static STOOD: Count = Count::new();
static STOOD_ALL: Count = Count::new();

fn again(expired: &mut Expired<'_, '_, Monotonic>) -> Restart {
    CALLED.add(1);
    let now = expired.now();
    expired.set_deadline(now);
    if CALLED.get() < AGAIN {
        Restart::Yes
    } else {
        Restart::No
    }
}

/// Starts the timer, and reads the counter until the timer has ended.
fn read_on() {
    start();
    let mut last = arch::counter();
    let mut is_over = false;
    // Once more behind the end: a wait may end with the last callback.
    while !is_over {
        is_over = CALLED.get() >= AGAIN;
        let now = arch::counter();
        STOOD.set(STOOD.get().max(now - last));
        if nanos(now - last) >= TIME.as_nanos() / 2 {
            STOOD_ALL.add(now - last);
        }
        last = now;
    }
}

/// Returns the time of some counts.
fn nanos(counts: u64) -> u64 {
    counts * 1_000_000 / u64::from(arch::kilohertz().0)
}

fn start() {
    let started = Start::after(TIME).pinned();
    let _started = Pin::static_ref(&LOOPING).start(machine().timers, started);
}

fn reader(_: usize) {
    read_on();
    arch::mask();
    tasks::leave(Leaves::Finished);
}

/// A soft timer restarts itself for the past, 20,000 times. The code that it interrupts stands still for one stage at a
/// time. A thread shares the CPU with the thread that does the rest. An idle CPU needs one interrupt.
pub(super) fn softloop(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    let share = Want::Share(Weight::UNIT, Request::clamped(TIME));
    let in_thread = || {
        let ran = tasks::run(Tick::WHOLE, &[share], reader);
        assert_eq!(ran.left, 0, "the thread ended");
    };
    let asleep = || {
        start();
        idle::until(|| CALLED.get() == AGAIN);
    };
    let ways: [(&str, &dyn Fn(), u64); 3] = [
        ("without threads", &read_on, 2),
        ("in a thread", &in_thread, 3),
        ("asleep", &asleep, 0),
    ];
    for (name, way, stages) in ways {
        for count in [&CALLED, &STOOD, &STOOD_ALL] {
            count.set(0);
        }
        let local = machine.host().here();
        let interrupts = local.timer_interrupts.get();
        let began = arch::counter();
        way();
        let percent = STOOD_ALL.get() * 100 / (arch::counter() - began);
        let interrupts = local.timer_interrupts.get() - interrupts;
        idle::until(|| !LOOPING.is_active());
        let stood = nanos(STOOD.get());
        say!(
            "  {name}: {interrupts} interrupts, stood still for {stood} ns, {percent} % of the time"
        );
        ensure!(
            stood <= stages * TIME.as_nanos() && percent <= 55 || !parameters.is_exact,
            "{name}: the interrupted code stood still for {stood} ns, {percent} % of the time"
        );
        ensure!(
            stages > 0 || interrupts == 1 || !parameters.is_exact,
            "{name}: {interrupts} interrupts"
        );
    }
    Ok(())
}

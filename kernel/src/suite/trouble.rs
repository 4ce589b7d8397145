//! Tests of trouble: a device that does not fire, a CPU that the machine does not have, and the ways in which a run may
//! end badly, each with a code of its own.

use alloc::vec::Vec;
use core::pin::Pin;

use tickless_core::hrtimer::{Expired, HrTimer, Restart, Start};
use tickless_core::time::{Monotonic, Span};

use super::fixture::{Verdict, ensure};
use crate::arch::{self, Begins};
use crate::console::say;
use crate::idle;
use crate::interrupt;
use crate::machine::{Machine, machine};
use crate::note::Count;
use crate::parameters::Parameters;
use crate::processors::NotStarted;

/// The time from a start to the deadline of a timer whose device is stopped.
const AHEAD: Span = Span::from_millis(10);

type Function = fn(&mut Expired<'_, '_, Monotonic>) -> Restart;

/// The timers that fired in [`dead`], and by how many milliseconds the last one was late.
static FIRED: Count = Count::new();
static LATE: Count = Count::new();
static TIMERS: [HrTimer<Function>; 2] = [const { HrTimer::new(fire) }; 2];

fn fire(expired: &mut Expired<'_, '_, Monotonic>) -> Restart {
    let late = machine().now().saturating_since(expired.deadline());
    LATE.set(late.as_nanos() / 1_000_000);
    FIRED.add(1);
    arch::interrupt_cpu(0);
    Restart::No
}

/// Starts a timer on the executing CPU, and stops the device without the library's knowledge.
fn start_dead() {
    let timer = Pin::static_ref(&TIMERS[arch::cpu().min(1)]);
    let before = arch::mask();
    let _started = timer.start(machine().timers, Start::after(AHEAD).pinned());
    // What another test left armed too early would have idle write the device again.
    let _armed = machine().timers.settle_armed(machine().here());
    arch::stop_device();
    arch::restore(before);
}

/// The devices of two CPUs do not fire: the watchdog reports each of them and has it written again, and no timer is
/// lost.
pub(super) fn dead(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    let dead = machine.cpus().min(2) as u64;
    let rescues = interrupt::RESCUES.get();
    if dead > 1 {
        machine.call_on(1, start_dead);
    }
    // Not by the limit of the test, which is half a minute where time is the host's.
    interrupt::watch(1);
    start_dead();
    idle::until(|| FIRED.get() == dead);
    let rescued = interrupt::RESCUES.get() - rescues;
    say!(
        "  {rescued} devices were written again, for timers that are {} ms late",
        LATE.get()
    );
    ensure!(
        rescued == dead,
        "{rescued} devices were rescued, not {dead}"
    );
    Ok(())
}

/// A comparator of 64 bits is moved across a multiple of 2^32 of its counter, to an earlier time and to a later one. It
/// fires once for each of them, and never early: not between the writes of two halves.
pub(super) fn halves(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    if !parameters.is_exact {
        say!("  not here, because it lasts up to a minute and needs exact times");
        return Ok(());
    }
    let cycles = |micros: u64| micros * u64::from(arch::kilohertz().0) / 1_000;
    let wait_for = |count: u64| idle::until_time(machine.host().time_of(count));
    if arch::until_watchdog_wraps() < cycles(4_000) {
        // The next one.
        wait_for(arch::counter() + cycles(5_000));
    }
    let wrap = arch::counter() + arch::until_watchdog_wraps();
    wait_for(wrap - cycles(3_000));
    let trial = &interrupt::TRIAL;
    trial.is_on.leave();
    #[cfg(target_arch = "x86_64")]
    arch::set_slow_comparators(true);
    let mut fired = Vec::new();
    // The times before or after the wrap: the first one that is programmed, the one that replaces it at once, and the
    // one until which interrupts are counted.
    let after = |micros| wrap + cycles(micros);
    let before = |micros| wrap - cycles(micros);
    for (first, second, end) in [
        (after(2_000), before(2_000), before(1_000)),
        (before(500), after(3_000), after(4_000)),
    ] {
        trial.due.set(first.min(second));
        arch::set_watchdog(first);
        trial.due.set(second);
        arch::set_watchdog(second);
        wait_for(end);
        fired.push(trial.fired.get());
    }
    #[cfg(target_arch = "x86_64")]
    arch::set_slow_comparators(false);
    interrupt::watch(1);
    trial.is_on.set(false);
    let early = trial.early.get();
    ensure!(early == 0, "{early} of {fired:?} interrupts came early");
    ensure!(fired == [1, 2], "{fired:?} interrupts came, not 1 and 2");
    say!("  moved across a multiple of 2^32, earlier and later: one interrupt each");
    Ok(())
}

/// A CPU that the machine does not have is refused, and the kernel goes on.
pub(super) fn absent(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    let started = machine.start_cpu(machine.cpus(), Begins::Kernel, AHEAD);
    ensure!(
        matches!(started, Err(NotStarted::Refused(_))),
        "a CPU that is not there: {started:?}"
    );
    Ok(())
}

/// The name of the test whose last CPU is started, and halts before it enters the kernel.
pub(super) const MUTE: &str = "mute";

/// Fails, because the CPU that has to stay silent came online. The run ends before if the kernel notices its silence.
pub(super) fn mute(_machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    Err("a CPU came online that has to be silent".into())
}

/// Fails, for its exit code.
pub(super) fn fails(_machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    Err("on purpose".into())
}

/// Panics, for its exit code.
pub(super) fn panics(_machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    panic!("on purpose");
}

/// Accesses memory that is not there, for its exit code.
pub(super) fn faults(_machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    arch::cause_fault();
    Err("nothing happens".into())
}

/// Waits for something that never comes, with every device as it should be, for its exit code.
pub(super) fn wedges(_machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    idle::until(|| false);
    Ok(())
}

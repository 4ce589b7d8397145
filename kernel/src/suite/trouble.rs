//! Tests of trouble: a device that does not fire, a CPU that the machine does not have, and the ways in which a run may
//! end badly, each with a code of its own.

use core::pin::Pin;

use tickless_core::hrtimer::{Expired, HrTimer, Restart, Start};
use tickless_core::time::{Monotonic, Span};

use super::{Verdict, ensure};
use crate::arch::{self, Begins};
use crate::console::say;
use crate::host::Count;
use crate::idle;
use crate::interrupt;
use crate::machine::{Machine, NotStarted, machine};
use crate::parameters::Parameters;

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

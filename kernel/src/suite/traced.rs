//! A run of exact and coarse timers on all CPUs, whose trace is written out.

use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering};

use tickless_core::coarse::{Tick, Timeout, WheelKind, WheelTimer};
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Start};
use tickless_core::platform::Platform;
use tickless_core::time::{Monotonic, Span};

use super::{Verdict, coarse, ensure, kept};
use crate::arch;
use crate::console::say;
use crate::host::Host;
use crate::idle;
use crate::machine::{Machine, machine};
use crate::parameters::Parameters;
use crate::trace;

/// Timers of each kind on each CPU.
const TIMERS: u64 = 10;

type Function = fn(&mut Expired<'_, '_, Monotonic>) -> Restart;
type CoarseFunction = fn(&mut Timeout) -> Restart;

/// Timers that are queued, on all CPUs: a CPU may run the global timers of another one.
static LEFT: AtomicU64 = AtomicU64::new(0);

/// Starts timers on the executing CPU: some move before they fire, and some are cancelled.
fn start_all() {
    let machine = machine();
    let before = arch::mask();
    let begin = machine.tick_time().tick;
    for step in 1..=TIMERS {
        let exact = kept(HrTimer::with_setup(Setup::new(), false, fire as Function));
        let exact = Pin::static_ref(exact);
        let at = |micros| Start::after(Span::from_micros(micros + step * 370)).pinned();
        let _started = exact.start(machine.timers, at(5_000));
        if step % 3 == 0 {
            let _started = exact.start(machine.timers, at(7_000));
        }
        let is_cancelled = step % 5 == 0;
        if is_cancelled {
            let _was = exact.try_cancel(machine.timers);
        }
        let kind = if step % 2 == 0 {
            WheelKind::Local
        } else {
            WheelKind::Global
        };
        let wheel = Pin::static_ref(kept(WheelTimer::new(kind, expire as CoarseFunction)));
        let _armed = wheel.arm(machine.timers, begin, Tick(begin.0 + 3 + 2 * step));
        // Relaxed: a count. The first CPU waits after all others have started their timers.
        LEFT.fetch_add(2 - u64::from(is_cancelled), Ordering::Relaxed);
    }
    arch::restore(before);
}

fn fire(_expired: &mut Expired<'_, '_, Monotonic>) -> Restart {
    ended();
    Restart::No
}

fn expire(_timeout: &mut Timeout) -> Restart {
    ended();
    Restart::No
}

fn ended() {
    // Relaxed: a count.
    LEFT.fetch_sub(1, Ordering::Relaxed);
    // The first CPU waits for the last timer.
    arch::interrupt_cpu(0);
}

/// Writes the trace of a run with exact and coarse timers on all CPUs, which ends with none queued.
pub(super) fn traced(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    ensure!(
        Host::TRACE,
        "the kernel was built without the feature that traces"
    );
    let cpus = machine.cpus();
    trace::begin(cpus);
    let verdict = coarse::ticking(machine, || {
        for cpu in 1..cpus {
            machine.call_on(cpu, start_all);
        }
        start_all();
        idle::until(|| LEFT.load(Ordering::Relaxed) == 0);
        Ok(())
    });
    let (events, lost) = trace::end(machine);
    say!("  {events} events of {cpus} CPUs");
    verdict?;
    ensure!(lost == 0, "{lost} events were lost");
    Ok(())
}

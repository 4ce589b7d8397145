//! Tests of the watch over the counters, whose readings the kernel falsifies.

use tickless_core::clock::Switched;
use tickless_core::hrtimer::{Restart, Setup, Start};
use tickless_core::time::Span;

use super::fixture::{Verdict, ensure, kept, timer};
use crate::arch;
use crate::clock::OWN;
use crate::fault::Fault;
use crate::idle;
use crate::machine::{Machine, machine};
use crate::note::{Count, Note};
use crate::parameters::Parameters;
use crate::watch;

/// The time in which a bad counter is noticed: three checks.
const NOTICED: Span = Span::from_millis(1_600);
/// The time over which the rate of the clock is measured, and the greatest error of it in parts per million.
const MEASURED: Span = Span::from_millis(200);
const PPM_MAX: u64 = 10;

/// Returns the counts of the counter in some milliseconds.
fn counts_of_millis(millis: u64) -> u64 {
    millis * u64::from(arch::kilohertz().0)
}

/// Counters that jump, drift and differ by CPU are noticed while timers fire. The clock goes on by the shared counter,
/// at the right rate; a drift that steering can mend is refined. A CPU whose counter lags is moved, where software can.
pub(super) fn watched(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    let (early, fired) = (kept(Count::new()), kept(Count::new()));
    let ended = kept(Note::new());
    let host = machine.host();
    let ticking = timer(Setup::new(), move |expired| {
        early.add(u64::from(host.clock().now_upper() < expired.deadline()));
        fired.add(1);
        expired.forward(expired.now(), Span::from_millis(1));
        if ended.is_there() {
            Restart::No
        } else {
            Restart::Yes
        }
    });
    let _started = ticking.start(machine.timers, Start::after(Span::from_millis(1)).pinned());
    let jump = Fault::Jump(counts_of_millis(10));
    let mut verdict = checked(machine, "a jump", jump, true)
        .and_then(|()| checked(machine, "a drift", Fault::Drift(2_000), true))
        .and_then(|()| checked(machine, "a small drift", Fault::Drift(100), false));
    if machine.cpus() > 1 {
        verdict = verdict
            .and_then(|()| started(machine, true))
            .and_then(|()| started(machine, false));
    }
    ended.leave();
    idle::until(|| !ticking.is_active());
    verdict?;
    let least = 3 * (NOTICED.as_nanos() + MEASURED.as_nanos()) / 1_000_000;
    let fired = fired.get();
    ensure!(early.get() == 0, "{} callbacks were early", early.get());
    ensure!(
        fired >= least || !parameters.is_exact,
        "{fired} timers fired, not {least}"
    );
    Ok(())
}

/// Gives the counters a fault while they are watched.
fn checked(machine: &'static Machine, name: &str, fault: Fault, is_bad: bool) -> Verdict {
    let clock = machine.host().clock();
    watch::begin(machine);
    watch::check_from_now_on(machine);
    // The first check has nothing to compare with.
    idle::until_time(machine.now().saturating_add(Span::from_millis(600)));
    fault.begin();
    idle::until_time(machine.now().saturating_add(NOTICED));
    let is_switched = !clock.is_inlined();
    let (began, count) = (machine.now(), arch::counter());
    idle::until_time(began.saturating_add(MEASURED));
    let (passed, counted) = (
        machine.now().saturating_since(began),
        arch::counter() - count,
    );
    let counted = counted * 1_000_000 / u64::from(arch::kilohertz().0);
    let ppm = passed.as_nanos().abs_diff(counted) * 1_000_000 / counted;
    watch::end(machine);
    recover(machine);
    ensure!(
        is_switched == is_bad,
        "{name}: another counter drives the time: {is_switched}"
    );
    ensure!(ppm <= PPM_MAX, "{name}: the clock is {ppm} ppm off");
    Ok(())
}

/// Ends all faults: the counter of the CPUs drives the time again.
fn recover(machine: &Machine) {
    Fault::end_all();
    if machine.host().clock().is_inlined() {
        machine.host().clock().steer(0);
    } else {
        let switched = machine.drive_time_by(OWN);
        assert_eq!(switched, Switched::Inlined, "it drives the time inline");
    }
}

fn arrive_behind(is_movable: bool) {
    let before = arch::mask();
    Fault::Lag {
        counts: counts_of_millis(5),
        is_movable,
    }
    .begin();
    watch::arrive(machine());
    arch::restore(before);
}

/// Lets the second CPU arrive as if it had just started, with a counter that lags.
fn started(machine: &'static Machine, is_movable: bool) -> Verdict {
    watch::begin(machine);
    let local = machine.host().local(1);
    let jobs = local.jobs.get();
    local.has_arrived.set(false);
    machine.run_on(
        1,
        if is_movable {
            || arrive_behind(true)
        } else {
            || arrive_behind(false)
        },
    );
    idle::until(|| local.has_arrived.is_there());
    let condemned = watch::meet(1);
    idle::until(|| local.jobs.get() != jobs);
    if let Some(condemned) = &condemned {
        watch::obey(machine, condemned);
    }
    let is_switched = !machine.host().clock().is_inlined();
    recover(machine);
    let name = if is_movable { "a lag" } else { "a fixed lag" };
    ensure!(
        is_switched != is_movable,
        "{name}: another counter drives the time: {is_switched}"
    );
    Ok(())
}

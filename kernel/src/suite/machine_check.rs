//! Tests of machine checks: they read the clock on top of any code, and the run continues or ends.
//!
//! An instruction raises them ([`raise`](crate::arch::machine_check::raise) describes the differences from those of the
//! hardware).

use core::sync::atomic::Ordering;

use tickless_core::clock::Counters;

use super::clocks::{MUST_CHECK, MUST_INTERRUPT, driven_by_shared, machine_check_now, pair_of};
use super::fixture::{Verdict, ensure};
use crate::arch;
use crate::arch::machine_check::{self, Raised};
use crate::clock::SHARED;
use crate::console::say;
use crate::machine::Machine;
use crate::parameters::Parameters;

/// Machine checks under a mask in [`machine_check`].
const TIMES: u64 = 100;

/// A machine check reads the clock under a mask, in the middle of a combined read, and on top of an NMI there. The
/// interrupted code continues behind each of them, with the registers and the mask that it had.
pub(super) fn machine_check(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    let local = machine.host().here();
    let checks = local.machine_checks.get();
    let before = arch::mask();
    let mut last = machine.now().as_nanos().unsigned_abs();
    for _ in 0..TIMES {
        machine_check_now(Raised::Corrected);
        let read = local.machine_check_time.get();
        let now = machine.now().as_nanos().unsigned_abs();
        if !(last..=now).contains(&read) || !arch::is_masked() {
            arch::restore(before);
            return Err(alloc::format!("it read {read} between {last} and {now}"));
        }
        last = now;
    }
    arch::restore(before);
    machine_check_now(Raised::Corrected);
    ensure!(!arch::is_masked(), "a machine check masked interrupts");
    let checks = local.machine_checks.get() - checks;
    ensure!(checks == TIMES + 1, "{checks} machine checks came");
    ensure!(machine_check::is_clear(), "a record of an error is left");
    driven_by_shared(machine, || read_under_check(machine, 0))?;
    // One is interrupted, and one is pending meanwhile.
    driven_by_shared(machine, || read_under_check(machine, 2))
}

/// Reads the shared counter, with a machine check and `nmis` on top, each of which reads the clock.
fn read_under_check(machine: &'static Machine, nmis: u64) -> Verdict {
    let host = machine.host();
    let local = host.here();
    let pair = pair_of(machine);
    let sharing = pair.sharing();
    let unmaskable = local.unmaskable.get();
    let checks = local.machine_checks.get();
    let began = machine.now().as_nanos().unsigned_abs();
    // Relaxed: a count, to which this CPU adds.
    let samples = sharing.samples.load(Ordering::Relaxed);
    MUST_CHECK.leave();
    MUST_INTERRUPT.set(nmis > 0);
    let _read = pair.read(SHARED);
    let samples = sharing.samples.load(Ordering::Relaxed) - samples;
    let ended = machine.now().as_nanos().unsigned_abs();
    let checks = local.machine_checks.get() - checks;
    let unmaskable = local.unmaskable.get() - unmaskable;
    ensure!(
        checks == 1 && unmaskable == nmis,
        "{checks} machine checks and {unmaskable} NMIs came, not 1 and {nmis}"
    );
    let read = local.machine_check_time.get();
    ensure!(
        (began..=ended).contains(&read),
        "it read {read} between {began} and {ended}"
    );
    let expected = 1 + checks + nmis;
    ensure!(
        samples >= expected,
        "{samples} reads of the device, not {expected}"
    );
    say!("  {samples} reads of the device: of the holder, 1 machine check and {nmis} NMIs");
    Ok(())
}

/// An NMI and a machine check come between the unmasking of interrupts and the sleep: the CPU does not sleep, because
/// an interrupt that came with the unmasking may have given it something to do.
pub(super) fn awake(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    let local = machine.host().here();
    let came = || (local.unmaskable.get(), local.machine_checks.get());
    let (nmis, checks) = came();
    let before = arch::mask();
    arch::interrupt_sleep(None);
    arch::interrupt_sleep(Some(Raised::Corrected));
    let is_masked = arch::is_masked();
    arch::restore(before);
    ensure!(is_masked, "the sleep ended unmasked");
    let (nmis, checks) = (came().0 - nmis, came().1 - checks);
    ensure!(
        nmis == 1 && checks == 1,
        "{nmis} NMIs and {checks} machine checks came"
    );
    Ok(())
}

/// Raises a machine check after which nothing may continue, for its exit code.
pub(super) fn unrestartable(_machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    machine_check_now(Raised::Unrestartable);
    Err("the run continues".into())
}

/// Raises a machine check whose error was not corrected, for its exit code.
pub(super) fn uncorrected(_machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    machine_check_now(Raised::Uncorrected);
    Err("the run continues".into())
}

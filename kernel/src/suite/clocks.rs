//! Tests of the counter that all CPUs share, and of the switch of the counter that drives the time.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};

use tickless_core::clock::CounterId;
use tickless_core::clock::{Counters, Switched};
use tickless_core::hrtimer::{Restart, Setup, Start};
use tickless_core::time::Span;

use super::fixture::{Verdict, ensure, kept, timer};
use crate::arch;
#[cfg(target_arch = "x86_64")]
use crate::arch::machine_check::Raised;
use crate::clock::{self, OWN, Pair, SHARED, Sharing};
use crate::console::say;
use crate::idle;
use crate::machine::{Machine, machine};
use crate::note::{Count, Note};
use crate::parameters::Parameters;

/// Returns the counts so far.
/// True if a read of the device lets other CPUs run before it ends, as a read of a real device does.
static IS_SLOW: Note = Note::new();
/// True if an interrupt that no mask holds back has to come during the next read.
pub(super) static MUST_INTERRUPT: Note = Note::new();
/// True if a machine check has to come during the next read, or on top of that interrupt if both have to come.
#[cfg(target_arch = "x86_64")]
pub(super) static MUST_CHECK: Note = Note::new();

/// Returns both counters, whose reads from now on are as slow, and as interrupted, as the flags above say.
pub(super) fn pair_of(machine: &'static Machine) -> &'static Pair {
    let pair = machine.host().clock().pair();
    let during = &pair.sharing().during;
    if during.get().is_none() {
        during.set(Box::new(during_read));
    }
    pair
}

fn during_read() {
    if IS_SLOW.is_there() {
        arch::relax();
    }
    if MUST_INTERRUPT.take() {
        masked_now();
    }
    #[cfg(target_arch = "x86_64")]
    if MUST_CHECK.take() {
        machine_check_now(Raised::Corrected);
    }
}

/// Causes an interrupt that no mask holds back, and returns after it. Does nothing on a machine without such
/// interrupts.
fn masked_now() {
    #[cfg(target_arch = "x86_64")]
    {
        let local = machine().host().here();
        let before = local.unmaskable.get();
        arch::interrupt_masked(arch::cpu());
        while local.unmaskable.get() == before {
            arch::relax();
        }
    }
}

/// Raises a machine check, and returns after it. If this executes in an interrupt that no mask holds back, another such
/// interrupt is pending during the machine check.
#[cfg(target_arch = "x86_64")]
pub(super) fn machine_check_now(kind: Raised) {
    if clock::is_on_top() {
        arch::interrupt_masked(arch::cpu());
    }
    arch::machine_check::raise(kind);
}

fn counts(sharing: &Sharing) -> [u64; 3] {
    // Relaxed: the CPUs that counted have ended their jobs.
    [&sharing.samples, &sharing.looks, &sharing.unmasked].map(|count| count.load(Ordering::Relaxed))
}

/// Returns the counts since `before`.
fn counted(sharing: &Sharing, before: [u64; 3]) -> [u64; 3] {
    let now = counts(sharing);
    core::array::from_fn(|place| now[place] - before[place])
}

/// Executes `job` on all CPUs, the first one too; returns when all CPUs have finished.
fn on_all(machine: &'static Machine, job: fn()) {
    let jobs = |cpu: usize| machine.host().local(cpu).jobs.get();
    let before: alloc::vec::Vec<u64> = (1..machine.cpus()).map(jobs).collect();
    for cpu in 1..machine.cpus() {
        machine.run_on(cpu, job);
    }
    job();
    for (cpu, before) in (1..).zip(before) {
        idle::until(|| jobs(cpu) != before);
    }
}

/// Reads of each CPU in [`combined`].
const READS: u64 = 200;
/// The latest value that any CPU has returned from a read, plus one.
static LATEST: AtomicU64 = AtomicU64::new(0);
/// Reads that returned less than another read that was over before they began.
static WRONG: AtomicU64 = AtomicU64::new(0);

fn read_many() {
    let pair = machine().host().clock().pair();
    for _ in 0..READS {
        // SeqCst, as below: which read came first is the order of these two.
        let before = LATEST.load(Ordering::SeqCst);
        let read = pair.read(SHARED).0 + 1;
        let is_wrong = before != 0 && is_before(read, before);
        WRONG.fetch_add(u64::from(is_wrong), Ordering::SeqCst);
        let later = |latest| (latest == 0 || is_before(latest, read)).then_some(read);
        let _kept = LATEST.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
    }
}

/// Reads that have to be as new as their call: what another CPU read before is too old, though that read goes on.
fn read_fresh_many() {
    let pair = machine().host().clock().pair();
    for _ in 0..READS {
        let before = arch::shared_counter();
        let read = pair.read_fresh(SHARED).0;
        WRONG.fetch_add(u64::from(is_before(read, before)), Ordering::SeqCst);
    }
}

/// Returns true if one value of the shared counter came before another one: it has 32 bits, and wraps in a minute.
fn is_before(one: u64, other: u64) -> bool {
    (one.wrapping_sub(other) as u32).cast_signed() < 0
}

/// All CPUs read the shared counter at once. One CPU reads the device for all waiting CPUs, with interrupts masked. The
/// waiting CPUs have interrupts unmasked. An interrupt that comes in spite of the mask reads the device itself.
pub(super) fn combined(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    let cpus = machine.cpus() as u64;
    let pair = pair_of(machine);
    let sharing = pair.sharing();
    IS_SLOW.set(true);
    let before = counts(sharing);
    on_all(machine, read_many);
    let [samples, looks, unmasked] = counted(sharing, before);
    on_all(machine, read_fresh_many);
    IS_SLOW.set(false);
    if parameters.is_exact {
        say!("  {} reads are {samples} of the device", cpus * READS);
    }
    ensure!(
        unmasked == 0,
        "{unmasked} reads of the device were not masked"
    );
    let wrong = WRONG.load(Ordering::SeqCst);
    ensure!(wrong == 0, "{wrong} reads ran backwards");
    // On riscv64 nothing lets the emulator run other CPUs in the middle of a read.
    let joins = parameters.is_exact && !cfg!(target_arch = "riscv64");
    ensure!(
        samples < cpus * READS && looks > 0 || !joins,
        "{samples} reads of the device for {} reads",
        cpus * READS
    );
    on_top_of_holder(machine)
}

/// An interrupt that no mask holds back comes while the shared counter is locked, and reads the clock that the counter
/// drives.
fn on_top_of_holder(machine: &'static Machine) -> Verdict {
    let pair = pair_of(machine);
    let expected = 1 + u64::from(cfg!(target_arch = "x86_64"));
    driven_by_shared(machine, || {
        MUST_INTERRUPT.set(true);
        let before = counts(pair.sharing());
        let _read = pair.read(SHARED);
        let [samples, ..] = counted(pair.sharing(), before);
        ensure!(
            samples >= expected,
            "{samples} reads of the device with an interrupt on top of one"
        );
        Ok(())
    })
}

/// Calls `attempt`, which reads the shared counter, while this counter drives the time, until an attempt succeeds: a
/// CPU that was told of the switch may be reading yet, for this one, too.
pub(super) fn driven_by_shared(
    machine: &'static Machine,
    mut attempt: impl FnMut() -> Verdict,
) -> Verdict {
    const ATTEMPTS: u32 = 100;
    let switched = machine.drive_time_by(SHARED);
    ensure!(switched == Switched::Called, "the switch says {switched:?}");
    let mut verdict = attempt();
    for _ in 1..ATTEMPTS {
        if verdict.is_ok() {
            break;
        }
        verdict = attempt();
    }
    let switched = machine.drive_time_by(OWN);
    ensure!(
        switched == Switched::Inlined,
        "the switch says {switched:?}"
    );
    verdict
}

const SWITCHES: u64 = 12;
static IS_OVER: Note = Note::new();
/// CPUs whose time went back or jumped.
static JUMPS: AtomicU64 = AtomicU64::new(0);
/// Readings of the clock by other CPUs.
static READINGS: AtomicU64 = AtomicU64::new(0);

/// Reads the clock until the switches are over.
fn watch_time() {
    let machine = machine();
    let mut last = machine.now();
    while !IS_OVER.is_there() {
        let now = machine.now();
        let jumps = now < last || now.saturating_since(last) > Span::from_millis(2_000);
        // Relaxed: counts, which the first CPU takes when the jobs are over.
        JUMPS.fetch_add(u64::from(jumps), Ordering::Relaxed);
        READINGS.fetch_add(1, Ordering::Relaxed);
        last = now;
        let_others_run();
    }
}

/// Lets an emulator that executes one CPU at a time switch to another CPU.
fn let_others_run() {
    if arch::PAUSE_YIELDS {
        arch::relax();
        return;
    }
    let before = arch::mask();
    arch::interrupt_cpu(arch::cpu());
    arch::wait();
    arch::restore(before);
}

/// Set by the CPU that reads the clock for long, at the beginning of the reading and at its end.
static IS_IN: Note = Note::new();
static IS_OUT: Note = Note::new();

fn read_long() {
    clock::reading(|| {
        IS_IN.leave();
        let local = machine().host().here();
        let calls = local.calls.get();
        arch::interrupt_cpu(0);
        // The switch interrupts this reading, which goes on behind the interrupt.
        while local.calls.get() == calls {
            arch::relax();
        }
        for _ in 0..1_000 {
            arch::relax();
        }
        IS_OUT.leave();
    });
}

/// The counter that drives the time is switched back and forth while other CPUs read the clock and timers fire.
pub(super) fn switch(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    let host = machine.host();
    let early = kept(Count::new());
    let fired = kept(Count::new());
    let ended = kept(Note::new());
    let ticking = timer(Setup::new(), move |expired| {
        early.add(u64::from(host.clock().now_upper() < expired.deadline()));
        fired.add(1);
        expired.forward(expired.now(), Span::from_micros(100));
        if ended.is_there() {
            Restart::No
        } else {
            Restart::Yes
        }
    });
    let _started = ticking.start(
        machine.timers,
        Start::after(Span::from_micros(100)).pinned(),
    );
    for cpu in 1..machine.cpus() {
        machine.run_on(cpu, watch_time);
    }
    let jobs: alloc::vec::Vec<u64> = (1..machine.cpus())
        .map(|cpu| host.local(cpu).jobs.get())
        .collect();
    let mut verdict = Ok(());
    for round in 0..SWITCHES {
        verdict = verdict.and_then(|()| switch_once(machine, parameters, round));
        idle::until_time(machine.now().saturating_add(Span::from_micros(250)));
    }
    IS_OVER.leave();
    for (cpu, before) in (1..).zip(jobs) {
        idle::until(|| host.local(cpu).jobs.get() != before);
    }
    ended.leave();
    idle::until(|| !ticking.is_active());
    verdict?;
    let jumps = JUMPS.load(Ordering::Relaxed);
    ensure!(jumps == 0, "{jumps} readings went back or jumped");
    let readings = READINGS.load(Ordering::Relaxed);
    ensure!(
        readings > 0 || machine.cpus() == 1,
        "no other CPU read the clock"
    );
    ensure!(early.get() == 0, "{} callbacks were early", early.get());
    ensure!(fired.get() > SWITCHES, "only {} fired", fired.get());
    if machine.cpus() > 1 {
        wait_for_reading(machine)?;
    }
    Ok(())
}

/// Makes one switch: the guard is on only while the counter that is read inline drives the time, and no time is lost or
/// gained.
fn switch_once(machine: &'static Machine, parameters: &Parameters, round: u64) -> Verdict {
    let clock = machine.host().clock();
    let (to, expected): (CounterId, _) = if round.is_multiple_of(2) {
        (SHARED, Switched::Called)
    } else {
        (OWN, Switched::Inlined)
    };
    let masked = arch::mask();
    let (began, count) = (machine.now(), arch::counter());
    let switched = machine.drive_time_by(to);
    let (ended, end) = (machine.now(), arch::counter());
    arch::restore(masked);
    ensure!(switched == expected, "the switch says {switched:?}");
    let again = machine.drive_time_by(to);
    ensure!(
        again == Switched::Current,
        "again, the switch says {again:?}"
    );
    let is_inlined = clock.is_inlined();
    ensure!(
        is_inlined == (to == OWN),
        "readers read inline: {is_inlined}"
    );
    let since = |count: u64| machine.host().time_of(count).as_nanos();
    let passed = ended.as_nanos() - began.as_nanos();
    let counted = since(end) - since(count);
    // A count of either counter on each side, and the difference of frequencies that were measured.
    let differs = passed.abs_diff(counted);
    ensure!(ended >= began, "time went back by a switch");
    ensure!(
        differs <= 2_000 || !parameters.is_exact,
        "a switch took {passed} ns by the clock and {counted} ns by the counter"
    );
    Ok(())
}

/// A switch waits for the end of all readings that may have found the guard on, interrupted or not.
fn wait_for_reading(machine: &'static Machine) -> Verdict {
    let local = machine.host().local(1);
    let before = local.jobs.get();
    machine.run_on(1, read_long);
    idle::until(|| IS_IN.is_there());
    let _switched = machine.drive_time_by(SHARED);
    let waited = IS_OUT.is_there();
    let _switched = machine.drive_time_by(OWN);
    idle::until(|| local.jobs.get() != before);
    ensure!(
        waited,
        "the counter was switched in the middle of a reading"
    );
    Ok(())
}

/// Ticks of each CPU in [`measure`].
const TICKS: u64 = 200;

/// Lets the tick of the executing CPU run [`TICKS`] times.
fn tick_along() {
    let machine = machine();
    let local = machine.host().here();
    machine.start_tick();
    let end = local.ticks.get() + TICKS;
    let before = arch::mask();
    while local.ticks.get() < end {
        arch::wait();
    }
    arch::restore(before);
    machine.end_tick();
}

/// Measures the reads of the shared counter at each tick of a CPU, while the counter drives the time: direct, and
/// combined.
pub(super) fn measure(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    let host = machine.host();
    let sharing = host.clock().pair().sharing();
    for is_slow in [false, true] {
        for is_direct in [true, false] {
            let switched = machine.drive_time_by(SHARED);
            ensure!(switched == Switched::Called, "the switch says {switched:?}");
            IS_SLOW.set(is_slow);
            sharing.is_direct.set(is_direct);
            let ticks = || -> u64 { host.cpus().map(|(_, local)| local.ticks.get()).sum() };
            let (before, ticked) = (counts(sharing), ticks());
            on_all(machine, tick_along);
            let [samples, ..] = counted(sharing, before);
            let ticked = ticks() - ticked;
            IS_SLOW.set(false);
            sharing.is_direct.set(false);
            let _switched = machine.drive_time_by(OWN);
            let hundredths = samples * 100 / ticked.max(1);
            say!(
                "  {} CPUs, {} reads{}: {samples} reads of the device in {ticked} ticks, {}.{:02} a tick and CPU",
                machine.cpus(),
                if is_direct { "direct" } else { "combined" },
                if is_slow {
                    ", which let others run"
                } else {
                    ""
                },
                hundredths / 100,
                hundredths % 100
            );
        }
    }
    Ok(())
}

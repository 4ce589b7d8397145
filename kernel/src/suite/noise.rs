//! The measurement of the interrupts of a CPU whose task computes while other CPUs work, with isolation and without,
//! and of the CPUs that caused the interrupts.

use alloc::boxed::Box;
use core::pin::Pin;

use tickless_core::coarse::{Tick, Timeout, WheelKind, WheelTimer};
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Start};
use tickless_core::tick::{Role, TickDependencies};
use tickless_core::time::{Monotonic, Span};

use super::coarse;
use super::fixture::{Verdict, ensure};
use crate::arch;
use crate::arch::CPUS_MAX;
use crate::console::say;
use crate::host::Local;
use crate::idle;
use crate::late::Late;
use crate::machine::{Machine, machine};
use crate::note::{Count, Note};
use crate::parameters::Parameters;

const LENGTH: Span = Span::from_secs(60);
/// The time between two rounds of the work of a CPU.
const ROUND: Span = Span::from_millis(100);
/// The time from a round to the exact timer that it starts, which any CPU may run.
const AHEAD: Span = Span::from_millis(50);
/// The time from a round to the coarse timer that it starts, in ticks.
const AHEAD_TICKS: u64 = 50;

type Function = fn(&mut Expired<'_, '_, Monotonic>) -> Restart;
type CoarseFunction = fn(&mut Timeout) -> Restart;

struct Work {
    /// The timer that begins each round, on the CPU itself.
    round: HrTimer<Function>,
    /// The exact timer that a sleeping CPU starts each round, so that the timer moves to a CPU that is awake.
    exact: HrTimer<Function>,
    /// The coarse timer that each round starts, and that a CPU that is awake runs.
    coarse: WheelTimer<CoarseFunction>,
}

static IS_OVER: Note = Note::new();
static COMPUTES: Note = Note::new();
/// The exact timers of other CPUs that ran on each CPU, and the coarse ones.
static EXACT: [Count; CPUS_MAX] = [const { Count::new() }; CPUS_MAX];
static COARSE: [Count; CPUS_MAX] = [const { Count::new() }; CPUS_MAX];
/// The work of each CPU, as an address that lives as long as the kernel.
static WORK: [Late<Work>; CPUS_MAX] = [const { Late::new() }; CPUS_MAX];

fn round(expired: &mut Expired<'_, '_, Monotonic>) -> Restart {
    let Some(work) = WORK[arch::cpu()].get().filter(|_| !IS_OVER.is_there()) else {
        return Restart::No;
    };
    let machine = machine();
    let _started = Pin::static_ref(&work.exact).start(machine.timers, Start::after(AHEAD));
    let now = machine.tick_time().tick;
    let due = Tick(now.0 + AHEAD_TICKS);
    let _armed = Pin::static_ref(&work.coarse).arm(machine.timers, now, due);
    expired.set_deadline(expired.now().saturating_add(ROUND));
    Restart::Yes
}

fn exact(_expired: &mut Expired<'_, '_, Monotonic>) -> Restart {
    EXACT[arch::cpu()].add(1);
    Restart::No
}

fn expire(_timeout: &mut Timeout) -> Restart {
    COARSE[arch::cpu()].add(1);
    Restart::No
}

/// Begins the work of the executing CPU, which sleeps between the rounds.
fn begin_work() {
    let machine = machine();
    let place = &WORK[arch::cpu()];
    let work = match place.get() {
        Some(work) => work,
        None => place.set(Box::new(Work {
            round: HrTimer::with_setup(Setup::new(), false, round as Function),
            exact: HrTimer::with_setup(Setup::new(), false, exact as Function),
            coarse: WheelTimer::new(WheelKind::Global, expire as CoarseFunction),
        })),
    };
    let first = Start::after(ROUND).pinned();
    let _started = Pin::static_ref(&work.round).start(machine.timers, first);
}

/// Changes the role of the executing CPU, whose tick is ended before and started again afterwards.
fn change_role(role: Role) {
    let machine = machine();
    machine.end_tick();
    machine.set_role(role);
    machine.start_tick();
}

/// Lets the tasks of the executing CPU run without a tick.
fn stop_ticking() {
    change_role(Role::TicklessTasks);
}

fn tick_again() {
    change_role(Role::Housekeeping);
}

/// The task of the executing CPU, which computes until the run is over. The task waits for interrupts instead of
/// executing instructions, of which a minute has 60 billion.
fn compute() {
    let machine = machine();
    let local = machine.host().here();
    let before = arch::mask();
    let run_task = |conditions| {
        let now = machine.now();
        let stopped =
            machine.with_tick(|nohz, tick, timer| nohz.run_task(tick, timer, conditions, now));
        local.is_tick_stopped.set(stopped.is_ok());
    };
    run_task(TickDependencies::default());
    COMPUTES.leave();
    arch::interrupt_cpu(0);
    while !IS_OVER.is_there() {
        arch::wait();
    }
    run_task(TickDependencies {
        reschedule: true,
        ..TickDependencies::default()
    });
    arch::restore(before);
}

/// The counts of a CPU.
#[derive(Clone, Copy)]
struct Noise {
    interrupts: u64,
    of_device: u64,
    calls: u64,
    ticks: u64,
    exact: u64,
    coarse: u64,
}

impl Noise {
    fn of(cpu: usize, local: &Local) -> Self {
        Self {
            interrupts: local.interrupts.get(),
            of_device: local.timer_interrupts.get(),
            calls: local.calls.get(),
            ticks: local.ticks.get(),
            exact: EXACT[cpu].get(),
            coarse: COARSE[cpu].get(),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            interrupts: self.interrupts - before.interrupts,
            of_device: self.of_device - before.of_device,
            calls: self.calls - before.calls,
            ticks: self.ticks - before.ticks,
            exact: self.exact - before.exact,
            coarse: self.coarse - before.coarse,
        }
    }
}

/// Makes one run: the last CPU computes, the first one sleeps, and the CPUs in between work.
fn run(machine: &'static Machine) -> Noise {
    let last = machine.cpus() - 1;
    let local = machine.host().local(last);
    IS_OVER.set(false);
    COMPUTES.set(false);
    machine.run_on(last, compute);
    idle::until(|| COMPUTES.is_there());
    for cpu in 1..last {
        machine.call_on(cpu, begin_work);
    }
    let before = Noise::of(last, local);
    idle::until_time(machine.now().saturating_add(LENGTH));
    let noise = Noise::of(last, local).since(before);
    let jobs = local.jobs.get();
    IS_OVER.leave();
    arch::interrupt_cpu(last);
    idle::until(|| local.jobs.get() != jobs);
    // What the last round started is over, too.
    idle::until_time(machine.now().saturating_add(ROUND).saturating_add(ROUND));
    noise
}

/// Runs the same load without isolation and with it.
pub(super) fn noise(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    let last = machine.cpus() - 1;
    let (mut without, mut with) = (None, None);
    coarse::ticking(machine, || {
        without = Some(run(machine));
        machine.call_on(last, stop_ticking);
        let isolated = machine.isolate_set(&|cpu| cpu == last);
        ensure!(
            isolated == Ok(1),
            "CPU {last} is not isolated: {isolated:?}"
        );
        // One CPU counts for those whose tasks have no tick: this one, at its next tick, and then it does not stop.
        machine.count.set_tickless_tasks(true);
        let ticks = machine.host().here().ticks.get();
        coarse::wait_awake(|| machine.host().here().ticks.get() > ticks + 1);
        with = Some(run(machine));
        machine.count.set_tickless_tasks(false);
        let joined = machine.isolate_set(&|_| false);
        ensure!(joined == Ok(1), "CPU {last} stays isolated: {joined:?}");
        machine.call_on(last, tick_again);
        Ok(())
    })?;
    say!("  a CPU computes 60 s, and others work:");
    say!(
        "  isolation  interrupts  of its device  of other CPUs   ticks  exact timers  coarse timers of others"
    );
    for (name, noise) in [("without", without), ("with", with)] {
        let Some(noise) = noise else {
            continue;
        };
        say!(
            "  {name:<9} {:>11} {:>14} {:>14} {:>7} {:>13} {:>14}",
            noise.interrupts,
            noise.of_device,
            noise.calls,
            noise.ticks,
            noise.exact,
            noise.coarse,
        );
    }
    let (Some(without), Some(with)) = (without, with) else {
        return Err("a run is missing".into());
    };
    ensure!(
        with.interrupts == 0,
        "the isolated CPU had {} interrupts",
        with.interrupts
    );
    ensure!(with.coarse == 0, "it ran {} coarse timers", with.coarse);
    ensure!(
        without.ticks > 0 && without.exact > 0 && without.coarse > 0,
        "without isolation the CPU has no ticks, or runs no timers of others"
    );
    Ok(())
}

//! Tests of coarse timers: ticks that drive the wheels and stop when a CPU idles, and CPUs that run the timers of idle
//! ones.

use core::pin::Pin;

use tickless_core::coarse::{Restart, Tick, Timeout, WheelKind, WheelTimer};
use tickless_core::hierarchy::{CpuNode, HierarchyHost};
use tickless_core::hrtimer::{Expired, HrTimer, Setup, Stage, Start};
use tickless_core::platform::CpuId;
use tickless_core::slots::geometry::{granularity, limit};
use tickless_core::tick::{Duty, Forecast, KeepReason, StoppedTick, TickDependencies};
use tickless_core::time::{Instant, Monotonic, Span};

use super::fixture::{Spread, Verdict, ensure, kept, timer};
use super::quiet;
use crate::arch;
use crate::console::say;
use crate::idle;
use crate::machine::{Machine, PERIOD, machine};
use crate::note::{Count, Note};
use crate::parameters::Parameters;
use crate::soft;

/// Lets all CPUs tick while `body` runs.
pub(super) fn ticking(machine: &'static Machine, body: impl FnOnce() -> Verdict) -> Verdict {
    machine.start_tick();
    for cpu in 1..machine.cpus() {
        machine.call_on(cpu, || machine_of().start_tick());
    }
    let verdict = body();
    for cpu in 1..machine.cpus() {
        machine.call_on(cpu, || machine_of().end_tick());
    }
    machine.end_tick();
    verdict
}

fn machine_of() -> &'static Machine {
    machine()
}

/// Makes a coarse timer that lives as long as the kernel.
fn coarse<F>(kind: WheelKind, function: F) -> Pin<&'static WheelTimer<F>>
where
    F: FnMut(&mut Timeout) -> Restart + Send + 'static,
{
    Pin::static_ref(kept(WheelTimer::new(kind, function)))
}

/// Coarse timers of 1 to 400 ticks fire when their time is over, and at most one slot of their level later.
pub(super) fn wheel(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    const TIMERS: u64 = 400;
    let (fired, early) = (kept(Count::new()), kept(Count::new()));
    let (near, far) = (kept(Spread::new()), kept(Spread::new()));
    ticking(machine, || {
        let begin = machine.tick_time().tick;
        for after in 1..=TIMERS {
            let one = coarse(WheelKind::Local, move |timeout| {
                early.add(u64::from(timeout.now < timeout.expiry));
                let late = timeout.now.0.saturating_sub(timeout.expiry.0);
                if after < limit(0) { near } else { far }.note(late);
                fired.add(1);
                Restart::No
            });
            let armed = one.arm(machine.timers, begin, Tick(begin.0 + after));
            ensure!(armed.is_ok(), "a timer is not armed: {armed:?}");
        }
        idle::until(|| fired.get() == TIMERS);
        Ok(())
    })?;
    let ticks = |spread: &Spread| (spread.least.get(), spread.greatest.get());
    let (near, far) = (ticks(near), ticks(far));
    say!(
        "  below {} ticks ahead {near:?} ticks late, beyond {far:?}",
        limit(0)
    );
    ensure!(early.get() == 0, "{} coarse timers were early", early.get());
    ensure!(
        near.1 <= granularity(0) || !parameters.is_exact,
        "a slot of the first level is later than a tick"
    );
    ensure!(
        far.1 <= granularity(1) || !parameters.is_exact,
        "a slot of the second level is later than its length"
    );
    Ok(())
}

/// CPUs that idle stop their tick, and run ten seconds without a tick.
pub(super) fn tickless(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    ticking(machine, || {
        // All CPUs go to sleep meanwhile.
        idle::until_time(machine.now().saturating_add(Span::from_millis(50)));
        let before = quiet::counts(machine);
        let ticks = || {
            machine
                .host()
                .cpus()
                .map(|(_, local)| local.ticks.get())
                .sum::<u64>()
        };
        let ticks_before = ticks();
        let counted = machine.tick_time().tick.0;
        idle::until_time(machine.now().saturating_add(Span::from_secs(10)));
        let did = quiet::since(machine, &before);
        let counted = machine.tick_time().tick.0 - counted;
        let ticks = ticks() - ticks_before;
        let others: u64 = did[1..].iter().map(|did| did.0).sum();
        say!(
            "  in 10 s {} interrupts on CPU 0, {others} on the others, {ticks} ticks, {counted} counted",
            did[0].0
        );
        ensure!(others == 0, "CPUs that sleep had {others} interrupts");
        ensure!(
            (did[0].0 <= 2 && ticks <= 2) || !parameters.is_exact,
            "CPU 0 ticked while it slept"
        );
        ensure!(
            (9_999..=10_001).contains(&counted) || !parameters.is_exact,
            "{counted} ticks were counted"
        );
        Ok(())
    })
}

/// A CPU that sleeps without a tick is kicked for a timer that another one arms there.
pub(super) fn kicked(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    let (fired_on, late) = (kept(Count::new()), kept(Count::new()));
    let one = coarse(WheelKind::Local, move |timeout| {
        fired_on.set(1 + arch::cpu() as u64);
        late.set(timeout.now.0.saturating_sub(timeout.expiry.0));
        arch::interrupt_cpu(0);
        Restart::No
    });
    ticking(machine, || {
        idle::until_time(machine.now().saturating_add(Span::from_millis(50)));
        let kicks = machine.timers.stats(CpuId(1)).kicks;
        let now = machine.tick_time().tick;
        let armed = one.arm_on(machine.timers, CpuId(1), now, Tick(now.0 + 20));
        ensure!(armed.is_ok(), "the timer is not armed: {armed:?}");
        idle::until(|| fired_on.get() != 0);
        let kicks = machine.timers.stats(CpuId(1)).kicks - kicks;
        ensure!(
            fired_on.get() == 2,
            "it fired on CPU {}",
            fired_on.get() - 1
        );
        ensure!(
            late.get() <= 1 || !parameters.is_exact,
            "it fired {} ticks late",
            late.get()
        );
        ensure!(kicks == 1, "{kicks} kicks");
        shut_down_meanwhile(machine)
    })
}

/// A coarse timer is shut down while its callback runs on another CPU and restarts it: what is shut down is the
/// restarted timer (R14).
fn shut_down_meanwhile(machine: &'static Machine) -> Verdict {
    const RUNS: u64 = 1;
    const ENDS: u64 = 2;
    static PHASE: Count = Count::new();
    let one = coarse(WheelKind::Local, |timeout| {
        PHASE.set(RUNS);
        arch::interrupt_cpu(0);
        while PHASE.get() != ENDS {
            arch::relax();
        }
        // The other CPU shuts it down meanwhile.
        for _ in 0..100 {
            arch::relax();
        }
        timeout.expiry = Tick(timeout.now.0 + 1_000);
        Restart::Yes
    });
    let now = machine.tick_time().tick;
    let armed = one.arm_on(machine.timers, CpuId(1), now, Tick(now.0 + 20));
    ensure!(armed.is_ok(), "the timer is not armed: {armed:?}");
    idle::until(|| PHASE.get() == RUNS);
    PHASE.set(ENDS);
    let was_queued = one.shutdown_sync(machine.timers);
    ensure!(was_queued, "a timer was shut down while it ran");
    Ok(())
}

/// The number of coarse timers that each CPU but the first arms, in the tests of the hierarchy.
const EACH: u64 = 20;
/// Timers that fired on CPU 0, and on the other CPUs.
static BY_FIRST: Count = Count::new();
static BY_OTHERS: Count = Count::new();
static EARLY: Count = Count::new();
/// The ticks at which some timers fired, and the last of these ticks.
static INSTANTS: Count = Count::new();
static LAST: Count = Count::new();

/// Arms global timers three ticks apart. The other CPUs execute it in the tests of the hierarchy.
fn arm_globals() {
    let machine = machine();
    let begin = machine.tick_time().tick;
    for place in 0..EACH {
        let one = coarse(WheelKind::Global, |timeout: &mut Timeout| {
            EARLY.add(u64::from(timeout.now < timeout.expiry));
            let by = if arch::cpu() == 0 {
                &BY_FIRST
            } else {
                &BY_OTHERS
            };
            by.add(1);
            INSTANTS.add(u64::from(timeout.now.0 != LAST.get()));
            LAST.set(timeout.now.0);
            if arch::cpu() != 0 {
                // CPU 0 waits for the last of them.
                arch::interrupt_cpu(0);
            }
            Restart::No
        });
        let armed = one.arm(machine.timers, begin, Tick(begin.0 + 20 + 3 * place));
        armed.expect("a new timer is armed");
    }
}

/// Waits until `is_over` returns true, as a CPU that is awake: its tick runs, and it runs the timers of other CPUs.
/// Between two ticks it does not poll, which costs the emulator much.
pub(super) fn wait_awake(is_over: impl Fn() -> bool) {
    let before = arch::mask();
    while !is_over() {
        arch::wait();
    }
    arch::restore(before);
}

/// Arms global timers on the first `cpus` CPUs except this one, and returns the number of the timers. This CPU stays
/// awake.
fn arm_on(machine: &'static Machine, cpus: usize) -> u64 {
    for count in [&BY_FIRST, &BY_OTHERS, &EARLY] {
        count.set(0);
    }
    for cpu in 1..cpus {
        let local = machine.host().local(cpu);
        let before = local.sleeps.get();
        machine.run_on(cpu, arm_globals);
        // It hands over what it has while this one is active in the tree: the last one to go idle would promise to
        // wake up for all.
        wait_awake(|| local.sleeps.get() != before);
    }
    EACH * (cpus as u64 - 1)
}

/// The first CPU computes and ticks; it runs the global timers of all others, which sleep.
pub(super) fn served(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    ticking(machine, || {
        let all = arm_on(machine, machine.cpus());
        let before = quiet::counts(machine);
        let until = machine
            .now()
            .saturating_add(Span::from_nanos(PERIOD.as_nanos() * 120));
        wait_awake(|| machine.now() >= until || BY_FIRST.get() + BY_OTHERS.get() == all);
        let did = quiet::since(machine, &before);
        let others: u64 = did[1..].iter().map(|did| did.0).sum();
        let (first, elsewhere) = (BY_FIRST.get(), BY_OTHERS.get());
        say!(
            "  {first} of {all} on the CPU that is awake, {others} interrupts on those that sleep"
        );
        ensure!(EARLY.get() == 0, "{} were early", EARLY.get());
        ensure!(first == all, "{elsewhere} fired on CPUs that slept");
        ensure!(others == 0, "CPUs that sleep had {others} interrupts");
        Ok(())
    })
}

/// All CPUs sleep: the last CPU that went to sleep wakes up for the timers of all, and no timer is lost.
pub(super) fn asleep(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    ticking(machine, || {
        let all = arm_on(machine, machine.cpus());
        let before = quiet::counts(machine);
        let instants = INSTANTS.get();
        idle::until(|| BY_FIRST.get() + BY_OTHERS.get() == all);
        let did = quiet::since(machine, &before);
        let instants = INSTANTS.get() - instants;
        let interrupts: u64 = did.iter().map(|did| did.0).sum();
        let awake = did.iter().filter(|did| did.0 > 0).count();
        say!("  {all} timers, at {instants} instants left {interrupts} wake-ups, of {awake} CPU");
        ensure!(EARLY.get() == 0, "{} were early", EARLY.get());
        ensure!(awake == 1, "{awake} CPUs woke up");
        ensure!(
            interrupts == instants || !parameters.is_exact,
            "{interrupts} wake-ups for {instants} instants"
        );
        Ok(())
    })
}

/// The number of the CPU on which [`GIVEN_AWAY`] fired, plus one.
static FIRED_ON: Count = Count::new();
static GIVEN_AWAY: HrTimer<fn(&mut Expired<'_, '_, Monotonic>) -> Restart> = HrTimer::new(|_| {
    FIRED_ON.set(1 + arch::cpu() as u64);
    Restart::No
});

/// An isolated CPU gives its timers away, and no other CPU interrupts it.
pub(super) fn isolated(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    let last = machine.cpus() - 1;
    ticking(machine, || {
        let local = machine.host().local(last);
        // A timer of another CPU goes behind this one: none becomes the first of a CPU that sleeps (spec LOC-13).
        let first = timer(Setup::new(), |_| Restart::No);
        let soon = Start::after(Span::from_secs(2));
        let _started = first.start(machine.timers, soon.pinned());
        let isolated = machine.isolate_set(&|cpu| cpu == last);
        ensure!(
            isolated == Ok(1),
            "CPU {last} is not isolated: {isolated:?}"
        );
        machine.call_on(last, || {
            let machine = machine_of();
            let given_away = Pin::static_ref(&GIVEN_AWAY);
            // Due before the first timer of the other CPU it stays here; with a later deadline it goes (spec LOC-5).
            let _started = given_away.start(machine.timers, Start::after(Span::from_secs(1)));
            let is_here = given_away.cpu(machine.timers) == Some(machine.here());
            FIRED_ON.set(u64::from(!is_here));
            let _started = given_away.start(machine.timers, Start::after(Span::from_secs(3)));
        });
        ensure!(FIRED_ON.get() == 0, "a timer went where it is the first");
        let all = arm_on(machine, last);
        let before = local.interrupts.get();
        idle::until(|| BY_FIRST.get() + BY_OTHERS.get() == all);
        idle::until_time(machine.now().saturating_add(Span::from_secs(60)));
        let interrupts = local.interrupts.get() - before;
        say!("  {all} timers elsewhere, {interrupts} interrupts on the isolated CPU in 60 s");
        let joined = machine.isolate_set(&|_| false);
        ensure!(joined == Ok(1), "CPU {last} stays isolated: {joined:?}");
        let on = FIRED_ON.get();
        ensure!(on != 0, "the timer that it gave away was lost");
        ensure!(on != 1 + last as u64, "it kept a timer that may move");
        ensure!(
            interrupts == 0,
            "the isolated CPU had {interrupts} interrupts"
        );
        Ok(())
    })
}

/// A CPU whose tick runs and that has nothing due raises no soft stage; without the check of its wheels each tick would
/// raise one.
pub(super) fn lockless(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    const TICKS: u64 = 200;
    ticking(machine, || {
        let local = machine.host().here();
        // A timer far ahead, so that the wheels are not empty.
        let far = coarse(WheelKind::Local, |_| Restart::No);
        let begin = machine.tick_time().tick;
        let armed = far.arm(machine.timers, begin, Tick(begin.0 + 100_000));
        ensure!(armed.is_ok(), "a timer is not armed: {armed:?}");
        let (ticks, stages) = (local.ticks.get(), local.soft_stages.get());
        let before = arch::mask();
        while local.ticks.get() < ticks + TICKS {
            arch::wait();
        }
        let stages = local.soft_stages.get() - stages;
        // The price of a stage that finds nothing.
        let began = arch::counter();
        for _ in 0..TICKS {
            local.is_pass_due.leave();
            soft::turn(machine, machine.host().here());
        }
        let counts = arch::counter() - began;
        arch::restore(before);
        let _was = far.try_delete_sync(machine.timers);
        let nanos = counts * 1_000_000 / u64::from(arch::kilohertz().0) / TICKS;
        if parameters.is_exact {
            say!("  {stages} soft stages in {TICKS} ticks; one would take {nanos} instructions");
        }
        ensure!(
            stages == 0,
            "{stages} soft stages in {TICKS} ticks with nothing due"
        );
        Ok(())
    })
}

/// A CPU that goes idle behind a late pass over its wheels finds its next event in the past: it is counted, and the CPU
/// keeps its tick.
pub(super) fn overdue(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    static FIRED: Note = Note::new();
    ticking(machine, || {
        let late = coarse(WheelKind::Local, |_| {
            FIRED.leave();
            Restart::No
        });
        let before = arch::mask();
        let begin = machine.tick_time().tick;
        let armed = late.arm(machine.timers, begin, Tick(begin.0 + 2));
        let end = machine.now().saturating_add(Span::from_millis(5));
        while machine.now() < end {
            arch::relax();
        }
        let _counted = machine.tick_time();
        let overdue = machine.count.overdue();
        let forecast = machine.with_tick(|nohz, tick, _| {
            nohz.enter_idle(tick);
            nohz.forecast(tick, TickDependencies::default())
        });
        let overdue = machine.count.overdue() - overdue;
        arch::restore(before);
        ensure!(armed.is_ok(), "a timer is not armed: {armed:?}");
        idle::until(|| FIRED.is_there());
        ensure!(overdue == 1, "{overdue} events in the past were counted");
        let keeps = forecast.keeps;
        ensure!(
            keeps == Some(KeepReason::Soon),
            "the tick is kept for {keeps:?}"
        );
        Ok(())
    })
}

/// The decisions of a CPU that stops its tick: the count of ticks in an interrupt, the time until which it sleeps, and
/// the reasons to stay awake.
pub(super) fn stopped(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    ticking(machine, || {
        counts_in_interrupts(machine, parameters)?;
        follows_its_forecast(machine, parameters)?;
        leaves_a_pass_alone(machine)?;
        stays_awake(machine)?;
        wakes_once(machine, parameters)
    })
}

/// The count of ticks is that of the present in the callback of an interrupt, though no tick came for long.
fn counts_in_interrupts(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    static AGE: Count = Count::new();
    let looks = timer(Setup::new().stage(Stage::Hard), |expired| {
        let counted = machine_of().count.now().began;
        AGE.set(expired.now().saturating_since(counted).as_nanos());
        Restart::No
    });
    let after = Span::from_millis(40);
    let _started = looks.start(machine.timers, Start::after(after).pinned());
    idle::until_time(machine.now().saturating_add(Span::from_millis(50)));
    let age = AGE.get();
    ensure!(
        age <= PERIOD.as_nanos() || !parameters.is_exact,
        "a callback finds a count of ticks that is {age} ns old"
    );
    Ok(())
}

fn forecast(machine: &Machine) -> Forecast {
    forecast_for(machine, TickDependencies::default())
}

fn forecast_for(machine: &Machine, conditions: TickDependencies) -> Forecast {
    machine.with_tick(|nohz, tick, _| {
        nohz.enter_idle(tick);
        nohz.forecast(tick, conditions)
    })
}

fn stop(machine: &Machine, forecast: Forecast) -> Result<StoppedTick, KeepReason> {
    machine.with_tick(|nohz, tick, timer| nohz.stop(tick, timer, forecast))
}

/// Lets the tick run again, and returns the number of times that the device was written for it.
fn resume(machine: &Machine) -> u64 {
    let writes = || machine.timers.stats(machine.here()).device_writes;
    let (before, now) = (writes(), machine.now());
    let busy = TickDependencies {
        reschedule: true,
        ..TickDependencies::default()
    };
    let _ticks = machine.with_tick(|nohz, tick, timer| nohz.run_task(tick, timer, busy, now));
    writes() - before
}

/// A CPU wakes up by the time of its forecast, though the timer was cancelled since. It gives up the duty to count, and
/// looks at the clock in time. Afterwards its tick comes when it would have come.
fn follows_its_forecast(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    let here = machine.here();
    wait_awake(|| machine.count.duty() == Duty::Taken { by: here });
    let one = coarse(WheelKind::Local, |_| Restart::No);
    let before = arch::mask();
    let begin = machine.tick_time().tick;
    let armed = one.arm(machine.timers, begin, Tick(begin.0 + 20));
    let ticks_at = || machine.with_tick(|_, _, timer| timer.deadline(machine.timers));
    let at_first = ticks_at();
    let busy = machine.with_tick(|nohz, tick, _| nohz.forecast(tick, TickDependencies::default()));
    let foreseen = forecast(machine);
    let _was = one.try_delete_sync(machine.timers);
    let wake = stop(machine, foreseen).map(|stopped| stopped.wake);
    let duty = machine.count.duty();
    let looks = forecast(machine).own;
    let limit = machine.host().clock().max_idle();
    let limit = machine.now().saturating_add(limit);
    let writes = resume(machine);
    let again = ticks_at();
    arch::restore(before);
    ensure!(armed.is_ok(), "a timer is not armed: {armed:?}");
    let keeps = busy.keeps;
    ensure!(keeps == Some(KeepReason::NotIdle), "a task has no tick");
    ensure!(
        again == at_first || !parameters.is_exact,
        "a tick at {again:?}, not {at_first:?}"
    );
    ensure!(wake == Ok(foreseen.own), "{wake:?} is not as foreseen");
    ensure!(
        duty == Duty::Free { last: Some(here) },
        "a CPU without a tick has the duty to count: {duty:?}"
    );
    ensure!(looks <= limit, "the clock is looked at by {looks:?}");
    ensure!(writes == 1, "{writes} writes to let the tick run again");
    Ok(())
}

/// A CPU without a tick that has a pass over its wheels pending wakes up at the next tick, not at once for what is due.
fn leaves_a_pass_alone(machine: &'static Machine) -> Verdict {
    let one = coarse(WheelKind::Local, |_| Restart::No);
    let before = arch::mask();
    let stopped = stop(machine, forecast(machine));
    let begin = machine.tick_time();
    let armed = one.arm(machine.timers, begin.tick, begin.tick);
    let due = begin.began.saturating_add(PERIOD);
    while machine.now() <= due.saturating_add(PERIOD) {
        arch::relax();
    }
    let soon = machine.tick_time().began.saturating_add(PERIOD);
    let pending = TickDependencies {
        pass_pending: true,
        ..TickDependencies::default()
    };
    let own = forecast_for(machine, pending).own;
    let _was = one.try_delete_sync(machine.timers);
    resume(machine);
    arch::restore(before);
    ensure!(stopped.is_ok() && armed.is_ok(), "{stopped:?}, {armed:?}");
    ensure!(own == soon, "it wakes up at {own:?}, not {soon:?}");
    Ok(())
}

/// What another CPU handed over has come close since the forecast, and no other CPU is awake: the CPU keeps its tick,
/// and is awake in the tree.
fn stays_awake(machine: &'static Machine) -> Verdict {
    let all = arm_on(machine, 2);
    let before = arch::mask();
    let foreseen = forecast(machine);
    while machine.now().saturating_add(PERIOD) < foreseen.own {
        arch::relax();
    }
    let _counted = machine.tick_time();
    let stopped = stop(machine, foreseen);
    let node = machine.tree.host().node(machine.here());
    let is_idle = node.is_some_and(CpuNode::is_idle);
    let promise = node.map(CpuNode::wakeup);
    resume(machine);
    arch::restore(before);
    wait_awake(|| BY_FIRST.get() + BY_OTHERS.get() == all);
    ensure!(
        stopped == Err(KeepReason::HandedOver),
        "the tick is stopped for less than a tick: {stopped:?}"
    );
    ensure!(!is_idle, "the CPU keeps its tick, and is idle in the tree");
    let is_free = promise.is_some_and(Instant::is_forever);
    ensure!(is_free, "the CPU is awake, and promises {promise:?}");
    Ok(())
}

/// The last CPU that went to sleep promised to wake up for another one. A third one is awake by then and runs the
/// timers: the promise ends, and does not wake up the CPU again.
fn wakes_once(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    if machine.cpus() < 3 {
        return Ok(());
    }
    let all = arm_on(machine, 2);
    let wakes = timer(Setup::new().stage(Stage::Hard), |_| {
        // Until the last of the timers.
        machine_of().run_on(2, || {
            wait_awake(|| BY_FIRST.get() + BY_OTHERS.get() == EACH);
        });
        Restart::No
    });
    let after = Span::from_millis(10);
    let _started = wakes.start(machine.timers, Start::after(after).pinned());
    let before = quiet::counts(machine);
    idle::until(|| BY_FIRST.get() + BY_OTHERS.get() == all);
    let did = quiet::since(machine, &before)[0].0;
    // One for each timer, and one each for the timer here, the promise, and the job.
    ensure!(
        did <= all + 3 || !parameters.is_exact,
        "{did} interrupts on a CPU that sleeps"
    );
    Ok(())
}

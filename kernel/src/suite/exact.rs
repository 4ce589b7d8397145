//! Tests of exact timers: their lateness, their order, and the writes of the device.

use alloc::string::String;
use core::hint::black_box;
use core::pin::Pin;

use tickless_core::base::TryCancel;
use tickless_core::event::Flush;
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Stage, Start};
use tickless_core::platform::Platform;
use tickless_core::time::{Instant, Monotonic, Span};

use super::fixture::{Spread, TestTimer, Verdict, ensure, kept, timer};
use crate::arch;
use crate::console::say;
use crate::host::Host;
use crate::idle;
use crate::machine::{Machine, machine};
use crate::note::{Count, Note};
use crate::parameters::Parameters;

/// The delay of timers that must not fire before their test has checked them.
const AHEAD: Span = Span::from_millis(10);
/// The longest time between two counts of any machine, in nanoseconds.
const GRID: i64 = 400;

/// Returns the next instant that is `AHEAD` from now or later and on a count of the machine's counter.
pub(super) fn on_grid(machine: &Machine) -> Instant {
    let soon = machine.now().saturating_add(AHEAD).as_nanos();
    Instant::from_nanos(soon - soon % GRID)
}

/// Returns the nanoseconds from `deadline` to the entry of the executing CPU's last interrupt; `None` if it was early.
pub(super) fn lateness_of_entry(host: &Host, deadline: Instant) -> Option<u64> {
    let entered = host.time_of(host.here().entered.get());
    (entered >= deadline).then(|| entered.saturating_since(deadline).as_nanos())
}

/// Measures how late the interrupts and the callbacks of a timer are that fires 10,000 times, every 100 µs.
pub(super) fn lateness(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    const TIMES: u64 = 10_000;
    const EVERY: Span = Span::from_micros(100);
    let (entry, callback) = (kept(Spread::new()), kept(Spread::new()));
    let (early, exact) = (kept(Count::new()), kept(Count::new()));
    let joined = kept(Count::new());
    let host = machine.host();
    let local = host.here();
    let ticking = timer(Setup::new(), move |expired| {
        let called = host.time_of(arch::counter());
        let deadline = expired.deadline();
        match lateness_of_entry(host, deadline) {
            Some(late) => {
                entry.note(late);
                exact.add(u64::from(arch::ENTRY_LATENESS.contains(&late)));
            }
            // An interrupt that takes long runs what became due in the meantime, too.
            None => joined.add(1),
        }
        early.add(u64::from(called < deadline));
        callback.note(called.saturating_since(deadline).as_nanos());
        if entry.count.get() + joined.get() >= TIMES {
            return Restart::No;
        }
        expired.forward(expired.now(), EVERY);
        Restart::Yes
    });
    let (writes, interrupts) = (local.device_writes.get(), local.timer_interrupts.get());
    let _started = ticking.start(machine.timers, Start::at(on_grid(machine)).pinned());
    idle::until(|| !ticking.is_active());
    let writes = local.device_writes.get() - writes;
    let interrupts = local.timer_interrupts.get() - interrupts;
    say!(
        "  entered {entry} late, called {callback} late, {interrupts} interrupts, {writes} writes"
    );
    ensure!(early.get() == 0, "{} callbacks were early", early.get());
    // The start writes once, and so does each interrupt: the last one to stop the device.
    ensure!(
        writes == interrupts + 1,
        "{writes} writes for a start and {interrupts} interrupts"
    );
    if parameters.is_exact && !parameters.is_relative {
        let (lateness, exact) = (arch::ENTRY_LATENESS, exact.get());
        ensure!(
            interrupts == TIMES,
            "{interrupts} interrupts for {TIMES} deadlines"
        );
        ensure!(
            exact == TIMES,
            "{exact} of {TIMES} are entered {lateness:?} ns late, the others otherwise"
        );
        let spread = entry.greatest.get() - entry.least.get();
        ensure!(
            (0..=arch::ENTRY_SPREAD).contains(&spread),
            "they are entered {spread} ns apart, not {}",
            arch::ENTRY_SPREAD
        );
    }
    Ok(())
}

/// A thousand timers with random deadlines fire in the order of their deadlines.
pub(super) fn order(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    const TIMERS: u64 = 1_000;
    const WITHIN: u64 = 50_000_000;
    let (last, fired) = (kept(Count::new()), kept(Count::new()));
    let (early, wrong) = (kept(Count::new()), kept(Count::new()));
    let callback = kept(Spread::new());
    let host = machine.host();
    let local = host.here();
    let begin = machine.now().saturating_add(AHEAD);
    let mut drawn = 1_u64;
    let mut timers = alloc::vec::Vec::new();
    let interrupts = local.timer_interrupts.get();
    for _ in 0..TIMERS {
        // A full period over 64 bits; the upper bits are well mixed.
        drawn = drawn
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let when = begin.saturating_add(Span::from_nanos((drawn >> 33) % WITHIN));
        let one = timer(Setup::new(), move |expired| {
            let deadline = expired.deadline().as_nanos().unsigned_abs();
            let now = host.time_of(arch::counter()).as_nanos().unsigned_abs();
            early.add(u64::from(now < deadline));
            wrong.add(u64::from(deadline < last.get()));
            last.set(deadline);
            callback.note(now.saturating_sub(deadline));
            fired.add(1);
            Restart::No
        });
        let _started = one.start(machine.timers, Start::at(when).pinned());
        timers.push(one);
    }
    idle::until(|| fired.get() == TIMERS);
    let interrupts = local.timer_interrupts.get() - interrupts;
    say!("  {TIMERS} timers, {interrupts} interrupts, called {callback} late");
    ensure!(early.get() == 0, "{} timers were early", early.get());
    // Where time is the host's, some are due before others are started.
    ensure!(
        wrong.get() == 0 || !parameters.is_exact,
        "{} timers were out of order",
        wrong.get()
    );
    Ok(())
}

/// A timer whose callback takes longer than its period: an interrupt gives up after three passes of 100 us each, and the
/// timer is paced in the end.
pub(super) fn greedy(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    const CALLS: u64 = 64;
    const PERIOD: Span = Span::from_micros(10);
    const TAKES: Span = Span::from_micros(30);
    let (calls, interrupt) = (kept(Count::new()), kept(Count::new()));
    let (began, most) = (kept(Count::new()), kept(Count::new()));
    let (timers, local) = (machine.timers, machine.host().here());
    let paced = timers.stats(machine.here()).paced;
    let greedy = timer(Setup::new().stage(Stage::Hard), move |expired| {
        if local.timer_interrupts.get() != interrupt.get() {
            interrupt.set(local.timer_interrupts.get());
            began.set(calls.get());
        }
        calls.add(1);
        most.set(most.get().max(calls.get() - began.get()));
        let ends = machine.now().saturating_add(TAKES);
        while machine.now() < ends {
            arch::relax();
        }
        if calls.get() == CALLS {
            return Restart::No;
        }
        expired.set_deadline(expired.deadline().saturating_add(PERIOD));
        Restart::Yes
    });
    let _started = greedy.start(timers, Start::after(AHEAD).pinned());
    idle::until(|| calls.get() == CALLS);
    let paced = timers.stats(machine.here()).paced - paced;
    let most = most.get();
    ensure!(most <= 12, "{most} calls in an interrupt");
    ensure!(paced > 0, "the timer is not paced");
    Ok(())
}

/// A timer that is due while interrupts are masked, and is restarted for a later deadline, fires once, at the later
/// deadline.
pub(super) fn moved(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    let fired = kept(Count::default());
    let host = machine.host();
    let local = host.here();
    let one = timer(Setup::new(), move |expired| {
        let now = host.time_of(arch::counter());
        fired.add(1 + u64::from(now < expired.deadline()) * 100);
        Restart::No
    });
    let interrupts = local.timer_interrupts.get();
    let before = arch::mask();
    let _started = one.start(machine.timers, Start::after(Span::from_micros(10)).pinned());
    let later = machine.now().saturating_add(Span::from_micros(50));
    while machine.now() < later {
        arch::relax();
    }
    let _started = one.start(machine.timers, Start::after(AHEAD).pinned());
    arch::restore(before);
    idle::until(|| fired.get() > 0);
    let interrupts = local.timer_interrupts.get() - interrupts;
    say!("  {interrupts} interrupts");
    ensure!(fired.get() == 1, "it fired early, or more than once");
    let most = if arch::takes_back() { 1 } else { 2 };
    ensure!(
        interrupts <= most,
        "{interrupts} interrupts for one deadline"
    );
    Ok(())
}

/// A timer that is due while interrupts are masked, and is cancelled, does not fire: the interrupt that comes all the
/// same on a PC finds nothing to do, and writes no device.
pub(super) fn withdrawn(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    const TIMES: u64 = 100;
    let fired = kept(Count::new());
    let local = machine.host().here();
    let one = timer(Setup::new(), move |_| {
        fired.add(1);
        Restart::No
    });
    let (interrupts, writes) = (local.timer_interrupts.get(), local.device_writes.get());
    for _ in 0..TIMES {
        let before = arch::mask();
        let _started = one.start(machine.timers, Start::after(Span::from_micros(10)).pinned());
        let later = machine.now().saturating_add(Span::from_micros(50));
        while machine.now() < later {
            arch::relax();
        }
        let cancel = one.try_cancel(machine.timers);
        arch::restore(before);
        ensure!(cancel == TryCancel::Removed, "the cancel says {cancel:?}");
        let armed = machine.armed(arch::cpu());
        ensure!(
            armed == Instant::FOREVER,
            "the device is armed for {} with no timer left",
            armed.as_nanos()
        );
    }
    let interrupts = local.timer_interrupts.get() - interrupts;
    let writes = local.device_writes.get() - writes;
    say!("  {TIMES} withdrawn under a mask: {interrupts} interrupts, {writes} writes");
    ensure!(fired.get() == 0, "{} fired", fired.get());
    let stale = if arch::takes_back() { 0 } else { TIMES };
    ensure!(
        interrupts == stale || !parameters.is_exact,
        "{interrupts} interrupts, not {stale}"
    );
    // A start writes once, and so does a cancel: an interrupt that finds nothing to do does not.
    ensure!(writes == 2 * TIMES, "{writes} writes, not {}", 2 * TIMES);
    Ok(())
}

/// Each operation writes the device as often as it has to, and leaves it armed for the first timer. Ten starts, each
/// 10 µs earlier than the last, are ten interrupts in time.
pub(super) fn writes(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    let (host, timers, cpu) = (machine.host(), machine.timers, machine.here());
    let no = |_: &mut Expired<'_, '_, Monotonic>| Restart::No;
    // The second and the fourth have a queue of their own.
    let stages = [Stage::Hard, Stage::Soft, Stage::Hard, Stage::Soft];
    let [first, second, third, fourth] = stages.map(|stage| timer(Setup::new().stage(stage), no));
    let lazy = timer(Setup::new().lazy(), no);
    let begin = on_grid(machine);
    let at = |micros| begin.saturating_add(Span::from_micros(micros));
    let start = |one: TestTimer<_>, micros| {
        let _started = one.start(timers, Start::at(at(micros)).pinned());
    };
    let cancel = |one: TestTimer<_>| {
        let _removed = one.try_cancel(timers);
    };
    let settle = || {
        let _armed = timers.settle_armed(cpu);
    };
    let interrupt = || {
        let _report = timers.interrupt(cpu);
    };
    let flush = || timers.flush_deferred(cpu, Flush::KernelExit);
    let unarmed = Instant::FOREVER;
    // The name of each operation, the writes, and what is armed then.
    let steps: [(&str, &dyn Fn(), u64, Instant); 24] = [
        ("a start", &|| start(first, 100), 1, at(100)),
        ("an equal start", &|| start(second, 100), 0, at(100)),
        ("a start behind it", &|| start(fourth, 200), 0, at(100)),
        ("an earlier restart", &|| start(fourth, 95), 1, at(95)),
        ("a cancel of it", &|| cancel(fourth), 1, at(100)),
        ("a later start", &|| start(third, 200), 0, at(100)),
        ("an earlier start", &|| start(third, 90), 1, at(90)),
        ("a cancel of the first", &|| cancel(third), 1, at(100)),
        ("a cancel of one of two", &|| cancel(first), 0, at(100)),
        ("a lazy earlier start", &|| start(lazy, 50), 1, at(50)),
        ("a lazy later start", &|| start(lazy, 80), 0, at(50)),
        ("a lazy cancel", &|| cancel(lazy), 0, at(50)),
        ("a settlement", &settle, 1, at(100)),
        ("a settlement of nothing", &settle, 0, at(100)),
        ("a kick", &|| timers.retrigger(cpu), 1, at(100)),
        ("an interrupt", &interrupt, 0, unarmed),
        ("an owed start", &|| start(first, 90), 0, unarmed),
        ("a flush", &flush, 1, at(90)),
        ("another interrupt", &interrupt, 0, unarmed),
        ("an owed cancel", &|| cancel(first), 0, unarmed),
        ("another flush", &flush, 1, at(100)),
        ("a flush of nothing", &flush, 0, at(100)),
        ("a cancel of the last", &|| cancel(second), 1, unarmed),
        ("a settlement at the end", &settle, 0, unarmed),
    ];
    let before = arch::mask();
    settle();
    let mut wrong = String::new();
    // Where the interrupt itself writes the device, it does so for each operation.
    for (name, operation, writes, armed) in steps.into_iter().filter(|_| Host::DEFERRED_REARM) {
        let written = host.here().device_writes.get();
        operation();
        let written = host.here().device_writes.get() - written;
        let is_armed = machine.armed(arch::cpu());
        if (written, is_armed) != (writes, armed) {
            let [armed, is_armed] = [armed, is_armed].map(Instant::as_nanos);
            wrong = alloc::format!(
                "{name}: {written} writes, armed for {is_armed}, not {writes} and {armed}"
            );
            break;
        }
    }
    arch::restore(before);
    ensure!(wrong.is_empty(), "{wrong}");
    let (entry, fired) = (kept(Spread::new()), kept(Count::new()));
    for place in (1..=10).rev() {
        let one = timer(Setup::new(), move |expired| {
            let late = lateness_of_entry(host, expired.deadline());
            entry.note(late.unwrap_or(u64::MAX));
            fired.add(1);
            Restart::No
        });
        let _started = one.start(timers, Start::at(at(place * 10)).pinned());
    }
    idle::until(|| fired.get() == 10);
    say!("  10 starts, each 10 us earlier than the last: entered {entry} late");
    let greatest = entry.greatest.get();
    ensure!(
        greatest <= 1_000 || !parameters.is_exact,
        "one was entered {greatest} ns late"
    );
    Ok(())
}

/// A task starts and cancels timers while another timer fires every five microseconds and interrupts the task at any
/// instruction. A timer of the soft stage fires ten times meanwhile, and does not wait for the end.
pub(super) fn storm(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    const TIMES: u32 = 2_000;
    const EVERY: Span = Span::from_micros(5);
    let fired = kept(Count::new());
    let ended = kept(Note::new());
    let ticking = timer(Setup::new(), move |expired| {
        fired.add(1);
        expired.forward(expired.now(), EVERY);
        if ended.is_there() {
            Restart::No
        } else {
            Restart::Yes
        }
    });
    let idle = timer(Setup::new(), |_| Restart::No);
    let softs = kept(Count::new());
    let soft = timer(Setup::new().stage(Stage::Soft), move |expired| {
        softs.add(1);
        expired.forward(expired.now(), EVERY);
        if softs.get() < 10 {
            Restart::Yes
        } else {
            Restart::No
        }
    });
    let _started = soft.start(machine.timers, Start::after(EVERY).pinned());
    let _started = ticking.start(machine.timers, Start::after(EVERY).pinned());
    for _ in 0..TIMES {
        let _started = idle.start(machine.timers, Start::after(AHEAD).pinned());
        let cancel = idle.try_cancel(machine.timers);
        ensure!(cancel == TryCancel::Removed, "the cancel says {cancel:?}");
    }
    let is_soft_over = !soft.is_active();
    ended.leave();
    idle::until(|| !ticking.is_active());
    say!("  {} interrupted {TIMES} starts and cancels", fired.get());
    ensure!(
        fired.get() > u64::from(TIMES) / 10 || !parameters.is_exact,
        "it was hardly interrupted"
    );
    ensure!(
        is_soft_over || !parameters.is_exact,
        "the soft stage ran {} times",
        softs.get()
    );
    machine.timers.assert_valid(machine.here());
    Ok(())
}

/// Timers that become due at each moment between the last check of idle and the sleep: the CPU never sleeps through a
/// timer.
pub(super) fn sweep(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    const STEPS: u64 = 1_000;
    let fired = kept(Count::new());
    let one = timer(Setup::new(), move |_| {
        fired.add(1);
        Restart::No
    });
    for step in 0..STEPS {
        let _started = one.start(
            machine.timers,
            Start::after(Span::from_nanos(step * 8)).pinned(),
        );
        // A countdown goes by more than an instruction: the way into sleep begins at each place within one count.
        for round in 0..step % 16 {
            black_box(round);
        }
        idle::until(|| !one.is_active());
    }
    ensure!(fired.get() == STEPS, "{} of {STEPS} fired", fired.get());
    Ok(())
}

/// An interrupt that no mask holds back reads the clock while the clock is written, and the time does not go back.
#[cfg(target_arch = "x86_64")]
pub(super) fn unmaskable(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    const TIMES: u64 = 1_000;
    let host = machine.host();
    let local = host.here();
    let arrived = local.unmaskable.get();
    let before = arch::mask();
    let mut last = 0;
    for time in 1..=TIMES {
        arch::interrupt_masked(0);
        host.clock().advance();
        while local.unmaskable.get() != arrived + time {
            arch::relax();
        }
        let read = local.unmaskable_time.get();
        let now = machine.now().as_nanos().unsigned_abs();
        if !(last..=now).contains(&read) {
            arch::restore(before);
            return Err(alloc::format!("it read {read} between {last} and {now}"));
        }
        last = now;
    }
    arch::restore(before);
    say!("  {TIMES} came under a mask, and read the time");
    Ok(())
}

type Function = fn(&mut Expired<'_, '_, Monotonic>) -> Restart;

/// The number of the CPU on which a timer of [`remote`] fired, plus one.
static FIRED_ON: Count = Count::new();
static IS_OVER: Note = Note::new();
static CANCELLED: HrTimer<Function> = HrTimer::new(|_| {
    FIRED_ON.set(u64::MAX);
    IS_OVER.leave();
    arch::interrupt_cpu(0);
    Restart::No
});
static LEFT: HrTimer<Function> = HrTimer::new(|_| {
    if FIRED_ON.get() == 0 {
        FIRED_ON.set(1 + arch::cpu() as u64);
    }
    IS_OVER.leave();
    arch::interrupt_cpu(0);
    Restart::No
});

/// Arms the two timers of [`remote`], on CPU 1.
fn start_two() {
    let timers = machine().timers;
    let (first, second) = (Pin::static_ref(&CANCELLED), Pin::static_ref(&LEFT));
    let _started = first.start(timers, Start::after(AHEAD).pinned());
    let _started = second.start(timers, Start::after(AHEAD.saturating_add(AHEAD)).pinned());
}

/// A timer of another CPU is cancelled from here, and a timer that is not cancelled fires there.
pub(super) fn remote(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    machine.call_on(1, start_two);
    let cancel = Pin::static_ref(&CANCELLED).try_cancel(machine.timers);
    ensure!(cancel == TryCancel::Removed, "the cancel says {cancel:?}");
    idle::until(|| IS_OVER.is_there());
    ensure!(FIRED_ON.get() == 2, "the wrong timer fired, or elsewhere");
    Ok(())
}

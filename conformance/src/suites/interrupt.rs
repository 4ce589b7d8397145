//! Cases about the timer interrupt: passes, hangs, budget (spec ).

use alloc::rc::Rc;
use core::cell::{Cell, RefCell};

use tickless_core::event::Flush;
use tickless_core::hrtimer::{ExpiryReport, Restart, Setup, Stage};
use tickless_core::platform::{CpuId, Waiting};
use tickless_core::time::{Instant, Realtime, Span};
use tickless_core::trace::Event;

use crate::prelude::*;
use crate::suite::{at, at_on, rearms};
use crate::{DeviceClass, Host, Interrupted, Rig, Schedule, TestTimer};

const MS: i64 = 1_000_000;

fn interrupt<H: Host>(rig: &Rig<H>, cpu: u32) {
    rig.interrupt(cpu, Interrupted::User, &Schedule::SWITCH);
}

/// Makes a timer that restarts every `interval` and whose callback takes `takes`.
fn slow<H: Host>(rig: &Rig<H>, interval: i64, takes: i64) -> TestTimer<H> {
    let span = Span::from_nanos(interval.unsigned_abs());
    let busy = rig.clone();
    TestTimer::new(rig, move |expired| {
        expired.forward_now(span);
        busy.spend(takes);
        Restart::Yes
    })
}

/// makes the CPU of the worked example. It has three timers that take 5 ms each, and a timer with a period of 1
/// ms that takes longer than its period.
fn overloaded<H: Host>() -> (Rig<H>, Vec<TestTimer<H>>) {
    overloaded_with(DeviceClass::Coupled)
}

fn overloaded_with<H: Host>(class: DeviceClass) -> (Rig<H>, Vec<TestTimer<H>>) {
    let rig = Rig::<H>::with_devices(2, class);
    let mut timers: Vec<_> = (0..3)
        .map(|_| {
            let busy = rig.clone();
            TestTimer::new(&rig, move |_| {
                busy.spend(5 * MS);
                Restart::No
            })
        })
        .collect();
    timers.push(slow(&rig, MS, MS + 500_000));
    rig.on(0, || {
        for timer in &timers {
            timer.start(at(MS));
        }
    });
    rig.spend(MS);
    (rig, timers)
}

/// IRQ-1, X-14.5: after three passes the interrupt gives up, once.
pub fn an_interrupt_gives_up_after_three_passes<H: Host>() {
    let (rig, timers) = overloaded::<H>();
    rig.take_trace();
    interrupt(&rig, 0);
    let stats = rig.stats(0);
    assert_eq!((stats.interrupts, stats.passes, stats.hangs), (1, 3, 1));
    // 15 ms for the three, 1.5 ms for each of the runs of the fourth.
    let took = 15 * MS + 3 * (MS + 500_000);
    assert_eq!(stats.max_hang.as_nanos(), took.unsigned_abs());
    assert_eq!(timers[3].fired_at().len(), 3);
    let hang = rig.take_trace().into_iter().find_map(|event| match event {
        Event::Hang { cpu, nanos } => Some((cpu, nanos)),
        _ => None,
    });
    assert_eq!(hang, Some((CpuId(0), took.unsigned_abs())));
    assert!(rig.timers().is_backing_off(CpuId(0)));
    assert!(!rig.timers().is_backing_off(CpuId(1)));
}

/// IRQ-3, B10, A1: the backoff is as long as the longest hang so far, and costs one write.
pub fn the_backoff_is_as_long_as_the_hang<H: Host>() {
    let (rig, timers) = overloaded::<H>();
    rig.take_trace();
    interrupt(&rig, 0);
    let backoff = 15 * MS + 3 * (MS + 500_000);
    assert_eq!(rig.fires_at(0), Some(rig.now() + backoff));
    assert_eq!(rearms(&rig.take_trace()).len(), 1);
    // INV-4: the armed value is the intention, not the backoff.
    assert!(rig.armed(0).as_nanos() <= rig.now());
    drop(timers);
}

/// IRQ-2: the backoff is never longer than 100 ms.
pub fn the_backoff_is_limited<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = slow(&rig, MS, 700 * MS);
    rig.on(0, || timer.start(at(MS)));
    rig.spend(MS);
    interrupt(&rig, 0);
    assert_eq!(rig.stats(0).max_hang, Span::from_millis(2_100));
    assert_eq!(rig.fires_at(0), Some(rig.now() + 100 * MS));
}

/// IRQ-3, C-7.6: the device stops in a deep idle state during the backoff. The stop ends the backoff, because no
/// interrupt of the device would end it any more.
pub fn stopping_in_deep_idle_ends_the_backoff<H: Host>() {
    let rig = Rig::<H>::new(1);
    let (timer, later) = (slow(&rig, MS, 7 * MS), TestTimer::once(&rig));
    rig.on(0, || {
        timer.start(at(MS));
        later.start(at(900 * MS));
    });
    rig.spend(MS);
    interrupt(&rig, 0);
    assert!(rig.timers().is_backing_off(CpuId(0)));
    // What was due is gone, and the CPU sleeps until the other one is.
    rig.on(0, || assert!(timer.cancel()));
    rig.stop_device(0);
    rig.spend(MS / 2);
    rig.restart_device(0);
    rig.check();
    rig.run_until(1_000 * MS);
    assert_eq!(later.fired_at(), [900 * MS]);
}

/// IRQ-4, X-14.5, B23: during the backoff, starts and cancels change the queues but do not write the device.
pub fn no_start_writes_the_device_during_the_backoff<H: Host>() {
    for class in DeviceClass::ALL {
        let (rig, timers) = overloaded_with::<H>(class);
        interrupt(&rig, 0);
        let fires_at = rig.fires_at(0).expect("the backoff");
        let writes = rig.device_writes(0);
        let urgent = TestTimer::once(&rig);
        rig.on(0, || urgent.start(at(rig.now() + MS)));
        rig.on(0, || urgent.start(at(rig.now() + 2 * MS)));
        let far = TestTimer::once(&rig);
        rig.on(0, || far.start(at(rig.now() + 1_000 * MS)));
        rig.on(0, || {
            assert!(urgent.cancel() && timers[3].cancel());
            // Only the far one is left.
            urgent.start(at(rig.now() + 2 * MS));
        });
        rig.timers().retrigger(CpuId(0));
        assert_eq!(rig.device_writes(0), writes);
        assert_eq!(rig.fires_at(0), Some(fires_at));
        rig.run_until(fires_at);
        assert_eq!(
            urgent.fired_at(),
            [fires_at],
            "with the backoff's interrupt"
        );
        assert!(!rig.timers().is_backing_off(CpuId(0)));
        assert_eq!(rig.fires_at(0), far.deadline(), "and all is exact again");
    }
}

/// IRQ-1: an event counts as late only when its time has passed. An event that is due exactly now is programmed, and
/// fires at once.
pub fn an_event_that_is_due_exactly_now_is_programmed<H: Host>() {
    let rig = Rig::<H>::new(1);
    let next = Rc::new(TestTimer::once(&rig));
    let first = {
        let (rig, next) = (rig.clone(), Rc::clone(&next));
        TestTimer::new(&rig.clone(), move |_| {
            next.start(at(1_300));
            // The pass ends exactly when the next one is due.
            rig.spend(300);
            Restart::No
        })
    };
    rig.on(0, || first.start(at(1_000)));
    rig.spend(1_000);
    interrupt(&rig, 0);
    assert_eq!(rig.stats(0).passes, 1);
    assert!(next.fired_at().is_empty());
    assert!(rig.fires_at(0).is_some_and(|at| at <= 1_400));
    rig.run_until(1_400);
    assert_eq!(next.fired_at().len(), 1);
}

/// a timer that moves its deadline on by its period runs once for each period that has passed, all in one pass.
pub fn a_late_periodic_timer_catches_up_in_one_pass<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::new(&rig, |expired| {
        let next = expired.deadline().saturating_add(Span::from_nanos(1_000));
        expired.set_deadline(next);
        Restart::Yes
    });
    rig.on(0, || timer.start(at(1_000)));
    rig.spend(4_500);
    interrupt(&rig, 0);
    assert_eq!(timer.fired_at(), [4_500; 4]);
    assert_eq!(rig.stats(0).passes, 1);
    assert_eq!(rig.fires_at(0), Some(5_000));
}

/// with a budget, an interrupt returns although more timers are due, and the next interrupt comes at once for the
/// rest.
pub fn a_budget_spreads_the_work_over_interrupts<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timers: Vec<_> = (0..150).map(|_| TestTimer::once(&rig)).collect();
    rig.on(0, || {
        for timer in &timers {
            timer.start(at(1_000));
        }
    });
    rig.spend(1_000);
    let turn = rig.enter_interrupt(0);
    let budget = Rig::<H>::EXPIRY_BUDGET.min(150);
    assert_eq!(turn.fired, budget);
    assert_eq!(turn.more, budget < 150);
    rig.leave_interrupt(0);
    rig.check();
    rig.run_until(2_000);
    assert!(timers.iter().all(|timer| timer.fired_at().len() == 1));
    let stats = rig.stats(0);
    assert_eq!(
        stats.interrupts,
        150_u64.div_ceil(u64::from(Rig::<H>::EXPIRY_BUDGET))
    );
    assert_eq!(stats.budget_exhausted, stats.interrupts - 1);
    assert_eq!((stats.hangs, stats.spurious), (0, 0));
}

/// IRQ-9: an interrupt that ran no callback and raised no soft stage is counted and traced as spurious.
pub fn an_interrupt_that_finds_nothing_is_counted<H: Host>() {
    let rig = Rig::<H>::new(2);
    let timer = TestTimer::once(&rig);
    rig.on(0, || timer.start(at(1_000)));
    rig.on(1, || assert!(timer.cancel()));
    rig.take_trace();
    rig.run_until(2_000);
    assert_eq!(rig.stats(0).spurious, 1);
    let spurious = Event::Spurious { cpu: CpuId(0) };
    assert!(rig.take_trace().contains(&spurious));
    assert_eq!(rig.fires_at(0), None);

    let soft = TestTimer::with_setup(&rig, Setup::new().stage(Stage::Soft), |_| Restart::No);
    rig.on(0, || soft.start(at(3_000)));
    rig.run_until(4_000);
    assert_eq!(soft.fired_at(), [3_000]);
    assert_eq!(
        rig.stats(0).spurious,
        1,
        "raising the soft stage is not nothing"
    );
}

/// a next event from before the start of the monotonic clock fires at once; it is counted and traced.
pub fn a_next_event_before_the_clock_began_is_counted_and_traced<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::<_, Realtime>::once_on(&rig);
    rig.set_wall(0, 5_000);
    rig.run_until(500);
    rig.take_trace();
    let before = rig.stats(0).clamped;
    rig.on(0, || timer.start(at_on(1_000)));
    assert!(rig.stats(0).clamped > before);
    let clamped = Event::Clamped {
        cpu: CpuId(0),
        event: Instant::from_nanos(-4_000),
    };
    assert!(rig.take_trace().contains(&clamped));
    rig.run_until(2_000);
    assert_eq!(timer.fired_at().len(), 1);

    let counted = rig.stats(0).clamped;
    let later = TestTimer::<_, Realtime>::once_on(&rig);
    rig.on(0, || later.start(at_on(9_000)));
    assert_eq!(rig.stats(0).clamped, counted, "4 us after its beginning");
}

/// DEV-6: a device that counts from now is written for an event that is already over, so it gets its shortest delay;
/// this is counted and traced.
pub fn an_event_that_is_over_when_the_device_is_written_is_counted_and_traced<H: Host>() {
    for class in DeviceClass::ALL {
        let rig = Rig::<H>::with_devices(1, class);
        let timer = TestTimer::once(&rig);
        rig.run_until(5_000);
        rig.take_trace();
        rig.on(0, || timer.start(at(1_000)));
        let trace = rig.take_trace();
        let late = Event::WrittenLate {
            cpu: CpuId(0),
            event: Instant::from_nanos(1_000),
        };
        let told = trace.iter().filter(|event| **event == late).count();
        assert_eq!(rig.stats(0).written_late, told as u64);
        let looks = matches!(class, DeviceClass::Countdown | DeviceClass::Equality);
        assert!(told > 0 || !looks, "{class:?}: {trace:?}");
        rig.run_until(10_000);
        assert_eq!(timer.fired_at().len(), 1);
    }
}

/// IRQ-8, LOC-13: while the handler of a CPU runs, no other CPU pushes timers to it.
pub fn a_cpu_in_its_handler_takes_no_timers_from_others<H: Host>() {
    let rig = Rig::<H>::new(2);
    rig.set_idleness(1, false, true);
    rig.set_busy(Some(0));
    let pushed = Rc::new(TestTimer::once(&rig));
    let first = {
        let (rig, pushed) = (rig.clone(), Rc::clone(&pushed));
        TestTimer::new(&rig.clone(), move |_| {
            rig.on(1, || pushed.start(at(50_000)));
            assert_eq!(
                pushed.cpu(),
                Some(1),
                "armed is FOREVER, so nothing is later"
            );
            Restart::No
        })
    };
    rig.on(0, || first.start(at(1_000)));
    rig.run_until(2_000);
    let (first, second) = (TestTimer::once(&rig), TestTimer::once(&rig));
    rig.on(0, || first.start(at(9_000)));
    rig.on(1, || second.start(at(60_000)));
    assert_eq!(second.cpu(), Some(0), "outside of the handler it does");
    rig.run_until(70_000);
    assert_eq!(pushed.fired_at(), [50_000]);
    assert_eq!(second.fired_at(), [60_000]);
}

/// REARM-16: an interrupt inside an interrupt changes nothing. (On a host where a thread waits for callbacks by
/// sleeping, the second call would wait for the first, so a callback must not do this there.)
pub fn an_interrupt_inside_an_interrupt_returns_at_once<H: Host>() {
    if Rig::<H>::WAITING == Waiting::Sleep {
        return;
    }
    let rig = Rig::<H>::new(1);
    let inner = Rc::new(Cell::new(None));
    let timer = {
        let (rig, inner) = (rig.clone(), Rc::clone(&inner));
        TestTimer::new(&rig.clone(), move |_| {
            inner.set(Some(rig.timers().interrupt(CpuId(0))));
            Restart::No
        })
    };
    rig.on(0, || timer.start(at(1_000)));
    rig.run_until(2_000);
    let nothing = ExpiryReport {
        fired: 0,
        next: Instant::FOREVER,
        soft_raised: false,
        more: false,
        overrun: None,
    };
    assert_eq!(inner.get(), Some(nothing));
    assert_eq!(rig.stats(0).interrupts, 1);
}

/// An interrupt for a CPU that does not exist, or is offline, does no harm.
pub fn an_interrupt_without_a_cpu_does_nothing<H: Host>() {
    let rig = Rig::<H>::new(2);
    assert_eq!(rig.timers().interrupt(CpuId(7)).fired, 0);
    assert_eq!(rig.timers().soft_interrupt(CpuId(7)).fired, 0);
    rig.offline(1);
    interrupt(&rig, 1);
    assert_eq!(rig.fires_at(1), None);
    rig.online(1);
    rig.check();
}

/// The promise of the module: another thread may execute the interrupt of an idle CPU.
pub fn an_interrupt_can_be_executed_for_another_cpu<H: Host>() {
    let rig = Rig::<H>::new(2);
    let ran_on = Rc::new(RefCell::new(Vec::new()));
    let timer = {
        let (rig, ran_on) = (rig.clone(), Rc::clone(&ran_on));
        TestTimer::new(&rig.clone(), move |expired| {
            ran_on.borrow_mut().push(rig.now());
            expired.forward_now(Span::from_nanos(1_000));
            Restart::Yes
        })
    };
    rig.on(1, || timer.start(at(1_000)));
    rig.set_masked(1, true);
    rig.spend(1_200);
    let turn = rig.on(0, || rig.timers().interrupt(CpuId(1)));
    assert_eq!((turn.fired, turn.next.as_nanos()), (1, 2_000));
    rig.timers().flush_deferred(CpuId(1), Flush::MaskedReturn);
    assert_eq!(timer.cpu(), Some(1));
    assert_eq!(rig.fires_at(1), Some(2_000));
    rig.set_masked(1, false);
    rig.run_until(2_500);
    assert_eq!(*ran_on.borrow(), [1_200, 2_000]);
}

/// IRQ-7: the dump shows the true counts of interrupts and passes.
pub fn interrupts_and_passes_are_counted<H: Host>() {
    let (rig, _timers) = overloaded::<H>();
    interrupt(&rig, 0);
    let dump = rig.dump();
    for line in [
        ".nr_events      : 1",
        ".nr_retries     : 2",
        ".nr_hangs       : 1",
        ".max_hang_time  : 19500000\n",
        ".hang           : 1",
    ] {
        assert!(dump.contains(line), "{line} in {dump}");
    }
}

crate::kit::cases!(interrupt:
    an_interrupt_gives_up_after_three_passes [CPUS, PATHS, DEVICES, TRACE],
    the_backoff_is_as_long_as_the_hang [CPUS, PATHS, DEVICES, TRACE],
    stopping_in_deep_idle_ends_the_backoff [PATHS, DEVICES],
    the_backoff_is_limited [PATHS],
    no_start_writes_the_device_during_the_backoff [CPUS, PATHS, DEVICES],
    an_event_that_is_due_exactly_now_is_programmed [PATHS],
    a_late_periodic_timer_catches_up_in_one_pass [PATHS],
    a_budget_spreads_the_work_over_interrupts [PATHS],
    an_interrupt_that_finds_nothing_is_counted [CPUS, SOFT, TRACE],
    a_next_event_before_the_clock_began_is_counted_and_traced [CLOCKS, TRACE],
    an_event_that_is_over_when_the_device_is_written_is_counted_and_traced [DEVICES, TRACE],
    a_cpu_in_its_handler_takes_no_timers_from_others [CPUS, PLACEMENT],
    an_interrupt_inside_an_interrupt_returns_at_once [PATHS],
    an_interrupt_without_a_cpu_does_nothing [CPUS, PATHS],
    an_interrupt_can_be_executed_for_another_cpu [CPUS, PATHS],
    interrupts_and_passes_are_counted [CPUS, PATHS, DEVICES],
);

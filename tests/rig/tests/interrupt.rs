//! The timer interrupt: passes, hangs, budget (spec 1.12, 3.8).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tickless_core::event::Flush;
use tickless_core::hrtimer::{ExpiryReport, Restart, Setup, Stage};
use tickless_core::platform::{CpuId, Waiting};
use tickless_core::time::{Instant, Realtime, Span};
use tickless_core::trace::Event;
use tickless_rig::suite::{at, at_on, rearms};
use tickless_rig::{
    Config, Deferred, DeviceClass, Interrupted, Machine, Schedule, TestTimer, all_configs,
};

const MS: i64 = 1_000_000;

fn interrupt<C: Config>(machine: &Machine<C>, cpu: u32) {
    machine.interrupt(cpu, Interrupted::User, &Schedule::SWITCH);
}

/// A timer whose callback takes `takes`, and which goes on every `interval`.
fn slow<C: Config>(machine: &Machine<C>, interval: i64, takes: i64) -> TestTimer<C> {
    let span = Span::from_nanos(interval.unsigned_abs());
    let busy = machine.clone();
    TestTimer::new(machine, move |expired| {
        expired.forward_now(span);
        busy.spend(takes);
        Restart::Yes
    })
}

/// 14.5: the machine of the worked example: three timers of 5 ms each, and one of 1 ms that takes longer than that.
fn overloaded<C: Config>() -> (Machine<C>, Vec<TestTimer<C>>) {
    overloaded_with(DeviceClass::Coupled)
}

fn overloaded_with<C: Config>(class: DeviceClass) -> (Machine<C>, Vec<TestTimer<C>>) {
    let machine = Machine::<C>::with_devices(2, class);
    let mut timers: Vec<_> = (0..3)
        .map(|_| {
            let busy = machine.clone();
            TestTimer::new(&machine, move |_| {
                busy.spend(5 * MS);
                Restart::No
            })
        })
        .collect();
    timers.push(slow(&machine, MS, MS + 500_000));
    machine.on(0, || {
        for timer in &timers {
            timer.start(at(MS));
        }
    });
    machine.spend(MS);
    (machine, timers)
}

/// IRQ-1, 14.5: three passes, then the interrupt gives up, once.
fn an_interrupt_gives_up_after_three_passes<C: Config>() {
    let (machine, timers) = overloaded::<C>();
    machine.take_trace();
    interrupt(&machine, 0);
    let stats = machine.stats(0);
    assert_eq!((stats.interrupts, stats.passes, stats.hangs), (1, 3, 1));
    // 15 ms for the three, 1.5 ms for each of the runs of the fourth.
    let took = 15 * MS + 3 * (MS + 500_000);
    assert_eq!(stats.max_hang.as_nanos(), took.unsigned_abs());
    assert_eq!(timers[3].fired_at().len(), 3);
    let hang = machine
        .take_trace()
        .into_iter()
        .find_map(|event| match event {
            Event::Hang { cpu, nanos } => Some((cpu, nanos)),
            _ => None,
        });
    assert_eq!(hang, Some((CpuId(0), took.unsigned_abs())));
    assert!(machine.timers().is_backing_off(CpuId(0)));
    assert!(!machine.timers().is_backing_off(CpuId(1)));
}

/// IRQ-3, B10, A1: the backoff is as long as the longest hang so far, and costs one write.
fn the_backoff_is_as_long_as_the_hang<C: Config>() {
    let (machine, timers) = overloaded::<C>();
    machine.take_trace();
    interrupt(&machine, 0);
    let backoff = 15 * MS + 3 * (MS + 500_000);
    assert_eq!(machine.fires_at(0), Some(machine.now() + backoff));
    assert_eq!(rearms(&machine.take_trace()).len(), 1);
    // INV-4: the armed value is the intention, not the backoff.
    assert!(machine.armed(0).as_nanos() <= machine.now());
    drop(timers);
}

/// IRQ-2: and never longer than 100 ms.
fn the_backoff_is_limited<C: Config>() {
    let machine = Machine::<C>::new(1);
    let timer = slow(&machine, MS, 700 * MS);
    machine.on(0, || timer.start(at(MS)));
    machine.spend(MS);
    interrupt(&machine, 0);
    assert_eq!(machine.stats(0).max_hang, Span::from_millis(2_100));
    assert_eq!(machine.fires_at(0), Some(machine.now() + 100 * MS));
}

/// IRQ-3, 7.6 of the wheel: the device stops in a deep idle state during the backoff, so nothing would end that any
/// more.
fn stopping_in_deep_idle_ends_the_backoff<C: Config>() {
    let machine = Machine::<C>::new(1);
    let (timer, later) = (slow(&machine, MS, 7 * MS), TestTimer::once(&machine));
    machine.on(0, || {
        timer.start(at(MS));
        later.start(at(900 * MS));
    });
    machine.spend(MS);
    interrupt(&machine, 0);
    assert!(machine.timers().is_backing_off(CpuId(0)));
    // What was due is gone, and the CPU sleeps until the other one is.
    machine.on(0, || assert!(timer.cancel()));
    machine.stop_device(0);
    machine.spend(MS / 2);
    machine.restart_device(0);
    machine.check();
    machine.run_until(1_000 * MS);
    assert_eq!(later.fired_at(), [900 * MS]);
}

/// IRQ-4, 14.5, B23: during the backoff starts and cancels change the queues but not the device.
fn nobody_writes_the_device_during_the_backoff<C: Config>() {
    for class in DeviceClass::ALL {
        let (machine, timers) = overloaded_with::<C>(class);
        interrupt(&machine, 0);
        let fires_at = machine.fires_at(0).expect("the backoff");
        let writes = machine.device_writes(0);
        let urgent = TestTimer::once(&machine);
        machine.on(0, || urgent.start(at(machine.now() + MS)));
        machine.on(0, || urgent.start(at(machine.now() + 2 * MS)));
        let far = TestTimer::once(&machine);
        machine.on(0, || far.start(at(machine.now() + 1_000 * MS)));
        machine.on(0, || assert!(timers[3].cancel()));
        machine.timers().retrigger(CpuId(0));
        assert_eq!(machine.device_writes(0), writes);
        assert_eq!(machine.fires_at(0), Some(fires_at));
        machine.run_until(fires_at);
        assert_eq!(
            urgent.fired_at(),
            [fires_at],
            "with the backoff's interrupt"
        );
        assert!(!machine.timers().is_backing_off(CpuId(0)));
        assert_eq!(
            machine.fires_at(0),
            far.deadline(),
            "and all is exact again"
        );
    }
}

/// IRQ-1: strictly late. An event that is due exactly now is programmed, and fires at once.
fn an_event_that_is_due_exactly_now_is_programmed<C: Config>() {
    let machine = Machine::<C>::new(1);
    let next = Rc::new(TestTimer::once(&machine));
    let first = {
        let (machine, next) = (machine.clone(), Rc::clone(&next));
        TestTimer::new(&machine.clone(), move |_| {
            next.start(at(1_300));
            // The pass ends exactly when the next one is due.
            machine.spend(300);
            Restart::No
        })
    };
    machine.on(0, || first.start(at(1_000)));
    machine.spend(1_000);
    interrupt(&machine, 0);
    assert_eq!(machine.stats(0).passes, 1);
    assert!(next.fired_at().is_empty());
    assert!(machine.fires_at(0).is_some_and(|at| at <= 1_400));
    machine.run_until(1_400);
    assert_eq!(next.fired_at().len(), 1);
}

/// a timer that moves itself on by its period runs once for each period that is over, in one pass.
fn a_late_periodic_timer_catches_up_in_one_pass<C: Config>() {
    let machine = Machine::<C>::new(1);
    let timer = TestTimer::new(&machine, |expired| {
        let next = expired.deadline().saturating_add(Span::from_nanos(1_000));
        expired.set_deadline(next);
        Restart::Yes
    });
    machine.on(0, || timer.start(at(1_000)));
    machine.spend(4_500);
    interrupt(&machine, 0);
    assert_eq!(timer.fired_at(), [4_500; 4]);
    assert_eq!(machine.stats(0).passes, 1);
    assert_eq!(machine.fires_at(0), Some(5_000));
}

/// with a budget an interrupt returns although more is due, and the rest comes with the next one, at once.
fn a_budget_spreads_the_work_over_interrupts<C: Config>() {
    let machine = Machine::<C>::new(1);
    let timers: Vec<_> = (0..150).map(|_| TestTimer::once(&machine)).collect();
    machine.on(0, || {
        for timer in &timers {
            timer.start(at(1_000));
        }
    });
    machine.spend(1_000);
    let turn = machine.enter_interrupt(0);
    let budget = C::EXPIRY_BUDGET.min(150);
    assert_eq!(turn.fired, budget);
    assert_eq!(turn.more, budget < 150);
    machine.leave_interrupt(0);
    machine.check();
    machine.run_until(2_000);
    assert!(timers.iter().all(|timer| timer.fired_at().len() == 1));
    let stats = machine.stats(0);
    assert_eq!(
        stats.interrupts,
        150_u64.div_ceil(u64::from(C::EXPIRY_BUDGET))
    );
    assert_eq!(stats.budget_exhausted, stats.interrupts - 1);
    assert_eq!((stats.hangs, stats.spurious), (0, 0));
}

/// Four callbacks at a time.
enum Frugal {}

impl Config for Frugal {
    const DEFERRED_REARM: bool = Deferred::DEFERRED_REARM;
    const WAITING: Waiting = Deferred::WAITING;
    const EXPIRY_BUDGET: u32 = 4;
    const NAME: &'static str = "frugal";
}

/// not even a callback that is due for ever keeps the CPU in one interrupt.
#[test]
fn a_budget_ends_a_callback_that_never_moves_on() {
    let machine = Machine::<Frugal>::new(1);
    let timer = TestTimer::new(&machine, |_| Restart::Yes);
    let other = TestTimer::once(&machine);
    machine.on(0, || {
        timer.start(at(1_000));
        other.start(at(1_500));
    });
    machine.spend(1_000);
    for round in 1..=20 {
        let turn = machine.enter_interrupt(0);
        assert_eq!((turn.fired, turn.more), (4, true));
        machine.leave_interrupt(0);
        assert_eq!(timer.fired_at().len(), round * 4);
        assert!(
            machine
                .fires_at(0)
                .is_some_and(|at| at <= machine.now() + 1_000)
        );
    }
    machine.on(0, || assert!(timer.cancel()));
    machine.run_until(2_000);
    assert_eq!(other.fired_at(), [1_500]);
}

/// IRQ-9: an interrupt that ran nothing and raised nothing is counted and traced as spurious.
fn an_interrupt_that_finds_nothing_is_counted<C: Config>() {
    let machine = Machine::<C>::new(2);
    let timer = TestTimer::once(&machine);
    machine.on(0, || timer.start(at(1_000)));
    machine.on(1, || assert!(timer.cancel()));
    machine.take_trace();
    machine.run_until(2_000);
    assert_eq!(machine.stats(0).spurious, 1);
    let spurious = Event::Spurious { cpu: CpuId(0) };
    assert!(machine.take_trace().contains(&spurious));
    assert_eq!(machine.fires_at(0), None);

    let soft = TestTimer::with_setup(&machine, Setup::new().stage(Stage::Soft), |_| Restart::No);
    machine.on(0, || soft.start(at(3_000)));
    machine.run_until(4_000);
    assert_eq!(soft.fired_at(), [3_000]);
    assert_eq!(
        machine.stats(0).spurious,
        1,
        "raising the soft stage is not nothing"
    );
}

/// a next event from before the monotonic clock began fires at once; it is counted, and told by the trace.
fn a_next_event_before_the_clock_began_is_counted_and_traced<C: Config>() {
    let machine = Machine::<C>::new(1);
    let timer = TestTimer::<_, Realtime>::once_on(&machine);
    machine.set_wall(0, 5_000);
    machine.run_until(500);
    machine.take_trace();
    let before = machine.stats(0).clamped;
    machine.on(0, || timer.start(at_on(1_000)));
    assert!(machine.stats(0).clamped > before);
    let clamped = Event::Clamped {
        cpu: CpuId(0),
        event: Instant::from_nanos(-4_000),
    };
    assert!(machine.take_trace().contains(&clamped));
    machine.run_until(2_000);
    assert_eq!(timer.fired_at().len(), 1);

    let counted = machine.stats(0).clamped;
    let later = TestTimer::<_, Realtime>::once_on(&machine);
    machine.on(0, || later.start(at_on(9_000)));
    assert_eq!(
        machine.stats(0).clamped,
        counted,
        "4 us after its beginning"
    );
}

/// DEV-6: a device that counts from now finds its event over, and is told its shortest delay: counted, and traced.
fn an_event_that_is_over_when_the_device_is_written_is_counted_and_traced<C: Config>() {
    for class in DeviceClass::ALL {
        let machine = Machine::<C>::with_devices(1, class);
        let timer = TestTimer::once(&machine);
        machine.run_until(5_000);
        machine.take_trace();
        machine.on(0, || timer.start(at(1_000)));
        let trace = machine.take_trace();
        let late = Event::WrittenLate {
            cpu: CpuId(0),
            event: Instant::from_nanos(1_000),
        };
        let told = trace.iter().filter(|event| **event == late).count();
        assert_eq!(machine.stats(0).written_late, told as u64);
        let looks = matches!(class, DeviceClass::Countdown | DeviceClass::Equality);
        assert!(told > 0 || !looks, "{class:?}: {trace:?}");
        machine.run_until(10_000);
        assert_eq!(timer.fired_at().len(), 1);
    }
}

/// IRQ-8, LOC-13: while its handler runs nobody pushes timers to a CPU.
fn a_cpu_in_its_handler_takes_no_timers_from_others<C: Config>() {
    let machine = Machine::<C>::new(2);
    machine.set_idleness(1, false, true);
    machine.set_busy(Some(0));
    let pushed = Rc::new(TestTimer::once(&machine));
    let first = {
        let (machine, pushed) = (machine.clone(), Rc::clone(&pushed));
        TestTimer::new(&machine.clone(), move |_| {
            machine.on(1, || pushed.start(at(50_000)));
            assert_eq!(
                pushed.cpu(),
                Some(1),
                "armed is FOREVER, so nothing is later"
            );
            Restart::No
        })
    };
    machine.on(0, || first.start(at(1_000)));
    machine.run_until(2_000);
    let (first, second) = (TestTimer::once(&machine), TestTimer::once(&machine));
    machine.on(0, || first.start(at(9_000)));
    machine.on(1, || second.start(at(60_000)));
    assert_eq!(second.cpu(), Some(0), "outside of the handler it does");
    machine.run_until(70_000);
    assert_eq!(pushed.fired_at(), [50_000]);
    assert_eq!(second.fired_at(), [60_000]);
}

/// REARM-16: an interrupt inside an interrupt changes nothing. (Where callbacks are waited for by sleeping the second
/// call would wait for the first, so there a callback must not do this.)
fn an_interrupt_inside_an_interrupt_returns_at_once<C: Config>() {
    if C::WAITING == Waiting::Sleep {
        return;
    }
    let machine = Machine::<C>::new(1);
    let inner = Rc::new(Cell::new(None));
    let timer = {
        let (machine, inner) = (machine.clone(), Rc::clone(&inner));
        TestTimer::new(&machine.clone(), move |_| {
            inner.set(Some(machine.timers().interrupt(CpuId(0))));
            Restart::No
        })
    };
    machine.on(0, || timer.start(at(1_000)));
    machine.run_until(2_000);
    let nothing = ExpiryReport {
        fired: 0,
        next: Instant::FOREVER,
        soft_raised: false,
        more: false,
    };
    assert_eq!(inner.get(), Some(nothing));
    assert_eq!(machine.stats(0).interrupts, 1);
}

/// An interrupt for a CPU that does not exist, or is offline, does no harm.
fn an_interrupt_without_a_cpu_does_nothing<C: Config>() {
    let machine = Machine::<C>::new(2);
    assert_eq!(machine.timers().interrupt(CpuId(7)).fired, 0);
    assert_eq!(machine.timers().soft_interrupt(CpuId(7)).fired, 0);
    machine.offline(1);
    interrupt(&machine, 1);
    assert_eq!(machine.fires_at(1), None);
    machine.online(1);
    machine.check();
}

/// The module's promise: another thread may execute the interrupt of a CPU that does nothing.
fn an_interrupt_can_be_executed_for_another_cpu<C: Config>() {
    let machine = Machine::<C>::new(2);
    let ran_on = Rc::new(RefCell::new(Vec::new()));
    let timer = {
        let (machine, ran_on) = (machine.clone(), Rc::clone(&ran_on));
        TestTimer::new(&machine.clone(), move |expired| {
            ran_on.borrow_mut().push(machine.now());
            expired.forward_now(Span::from_nanos(1_000));
            Restart::Yes
        })
    };
    machine.on(1, || timer.start(at(1_000)));
    machine.set_masked(1, true);
    machine.spend(1_200);
    let turn = machine.on(0, || machine.timers().interrupt(CpuId(1)));
    assert_eq!((turn.fired, turn.next.as_nanos()), (1, 2_000));
    machine
        .timers()
        .flush_deferred(CpuId(1), Flush::MaskedReturn);
    assert_eq!(timer.cpu(), Some(1));
    assert_eq!(machine.fires_at(1), Some(2_000));
    machine.set_masked(1, false);
    machine.run_until(2_500);
    assert_eq!(*ran_on.borrow(), [1_200, 2_000]);
}

/// IRQ-7: the counters of the dump are real.
fn interrupts_and_passes_are_counted<C: Config>() {
    let (machine, _timers) = overloaded::<C>();
    interrupt(&machine, 0);
    let dump = machine.dump();
    for line in [
        ".nr_events      : 1",
        ".nr_retries     : 2",
        ".nr_hangs       : 1",
        ".max_hang_time  : 19500000 nsecs",
        ".hang           : 1",
    ] {
        assert!(dump.contains(line), "{line} in {dump}");
    }
}

all_configs!(
    an_interrupt_gives_up_after_three_passes,
    the_backoff_is_as_long_as_the_hang,
    stopping_in_deep_idle_ends_the_backoff,
    the_backoff_is_limited,
    nobody_writes_the_device_during_the_backoff,
    an_event_that_is_due_exactly_now_is_programmed,
    a_late_periodic_timer_catches_up_in_one_pass,
    a_budget_spreads_the_work_over_interrupts,
    an_interrupt_that_finds_nothing_is_counted,
    a_next_event_before_the_clock_began_is_counted_and_traced,
    an_event_that_is_over_when_the_device_is_written_is_counted_and_traced,
    a_cpu_in_its_handler_takes_no_timers_from_others,
    an_interrupt_inside_an_interrupt_returns_at_once,
    an_interrupt_without_a_cpu_does_nothing,
    an_interrupt_can_be_executed_for_another_cpu,
    interrupts_and_passes_are_counted,
);

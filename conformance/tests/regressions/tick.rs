//! Regressions of ticks, idle CPUs and their devices (spec C-8.2, C-8.4: R12, R19, R31 to R44, R60).
//!
//! Ticks are milliseconds of the rig. A timer that is armed for a tick on the finest level fires one tick later.

use tickless_conformance::suite::at;
use tickless_conformance::tables::PlainLock;
use tickless_conformance::{CoarseTimer, Host, Rig, TestTimer, all_configs};
use tickless_core::clock::ClockSet;
use tickless_core::coarse::WheelKind;
use tickless_core::hierarchy::HierarchyHost;
use tickless_core::platform::CpuId;
use tickless_core::tick::{
    Broadcast, BroadcastExit, Carrier, Duty, Entered, KeepReason, Role, StoppedTick,
    TickDependencies,
};
use tickless_core::time::{Instant, Span};
use tickless_core::trace::Event;

const MS: i64 = 1_000_000;

fn instant(nanos: i64) -> Instant {
    Instant::from_nanos(nanos)
}

/// Returns the count of ticks that any CPU reads.
fn counted<H: Host>(rig: &Rig<H>) -> u64 {
    rig.count().now().tick.0
}

fn wake(stopped: Result<StoppedTick, KeepReason>) -> Instant {
    stopped.expect("the tick stops").wake
}

/// R12: a due timer was found and its pass has not run yet, when its CPU, whose tick is stopped, evaluates its sleep
/// again.
fn r12_a_pending_pass_is_not_programmed_for_again_and_again<H: Host>() {
    let rig = Rig::<H>::ticking(2);
    let timer = CoarseTimer::once(&rig, WheelKind::Local);
    rig.on(0, || timer.arm(20)).unwrap();
    assert_eq!(wake(rig.idle(0)), instant(21 * MS));
    rig.spend(21 * MS);
    rig.take_interrupts(0);
    assert!(rig.is_expiry_pending(0));
    rig.set_conditions(
        0,
        TickDependencies {
            pass_pending: true,
            ..TickDependencies::default()
        },
    );
    let before = rig.stats(0).interrupts;
    for _ in 0..5 {
        let period = instant(22 * MS);
        assert_eq!(wake(rig.evaluate(0)), period, "not now");
        rig.take_interrupts(0);
    }
    assert_eq!(rig.stats(0).interrupts, before);
    rig.set_conditions(0, TickDependencies::default());
    rig.deliver(0);
    assert_eq!(timer.fired_at(), [21]);
    assert!(wake(rig.evaluate(0)) > instant(22 * MS));
}

/// R19: a governor chooses how deep a CPU sleeps. It learns two times: how long no timer concerns this CPU, and how
/// long no timer is due at all, those that other CPUs may run included.
fn r19_a_governor_learns_of_timers_that_others_run<H: Host>() {
    let rig = Rig::<H>::ticking(2);
    let (own, movable) = (
        CoarseTimer::once(&rig, WheelKind::Local),
        CoarseTimer::once(&rig, WheelKind::Global),
    );
    let exact = TestTimer::once(&rig);
    rig.run_until(10 * MS + 1_000);
    rig.on(1, || {
        own.arm(60).unwrap();
        movable.arm(30).unwrap();
    });
    let length = rig.sleep_length(1);
    // The tick cannot be stopped outside of idle.
    assert_eq!(length.own.as_nanos(), MS - 1_000);
    rig.idle(1).unwrap();
    let length = rig.sleep_length(1);
    assert_eq!(length.own.as_nanos(), 51 * MS - 1_000);
    assert_eq!(length.including_movable.as_nanos(), 21 * MS - 1_000);
    rig.on(1, || exact.start(at(15 * MS).pinned()));
    let length = rig.sleep_length(1);
    assert_eq!(length.own.as_nanos(), 5 * MS - 1_000);
    assert_eq!(length.own, length.including_movable);
    rig.spend(7 * MS);
    assert!(rig.sleep_length(1).own.as_nanos() < 0, "it is late");
}

/// Returns a machine whose CPU 1 runs tasks without a tick, at tick 10.
fn with_tickless_task<H: Host>() -> Rig<H> {
    let rig = Rig::<H>::with_roles(&[Role::Housekeeping, Role::TicklessTasks], false);
    rig.run_until(10 * MS);
    rig.work(1).expect("nothing depends on its tick");
    rig
}

/// R31: the task arms a timer that any CPU may run, and no other CPU knows of the timer.
fn r31_a_timer_armed_in_a_tickless_task_is_programmed_for<H: Host>() {
    let rig = with_tickless_task::<H>();
    rig.set_max_deferment(Span::from_secs(3_600));
    assert!(rig.is_stopped(1));
    for kind in [WheelKind::Global, WheelKind::Local] {
        let timer = CoarseTimer::once(&rig, kind);
        let now = counted(&rig);
        rig.in_task(1, || timer.arm(now + 20)).unwrap();
        rig.check();
        rig.run_until(i64::try_from(now + 40).unwrap() * MS);
        assert_eq!(timer.fired_at(), [now + 21], "{kind:?}");
        assert!(rig.is_stopped(1));
    }
}

/// R33: the CPU that counts ticks has its interrupts off for long. An interrupt on a CPU without a tick uses the
/// present count.
fn r33_an_interrupt_without_a_tick_sees_the_present_count<H: Host>() {
    let rig = with_tickless_task::<H>();
    rig.set_masked(0, true);
    rig.run_until(30 * MS);
    assert_eq!(counted(&rig), 10);
    // Any interrupt.
    rig.timers().request_retrigger(CpuId(1));
    rig.take_interrupts(1);
    assert_eq!(counted(&rig), 30);
    let timer = CoarseTimer::once(&rig, WheelKind::Local);
    rig.in_task(1, || timer.arm(35)).unwrap();
    rig.run_until(50 * MS);
    assert_eq!(timer.fired_at(), [36]);
}

/// R34: the virtual CPU that counts ticks is not scheduled for ten milliseconds.
fn r34_others_count_when_the_one_who_should_does_not<H: Host>() {
    let rig = Rig::<H>::ticking(3);
    rig.run_until(10 * MS);
    assert_eq!(rig.count().duty(), Duty::Taken { by: CpuId(0) });
    rig.set_masked(0, true);
    // They saw this count at the tenth tick, and four times since.
    rig.run_until(13 * MS);
    assert_eq!(counted(&rig), 10);
    rig.run_until(20 * MS);
    assert_eq!(counted(&rig), 20);
    rig.set_masked(0, false);
    assert_eq!(rig.count().duty(), Duty::Taken { by: CpuId(0) });
    rig.run_until(30 * MS);
    assert_eq!(counted(&rig), 30);
}

/// R35: no timer is pending, and the device makes no interrupt.
fn r35_a_cpu_with_nothing_to_come_is_not_interrupted<H: Host>() {
    let rig = Rig::<H>::ticking(2);
    rig.run_until(10 * MS);
    assert!(wake(rig.idle(1)).is_forever());
    assert_eq!(rig.fires_at(1), None);
    let stops = |event: &Event| matches!(event, Event::TickStop { wake, .. } if wake.is_forever());
    let trace = rig.take_trace();
    assert_eq!(trace.iter().filter(|event| stops(event)).count(), 1);
    let (ticks, interrupts) = (rig.ticks(1), rig.stats(1).interrupts);
    rig.run_until(1_000 * MS);
    assert_eq!(rig.ticks(1), ticks);
    assert_eq!(rig.stats(1).interrupts, interrupts);
    let _kept = rig.work(1);
    let due = instant(1_001 * MS);
    assert_eq!(rig.next_tick(1), Some(due));
    let start = Event::TickStart { cpu: CpuId(1), due };
    assert!(rig.take_trace().contains(&start));
    rig.run_until(1_010 * MS);
    assert_eq!(rig.ticks(1), ticks + 10);
}

/// R36: the timer of the stopped tick fired, and the event that it fired for is still pending according to the wheel.
fn r36_what_fired_is_programmed_again<H: Host>() {
    let rig = Rig::<H>::ticking(2);
    let timer = CoarseTimer::once(&rig, WheelKind::Local);
    rig.on(1, || timer.arm(20)).unwrap();
    assert_eq!(wake(rig.idle(1)), instant(21 * MS));
    rig.spend(21 * MS);
    rig.take_interrupts(1);
    // The pass has not run, so the same wheel is due at the same instant.
    assert_eq!(rig.next_tick(1), None, "it is used up");
    assert_eq!(rig.tick_timer(1), None);
    let again = rig.evaluate(1).unwrap();
    assert_eq!((again.wake, again.was_programmed), (instant(21 * MS), true));
    assert_eq!(rig.tick_timer(1), Some(instant(21 * MS)));
    rig.deliver(1);
    assert_eq!(timer.fired_at(), [21]);

    // The same when the tick ran in between.
    let timer = CoarseTimer::once(&rig, WheelKind::Local);
    rig.on(1, || timer.arm(50)).unwrap();
    let before = rig.evaluate(1).unwrap().wake;
    let _kept = rig.work(1);
    let after = rig.idle(1).unwrap();
    assert_eq!((after.wake, after.was_programmed), (before, true));
    assert!(!rig.evaluate(1).unwrap().was_programmed, "it stands right");
}

/// R37: a CPU went offline, and its tick stopped.
fn r37_no_tick_comes_after_its_cpu_left<H: Host>() {
    let rig = Rig::<H>::ticking(3);
    rig.run_until(10 * MS);
    assert_eq!(rig.count().duty(), Duty::Taken { by: CpuId(0) });
    let ticks = rig.ticks(0);
    rig.offline_to(0, 1).unwrap();
    assert_eq!((rig.tick_timer(0), rig.fires_at(0)), (None, None));
    rig.run_until(50 * MS);
    assert_eq!(rig.ticks(0), ticks);
    assert_eq!(counted(&rig), 50, "another one counts");
    rig.online(0);
    rig.run_until(60 * MS);
    assert_eq!(rig.ticks(0), ticks + 10);
}

/// R39: the broadcast device is replaced. A CPU that is awake is not marked as sleeping, and the next time that the CPU
/// hands over takes effect.
#[test]
fn r39_a_new_broadcast_device_marks_no_cpu_that_is_awake() {
    let broadcast = Broadcast::<PlainLock, 64>::new();
    for cpu in [0, 1, 4_095] {
        broadcast.online(CpuId(cpu), false);
    }
    let set = |carrier, now| broadcast.set_carrier(CpuId(0), carrier, instant(now));
    // In the mode in which the time is not known, a CPU that waits is woken in time.
    assert!(set(Carrier::Periodic(Span::from_millis(1)), 0).is_forever());
    let waits = broadcast.enter(CpuId(4_095), instant(9 * MS));
    assert_eq!(waits, Ok(Entered::Covered));
    assert_eq!(set(Carrier::Oneshot, 10), instant(MS + 10));
    assert_eq!(set(Carrier::Oneshot, 20), instant(MS + 10));
    assert!(broadcast.interrupt(CpuId(4_095)));
    assert!(!broadcast.interrupt(CpuId(1)));
    assert_eq!(
        broadcast.exit(CpuId(1), instant(30)),
        BroadcastExit::WasAwake
    );
    let early = broadcast.enter(CpuId(1), instant(500));
    assert_eq!(early, Ok(Entered::Program(instant(500))));
}

/// R40: idle was chosen, and two interrupts arrive before the CPU reaches the idle loop; meanwhile the CPU has work.
fn r40_the_tick_of_a_cpu_that_works_is_not_stopped<H: Host>() {
    let rig = Rig::<H>::ticking(2);
    rig.run_until(10 * MS);
    for _ in 0..2 {
        rig.timers().request_retrigger(CpuId(1));
        rig.take_interrupts(1);
        assert_eq!(rig.evaluate(1), Err(KeepReason::NotIdle));
    }
    let ticks = rig.ticks(1);
    rig.run_until(20 * MS);
    assert_eq!(rig.ticks(1), ticks + 10);
    rig.idle(1).unwrap();
    let _kept = rig.work(1);
    assert_eq!(rig.evaluate(1), Err(KeepReason::NotIdle));
    assert!(!rig.is_stopped(1));
}

/// R44, B14: a tick dependency is set while the CPU answers a kick, and the next kick takes it into account. When the
/// dependency is cleared, the tick stops again.
fn r44_a_dependency_lets_the_tick_of_a_task_run<H: Host>() {
    let rig = with_tickless_task::<H>();
    let depends = |dependency| {
        let conditions = TickDependencies {
            dependency,
            ..TickDependencies::default()
        };
        rig.set_conditions(1, conditions);
        rig.timers().request_retrigger(CpuId(1));
    };
    rig.timers().request_retrigger(CpuId(1));
    rig.take_interrupts(1);
    depends(true);
    rig.run_until(10 * MS + 1);
    assert!(!rig.is_stopped(1));
    assert_eq!(rig.next_tick(1), Some(instant(11 * MS)));
    rig.run_until(20 * MS);
    assert!(!rig.is_stopped(1));
    depends(false);
    rig.run_until(20 * MS + 1);
    assert!(rig.is_stopped(1));
}

/// R60: the last CPU that becomes idle is handed a time that is too near to sleep. The CPU stays awake, and expires the
/// timers of the others.
fn r60_a_cpu_that_is_handed_a_near_time_stays_active<H: Host>() {
    let rig = Rig::<H>::ticking(2);
    let timer = CoarseTimer::once(&rig, WheelKind::Global);
    rig.on(1, || timer.arm(20)).unwrap();
    rig.run_until(19 * MS);
    rig.enter_idle(0);
    let forecast = rig.forecast(0);
    assert_eq!(forecast.keeps, None, "the other one is awake");
    rig.idle(1).unwrap();
    rig.spend(MS);
    rig.count().update(instant(20 * MS));
    assert_eq!(rig.evaluate_by(0, forecast), Err(KeepReason::HandedOver));
    let node = rig.tree().host().node(CpuId(0)).unwrap();
    assert!(!node.is_idle() && !rig.is_stopped(0));
    rig.run_until(30 * MS);
    assert_eq!(timer.fired_at(), [21]);
}

/// Spec C-3.3: a timer is deleted while a governor chooses the depth of sleep, and the choice was based on that timer.
fn what_was_forecast_stays_the_latest_time_to_wake<H: Host>() {
    let rig = Rig::<H>::ticking(2);
    let timer = CoarseTimer::once(&rig, WheelKind::Local);
    rig.on(1, || timer.arm(20)).unwrap();
    rig.enter_idle(1);
    let forecast = rig.forecast(1);
    assert_eq!(forecast.own, instant(21 * MS));
    assert!(timer.delete());
    assert_eq!(wake(rig.evaluate_by(1, forecast)), instant(21 * MS));
    rig.run_until(21 * MS);
    assert!(rig.next_tick(1).is_some_and(Instant::is_forever));
}

/// Spec C-7.4: the last CPU that counted ticks wakes up before the clock's counter wraps. If that CPU goes offline, its
/// heir wakes up in its place.
fn the_last_cpu_that_counted_wakes_up_for_the_clock<H: Host>() {
    let rig = Rig::<H>::ticking(2);
    rig.set_max_deferment(Span::from_millis(100));
    rig.run_until(10 * MS);
    assert!(wake(rig.idle(1)).is_forever());
    assert_eq!(wake(rig.idle(0)), instant(110 * MS));
    assert_eq!(
        rig.count().duty(),
        Duty::Free {
            last: Some(CpuId(0))
        }
    );
    rig.run_until(1_000 * MS);
    assert_eq!(counted(&rig), 910, "when it was awake last");
    rig.run_until(1_001 * MS);
    let _kept = rig.work(1);
    rig.run_until(1_010 * MS);
    assert_eq!(rig.count().duty(), Duty::Taken { by: CpuId(1) });
    rig.run_until(1_150 * MS);
    assert!(rig.next_tick(0).is_some_and(Instant::is_forever));
    rig.offline_to(1, 0).unwrap();
    rig.run_until(1_151 * MS);
    let wakes = rig.next_tick(0).expect("it was told");
    assert!(
        wakes <= instant(1_251 * MS),
        "the heir wakes up for the clock"
    );
}

/// XI2, Spec C-7.3: the CPU that counts ticks for tasks without a tick keeps its own tick.
fn the_timekeeper_of_tickless_tasks_goes_on<H: Host>() {
    let rig = with_tickless_task::<H>();
    assert_eq!(rig.idle(0), Err(KeepReason::Timekeeper));
    assert_eq!(rig.offline_to(0, 1), Err(KeepReason::Timekeeper));
    rig.enter_idle(0);
    let ticks = rig.ticks(0);
    rig.run_until(100 * MS);
    assert_eq!((rig.ticks(0), counted(&rig)), (ticks + 90, 100));
}

/// Spec C-7.2, C-7.5: the ticks of many CPUs are spread over the period, and stay spread after sleeps and after the
/// clock is set.
fn the_phases_of_ticks_are_kept<H: Host>() {
    let rig = Rig::<H>::with_roles(&[Role::Housekeeping; 4], true);
    let phase = |cpu| rig.next_tick(cpu).map(|next| next.as_nanos() % MS);
    let phases = [0, 1, 2, 3].map(phase);
    assert_eq!(phases, [0, 125_000, 250_000, 375_000].map(Some));
    rig.run_until(10 * MS);
    for cpu in 1..4 {
        rig.idle(cpu).unwrap();
        rig.run_until(rig.now() + 3 * MS + 77_777);
        let _kept = rig.work(cpu);
    }
    rig.publish_wall(1_700_000_000 * 1_000 * MS);
    rig.on(0, || rig.timers().clock_was_set(ClockSet::WALL));
    rig.run_until(50 * MS);
    assert_eq!([0, 1, 2, 3].map(phase), phases);
}

all_configs!(
    r12_a_pending_pass_is_not_programmed_for_again_and_again,
    r19_a_governor_learns_of_timers_that_others_run,
    r31_a_timer_armed_in_a_tickless_task_is_programmed_for,
    r33_an_interrupt_without_a_tick_sees_the_present_count,
    r34_others_count_when_the_one_who_should_does_not,
    r35_a_cpu_with_nothing_to_come_is_not_interrupted,
    r36_what_fired_is_programmed_again,
    r37_no_tick_comes_after_its_cpu_left,
    r40_the_tick_of_a_cpu_that_works_is_not_stopped,
    r44_a_dependency_lets_the_tick_of_a_task_run,
    r60_a_cpu_that_is_handed_a_near_time_stays_active,
    what_was_forecast_stays_the_latest_time_to_wake,
    the_last_cpu_that_counted_wakes_up_for_the_clock,
    the_timekeeper_of_tickless_tasks_goes_on,
    the_phases_of_ticks_are_kept,
);

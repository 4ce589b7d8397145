//! Devices that were programmed wrongly, too often, or not at all (spec 8.1, 8.2).

use tickless_core::hrtimer::Restart;
use tickless_core::platform::CpuId;
use tickless_core::time::Span;
use tickless_rig::suite::at;
use tickless_rig::{
    Config, DeviceClass, Interrupted, Machine, Schedule, Source, TestTimer, all_configs,
};

const MS: i64 = 1_000_000;

/// B2: the reverse conversion belongs to the counter that is installed now, whatever was there before and however often
/// it changes.
fn b2_the_conversion_is_that_of_the_counter_installed_now<C: Config>() {
    for class in DeviceClass::ALL {
        let machine = Machine::<C>::with_devices(1, class);
        let timer = TestTimer::once(&machine);
        let mut deadlines = Vec::new();
        for (step, source) in [Source::Spare, Source::Main, Source::Spare, Source::Main]
            .into_iter()
            .enumerate()
        {
            machine.switch_counter(source);
            let deadline = machine.now() + 1_000 * MS + i64::try_from(step).expect("small");
            machine.on(0, || timer.start(at(deadline)));
            machine.run_until(deadline + MS);
            deadlines.push(deadline);
        }
        let late: Vec<i64> = timer
            .fired_at()
            .iter()
            .zip(&deadlines)
            .map(|(fired, deadline)| fired - deadline)
            .collect();
        assert_eq!(late.len(), 4);
        assert!(
            late.iter().all(|late| (0..1_000).contains(late)),
            "{class:?}: {late:?}"
        );
    }
}

/// A machine whose interrupt just gave up, and the timer that made it.
fn hanging<C: Config>() -> (Machine<C>, TestTimer<C>) {
    let machine = Machine::<C>::new(1);
    let slow = {
        let machine = machine.clone();
        TestTimer::new(&machine.clone(), move |expired| {
            expired.forward_now(Span::from_nanos(MS.unsigned_abs()));
            machine.spend(3 * MS);
            Restart::Yes
        })
    };
    machine.on(0, || slow.start(at(MS)));
    machine.spend(MS);
    machine.interrupt(0, Interrupted::Kernel, &Schedule::SWITCH);
    assert!(machine.timers().is_backing_off(CpuId(0)));
    (machine, slow)
}

/// B21: on a machine where each pass takes longer than the next event is away an interrupt ends all the same, and
/// leaves the CPU some time.
fn b21_an_interrupt_that_never_catches_up_ends<C: Config>() {
    let (machine, slow) = hanging::<C>();
    assert_eq!(slow.fired_at().len(), 3, "three passes and no more");
    let pause = machine.fires_at(0).expect("armed") - machine.now();
    assert_eq!(pause, 9 * MS, "as long as the hang");
}

/// B22: the breathing space is for one interrupt. A delay that is short by the standards of the hang is met exactly
/// afterwards.
fn b22_a_hang_does_not_make_later_delays_longer<C: Config>() {
    let (machine, slow) = hanging::<C>();
    machine.on(0, || assert!(slow.cancel()));
    machine.run_until(machine.now() + 200 * MS);
    assert!(!machine.timers().is_backing_off(CpuId(0)));
    let timer = TestTimer::once(&machine);
    for _ in 0..10 {
        let deadline = machine.now() + 2_000;
        machine.on(0, || timer.start(at(deadline)));
        assert_eq!(machine.fires_at(0), Some(deadline));
        machine.run_until(deadline + MS);
    }
    assert_eq!(timer.fired_at().len(), 10);
}

/// B23: the near timer is removed during the backoff and only a far one is left. Those that start after that wait for
/// the end of the backoff, not for the far event.
fn b23_a_removal_during_a_backoff_does_not_hide_later_starts<C: Config>() {
    let (machine, slow) = hanging::<C>();
    let far = TestTimer::once(&machine);
    let backoff = machine.fires_at(0).expect("armed");
    machine.on(0, || far.start(at(machine.now() + 60_000 * MS)));
    machine.on(0, || assert!(slow.cancel()));
    assert_eq!(machine.fires_at(0), Some(backoff), "nobody pushed it out");
    let late = TestTimer::once(&machine);
    machine.on(0, || late.start(at(machine.now() + MS)));
    machine.run_until(backoff + MS);
    assert_eq!(late.fired_at(), [backoff]);
    assert_eq!(machine.fires_at(0), far.deadline(), "all is exact again");
}

/// B28: a device that lost an event for good is not the end of its CPU: the next start that is earlier is programmed,
/// and its interrupt finds what was lost.
fn b28_a_lost_event_is_found_by_the_next_interrupt<C: Config>() {
    let machine = Machine::<C>::new(1);
    let (lost, next) = (TestTimer::once(&machine), TestTimer::once(&machine));
    machine.break_device(0);
    machine.on(0, || lost.start(at(20_000)));
    assert_eq!(machine.fires_at(0), None, "it was lost");
    machine.on(0, || next.start(at(19_000)));
    machine.run_until(30_000);
    assert_eq!(
        (next.fired_at(), lost.fired_at()),
        (vec![19_000], vec![20_000])
    );
}

all_configs!(
    b2_the_conversion_is_that_of_the_counter_installed_now,
    b21_an_interrupt_that_never_catches_up_ends,
    b22_a_hang_does_not_make_later_delays_longer,
    b23_a_removal_during_a_backoff_does_not_hide_later_starts,
    b28_a_lost_event_is_found_by_the_next_interrupt,
);

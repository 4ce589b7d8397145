//! Starts that refuse a time in the past (spec 2.11).

use std::rc::Rc;

use tickless_core::hrtimer::{AlreadyExpired, Restart, Setup, Stage};
use tickless_core::time::{Realtime, Span};
use tickless_core::trace::Event;
use tickless_rig::suite::{at, at_on, rearms};
use tickless_rig::{Config, DeviceClass, Machine, TestTimer, all_configs};

const WALL: i64 = 1_700_000_000_000_000_000;

/// USR-1, 14.10: a time in the past is refused: nothing is queued, nothing is written, nothing fires.
fn a_time_in_the_past_is_refused<C: Config>() {
    for class in DeviceClass::ALL {
        let machine = Machine::<C>::with_devices(1, class);
        machine.spend(10_000);
        let timer = TestTimer::once(&machine);
        machine.take_trace();
        for when in [-1, 0, 9_999, 10_000] {
            assert_eq!(
                machine.on(0, || timer.start_checked(at(when))),
                Err(AlreadyExpired)
            );
            assert!(!timer.is_active());
        }
        let trace = machine.take_trace();
        assert_eq!(rearms(&trace), []);
        assert!(matches!(
            trace[..2],
            [Event::Start { .. }, Event::StartExpired { .. }]
        ));
        machine.check();
        machine.run_until(20_000);
        assert!(timer.fired_at().is_empty());
        assert_eq!(machine.stats(0).interrupts, 0);
    }
}

/// USR-1: a time to come is accepted.
fn a_time_to_come_is_accepted<C: Config>() {
    let machine = Machine::<C>::new(1);
    machine.spend(10_000);
    let timer = TestTimer::once(&machine);
    assert_eq!(machine.on(0, || timer.start_checked(at(10_001))), Ok(()));
    machine.run_until(20_000);
    assert_eq!(timer.fired_at().len(), 1);
}

/// USR-1: what counts is the time that the user gave, without the slack.
fn slack_does_not_save_a_time_in_the_past<C: Config>() {
    let machine = Machine::<C>::new(1);
    machine.spend(10_000);
    let timer = TestTimer::once(&machine);
    let start = at(9_000).slack(Span::from_nanos(50_000));
    assert_eq!(
        machine.on(0, || timer.start_checked(start)),
        Err(AlreadyExpired)
    );
    assert!(machine.armed(0).is_forever());
}

/// USR-1: when an earlier event is armed that is due already, its interrupt will find the timer: no reason to refuse.
fn an_earlier_event_that_is_due_makes_it_acceptable<C: Config>() {
    let machine = Machine::<C>::new(1);
    let (first, second) = (TestTimer::once(&machine), TestTimer::once(&machine));
    machine.on(0, || first.start(at(1_000)));
    machine.set_masked(0, true);
    machine.spend(5_000);
    let writes = machine.device_writes(0);
    assert_eq!(machine.on(0, || second.start_checked(at(2_000))), Ok(()));
    assert_eq!(machine.device_writes(0), writes);
    machine.set_masked(0, false);
    assert_eq!(second.fired_at(), [5_000]);
}

/// USR-2: a timer that was the first event and is refused leaves the others armed exactly.
fn a_first_event_that_is_refused_is_replaced<C: Config>() {
    let machine = Machine::<C>::new(1);
    machine.spend(10_000);
    let (first, second) = (TestTimer::once(&machine), TestTimer::once(&machine));
    machine.on(0, || {
        first.start(at(20_000));
        second.start(at(30_000));
    });
    assert_eq!(
        machine.on(0, || first.start_checked(at(5_000))),
        Err(AlreadyExpired)
    );
    assert!(!first.is_queued());
    assert_eq!(machine.fires_at(0), Some(30_000));
    machine.check();
    machine.run_until(40_000);
    assert!(first.fired_at().is_empty());
    assert_eq!(second.fired_at(), [30_000]);
    assert_eq!(machine.stats(0).spurious, 0);
}

/// USR-1: inside a callback, and while a rearm is owed, the end of the interrupt sees to it, so nothing is refused.
fn nothing_is_refused_while_a_rearm_is_owed<C: Config>() {
    let machine = Machine::<C>::new(1);
    let inner = Rc::new(TestTimer::once(&machine));
    let outer = {
        let (machine, inner) = (machine.clone(), Rc::clone(&inner));
        TestTimer::new(&machine.clone(), move |_| {
            assert_eq!(inner.start_checked(at(machine.now() - 10)), Ok(()));
            Restart::No
        })
    };
    machine.on(0, || outer.start(at(1_000)));
    machine.run_until(2_000);
    assert_eq!(inner.fired_at().len(), 1);
}

/// USR-1 on a clock with an offset, and in the soft stage.
fn every_clock_and_stage_is_checked<C: Config>() {
    let machine = Machine::<C>::new(1);
    machine.set_wall(0, WALL);
    machine.spend(10_000);
    for setup in [Setup::new(), Setup::new().stage(Stage::Soft)] {
        let timer = TestTimer::<C, Realtime>::with_setup(&machine, setup, |_| Restart::No);
        let past = machine.on(0, || timer.start_checked(at_on(WALL + 9_000)));
        assert_eq!(past, Err(AlreadyExpired));
        let future = machine.on(0, || timer.start_checked(at_on(WALL + 12_000)));
        assert_eq!(future, Ok(()));
        machine.check();
        machine.on(0, || assert!(timer.cancel()));
        machine.check();
    }
}

/// USR-4, 14.10: an untrusted user who keeps asking for the past costs nobody an interrupt or a write.
fn asking_for_the_past_for_ever_costs_nobody_anything<C: Config>() {
    for class in DeviceClass::ALL {
        let machine = Machine::<C>::with_devices(1, class);
        machine.spend(10_000);
        let (timer, other) = (TestTimer::once(&machine), TestTimer::once(&machine));
        machine.on(0, || other.start(at(50_000)));
        let writes = machine.device_writes(0);
        for when in 0..1_000 {
            assert!(machine.on(0, || timer.start_checked(at(when))).is_err());
        }
        assert_eq!(machine.device_writes(0), writes);
        machine.run_until(60_000);
        assert_eq!(other.fired_at(), [50_000]);
        assert_eq!(machine.stats(0).interrupts, 1);
    }
}

/// 2.11: an error that says what happened.
#[test]
fn the_refusal_explains_itself() {
    assert_eq!(
        AlreadyExpired.to_string(),
        "the time of the timer is over already"
    );
}

all_configs!(
    a_time_in_the_past_is_refused,
    a_time_to_come_is_accepted,
    slack_does_not_save_a_time_in_the_past,
    an_earlier_event_that_is_due_makes_it_acceptable,
    a_first_event_that_is_refused_is_replaced,
    nothing_is_refused_while_a_rearm_is_owed,
    every_clock_and_stage_is_checked,
    asking_for_the_past_for_ever_costs_nobody_anything,
);

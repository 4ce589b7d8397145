//! Starts that refuse a time in the past (spec ).

use alloc::rc::Rc;

use tickless_core::hrtimer::{Restart, Setup, Stage, StartError, StartOutcome};
use tickless_core::time::{Realtime, Span};
use tickless_core::trace::Event;

use crate::suite::{at, at_on, rearms};
use crate::{DeviceClass, Host, Rig, TestTimer};

const WALL: i64 = 1_700_000_000_000_000_000;

/// USR-1, X-14.10: a start for a time in the past is refused: no timer is queued, no device is written, no timer fires.
pub fn a_time_in_the_past_is_refused<H: Host>() {
    for class in DeviceClass::ALL {
        let rig = Rig::<H>::with_devices(1, class);
        rig.spend(10_000);
        let timer = TestTimer::once(&rig);
        rig.take_trace();
        for when in [-1, 0, 9_999, 10_000] {
            assert_eq!(
                rig.on(0, || timer.start_checked(at(when))),
                Err(StartError::AlreadyExpired)
            );
            assert!(!timer.is_active());
        }
        let trace = rig.take_trace();
        assert_eq!(rearms(&trace), []);
        assert!(matches!(
            trace[..2],
            [Event::Start { .. }, Event::StartExpired { .. }]
        ));
        rig.check();
        rig.run_until(20_000);
        assert!(timer.fired_at().is_empty());
        assert_eq!(rig.stats(0).interrupts, 0);
    }
}

/// USR-1: a start for a time in the future is accepted, and says whether the timer was queued before.
pub fn a_time_to_come_is_accepted<H: Host>() {
    let rig = Rig::<H>::new(1);
    rig.spend(10_000);
    let timer = TestTimer::once(&rig);
    let start = |when| rig.on(0, || timer.start_checked(at(when)));
    assert_eq!(start(50_000), Ok(StartOutcome::Started));
    assert_eq!(start(10_001), Ok(StartOutcome::Restarted));
    rig.run_until(60_000);
    assert_eq!(timer.fired_at().len(), 1);
}

/// A start of a timer that was shut down returns an error of its own, whatever the time is; every other kind of start
/// returns this error too.
pub fn a_timer_that_was_shut_down_is_refused<H: Host>() {
    let rig = Rig::<H>::new(1);
    rig.spend(10_000);
    let timer = TestTimer::once(&rig);
    rig.on(0, || {
        timer.start(at(50_000));
        assert!(timer.shutdown());
        for when in [0, 50_000, 50_000_000] {
            let refused = timer.start_checked(at(when));
            assert_eq!(refused, Err(StartError::ShutDown));
            assert_eq!(timer.try_start(at(when)), StartOutcome::ShutDown);
            assert_eq!(timer.start_if_earlier(at(when)), StartOutcome::ShutDown);
            assert!(!timer.is_active());
        }
    });
    rig.check();
    rig.run_until(100_000_000);
    assert!(timer.fired_at().is_empty());
}

/// Each start reports what it did, for near and far timers.
pub fn every_start_says_what_it_did<H: Host>() {
    let rig = Rig::<H>::new(1);
    for when in [50_000, 50_000_000] {
        let timer = TestTimer::once(&rig);
        rig.on(0, || {
            assert_eq!(timer.start_if_earlier(at(when)), StartOutcome::Started);
            assert_eq!(timer.start_if_earlier(at(when)), StartOutcome::Unchanged);
            let later = at(when + 1);
            assert_eq!(timer.start_if_earlier(later), StartOutcome::Unchanged);
            assert_eq!(timer.deadline(), Some(when));
            let earlier = at(when - 1);
            assert_eq!(timer.start_if_earlier(earlier), StartOutcome::Restarted);
            assert_eq!(timer.try_start(later), StartOutcome::Restarted);
            assert!(timer.cancel());
            assert_eq!(timer.try_start(later), StartOutcome::Started);
        });
        rig.run_until(when + 1);
        assert_eq!(timer.fired_at(), [when + 1]);
    }
}

/// USR-1: the time that the user gave decides, without the slack.
pub fn slack_does_not_save_a_time_in_the_past<H: Host>() {
    let rig = Rig::<H>::new(1);
    rig.spend(10_000);
    let timer = TestTimer::once(&rig);
    let start = at(9_000).slack(Span::from_nanos(50_000));
    assert_eq!(
        rig.on(0, || timer.start_checked(start)),
        Err(StartError::AlreadyExpired)
    );
    assert!(rig.armed(0).is_forever());
}

/// USR-1: if an earlier event is armed and already due, its interrupt will find the timer, so the start is not refused.
pub fn an_earlier_event_that_is_due_makes_it_acceptable<H: Host>() {
    let rig = Rig::<H>::new(1);
    let (first, second) = (TestTimer::once(&rig), TestTimer::once(&rig));
    rig.on(0, || first.start(at(1_000)));
    rig.set_masked(0, true);
    rig.spend(5_000);
    let writes = rig.device_writes(0);
    assert_eq!(
        rig.on(0, || second.start_checked(at(2_000))),
        Ok(StartOutcome::Started)
    );
    assert_eq!(rig.device_writes(0), writes);
    rig.set_masked(0, false);
    assert_eq!(second.fired_at(), [5_000]);
}

/// USR-2: when the first timer of a CPU is started again and refused, the device is armed exactly for the other timers.
pub fn a_first_event_that_is_refused_is_replaced<H: Host>() {
    let rig = Rig::<H>::new(1);
    rig.spend(10_000);
    let (first, second) = (TestTimer::once(&rig), TestTimer::once(&rig));
    rig.on(0, || {
        first.start(at(20_000));
        second.start(at(30_000));
    });
    assert_eq!(
        rig.on(0, || first.start_checked(at(5_000))),
        Err(StartError::AlreadyExpired)
    );
    assert!(!first.is_queued());
    assert_eq!(rig.fires_at(0), Some(30_000));
    rig.check();
    rig.run_until(40_000);
    assert!(first.fired_at().is_empty());
    assert_eq!(second.fired_at(), [30_000]);
    assert_eq!(rig.stats(0).spurious, 0);
}

/// USR-1: inside a callback, and while a rearm is owed, the end of the interrupt finds the timer, so no start is
/// refused.
pub fn nothing_is_refused_while_a_rearm_is_owed<H: Host>() {
    let rig = Rig::<H>::new(1);
    let inner = Rc::new(TestTimer::once(&rig));
    let outer = {
        let (rig, inner) = (rig.clone(), Rc::clone(&inner));
        TestTimer::new(&rig.clone(), move |_| {
            assert_eq!(
                inner.start_checked(at(rig.now() - 10)),
                Ok(StartOutcome::Started)
            );
            Restart::No
        })
    };
    rig.on(0, || outer.start(at(1_000)));
    rig.run_until(2_000);
    assert_eq!(inner.fired_at().len(), 1);
}

/// USR-1 holds on a clock with an offset, and in the soft stage.
pub fn every_clock_and_stage_is_checked<H: Host>() {
    let rig = Rig::<H>::new(1);
    rig.set_wall(0, WALL);
    rig.spend(10_000);
    for setup in [Setup::new(), Setup::new().stage(Stage::Soft)] {
        let timer = TestTimer::<H, Realtime>::with_setup(&rig, setup, |_| Restart::No);
        let past = rig.on(0, || timer.start_checked(at_on(WALL + 9_000)));
        assert_eq!(past, Err(StartError::AlreadyExpired));
        let future = rig.on(0, || timer.start_checked(at_on(WALL + 12_000)));
        assert_eq!(future, Ok(StartOutcome::Started));
        rig.check();
        rig.on(0, || assert!(timer.cancel()));
        rig.check();
    }
}

/// USR-4, X-14.10: an untrusted user that starts a timer for the past again and again causes no interrupt and no device
/// write.
pub fn asking_for_the_past_for_ever_costs_no_cpu_anything<H: Host>() {
    for class in DeviceClass::ALL {
        let rig = Rig::<H>::with_devices(1, class);
        rig.spend(10_000);
        let (timer, other) = (TestTimer::once(&rig), TestTimer::once(&rig));
        rig.on(0, || other.start(at(50_000)));
        let writes = rig.device_writes(0);
        for when in 0..1_000 {
            assert!(rig.on(0, || timer.start_checked(at(when))).is_err());
        }
        assert_eq!(rig.device_writes(0), writes);
        rig.run_until(60_000);
        assert_eq!(other.fired_at(), [50_000]);
        assert_eq!(rig.stats(0).interrupts, 1);
    }
}

crate::kit::cases!(checked_start:
    a_time_in_the_past_is_refused [DEVICES, TRACE],
    a_time_to_come_is_accepted,
    a_timer_that_was_shut_down_is_refused,
    every_start_says_what_it_did,
    slack_does_not_save_a_time_in_the_past,
    an_earlier_event_that_is_due_makes_it_acceptable,
    a_first_event_that_is_refused_is_replaced,
    nothing_is_refused_while_a_rearm_is_owed,
    every_clock_and_stage_is_checked [SOFT, CLOCKS],
    asking_for_the_past_for_ever_costs_no_cpu_anything [DEVICES],
);

//! Devices that were programmed wrongly, too often, or not at all (spec ).

use tickless_conformance::suite::at;
use tickless_conformance::{
    DeviceClass, Host, Interrupted, Rig, Schedule, Source, TestTimer, all_configs,
};
use tickless_core::hrtimer::Restart;
use tickless_core::platform::CpuId;
use tickless_core::time::Span;

const MS: i64 = 1_000_000;

/// B2: the reverse conversion is that of the counter that is installed now, whichever counter was installed before and
/// however often it is changed.
fn b2_the_conversion_is_that_of_the_counter_installed_now<H: Host>() {
    for class in DeviceClass::ALL {
        let rig = Rig::<H>::with_devices(1, class);
        let timer = TestTimer::once(&rig);
        let mut deadlines = Vec::new();
        for (step, source) in [Source::Spare, Source::Main, Source::Spare, Source::Main]
            .into_iter()
            .enumerate()
        {
            rig.switch_counter(source);
            let deadline = rig.now() + 1_000 * MS + i64::try_from(step).expect("small");
            rig.on(0, || timer.start(at(deadline)));
            rig.run_until(deadline + MS);
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

/// B22: the backoff is for one interrupt only. A later delay is met exactly, even if it is shorter than the backoff
/// was.
fn b22_a_hang_does_not_make_later_delays_longer<H: Host>() {
    let rig = Rig::<H>::new(1);
    let slow = {
        let rig = rig.clone();
        TestTimer::new(&rig.clone(), move |expired| {
            expired.forward_now(Span::from_nanos(MS.unsigned_abs()));
            rig.spend(3 * MS);
            Restart::Yes
        })
    };
    rig.on(0, || slow.start(at(MS)));
    rig.spend(MS);
    rig.interrupt(0, Interrupted::Kernel, &Schedule::SWITCH);
    assert!(rig.timers().is_backing_off(CpuId(0)));
    rig.on(0, || assert!(slow.cancel()));
    rig.run_until(rig.now() + 200 * MS);
    assert!(!rig.timers().is_backing_off(CpuId(0)));
    let timer = TestTimer::once(&rig);
    for _ in 0..10 {
        let deadline = rig.now() + 2_000;
        rig.on(0, || timer.start(at(deadline)));
        assert_eq!(rig.fires_at(0), Some(deadline));
        rig.run_until(deadline + MS);
    }
    assert_eq!(timer.fired_at().len(), 10);
}

/// B28: a CPU goes on although its device lost an event for good. The next start with an earlier expiry programs the
/// device, and the device's interrupt finds the lost timer.
fn b28_a_lost_event_is_found_by_the_next_interrupt<H: Host>() {
    let rig = Rig::<H>::new(1);
    let (lost, next) = (TestTimer::once(&rig), TestTimer::once(&rig));
    rig.break_device(0);
    rig.on(0, || lost.start(at(20_000)));
    assert_eq!(rig.fires_at(0), None, "it was lost");
    rig.on(0, || next.start(at(19_000)));
    rig.run_until(30_000);
    assert_eq!(
        (next.fired_at(), lost.fired_at()),
        (vec![19_000], vec![20_000])
    );
}

all_configs!(
    b2_the_conversion_is_that_of_the_counter_installed_now,
    b22_a_hang_does_not_make_later_delays_longer,
    b28_a_lost_event_is_found_by_the_next_interrupt,
);

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

/// Returns a machine whose interrupt just gave up, and the timer that caused this.
fn hanging<H: Host>() -> (Rig<H>, TestTimer<H>) {
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
    (rig, slow)
}

/// B21: an interrupt ends even on a machine where each pass takes longer than the time to the next event, and it leaves
/// the CPU some time.
fn b21_an_interrupt_that_never_catches_up_ends<H: Host>() {
    let (rig, slow) = hanging::<H>();
    assert_eq!(slow.fired_at().len(), 3, "three passes and no more");
    let pause = rig.fires_at(0).expect("armed") - rig.now();
    assert_eq!(pause, 9 * MS, "as long as the hang");
}

/// B22: the backoff is for one interrupt only. A later delay is met exactly, even if it is shorter than the backoff
/// was.
fn b22_a_hang_does_not_make_later_delays_longer<H: Host>() {
    let (rig, slow) = hanging::<H>();
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

/// B23: the near timer is removed during the backoff, and only a far one is left. Timers that are started afterwards
/// fire at the end of the backoff, and do not wait for the far timer.
fn b23_a_removal_during_a_backoff_does_not_hide_later_starts<H: Host>() {
    let (rig, slow) = hanging::<H>();
    let far = TestTimer::once(&rig);
    let backoff = rig.fires_at(0).expect("armed");
    rig.on(0, || far.start(at(rig.now() + 60_000 * MS)));
    rig.on(0, || assert!(slow.cancel()));
    assert_eq!(rig.fires_at(0), Some(backoff), "no start pushed it out");
    let late = TestTimer::once(&rig);
    rig.on(0, || late.start(at(rig.now() + MS)));
    rig.run_until(backoff + MS);
    assert_eq!(late.fired_at(), [backoff]);
    assert_eq!(rig.fires_at(0), far.deadline(), "all is exact again");
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
    b21_an_interrupt_that_never_catches_up_ends,
    b22_a_hang_does_not_make_later_delays_longer,
    b23_a_removal_during_a_backoff_does_not_hide_later_starts,
    b28_a_lost_event_is_found_by_the_next_interrupt,
);

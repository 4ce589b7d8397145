//! Cases about slack: timers that may fire a little later (spec ).

use alloc::rc::Rc;
use core::cell::RefCell;

use tickless_core::event::Flush;
use tickless_core::hrtimer::{Restart, Setup};
use tickless_core::platform::CpuId;
use tickless_core::time::{Instant, Realtime, Span};
use tickless_core::trace::Event;

use crate::prelude::*;
use crate::random::Random;
use crate::suite::{at, at_on};
use crate::{DeviceClass, Host, Rig, TestTimer};

/// OBJ-8, OBJ-9: the device is armed for the hard expiry, and a timer without others near it uses all of its slack.
pub fn a_lone_timer_uses_its_slack<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::once(&rig);
    rig.on(0, || timer.start(at(1_000).slack(Span::from_nanos(500))));
    assert_eq!(rig.armed(0), Instant::from_nanos(1_500));
    assert_eq!(timer.deadline(), Some(1_500));
    rig.run_until(5_000);
    assert_eq!(timer.fired_at(), [1_500]);
}

/// OBJ-9, OBJ-10: an interrupt for another timer also fires the timers that may fire already.
pub fn an_interrupt_takes_along_what_may_fire<H: Host>() {
    let rig = Rig::<H>::new(1);
    let (patient, exact) = (TestTimer::once(&rig), TestTimer::once(&rig));
    rig.on(0, || {
        patient.start(at(1_000).slack(Span::from_nanos(8_000)));
        exact.start(at(2_000));
    });
    rig.run_until(20_000);
    assert_eq!(exact.fired_at(), [2_000]);
    assert_eq!(patient.fired_at(), [2_000]);
    assert_eq!(rig.stats(0).interrupts, 1);
}

/// A4, OBJ-10: no interrupt makes a timer fire before its soft expiry.
pub fn nothing_fires_before_its_soft_expiry<H: Host>() {
    let rig = Rig::<H>::new(1);
    let (patient, exact) = (TestTimer::once(&rig), TestTimer::once(&rig));
    rig.on(0, || {
        patient.start(at(2_001).slack(Span::from_nanos(8_000)));
        exact.start(at(2_000));
    });
    rig.run_until(20_000);
    assert_eq!(patient.fired_at(), [10_001]);
}

/// OBJ-9: draining stops at the first timer that may not fire yet; the timers after it cost no interrupt of their own.
pub fn the_front_timer_decides_when_draining_stops<H: Host>() {
    let rig = Rig::<H>::new(1);
    let (front, behind) = (TestTimer::once(&rig), TestTimer::once(&rig));
    let real = TestTimer::<H, Realtime>::once_on(&rig);
    rig.on(0, || {
        front.start(at(3_000).slack(Span::from_nanos(1_000)));
        behind.start(at(1_000).slack(Span::from_nanos(4_000)));
        real.start(at_on(2_000));
    });
    rig.run_until(20_000);
    assert_eq!(real.fired_at(), [2_000]);
    assert_eq!(front.fired_at(), [4_000]);
    assert_eq!(
        behind.fired_at(),
        [4_000],
        "with the front timer, not at 5000"
    );
}

/// Q-10, B17: the hard expiry, which is the key of the queue, decides whether a restarted timer keeps its place.
pub fn a_restart_with_slack_goes_where_its_hard_expiry_belongs<H: Host>() {
    let rig = Rig::<H>::new(1);
    let [before, moved, after] = [(); 3].map(|()| TestTimer::once(&rig));
    rig.on(0, || {
        before.start(at(90_000));
        moved.start(at(100_000));
        after.start(at(120_000));
        moved.start(at(100_000).slack(Span::from_nanos(50_000)));
    });
    rig.check();
    rig.run_until(119_000);
    assert_eq!(rig.armed(0), Instant::from_nanos(120_000));
    rig.run_until(200_000);
    assert_eq!(after.fired_at(), [120_000]);
    assert_eq!(moved.fired_at(), [120_000]);
}

/// after a restart in place, too, the cached first deadline is the hard expiry, so that the slack is not
/// lost.
pub fn a_first_timer_restarted_in_place_keeps_its_slack<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::once(&rig);
    rig.on(0, || {
        timer.start(at(1_000));
        timer.start(at(2_000).slack(Span::from_nanos(3_000)));
    });
    rig.check();
    assert_eq!(rig.stats(0).in_place, 1);
    assert_eq!(rig.armed(0), Instant::from_nanos(5_000));
    rig.run_until(9_000);
    assert_eq!(timer.fired_at(), [5_000]);
}

/// Q-4b, Q-8: order and caches hold after every one of many restarts with random slack.
pub fn random_slack_never_breaks_the_order<H: Host>() {
    let mut random = Random::new(17);
    let rig = Rig::<H>::new(1);
    let timers: Vec<_> = (0..12).map(|_| TestTimer::once(&rig)).collect();
    for _ in 0..400 {
        let timer = &timers[random.index(timers.len())];
        let soft = rig.now() + random.between(1, 2_000);
        let slack = Span::from_nanos(random.below(1_500));
        rig.on(0, || timer.start(at(soft).slack(slack)));
        rig.check();
        if random.one_in(10) {
            rig.run_until(rig.now() + random.between(0, 1_000));
        }
    }
}

/// FWD-1: a timer that is forwarded by whole intervals keeps its slack.
pub fn a_forward_moves_both_expiries<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::with_setup(&rig, Setup::new(), |expired| {
        expired.forward_now(Span::from_nanos(10_000));
        Restart::Yes
    });
    rig.on(0, || timer.start(at(1_000).slack(Span::from_nanos(300))));
    rig.take_trace();
    rig.run_until(2_000);
    let started = rig.take_trace().into_iter().find_map(|event| match event {
        Event::Start { soft, hard, .. } => Some((soft, hard)),
        _ => None,
    });
    assert_eq!(started, Some((11_000, 11_300)));
}

/// FWD-1 with slack: a timer that fires within its slack fires once, and not again before its next period.
pub fn a_periodic_timer_that_fires_within_its_slack_goes_on<H: Host>() {
    let rig = Rig::<H>::new(1);
    let overruns = Rc::new(RefCell::new(Vec::new()));
    let periodic = {
        let overruns = Rc::clone(&overruns);
        TestTimer::new(&rig, move |expired| {
            overruns
                .borrow_mut()
                .push(expired.forward_now(Span::from_nanos(10_000)));
            Restart::Yes
        })
    };
    let exact = TestTimer::once(&rig);
    rig.on(0, || {
        periodic.start(at(1_000).slack(Span::from_nanos(4_000)));
        exact.start(at(2_000));
    });
    rig.run_until(30_000);
    assert_eq!(periodic.fired_at(), [2_000, 15_000, 25_000]);
    assert_eq!(*overruns.borrow(), [1, 1, 1]);
}

/// OBJ-23: a CPU publishes the time from which its first timer may fire, whichever timer becomes the first.
pub fn a_cpu_publishes_from_when_on_it_may_fire<H: Host>() {
    let rig = Rig::<H>::with_devices(1, DeviceClass::Software);
    let (patient, exact) = (TestTimer::once(&rig), TestTimer::once(&rig));
    let published = || rig.base(0).may_fire_from().as_nanos();
    rig.on(0, || {
        patient.start(at(10_000).slack(Span::from_nanos(5_000)));
    });
    assert_eq!(published(), 10_000);
    rig.on(0, || exact.start(at(12_000)));
    assert_eq!(published(), 12_000, "the first one is exact");
    rig.on(0, || exact.cancel());
    assert_eq!(published(), 10_000, "an evaluation finds it");
    rig.on(0, || {
        patient.start(at(20_000).slack(Span::from_nanos(1)));
    });
    assert_eq!(published(), 20_000);
    rig.run_until(30_000);
    assert_eq!(patient.fired_at(), [20_001]);
    assert!(published() > 1 << 60, "nothing may fire");
}

/// OBJ-23: an expirer that is awake for one CPU also fires timers of other CPUs that may fire already. These timers
/// cost no interrupt of their own later.
pub fn an_expirer_takes_along_what_may_fire_elsewhere<H: Host>() {
    let rig = Rig::<H>::with_devices(3, DeviceClass::Software);
    let timers = [0; 3].map(|_| TestTimer::once(&rig));
    let windows = [(12_000, 0), (10_000, 5_000), (12_001, 5_000)];
    for ((timer, (soft, slack)), cpu) in timers.iter().zip(windows).zip(0..) {
        let start = at(soft).slack(Span::from_nanos(slack));
        rig.on(cpu, || timer.start(start));
    }
    rig.run_until(12_000);
    for cpu in 0..3 {
        if rig.base(cpu).may_fire_from() <= rig.monotonic() {
            rig.on(cpu, || {
                let _nothing_else = rig.timers().interrupt(CpuId(cpu));
                rig.timers().flush_deferred(CpuId(cpu), Flush::TurnEnd);
            });
        }
    }
    rig.run_until(30_000);
    let fired = timers.each_ref().map(TestTimer::fired_at);
    assert_eq!(fired, [vec![12_000], vec![12_000], vec![17_001]]);
    assert_eq!([0, 1, 2].map(|cpu| rig.stats(cpu).interrupts), [1, 1, 1]);
}

crate::kit::cases!(slack:
    a_cpu_publishes_from_when_on_it_may_fire,
    an_expirer_takes_along_what_may_fire_elsewhere [CPUS],
    a_periodic_timer_that_fires_within_its_slack_goes_on,
    a_lone_timer_uses_its_slack,
    an_interrupt_takes_along_what_may_fire,
    nothing_fires_before_its_soft_expiry,
    the_front_timer_decides_when_draining_stops [CLOCKS],
    a_restart_with_slack_goes_where_its_hard_expiry_belongs,
    a_first_timer_restarted_in_place_keeps_its_slack,
    random_slack_never_breaks_the_order,
    a_forward_moves_both_expiries [TRACE],
);

//! Cases about starting and restarting timers (spec ).

use alloc::rc::Rc;
use core::cell::{Cell, RefCell};

use tickless_core::hrtimer::{HrTimer, Restart, Setup, Start};
use tickless_core::time::{Boottime, Instant, Monotonic, Realtime, Span, Tai};
use tickless_core::trace::Event;

use crate::prelude::*;
use crate::suite::{at, at_on, kicks, panic_of, rearms};
use crate::{DeviceClass, Host, Rig, TestTimer};

/// a start queues the timer on the executing CPU, and the device is written once.
pub fn a_first_start_arms_the_device_once<H: Host>() {
    let rig = Rig::<H>::new(2);
    let timer = TestTimer::once(&rig);
    assert!(!timer.is_active() && timer.cpu().is_none());
    rig.on(1, || timer.start(at(1_000)));
    assert!(timer.is_queued());
    assert_eq!(timer.cpu(), Some(1));
    assert_eq!(timer.deadline(), Some(1_000));
    assert_eq!(rig.armed(1), Instant::from_nanos(1_000));
    assert_eq!(rig.fires_at(1), Some(1_000));
    assert_eq!((rig.device_writes(0), rig.device_writes(1)), (0, 1));
    rig.run_until(10_000);
    assert_eq!(timer.fired_at(), [1_000]);
    assert!(!timer.is_active());
}

/// REARM-2, and: only an earlier event is written to the device; an event at the same time is not.
pub fn a_start_that_is_not_the_first_event_writes_nothing<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timers: Vec<_> = (0..4).map(|_| TestTimer::once(&rig)).collect();
    rig.on(0, || {
        timers[0].start(at(5_000));
        timers[1].start(at(5_000));
        timers[2].start(at(9_000));
    });
    assert_eq!(rig.device_writes(0), 1);
    rig.on(0, || timers[3].start(at(4_500)));
    assert_eq!(rig.device_writes(0), 2);
    assert_eq!(rig.fires_at(0), Some(4_500));
    rig.run_until(10_000);
    let fired: Vec<_> = timers.iter().map(|timer| timer.fired_at()[0]).collect();
    assert_eq!(fired, [5_000, 5_000, 9_000, 4_500]);
}

/// equal deadlines fire in the order of the starts.
pub fn equal_deadlines_fire_in_the_order_of_their_starts<H: Host>() {
    let rig = Rig::<H>::new(1);
    let order = Rc::new(RefCell::new(Vec::new()));
    let timers: Vec<_> = (0..5)
        .map(|number| {
            let order = Rc::clone(&order);
            TestTimer::new(&rig, move |_| {
                order.borrow_mut().push(number);
                Restart::No
            })
        })
        .collect();
    rig.on(0, || {
        for number in [3, 0, 4, 2, 1] {
            timers[number].start(at(1_000));
        }
    });
    rig.run_until(2_000);
    assert_eq!(*order.borrow(), [3, 0, 4, 2, 1]);
}

/// TIM-2, OBJ-17: a relative time counts from the start, on the timer's own clock.
pub fn a_relative_start_counts_from_now_on_its_clock<H: Host>() {
    let rig = Rig::<H>::new(1);
    rig.set_wall(0, 1_700_000_000_000_000_000);
    rig.run_until(500);
    let mono = TestTimer::once(&rig);
    let boot = TestTimer::<H, Boottime>::once_on(&rig);
    let tai = TestTimer::<H, Tai>::once_on(&rig);
    rig.on(0, || {
        mono.start(Start::after(Span::from_nanos(1_000)));
        boot.start(Start::after(Span::from_nanos(1_100)));
        tai.start(Start::after(Span::from_nanos(1_200)));
    });
    assert_eq!(mono.deadline(), Some(1_500));
    assert_eq!(boot.deadline(), Some(1_600));
    assert_eq!(tai.deadline(), Some(1_700_000_037_000_001_700));
    rig.run_until(10_000);
    assert_eq!(mono.fired_at(), [1_500]);
    assert_eq!(boot.fired_at(), [1_600]);
    assert_eq!(tai.fired_at(), [1_700_000_037_000_001_700]);
}

/// TIM-2, OBJ-8: no sum of times that callers give wraps into the past.
pub fn sums_saturate_instead_of_wrapping<H: Host>() {
    let rig = Rig::<H>::new(1);
    rig.run_until(1_000_000_000);
    let latest = Instant::<Monotonic>::LATEST.as_nanos();
    let starts = [
        Start::after(Span::MAX),
        Start::after(Span::from_secs(1)).slack(Span::MAX),
        Start::at(Instant::LATEST).slack(Span::from_secs(400_000_000)),
        Start::at(Instant::FOREVER),
    ];
    for start in starts {
        let timer = TestTimer::once(&rig);
        rig.on(0, || timer.start(start));
        assert_eq!(timer.deadline(), Some(latest), "{start:?}");
        assert_eq!(rig.armed(0).as_nanos(), latest, "{start:?}");
    }
}

/// TIM-3, Q-22, X-13.6: a deadline before the origin of the monotonic clock is armed at the origin, and fires at once.
pub fn a_deadline_before_the_origin_fires_at_once<H: Host>() {
    let rig = Rig::<H>::new(1);
    rig.set_wall(0, 1_700_000_000_000_000_000);
    rig.run_until(5_000);
    let timer = TestTimer::<H, Realtime>::once_on(&rig);
    let past = TestTimer::once(&rig);
    rig.on(0, || timer.start(at_on(100)));
    assert_eq!(rig.armed(0), Instant::ZERO);
    rig.on(0, || past.start(at(-7)));
    rig.run_until(10_000);
    assert_eq!(timer.fired_at().len(), 1);
    assert_eq!(past.fired_at().len(), 1);
}

/// TR-1: a restart of a pending timer is traced as one event that moves the timer, and as no cancel.
pub fn a_restart_moves_the_timer_in_one_operation<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::once(&rig);
    rig.on(0, || timer.start(at(1_000)));
    rig.take_trace();
    rig.on(0, || {
        for deadline in [5_000, 3_000, 8_000] {
            timer.start(at(deadline));
        }
    });
    let trace = rig.take_trace();
    let restarts = trace
        .iter()
        .filter(|event| matches!(event, Event::Start { was_armed, .. } if *was_armed))
        .count();
    assert_eq!(restarts, 3);
    assert!(
        !trace
            .iter()
            .any(|event| matches!(event, Event::Cancel { .. }))
    );
    rig.run_until(10_000);
    assert_eq!(timer.fired_at(), [8_000]);
}

/// OBJ-18, REARM-5: a restart never writes the device twice, whether the timer moves to the front, moves away from it,
/// or stays.
pub fn a_restart_writes_the_device_once_at_most<H: Host>() {
    let rig = Rig::<H>::new(1);
    let (timer, other) = (TestTimer::once(&rig), TestTimer::once(&rig));
    rig.on(0, || {
        other.start(at(5_000));
        timer.start(at(1_000));
    });
    let writes = |deadline| {
        let before = rig.device_writes(0);
        rig.on(0, || timer.start(at(deadline)));
        rig.check();
        rig.device_writes(0) - before
    };
    assert_eq!(writes(2_000), 1, "first, and stays first");
    assert_eq!(writes(2_000), 0, "equal: skipped");
    assert_eq!(writes(9_000), 1, "away from the front: the other is first");
    assert_eq!(rig.fires_at(0), Some(5_000));
    assert_eq!(writes(8_000), 0, "behind the first");
    assert_eq!(writes(5_000), 0, "equal to the first");
    assert_eq!(writes(500), 1, "to the front");
}

/// OBJ-19, REARM-4, INV-3: if the first event moves later, the device is programmed for the later time, so that no
/// interrupt comes without a due timer.
pub fn the_first_event_that_moves_later_pushes_the_device_out<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::once(&rig);
    rig.on(0, || timer.start(at(1_000)));
    rig.on(0, || timer.start(at(6_000)));
    assert_eq!(rig.fires_at(0), Some(6_000));
    assert_eq!(rig.armed(0), Instant::from_nanos(6_000));
    rig.run_until(10_000);
    assert_eq!(timer.fired_at(), [6_000]);
    assert_eq!(rig.stats(0).spurious, 0);
}

/// OBJ-19: if the first event moves behind an event of another clock, the device is armed for that event.
pub fn the_first_event_of_another_clock_takes_over<H: Host>() {
    let rig = Rig::<H>::new(1);
    rig.set_wall(0, 1_000_000);
    let real = TestTimer::<H, Realtime>::once_on(&rig);
    let mono = TestTimer::once(&rig);
    rig.on(0, || {
        real.start(at_on(1_004_000));
        mono.start(at(1_000));
        mono.start(at(7_000));
    });
    assert_eq!(rig.fires_at(0), Some(4_000));
    rig.run_until(10_000);
    assert_eq!(real.fired_at(), [1_004_000]);
    assert_eq!(mono.fired_at(), [7_000]);
}

/// Q-12, change 47: a restart that keeps its place between its neighbours does not touch the tree, and neither does a
/// restart for a later time.
pub fn a_restart_between_its_neighbours_stays_in_place<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timers: Vec<_> = (0..3).map(|_| TestTimer::once(&rig)).collect();
    rig.on(0, || {
        for (timer, deadline) in timers.iter().zip([1_000, 2_000, 3_000]) {
            timer.start(at(deadline));
        }
    });
    let counts = || {
        let stats = rig.stats(0);
        [stats.in_place, stats.filed_early, stats.far_in_slot]
    };
    let left = |deadline| {
        let before = counts();
        rig.on(0, || timers[1].start(at(deadline)));
        rig.check();
        let after = counts();
        [0, 1, 2].map(|kind: usize| after[kind] - before[kind])
    };
    let (in_place, filed_early, moved) = ([1, 0, 0], [0, 1, 0], [0; 3]);
    assert_eq!(left(2_500), filed_early);
    assert_eq!(left(1_000), in_place, "Q-11: equal to a neighbour");
    assert_eq!(left(3_000), filed_early);
    assert_eq!(left(3_001), filed_early, "too early is well enough");
    assert_eq!(left(999), moved);
    rig.run_until(10_000);
    assert_eq!(timers[1].fired_at(), [999]);
}

/// OBJ-1, OBJ-3, X-2.1: a timer has four states, and any thread may read them.
pub fn a_timer_can_be_queued_while_its_callback_runs<H: Host>() {
    let rig = Rig::<H>::new(1);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let timer = {
        let (rig, seen) = (rig.clone(), Rc::clone(&seen));
        let mut runs = 0;
        TestTimer::cyclic(&rig.clone(), Setup::new(), move |own, _| {
            runs += 1;
            if runs > 1 {
                return Restart::No;
            }
            let look = || seen.borrow_mut().push(format!("{:?}", own.state()));
            look();
            assert!(own.is_active() && !own.is_queued());
            own.start(at(rig.now() + 1_000));
            look();
            assert!(own.is_active() && own.is_queued() && own.is_own_callback());
            Restart::No
        })
    };
    assert_eq!(format!("{:?}", timer.state()), "Idle");
    rig.on(0, || timer.start(at(1_000)));
    assert_eq!(format!("{:?}", timer.state()), "Queued");
    rig.run_until(1_500);
    assert_eq!(*seen.borrow(), ["Running", "RunningAndQueued"]);
    assert_eq!(
        format!("{:?}", timer.state()),
        "Queued",
        "Restart::No leaves it queued"
    );
    rig.run_until(5_000);
    assert_eq!(timer.fired_at(), [1_000, 2_000]);
}

/// OBJ-13: a start while the callback runs takes effect, whatever answer the callback returns.
pub fn a_start_during_the_callback_wins_over_its_answer<H: Host>() {
    let rig = Rig::<H>::new(2);
    let runs = Rc::new(Cell::new(0));
    let timer = {
        let (rig, runs) = (rig.clone(), Rc::clone(&runs));
        TestTimer::cyclic(&rig.clone(), Setup::new(), move |own, _| {
            runs.set(runs.get() + 1);
            if runs.get() > 1 {
                return Restart::No;
            }
            rig.on(1, || own.start(at(7_000)));
            // Would be due at once, for the deadline it had.
            Restart::Yes
        })
    };
    rig.on(0, || timer.start(at(1_000)));
    rig.run_until(6_999);
    assert_eq!(runs.get(), 1);
    rig.run_until(10_000);
    assert_eq!(timer.fired_at(), [1_000, 7_000]);
}

/// Change 5, REARM-6: a start inside a callback never writes the device; the end of the interrupt writes it once.
pub fn a_start_inside_a_callback_leaves_the_device_to_the_interrupt<H: Host>() {
    let rig = Rig::<H>::new(1);
    let other = Rc::new(TestTimer::once(&rig));
    let timer = {
        let (rig, other) = (rig.clone(), Rc::clone(&other));
        TestTimer::new(&rig.clone(), move |_| {
            let before = rig.stats(0).device_writes;
            other.start(at(rig.now() + 500));
            other.start(at(rig.now() + 700));
            assert_eq!(rig.stats(0).device_writes, before);
            Restart::No
        })
    };
    rig.on(0, || timer.start(at(1_000)));
    let before = rig.stats(0).device_writes;
    rig.run_until(1_100);
    assert_eq!(rig.stats(0).device_writes - before, 1);
    assert_eq!(rig.fires_at(0), Some(1_700));
    rig.run_until(10_000);
    assert_eq!(other.fired_at(), [1_700]);
}

/// A2, CPL-4, and the costs that the module promises: an absolute start takes one lock, and reads no counter if the
/// device is coupled.
pub fn an_absolute_start_takes_one_lock_and_reads_no_counter<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::once(&rig);
    let cost = |deadline| {
        let before = (rig.lock_acquisitions(), rig.counter_readings());
        rig.on(0, || timer.start(at(deadline)));
        (
            rig.lock_acquisitions() - before.0,
            rig.counter_readings() - before.1,
        )
    };
    rig.on(0, || timer.start(at(9_000)));
    assert_eq!(cost(5_000), (1, 0), "written earlier");
    assert_eq!(cost(6_000), (1, 0), "written later");
    assert_eq!(cost(6_000), (1, 0), "not written");

    let rig = Rig::<H>::with_devices(1, DeviceClass::Countdown);
    let timer = TestTimer::once(&rig);
    let before = rig.counter_readings();
    rig.on(0, || timer.start(at(5_000)));
    assert_eq!(rig.counter_readings() - before, 1, "relative: one reading");
}

/// OBJ-20: a stale hint costs one superfluous evaluation and nothing else.
pub fn a_stale_hint_costs_one_evaluation<H: Host>() {
    let rig = Rig::<H>::new(2);
    let (timer, other) = (TestTimer::once(&rig), TestTimer::once(&rig));
    rig.on(0, || {
        timer.start(at(1_000));
        other.start(at(5_000));
    });
    // A remote removal leaves the hint of CPU 0 behind.
    rig.on(1, || assert!(timer.cancel()));
    let before = rig.stats(0).evaluations;
    rig.on(0, || timer.start(at(9_000)));
    assert_eq!(rig.stats(0).evaluations - before, 1);
    assert_eq!(rig.fires_at(0), Some(5_000));
    rig.run_until(10_000);
    assert_eq!(other.fired_at(), [5_000]);
    assert_eq!(timer.fired_at(), [9_000]);
}

/// a thread without a CPU queues its timer on an online CPU, and kicks that CPU because no other thread can
/// write its device.
pub fn a_start_without_a_cpu_kicks_the_cpu_that_gets_the_timer<H: Host>() {
    let rig = Rig::<H>::new(2);
    let (first, second) = (TestTimer::once(&rig), TestTimer::once(&rig));
    rig.take_trace();
    rig.on_no_cpu(|| first.start(at(5_000)));
    assert_eq!(first.cpu(), Some(0));
    let trace = rig.take_trace();
    assert_eq!(kicks(&trace), [0]);
    assert_eq!(rearms(&trace), []);
    rig.deliver_all();
    assert_eq!(rig.fires_at(0), Some(5_000));
    rig.on_no_cpu(|| second.start(at(7_000)));
    assert_eq!(kicks(&rig.take_trace()), [], "not the first event");
    rig.run_until(10_000);
    assert_eq!(first.fired_at(), [5_000]);
    assert_eq!(second.fired_at(), [7_000]);
}

/// A timer stays with the host on which it was first started.
pub fn a_timer_of_another_host_is_refused<H: Host>() {
    let (here, there) = (Rig::<H>::new(1), Rig::<H>::new(1));
    let timer = Box::pin(HrTimer::new(|_| Restart::No));
    here.on(0, || timer.as_ref().start_on(&here));
    let text = panic_of(|| there.on(0, || timer.as_ref().start_on(&there)));
    assert!(
        text.expect("refused")
            .contains("stays with the system that it was first started on")
    );
    here.on(0, || timer.as_ref().cancel(here.timers()));
}

trait StartOn<H: Host> {
    fn start_on(self, rig: &Rig<H>);
}

impl<H: Host, F> StartOn<H> for core::pin::Pin<&HrTimer<F>>
where
    F: FnMut(&mut tickless_core::hrtimer::Expired<'_, '_, Monotonic>) -> Restart + Send + 'static,
{
    fn start_on(self, rig: &Rig<H>) {
        let _ = self.start(rig.timers(), at(1_000));
    }
}

crate::kit::cases!(start:
    a_first_start_arms_the_device_once [CPUS],
    a_start_that_is_not_the_first_event_writes_nothing,
    equal_deadlines_fire_in_the_order_of_their_starts,
    a_relative_start_counts_from_now_on_its_clock [CLOCKS],
    sums_saturate_instead_of_wrapping,
    a_deadline_before_the_origin_fires_at_once [CLOCKS],
    a_restart_moves_the_timer_in_one_operation [TRACE],
    a_restart_writes_the_device_once_at_most,
    the_first_event_that_moves_later_pushes_the_device_out,
    the_first_event_of_another_clock_takes_over [CLOCKS],
    a_restart_between_its_neighbours_stays_in_place,
    a_timer_can_be_queued_while_its_callback_runs,
    a_start_during_the_callback_wins_over_its_answer [CPUS],
    a_start_inside_a_callback_leaves_the_device_to_the_interrupt,
    an_absolute_start_takes_one_lock_and_reads_no_counter [COUNTERS, DEVICES, LOCKS],
    a_stale_hint_costs_one_evaluation [CPUS],
    a_start_without_a_cpu_kicks_the_cpu_that_gets_the_timer [CPUS, TRACE],
    a_timer_of_another_host_is_refused [PANICS],
);

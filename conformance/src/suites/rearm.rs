//! Tests of the times at which the device is written (spec ).

use alloc::rc::Rc;
use core::cell::Cell;

use tickless_core::event::Flush;
use tickless_core::hrtimer::Restart;
use tickless_core::platform::CpuId;
use tickless_core::time::{Instant, Realtime, Span};
use tickless_core::trace::Event;

use crate::grammar::Grammar;
use crate::prelude::*;
use crate::random::Random;
use crate::suite::{at, at_on, rearms};
use crate::{DeviceClass, Host, Interrupted, Rig, Schedule, TestTimer};

/// CAN-2: cancelling the first timer of this CPU evaluates once and writes once; cancelling another timer does neither.
pub fn a_cancel_writes_for_the_first_event_only<H: Host>() {
    let rig = Rig::<H>::new(1);
    let [first, second, third] = [(); 3].map(|()| TestTimer::once(&rig));
    rig.on(0, || {
        first.start(at(1_000));
        second.start(at(2_000));
        third.start(at(3_000));
    });
    let cost = |timer: &TestTimer<H>| {
        let before = rig.stats(0);
        rig.on(0, || assert!(timer.cancel()));
        let after = rig.stats(0);
        (
            after.device_writes - before.device_writes,
            after.evaluations - before.evaluations,
        )
    };
    assert_eq!(cost(&third), (0, 0));
    assert_eq!(cost(&first), (1, 1));
    assert_eq!(rig.fires_at(0), Some(2_000));
}

/// REARM-3, X-4.2: a re-evaluation that finds the armed event again writes nothing.
pub fn an_equal_event_is_not_written_again<H: Host>() {
    let rig = Rig::<H>::new(1);
    let (first, twin) = (TestTimer::once(&rig), TestTimer::once(&rig));
    rig.on(0, || {
        first.start(at(1_000));
        twin.start(at(1_000));
    });
    let before = rig.device_writes(0);
    rig.on(0, || assert!(first.cancel()));
    assert_eq!(rig.device_writes(0), before);
    rig.run_until(2_000);
    assert_eq!(twin.fired_at(), [1_000]);
}

/// B29, IRQ-8: an armed event no longer counts after it fired, so the same time is written again.
pub fn the_same_time_is_written_again_after_it_fired<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::once(&rig);
    rig.on(0, || timer.start(at(1_000)));
    rig.run_until(1_000);
    assert_eq!(timer.fired_at(), [1_000]);
    rig.on(0, || timer.start(at(1_000)));
    rig.run_until(2_000);
    assert_eq!(timer.fired_at().len(), 2);
}

/// INV-12, A1: an interrupt costs one write, however many timers fire and start again in it.
pub fn an_interrupt_writes_the_device_once<H: Host>() {
    for class in DeviceClass::ALL {
        let rig = Rig::<H>::with_devices(1, class);
        let timers: Vec<_> = (0..6)
            .map(|number| {
                TestTimer::new(&rig, move |expired| {
                    expired.forward_now(Span::from_nanos(10_000 + number * 1_000));
                    Restart::Yes
                })
            })
            .collect();
        rig.on(0, || {
            for timer in &timers {
                timer.start(at(10_000));
            }
        });
        for step in 1..50 {
            let before = rig.stats(0);
            rig.run_until(step * 5_000);
            let after = rig.stats(0);
            assert_eq!(
                after.device_writes - before.device_writes,
                after.interrupts - before.interrupts,
                "{class:?}"
            );
        }
    }
}

/// TR-2, change 31: each write has a rearm event, which says whether the write was deferred; a skipped write has no
/// event.
pub fn every_write_is_traced<H: Host>() {
    let rig = Rig::<H>::new(2);
    let mut grammar = Grammar::new();
    let mut random = Random::new(31);
    let timers: Vec<_> = (0..6).map(|_| TestTimer::once(&rig)).collect();
    let writes = || rig.stats(0).device_writes + rig.stats(1).device_writes;
    grammar.follow(&rig.take_trace());
    assert_eq!(grammar.rearms(), writes(), "also those of coming online");
    for _ in 0..300 {
        let cpu = u32::from(random.one_in(2));
        let timer = &timers[random.index(timers.len())];
        rig.on(cpu, || match random.below(3) {
            0 => {
                timer.cancel();
            }
            _ => timer.start(at(rig.now() + random.between(-1_000, 9_000))),
        });
        rig.run_until(rig.now() + random.between(0, 2_000));
        let trace = rig.take_trace();
        for event in &trace {
            if let Event::Rearm { deferred, .. } = event {
                assert!(Rig::<H>::DEFERRED_REARM || !deferred);
            }
        }
        grammar.follow(&trace);
        assert_eq!(grammar.rearms(), writes());
    }
}

/// Makes a slice timer that is due now, at 1000, and another timer at 5000.
fn ticked<H: Host>() -> (Rig<H>, TestTimer<H>, TestTimer<H>) {
    let rig = Rig::<H>::new(1);
    let (slice, other) = (TestTimer::once(&rig), TestTimer::once(&rig));
    rig.on(0, || {
        slice.start(at(1_000));
        other.start(at(5_000));
    });
    rig.spend(1_000);
    rig.take_trace();
    (rig, slice, other)
}

/// REARM-11, X-14.9: with a pending reschedule there is one write, with the event that the scheduler chose.
pub fn a_reschedule_behind_an_interrupt_costs_one_write<H: Host>() {
    let (rig, slice, other) = ticked::<H>();
    rig.set_need_resched(0);
    let before = rig.stats(0);
    let schedule = Schedule {
        pick: Some(&|| slice.start(at(2_000))),
        ..Schedule::SWITCH
    };
    rig.interrupt(0, Interrupted::User, &schedule);
    let rearms = rearms(&rig.take_trace());
    let after = rig.stats(0);
    if Rig::<H>::DEFERRED_REARM {
        assert_eq!(rearms, [(0, 2_000)]);
        assert_eq!(
            after.evaluations - before.evaluations,
            2,
            "stale: evaluated again"
        );
        assert_eq!(after.stale_flushes, 1);
        assert_eq!(after.flushes[Flush::Switched as usize], 1);
    } else {
        assert_eq!(rearms, [(0, 5_000), (0, 2_000)]);
    }
    rig.run_until(9_000);
    assert_eq!(slice.fired_at(), [1_000, 2_000]);
    assert_eq!(other.fired_at(), [5_000]);
}

/// variant, and change 39: without a reschedule, the return path writes the event that the interrupt found,
/// without evaluating again.
pub fn without_a_reschedule_the_cached_event_is_written<H: Host>() {
    let (rig, _slice, other) = ticked::<H>();
    let before = rig.stats(0).evaluations;
    rig.interrupt(0, Interrupted::User, &Schedule::SWITCH);
    assert_eq!(rearms(&rig.take_trace()), [(0, 5_000)]);
    assert_eq!(rig.stats(0).evaluations - before, 1);
    assert_eq!(rig.stats(0).stale_flushes, 0);
    if Rig::<H>::DEFERRED_REARM {
        assert_eq!(rig.stats(0).flushes[Flush::UserExit as usize], 1);
    }
    rig.run_until(9_000);
    assert_eq!(other.fired_at(), [5_000]);
}

/// variant, and: an interrupt between the exit loop and the scheduler flushes, so the scheduler's start
/// writes again. Two interrupts cost two writes.
pub fn a_nested_interrupt_before_the_scheduler_flushes_first<H: Host>() {
    let (rig, slice, _other) = ticked::<H>();
    rig.set_need_resched(0);
    let armed = Cell::new(Instant::ZERO);
    let nested = || {
        rig.interrupt(0, Interrupted::Kernel, &Schedule::SWITCH);
        armed.set(rig.armed(0));
    };
    let schedule = Schedule {
        before: Some(&nested),
        pick: Some(&|| slice.start(at(2_000))),
        ..Schedule::SWITCH
    };
    rig.interrupt(0, Interrupted::User, &schedule);
    assert_eq!(armed.get(), Instant::from_nanos(5_000));
    assert_eq!(rearms(&rig.take_trace()), [(0, 5_000), (0, 2_000)]);
}

/// INV-4, REARM-6, IRQ-8: from the beginning of an interrupt until the flush, no event counts as armed.
pub fn nothing_counts_as_armed_while_a_rearm_is_owed<H: Host>() {
    let rig = Rig::<H>::new(1);
    let in_callback = Rc::new(Cell::new(Instant::ZERO));
    let timer = {
        let (rig, in_callback) = (rig.clone(), Rc::clone(&in_callback));
        TestTimer::new(&rig.clone(), move |_| {
            in_callback.set(rig.armed(0));
            assert!(rig.dump().contains(".deferred_rearm : running"));
            Restart::No
        })
    };
    let other = TestTimer::once(&rig);
    rig.on(0, || {
        timer.start(at(1_000));
        other.start(at(5_000));
    });
    rig.spend(1_000);
    let turn = rig.enter_interrupt(0);
    assert_eq!((turn.fired, turn.next), (1, Instant::from_nanos(5_000)));
    assert_eq!(in_callback.get(), Instant::FOREVER);
    if Rig::<H>::DEFERRED_REARM {
        assert!(rig.armed(0).is_forever());
        assert_eq!(rig.fires_at(0), None);
        assert!(
            rig.dump()
                .contains(".deferred_rearm : owed, fresh, 5000 nsecs")
        );
        rig.on(0, || assert!(other.cancel()));
        assert!(rig.dump().contains(".deferred_rearm : owed, stale"));
        rig.on(0, || other.start(at(6_000)));
    } else {
        rig.on(0, || other.start(at(6_000)));
    }
    rig.leave_interrupt(0);
    assert!(rig.dump().contains(".deferred_rearm : clear"));
    assert_eq!(rig.armed(0), Instant::from_nanos(6_000));
    assert_eq!(rig.fires_at(0), Some(6_000));
}

/// REARM-10: a flush point without an owed rearm takes no lock.
pub fn a_flush_point_without_a_debt_is_free<H: Host>() {
    let rig = Rig::<H>::new(1);
    let before = (rig.lock_acquisitions(), rig.stats(0));
    let locks = rig.lock_acquisitions();
    rig.flush(0, Flush::KernelExit);
    assert_eq!(rig.lock_acquisitions(), locks);
    // And one that the host carries out all the same does nothing.
    rig.timers().flush_deferred(CpuId(0), Flush::KernelExit);
    rig.timers().flush_deferred(CpuId(9), Flush::KernelExit);
    assert_eq!(rig.stats(0), before.1);
}

/// A change of the queues while a rearm is owed. The two timers are the first and the second timer of CPU 0.
type Change<'a, H> = &'a dyn Fn(&Rig<H>, &TestTimer<H>, &TestTimer<H>);

/// REARM-7, REARM-8: some changes mark an owed rearm as stale. Other changes do not, because they can only make the
/// cached event too early.
pub fn an_owed_rearm_turns_stale_by_what_could_make_it_late<H: Host>() {
    if !Rig::<H>::DEFERRED_REARM {
        return;
    }
    let marks = |change: Change<'_, H>| {
        let rig = Rig::<H>::new(2);
        let [due, first, second] = [(); 3].map(|()| TestTimer::once(&rig));
        rig.on(0, || {
            due.start(at(1_000));
            first.start(at(5_000));
            second.start(at(6_000));
        });
        rig.spend(1_000);
        let _turn = rig.enter_interrupt(0);
        change(&rig, &first, &second);
        let stale = rig.dump().contains(".deferred_rearm : owed, stale");
        rig.leave_interrupt(0);
        rig.check();
        rig.run_until(20_000);
        assert_eq!(rig.stats(0).missed_flushes, 0);
        stale
    };
    let new_start = |rig: &Rig<H>, first: &TestTimer<H>, _: &TestTimer<H>| {
        rig.on(0, || first.start(at(3_000)));
    };
    assert!(marks(&new_start), "a start of the first");
    assert!(
        marks(&|rig, _, second| rig.on(0, || second.start(at(7_000)))),
        "a start that is not even first"
    );
    assert!(
        marks(&|rig, first, _| rig.on(0, || assert!(first.cancel()))),
        "the removal of the first by its own CPU"
    );
    assert!(
        marks(&|rig, _, _| rig.set_wall(1, 77)),
        "a clock that was set"
    );
    assert!(
        !marks(&|rig, _, second| rig.on(0, || assert!(second.cancel()))),
        "the removal of another"
    );
    assert!(
        !marks(&|rig, first, _| rig.on(1, || assert!(first.cancel()))),
        "the removal by another CPU"
    );
    assert!(!marks(&|_, _, _| ()), "nothing");
}

/// REARM-7: each of the marks is needed. Without the mark, the device would be armed for the event that the interrupt
/// found.
pub fn a_stale_rearm_looks_at_the_queues_again<H: Host>() {
    let rig = Rig::<H>::new(1);
    rig.set_wall(0, 1_000_000);
    let [due, first, earlier] = [(); 3].map(|()| TestTimer::once(&rig));
    let real = TestTimer::<H, Realtime>::once_on(&rig);
    rig.on(0, || {
        due.start(at(1_000));
        first.start(at(5_000));
        real.start(at_on(1_090_000));
    });
    rig.spend(1_000);

    let _turn = rig.enter_interrupt(0);
    rig.on(0, || earlier.start(at(2_000)));
    rig.leave_interrupt(0);
    assert_eq!(rig.fires_at(0), Some(2_000), "after a start");

    rig.spend(1_000);
    let _turn = rig.enter_interrupt(0);
    rig.on(0, || assert!(first.cancel()));
    rig.leave_interrupt(0);
    assert_eq!(rig.fires_at(0), Some(90_000), "after a removal");

    rig.spend(1_000);
    let _turn = rig.enter_interrupt(0);
    rig.set_wall(0, 1_080_000);
    rig.leave_interrupt(0);
    assert_eq!(rig.fires_at(0), Some(10_000), "after a clock was set");
    rig.run_until(20_000);
    assert_eq!(real.fired_at(), [1_090_000]);
}

crate::kit::cases!(rearm:
    a_cancel_writes_for_the_first_event_only,
    an_equal_event_is_not_written_again,
    the_same_time_is_written_again_after_it_fired,
    an_interrupt_writes_the_device_once [DEVICES],
    every_write_is_traced [CPUS, TRACE],
    a_reschedule_behind_an_interrupt_costs_one_write [PATHS, TRACE],
    without_a_reschedule_the_cached_event_is_written [PATHS, TRACE],
    a_nested_interrupt_before_the_scheduler_flushes_first [PATHS, TRACE],
    nothing_counts_as_armed_while_a_rearm_is_owed [PATHS],
    a_flush_point_without_a_debt_is_free [PATHS, LOCKS],
    an_owed_rearm_turns_stale_by_what_could_make_it_late [CPUS, PATHS, CLOCKS],
    a_stale_rearm_looks_at_the_queues_again [PATHS, CLOCKS],
);

//! When the device is written, and when not (spec 4.1, 4.2, 4.4, 4.6).

use std::cell::Cell;
use std::rc::Rc;

use tickless_core::event::Flush;
use tickless_core::hrtimer::Restart;
use tickless_core::platform::CpuId;
use tickless_core::time::{Instant, Realtime, Span};
use tickless_core::trace::Event;
use tickless_rig::check::Grammar;
use tickless_rig::suite::{at, at_on, rearms};
use tickless_rig::{Config, DeviceClass, Interrupted, Machine, Schedule, TestTimer, all_configs};
use tickless_sim::random::Random;

/// CAN-2: cancelling the first event of this CPU evaluates once and writes once; cancelling another one does neither.
fn a_cancel_writes_for_the_first_event_only<C: Config>() {
    let machine = Machine::<C>::new(1);
    let [first, second, third] = [(); 3].map(|()| TestTimer::once(&machine));
    machine.on(0, || {
        first.start(at(1_000));
        second.start(at(2_000));
        third.start(at(3_000));
    });
    let cost = |timer: &TestTimer<C>| {
        let before = machine.stats(0);
        machine.on(0, || assert!(timer.cancel()));
        let after = machine.stats(0);
        (
            after.device_writes - before.device_writes,
            after.evaluations - before.evaluations,
        )
    };
    assert_eq!(cost(&third), (0, 0));
    assert_eq!(cost(&first), (1, 1));
    assert_eq!(machine.fires_at(0), Some(2_000));
}

/// REARM-3, 4.2: a re-evaluation that finds what is armed already writes nothing.
fn an_equal_event_is_not_written_again<C: Config>() {
    let machine = Machine::<C>::new(1);
    let (first, twin) = (TestTimer::once(&machine), TestTimer::once(&machine));
    machine.on(0, || {
        first.start(at(1_000));
        twin.start(at(1_000));
    });
    let before = machine.device_writes(0);
    machine.on(0, || assert!(first.cancel()));
    assert_eq!(machine.device_writes(0), before);
    machine.run_until(2_000);
    assert_eq!(twin.fired_at(), [1_000]);
}

/// B29, IRQ-8: what was armed counts for nothing once it fired, so the same time is written again.
fn the_same_time_is_written_again_after_it_fired<C: Config>() {
    let machine = Machine::<C>::new(1);
    let timer = TestTimer::once(&machine);
    machine.on(0, || timer.start(at(1_000)));
    machine.run_until(1_000);
    assert_eq!(timer.fired_at(), [1_000]);
    machine.on(0, || timer.start(at(1_000)));
    machine.run_until(2_000);
    assert_eq!(timer.fired_at().len(), 2);
}

/// INV-12, A1: one write for each interrupt, however many timers fire and start again in it.
fn an_interrupt_writes_the_device_once<C: Config>() {
    for class in DeviceClass::ALL {
        let machine = Machine::<C>::with_devices(1, class);
        let timers: Vec<_> = (0..6)
            .map(|number| {
                TestTimer::new(&machine, move |expired| {
                    expired.forward_now(Span::from_nanos(10_000 + number * 1_000));
                    Restart::Yes
                })
            })
            .collect();
        machine.on(0, || {
            for timer in &timers {
                timer.start(at(10_000));
            }
        });
        for step in 1..50 {
            let before = machine.stats(0);
            machine.run_until(step * 5_000);
            let after = machine.stats(0);
            assert_eq!(
                after.device_writes - before.device_writes,
                after.interrupts - before.interrupts,
                "{class:?}"
            );
        }
    }
}

/// TR-2, change 31: a rearm event for each write, saying whether it was deferred, and none when the write is skipped.
fn every_write_is_traced<C: Config>() {
    let machine = Machine::<C>::new(2);
    let mut grammar = Grammar::new();
    let mut random = Random::new(31);
    let timers: Vec<_> = (0..6).map(|_| TestTimer::once(&machine)).collect();
    let writes = || machine.stats(0).device_writes + machine.stats(1).device_writes;
    grammar.follow(&machine.take_trace());
    assert_eq!(grammar.rearms(), writes(), "also those of coming online");
    for _ in 0..300 {
        let cpu = u32::from(random.one_in(2));
        let timer = &timers[random.index(timers.len())];
        machine.on(cpu, || match random.below(3) {
            0 => {
                timer.cancel();
            }
            _ => timer.start(at(machine.now() + random.between(-1_000, 9_000))),
        });
        machine.run_until(machine.now() + random.between(0, 2_000));
        let trace = machine.take_trace();
        for event in &trace {
            if let Event::Rearm { deferred, .. } = event {
                assert!(C::DEFERRED_REARM || !deferred);
            }
        }
        grammar.follow(&trace);
        assert_eq!(grammar.rearms(), writes());
    }
}

struct Ticked<C: Config> {
    machine: Machine<C>,
    slice: TestTimer<C>,
    other: TestTimer<C>,
}

/// A slice timer that is due now, at 1000, and another at 5000.
fn ticked<C: Config>() -> Ticked<C> {
    let machine = Machine::<C>::new(1);
    let (slice, other) = (TestTimer::once(&machine), TestTimer::once(&machine));
    machine.on(0, || {
        slice.start(at(1_000));
        other.start(at(5_000));
    });
    machine.spend(1_000);
    machine.take_trace();
    Ticked {
        machine,
        slice,
        other,
    }
}

/// 13.8, REARM-11, 14.9: with a reschedule pending there is one write, with the value that the scheduler chose.
fn a_reschedule_behind_an_interrupt_costs_one_write<C: Config>() {
    let Ticked {
        machine,
        slice,
        other,
    } = ticked::<C>();
    machine.set_need_resched(0);
    let before = machine.stats(0);
    let schedule = Schedule {
        pick: Some(&|| slice.start(at(2_000))),
        ..Schedule::SWITCH
    };
    machine.interrupt(0, Interrupted::User, &schedule);
    let rearms = rearms(&machine.take_trace());
    let after = machine.stats(0);
    if C::DEFERRED_REARM {
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
    machine.run_until(9_000);
    assert_eq!(slice.fired_at(), [1_000, 2_000]);
    assert_eq!(other.fired_at(), [5_000]);
}

/// 13.8, variant: without a reschedule the way out writes what the interrupt found, without looking again.
fn without_a_reschedule_the_cached_event_is_written<C: Config>() {
    let Ticked {
        machine,
        slice: _slice,
        other,
    } = ticked::<C>();
    let before = machine.stats(0).evaluations;
    machine.interrupt(0, Interrupted::User, &Schedule::SWITCH);
    assert_eq!(rearms(&machine.take_trace()), [(0, 5_000)]);
    assert_eq!(machine.stats(0).evaluations - before, 1);
    if C::DEFERRED_REARM {
        assert_eq!(machine.stats(0).flushes[Flush::UserExit as usize], 1);
    }
    machine.run_until(9_000);
    assert_eq!(other.fired_at(), [5_000]);
}

/// 13.8, variant, and 14.7: an interrupt between the exit loop and the scheduler flushes, so the scheduler's start
/// writes again. Two interrupts, two writes.
fn a_nested_interrupt_before_the_scheduler_flushes_first<C: Config>() {
    let Ticked {
        machine,
        slice,
        other: _other,
    } = ticked::<C>();
    machine.set_need_resched(0);
    let armed = Cell::new(Instant::ZERO);
    let nested = || {
        machine.interrupt(0, Interrupted::Kernel, &Schedule::SWITCH);
        armed.set(machine.armed(0));
    };
    let schedule = Schedule {
        before: Some(&nested),
        pick: Some(&|| slice.start(at(2_000))),
        ..Schedule::SWITCH
    };
    machine.interrupt(0, Interrupted::User, &schedule);
    assert_eq!(armed.get(), Instant::from_nanos(5_000));
    assert_eq!(rearms(&machine.take_trace()), [(0, 5_000), (0, 2_000)]);
}

/// INV-4, REARM-6, IRQ-8: from the beginning of an interrupt until the flush nothing counts as armed.
fn nothing_counts_as_armed_while_a_rearm_is_owed<C: Config>() {
    let machine = Machine::<C>::new(1);
    let in_callback = Rc::new(Cell::new(Instant::ZERO));
    let timer = {
        let (machine, in_callback) = (machine.clone(), Rc::clone(&in_callback));
        TestTimer::new(&machine.clone(), move |_| {
            in_callback.set(machine.armed(0));
            assert!(machine.dump().contains(".deferred_rearm : running"));
            Restart::No
        })
    };
    let other = TestTimer::once(&machine);
    machine.on(0, || {
        timer.start(at(1_000));
        other.start(at(5_000));
    });
    machine.spend(1_000);
    let turn = machine.enter_interrupt(0);
    assert_eq!((turn.fired, turn.next), (1, Instant::from_nanos(5_000)));
    assert_eq!(in_callback.get(), Instant::FOREVER);
    if C::DEFERRED_REARM {
        assert!(machine.armed(0).is_forever());
        assert_eq!(machine.fires_at(0), None);
        assert!(
            machine
                .dump()
                .contains(".deferred_rearm : owed, fresh, 5000 nsecs")
        );
        machine.on(0, || assert!(other.cancel()));
        assert!(machine.dump().contains(".deferred_rearm : owed, stale"));
        machine.on(0, || other.start(at(6_000)));
    } else {
        machine.on(0, || other.start(at(6_000)));
    }
    machine.leave_interrupt(0);
    assert!(machine.dump().contains(".deferred_rearm : clear"));
    assert_eq!(machine.armed(0), Instant::from_nanos(6_000));
    assert_eq!(machine.fires_at(0), Some(6_000));
}

/// REARM-10: a flush point at which nothing is owed costs no lock.
fn a_flush_point_without_a_debt_is_free<C: Config>() {
    let machine = Machine::<C>::new(1);
    let before = (machine.lock_acquisitions(), machine.stats(0));
    let locks = machine.lock_acquisitions();
    machine.flush(0, Flush::KernelExit);
    assert_eq!(machine.lock_acquisitions(), locks);
    // And one that the host carries out all the same does nothing.
    machine.timers().flush_deferred(CpuId(0), Flush::KernelExit);
    machine.timers().flush_deferred(CpuId(9), Flush::KernelExit);
    assert_eq!(machine.stats(0), before.1);
}

/// A change of the queues while a rearm is owed; the first and the second timer of CPU 0.
type Change<'a, C> = &'a dyn Fn(&Machine<C>, &TestTimer<C>, &TestTimer<C>);

/// REARM-7, REARM-8: what marks an owed rearm stale, and what does not because it can only make the cached event too
/// early.
fn an_owed_rearm_turns_stale_by_what_could_make_it_late<C: Config>() {
    if !C::DEFERRED_REARM {
        return;
    }
    let marks = |change: Change<'_, C>| {
        let machine = Machine::<C>::new(2);
        let [due, first, second] = [(); 3].map(|()| TestTimer::once(&machine));
        machine.on(0, || {
            due.start(at(1_000));
            first.start(at(5_000));
            second.start(at(6_000));
        });
        machine.spend(1_000);
        let _turn = machine.enter_interrupt(0);
        change(&machine, &first, &second);
        let stale = machine.dump().contains(".deferred_rearm : owed, stale");
        machine.leave_interrupt(0);
        machine.check();
        machine.run_until(20_000);
        assert_eq!(machine.stats(0).missed_flushes, 0);
        stale
    };
    let new_start = |machine: &Machine<C>, first: &TestTimer<C>, _: &TestTimer<C>| {
        machine.on(0, || first.start(at(3_000)));
    };
    assert!(marks(&new_start), "a start of the first");
    assert!(
        marks(&|machine, _, second| machine.on(0, || second.start(at(7_000)))),
        "a start that is not even first"
    );
    assert!(
        marks(&|machine, first, _| machine.on(0, || assert!(first.cancel()))),
        "the removal of the first by its own CPU"
    );
    assert!(
        marks(&|machine, _, _| machine.set_wall(1, 77)),
        "a clock that was set"
    );
    assert!(
        !marks(&|machine, _, second| machine.on(0, || assert!(second.cancel()))),
        "the removal of another"
    );
    assert!(
        !marks(&|machine, first, _| machine.on(1, || assert!(first.cancel()))),
        "the removal by another CPU"
    );
    assert!(!marks(&|_, _, _| ()), "nothing");
}

/// REARM-7: each of the marks is needed: without it the device would be armed for what the interrupt knew.
fn a_stale_rearm_looks_at_the_queues_again<C: Config>() {
    let machine = Machine::<C>::new(1);
    machine.set_wall(0, 1_000_000);
    let [due, first, earlier] = [(); 3].map(|()| TestTimer::once(&machine));
    let real = TestTimer::<C, Realtime>::once_on(&machine);
    machine.on(0, || {
        due.start(at(1_000));
        first.start(at(5_000));
        real.start(at_on(1_090_000));
    });
    machine.spend(1_000);

    let _turn = machine.enter_interrupt(0);
    machine.on(0, || earlier.start(at(2_000)));
    machine.leave_interrupt(0);
    assert_eq!(machine.fires_at(0), Some(2_000), "after a start");

    machine.spend(1_000);
    let _turn = machine.enter_interrupt(0);
    machine.on(0, || assert!(first.cancel()));
    machine.leave_interrupt(0);
    assert_eq!(machine.fires_at(0), Some(90_000), "after a removal");

    machine.spend(1_000);
    let _turn = machine.enter_interrupt(0);
    machine.set_wall(0, 1_080_000);
    machine.leave_interrupt(0);
    assert_eq!(machine.fires_at(0), Some(10_000), "after a clock was set");
    machine.run_until(20_000);
    assert_eq!(real.fired_at(), [1_090_000]);
}

all_configs!(
    a_cancel_writes_for_the_first_event_only,
    an_equal_event_is_not_written_again,
    the_same_time_is_written_again_after_it_fired,
    an_interrupt_writes_the_device_once,
    every_write_is_traced,
    a_reschedule_behind_an_interrupt_costs_one_write,
    without_a_reschedule_the_cached_event_is_written,
    a_nested_interrupt_before_the_scheduler_flushes_first,
    nothing_counts_as_armed_while_a_rearm_is_owed,
    a_flush_point_without_a_debt_is_free,
    an_owed_rearm_turns_stale_by_what_could_make_it_late,
    a_stale_rearm_looks_at_the_queues_again,
);

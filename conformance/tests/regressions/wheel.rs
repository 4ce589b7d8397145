//! Regressions of timer wheels and their timers (spec C-8.1: R01 to R14, R32, R55, R56).
//!
//! Ticks are milliseconds of the rig. A timer that is armed for a tick on the finest level fires one tick later.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tickless_conformance::suite::{moves, panic_of};
use tickless_conformance::{CoarseTimer, Host, Rig, all_configs};
use tickless_core::base::TryCancel;
use tickless_core::coarse::{ArmError, Restart, StartOutcome, Tick, WheelKind};
use tickless_core::platform::CpuId;

/// R01: the tick lost its upper bits when a timer was put into the wheel.
fn r01_expiries_beyond_32_bits_keep_their_upper_bits<H: Host>() {
    let rig = Rig::<H>::new(1);
    let start = (1_u64 << 32) - 3;
    rig.spend(i64::try_from(start).unwrap() * 1_000_000);
    let timers: Vec<_> = [1, 7, 100, 5_000]
        .map(|ahead| {
            let timer = CoarseTimer::once(&rig, WheelKind::Local);
            rig.on(0, || timer.arm(start + ahead).unwrap());
            (timer, start + ahead)
        })
        .into();
    assert_eq!(rig.next_local(0), Some(start + 2));
    rig.run_to_tick(Tick(start + 6_000));
    for (timer, expiry) in timers {
        let [fired] = timer.fired()[..] else {
            panic!("{expiry} fired {:?}", timer.fired_at())
        };
        assert!(fired.due.0 > expiry && fired.due.0 - expiry <= 1 + (expiry - start) / 7);
    }
}

/// R02: a timer that is already late is enqueued at the clock of the wheel; this must not set the clock back.
fn r02_a_late_timer_does_not_set_the_clock_back<H: Host>() {
    let rig = Rig::<H>::new(1);
    rig.run_to_tick(Tick(1_000));
    let (late, near) = (
        CoarseTimer::once(&rig, WheelKind::Local),
        CoarseTimer::once(&rig, WheelKind::Local),
    );
    rig.on(0, || {
        late.arm(10).unwrap();
        near.arm(1_005).unwrap();
    });
    rig.check();
    rig.run_to_tick(Tick(1_010));
    assert_eq!(
        (late.fired_at(), near.fired_at()),
        (vec![1_001], vec![1_006])
    );
}

/// R03: a CPU forwards its wheel with an old reading of the clock.
fn r03_an_old_now_does_not_set_the_clock_back<H: Host>() {
    let rig = Rig::<H>::new(1);
    rig.run_to_tick(Tick(500));
    let timer = CoarseTimer::once(&rig, WheelKind::Local);
    rig.on(0, || timer.arm(510).unwrap());
    rig.on(0, || {
        rig.timers()
            .wheel_enter_idle(CpuId(0), Tick(100), |_| false)
    });
    rig.check();
    rig.run_to_tick(Tick(600));
    assert_eq!(timer.fired_at(), [511]);
}

/// R04: the first timer was cancelled. The clock of the wheel advances no farther than to the next timer.
fn r04_a_cancelled_first_timer_does_not_let_the_clock_run_away<H: Host>() {
    let rig = Rig::<H>::new(1);
    let (first, second, third) = (
        CoarseTimer::once(&rig, WheelKind::Local),
        CoarseTimer::once(&rig, WheelKind::Local),
        CoarseTimer::once(&rig, WheelKind::Local),
    );
    rig.on(0, || {
        first.arm(10).unwrap();
        second.arm(20).unwrap();
        assert!(first.delete());
        // Long after both, without a pass.
        rig.spend(40_000_000);
        third.arm(45).unwrap();
    });
    rig.check();
    rig.run_to_tick(Tick(100));
    assert_eq!((second.fired_at(), third.fired_at()), (vec![41], vec![46]));
    assert_eq!(first.fired_at(), []);
}

/// R05: the timer fires after a CPU saw it queued and before that CPU acquires the lock. The CPU writes nothing into
/// the slot that the timer left.
fn r05_a_timer_that_fires_before_the_lock_is_not_requeued_in_its_slot<H: Host>() {
    // The CPU of the timer, and another one, which takes the lock of that CPU's base.
    for modifies in [0, 1] {
        let rig = Rig::<H>::new(2);
        let timer = Rc::new(CoarseTimer::once(&rig, WheelKind::Global));
        rig.on(0, || timer.arm(100).unwrap());
        rig.spend(104_000_000);
        {
            let other = rig.clone();
            rig.before_lock(0, move || {
                assert_eq!(other.take_tick(0), 1);
            });
        }
        // Still queued when it is looked at, and for the same slot.
        let outcome = rig.on(modifies, || timer.modify(101));
        assert_eq!(
            outcome,
            StartOutcome::Started,
            "R56: it was idle, when CPU {modifies} modified it"
        );
        assert!(timer.is_queued());
        rig.check();
        rig.run_to_tick(Tick(200));
        assert_eq!(timer.fired_at(), [104, 105]);
    }
}

/// R06: in the bug, an empty wheel claimed to be due at some time. Here an empty wheel names no next expiry, however
/// much time has passed.
fn r06_an_empty_wheel_wakes_no_cpu<H: Host>() {
    let rig = Rig::<H>::new(1);
    for round in 1..5 {
        rig.spend(1_000_000 * ((1 << 30) + 17));
        assert_eq!(rig.next_local(0), None);
        let timer = CoarseTimer::once(&rig, WheelKind::Local);
        let now = rig.tick().0;
        rig.on(0, || timer.arm(now + 3).unwrap());
        assert_eq!(rig.next_local(0), Some(now + 4), "round {round}");
        rig.run_to_tick(Tick(now + 10));
        assert_eq!(timer.fired_at(), [now + 4]);
        rig.check();
    }
}

/// R07: the CPU slept for long, and a short timer is armed before the next pass.
fn r07_a_short_timer_after_a_long_sleep_is_fine<H: Host>() {
    let rig = Rig::<H>::new(1);
    rig.sleep(0);
    rig.spend(10_000_000_000);
    rig.wake(0);
    let timer = CoarseTimer::once(&rig, WheelKind::Global);
    rig.on(0, || timer.arm(10_005).unwrap());
    rig.run_to_tick(Tick(10_100));
    assert_eq!(timer.fired_at(), [10_006]);
}

/// R08: a CPU that slept for long takes over the timers of a dead CPU.
fn r08_timers_that_are_taken_over_stay_fine<H: Host>() {
    let rig = Rig::<H>::new(2);
    rig.sleep(0);
    rig.spend(50_000_000_000);
    let timers: Vec<_> = WheelKind::ALL
        .map(|kind| {
            let timer = CoarseTimer::once(&rig, kind);
            rig.on(1, || timer.arm(50_005).unwrap());
            timer
        })
        .into();
    rig.take_trace();
    rig.offline(1);
    let trace = rig.take_trace();
    assert_eq!(moves(&trace), [(1, 0); 3]);
    rig.wake(0);
    rig.check();
    rig.run_to_tick(Tick(50_100));
    for (timer, kind) in timers.iter().zip(WheelKind::ALL) {
        assert_eq!(timer.wheel(), Some((0, kind)));
        assert_eq!(timer.fired_at(), [50_006]);
    }
}

/// R09, B58: a CPU comes online again after a long time.
fn r09_a_cpu_that_comes_back_replays_nothing<H: Host>() {
    let rig = Rig::<H>::new(2);
    let old = CoarseTimer::once(&rig, WheelKind::Local);
    rig.on(1, || old.arm(1_000).unwrap());
    rig.offline(1);
    rig.run_to_tick(Tick(30_000));
    assert_eq!(old.fired().len(), 1);
    rig.online(1);
    let timer = CoarseTimer::once(&rig, WheelKind::Local);
    rig.on(1, || timer.arm(30_001).unwrap());
    assert_eq!(rig.next_local(1), Some(30_002));
    rig.run_to_tick(Tick(30_010));
    assert_eq!(timer.fired_at(), [30_002]);
    rig.check();
}

/// R10: the timer moves to another CPU after its owner was read and before the lock is acquired.
fn r10_a_timer_that_moves_before_the_lock_is_followed<H: Host>() {
    let rig = Rig::<H>::new(3);
    let timer = Rc::new(CoarseTimer::once(&rig, WheelKind::Global));
    rig.on(0, || timer.arm(100).unwrap());
    {
        let (rig, timer) = (rig.clone(), Rc::clone(&timer));
        rig.clone().before_lock(0, move || {
            rig.on(1, || {
                assert_eq!(timer.modify(5_000), StartOutcome::Restarted)
            });
        });
    }
    assert!(rig.on(2, || timer.delete()));
    assert!(!timer.is_queued());
    assert_eq!(rig.timers().wheel_pending(CpuId(1)), 0);
    rig.check();
}

/// R11: every tick runs due deferrable timers, whatever was switched on since they were armed.
fn r11_deferrable_timers_are_found_by_every_tick<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = CoarseTimer::once(&rig, WheelKind::Deferrable);
    rig.on(0, || timer.arm(10).unwrap());
    rig.sleep(0);
    assert_eq!(rig.next_local(0), None, "they wake no CPU");
    rig.run_to_tick(Tick(50));
    assert_eq!(timer.fired_at(), []);
    rig.wake(0);
    rig.run_to_tick(Tick(60));
    assert_eq!(timer.fired_at(), [51]);
}

/// R12: the next expiry of an overdue timer reads as now, again and again, and never as a time in the past; one pass
/// ends this.
fn r12_an_expired_timer_is_due_now_until_a_pass_ends_it<H: Host>() {
    use tickless_core::time::{Instant, Span};
    use tickless_core::wheel::idle::{TickTime, wake_times};
    let rig = Rig::<H>::new(1);
    let timer = CoarseTimer::once(&rig, WheelKind::Local);
    rig.on(0, || timer.arm(10).unwrap());
    rig.spend(100_000_000);
    for _ in 0..2 {
        let at = TickTime {
            tick: rig.tick(),
            began: Instant::from_nanos(rig.now()),
            period: Span::from_millis(1),
        };
        let times = wake_times(rig.timers().wheel_next(CpuId(0), at.tick), at);
        assert_eq!((times.local.as_nanos(), times.may_idle), (rig.now(), false));
    }
    rig.take_tick(0);
    assert_eq!(rig.next_local(0), None);
    assert_eq!(timer.fired_at(), [100]);
}

/// R13: the callback arms its own timer again. The deleter waits for the end of the callback, and also cancels that
/// timer.
fn r13_a_delete_does_not_return_while_the_callback_runs<H: Host>() {
    let rig = Rig::<H>::new(2);
    let answers = Rc::new(RefCell::new(Vec::new()));
    let timer = {
        let (rig, answers) = (rig.clone(), Rc::clone(&answers));
        CoarseTimer::cyclic(&rig.clone(), WheelKind::Global, move |own, timeout| {
            let mut answers = answers.borrow_mut();
            answers.push(rig.on(1, || own.try_delete_sync()));
            assert_eq!(own.modify(timeout.now.0 + 5), StartOutcome::Started);
            answers.push(rig.on(1, || own.try_delete_sync()));
            Restart::No
        })
    };
    rig.on(0, || timer.arm(10).unwrap());
    rig.run_to_tick(Tick(12));
    assert_eq!(*answers.borrow(), [TryCancel::Running; 2]);
    assert!(timer.is_queued());
    assert!(rig.on(1, || timer.delete_sync()));
    assert!(!timer.is_queued());
}

/// R14: the callback arms its own timer again, and the owner of the timer shuts it down for good.
fn r14_a_shutdown_of_a_timer_that_rearms_itself_leaves_nothing_queued<H: Host>() {
    let rig = Rig::<H>::new(2);
    let refusals = Rc::new(Cell::new(0));
    let timer = {
        let (rig, refusals) = (rig.clone(), Rc::clone(&refusals));
        CoarseTimer::cyclic(&rig.clone(), WheelKind::Global, move |own, timeout| {
            assert_eq!(own.modify(timeout.now.0 + 5), StartOutcome::Started);
            // One attempt of a shutdown that waits, while the callback runs: it can only wait, so it would never come
            // back here. That it would begin to wait is what the panic of a callback that waits for itself says.
            let panic = panic_of(|| {
                own.shutdown_sync();
            });
            assert!(panic.expect("it waits").contains("wait for itself"));
            assert!(own.is_queued() && !own.state().is_shut());
            refusals.set(refusals.get() + 1);
            Restart::No
        })
    };
    rig.on(0, || timer.arm(10).unwrap());
    rig.run_to_tick(Tick(12));
    assert_eq!(refusals.get(), 1);
    assert!(rig.on(1, || timer.shutdown_sync()), "it was queued");
    assert!(timer.state().is_idle() && timer.state().is_shut());
    assert_eq!(rig.on(0, || timer.arm(50)), Err(ArmError::ShutDown));
    assert_eq!(rig.on(0, || timer.modify(50)), StartOutcome::ShutDown);
    assert_eq!(
        rig.on(0, || timer.modify_if_active(50)),
        StartOutcome::ShutDown
    );
    rig.run_to_tick(Tick(100));
    assert_eq!(timer.fired().len(), 1);
    rig.check();
}

/// R32: the timer is armed on a given CPU once, and then again without a given CPU. The last call decides on the wheel.
fn r32_a_timer_is_pinned_exactly_if_that_was_asked_for<H: Host>() {
    let rig = Rig::<H>::new(3);
    let timer = CoarseTimer::once(&rig, WheelKind::Global);
    rig.on(0, || timer.arm_on(2, 100).unwrap());
    assert_eq!(
        timer.wheel(),
        Some((2, WheelKind::Local)),
        "never a movable wheel"
    );
    assert_eq!(rig.on(0, || timer.arm(50)), Err(ArmError::Active));
    assert_eq!(rig.on(0, || timer.modify(3_000)), StartOutcome::Restarted);
    assert_eq!(
        timer.wheel(),
        Some((2, WheelKind::Local)),
        "it stays pinned"
    );
    assert!(timer.delete());
    rig.on(1, || timer.arm_global(100).unwrap());
    assert_eq!(timer.wheel(), Some((1, WheelKind::Global)));
    assert!(timer.delete());
    rig.on(1, || timer.arm_local(100).unwrap());
    assert_eq!(timer.wheel(), Some((1, WheelKind::Local)));
    assert!(timer.delete());
    rig.on(0, || timer.arm(100).unwrap());
    assert_eq!(
        timer.wheel(),
        Some((0, WheelKind::Global)),
        "what it was made for"
    );
    assert_eq!(rig.on(1, || timer.modify(5_000)), StartOutcome::Restarted);
    assert_eq!(
        timer.wheel(),
        Some((1, WheelKind::Global)),
        "the modifying CPU has it"
    );
    let deferrable = CoarseTimer::once(&rig, WheelKind::Deferrable);
    rig.on(0, || deferrable.arm_on(2, 100).unwrap());
    assert_eq!(deferrable.wheel(), Some((2, WheelKind::Deferrable)));
    rig.offline(2);
    let late = CoarseTimer::once(&rig, WheelKind::Local);
    let refused = rig.on(0, || late.arm_on(2, 100));
    assert_eq!(refused, Err(ArmError::Offline(CpuId(2))));
}

/// R55: every operation accepts a timer that was never armed.
fn r55_a_timer_that_was_never_armed_takes_every_operation<H: Host>() {
    let rig = Rig::<H>::new(1);
    let fresh = || CoarseTimer::once(&rig, WheelKind::Global);
    rig.on(0, || {
        assert!(!fresh().delete());
        assert!(!fresh().delete_sync());
        assert_eq!(fresh().try_delete_sync(), TryCancel::NotActive);
        assert!(!fresh().shutdown());
        assert_eq!(fresh().modify_if_active(5), StartOutcome::Unchanged);
        assert_eq!(fresh().modify(5), StartOutcome::Started);
        assert_eq!(fresh().reduce(5), StartOutcome::Started);
    });
    assert_eq!(rig.timers().wheel_pending(CpuId(0)), 0);
    rig.check();
}

/// R56: callers count references by the result of a modification. The timer fires between a check of its state and the
/// modification.
fn r56_was_active_is_true_of_the_moment_of_the_modification<H: Host>() {
    let rig = Rig::<H>::new(2);
    let references = Rc::new(Cell::new(0));
    let timer = {
        let references = Rc::clone(&references);
        Rc::new(CoarseTimer::new(&rig, WheelKind::Global, move |_| {
            references.set(references.get() - 1);
            Restart::No
        }))
    };
    let hold = |expiry| {
        // The owner that queues it holds a reference for the callback.
        if rig.on(0, || timer.modify(expiry)) == StartOutcome::Started {
            references.set(references.get() + 1);
        }
    };
    hold(10);
    hold(12);
    rig.spend(20_000_000);
    assert!(timer.is_queued(), "that is what a look would say");
    let other = rig.clone();
    rig.before_lock(0, move || {
        other.take_tick(0);
    });
    hold(500);
    assert_eq!(references.get(), 1);
    rig.run_to_tick(Tick(1_000));
    assert_eq!((references.get(), timer.fired().len()), (0, 2));
}

all_configs!(
    r01_expiries_beyond_32_bits_keep_their_upper_bits,
    r02_a_late_timer_does_not_set_the_clock_back,
    r03_an_old_now_does_not_set_the_clock_back,
    r04_a_cancelled_first_timer_does_not_let_the_clock_run_away,
    r05_a_timer_that_fires_before_the_lock_is_not_requeued_in_its_slot,
    r06_an_empty_wheel_wakes_no_cpu,
    r07_a_short_timer_after_a_long_sleep_is_fine,
    r08_timers_that_are_taken_over_stay_fine,
    r09_a_cpu_that_comes_back_replays_nothing,
    r10_a_timer_that_moves_before_the_lock_is_followed,
    r11_deferrable_timers_are_found_by_every_tick,
    r12_an_expired_timer_is_due_now_until_a_pass_ends_it,
    r13_a_delete_does_not_return_while_the_callback_runs,
    r14_a_shutdown_of_a_timer_that_rearms_itself_leaves_nothing_queued,
    r32_a_timer_is_pinned_exactly_if_that_was_asked_for,
    r55_a_timer_that_was_never_armed_takes_every_operation,
    r56_was_active_is_true_of_the_moment_of_the_modification,
);

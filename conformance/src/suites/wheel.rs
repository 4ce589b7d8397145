//! Cases about coarse timers on the rig (spec C-1.7 to C-1.11, C-2.4, C-3.6). Their regressions are in
//! `tests/regressions`, beside the suites.
//!
//! Ticks are milliseconds of the rig. A timer that is armed for a tick on the finest level fires one tick later.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::pin::pin;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::Waker;

use tickless_core::base::TimerQueue;
use tickless_core::coarse::{PassEnd, Restart, StartOutcome, Tick, WheelKind, WheelSleeper};
use tickless_core::platform::CpuId;

use crate::prelude::*;
use crate::suite::kicks;
use crate::{CoarseTimer, Host, Rig};

/// Timers beyond the range of the wheel are enqueued again, and are never early.
pub fn beyond_the_range_is_never_early<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = CoarseTimer::once(&rig, WheelKind::Local);
    let expiry = 2_500_000_000;
    rig.on(0, || timer.arm(expiry).unwrap());
    let mut looks = 0;
    while timer.fired().is_empty() {
        let due = rig.next_local(0).expect("it is filed");
        let wait = i64::try_from(due - rig.tick().0).unwrap();
        rig.spend(wait * 1_000_000);
        rig.take_tick(0);
        rig.check();
        looks += 1;
        assert!(looks < 10);
    }
    assert!(looks > 1, "it was filed again");
    let [fired] = timer.fired()[..] else {
        panic!("once")
    };
    assert!(fired.now.0 > expiry && (fired.now.0 - expiry) * 7 < expiry);
    assert_eq!(rig.stats(0).coarse_requeued, looks - 1);
}

/// Spec C-1.7: a callback that arms its timer for "now" is called again a tick later, because otherwise the pass would
/// not end.
pub fn a_callback_that_arms_for_now_is_called_a_tick_later<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = CoarseTimer::cyclic(&rig, WheelKind::Local, move |own, timeout| {
        assert!(own.fired().len() < 20, "the pass does not end");
        timeout.set_expiry(Tick(timeout.now.0 - 1));
        Restart::Yes
    });
    rig.on(0, || timer.arm(10).unwrap());
    rig.run_to_tick(Tick(15));
    assert_eq!(timer.fired_at(), [11, 12, 13, 14, 15]);
}

/// A CPU that modifies its own timer learns whether the timer is now due before all others. Timers that are on another
/// CPU, run, or were shut down stay unchanged.
pub fn a_cpu_modifies_its_own_timers_alone<H: Host>() {
    let rig = Rig::<H>::new(2);
    let [first, second] = [0, 1].map(|_| CoarseTimer::once(&rig, WheelKind::Global));
    rig.on(0, || {
        assert_eq!(first.modify_own(1_000), None, "it has no wheel yet");
        first.arm(1_000).unwrap();
        second.arm(20_000).unwrap();
        let due = rig.timers().wheel_first_due(CpuId(0));
        let own = second.modify_own(30_000).unwrap();
        assert_eq!(
            (own.outcome, own.is_first),
            (StartOutcome::Restarted, false)
        );
        assert_eq!(rig.timers().wheel_first_due(CpuId(0)), due);
        let own = second.modify_own(50).unwrap();
        assert_eq!((own.outcome, own.is_first), (StartOutcome::Restarted, true));
        assert_eq!(rig.timers().wheel_first_due(CpuId(0)), Some(Tick(51)));
        assert!(second.delete());
        let own = second.modify_own(2_000).unwrap();
        assert_eq!((own.outcome, own.is_first), (StartOutcome::Started, false));
    });
    rig.on(1, || {
        assert_eq!(second.modify_own(10), None, "it is elsewhere");
        assert!(second.is_queued());
        assert_eq!(rig.timers().wheel_pending(CpuId(1)), 0);
        assert!(second.shutdown());
        assert!(first.delete());
    });
    rig.on(0, || {
        assert_eq!(second.modify_own(10), None, "it was shut down")
    });
    let running = CoarseTimer::cyclic(&rig, WheelKind::Local, |own, _| {
        assert_eq!(own.modify_own(5_000), None, "it runs");
        Restart::No
    });
    rig.on(0, || running.arm(10).unwrap());
    rig.run_to_tick(Tick(20));
    assert_eq!(running.fired_at(), [11]);
    rig.check();
}

/// A budget ends a pass in the middle of a slot. No timer on the pending list is lost, and each can be deleted and
/// modified.
pub fn what_a_budget_left_is_fired_by_the_next_pass<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timers: Vec<_> = (0..5)
        .map(|_| CoarseTimer::once(&rig, WheelKind::Local))
        .collect();
    rig.on(0, || timers.iter().for_each(|timer| timer.arm(10).unwrap()));
    rig.spend(11_000_000);
    let pass = |budget| {
        rig.on(0, || {
            let tick = rig.tick();
            rig.timers()
                .run_wheel(CpuId(0), WheelKind::Local, tick, budget)
        })
    };
    let first = pass(2);
    assert_eq!((first.fired, first.end), (2, PassEnd::Budget));
    rig.check();
    assert!(rig.timers().wheel_is_due(CpuId(0), rig.tick()));
    assert_eq!(rig.next_local(0), Some(11));
    // The first to come fires first.
    assert!(timers[2].delete());
    assert_eq!(rig.on(0, || timers[3].modify(40)), StartOutcome::Restarted);
    rig.check();
    let second = pass(2);
    assert_eq!((second.fired, second.end), (1, PassEnd::Done));
    rig.run_to_tick(Tick(100));
    let fired: Vec<_> = timers.iter().map(|timer| timer.fired_at()).collect();
    assert_eq!(fired, [vec![11], vec![11], vec![], vec![41], vec![11]]);
}

/// Spec C-2.4: a new first timer wakes its sleeping CPU if the timer is pinned there, and only then.
pub fn a_sleeping_cpu_is_kicked_for_its_new_first_timer<H: Host>() {
    let rig = Rig::<H>::new(2);
    let old = CoarseTimer::once(&rig, WheelKind::Local);
    rig.on(1, || old.arm(1_000).unwrap());
    let kicked_by = |timer: &CoarseTimer<H>, expiry| {
        rig.take_trace();
        rig.on(0, || timer.arm_on(1, expiry).unwrap());
        kicks(&rig.take_trace())
    };
    let timer = |kind| CoarseTimer::once(&rig, kind);
    let awake = timer(WheelKind::Local);
    assert_eq!(kicked_by(&awake, 900), []);
    rig.sleep(1);
    let (later, deferrable, first) = (
        timer(WheelKind::Local),
        timer(WheelKind::Deferrable),
        timer(WheelKind::Local),
    );
    assert_eq!(kicked_by(&later, 2_000), []);
    assert_eq!(kicked_by(&deferrable, 10), []);
    assert_eq!(kicked_by(&first, 500), [1]);
    rig.deliver_all();
}

/// Spec C-1.9: a timer whose callback runs stays on its wheel, and two CPUs never run the callback at once.
pub fn a_running_timer_keeps_its_wheel<H: Host>() {
    let rig = Rig::<H>::new(2);
    let timer = {
        let rig = rig.clone();
        CoarseTimer::cyclic(&rig.clone(), WheelKind::Global, move |own, timeout| {
            if own.fired().len() == 1 {
                rig.on(1, || {
                    assert_eq!(own.modify(timeout.now.0), StartOutcome::Started)
                });
                assert_eq!(own.wheel(), Some((0, WheelKind::Global)));
                rig.spend(5_000_000);
                assert_eq!(rig.take_tick(1), 0);
                assert_eq!(rig.run_remotely(1, 0), 0, "it runs already");
            }
            Restart::No
        })
    };
    rig.on(0, || timer.arm(10).unwrap());
    rig.run_to_tick(Tick(30));
    assert_eq!(timer.fired().len(), 2);
}

/// CPU 1 runs the wheel of CPU 0 and is held up in a callback. The other timers of the same tick do not wait for that
/// callback.
pub fn what_a_pass_has_not_begun_is_taken_over<H: Host>() {
    let rig = Rig::<H>::new(3);
    let others: Arc<Vec<_>> = (0..3)
        .map(|_| CoarseTimer::once(&rig, WheelKind::Global))
        .collect::<Vec<_>>()
        .into();
    let first = {
        let (rig, others) = (rig.clone(), Arc::clone(&others));
        CoarseTimer::new(&rig.clone(), WheelKind::Global, move |_| {
            assert_eq!(rig.run_remotely(1, 0), 0, "below its own pass");
            assert_eq!(rig.take_tick(0), 2);
            assert_eq!(rig.take_tick(0), 0, "the pass is over");
            rig.on(0, || others[0].arm(11).unwrap());
            rig.spend(2_000_000);
            assert_eq!(rig.run_remotely(2, 0), 1);
            Restart::No
        })
    };
    rig.on(0, || {
        // The first to come fires first.
        first.arm(10).unwrap();
        for timer in &others[1..] {
            timer.arm(10).unwrap();
        }
    });
    rig.spend(11_000_000);
    assert_eq!(rig.run_remotely(1, 0), 1);
    let fired: Vec<_> = others.iter().map(|timer| timer.fired_at()).collect();
    assert_eq!(fired, [[13], [11], [11]]);
    assert!(!rig.timers().wheel_is_due(CpuId(0), rig.tick()));
    rig.check();
}

/// Spec C-3.6: another CPU runs the global wheel of a sleeping CPU, and no other wheel of it.
pub fn a_global_timer_is_fired_by_another_cpu<H: Host>() {
    let rig = Rig::<H>::new(2);
    let (global, local) = (
        CoarseTimer::new(&rig, WheelKind::Global, |timeout| {
            if timeout.now.0 < 15 {
                timeout.set_expiry_after(5);
                Restart::Yes
            } else {
                Restart::No
            }
        }),
        CoarseTimer::once(&rig, WheelKind::Local),
    );
    rig.on(1, || {
        global.arm(10).unwrap();
        local.arm(10).unwrap();
    });
    rig.sleep(1);
    rig.spend(11_000_000);
    assert_eq!(rig.run_remotely(0, 1), 1);
    let [fired] = global.fired()[..] else {
        panic!("once")
    };
    assert_eq!((fired.cpu, fired.executed_by), (CpuId(1), Some(CpuId(0))));
    assert_eq!(
        global.wheel(),
        Some((1, WheelKind::Global)),
        "it stays there"
    );
    rig.spend(6_000_000);
    assert_eq!(rig.run_remotely(0, 1), 1);
    assert_eq!(local.fired_at(), []);
    rig.wake(1);
    rig.take_tick(1);
    assert_eq!(local.fired_at(), [17]);
}

/// A task that counts its wake-ups.
#[derive(Default)]
struct Task(AtomicU32);

impl Task {
    fn woken(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A sleeper supports everything that futures need: arm it, push it out, read its waker, exchange the waker, and cancel
/// it.
pub fn a_sleeper_wakes_its_task<H: Host>() {
    let rig = Rig::<H>::new(2);
    let timers = rig.timers();
    let (task, other) = (Arc::new(Task::default()), Arc::new(Task::default()));
    let (waker, replaced) = (
        Waker::from(Arc::clone(&task)),
        Waker::from(Arc::clone(&other)),
    );
    let mut sleeper = pin!(WheelSleeper::new(WheelKind::Global));
    assert!(!sleeper.as_ref().restart(timers, (Tick(0), Tick(5))));
    assert!(sleeper.as_ref().cancel(timers).is_none());
    rig.on(0, || {
        assert!(
            sleeper
                .as_mut()
                .start(timers, (Tick(0), Tick(10)), replaced.clone())
                .is_none()
        );
        assert_eq!(sleeper.as_ref().will_wake(timers, &replaced), Some(true));
        assert_eq!(sleeper.as_ref().will_wake(timers, &waker), Some(false));
        let old = sleeper.as_ref().set_waker(timers, waker.clone());
        assert!(
            old.expect("it is queued")
                .expect("it had one")
                .will_wake(&replaced)
        );
    });
    // From another CPU, which has it then.
    rig.on(1, || {
        assert!(sleeper.as_ref().restart(timers, (Tick(0), Tick(20))))
    });
    assert_eq!(timers.wheel_pending(CpuId(1)), 1);
    rig.run_to_tick(Tick(20));
    assert!(sleeper.is_queued());
    rig.run_to_tick(Tick(21));
    assert!(!sleeper.is_queued());
    assert_eq!(sleeper.as_ref().will_wake(timers, &waker), None);
    assert!(
        sleeper
            .as_ref()
            .set_waker(timers, replaced.clone())
            .is_err()
    );
    assert_eq!((task.woken(), other.woken()), (1, 0));
    rig.on(0, || {
        let now = rig.tick();
        assert!(
            sleeper
                .as_mut()
                .start(timers, (now, Tick(40)), replaced.clone())
                .is_none()
        );
        let given_back = sleeper.as_ref().cancel(timers).expect("it was queued");
        assert!(given_back.will_wake(&replaced));
    });
    rig.run_to_tick(Tick(60));
    assert_eq!((task.woken(), other.woken()), (1, 0));
    rig.check();
}

/// Spec C-1.8: `reduce` and a modification to the same tick take no lock if they change nothing.
pub fn what_changes_nothing_takes_no_lock<H: Host>() {
    let rig = Rig::<H>::new(2);
    let timer = CoarseTimer::once(&rig, WheelKind::Global);
    rig.on(0, || timer.arm(100).unwrap());
    let before = rig.lock_acquisitions();
    rig.on(1, || {
        assert_eq!(timer.modify(100), StartOutcome::Restarted);
        assert_eq!(timer.reduce(100), StartOutcome::Unchanged);
        assert_eq!(timer.reduce(5_000), StartOutcome::Unchanged);
        assert_eq!(timer.modify_if_active(100), StartOutcome::Restarted);
    });
    assert!(!rig.timers().wheel_is_due(CpuId(0), Tick(50)));
    assert_eq!(rig.lock_acquisitions(), before);
    assert_eq!(
        timer.wheel(),
        Some((0, WheelKind::Global)),
        "it stays where it is"
    );
    // Into its slot: one lock, and it stays too.
    rig.on(1, || assert_eq!(timer.modify(102), StartOutcome::Restarted));
    assert_eq!(rig.lock_acquisitions(), before + 1);
    assert_eq!(timer.wheel(), Some((0, WheelKind::Global)));
    assert_eq!(rig.stats(0).coarse_in_slot, 1);
    // The same without a clock, on its own CPU alone.
    rig.on(1, || assert!(!timer.modify_in_slot(103)));
    rig.on(0, || {
        assert!(timer.modify_in_slot(103));
        assert!(!timer.modify_in_slot(104));
        assert!(!timer.modify_in_slot(95));
    });
    assert_eq!(rig.stats(0).coarse_in_slot, 2);
    rig.on(1, || assert_eq!(timer.reduce(50), StartOutcome::Restarted));
    rig.run_to_tick(Tick(200));
    assert_eq!(timer.fired_at(), [51]);
}

/// Spec C-1.8: a timer that is pushed out without a clock reading stays in its slot, unless the slot is due before all
/// others. When the slot is due, the timer is enqueued again: it is never early, and late by a slot at most.
pub fn what_is_pushed_out_waits_in_its_slot<H: Host>() {
    let rig = Rig::<H>::new(1);
    let [first, pushed, pulled] = [0, 1, 2].map(|_| CoarseTimer::once(&rig, WheelKind::Local));
    rig.on(0, || {
        first.arm(10).unwrap();
        pushed.arm(100).unwrap();
        pulled.arm(200).unwrap();
        assert!(!first.modify_in_slot(5_000), "a CPU sleeps until then");
        assert!(pushed.modify_in_slot(5_000));
        assert!(pulled.modify_in_slot(5_000));
        assert!(!pulled.modify_in_slot(4_000), "earlier is another slot");
        assert_eq!(pulled.modify(150), StartOutcome::Restarted);
    });
    rig.check();
    assert_eq!(rig.stats(0).coarse_in_slot, 2);
    rig.run_to_tick(Tick(104));
    assert_eq!(rig.stats(0).coarse_requeued, 1);
    rig.check();
    rig.run_to_tick(Tick(6_000));
    assert_eq!((first.fired_at(), pulled.fired_at()), (vec![11], vec![152]));
    let [at] = pushed.fired_at()[..] else {
        panic!("once")
    };
    assert!((5_001..5_001 + 5_000 / 7).contains(&at), "at {at}");
}

crate::kit::cases!(wheel:
    a_sleeper_wakes_its_task [CPUS],
    what_changes_nothing_takes_no_lock [CPUS, LOCKS],
    what_is_pushed_out_waits_in_its_slot,
    beyond_the_range_is_never_early,
    a_callback_that_arms_for_now_is_called_a_tick_later,
    a_cpu_modifies_its_own_timers_alone [CPUS],
    what_a_budget_left_is_fired_by_the_next_pass,
    a_sleeping_cpu_is_kicked_for_its_new_first_timer [CPUS, TRACE],
    a_running_timer_keeps_its_wheel [CPUS],
    what_a_pass_has_not_begun_is_taken_over [CPUS],
    a_global_timer_is_fired_by_another_cpu [CPUS],
);

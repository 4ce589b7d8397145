//! Loom cases of a thread that starts a timer while another thread fires, moves or starts the timer.

use std::sync::Arc;

use tickless_link::sync::{AtomicBool, Ordering};

use crate::base::model::{
    Count, Machine, THREE, TWO, Timer, Touched, armed_after_kick, at, be, explore, going_on,
    machine, on, once, pending, take_kick,
};
use crate::cpu::CpuId;
use crate::hrtimer::{Expired, HrTimer, Restart, StartOutcome};
use crate::time::{Instant, Monotonic};

/// Distance at which a timer waits in the far wheel.
const FAR: i64 = 20_000_000;

/// CPU 1 starts the timer while CPU 0 runs its callback, which restarts it for another time. The start counts.
/// The timer is queued once, on a CPU with its device armed for the timer.
#[test]
fn start_from_another_cpu_against_a_callback_that_goes_on() {
    // Taken away before or after the callback, or left where it runs.
    explore(TWO, [(0, 1), (1, 1), (1, 0)], || {
        let machine = machine::<false>(2);
        let runs = Count::default();
        let timer = going_on(&runs, 3_000);
        be(Some(0));
        let _ = timer.as_ref().start(&machine, at(500));
        let starter = {
            let timer = timer.clone();
            on(&machine, Some(1), move |timers| {
                let _ = timer.as_ref().start(timers, at(5_000));
            })
        };
        let _turn = machine.interrupt(CpuId(0));
        starter.join().unwrap();
        assert_eq!(
            timer.as_ref().deadline(&machine),
            Some(Instant::from_nanos(5_000))
        );
        assert_eq!(pending(&machine, 2), 1);
        let place = timer.as_ref().cpu(&machine).map(|cpu| cpu.0);
        assert!(timer.as_ref().cancel(&machine));
        (place.expect("it was started"), runs.get())
    });
}

/// ORACLE-11.
///
/// Spec OBJ-14, 2.8a. The callback of the timer runs, restarts the timer, and runs for the last time on CPU 1, to which
/// the timer has moved. A thread that queries the timer meanwhile never sees it idle before the last run.
#[test]
fn the_activity_query_against_two_runs_and_a_journey() {
    // How often it ran, and whether the one who asks heard that it is over.
    explore(THREE, [(1, false), (2, false), (2, true)], || {
        let machine = machine::<false>(2);
        let last = Arc::new(AtomicBool::new(false));
        let runs = Count::default();
        let timer = Arc::pin(HrTimer::new({
            let (last, runs, touched) = (Arc::clone(&last), runs.clone(), Touched::default());
            move |expired: &mut Expired<'_, '_, Monotonic>| {
                touched.touch();
                runs.add();
                if runs.get() == 2 {
                    // Relaxed: the state of the timer carries it.
                    last.store(true, Ordering::Relaxed);
                    return Restart::No;
                }
                expired.set_deadline(Instant::from_nanos(9_000));
                Restart::Yes
            }
        }));
        be(Some(0));
        let _ = timer.as_ref().start(&machine, at(500));
        let taker = {
            let timer = timer.clone();
            on(&machine, Some(1), move |timers| {
                // If its callback runs it stays on CPU 0.
                let _ = timer.as_ref().start(timers, at(600));
                let _turn = timers.interrupt(CpuId(1));
            })
        };
        let observer = {
            let (timer, last) = (timer.clone(), Arc::clone(&last));
            on(&machine, None, move |_| {
                let over = !timer.is_active();
                if over {
                    assert!(last.load(Ordering::Relaxed), "idle between two runs");
                }
                over
            })
        };
        let _turn = machine.interrupt(CpuId(0));
        taker.join().unwrap();
        let over = observer.join().unwrap();
        assert_eq!(timer.as_ref().cancel(&machine), runs.get() < 2);
        (runs.get(), over)
    });
}

/// Returns the base of a timer and its expiry.
fn place(machine: &Machine<false>, timer: &Timer) -> (u32, i64) {
    let cpu = timer.as_ref().cpu(machine).expect("it was started");
    let deadline = timer.as_ref().deadline(machine).expect("it is queued");
    (cpu.0, deadline.as_nanos())
}

/// Spec LOC-2. Two CPUs start a timer that never was on a queue. One CPU binds the timer, and the other takes it over.
/// The timer is queued once, on the CPU and for the time of the later start.
#[test]
fn two_first_starts_at_once() {
    explore(TWO, [(0, 5_000), (1, 6_000)], || {
        let machine = machine::<false>(2);
        let timer = once(&Count::default());
        let other = {
            let timer = timer.clone();
            on(&machine, Some(1), move |timers| {
                let _ = timer.as_ref().start(timers, at(6_000));
            })
        };
        be(Some(0));
        let _ = timer.as_ref().start(&machine, at(5_000));
        other.join().unwrap();
        let place = place(&machine, &timer);
        assert_eq!(pending(&machine, 2), 1);
        assert!(timer.as_ref().cancel(&machine));
        place
    });
}

/// Spec LOC-3. Two CPUs restart a pending timer of a third CPU at once. The timer is in transit once or twice, is never
/// lost and never in two queues. It ends on the CPU and with the time of the later start.
#[test]
fn two_journeys_at_once() {
    explore(THREE, [(0, 5_000), (1, 5_001)], || {
        let machine = machine::<false>(3);
        let timer = once(&Count::default());
        be(Some(2));
        let _ = timer.as_ref().start(&machine, at(4_000));
        let takers = [0, 1].map(|cpu| {
            let timer = timer.clone();
            on(&machine, Some(cpu), move |timers| {
                let _ = timer.as_ref().start(timers, at(5_000 + i64::from(cpu)));
            })
        });
        for taker in takers {
            taker.join().unwrap();
        }
        let place = place(&machine, &timer);
        assert_eq!(pending(&machine, 3), 1);
        assert!(timer.as_ref().cancel(&machine));
        place
    });
}

/// Spec LOC-2, 3.3. CPU 0 restarts a timer that is queued after another timer, which takes only the lock and two
/// neighbours. Meanwhile CPU 1 restarts the same timer and moves it. The timer is queued once, on the CPU and for the
/// time of the later start.
#[test]
fn a_restart_in_place_against_a_journey() {
    explore(TWO, [(0, 6_000), (1, 5_000)], || {
        let machine = machine::<false>(2);
        let (first, behind) = (once(&Count::default()), once(&Count::default()));
        be(Some(0));
        let _ = first.as_ref().start(&machine, at(3_000));
        let _ = behind.as_ref().start(&machine, at(4_000));
        let taker = {
            let behind = behind.clone();
            on(&machine, Some(1), move |timers| {
                let _ = behind.as_ref().start(timers, at(5_000));
            })
        };
        let _ = behind.as_ref().start(&machine, at(6_000));
        taker.join().unwrap();
        let place = place(&machine, &behind);
        assert_eq!(pending(&machine, 2), 2);
        assert!(behind.as_ref().cancel(&machine));
        assert!(first.as_ref().cancel(&machine));
        place
    });
}

/// Spec LOC-17. Two threads without a CPU queue timers on CPU 0 and kick it, while CPU 0 takes the kicks. A kick that
/// is not sent because another kick is pending is not lost: in the end the CPU is armed for the earlier timer.
#[test]
fn two_kicks_against_the_one_that_is_taken() {
    explore(THREE, [4_000], || {
        let machine = machine::<false>(1);
        let timers = [5_000, 4_000].map(|deadline| (deadline, once(&Count::default())));
        let senders = timers.clone().map(|(deadline, timer)| {
            on(&machine, None, move |timers| {
                let _ = timer.as_ref().start(timers, at(deadline));
            })
        });
        be(Some(0));
        take_kick(&machine);
        for sender in senders {
            sender.join().unwrap();
        }
        let armed = armed_after_kick(&machine);
        for (_, timer) in &timers {
            assert!(timer.as_ref().cancel(&machine));
        }
        armed
    });
}

/// Makes two CPUs and a timer that waits in the far wheel of CPU 0. The caller executes as CPU 0.
fn far_on_cpu_0() -> (Machine<false>, Timer) {
    let machine = machine(2);
    let timer = once(&Count::default());
    be(Some(0));
    let _ = timer.as_ref().start(&machine, at(FAR));
    assert_eq!(machine.sorted(CpuId(0)), 0, "it is far");
    (machine, timer)
}

/// LOC-3. CPU 0 pushes out a timer in its far wheel, while CPU 1 starts the same timer. The timer is queued
/// once, for one of both starts, and the device of its CPU is armed for it.
#[test]
fn a_far_timer_is_pushed_out_against_a_start_on_another_cpu() {
    explore(TWO, [(0, FAR + 2_000), (1, FAR + 1_000)], || {
        let (machine, timer) = far_on_cpu_0();
        let starter = {
            let timer = timer.clone();
            on(&machine, Some(1), move |timers| {
                assert_eq!(
                    timer.as_ref().start(timers, at(FAR + 1_000)),
                    StartOutcome::Restarted
                );
            })
        };
        assert_eq!(
            timer.as_ref().start(&machine, at(FAR + 2_000)),
            StartOutcome::Restarted
        );
        starter.join().unwrap();
        assert_eq!(pending(&machine, 2), 1);
        let place = timer.as_ref().cpu(&machine).map(|cpu| cpu.0);
        let deadline = timer.as_ref().deadline(&machine).map(Instant::as_nanos);
        assert!(timer.as_ref().cancel(&machine));
        (
            place.expect("it was started"),
            deadline.expect("it was queued"),
        )
    });
}

/// CAN-1. CPU 0 pushes out a timer in its far wheel, while CPU 1 cancels the timer. The first of the two operations
/// finds the timer queued, and the second decides its final state.
#[test]
fn a_far_timer_is_pushed_out_against_a_cancel_on_another_cpu() {
    // Whether the start found it queued, and whether it is queued in the end. The cancel finds it in either case.
    explore(TWO, [(true, false), (false, true)], || {
        let (machine, timer) = far_on_cpu_0();
        let canceller = {
            let timer = timer.clone();
            on(&machine, Some(1), move |timers| {
                assert!(timer.as_ref().cancel(timers), "it was queued");
            })
        };
        let outcome = timer.as_ref().start(&machine, at(FAR + 2_000));
        let was_queued = outcome == StartOutcome::Restarted;
        canceller.join().unwrap();
        let is_queued = timer.is_queued();
        assert_eq!(pending(&machine, 2), usize::from(is_queued));
        assert_eq!(timer.as_ref().cancel(&machine), is_queued);
        (was_queued, is_queued)
    });
}

//! Clocks that are set (spec ), and CPUs that come online, go offline and sleep (spec ).

use tickless_conformance::suite::{at, at_on};
use tickless_conformance::{Host, Rig, TestTimer, all_configs};
use tickless_core::clock::ClockSet;
use tickless_core::event::Flush;
use tickless_core::hrtimer::Restart;
use tickless_core::platform::CpuId;
use tickless_core::time::{Realtime, Span};

const WALL: i64 = 1_700_000_000_000_000_000;
const HOUR: i64 = 3_600_000_000_000;

/// B3, B5: if the return from an interrupt goes wrong so that the flush point is not reached, the next interrupt
/// notices the missed flush, counts it, and makes up for it.
fn b3_a_flush_point_that_was_skipped_is_counted_and_made_up_for<H: Host>() {
    let rig = Rig::<H>::new(1);
    let (first, second) = (TestTimer::once(&rig), TestTimer::once(&rig));
    rig.on(0, || first.start(at(1_000)));
    rig.on(0, || second.start(at(2_000)));
    rig.spend(1_000);
    // The handler alone, without the way back.
    let _turn = rig.timers().interrupt(CpuId(0));
    assert_eq!(first.fired_at(), [1_000]);
    rig.spend(1_500);
    let _turn = rig.timers().interrupt(CpuId(0));
    rig.timers().flush_deferred(CpuId(0), Flush::KernelExit);
    assert_eq!(second.fired_at(), [2_500]);
    assert_eq!(
        rig.stats(0).missed_flushes,
        u64::from(Rig::<H>::DEFERRED_REARM)
    );
}

/// B26: a thread that sets the clock need not run on a CPU of the library, and takes no CPU for its own by accident:
/// all CPUs are notified.
fn b26_a_clock_is_set_by_a_thread_that_is_no_cpu<H: Host>() {
    let rig = Rig::<H>::new(3);
    rig.set_wall(0, WALL);
    let timers = [0, 1, 2].map(|cpu| {
        let timer = TestTimer::<H, Realtime>::once_on(&rig);
        rig.on(cpu, || timer.start(at_on(WALL + HOUR).pinned()));
        timer
    });
    rig.publish_wall(WALL + HOUR + 5_000);
    rig.on_no_cpu(|| rig.timers().clock_was_set(ClockSet::WALL));
    assert!((0..3).all(|cpu| rig.is_kicked(cpu)));
    rig.deliver_all();
    rig.run_until(rig.now() + 1_000);
    assert!(timers.iter().all(|timer| timer.fired_at().len() == 1));
}

/// B44: a clock that jumps while a callback runs needs no lock that the callback's interrupt holds, because the
/// interrupt holds no lock then. No timer is lost by the jump.
fn b44_a_clock_jumps_while_a_callback_runs<H: Host>() {
    let rig = Rig::<H>::new(2);
    rig.set_wall(0, WALL);
    let wall = TestTimer::<H, Realtime>::once_on(&rig);
    rig.on(1, || wall.start(at_on(WALL + HOUR)));
    let tick = {
        let rig = rig.clone();
        TestTimer::new(&rig.clone(), move |expired| {
            rig.set_wall(1, WALL + HOUR);
            expired.forward_now(Span::from_nanos(10_000));
            Restart::No
        })
    };
    rig.on(0, || tick.start(at(1_000)));
    rig.run_until(2_000);
    rig.deliver_all();
    rig.run_until(4_000);
    assert_eq!(tick.fired_at(), [1_000]);
    assert_eq!(wall.fired_at().len(), 1);
}

/// B57: an interrupt that reaches a CPU before the CPU is online again finds no timers from before the CPU went
/// offline, and leaves nothing behind.
fn b57_an_interrupt_before_the_cpu_is_back_harms_nothing<H: Host>() {
    let rig = Rig::<H>::new(2);
    let moved = TestTimer::once(&rig);
    rig.on(1, || moved.start(at(5_000)));
    rig.offline(1);
    let turn = rig.timers().interrupt(CpuId(1));
    assert_eq!(turn.fired, 0);
    let _turn = rig.timers().soft_interrupt(CpuId(1));
    rig.timers().flush_deferred(CpuId(1), Flush::KernelExit);
    assert_eq!(rig.fires_at(1), None, "its device stays off");
    rig.online(1);
    rig.check();
    let back = TestTimer::once(&rig);
    rig.on(1, || back.start(at(3_000).pinned()));
    assert_eq!(rig.fires_at(1), Some(3_000));
    rig.run_until(10_000);
    assert_eq!(
        (back.fired_at(), moved.fired_at()),
        (vec![3_000], vec![5_000])
    );
}

/// B60: an isolated CPU whose tick is stopped starts its first timer. A device is programmed for the timer, whichever
/// CPU the timer is queued on, and this needs no message to a CPU that could get lost.
fn b60_an_isolated_cpu_without_a_tick_starts_its_first_timer<H: Host>() {
    for pinned in [false, true] {
        for tick_stopped in [false, true] {
            let rig = Rig::<H>::new(2);
            rig.set_idleness(1, true, tick_stopped);
            let timer = TestTimer::once(&rig);
            let start = if pinned {
                at(4_000).pinned()
            } else {
                at(4_000)
            };
            rig.on(1, || timer.start(start));
            rig.deliver_all();
            let cpu = timer.cpu().expect("it is queued somewhere");
            assert!(cpu == 1 || !pinned, "a pinned timer stays");
            assert_eq!(rig.fires_at(cpu), Some(4_000));
            rig.run_until(9_000);
            assert_eq!(timer.fired_at(), [4_000]);
        }
    }
}

all_configs!(
    b3_a_flush_point_that_was_skipped_is_counted_and_made_up_for,
    b26_a_clock_is_set_by_a_thread_that_is_no_cpu,
    b44_a_clock_jumps_while_a_callback_runs,
    b57_an_interrupt_before_the_cpu_is_back_harms_nothing,
    b60_an_isolated_cpu_without_a_tick_starts_its_first_timer,
);

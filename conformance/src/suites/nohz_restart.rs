//! Tests of the cost of restarting the tick: one base lock, and one device write at most (spec X-7, row 12).

use tickless_core::coarse::WheelKind;
use tickless_core::tick::{KeepReason, Role};
use tickless_core::time::Instant;

use crate::parts::TICK;
use crate::suite::at;
use crate::{CoarseTimer, Host, Rig, TestTimer};

const CPU: u32 = 1;

/// Lets a CPU sleep after `arm`, gives it work after `ticks` and a half, and lets it tick on. Returns the number of
/// base locks and device writes that the restart took. [`Rig::work`] counts them too, at every restart of every test.
fn restart<H: Host, T>(ticks: i64, arm: impl FnOnce(&Rig<H>) -> T) -> (u64, u64) {
    let rig = Rig::<H>::with_roles(&[Role::Housekeeping; 2], false);
    let _armed = arm(&rig);
    rig.idle(CPU).expect("nothing keeps the tick");
    rig.run_until(ticks * TICK + TICK / 2);
    assert!(rig.is_stopped(CPU), "it sleeps still");
    let counts = || (rig.lock_acquisitions(), rig.device_writes(CPU));
    let before = counts();
    assert_eq!(rig.work(CPU), Err(KeepReason::NotIdle));
    let after = counts();
    let next = (ticks + 1) * TICK;
    assert_eq!(
        rig.next_tick(CPU),
        Some(Instant::from_nanos(next)),
        "in step"
    );
    assert_eq!(rig.tick_timer(CPU), Some(Instant::from_nanos(next)));
    rig.run_until(next);
    assert!(rig.ticks(CPU) > 0);
    (after.0 - before.0, after.1 - before.1)
}

/// Row 12: a tick that was stopped is started again.
pub fn a_tick_goes_on_for_one_lock_and_one_device_write<H: Host>() {
    // Nothing was to wake it: the timer of the tick is not queued.
    assert_eq!(restart::<H, _>(7, |_| {}), (1, 1));
    // It stands at a coarse timer of its own.
    let own = |rig: &Rig<H>| {
        let timer = CoarseTimer::once(rig, WheelKind::Local);
        rig.on(CPU, || timer.arm(40)).expect("it is new");
        timer
    };
    assert_eq!(restart::<H, _>(7, own), (1, 1));
}

/// The device is armed for an exact timer that is due before the next tick.
pub fn a_tick_goes_on_without_a_device_write_behind_an_earlier_timer<H: Host>() {
    let exact = |rig: &Rig<H>| {
        let timer = TestTimer::once(rig);
        let due = at(7 * TICK + 3 * TICK / 4);
        rig.on(CPU, || timer.start(due));
        timer
    };
    assert_eq!(restart::<H, _>(7, exact), (1, 0));
}

/// A CPU without a tick does not program a wake-up again whose time has passed and whose interrupt does not come. Each
/// evaluation finds the wake-up due in the tick in progress. That is a different tick each time, and the timer of the
/// wake-up is early enough already.
pub fn a_wake_up_that_is_over_is_not_programmed_again<H: Host>() {
    let rig = Rig::<H>::with_roles(&[Role::Housekeeping, Role::TicklessTasks], false);
    rig.run_until(10 * TICK);
    rig.work(CPU).expect("nothing depends on its tick");
    let timer = CoarseTimer::once(&rig, WheelKind::Local);
    rig.in_task(CPU, || timer.arm(20)).expect("it is new");
    let due = Instant::from_nanos(21 * TICK);
    assert_eq!(rig.tick_timer(CPU), Some(due));
    rig.set_masked(CPU, true);
    let before = rig.device_writes(CPU);
    for tick in 21..30 {
        rig.run_until(tick * TICK + TICK / 2);
        let stopped = rig.work(CPU).expect("it is stopped");
        assert!(
            stopped.wake >= due && !stopped.was_programmed,
            "{stopped:?}"
        );
        assert_eq!(rig.tick_timer(CPU), Some(due));
    }
    assert_eq!(rig.device_writes(CPU), before);
    rig.set_masked(CPU, false);
    rig.run_until(31 * TICK);
    assert_eq!(timer.fired_at(), [29]);
    assert!(rig.is_stopped(CPU));
}

crate::kit::cases!(nohz_restart:
    a_wake_up_that_is_over_is_not_programmed_again [CPUS],
    a_tick_goes_on_for_one_lock_and_one_device_write [CPUS, LOCKS],
    a_tick_goes_on_without_a_device_write_behind_an_earlier_timer [CPUS, LOCKS],
);

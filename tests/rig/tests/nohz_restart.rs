//! What it costs to let the tick run again: one base lock, and one device write at most (row 12 of section 7 of the
//! specification of the timers).

use tickless_core::coarse::Kind;
use tickless_core::tick::{KeepReason, Role};
use tickless_core::time::Instant;
use tickless_rig::machine::TICK;
use tickless_rig::suite::at;
use tickless_rig::{CoarseTimer, Config, Deferred, Immediate, Preemptible, TestTimer, Ticking};

const CPU: u32 = 1;

/// A CPU sleeps after `arm`, is given work when `ticks` and a half have passed, and ticks on: how many base locks and
/// device writes that took. [`Ticking::work`] counts too, at every restart of every test.
fn restart<C: Config, T>(ticks: i64, arm: impl FnOnce(&Ticking<C>) -> T) -> (u64, u64) {
    let ticking = Ticking::<C>::with_roles(&[Role::Housekeeping; 2], false);
    let _armed = arm(&ticking);
    ticking.idle(CPU).expect("nothing keeps the tick");
    ticking.run_until(ticks * TICK + TICK / 2);
    assert!(ticking.is_stopped(CPU), "it sleeps still");
    let counts = || {
        let machine = ticking.machine();
        (machine.lock_acquisitions(), machine.device_writes(CPU))
    };
    let before = counts();
    assert_eq!(ticking.work(CPU), Err(KeepReason::NotIdle));
    let after = counts();
    let next = (ticks + 1) * TICK;
    assert_eq!(
        ticking.next_tick(CPU),
        Some(Instant::from_nanos(next)),
        "in step"
    );
    assert_eq!(ticking.tick_timer(CPU), Some(Instant::from_nanos(next)));
    ticking.run_until(next);
    assert!(ticking.ticks(CPU) > 0);
    (after.0 - before.0, after.1 - before.1)
}

fn in_every_way<C: Config>() {
    // Nothing was to wake it: the timer of the tick is not queued.
    assert_eq!(restart::<C, _>(7, |_| {}), (1, 1));
    // It stands at a coarse timer of its own.
    let own = |ticking: &Ticking<C>| {
        let timer = CoarseTimer::once(ticking.machine(), Kind::Local);
        ticking.on(CPU, || timer.arm(40)).expect("it is new");
        timer
    };
    assert_eq!(restart::<C, _>(7, own), (1, 1));
}

#[test]
fn a_tick_goes_on_for_one_lock_and_one_device_write() {
    in_every_way::<Deferred>();
    in_every_way::<Immediate>();
    in_every_way::<Preemptible>();
}

/// The device stands at an exact timer that is due before the next tick.
#[test]
fn a_tick_goes_on_without_a_device_write_behind_an_earlier_timer() {
    fn in_config<C: Config>() {
        let exact = |ticking: &Ticking<C>| {
            let timer = TestTimer::once(ticking.machine());
            let due = at(7 * TICK + 3 * TICK / 4);
            ticking.on(CPU, || timer.start(due));
            timer
        };
        assert_eq!(restart::<C, _>(7, exact), (1, 0));
    }
    in_config::<Deferred>();
    in_config::<Immediate>();
    in_config::<Preemptible>();
}

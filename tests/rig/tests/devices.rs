//! Every kind of clock event device under the timers (spec 1.9, 1.10).

use std::cell::{Cell, RefCell};

use tickless_core::clock::CounterId;
use tickless_core::event::{
    self, DeviceConfig, DeviceState, DeviceWrite, EventDevice, EventDriver, Force, InPast, Kind,
    MinimumPolicy, Programmed,
};
use tickless_core::time::convert::{Cycles, Ticks};
use tickless_core::time::{Boottime, Instant};
use tickless_rig::suite::{at, at_on};
use tickless_rig::{Config, DeviceClass, Machine, TestTimer, all_configs};

const SEC: i64 = 1_000_000_000;

/// 1.9: a deadline is met to the nanosecond on every class, as far as the class can.
fn every_class_is_on_time<C: Config>() {
    for class in DeviceClass::ALL {
        let machine = Machine::<C>::with_devices(1, class);
        let timers: Vec<_> = (0..5).map(|_| TestTimer::once(&machine)).collect();
        machine.on(0, || {
            for (timer, deadline) in timers.iter().zip([10_000, 5_000, 90_000, 20_000, 7_000]) {
                timer.start(at(deadline));
            }
        });
        machine.run_until(100_000);
        let fired: Vec<_> = timers.iter().map(|timer| timer.fired_at()[0]).collect();
        assert_eq!(fired, [10_000, 5_000, 90_000, 20_000, 7_000], "{class:?}");
        assert_eq!(machine.stats(0).spurious, 0, "{class:?}");
    }
}

/// DEV-6, CPL-6: what is over fires as soon as the class can.
fn what_is_over_fires_as_soon_as_possible<C: Config>() {
    for class in DeviceClass::ALL {
        let machine = Machine::<C>::with_devices(1, class);
        machine.spend(50_000);
        let timer = TestTimer::once(&machine);
        machine.on(0, || timer.start(at(100)));
        machine.run_until(60_000);
        let fired = timer.fired_at()[0];
        assert!((50_000..=51_000).contains(&fired), "{class:?} at {fired}");
        assert_eq!(machine.stats(0).interrupts, 1, "{class:?}");
    }
}

/// INV-1: an event beyond what the device can count is reached in steps, each early, the last exact.
fn an_event_beyond_the_range_is_reached_in_steps<C: Config>() {
    for class in [
        DeviceClass::Countdown,
        DeviceClass::Equality,
        DeviceClass::LessOrEqual,
    ] {
        let machine = Machine::<C>::with_devices(1, class);
        let timer = TestTimer::once(&machine);
        machine.on(0, || timer.start(at(200 * SEC)));
        assert!(machine.fires_at(0).is_some_and(|at| at <= 60 * SEC));
        assert_eq!(
            machine.armed(0).as_nanos(),
            200 * SEC,
            "INV-4: before clamping"
        );
        for second in (0..=200).step_by(10) {
            machine.run_until(second * SEC);
            machine.advance_timekeeper();
        }
        assert_eq!(timer.fired_at(), [200 * SEC], "{class:?}");
        let spurious = machine.stats(0).spurious;
        assert!(
            (3..=4).contains(&spurious),
            "A6: one for each step, {spurious}"
        );
    }
}

/// DEV-9, B11: a caller that keeps starting what is over does not keep the interrupt away.
fn b11_starting_what_is_over_again_and_again_does_not_starve_the_interrupt<C: Config>() {
    for class in DeviceClass::ALL {
        let machine = Machine::<C>::with_devices(1, class);
        machine.spend(100_000);
        let timer = TestTimer::once(&machine);
        let bystander = TestTimer::once(&machine);
        machine.on(0, || bystander.start(at(101_000)));
        for round in 0..500 {
            // Each one earlier than the one before, so that none is skipped as equal.
            machine.on(0, || timer.start(at(50_000 - round)));
            machine.spend(30);
            machine.deliver_all();
        }
        assert!(!timer.fired_at().is_empty(), "{class:?}");
        assert_eq!(bystander.fired_at().len(), 1, "{class:?}");
    }
}

/// A machine whose device has a minimum delay under way for an expired timer, at 100000.
fn forced<C: Config>() -> (Machine<C>, TestTimer<C>) {
    let machine = Machine::<C>::with_devices(1, DeviceClass::Countdown);
    machine.spend(100_000);
    let timer = TestTimer::once(&machine);
    machine.on(0, || timer.start(at(5)));
    assert_eq!(machine.fires_at(0), Some(101_000));
    assert!(machine.dump().contains("programmed:     forced minimum"));
    (machine, timer)
}

fn fires_again<C: Config>(machine: &Machine<C>) {
    let timer = TestTimer::once(machine);
    let now = machine.now();
    machine.on(0, || timer.start(at(7)));
    machine.check();
    assert_eq!(machine.fires_at(0), Some(now + 1_000));
    machine.run_until(now + 2_000);
    assert_eq!(timer.fired_at(), [now + 1_000]);
}

/// B12: the interrupt ends a forced minimum, so that the next one can begin in it.
fn b12_an_interrupt_ends_a_forced_minimum<C: Config>() {
    let (machine, timer) = forced::<C>();
    let close = TestTimer::once(&machine);
    machine.on(0, || close.start(at(101_500)));
    machine.run_until(101_000);
    assert_eq!(timer.fired_at(), [101_000]);
    assert_eq!(machine.fires_at(0), Some(102_000));
    machine.run_until(102_000);
    assert_eq!(close.fired_at(), [102_000]);
    fires_again(&machine);
}

/// B12: a normal programming ends a forced minimum.
fn b12_a_normal_programming_ends_a_forced_minimum<C: Config>() {
    let (machine, timer) = forced::<C>();
    machine.on(0, || timer.start(at(900_000)));
    assert_eq!(machine.fires_at(0), Some(900_000));
    assert!(machine.dump().contains("programmed:     normal"));
    fires_again(&machine);
}

/// B12: stopping the device ends a forced minimum.
fn b12_a_change_of_state_ends_a_forced_minimum<C: Config>() {
    let (machine, timer) = forced::<C>();
    machine.on(0, || assert!(timer.cancel()));
    assert_eq!(machine.fires_at(0), None);
    fires_again(&machine);
}

/// B12: a device that lost its programming, with its CPU, has no minimum under way.
fn b12_going_offline_ends_a_forced_minimum<C: Config>() {
    let machine = Machine::<C>::with_devices(2, DeviceClass::Countdown);
    machine.spend(100_000);
    let timer = TestTimer::once(&machine);
    machine.on(1, || timer.start(at(5)));
    machine.offline(1);
    machine.online(1);
    machine.deliver_all();
    machine.on(1, || timer.start(at(3).pinned()));
    assert_eq!(machine.fires_at(1), Some(101_000));
    machine.run_until(200_000);
    assert_eq!(timer.fired_at().len(), 1);
}

/// B12, spec 7.6: a device that stops in a deep idle state has no minimum under way when it goes on.
fn b12_stopping_in_deep_idle_ends_a_forced_minimum<C: Config>() {
    let (machine, timer) = forced::<C>();
    machine.stop_device(0);
    // The CPU comes back for another reason, before the minimum would have ended.
    machine.spend(300);
    machine.restart_device(0);
    machine.check();
    machine.run_until(200_000);
    assert_eq!(timer.fired_at(), [101_300]);
    fires_again(&machine);
}

/// The contract of the driver: a write that is refused means that the device will not fire, for nothing.
fn a_refused_write_ends_a_forced_minimum<C: Config>() {
    let (machine, timer) = forced::<C>();
    let second = TestTimer::once(&machine);
    machine.refuse_writes(0, 1);
    machine.on(0, || {
        second.start(at(150_000));
        // Re-evaluates for the second; that write is refused.
        assert!(timer.cancel());
    });
    machine.check();
    machine.run_until(200_000);
    assert_eq!(second.fired_at().len(), 1);
}

/// B13: an equality comparator whose counter stands at the target already has missed it, and says so.
fn b13_an_equality_comparator_that_is_at_its_target_has_missed_it<C: Config>() {
    let machine = Machine::<C>::with_devices(1, DeviceClass::Equality);
    let timer = TestTimer::once(&machine);
    machine.break_device(0);
    machine.on(0, || timer.start(at(5_000)));
    machine.check();
    machine.run_until(9_000);
    assert_eq!(timer.fired_at(), [5_000]);
}

/// B27: a device that refuses everything is given up, without a loop; and tried again by the next start.
fn b27_a_device_that_refuses_everything_is_tried_again_later<C: Config>() {
    let machine = Machine::<C>::with_devices(1, DeviceClass::Countdown);
    let mono = TestTimer::once(&machine);
    let boot = TestTimer::<C, Boottime>::once_on(&machine);
    machine.refuse_writes(0, 1_000);
    machine.on(0, || mono.start(at(5_000)));
    assert_eq!(machine.fires_at(0), None);
    assert!(machine.armed(0).is_forever(), "nothing counts as armed");
    machine.refuse_writes(0, 0);
    // Later than the other one, and yet written, because nothing is armed.
    machine.on(0, || boot.start(at_on(9_000_000)));
    assert_eq!(machine.fires_at(0), Some(9_000_000));
    machine.run_until(20_000_000);
    assert_eq!(mono.fired_at(), [9_000_000]);
    assert_eq!(boot.fired_at(), [9_000_000]);
}

/// DEV-7: a device that refuses short delays makes the minimum grow, and the timer is late by that.
fn a_minimum_that_is_refused_grows<C: Config>() {
    let machine = Machine::<C>::with_devices(1, DeviceClass::Countdown);
    machine.spend(50_000);
    let timer = TestTimer::once(&machine);
    // The direct attempt, three at 1 µs, three at 5 µs; then 7.5 µs is accepted.
    machine.refuse_writes(0, 7);
    machine.on(0, || timer.start(at(1)));
    assert_eq!(machine.fires_at(0), Some(57_500));
    machine.run_until(60_000);
    assert_eq!(timer.fired_at(), [57_500]);
    assert!(machine.dump().contains("retries:        6"));
}

/// DEV-5: once it fired, the record says that nothing is requested.
fn a_device_that_fired_has_no_event<C: Config>() {
    let machine = Machine::<C>::new(1);
    let timer = TestTimer::once(&machine);
    machine.on(0, || timer.start(at(1_000)));
    assert!(machine.dump().contains("next_event:     1000 nsecs"));
    machine.spend(1_000);
    let _turn = machine.enter_interrupt(0);
    let none = format!("next_event:     {} nsecs", i64::MAX);
    assert!(machine.dump().contains(&none));
    machine.leave_interrupt(0);
    let stopped = "mode:           4\n";
    assert!(machine.dump().contains(stopped), "{}", machine.dump());
}

/// A driver that counts what it is told.
#[derive(Default)]
struct Counts {
    now: Cell<i64>,
    writes: RefCell<Vec<DeviceWrite>>,
}

impl EventDriver for Counts {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.now.get())
    }
    fn cycles_at(&self, _counter: CounterId, _when: Instant) -> Option<Cycles> {
        None
    }
    fn write(&self, write: DeviceWrite) -> Result<(), InPast> {
        self.writes.borrow_mut().push(write);
        Ok(())
    }
    fn set_state(&self, _state: DeviceState) {}
}

/// B12, BC-4: a broadcast device that fires in place of this one ends its forced minimum.
#[test]
fn b12_a_broadcast_ends_a_forced_minimum() {
    // Arms what the environment names, as every machine does.
    let _machine = Machine::<tickless_rig::Deferred>::new(1);
    let driver = Counts::default();
    let mut device = EventDevice::new(DeviceConfig {
        name: "stops in deep idle",
        kind: Kind::Relative,
        hertz: 1_000_000_000,
        min_ticks: Ticks(1_000),
        max_ticks: Ticks(1_000_000_000),
        can_stop: true,
        minimum: MinimumPolicy::Fixed,
    });
    device.set_state(&driver, DeviceState::Oneshot);
    driver.now.set(50_000);
    let program = |device: &mut EventDevice| {
        event::program(device, &driver, Instant::from_nanos(1), Force::Yes).expect("forced");
        driver.writes.take().len()
    };
    assert_eq!(program(&mut device), 1);
    assert_eq!(program(&mut device), 0, "under way");
    device.broadcast_took_over();
    assert_eq!(device.programmed(), Programmed::Idle);
    assert!(device.next_event().is_forever());
    assert_eq!(program(&mut device), 1);
}

all_configs!(
    every_class_is_on_time,
    what_is_over_fires_as_soon_as_possible,
    an_event_beyond_the_range_is_reached_in_steps,
    b11_starting_what_is_over_again_and_again_does_not_starve_the_interrupt,
    b12_an_interrupt_ends_a_forced_minimum,
    b12_a_normal_programming_ends_a_forced_minimum,
    b12_a_change_of_state_ends_a_forced_minimum,
    b12_going_offline_ends_a_forced_minimum,
    b12_stopping_in_deep_idle_ends_a_forced_minimum,
    a_refused_write_ends_a_forced_minimum,
    b13_an_equality_comparator_that_is_at_its_target_has_missed_it,
    b27_a_device_that_refuses_everything_is_tried_again_later,
    a_minimum_that_is_refused_grows,
    a_device_that_fired_has_no_event,
);

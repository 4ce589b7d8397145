use core::cell::{Cell, RefCell};
use std::vec;
use std::vec::Vec;

use super::*;
use crate::clock::{Counter, Keeper, Timekeeper};
use crate::time::convert::Kilohertz;

/// A driver that notes each write, and refuses the next `refuse` of them.
#[derive(Default)]
struct Notes {
    now: Cell<i64>,
    writes: RefCell<Vec<DeviceWrite>>,
    refuse: Cell<u32>,
    coupled: Cell<bool>,
}

impl EventDriver for Notes {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.now.get())
    }
    fn cycles_at(&self, _counter: CounterId, when: Instant) -> Option<Cycles> {
        self.coupled
            .get()
            .then(|| Cycles(when.as_nanos().unsigned_abs() * 2))
    }
    fn write(&self, write: DeviceWrite) -> Result<(), InPast> {
        if self.refuse.get() > 0 {
            self.refuse.set(self.refuse.get() - 1);
            return Err(InPast);
        }
        self.writes.borrow_mut().push(write);
        Ok(())
    }
    fn set_state(&self, _state: DeviceState) {}
}

impl Notes {
    fn take(&self) -> Vec<DeviceWrite> {
        self.writes.take()
    }
}

const GIGAHERTZ: DeviceConfig = DeviceConfig {
    name: "countdown",
    kind: DeviceKind::Relative,
    hertz: 1_000_000_000,
    min_ticks: Ticks(100),
    max_ticks: Ticks(u32::MAX as u64),
    can_stop: true,
    minimum: MinimumPolicy::Fixed,
};

/// Makes a device that is on, and its driver, whose clock shows `now`.
fn ready(config: DeviceConfig, now: i64) -> (Notes, EventDevice) {
    let notes = Notes::default();
    notes.now.set(now);
    let mut device = EventDevice::new(config);
    device.set_state(&notes, DeviceState::Oneshot);
    (notes, device)
}

fn at(nanos: i64) -> Instant {
    Instant::from_nanos(nanos)
}

#[test]
fn delays_have_limits() {
    let device = EventDevice::new(GIGAHERTZ);
    assert_eq!(
        device.min_delay(),
        Span::from_micros(1),
        "DEV-2: never below 1 µs"
    );
    assert!(device.max_delay() <= Span::from_nanos(u64::from(u32::MAX)));
    assert!(device.scale().wait(device.max_delay(), 0) <= GIGAHERTZ.max_ticks);
}

#[test]
fn a_relative_device_gets_the_distance() {
    let (notes, mut device) = ready(GIGAHERTZ, 1_000_000);
    program(&mut device, &notes, at(1_500_000), Force::Yes).expect("in the future");
    assert_eq!(notes.take(), [DeviceWrite::Relative(Ticks(500_000))]);
    assert_eq!(device.programmed(), Programmed::Normal(at(1_500_000)));
}

#[test]
fn a_far_event_is_clamped_to_what_the_device_can_count() {
    let (notes, mut device) = ready(GIGAHERTZ, 0);
    program(&mut device, &notes, Instant::LATEST, Force::Yes).expect("in the future");
    let [DeviceWrite::Relative(ticks)] = notes.take()[..] else {
        panic!("one write")
    };
    assert!(ticks <= GIGAHERTZ.max_ticks);
    assert!(ticks.0 > GIGAHERTZ.max_ticks.0 / 2);
}

#[test]
fn an_event_in_the_past_is_reported_or_forced() {
    let (notes, mut device) = ready(GIGAHERTZ, 10_000);
    assert_eq!(
        program(&mut device, &notes, at(10_000), Force::No),
        Err(InPast)
    );
    assert_eq!(notes.take(), []);
    program(&mut device, &notes, at(5), Force::Yes).expect("forced");
    assert_eq!(notes.take(), [DeviceWrite::Relative(Ticks(100))]);
    assert_eq!(device.next_event(), at(11_000), "DEV-11");
}

#[test]
fn b11_a_forced_minimum_is_not_renewed() {
    let (notes, mut device) = ready(GIGAHERTZ, 1_000_000);
    for _ in 0..1_000 {
        program(&mut device, &notes, at(1), Force::Yes).expect("forced");
    }
    assert_eq!(notes.take().len(), 1);
}

/// DEV-10, B12: tests each event that ends a forced minimum separately.
#[test]
fn b12_every_end_of_a_forced_minimum_allows_the_next() {
    type End = fn(&mut EventDevice, &Notes);
    let ends: [(&str, End); 4] = [
        ("interrupt", |device, _| device.interrupted()),
        ("broadcast", |device, _| device.broadcast_took_over()),
        ("state change", |device, notes| {
            device.set_state(notes, DeviceState::Shutdown);
            device.set_state(notes, DeviceState::Oneshot);
        }),
        ("normal programming", |device, notes| {
            program(device, notes, at(9_000_000), Force::Yes).expect("in the future");
        }),
    ];
    for (name, end) in ends {
        let (notes, mut device) = ready(GIGAHERTZ, 1_000_000);
        program(&mut device, &notes, at(1), Force::Yes).expect("forced");
        end(&mut device, &notes);
        notes.take();
        program(&mut device, &notes, at(1), Force::Yes).expect("forced again");
        assert_eq!(
            notes.take(),
            [DeviceWrite::Relative(Ticks(100))],
            "after {name}"
        );
    }
}

/// A refusal means that the device will not fire. So a pending forced minimum has ended too and must be written again.
#[test]
fn a_refused_write_ends_a_forced_minimum() {
    let (notes, mut device) = ready(GIGAHERTZ, 1_000_000);
    program(&mut device, &notes, at(1), Force::Yes).expect("forced");
    assert_eq!(notes.take(), [DeviceWrite::Relative(Ticks(100))]);
    notes.refuse.set(1);
    program(&mut device, &notes, at(1_005_000), Force::Yes).expect("the minimum is accepted");
    assert_eq!(notes.take(), [DeviceWrite::Relative(Ticks(100))]);
}

#[test]
fn no_event_stops_the_device_and_the_next_starts_it() {
    let (notes, mut device) = ready(GIGAHERTZ, 0);
    program(&mut device, &notes, Instant::FOREVER, Force::Yes).expect("stopping is no error");
    assert_eq!(device.state(), DeviceState::OneshotStopped);
    program(&mut device, &notes, at(5_000), Force::Yes).expect("in the future");
    assert_eq!(device.state(), DeviceState::Oneshot);
}

#[test]
fn b27_a_device_that_refuses_everything_is_given_up() {
    for minimum in [
        MinimumPolicy::Fixed,
        MinimumPolicy::Adaptive {
            limit: Span::from_millis(4),
        },
    ] {
        let config = DeviceConfig {
            minimum,
            ..GIGAHERTZ
        };
        let (notes, mut device) = ready(config, 1_000_000);
        notes.refuse.set(u32::MAX);
        assert_eq!(program(&mut device, &notes, at(1), Force::Yes), Err(InPast));
        assert_eq!(device.next_event(), Instant::FOREVER);
        assert!(device.min_delay() <= Span::from_millis(4));
        assert!(
            (10..200).contains(&device.retries()),
            "{}",
            device.retries()
        );
    }
}

#[test]
fn an_adaptive_minimum_grows_until_it_is_accepted() {
    let minimum = MinimumPolicy::Adaptive {
        limit: Span::from_millis(4),
    };
    let config = DeviceConfig {
        minimum,
        ..GIGAHERTZ
    };
    let (notes, mut device) = ready(config, 1_000_000);
    // The direct attempt, three at 1 µs, three at 5 µs; then 7.5 µs is accepted.
    notes.refuse.set(7);
    program(&mut device, &notes, at(1), Force::Yes).expect("accepted in the end");
    assert_eq!(device.min_delay(), Span::from_nanos(7_500));
    assert_eq!(notes.take(), vec![DeviceWrite::Relative(Ticks(7_500))]);
}

/// A driver whose clock is a real record of a counter. The driver counts the readings of that counter.
struct ByRecord {
    timekeeper: Timekeeper,
    cycles: Cell<u64>,
    readings: Cell<u32>,
    notes: Notes,
}

impl EventDriver for ByRecord {
    fn now(&self) -> Instant {
        self.timekeeper.now(|| {
            self.readings.set(self.readings.get() + 1);
            Cycles(self.cycles.get())
        })
    }
    fn cycles_at(&self, counter: CounterId, when: Instant) -> Option<Cycles> {
        self.timekeeper.cycles_at(counter, when)
    }
    fn write(&self, write: DeviceWrite) -> Result<(), InPast> {
        self.notes.write(write)
    }
    fn set_state(&self, _state: DeviceState) {}
}

const COUNTER: Counter = Counter {
    id: CounterId(1),
    frequency: Kilohertz(2_000_000),
    bits: 64,
    can_inline: true,
};
const COUPLED: DeviceConfig = DeviceConfig {
    kind: DeviceKind::Coupled(COUNTER.id),
    ..GIGAHERTZ
};

fn by_record() -> (ByRecord, Keeper) {
    let (timekeeper, keeper) = Timekeeper::new(COUNTER, Cycles(0));
    let driver = ByRecord {
        timekeeper,
        cycles: Cell::new(0),
        readings: Cell::new(0),
        notes: Notes::default(),
    };
    (driver, keeper)
}

/// CPL-4, CPL-5, CPL-7: a coupled device is programmed with a counter value, and no counter is read, whether the clock
/// is steered or not, and whether the deadline is ahead or over, near or far. When another counter or none drives the
/// time, the device is programmed with a delay, for which a counter is read.
#[test]
fn coupled_programming_reads_no_counter() {
    let (driver, mut keeper) = by_record();
    let mut device = EventDevice::new(COUPLED);
    device.set_state(&driver, DeviceState::Oneshot);
    for step in 1..200_u32 {
        driver.cycles.set(u64::from(step) * 1_234_567);
        let rate = if step.is_multiple_of(2) {
            500_000
        } else {
            -500_000
        };
        keeper.steer(&driver.timekeeper, Cycles(driver.cycles.get()), rate);
        let now = i64::from(step) * 617_283;
        // Nearer than the shortest delay, and further than the longest.
        for ahead in [-1_000_000, 0, 1, 500, 1_000_000, 900_000_000_000] {
            program(&mut device, &driver, at((now + ahead).max(0)), Force::No)
                .expect("it cannot fail");
            let [DeviceWrite::Coupled(_)] = driver.notes.take()[..] else {
                panic!("told a value")
            };
        }
    }
    assert_eq!(driver.readings.get(), 0);
    let spare = Counter {
        id: CounterId(2),
        ..COUNTER
    };
    let cycles = Cycles(driver.cycles.get());
    keeper
        .switch_counter(&driver.timekeeper, cycles, spare, cycles)
        .expect("it counts");
    program(&mut device, &driver, at(900_000_000_000), Force::Yes).expect("ahead");
    assert!(matches!(
        driver.notes.take()[..],
        [DeviceWrite::Relative(_)]
    ));
    assert_eq!(driver.readings.get(), 1);
    keeper.suspend(&driver.timekeeper, cycles);
    program(&mut device, &driver, at(900_000_000_000), Force::Yes).expect("ahead");
    assert!(matches!(
        driver.notes.take()[..],
        [DeviceWrite::Relative(_)]
    ));
}

/// CPL-5: a pending forced minimum does not keep the core from programming a coupled device, and ends with that
/// programming.
#[test]
fn a_coupled_programming_ends_a_forced_minimum() {
    let (notes, mut device) = ready(COUPLED, 10_000);
    program(&mut device, &notes, at(5), Force::Yes).expect("forced");
    assert!(matches!(device.programmed(), Programmed::ForcedMinimum(_)));
    notes.coupled.set(true);
    notes.take();
    program(&mut device, &notes, at(5), Force::Yes).expect("it cannot fail");
    assert_eq!(notes.take(), [DeviceWrite::Coupled(Cycles(10))]);
    assert_eq!(device.programmed(), Programmed::Normal(at(5)));
}

/// CPL-5: nothing is written to a device that is off, and no counter value is computed for a software device.
#[test]
fn devices_that_are_off_or_software_come_before_coupling() {
    let (driver, _keeper) = by_record();
    let mut device = EventDevice::new(COUPLED);
    device.set_state(&driver, DeviceState::Shutdown);
    program(&mut device, &driver, at(5_000), Force::No).expect("no error");
    assert_eq!(driver.notes.take(), []);
    assert_eq!(device.next_event(), at(5_000));
    let mut device = EventDevice::new(DeviceConfig::software("software"));
    device.set_state(&driver, DeviceState::Oneshot);
    program(&mut device, &driver, at(5_000), Force::No).expect("no error");
    assert_eq!(driver.notes.take(), [DeviceWrite::Absolute(at(5_000))]);
    assert_eq!(driver.readings.get(), 0);
}

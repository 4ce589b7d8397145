use core::cell::{Cell, RefCell};
use std::vec;
use std::vec::Vec;

use super::*;

/// A driver that notes what it is told, and refuses the next `refuse` writes.
#[derive(Default)]
struct Notes {
    now: Cell<i64>,
    writes: RefCell<Vec<DeviceWrite>>,
    refuse: Cell<u32>,
    readings: Cell<u32>,
    coupled: Cell<bool>,
}

impl EventDriver for Notes {
    fn now(&self) -> Instant {
        self.readings.set(self.readings.get() + 1);
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
    kind: Kind::Relative,
    hertz: 1_000_000_000,
    min_ticks: Ticks(100),
    max_ticks: Ticks(u32::MAX as u64),
    can_stop: true,
    minimum: MinimumPolicy::Fixed,
};

fn device(config: DeviceConfig, notes: &Notes) -> EventDevice {
    let mut device = EventDevice::new(config);
    device.set_state(notes, DeviceState::Oneshot);
    device
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
    let notes = Notes::default();
    let mut device = device(GIGAHERTZ, &notes);
    notes.now.set(1_000_000);
    program(&mut device, &notes, at(1_500_000), Force::Yes).expect("in the future");
    assert_eq!(notes.take(), [DeviceWrite::Relative(Ticks(500_000))]);
    assert_eq!(device.programmed(), Programmed::Normal(at(1_500_000)));
}

#[test]
fn a_far_event_is_clamped_to_what_the_device_can_count() {
    let notes = Notes::default();
    let mut device = device(GIGAHERTZ, &notes);
    program(&mut device, &notes, Instant::LATEST, Force::Yes).expect("in the future");
    let [DeviceWrite::Relative(ticks)] = notes.take()[..] else {
        panic!("one write")
    };
    assert!(ticks <= GIGAHERTZ.max_ticks);
    assert!(ticks.0 > GIGAHERTZ.max_ticks.0 / 2);
}

#[test]
fn an_event_in_the_past_is_reported_or_forced() {
    let notes = Notes::default();
    let mut device = device(GIGAHERTZ, &notes);
    notes.now.set(10_000);
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
    let notes = Notes::default();
    let mut device = device(GIGAHERTZ, &notes);
    notes.now.set(1_000_000);
    for _ in 0..1_000 {
        program(&mut device, &notes, at(1), Force::Yes).expect("forced");
    }
    assert_eq!(notes.take().len(), 1);
}

/// DEV-10, B12: everything that ends a forced minimum, each by itself.
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
        let notes = Notes::default();
        let mut device = device(GIGAHERTZ, &notes);
        notes.now.set(1_000_000);
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

/// A refusal says that the device will not fire, so a minimum that was under way is over too and must be written again.
#[test]
fn a_refused_write_ends_a_forced_minimum() {
    let notes = Notes::default();
    let mut device = device(GIGAHERTZ, &notes);
    notes.now.set(1_000_000);
    program(&mut device, &notes, at(1), Force::Yes).expect("forced");
    assert_eq!(notes.take(), [DeviceWrite::Relative(Ticks(100))]);
    notes.refuse.set(1);
    program(&mut device, &notes, at(1_005_000), Force::Yes).expect("the minimum is accepted");
    assert_eq!(notes.take(), [DeviceWrite::Relative(Ticks(100))]);
}

#[test]
fn a_coupled_device_reads_no_clock() {
    let notes = Notes::default();
    notes.coupled.set(true);
    let config = DeviceConfig {
        kind: Kind::Coupled(CounterId(1)),
        ..GIGAHERTZ
    };
    let mut device = device(config, &notes);
    program(&mut device, &notes, at(5_000), Force::Yes).expect("cannot fail");
    program(&mut device, &notes, at(0), Force::Yes).expect("the past fires at once");
    assert_eq!(
        notes.take(),
        [
            DeviceWrite::Coupled(Cycles(10_000)),
            DeviceWrite::Coupled(Cycles(0))
        ]
    );
    assert_eq!(notes.readings.get(), 0);
}

#[test]
fn a_coupled_device_falls_back_when_another_counter_drives_the_time() {
    let notes = Notes::default();
    let config = DeviceConfig {
        kind: Kind::Coupled(CounterId(1)),
        ..GIGAHERTZ
    };
    let mut device = device(config, &notes);
    program(&mut device, &notes, at(5_000), Force::Yes).expect("in the future");
    assert_eq!(notes.take(), [DeviceWrite::Relative(Ticks(5_000))]);
    assert_eq!(notes.readings.get(), 1);
}

#[test]
fn no_event_stops_the_device_and_the_next_starts_it() {
    let notes = Notes::default();
    let mut device = device(GIGAHERTZ, &notes);
    program(&mut device, &notes, Instant::FOREVER, Force::Yes).expect("stopping is no error");
    assert_eq!(device.state(), DeviceState::OneshotStopped);
    program(&mut device, &notes, at(5_000), Force::Yes).expect("in the future");
    assert_eq!(device.state(), DeviceState::Oneshot);
}

#[test]
fn a_device_that_is_switched_off_is_left_alone() {
    let notes = Notes::default();
    let mut device = device(GIGAHERTZ, &notes);
    device.set_state(&notes, DeviceState::Shutdown);
    program(&mut device, &notes, at(5_000), Force::Yes).expect("no error");
    assert_eq!(notes.take(), []);
    assert_eq!(device.next_event(), at(5_000));
}

#[test]
fn a_refused_write_falls_back_to_the_minimum() {
    let notes = Notes::default();
    let mut device = device(GIGAHERTZ, &notes);
    notes.refuse.set(1);
    program(&mut device, &notes, at(5_000), Force::Yes).expect("the minimum is accepted");
    assert_eq!(notes.take(), [DeviceWrite::Relative(Ticks(100))]);
}

#[test]
fn b27_a_device_that_refuses_everything_is_given_up() {
    for minimum in [
        MinimumPolicy::Fixed,
        MinimumPolicy::Adaptive {
            limit: Span::from_millis(4),
        },
    ] {
        let notes = Notes::default();
        let mut device = device(
            DeviceConfig {
                minimum,
                ..GIGAHERTZ
            },
            &notes,
        );
        notes.refuse.set(u32::MAX);
        notes.now.set(1_000_000);
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
    let notes = Notes::default();
    let minimum = MinimumPolicy::Adaptive {
        limit: Span::from_millis(4),
    };
    let mut device = device(
        DeviceConfig {
            minimum,
            ..GIGAHERTZ
        },
        &notes,
    );
    notes.now.set(1_000_000);
    // The direct attempt, three at 1 µs, three at 5 µs; then 7.5 µs is accepted.
    notes.refuse.set(7);
    program(&mut device, &notes, at(1), Force::Yes).expect("accepted in the end");
    assert_eq!(device.min_delay(), Span::from_nanos(7_500));
    assert_eq!(notes.take(), vec![DeviceWrite::Relative(Ticks(7_500))]);
}

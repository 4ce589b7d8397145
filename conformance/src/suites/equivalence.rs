//! Cases that run the same script on every host (A5, REARM-13).
//!
//! Deferral, laziness, coupling and the kind of device change when the device is written, and never which timers fire
//! at which time. The scripts keep to a grid of 10 µs, with operations half-way between the points of the grid. The
//! shortest delay of a device therefore makes no difference: firings are compared by their slots of the grid.

use alloc::rc::Rc;
use core::cell::{Cell, RefCell};

use tickless_core::hrtimer::{Restart, Setup, Stage};
use tickless_core::time::{Boottime, ClockId, Instant, Monotonic, Realtime, Span};

use crate::prelude::*;
use crate::random::Random;
use crate::suite::{at_on, drawn};
use crate::{Anew, DeviceClass, Host, Immediate, Interrupted, Rig, Schedule, TestTimer};

const SLOT: i64 = 10_000;
const CPUS: u32 = 3;
const TIMERS: usize = 10;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Start {
        /// The number of slots until the step.
        slots: i64,
        slack: u64,
        /// The number and the period of the restarts.
        again: (u32, u64),
        pinned: bool,
    },
    Cancel,
    /// Moves the time of day by this number of slots.
    SetWall(i64),
    /// The CPU reschedules at its next interrupt.
    Reschedule,
    /// Takes the CPU offline, or online again.
    Toggle,
    Suspend(i64),
}

#[derive(Clone, Copy, Debug)]
struct Step {
    slots: i64,
    cpu: u32,
    timer: usize,
    operation: Operation,
}

fn script(seed: u64, slack: bool) -> Vec<Step> {
    let mut random = Random::new(seed);
    (0..120)
        .map(|_| Step {
            slots: random.between(1, 4),
            cpu: u32::try_from(random.below(u64::from(CPUS))).expect("small"),
            timer: random.index(TIMERS),
            operation: match random.below(16) {
                0..=8 => Operation::Start {
                    slots: random.between(-3, 30),
                    slack: if slack { random.below(8) } else { 0 },
                    again: (
                        u32::try_from(random.below(4)).expect("small"),
                        1 + random.below(7),
                    ),
                    pinned: random.one_in(3),
                },
                9..=11 => Operation::Cancel,
                12 => Operation::SetWall(random.between(-20, 20)),
                13 => Operation::Reschedule,
                14 => Operation::Toggle,
                _ => Operation::Suspend(random.between(0, 30)),
            },
        })
        .collect()
}

/// The firings in order: the number of the timer, and the slot.
type Firings = Rc<RefCell<Vec<(usize, i64)>>>;

trait AnyTimer {
    fn start(&self, slots: i64, slack: u64, again: (u32, u64), pinned: bool);
    fn cancel(&self);
}

struct Actor<H: Host, T: ClockId> {
    rig: Rig<H>,
    timer: TestTimer<H, T>,
    again: Rc<Cell<(u32, u64)>>,
}

impl<H: Host, T: ClockId> Actor<H, T> {
    fn boxed(rig: &Rig<H>, number: usize, setup: Setup, firings: &Firings) -> Box<dyn AnyTimer> {
        let again = Rc::new(Cell::new((0, 1)));
        let timer = {
            let (rig, again, firings) = (rig.clone(), Rc::clone(&again), Rc::clone(firings));
            TestTimer::with_setup(&rig.clone(), setup, move |expired| {
                firings.borrow_mut().push((number, rig.now() / SLOT));
                let (times, period) = again.get();
                if times == 0 {
                    return Restart::No;
                }
                again.set((times - 1, period));
                expired.forward_now(Span::from_nanos(period * SLOT.unsigned_abs()));
                Restart::Yes
            })
        };
        Box::new(Self {
            rig: rig.clone(),
            timer,
            again,
        })
    }
}

impl<H: Host, T: ClockId> AnyTimer for Actor<H, T> {
    fn start(&self, slots: i64, slack: u64, again: (u32, u64), pinned: bool) {
        self.again.set(again);
        let now = self.rig.monotonic().as_nanos() / SLOT * SLOT;
        let when = now + slots * SLOT + self.rig.offset(T::CLOCK);
        let start = at_on::<T>(when).slack(Span::from_nanos(slack * SLOT.unsigned_abs()));
        self.timer
            .start(if pinned { start.pinned() } else { start });
    }

    fn cancel(&self) {
        self.timer.cancel();
    }
}

/// Makes the timers of a script, on all stages and clocks.
fn actors<H: Host>(rig: &Rig<H>, lazy: bool, firings: &Firings) -> Vec<Box<dyn AnyTimer>> {
    (0..TIMERS)
        .map(|number| {
            let mut setup = Setup::new();
            if number % 4 == 1 {
                setup = setup.stage(Stage::Soft);
            }
            if lazy {
                setup = setup.lazy();
            }
            match number % 5 {
                0 => Actor::<H, Realtime>::boxed(rig, number, setup, firings),
                1 => Actor::<H, Boottime>::boxed(rig, number, setup, firings),
                _ => Actor::<H, Monotonic>::boxed(rig, number, setup, firings),
            }
        })
        .collect()
}

/// Returns every kind of return path of an interrupt in turn.
fn way_out(interrupt: u32) -> (Interrupted, Schedule<'static>) {
    let same = Schedule {
        switches: false,
        ..Schedule::SWITCH
    };
    let extension = Schedule {
        extension: true,
        ..Schedule::SWITCH
    };
    match interrupt % 5 {
        0 => (Interrupted::User, Schedule::SWITCH),
        1 => (Interrupted::User, same),
        2 => (Interrupted::User, extension),
        3 => (Interrupted::Kernel, Schedule::SWITCH),
        _ => (Interrupted::Masked, Schedule::SWITCH),
    }
}

/// The wall clock and the online CPUs, which a script changes in addition to the timers.
struct Surroundings {
    wall: i64,
    online: [bool; CPUS as usize],
}

impl Surroundings {
    fn execute<H: Host>(&mut self, rig: &Rig<H>, step: &Step, timer: &dyn AnyTimer) {
        match step.operation {
            Operation::Start {
                slots,
                slack,
                again,
                pinned,
            } => rig.on(step.cpu, || timer.start(slots, slack, again, pinned)),
            Operation::Cancel => rig.on(step.cpu, || timer.cancel()),
            Operation::SetWall(slots) => {
                self.wall += slots * SLOT;
                rig.set_wall(step.cpu, self.wall);
            }
            Operation::Reschedule => rig.set_need_resched(step.cpu),
            Operation::Toggle if step.cpu == 0 => {}
            Operation::Toggle => {
                let online = &mut self.online[step.cpu as usize];
                *online = !*online;
                if *online {
                    rig.online(step.cpu)
                } else {
                    rig.offline(step.cpu)
                }
            }
            Operation::Suspend(slots) => {
                self.wall += slots * SLOT;
                rig.suspend_for(slots * SLOT);
            }
        }
    }
}

fn play<H: Host>(script: &[Step], class: DeviceClass, lazy: bool) -> Vec<(usize, i64)> {
    let rig = Rig::<H>::with_devices(CPUS, class);
    let mut surroundings = Surroundings {
        wall: 1_000_000 * SLOT,
        online: [true; CPUS as usize],
    };
    rig.set_wall(0, surroundings.wall);
    let firings = Firings::default();
    let timers = actors(&rig, lazy, &firings);
    rig.spend(SLOT / 2);
    let interrupts = Cell::new(0);
    let path = |_| {
        interrupts.set(interrupts.get() + 1);
        way_out(interrupts.get())
    };
    for step in script {
        rig.run_until_by(rig.now() + step.slots * SLOT, &path);
        surroundings.execute(&rig, step, &*timers[step.timer]);
        rig.deliver_all();
        rig.check();
    }
    rig.run_until(rig.now() + 400 * SLOT);
    drop(timers);
    firings.take()
}

/// Returns the firings on the host with which all other hosts are compared.
fn reference(script: &[Step]) -> Vec<(usize, i64)> {
    play::<Immediate>(script, DeviceClass::Software, false)
}

/// A5: with exact timers and with lazy timers, and without slack, the sequences of firings are equal.
pub fn laziness_deferral_and_devices_change_nothing_that_fires<H: Host>() {
    for seed in 0..drawn(12) {
        let script = script(seed, false);
        let reference = reference(&script);
        assert!(reference.len() > 20, "the script does something");
        for class in DeviceClass::ALL {
            for lazy in [false, true] {
                let firings = play::<H>(&script, class, lazy);
                assert_eq!(firings, reference, "seed {seed}: {class:?}, lazy {lazy}");
            }
        }
    }
}

/// A5: with slack, the interrupts decide which timers fire together, and the interrupts are the same whichever code
/// writes the device.
pub fn deferral_and_devices_change_no_batch<H: Host>() {
    for seed in 100..100 + drawn(12) {
        let script = script(seed, true);
        let reference = reference(&script);
        for class in DeviceClass::ALL {
            assert_eq!(
                play::<H>(&script, class, false),
                reference,
                "seed {seed}: {class:?}"
            );
        }
    }
}

/// Requeueing at each start changes only the cost of a start and the order of equal deadlines: a timer that is started
/// for the deadline that it already has is queued after the other timers with that deadline.
pub fn filing_anew_changes_nothing_that_fires<H: Host>() {
    let by_slot = |mut firings: Vec<(usize, i64)>| {
        firings.sort_by_key(|(timer, slot)| (*slot, *timer));
        firings
    };
    for seed in 200..200 + drawn(12) {
        let script = script(seed, false);
        for lazy in [false, true] {
            let [kept, anew] = [play::<H>, play::<Anew>]
                .map(|play| by_slot(play(&script, DeviceClass::Software, lazy)));
            assert_eq!(kept, anew, "seed {seed}, lazy {lazy}");
        }
    }
    let kept = |rig: &Rig<Anew>| rig.stats(0).kept();
    let rig = Rig::<Anew>::new(1);
    let timers: Vec<_> = (0..3).map(|_| TestTimer::once(&rig)).collect();
    rig.on(0, || {
        for deadline in [9_000, 8_000, 8_500, 8_500] {
            for timer in &timers {
                timer.start(at_on(deadline));
            }
        }
    });
    rig.check();
    assert_eq!((rig.stats(0).starts, kept(&rig)), (12, 0));
    rig.run_until(10_000);
    assert!(timers.iter().all(|timer| timer.fired_at() == [8_500]));
}

/// V3: the same script on the same host gives the same trace, to the last event.
pub fn the_same_script_gives_the_same_trace<H: Host>() {
    let run = || {
        let rig = Rig::<H>::new(2);
        let timers: Vec<_> = (0..4).map(|_| TestTimer::once(&rig)).collect();
        let mut random = Random::new(5);
        for _ in 0..200 {
            let timer = &timers[random.index(4)];
            let when = Instant::<Monotonic>::from_nanos(rig.now() + random.between(0, 5_000));
            rig.on(u32::from(random.one_in(2)), || {
                timer.start(at_on(when.as_nanos()))
            });
            rig.run_until(rig.now() + random.between(0, 3_000));
        }
        // Addresses are the one thing that may differ.
        let mut addresses = Vec::new();
        let mut text = format!("{:?}", rig.take_trace());
        for timer in &timers {
            addresses.push(format!("{:?}", timer.id()));
        }
        for (number, address) in addresses.iter().enumerate() {
            text = text.replace(address, &format!("#{number}"));
        }
        text
    };
    assert_eq!(run(), run());
}

crate::kit::cases!(equivalence:
    laziness_deferral_and_devices_change_nothing_that_fires [CPUS, PATHS, CLOCKS, DEVICES],
    deferral_and_devices_change_no_batch [CPUS, PATHS, CLOCKS, DEVICES],
    filing_anew_changes_nothing_that_fires [CPUS, PATHS, CLOCKS, DEVICES],
    the_same_script_gives_the_same_trace [CPUS, TRACE],
);

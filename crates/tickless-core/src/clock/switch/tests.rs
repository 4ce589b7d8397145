//! Tests of guarded clocks, step by step on one thread.

use core::cell::{Cell, RefCell};
use std::rc::Rc;
use std::vec::Vec;

use super::*;
use crate::clock::Slept;
use crate::time::convert::Kilohertz;

const TSC: Counter = Counter {
    id: CounterId(1),
    frequency: Kilohertz(2_000_000),
    bits: 64,
    can_inline: true,
};
const SLOW: Counter = Counter {
    id: CounterId(2),
    frequency: Kilohertz(10_000),
    bits: 32,
    can_inline: false,
};

/// Counters that count a true time, with a record of the calls to them.
#[derive(Clone, Default)]
struct Machine {
    nanos: Rc<Cell<u64>>,
    inlined: Rc<Cell<u32>>,
    called: Rc<RefCell<Vec<CounterId>>>,
}

impl Counters for Machine {
    #[inline(always)]
    fn read_inlined(&self) -> Cycles {
        self.inlined.set(self.inlined.get() + 1);
        Cycles(self.nanos.get() * 2)
    }
    fn read(&self, counter: CounterId) -> Cycles {
        self.called.borrow_mut().push(counter);
        if counter == TSC.id {
            Cycles(self.nanos.get() * 2)
        } else {
            Cycles((self.nanos.get() / 100 + 77) & 0xFFFF_FFFF)
        }
    }
}

/// A host that records the steps of a switch, in order, and the times that a reader saw at each step.
struct Notes<'a> {
    clock: &'a GuardedClock<Machine>,
    steps: Vec<(&'static str, bool, Option<CounterId>)>,
    shown: Vec<i64>,
}

impl Notes<'_> {
    fn note(&mut self, step: &'static str) {
        let counter = self.clock.timekeeper().counter();
        self.steps.push((step, self.clock.is_inlined(), counter));
        self.shown.push(self.clock.now().as_nanos());
    }
}

impl SwitchHost for Notes<'_> {
    fn wait_for_readers(&mut self) {
        self.note("see off");
    }
    fn stop_cpus(&mut self, install: &mut dyn FnMut()) {
        self.note("stop");
        install();
        self.note("go on");
    }
    fn tell_ticks(&mut self, _counter: &Counter) {
        self.note("tell");
    }
}

fn notes(clock: &GuardedClock<Machine>) -> Notes<'_> {
    Notes {
        clock,
        steps: Vec::new(),
        shown: Vec::new(),
    }
}

/// TIM-43: a switch has these steps in this order, and the time is the same at each step.
#[test]
fn a_switch_goes_step_by_step() {
    let machine = Machine::default();
    let (clock, mut keeper) = GuardedClock::new(machine.clone(), TSC).expect("it counts");
    machine.nanos.set(5_000_000);
    let mut host = notes(&clock);
    let switched = clock.switch(&mut keeper, SLOW, &mut host);
    assert_eq!(switched, Ok(Switched::Called));
    let (old, new) = (Some(TSC.id), Some(SLOW.id));
    let expected = [
        ("see off", false, old),
        ("stop", false, old),
        ("go on", false, new),
        ("tell", false, new),
    ];
    assert_eq!(host.steps, expected);
    assert_eq!(host.shown, [5_000_000; 4]);

    machine.nanos.set(9_000_000);
    let mut host = notes(&clock);
    let switched = clock.switch(&mut keeper, TSC, &mut host);
    assert_eq!(switched, Ok(Switched::Inlined));
    let expected = [
        ("see off", false, new),
        ("stop", false, new),
        ("go on", false, old),
        ("tell", true, old),
    ];
    assert_eq!(host.steps, expected);
    assert_eq!(host.shown, [9_000_000; 4]);
}

/// TIM-42, TIM-46: while the guard is on, a reading calls no function of the host's table. While the guard is off, it
/// reads the counter of the record by the host's function.
#[test]
fn a_reading_calls_nothing_where_it_can_read_inline() {
    let machine = Machine::default();
    let (clock, mut keeper) = GuardedClock::new(machine.clone(), TSC).expect("it counts");
    machine.called.borrow_mut().clear();
    let _now = clock.now();
    assert_eq!(machine.inlined.get(), 1);
    assert!(machine.called.borrow().is_empty());
    clock
        .switch(&mut keeper, SLOW, &mut notes(&clock))
        .expect("it counts");
    machine.called.borrow_mut().clear();
    machine.inlined.set(0);
    let _now = clock.now();
    assert_eq!(machine.inlined.get(), 0);
    assert_eq!(*machine.called.borrow(), [SLOW.id]);
}

/// TIM-43, step 1: a switch to the current counter changes nothing. A switch to a counter that cannot drive the time
/// changes nothing either.
#[test]
fn a_counter_that_is_current_or_bad_is_not_installed() {
    let machine = Machine::default();
    let (clock, mut keeper) = GuardedClock::new(machine, TSC).expect("it counts");
    let mut host = notes(&clock);
    assert_eq!(
        clock.switch(&mut keeper, TSC, &mut host),
        Ok(Switched::Current)
    );
    let bad = Counter { bits: 0, ..SLOW };
    let refused = clock.switch(&mut keeper, bad, &mut host);
    assert_eq!(refused, Err(BadCounter::Width { bits: 0 }));
    assert!(host.steps.is_empty());
    assert!(clock.is_inlined());
}

/// A switch while the clock is suspended turns the guard on, which is harmless because no counter drives the time. When
/// the clock is resumed, the guard is right.
#[test]
fn a_switch_in_sleep_leaves_the_guard_as_it_has_to_be() {
    let machine = Machine::default();
    let (clock, mut keeper) = GuardedClock::new(machine.clone(), SLOW).expect("it counts");
    machine.nanos.set(1_000_000);
    keeper.suspend(clock.timekeeper(), machine.read(SLOW.id));
    let switched = clock.switch(&mut keeper, TSC, &mut notes(&clock));
    assert_eq!(switched, Ok(Switched::Inlined));
    machine.nanos.set(7_000_000);
    assert_eq!(clock.now().as_nanos(), 1_000_000);
    keeper.resume(clock.timekeeper(), machine.read(TSC.id), Slept::ByCounter);
    assert_eq!(clock.now().as_nanos(), 1_000_000);
    assert_eq!(keeper.offsets().boottime.as_nanos(), 6_000_000);
    machine.nanos.set(7_500_000);
    assert_eq!(clock.now().as_nanos(), 1_500_000);
}

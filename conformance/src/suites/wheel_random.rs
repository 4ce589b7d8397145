//! Random operations on the wheels of random machines, compared with a flat list of the timers and the times at which
//! they should fire.
//!
//! Coarse timers are armed, modified, reduced, deleted and shut down from everywhere, callbacks included, on CPUs that
//! tick, sleep, come online and go offline. Other CPUs run the global wheels of sleeping CPUs, and passes have budgets.
//! The list contains the queued timers and the right answers: no timer is early or lost, each is late by a slot at
//! most, and the first pass after its slot is due fires it (WHEEL-3). After each step the test walks every wheel (WI1
//! to WI3, WHEEL-2).

use alloc::rc::{Rc, Weak};
use core::cell::{Cell, RefCell};

use tickless_core::coarse::{Restart, StartOutcome, Tick, Timeout, WheelKind};
use tickless_core::platform::CpuId;

use crate::prelude::*;
use crate::random::Random;
use crate::surroundings::OnPanic;
use crate::{CoarseTimer, Host, Rig};

const CPUS: u32 = 3;
const TIMERS: usize = 24;
const STEPS: usize = 150;

/// A queued timer, according to the list.
#[derive(Clone, Copy, Debug)]
struct Queued {
    expiry: u64,
    /// The tick in which the timer was armed.
    since: u64,
    /// The largest distance of the expiry from the clock of the wheel since the timer was put into its slot, in ticks.
    ahead: u64,
    /// True if the expiry was set without a clock reading: the timer may be in a slot that is due before the expiry,
    /// and a pass may enqueue it again.
    in_slot: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Expected {
    queued: Option<Queued>,
    shut: bool,
    running: bool,
}

struct World<H: Host> {
    rig: Rig<H>,
    random: RefCell<Random>,
    timers: RefCell<Vec<Rc<CoarseTimer<H>>>>,
    expected: RefCell<Vec<Expected>>,
    /// The tick of the last pass of each wheel.
    passed: RefCell<Vec<[u64; 3]>>,
    history: RefCell<Vec<(usize, u64)>>,
    /// True if callbacks do nothing any more.
    draining: Cell<bool>,
    seen: RefCell<[u64; 7]>,
}

/// The indices of [`World::seen`] count rare situations. Each must occur now and then, because otherwise the test tests
/// nothing.
const REARMED: usize = 0;
const REMOTE: usize = 1;
const BEYOND: usize = 2;
const SHUT: usize = 3;
const IN_CALLBACK: usize = 4;
const TAKEN_OVER: usize = 5;
const IN_SLOT: usize = 6;

impl<H: Host> World<H> {
    fn new(seed: u64) -> Rc<Self> {
        let rig = Rig::new(CPUS);
        let mut random = Random::new(seed);
        rig.run_to_tick(Tick(random.below(100)));
        let start = rig.tick().0;
        let world = Rc::new(Self {
            rig,
            random: RefCell::new(random),
            timers: RefCell::default(),
            expected: RefCell::new(vec![Expected::default(); TIMERS]),
            passed: RefCell::new(vec![[start; 3]; CPUS as usize]),
            history: RefCell::default(),
            draining: Cell::new(false),
            seen: RefCell::default(),
        });
        for index in 0..TIMERS {
            let kind = WheelKind::ALL[index % 3];
            let own: Weak<Self> = Rc::downgrade(&world);
            let timer = CoarseTimer::new(&world.rig, kind, move |timeout| {
                own.upgrade()
                    .map_or(Restart::No, |world| world.fire(index, timeout))
            });
            world.timers.borrow_mut().push(Rc::new(timer));
        }
        world
    }

    fn below(&self, limit: u64) -> u64 {
        self.random.borrow_mut().below(limit)
    }

    fn saw(&self, what: usize) {
        self.seen.borrow_mut()[what] += 1;
    }

    /// Returns a random expiry, near and far equally often; some have passed already, and some are beyond the range.
    fn expiry(&self) -> u64 {
        let bits = self.below(32);
        let ahead = self.below(1 << bits);
        let expiry = (self.rig.tick().0 + ahead).saturating_sub(self.below(3));
        if ahead > 1_056_964_608 {
            self.saw(BEYOND);
        }
        expiry
    }

    fn timer(&self, index: usize) -> Rc<CoarseTimer<H>> {
        Rc::clone(&self.timers.borrow()[index])
    }

    /// Notes that a timer was armed. The timer itself gives the CPU and the wheel.
    fn note(&self, index: usize, expiry: u64) {
        let (cpu, kind) = self.timer(index).wheel().expect("it is armed");
        let ahead = expiry.saturating_sub(self.passed.borrow()[cpu as usize][kind as usize]);
        let queued = &mut self.expected.borrow_mut()[index].queued;
        let kept = queued.map_or(0, |queued| queued.ahead);
        *queued = Some(Queued {
            expiry,
            since: self.rig.tick().0,
            // It may have kept its slot.
            ahead: ahead.max(kept),
            in_slot: false,
        });
    }

    fn fire(&self, index: usize, timeout: &mut Timeout) -> Restart {
        self.history.borrow_mut().push((index, timeout.now.0));
        let (now, due) = (timeout.now.0, timeout.due.0);
        let queued = {
            let expected = &mut self.expected.borrow_mut()[index];
            assert!(!expected.shut, "it was shut down");
            assert!(!expected.running, "one callback at a time");
            expected.running = true;
            expected.queued.take().expect("only what is queued fires")
        };
        assert_eq!(timeout.expiry.0, queued.expiry, "the latest expiry counts");
        assert!(now > queued.expiry, "never early: {queued:?} at {now}");
        assert!(due <= now);
        let last = self.passed.borrow()[timeout.cpu.0 as usize][timeout.kind as usize];
        let from = queued.expiry.max(queued.since);
        let latest = from + 1 + queued.ahead / 7;
        // A pass that comes late files it again for then.
        assert!(
            due <= latest || (queued.in_slot && last < latest),
            "late by a slot at most: {queued:?} was due at {due}"
        );
        assert!(
            due > last || queued.since >= last,
            "never lost: {queued:?} was due at {due}, and a pass came at {last}"
        );
        if timeout.executed_by != Some(timeout.cpu) {
            assert_eq!(
                timeout.kind,
                WheelKind::Global,
                "no other CPU runs other wheels"
            );
            self.saw(REMOTE);
        }
        let answer = match self.below(8) {
            _ if self.draining.get() => None,
            0 => {
                // Its own, or another one.
                let other = if self.below(2) == 0 {
                    index
                } else {
                    self.random.borrow_mut().index(TIMERS)
                };
                self.saw(IN_CALLBACK);
                self.operate(other);
                None
            }
            1..=3 => Some(self.expiry()),
            _ => None,
        };
        self.expected.borrow_mut()[index].running = false;
        let Some(expiry) = answer else {
            return Restart::No;
        };
        let expected = self.expected.borrow()[index];
        if expected.queued.is_none() && !expected.shut {
            self.saw(REARMED);
            self.note(index, expiry);
        }
        timeout.set_expiry(Tick(expiry));
        Restart::Yes
    }

    /// Makes one random operation on a timer, by the executing CPU.
    fn operate(&self, index: usize) {
        let timer = self.timer(index);
        let before = self.expected.borrow()[index];
        let was_queued = before.queued.is_some();
        let expiry = self.expiry();
        let cpu = u32::try_from(self.below(u64::from(CPUS))).expect("small");
        match self.below(32) {
            0..=7 => self.arm(index, expiry, cpu),
            8..=15 => {
                let answer = timer.modify(expiry);
                if before.shut {
                    assert_eq!(answer, StartOutcome::ShutDown);
                } else {
                    assert_eq!(answer, started(was_queued));
                    self.note(index, expiry);
                }
            }
            16..=19 => {
                let answer = timer.modify_if_active(expiry);
                if before.shut {
                    assert_eq!(answer, StartOutcome::ShutDown);
                } else if was_queued {
                    assert_eq!(answer, StartOutcome::Restarted);
                    self.note(index, expiry);
                } else {
                    assert_eq!(answer, StartOutcome::Unchanged);
                }
            }
            20..=23 if !before.shut => {
                let answer = timer.reduce(expiry);
                if before.queued.is_none_or(|queued| expiry < queued.expiry) {
                    assert_eq!(answer, started(was_queued));
                    self.note(index, expiry);
                } else {
                    assert_eq!(answer, StartOutcome::Unchanged);
                }
            }
            24 if !before.running => {
                assert_eq!(timer.shutdown_sync(), was_queued);
                self.expected.borrow_mut()[index] = Expected {
                    queued: None,
                    shut: true,
                    running: false,
                };
                self.saw(SHUT);
            }
            25..=27 if !before.running => {
                assert_eq!(timer.delete_sync(), was_queued);
                self.expected.borrow_mut()[index].queued = None;
            }
            _ => {
                assert_eq!(timer.delete(), was_queued);
                self.expected.borrow_mut()[index].queued = None;
            }
        }
    }

    /// Changes the expiry of a timer within its slot, by the CPU on which the timer is. The new expiry is mostly a
    /// later one, which this operation is made for.
    fn push(&self, index: usize) {
        let timer = self.timer(index);
        let Some(queued) = self.expected.borrow()[index].queued else {
            return;
        };
        let (cpu, _) = timer.wheel().expect("it is armed");
        let expiry = if self.below(4) == 0 {
            self.expiry()
        } else {
            queued.expiry + self.below(1 << 16)
        };
        if !self.rig.on(cpu, || timer.modify_in_slot(expiry)) {
            return;
        }
        self.note(index, expiry);
        let queued = &mut self.expected.borrow_mut()[index].queued;
        *queued = queued.map(|queued| Queued {
            in_slot: true,
            ..queued
        });
        self.saw(IN_SLOT);
    }

    fn arm(&self, index: usize, expiry: u64, cpu: u32) {
        let timer = self.timer(index);
        let before = self.expected.borrow()[index];
        let offline = !self.rig.base(cpu).is_online();
        let on = self.below(4);
        let answer = match on {
            0 => timer.arm_local(expiry),
            1 => timer.arm_global(expiry),
            2 => timer.arm_on(cpu, expiry),
            _ => timer.arm(expiry),
        };
        if before.shut || before.queued.is_some() || (on == 2 && offline) {
            assert!(answer.is_err());
        } else {
            assert_eq!(answer, Ok(()));
            self.note(index, expiry);
        }
    }

    /// Lets time pass. Every CPU that is awake at the end runs one pass.
    fn pass(&self, ticks: u64) {
        let rig = &self.rig;
        rig.spend(i64::try_from(ticks).expect("within the life") * 1_000_000);
        let now = rig.tick().0;
        for cpu in 0..CPUS {
            if !rig.base(cpu).is_online() {
                continue;
            }
            if rig.timers().wheel_sleeps(CpuId(cpu)) {
                let by = (cpu + 1) % CPUS;
                if self.below(2) == 0 && rig.base(by).is_online() {
                    rig.run_remotely(by, cpu);
                    self.passed.borrow_mut()[cpu as usize][WheelKind::Global as usize] = now;
                }
            } else {
                rig.take_tick(cpu);
                self.passed.borrow_mut()[cpu as usize] = [now; 3];
            }
        }
    }

    fn toggle_sleep(&self, cpu: u32) {
        let rig = &self.rig;
        rig.on(cpu, || {
            if rig.timers().wheel_sleeps(CpuId(cpu)) {
                rig.timers().wheel_leave_idle(CpuId(cpu));
            } else {
                let now = rig.tick();
                rig.timers().wheel_enter_idle(CpuId(cpu), now, |_| true);
            }
        });
    }

    fn toggle_online(&self, cpu: u32) {
        let rig = &self.rig;
        if !rig.base(cpu).is_online() {
            rig.online(cpu);
            self.passed.borrow_mut()[cpu as usize] = [rig.tick().0; 3];
            return;
        }
        let moves: Vec<_> = (0..TIMERS)
            .filter(|&index| {
                self.expected.borrow()[index].queued.is_some()
                    && self.timer(index).wheel().is_some_and(|(on, _)| on == cpu)
            })
            .collect();
        rig.offline(cpu);
        for index in moves {
            let queued = self.expected.borrow()[index].queued.expect("it was");
            self.note(index, queued.expiry);
            self.saw(TAKEN_OVER);
        }
    }

    fn step(&self) {
        let cpu = u32::try_from(self.below(u64::from(CPUS))).expect("small");
        match self.below(16) {
            0 => self.toggle_sleep(cpu),
            // CPU 0 stays.
            1 if cpu > 0 => self.toggle_online(cpu),
            2..=6 => {
                let bits = self.below(20);
                self.pass(self.below(1 << bits));
            }
            7..=8 => {
                let index = self.random.borrow_mut().index(TIMERS);
                self.push(index);
            }
            _ => {
                let index = self.random.borrow_mut().index(TIMERS);
                self.rig.on(cpu, || self.operate(index));
            }
        }
        self.rig.deliver_all();
        self.check();
    }

    fn check(&self) {
        self.rig.check();
        let mut queued = 0;
        for index in 0..TIMERS {
            let (timer, expected) = (self.timer(index), self.expected.borrow()[index]);
            assert_eq!(timer.is_queued(), expected.queued.is_some());
            queued += usize::from(timer.is_queued());
        }
        let pending = |cpu| self.rig.timers().wheel_pending(CpuId(cpu));
        assert_eq!((0..CPUS).map(pending).sum::<usize>(), queued);
    }

    /// Wakes all CPUs, and lets time pass until no timer is queued.
    fn drain(&self) {
        self.draining.set(true);
        for cpu in 0..CPUS {
            if !self.rig.base(cpu).is_online() {
                self.toggle_online(cpu);
            }
            if self.rig.timers().wheel_sleeps(CpuId(cpu)) {
                self.toggle_sleep(cpu);
            }
        }
        for _ in 0..10_000 {
            self.pass(0);
            let first = {
                let expected = self.expected.borrow();
                let queued = expected.iter().filter_map(|expected| expected.queued);
                queued.map(|queued| queued.expiry).min()
            };
            let Some(first) = first else {
                return;
            };
            let now = self.rig.tick().0;
            self.pass((first.abs_diff(now) / 9).max(1));
        }
        panic!("timers are left");
    }
}

fn run<H: Host>(seed: u64) -> (Vec<(usize, u64)>, [u64; 7]) {
    let _says = OnPanic(|| format!("seed {seed} fails"));
    let world = World::<H>::new(seed);
    for _ in 0..STEPS {
        world.step();
    }
    world.drain();
    world.check();
    let result = (world.history.borrow().clone(), *world.seen.borrow());
    world.timers.borrow_mut().clear();
    result
}

fn run_all<H: Host>() {
    let mut sum = [0; 7];
    for seed in 0..40 {
        let (_, seen) = run::<H>(seed);
        for (sum, seen) in sum.iter_mut().zip(seen) {
            *sum += seen;
        }
    }
    assert!(sum.iter().all(|&count| count > 20), "too rare: {sum:?}");
}

/// The wheels agree with a list of all timers.
pub fn the_wheels_agree_with_a_list<H: Host>() {
    run_all::<H>();
}

/// V3: a seed gives the same run every time.
pub fn a_seed_means_the_same_run<H: Host>() {
    for seed in 0..3 {
        assert_eq!(run::<H>(seed), run::<H>(seed));
    }
}

crate::kit::cases!(wheel_random:
    the_wheels_agree_with_a_list [CPUS],
    a_seed_means_the_same_run [CPUS],
);

/// Returns the outcome of a start that takes effect.
fn started(was_queued: bool) -> StartOutcome {
    if was_queued {
        StartOutcome::Restarted
    } else {
        StartOutcome::Started
    }
}

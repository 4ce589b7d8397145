//! Random operations on random machines, compared with a flat list of the timers and the times at which they should
//! fire (spec, ORACLE-1 to 6 and ORACLE-9, A3).
//!
//! Timers are started, restarted, checked and cancelled from everywhere: from CPUs that are busy, idle, isolated,
//! masked or offline, from callbacks of both stages, from the window between an interrupt and the scheduler, and from
//! the scheduler. Clocks are set and steered, the counter is exchanged, CPUs come online and go offline, the host
//! suspends, and callbacks take too long.
//!
//! The list contains exactly the queued timers, their times, and the right answer to each call. It also contains how
//! late each timer may be, which follows from the inexactness of the devices and from the time for which the CPUs could
//! not react.

use alloc::rc::{Rc, Weak};
use core::cell::{Cell, RefCell};

use tickless_core::base::TryCancel;
use tickless_core::event::Flush;
use tickless_core::hrtimer::{Expired, Restart, Setup, Stage, Start};
use tickless_core::platform::Waiting;
use tickless_core::time::{Boottime, ClockId, Instant, Monotonic, Realtime, Span, Tai};
use tickless_core::trace::Event;

use crate::grammar::Grammar;
use crate::prelude::*;
use crate::random::Random;
use crate::suite::drawn;
use crate::surroundings::{self, OnPanic};
use crate::{DeviceClass, Host, Interrupted, Rig, Schedule, Source, TestTimer};

const WALL: i64 = 1_700_000_000_000_000_000;
/// The longest backoff after a hang.
const BACKOFF: i64 = 100_000_000;
const TIMERS: usize = 12;

/// A queued timer, according to the list.
#[derive(Clone, Copy, Debug)]
struct Queued {
    soft: i64,
    hard: i64,
    /// The monotonic time of the start.
    since: i64,
}

/// The expected state of one timer, according to the list.
#[derive(Clone, Copy, Debug, Default)]
struct Expected {
    queued: Option<Queued>,
    running: bool,
    fired: u64,
}

/// The planned part of the next callback of a timer; the callback also has a random part.
#[derive(Clone, Copy, Debug, Default)]
struct Behaviour {
    /// The interval by which the callback restarts its timer, and how often it does.
    again: Option<(u64, u32)>,
    /// The time that the callback takes.
    takes: i64,
    /// True if the callback moves its deadline on before it takes its time, and not afterwards, so that the timer is
    /// due again when the callback ends.
    overload: bool,
}

/// The rig and the expected state of everything on it.
struct World<H: Host> {
    rig: Rig<H>,
    random: RefCell<Random>,
    subjects: RefCell<Vec<Rc<dyn AnySubject<H>>>>,
    grammar: RefCell<Grammar>,
    /// The intervals of monotonic time in which some CPU could not react.
    blocked: RefCell<Vec<(i64, i64)>>,
    /// The time since which each CPU has been masked; `None` if it is not masked.
    masked_since: RefCell<Vec<Option<i64>>>,
    online: RefCell<Vec<bool>>,
    /// The monotonic time at which due times last changed for another reason than a start.
    jumped: Cell<i64>,
    hangs: Cell<u64>,
    /// The number of each timer that fired, and the time: the fingerprint of the run.
    history: RefCell<Vec<(usize, i64)>>,
}

impl<H: Host> World<H> {
    fn roll<R>(&self, roll: impl FnOnce(&mut Random) -> R) -> R {
        roll(&mut self.random.borrow_mut())
    }

    fn one_in(&self, times: u64) -> bool {
        self.roll(|random| random.one_in(times))
    }

    fn cpus(&self) -> u32 {
        self.rig.cpus()
    }

    fn any_cpu(&self) -> u32 {
        let cpus = u64::from(self.cpus());
        u32::try_from(self.roll(|random| random.below(cpus))).expect("few CPUs")
    }

    fn any_subject(&self) -> Rc<dyn AnySubject<H>> {
        let index = self.roll(|random| random.index(TIMERS));
        Rc::clone(&self.subjects.borrow()[index])
    }

    fn monotonic(&self) -> i64 {
        self.rig.monotonic().as_nanos()
    }

    fn spend(&self, nanos: i64) {
        let from = self.monotonic();
        self.rig.spend(nanos);
        self.blocked.borrow_mut().push((from, self.monotonic()));
    }

    /// Returns the time for which CPUs could not react since the monotonic time `since`, plus a margin.
    fn excuses(&self, since: i64) -> i64 {
        let now = self.monotonic();
        let blocked = self.blocked.borrow();
        let ended = blocked
            .iter()
            .map(|&(from, to)| to.min(now) - from.max(since));
        let masked = self.masked_since.borrow();
        let masked = masked.iter().flatten().map(|&from| now - from.max(since));
        ended.chain(masked).map(|time| time.max(0)).sum()
    }

    fn jump(&self) {
        self.jumped.set(self.monotonic());
    }

    /// Checks the new part of the trace.
    fn observe(&self) {
        let trace = self.rig.take_trace();
        for event in &trace {
            if let Event::Hang { .. } = event {
                self.hangs.set(self.hangs.get() + 1);
                let now = self.monotonic();
                self.blocked
                    .borrow_mut()
                    .push((now - BACKOFF, now + BACKOFF));
            }
        }
        self.grammar.borrow_mut().follow(&trace);
    }

    fn set_wall(&self, cpu: u32) {
        let change = self.roll(|random| random.between(-10_000_000_000, 10_000_000_000));
        self.jump();
        self.rig.set_wall(cpu, WALL + change);
    }

    fn unmask(&self, cpu: u32) {
        let since = self.masked_since.borrow_mut()[cpu as usize].take();
        if let Some(since) = since {
            self.blocked.borrow_mut().push((since, self.monotonic()));
            self.rig.set_masked(cpu, false);
        }
    }

    fn mask(&self, cpu: u32) {
        self.masked_since.borrow_mut()[cpu as usize] = Some(self.monotonic());
        self.rig.set_masked(cpu, true);
    }

    /// Makes one random start or cancel, from any CPU.
    fn disturb(&self, cpu: u32) {
        let subject = self.any_subject();
        if self.one_in(3) {
            subject.cancel(self, cpu);
        } else {
            subject.start(self, cpu);
        }
    }

    /// Executes the random part of a callback: it starts and cancels other timers or its own, on this CPU or another,
    /// and requests a reschedule.
    fn improvise(&self, here: u32) {
        while self.one_in(3) {
            let cpu = if self.one_in(2) { here } else { self.any_cpu() };
            match self.roll(|random| random.below(4)) {
                0 | 1 => self.disturb(cpu),
                2 => self.rig.set_need_resched(here),
                _ => self.spend(500),
            }
        }
    }

    /// Executes random operations in the window between an interrupt and the scheduler.
    fn before_the_scheduler(&self) {
        let here = self.rig.this_cpu().expect("a CPU is interrupted");
        match self.roll(|random| random.below(6)) {
            0 => self
                .rig
                .interrupt(here, Interrupted::Kernel, &Schedule::SWITCH),
            1 => self.spend(700),
            2 => self.disturb(here),
            3 => self.disturb(self.any_cpu()),
            4 => self.set_wall(self.any_cpu()),
            _ => {}
        }
    }

    /// Executes the scheduler's part of a reschedule.
    fn pick(&self) {
        let here = self.rig.this_cpu().expect("a CPU schedules");
        match self.roll(|random| random.below(8)) {
            0 => self.disturb(here),
            1 => self.disturb(self.any_cpu()),
            2 => self.set_wall(self.any_cpu()),
            3 => {
                let other = self.any_cpu();
                if other != here {
                    self.toggle(other);
                }
            }
            _ => {}
        }
    }

    /// Lets time pass, with every kind of return path of an interrupt.
    fn run_for(&self, span: i64) {
        let before = || self.before_the_scheduler();
        let pick = || self.pick();
        let path = |_| {
            self.observe();
            let (kind, switches, extension) =
                self.roll(|random| (random.below(5), random.one_in(2), random.one_in(4)));
            let interrupted = match kind {
                0 => Interrupted::Kernel,
                1 => Interrupted::Masked,
                _ => Interrupted::User,
            };
            let schedule = Schedule {
                switches,
                extension,
                before: Some(&before),
                pick: Some(&pick),
            };
            (interrupted, schedule)
        };
        self.rig.run_until_by(self.rig.now() + span, &path);
    }

    fn check(&self) {
        self.rig.check();
        self.observe();
        let writes: u64 = (0..self.cpus())
            .map(|cpu| self.rig.stats(cpu).device_writes)
            .sum();
        assert_eq!(
            self.grammar.borrow().rearms(),
            writes,
            "TR-2: a rearm for each write"
        );
        for subject in self.subjects.borrow().iter() {
            subject.check(self);
        }
    }

    fn step(&self) {
        let cpu = self.any_cpu();
        match self.roll(|random| random.below(28)) {
            0..=7 => self.any_subject().start(self, cpu),
            8..=10 => self.any_subject().cancel(self, cpu),
            11..=15 => {
                let span = self.roll(|random| {
                    let longest = [10_000, 1_000_000, 200_000_000][random.index(3)];
                    random.between(0, longest)
                });
                self.run_for(span);
            }
            16 => self.set_wall(cpu),
            17 => {
                let rate = self.roll(|random| random.between(-500_000, 500_000));
                self.rig.steer(i32::try_from(rate).expect("small"));
            }
            18 => {
                let span = self.roll(|random| random.between(0, 5_000_000_000));
                self.jump();
                self.rig.suspend_for(span);
            }
            19 | 20 => self.toggle(cpu),
            21 | 22 => {
                if self.rig.is_masked(cpu) {
                    if self.one_in(3) {
                        self.rig
                            .interrupt(cpu, Interrupted::Masked, &Schedule::SWITCH);
                    }
                    self.unmask(cpu);
                } else {
                    self.mask(cpu);
                }
            }
            23 => self.rig.set_need_resched(cpu),
            24 => {
                let busy = self.any_cpu();
                self.rig.set_busy((!self.one_in(3)).then_some(busy));
                self.rig.set_migration(!self.one_in(6));
            }
            25 => self.rig.switch_counter(if self.one_in(2) {
                Source::Spare
            } else {
                Source::Main
            }),
            _ => {
                let isolated = cpu != 0 && self.one_in(3);
                let tick_stopped = self.one_in(2);
                self.rig.set_idleness(cpu, isolated, tick_stopped);
            }
        }
        self.rig.advance_timekeeper();
        self.rig.deliver_all();
        self.check();
    }

    /// Takes a CPU offline, masked or not, or online again. CPU 0 is the housekeeping CPU and stays online.
    fn toggle(&self, cpu: u32) {
        if cpu == 0 {
            return;
        }
        self.jump();
        let online = self.online.borrow()[cpu as usize];
        self.online.borrow_mut()[cpu as usize] = !online;
        if online {
            self.rig.offline(cpu);
            self.unmask(cpu);
        } else {
            self.rig.online(cpu);
        }
    }

    fn writes(&self) -> u64 {
        (0..self.cpus())
            .map(|cpu| self.rig.stats(cpu).device_writes)
            .sum()
    }
}

struct Subject<H: Host, T: ClockId> {
    timer: TestTimer<H, T>,
    expected: Rc<Cell<Expected>>,
    behaviour: Rc<Cell<Behaviour>>,
}

trait AnySubject<H: Host> {
    fn start(&self, world: &World<H>, cpu: u32);
    fn cancel(&self, world: &World<H>, cpu: u32);
    /// Checks that the timer is in the state of the list, and not overdue without an excuse.
    fn check(&self, world: &World<H>);
}

fn shows<H: Host, T: ClockId>(rig: &Rig<H>) -> i64 {
    rig.monotonic().as_nanos() + rig.offset(T::CLOCK)
}

/// ORACLE-3: returns the time by which a timer is later than excused; a positive value is too late.
fn too_late<H: Host, T: ClockId>(world: &World<H>, queued: &Queued) -> i64 {
    let now = world.monotonic();
    let due = queued.hard - world.rig.offset(T::CLOCK);
    let due = due.max(queued.since).max(world.jumped.get());
    // The shortest delay of a device, and what the clock may have been steered since the device was written.
    let inexact = 2_000 + (now - queued.since) / 1_000;
    now - due - inexact - world.excuses(due)
}

impl<H: Host, T: ClockId> Subject<H, T> {
    fn boxed(world: &Rc<World<H>>, number: usize) -> Rc<dyn AnySubject<H>> {
        let expected = Rc::new(Cell::new(Expected::default()));
        let behaviour = Rc::new(Cell::new(Behaviour::default()));
        let (stage, lazy) = world.roll(|random| {
            let stage = match random.below(3) {
                0 => Stage::Soft,
                1 => Stage::Hard,
                _ => Stage::Default,
            };
            (stage, random.one_in(4))
        });
        let setup = Setup::new().stage(stage);
        let setup = if lazy { setup.lazy() } else { setup };
        let callback = Callback {
            world: Rc::downgrade(world),
            number,
            soft: stage == Stage::Soft,
            expected: Rc::clone(&expected),
            behaviour: Rc::clone(&behaviour),
        };
        let timer =
            TestTimer::<H, T>::with_setup(&world.rig, setup, move |expired| callback.run(expired));
        Rc::new(Self {
            timer,
            expected,
            behaviour,
        })
    }
}

struct Callback<H: Host> {
    world: Weak<World<H>>,
    number: usize,
    soft: bool,
    expected: Rc<Cell<Expected>>,
    behaviour: Rc<Cell<Behaviour>>,
}

impl<H: Host> Callback<H> {
    fn run<T: ClockId>(&self, expired: &mut Expired<'_, '_, T>) -> Restart {
        let world = self
            .world
            .upgrade()
            .expect("it lasts as long as its timers");
        let here = world.rig.this_cpu().expect("a CPU runs callbacks");
        world.observe();
        let queued = self.begin::<T>(&world);
        if self.soft {
            assert!(
                !world.rig.owes_rearm(here),
                "FLUSH-4: soft work while a rearm is owed"
            );
        } else {
            assert!(world.rig.armed(here).is_forever(), "INV-4");
        }
        let todo = self.behaviour.get();
        let goes_on = todo.again.filter(|(_, times)| *times > 0);
        let mut next = None;
        if let Some((interval, _)) = goes_on.filter(|_| todo.overload) {
            next = Some(self.go_on(&world, expired, queued, interval));
        }
        world.spend(todo.takes);
        // Where callbacks can be interrupted, hard timers come on time.
        if self.soft && Rig::<H>::WAITING != Waiting::Sleep && world.one_in(2) {
            world.rig.deliver_due(here);
        }
        world.improvise(here);
        let mut answer = Restart::No;
        let mut expected = self.expected.get();
        if let Some((interval, times)) = goes_on {
            let next = next.unwrap_or_else(|| self.go_on(&world, expired, queued, interval));
            // A start that came meanwhile wins (spec OBJ-13).
            if expected.queued.is_none() {
                expected.queued = Some(next);
                self.behaviour.set(Behaviour {
                    again: Some((interval, times - 1)),
                    ..todo
                });
            }
            answer = Restart::Yes;
        }
        expected.running = false;
        self.expected.set(expected);
        answer
    }

    /// Checks ORACLE-2 and ORACLE-3 at the beginning of the callback.
    fn begin<T: ClockId>(&self, world: &World<H>) -> Queued {
        let mut expected = self.expected.get();
        let queued = expected
            .queued
            .take()
            .expect("ORACLE-2: fired although it was not queued");
        assert!(!expected.running, "INV-8: runs twice at once");
        let early = queued.soft - shows::<H, T>(&world.rig);
        assert!(early <= 0, "ORACLE-2: fired {early} ns early");
        let late = too_late::<H, T>(world, &queued);
        assert!(late <= 0, "ORACLE-3: fired {late} ns too late, {queued:?}");
        expected.running = true;
        expected.fired += 1;
        self.expected.set(expected);
        world
            .history
            .borrow_mut()
            .push((self.number, world.rig.now()));
        queued
    }

    /// Moves the deadline on by whole intervals, and compares the result with long-hand arithmetic.
    fn go_on<T: ClockId>(
        &self,
        world: &World<H>,
        expired: &mut Expired<'_, '_, T>,
        queued: Queued,
        interval: u64,
    ) -> Queued {
        let intervals = expired.forward_now(Span::from_nanos(interval));
        let interval = i64::try_from(interval).expect("small");
        let late = (shows::<H, T>(&world.rig) - queued.hard).max(0);
        let distance = (late / interval + 1) * interval;
        assert_eq!(
            i64::try_from(intervals).expect("small") * interval,
            distance
        );
        assert_eq!(expired.deadline().as_nanos(), queued.hard + distance);
        Queued {
            soft: queued.soft + distance,
            hard: queued.hard + distance,
            since: world.monotonic(),
        }
    }
}

/// The random arguments of a start.
struct Plan {
    distance: i64,
    slack: u64,
    pinned: bool,
    checked: bool,
    behaviour: Behaviour,
}

impl Plan {
    fn roll(random: &mut Random) -> Self {
        let distance = match random.below(8) {
            0 => random.between(-5_000_000, 0),
            1 => 0,
            2..=4 => random.between(1, 20_000),
            5 | 6 => random.between(1, 5_000_000),
            _ => random.between(1, 80_000_000_000),
        };
        let slack = if random.one_in(3) {
            random.below(100_000)
        } else {
            0
        };
        let behaviour = Self::roll_behaviour(random);
        Self {
            distance,
            slack,
            pinned: random.one_in(4),
            checked: random.one_in(5),
            behaviour,
        }
    }

    fn roll_behaviour(random: &mut Random) -> Behaviour {
        let again = random.one_in(4).then(|| {
            let interval = 1 + random.below(3_000_000);
            (interval, u32::try_from(random.below(4)).expect("small"))
        });
        let takes = match random.below(40) {
            0..=5 => random.between(0, 30_000),
            6 => random.between(0, 4_000_000),
            _ => 0,
        };
        if !random.one_in(25) {
            return Behaviour {
                again,
                takes,
                overload: false,
            };
        }
        let interval = 1_000 + random.below(200_000);
        Behaviour {
            again: Some((interval, 5)),
            takes: i64::try_from(interval).expect("small") * 2,
            overload: true,
        }
    }
}

impl<H: Host, T: ClockId> AnySubject<H> for Subject<H, T> {
    fn start(&self, world: &World<H>, cpu: u32) {
        let Plan {
            distance,
            slack,
            pinned,
            checked,
            behaviour,
        } = world.roll(Plan::roll);
        let rig = &world.rig;
        let soft = shows::<H, T>(rig).saturating_add(distance);
        let mut start = Start::<T>::at(Instant::from_nanos(soft)).slack(Span::from_nanos(slack));
        if pinned {
            start = start.pinned();
        }
        self.behaviour.set(behaviour);
        let mut expected = self.expected.get();
        let fired = expected.fired;
        expected.queued = Some(Queued {
            soft,
            hard: soft + i64::try_from(slack).expect("small"),
            since: world.monotonic(),
        });
        self.expected.set(expected);
        let writes = world.writes();
        if !checked {
            rig.on(cpu, || self.timer.start(start));
        } else if rig.on(cpu, || self.timer.start_checked(start)).is_err() {
            assert!(
                shows::<H, T>(rig) >= soft,
                "USR-1: a checked start refused a time to come"
            );
            expected.queued = None;
            self.expected.set(expected);
        }
        assert!(
            world.writes() <= writes + 1,
            "INV-12: a start writes once at most"
        );
        assert_eq!(self.expected.get().fired, fired, "a start fires nothing");
    }

    fn cancel(&self, world: &World<H>, cpu: u32) {
        let mut expected = self.expected.get();
        let right = match expected {
            Expected { running: true, .. } => TryCancel::Running,
            Expected { queued: None, .. } => TryCancel::NotActive,
            _ => TryCancel::Removed,
        };
        let writes = world.writes();
        let answer = world.rig.on(cpu, || self.timer.try_cancel());
        assert_eq!(answer, right, "CAN-1: the answer of a cancel is exact");
        assert!(
            world.writes() <= writes + 1,
            "INV-12: a cancel writes once at most"
        );
        if right == TryCancel::Removed {
            expected.queued = None;
            self.expected.set(expected);
        }
    }

    fn check(&self, world: &World<H>) {
        let expected = self.expected.get();
        assert_eq!(self.timer.is_queued(), expected.queued.is_some());
        assert_eq!(
            self.timer.deadline(),
            expected.queued.map(|queued| queued.hard)
        );
        assert!(!expected.running, "nothing runs between two steps");
        if let Some(queued) = expected.queued {
            let late = too_late::<H, T>(world, &queued);
            assert!(
                late <= 0,
                "ORACLE-3: {late} ns overdue and not fired, {queued:?}"
            );
        }
    }
}

/// The rare situations that a run came across.
#[derive(Debug, Default)]
struct Seen {
    flushes: [u64; Flush::COUNT],
    hangs: u64,
    moves: u64,
    kicks: u64,
    in_place: u64,
    history: Vec<(usize, i64)>,
}

fn run<H: Host>(seed: u64) -> Seen {
    let _says = OnPanic(|| format!("seed {seed} fails; again with TICKLESS_SEEDS={seed}.."));
    let mut random = Random::new(seed);
    let class = DeviceClass::ALL[random.index(DeviceClass::ALL.len())];
    let cpus = [1, 2, 4][random.index(3)];
    let rig = Rig::<H>::with_devices(cpus, class);
    let world = Rc::new(World {
        rig: rig.clone(),
        random: RefCell::new(random),
        subjects: RefCell::new(Vec::new()),
        grammar: RefCell::new(Grammar::new()),
        blocked: RefCell::new(Vec::new()),
        masked_since: RefCell::new(vec![None; cpus as usize]),
        online: RefCell::new(vec![true; cpus as usize]),
        jumped: Cell::new(0),
        hangs: Cell::new(0),
        history: RefCell::new(Vec::new()),
    });
    for number in 0..TIMERS {
        let subject = match world.roll(|random| random.below(6)) {
            0 => Subject::<H, Realtime>::boxed(&world, number),
            1 => Subject::<H, Boottime>::boxed(&world, number),
            2 => Subject::<H, Tai>::boxed(&world, number),
            _ => Subject::<H, Monotonic>::boxed(&world, number),
        };
        world.subjects.borrow_mut().push(subject);
    }
    rig.set_wall(0, WALL);
    for _ in 0..150 {
        world.step();
    }
    for cpu in 0..cpus {
        world.unmask(cpu);
    }
    world.run_for(BACKOFF + 1_000_000);
    world.check();
    let mut seen = Seen {
        hangs: world.hangs.get(),
        history: world.history.take(),
        ..Seen::default()
    };
    for cpu in 0..cpus {
        let stats = rig.stats(cpu);
        for (sum, count) in seen.flushes.iter_mut().zip(stats.flushes) {
            *sum += count;
        }
        seen.moves += stats.arrived;
        seen.kicks += stats.kicks;
        seen.in_place += stats.kept();
    }
    seen
}

/// Returns the seeds to run: `TICKLESS_SEEDS=N` runs N seeds, `TICKLESS_SEEDS=N..` the one seed N.
fn seeds() -> core::ops::Range<u64> {
    let Some(wanted) = surroundings::variable("TICKLESS_SEEDS") else {
        return 0..drawn(300);
    };
    let parsed = match wanted.strip_suffix("..") {
        Some(one) => one.parse().map(|seed| seed..seed + 1),
        None => wanted.parse().map(|count| 0..count),
    };
    parsed.unwrap_or_else(|_| {
        panic!("TICKLESS_SEEDS is a count like 1000 or a seed like 17.., not {wanted:?}")
    })
}

fn run_all<H: Host>() {
    let seeds = seeds();
    let many = seeds.end - seeds.start >= 100;
    let mut sum = Seen::default();
    for seed in seeds {
        let seen = run::<H>(seed);
        for (sum, count) in sum.flushes.iter_mut().zip(seen.flushes) {
            *sum += count;
        }
        sum.hangs += seen.hangs;
        sum.moves += seen.moves;
        sum.kicks += seen.kicks;
        sum.in_place += seen.in_place;
    }
    if many {
        still_reaches_everything::<H>(&sum);
    }
}

/// A canary: checks that the random operations still reach the rare situations, because otherwise they test nothing.
fn still_reaches_everything<H: Host>(sum: &Seen) {
    assert!(
        sum.hangs > drawn(20)
            && sum.moves > drawn(500)
            && sum.kicks > drawn(100)
            && sum.in_place > drawn(500),
        "{sum:?}"
    );
    let reachable = [
        Flush::UserExit,
        Flush::KernelExit,
        Flush::SoftWork,
        Flush::Switched,
        Flush::SameTask,
        Flush::NestedInterrupt,
        Flush::SliceExtension,
        Flush::MaskedReturn,
    ];
    for place in reachable {
        let count = sum.flushes[place as usize];
        assert_eq!(
            count > drawn(20),
            Rig::<H>::DEFERRED_REARM,
            "{}: {count}",
            place.name()
        );
    }
}

/// ORACLE-1 to ORACLE-6, ORACLE-9: the host does as the list, and its faults are not made rare.
pub fn a_host_agrees_with_a_flat_list<H: Host>() {
    run_all::<H>();
}

/// V3: a seed gives the same run every time.
pub fn a_seed_means_the_same_run<H: Host>() {
    for seed in 0..drawn(20) {
        assert_eq!(run::<H>(seed).history, run::<H>(seed).history);
    }
}

crate::kit::cases!(random:
    a_host_agrees_with_a_flat_list [CPUS, SOFT, PATHS, CLOCKS, COUNTERS, DEVICES, PLACEMENT, TRACE],
    a_seed_means_the_same_run [CPUS, SOFT, PATHS, CLOCKS, COUNTERS, DEVICES, PLACEMENT, TRACE],
);

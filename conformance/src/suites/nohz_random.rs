//! Random histories of CPUs that work, idle, sleep deeply, come online, go offline and get stuck, and of their timers.
//!
//! Tasks, and interrupts of sleeping CPUs, arm coarse and exact timers. Between any two interrupts the rig checks that
//! wheels, hierarchy and tick agree on which CPUs sleep, and that no CPU sleeps through a promise or a timer (PULL-3).
//! At the end every timer must have fired, none early; if no CPU was stuck, each must have fired in time.

use alloc::rc::Rc;
use core::cell::RefCell;

use tickless_core::coarse::WheelKind;
use tickless_core::platform::Waiting;
use tickless_core::tick::{KeepReason, Role, TickDependencies};

use crate::nohz::DeepCounts;
use crate::parts::TICK;
use crate::prelude::*;
use crate::random::Random;
use crate::suite::at;
use crate::{CoarseTimer, Host, Rig, TestTimer};

const STEPS: usize = 120;
const SEEDS: u64 = 24;

/// A coarse timer that fires once, with the expiry of its last start.
struct Coarse<H: Host> {
    timer: CoarseTimer<H>,
    expiry: u64,
    is_deleted: bool,
}

struct Exact<H: Host> {
    timer: TestTimer<H>,
    due: i64,
}

struct World<H: Host> {
    rig: Rig<H>,
    random: Random,
    coarse: Vec<Coarse<H>>,
    exact: Vec<Exact<H>>,
    idles: Vec<bool>,
    is_online: Vec<bool>,
    stuck: Option<u32>,
    was_a_cpu_stuck: bool,
    kept: Rc<RefCell<Vec<KeepReason>>>,
}

impl<H: Host> World<H> {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let cpus = 1 + random.index(5);
        let has_tasks = cpus > 1 && random.one_in(3);
        let role = |cpu| {
            if has_tasks && cpu == cpus - 1 {
                Role::TicklessTasks
            } else {
                Role::Housekeeping
            }
        };
        let roles: Vec<Role> = (0..cpus).map(role).collect();
        let rig = Rig::with_roles(&roles, random.one_in(2));
        for cpu in 0..cpus {
            let is_deep = random.one_in(2);
            rig.set_deep(u32::try_from(cpu).expect("few"), is_deep);
        }
        Self {
            rig,
            random,
            coarse: Vec::new(),
            exact: Vec::new(),
            idles: vec![false; cpus],
            is_online: vec![true; cpus],
            stuck: None,
            was_a_cpu_stuck: false,
            kept: Rc::default(),
        }
    }

    fn cpu(&mut self) -> u32 {
        let cpus: Vec<u32> = (0..)
            .zip(&self.is_online)
            .filter(|(cpu, online)| **online && self.stuck != Some(*cpu))
            .map(|(cpu, _)| cpu)
            .collect();
        cpus[self.random.index(cpus.len())]
    }

    /// Lets a task of `cpu` execute `body`, or an interrupt there if `cpu` sleeps.
    fn execute(&self, cpu: u32, body: impl FnOnce()) {
        if self.idles[cpu as usize] {
            self.rig.in_interrupt(cpu, body);
        } else {
            self.rig.in_task(cpu, body);
        }
    }

    fn arm(&mut self) {
        let cpu = self.cpu();
        let kind = WheelKind::ALL[self.random.index(3)];
        let bits = self.random.below(9);
        let expiry = self.rig.tick().0 + self.random.below(1 << bits);
        let timer = CoarseTimer::once(&self.rig, kind);
        self.execute(cpu, || timer.arm(expiry).expect("it is new"));
        self.coarse.push(Coarse {
            timer,
            expiry,
            is_deleted: false,
        });
    }

    fn delete(&mut self) {
        if self.coarse.is_empty() {
            return;
        }
        let (cpu, index) = (self.cpu(), self.random.index(self.coarse.len()));
        let timer = &self.coarse[index].timer;
        let mut deleted = false;
        self.execute(cpu, || deleted = timer.delete());
        self.coarse[index].is_deleted |= deleted;
    }

    fn start(&mut self) {
        let cpu = self.cpu();
        let due = self.rig.now() + self.random.between(1_000, 30 * TICK);
        let timer = TestTimer::once(&self.rig);
        self.execute(cpu, || timer.start(at(due).pinned()));
        self.exact.push(Exact { timer, due });
    }

    fn toggle(&mut self) {
        let cpu = self.cpu();
        let idles = &mut self.idles[cpu as usize];
        *idles = !*idles;
        if *idles {
            if let Err(keep) = self.rig.idle(cpu) {
                self.kept.borrow_mut().push(keep);
            }
        } else {
            let _kept = self.rig.work(cpu);
        }
    }

    fn come_or_go(&mut self) {
        if self.stuck.is_some() {
            return;
        }
        let gone = self.is_online.iter().position(|online| !online);
        if let Some(cpu) = gone {
            self.rig.online(u32::try_from(cpu).expect("few"));
            self.is_online[cpu] = true;
            self.idles[cpu] = false;
            return;
        }
        if self.is_online.len() < 2 {
            return;
        }
        let cpu = self.cpu();
        let heir = (cpu + 1) % u32::try_from(self.is_online.len()).expect("few");
        match self.rig.offline_to(cpu, heir) {
            Ok(()) => self.is_online[cpu as usize] = false,
            Err(keep) => {
                self.idles[cpu as usize] = false;
                self.kept.borrow_mut().push(keep);
            }
        }
    }

    fn stall(&mut self) {
        let now = self.rig.now();
        if self.is_online.len() < 2 || self.is_online.contains(&false) {
            return;
        }
        let cpu = self.cpu();
        // A CPU that sleeps deeply is not stuck.
        if self.idles[cpu as usize] {
            return;
        }
        self.was_a_cpu_stuck = true;
        self.stuck = Some(cpu);
        self.rig.set_masked(cpu, true);
        let length = self.random.between(1, 12 * TICK);
        self.rig.run_until(now + length);
        self.stuck = None;
        self.rig.set_masked(cpu, false);
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..=4 => self.arm(),
            5 => self.delete(),
            6 => self.start(),
            7..=10 => self.toggle(),
            11 if self.random.one_in(3) => self.come_or_go(),
            12 if self.random.one_in(6) => self.stall(),
            13 => {
                let cpu = self.cpu();
                self.rig.replace_broadcast_device(cpu);
            }
            _ => {
                let length = self.random.between(0, 6 * TICK);
                let now = self.rig.now();
                self.rig.run_until(now + length);
            }
        }
        self.rig.check();
    }

    fn finish(&mut self) {
        // Deferrable timers wait for a CPU that is awake.
        for cpu in 0..self.is_online.len() {
            let number = u32::try_from(cpu).expect("few");
            if !self.is_online[cpu] {
                self.rig.online(number);
            }
        }
        let now = self.rig.now();
        self.rig.run_until(now + 350 * TICK);
        let now = self.rig.now();
        let depends = TickDependencies {
            dependency: true,
            ..TickDependencies::default()
        };
        for cpu in 0..self.is_online.len() {
            let cpu = u32::try_from(cpu).expect("few");
            self.rig.set_conditions(cpu, depends);
            let _kept = self.rig.work(cpu);
        }
        self.rig.run_until(now + 30 * TICK);
    }

    fn judge(&self, seed: u64) {
        for coarse in &self.coarse {
            let fired = coarse.timer.fired();
            if coarse.is_deleted {
                assert!(fired.is_empty(), "deleted means not running");
                continue;
            }
            let [fired] = fired[..] else {
                panic!(
                    "seed {seed}: of tick {} on {:?}: fired {} times",
                    coarse.expiry,
                    coarse.timer.wheel(),
                    fired.len()
                )
            };
            assert!(fired.now.0 > coarse.expiry, "never early");
            let is_in_time = fired.now.0 <= fired.due.0 + 2;
            assert!(
                is_in_time || self.was_a_cpu_stuck || fired.kind == WheelKind::Deferrable,
                "seed {seed}: {fired:?}"
            );
        }
        for exact in &self.exact {
            let [fired] = exact.timer.fired_at()[..] else {
                panic!("of {}: not once", exact.due)
            };
            assert!(fired >= exact.due, "never early");
            assert!(
                fired <= exact.due + 2_000 || self.was_a_cpu_stuck,
                "{fired} of {}",
                exact.due
            );
        }
    }

    fn counts(&self) -> DeepCounts {
        self.rig.deep_counts()
    }
}

fn histories<H: Host>(base: u64) {
    let (mut total, mut kept, mut pulled) = (DeepCounts::default(), Vec::new(), 0);
    for seed in base..base + SEEDS {
        let mut world = World::<H>::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        world.finish();
        world.judge(seed);
        let counts = world.counts();
        total.entered += counts.entered;
        total.delivered += counts.delivered;
        total.woke_itself += counts.woke_itself;
        total.woke_late += counts.woke_late;
        kept.append(&mut world.kept.borrow_mut());
        pulled += world
            .coarse
            .iter()
            .flat_map(|coarse| coarse.timer.fired())
            .filter(|fired| fired.executed_by != Some(fired.cpu))
            .count();
    }
    // Rare things have to happen now and then, or the test tests nothing.
    assert!(pulled > 50, "{pulled} timers were run for others");
    assert!(total.entered > 300 && total.delivered > 5, "{total:?}");
    assert!(total.woke_itself > 50 && total.woke_late > 10, "{total:?}");
    for keep in [KeepReason::Soon, KeepReason::Timekeeper] {
        assert!(kept.contains(&keep), "{keep:?}");
    }
}

/// CPUs that idle, sleep deeply, mask interrupts and go offline lose no timer, and run no timer early.
pub fn random_histories_lose_no_timer<H: Host>() {
    // Each kind of host has seeds of its own.
    histories::<H>(match (Rig::<H>::DEFERRED_REARM, Rig::<H>::WAITING) {
        (false, _) => 10_000,
        (true, Waiting::Sleep) => 20_000,
        (true, _) => 0,
    });
}

crate::kit::cases!(nohz_random:
    random_histories_lose_no_timer [CPUS, DEVICES, LOCKS],
);

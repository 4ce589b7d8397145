//! Tests of the promises of spec on a rig on which nothing excuses a late device.
//!
//! The random test allows for lazy timers, jumps, hangs and masked CPUs, so it can demand only that no device fires too
//! late. This test has none of these: its ordinary timers on the monotonic clock are started, restarted and cancelled
//! from everywhere, by callbacks and by the scheduler too. A device then fires exactly when its first timer is due,
//! unless another CPU removed that timer, and every operation costs one write at most.

use alloc::rc::Rc;
use core::cell::Cell;

use tickless_core::hrtimer::Restart;
use tickless_core::platform::CpuId;
use tickless_core::time::Span;

use crate::prelude::*;
use crate::random::Random;
use crate::suite::at;
use crate::{DeviceClass, Host, Interrupted, Rig, Schedule, TestTimer};

const CPUS: u32 = 3;
const TIMERS: usize = 9;
const SEEDS: u64 = 60;
const STEPS: u32 = 120;
/// The duration of a device write, in nanoseconds: a device does not fire during it.
const WRITE_TAKES: i64 = 20;

/// A rig, its timers, and the CPUs whose devices may still fire for a timer that another CPU removed.
struct Quiet<H: Host> {
    rig: Rig<H>,
    timers: Vec<TestTimer<H>>,
    random: Random,
    /// The number of evaluations of each CPU at the time when another CPU last removed one of its timers; `None` after
    /// the CPU's next evaluation.
    robbed_at: [Option<u64>; CPUS as usize],
}

impl<H: Host> Quiet<H> {
    fn new(seed: u64) -> Self {
        let rig = Rig::<H>::with_devices(CPUS, DeviceClass::Software);
        let timers = (0..TIMERS)
            .map(|number| {
                let again = Rc::new(Cell::new(number % 3));
                TestTimer::new(&rig, move |expired| {
                    if again.get() == 0 {
                        again.set(number % 3);
                        return Restart::No;
                    }
                    again.set(again.get() - 1);
                    expired.forward_now(Span::from_nanos(700 + 300 * again.get() as u64));
                    Restart::Yes
                })
            })
            .collect();
        Self {
            rig,
            timers,
            random: Random::new(seed),
            robbed_at: [None; CPUS as usize],
        }
    }

    /// Starts or cancels a timer on `cpu`, and notes the CPU from which the timer was removed.
    fn touch(&mut self, cpu: u32) {
        let timer = &self.timers[self.random.index(TIMERS)];
        let from = timer.cpu().filter(|from| timer.is_queued() && *from != cpu);
        let distance = match self.random.index(4) {
            0 => self.random.between(0, 1_000),
            1 => self.random.between(0, 100_000),
            _ => self.random.between(1_000, 20_000),
        };
        let start = at(self.rig.now() + distance);
        let writes = self.writes();
        self.rig.on(cpu, || match self.random.index(5) {
            0 => drop(timer.try_cancel()),
            1 => timer.start(start.pinned()),
            2 => drop(timer.start_checked(start)),
            _ => timer.start(start),
        });
        assert!(self.writes() <= writes + 1, "INV-12: one write at most");
        if let Some(from) = from {
            self.robbed_at[from as usize] = Some(self.rig.stats(from).evaluations);
        }
    }

    fn writes(&self) -> u64 {
        (0..CPUS).map(|cpu| self.rig.stats(cpu).device_writes).sum()
    }

    /// Executes the interrupt of `cpu`, after which the scheduler starts a timer.
    fn interrupt(&mut self, cpu: u32) {
        let deadline = self.rig.now() + self.random.between(500, 5_000);
        let timer = &self.timers[self.random.index(TIMERS)];
        // Not one of another CPU: what that costs is not this interrupt's.
        let starts = self.random.one_in(2) && (!timer.is_queued() || timer.cpu() == Some(cpu));
        let pick = || {
            if starts {
                timer.start(at(deadline).pinned());
            }
        };
        let schedule = Schedule {
            switches: self.random.one_in(2),
            pick: Some(&pick),
            ..Schedule::SWITCH
        };
        self.rig.set_need_resched(cpu);
        let before = self.rig.stats(cpu);
        let interrupted = if self.random.one_in(3) {
            Interrupted::Kernel
        } else {
            Interrupted::User
        };
        self.rig.interrupt(cpu, interrupted, &schedule);
        let after = self.rig.stats(cpu);
        // Without the deferral the interrupt and the scheduler write each.
        let most = if Rig::<H>::DEFERRED_REARM { 1 } else { 2 };
        assert!(
            after.device_writes - before.device_writes <= most,
            "INV-12: an interrupt and the scheduler after it"
        );
        assert_eq!(after.hangs, 0, "nothing takes long here");
    }

    /// Lets time pass until the next device fires, or a shorter time.
    fn pass_time(&mut self) {
        let next = (0..CPUS)
            .filter_map(|cpu| self.rig.fires_at(cpu).map(|when| (when, cpu)))
            .min();
        let span = self.random.between(1, 3_000);
        match next {
            Some((when, cpu)) if when <= self.rig.now() + span => {
                self.rig.spend((when - self.rig.now()).max(0));
                self.interrupt(cpu);
            }
            _ => self.rig.spend(span),
        }
    }

    fn check(&mut self) {
        self.rig.check();
        let mut pending = 0;
        for cpu in 0..CPUS {
            let first = self.rig.timers().next_event(CpuId(cpu));
            let armed = self.rig.armed(cpu);
            let fires = self.rig.fires_at(cpu).unwrap_or(i64::MAX);
            let shortly = armed.as_nanos().saturating_add(WRITE_TAKES);
            assert!(
                (armed.as_nanos()..=shortly).contains(&fires),
                "INV-4: CPU {cpu} is armed for {armed:?}, its device for {fires}"
            );
            let evaluations = self.rig.stats(cpu).evaluations;
            let robbed = &mut self.robbed_at[cpu as usize];
            if robbed.is_some_and(|then| then < evaluations) {
                *robbed = None;
            }
            if robbed.is_none() {
                assert_eq!(armed, first, "INV-3: CPU {cpu} is armed exactly");
            }
            pending += self.rig.timers().pending(CpuId(cpu));
        }
        let queued = self.timers.iter().filter(|timer| timer.is_queued()).count();
        assert_eq!(pending, queued, "INV-7: a timer is in one queue");
        for timer in self.timers.iter().filter(|timer| timer.is_queued()) {
            let cpu = timer.cpu().expect("it is queued");
            assert!(
                self.rig.armed(cpu).as_nanos() <= timer.deadline().expect("it is queued"),
                "INV-1, INV-5: no timer is where no CPU comes for it in time"
            );
        }
    }
}

/// INV-1 without exceptions: each device fires when its first timer is due, not before and not after.
pub fn devices_fire_exactly_when_the_first_timer_is_due<H: Host>() {
    let mut fired = 0;
    for seed in 0..SEEDS {
        let mut quiet = Quiet::<H>::new(seed);
        for _ in 0..STEPS {
            if quiet.random.one_in(2) {
                let cpu = u32::try_from(quiet.random.index(CPUS as usize)).expect("small");
                quiet.touch(cpu);
            } else {
                quiet.pass_time();
            }
            quiet.check();
        }
        let runs = |timer: &TestTimer<H>| timer.fired_at().len();
        fired += quiet.timers.iter().map(runs).sum::<usize>();
    }
    assert!(fired > 1_000, "only {fired} timers fired");
}

crate::kit::cases!(exactness:
    devices_fire_exactly_when_the_first_timer_is_due [CPUS, PATHS, DEVICES],
);

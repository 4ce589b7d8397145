//! The checkers that follow what the core reports, and what is counted on the way.

use std::collections::BTreeMap;

use serde::Serialize;
use tickless_core::coarse::{Kind, Timeout};
use tickless_core::event::Flush;
use tickless_core::time::Clock;
use tickless_core::trace::{Event as Traced, TimerId};

use crate::clock::Clocks;
use crate::model::current_cpu;
use crate::model::time::Picos;
use crate::promise::ledger::Ledger;
use crate::promise::{Promise, Violation};
use crate::record::distribution::Distribution;
use crate::run::groups::{Tallies, Tally};

/// Violations that are kept with their story; more are only counted.
const STORIES_MAX: usize = 20;

/// What happened how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Events of the simulator.
    pub events: u64,
    /// Coarse timers armed or modified under the lock.
    pub coarse_arms: u64,
    /// Coarse timers cancelled.
    pub coarse_cancels: u64,
    /// Coarse timers that fired.
    pub coarse_fires: u64,
    /// Those of them that another CPU fired.
    pub remote_fires: u64,
    /// Those that made another CPU than the one that fired them run a task: "ping-pong" (spec 3.8).
    pub ping_pongs: u64,
    /// Operations on timers that took no lock.
    pub lockless: u64,
    /// Exact timers started.
    pub exact_starts: u64,
    /// Those of them that were queued already.
    pub exact_restarts: u64,
    /// Those of them that kept their place.
    pub exact_in_place: u64,
    /// Starts that were timed: all but those of a tick that stops or goes on.
    pub timed_starts: u64,
    /// How long those took altogether.
    pub starting: Picos,
    /// Exact timers cancelled.
    pub exact_cancels: u64,
    /// Exact timers that fired.
    pub exact_fires: u64,
    /// Those of them on a clock that may be set.
    pub wall_fires: u64,
    /// Timer interrupts.
    pub interrupts: u64,
    /// Timer interrupts that found nothing to do.
    pub spurious: u64,
    /// Writes to event devices.
    pub device_writes: u64,
    /// Writes that came too late for an equality comparator, and were done again.
    pub device_refused: u64,
    /// Rearms that were paid on the way back to a task (S1).
    pub flushes_to_task: u64,
    /// On the way to idle (S3).
    pub flushes_to_idle: u64,
    /// Before a soft stage (S4).
    pub flushes_before_soft: u64,
    /// When a task was picked (S5).
    pub flushes_after_pick: u64,
    /// Ticks.
    pub ticks: u64,
    /// Soft stages at ticks.
    pub soft_stages: u64,
    /// Inter-processor interrupts.
    pub ipis: u64,
    /// Interrupts in place of those of devices that had stopped.
    pub broadcasts: u64,
    /// CPUs served by others.
    pub served: u64,
    /// Times that a CPU stopped its tick.
    pub idle_entries: u64,
    /// Switches between tasks.
    pub switches: u64,
    /// Reads of the clock.
    pub clock_reads: u64,
    /// How long those took altogether.
    pub clock_reading: Picos,
    /// Waits for locks.
    pub lock_waits: u64,
    /// How long those were altogether.
    pub lock_waited: Picos,
}

impl Counts {
    /// A rearm was paid.
    const fn flushed(&mut self, point: Flush) {
        match point {
            Flush::UserExit => self.flushes_to_task += 1,
            Flush::KernelExit => self.flushes_to_idle += 1,
            Flush::SoftWork => self.flushes_before_soft += 1,
            Flush::Switched => self.flushes_after_pick += 1,
            _ => {}
        }
    }

    /// Operations on timers: arms, cancels, and those that had nothing to do.
    #[must_use]
    pub const fn timer_operations(&self) -> u64 {
        self.coarse_arms
            + self.coarse_cancels
            + self.lockless
            + self.exact_starts
            + self.exact_cancels
    }
}

/// Follows a run.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) counts: Counts,
    pub(crate) tallies: Tallies,
    pub(crate) violations: Vec<Violation>,
    pub(crate) broken: BTreeMap<Promise, u64>,
    /// How late coarse timers fired that their own CPU fired, after the start of the tick at which they were due.
    pub(crate) late_own: Distribution,
    /// The same for those that another CPU fired.
    pub(crate) late_remote: Distribution,
    /// How late exact timers fired.
    pub(crate) late_exact: Distribution,
    /// How late a timer may be.
    pub(crate) late_max: Picos,
    pub(crate) tick: Picos,
    /// CPUs that have to be left alone.
    pub(crate) isolated: Vec<bool>,
    /// The clocks of the timers that are queued on another one than the monotonic. Looked up, never listed.
    clock_of: BTreeMap<TimerId, Clock>,
    /// When the clock was read last. Whoever fires a timer read it before, in the same event.
    pub(crate) read_at: Picos,
    /// Coarse and exact timers that are queued.
    pub(crate) pending: i64,
    /// Which timers these are, if that is kept.
    pub(crate) ledger: Option<Ledger>,
    digest: u64,
    log: Option<Vec<u8>>,
}

/// What a line of the log is about.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Entry {
    Event = 1,
    Arm = 2,
    Cancel = 3,
    Fire = 4,
    Start = 5,
    ExactFire = 6,
    ExactCancel = 7,
    State = 8,
    Write = 9,
}

impl Watch {
    pub(crate) fn new(late_max: Picos, tick: Picos, isolated: Vec<bool>, logs: bool) -> Self {
        Self {
            counts: Counts::default(),
            tallies: Tallies::default(),
            violations: Vec::new(),
            broken: BTreeMap::new(),
            late_own: Distribution::default(),
            late_remote: Distribution::default(),
            late_exact: Distribution::default(),
            late_max,
            tick,
            isolated,
            clock_of: BTreeMap::new(),
            read_at: Picos::ZERO,
            pending: 0,
            ledger: None,
            digest: 0xCBF2_9CE4_8422_2325,
            log: logs.then(Vec::new),
        }
    }

    /// A promise was not kept.
    pub(crate) fn broken(&mut self, promise: Promise, cpu: u32, what: impl Into<String>) {
        *self.broken.entry(promise).or_default() += 1;
        if self.violations.len() < STORIES_MAX {
            self.violations.push(Violation {
                promise,
                at: current_cpu::cursor(),
                cpu,
                what: what.into(),
            });
        }
    }

    /// Writes a line of the log.
    #[inline]
    pub(crate) fn log(&mut self, entry: Entry, cpu: u32, at: Picos, value: u64) {
        let head = (entry as u64) << 32 | u64::from(cpu);
        for word in [at.0, head, value] {
            // FNV-1a over words instead of bytes, with a turn so that high bits count.
            self.digest = (self.digest ^ word)
                .wrapping_mul(0x0000_0100_0000_01B3)
                .rotate_left(23);
        }
        if let Some(log) = &mut self.log {
            for word in [at.0, head, value] {
                log.extend_from_slice(&word.to_le_bytes());
            }
        }
    }

    pub(crate) fn take_log(&mut self) -> Vec<u8> {
        self.log.take().unwrap_or_default()
    }

    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }

    /// Takes what the core reports.
    pub(crate) fn follow(&mut self, event: &Traced, clocks: &Clocks) {
        let at = current_cpu::cursor();
        self.tally_operation(event);
        match *event {
            Traced::WheelArm {
                cpu,
                now,
                expiry,
                due,
                was_armed,
                ..
            } => {
                self.is_filed_finely(cpu.0, now, expiry, due);
                self.counts.coarse_arms += 1;
                self.pending += i64::from(!was_armed);
                self.log(Entry::Arm, cpu.0, at, due.0);
            }
            Traced::WheelCancel { cpu, .. } => {
                self.counts.coarse_cancels += 1;
                self.pending -= 1;
                self.log(Entry::Cancel, cpu.0, at, 0);
            }
            Traced::WheelExpire { timeout, .. } => self.coarse_fires(&timeout, at, clocks),
            Traced::Start {
                cpu,
                timer,
                clock,
                was_armed,
                in_place,
                hard,
                ..
            } => {
                if clock != Clock::Monotonic {
                    self.clock_of.insert(timer, clock);
                }
                self.counts.exact_starts += 1;
                self.counts.exact_restarts += u64::from(was_armed);
                self.counts.exact_in_place += u64::from(was_armed && in_place);
                self.pending += i64::from(!was_armed);
                self.log(Entry::Start, cpu.0, at, hard.cast_unsigned());
            }
            Traced::ExpireEntry {
                cpu,
                timer,
                hard,
                soft,
                ..
            } => {
                self.counts.exact_fires += 1;
                self.pending -= 1;
                let clock = self.clock_of.remove(&timer).unwrap_or(Clock::Monotonic);
                self.exact_fires(cpu.0, (clock, hard, soft), clocks);
            }
            Traced::Cancel { cpu, timer } => {
                self.clock_of.remove(&timer);
                self.counts.exact_cancels += 1;
                self.pending -= 1;
                self.log(Entry::ExactCancel, cpu.0, at, 0);
            }
            Traced::Spurious { .. } => self.counts.spurious += 1,
            Traced::Flush { reason, .. } => self.counts.flushed(reason),
            Traced::Rearm { cpu, next, .. } => {
                self.counts.device_writes += 1;
                self.tallies.count(cpu.0, |tally| tally.device_writes += 1);
                let next = next.as_nanos().cast_unsigned();
                self.log(Entry::Write, cpu.0, at, next);
            }
            _ => {}
        }
    }

    fn tally_operation(&mut self, event: &Traced) {
        if let Some(ledger) = &mut self.ledger {
            ledger.follow(event);
        }
        if let Traced::WheelArm { .. }
        | Traced::WheelCancel { .. }
        | Traced::Start { .. }
        | Traced::Cancel { .. } = event
        {
            let operates = |tally: &mut Tally| tally.operations += 1;
            self.tallies.count(current_cpu::cpu(), operates);
        }
    }

    fn coarse_fires(&mut self, timeout: &Timeout, at: Picos, clocks: &Clocks) {
        self.counts.coarse_fires += 1;
        self.pending -= 1;
        let executing = current_cpu::cpu();
        self.log(Entry::Fire, executing, at, timeout.expiry.0);
        let at = clocks.shows_picos(executing, at);
        self.is_coarse_due(executing, timeout, at);
        let late = at - self.tick * timeout.due.0;
        let is_remote = timeout.cpu.0 != executing;
        self.tallies.coarse(executing, timeout.cpu.0, late);
        if is_remote {
            self.counts.remote_fires += 1;
            self.late_remote.note(late);
        } else {
            self.late_own.note(late);
        }
        if timeout.kind != Kind::Deferrable {
            let what = || format!("a coarse timer of CPU {}", timeout.cpu.0);
            self.is_soon_enough(executing, late, what);
        }
        if is_remote {
            let what = || format!("it runs a timer of CPU {}", timeout.cpu.0);
            self.is_undisturbed(executing, what);
        }
    }

    fn exact_fires(&mut self, cpu: u32, due: (Clock, i64, i64), clocks: &Clocks) {
        let (clock, hard, soft) = due;
        if clock != Clock::Monotonic {
            self.wall_fires(cpu, due, clocks);
            return;
        }
        self.log(
            Entry::ExactFire,
            cpu,
            current_cpu::cursor(),
            hard.cast_unsigned(),
        );
        let at = clocks.shows_picos(current_cpu::cpu(), current_cpu::cursor());
        let moment = |nanos: i64| Picos::from_nanos(u64::try_from(nanos).unwrap_or(0));
        self.is_exact_due(cpu, moment(soft), at);
        self.exact_is_late(cpu, at - moment(hard));
    }

    fn exact_is_late(&mut self, cpu: u32, late: Picos) {
        self.late_exact.note(late);
        self.tallies.exact(cpu, late);
        self.is_soon_enough(cpu, late, || "an exact timer".to_owned());
    }

    /// A timer of a clock fires that may be set. It is late from when it was due last, by what was truly so, and early
    /// if it was not due when its CPU read the clock: somebody may set that back between the reading and the firing.
    fn wall_fires(&mut self, cpu: u32, (clock, hard, soft): (Clock, i64, i64), clocks: &Clocks) {
        let at = current_cpu::cursor();
        self.log(Entry::ExactFire, cpu, at, hard.cast_unsigned());
        self.counts.wall_fires += 1;
        let now = clocks.shows(current_cpu::cpu(), at);
        let read = clocks.shows(current_cpu::cpu(), self.read_at);
        self.is_wall_due(cpu, (clock, soft), clocks.truly_shows(clock, read));
        // One with slack that fires before its deadline is not late.
        let late = clocks.due_for(clock, hard, now);
        self.exact_is_late(cpu, Picos::from_nanos(late.unwrap_or(0)));
    }
}

//! The checkers that read the core's trace, and count its events.

use std::collections::BTreeMap;

use tickless_core::coarse::{Tick, Timeout, WheelKind};
use tickless_core::time::Clock;
use tickless_core::trace::{Event as Traced, TimerId};

use crate::clock::Clocks;
use crate::model::current_cpu;
use crate::model::time::Picos;
use crate::promise::ledger::Ledger;
use crate::promise::{
    Promise, Violation, bounded_late, isolated_undisturbed, never_early, never_lost,
};
use crate::record::counts::Counts;
use crate::record::distribution::Distribution;
use crate::record::tally::{Tallies, Tally};

/// The number of violations that are kept with the events before them; further ones are only counted.
const STORIES_MAX: usize = 20;

/// Checks a run by its trace.
#[derive(Debug)]
pub(crate) struct TraceChecker {
    pub(crate) counts: Counts,
    pub(crate) tallies: Tallies,
    pub(crate) violations: Vec<Violation>,
    pub(crate) broken: BTreeMap<Promise, u64>,
    /// The lateness of coarse timers that their own CPU fired, counted from the start of the tick at which they were
    /// due.
    pub(crate) late_own: Distribution,
    /// The lateness of coarse timers that another CPU fired.
    pub(crate) late_remote: Distribution,
    pub(crate) late_exact: Distribution,
    /// The largest lateness that a timer may have.
    pub(crate) late_max: Picos,
    pub(crate) tick: Picos,
    /// True for each CPU that must not be disturbed.
    pub(crate) isolated: Vec<bool>,
    /// The clocks of the timers that are queued on a clock other than the monotonic one. Looked up, never listed.
    clock_of: BTreeMap<TimerId, Clock>,
    /// The time of the last read of the clock. A CPU that fires a timer has read the clock before, in the same event.
    pub(crate) read_at: Picos,
    /// The number of coarse and exact timers that are queued.
    pub(crate) pending: i64,
    /// The ledger of the queued timers, if the run keeps it.
    pub(crate) ledger: Option<Ledger>,
    digest: u64,
}

/// The kinds of events in the digest.
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

impl TraceChecker {
    pub(crate) fn new(late_max: Picos, tick: Picos, isolated: Vec<bool>) -> Self {
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
        }
    }

    /// Reports a violation `wrong` of `promise` on `cpu`, if there is one. Returns true if the promise was kept.
    #[inline]
    pub(crate) fn check(&mut self, promise: Promise, cpu: u32, wrong: Option<String>) -> bool {
        match wrong {
            None => true,
            Some(what) => {
                self.broken(promise, cpu, what);
                false
            }
        }
    }

    #[cold]
    fn broken(&mut self, promise: Promise, cpu: u32, what: String) {
        *self.broken.entry(promise).or_default() += 1;
        if self.violations.len() < STORIES_MAX {
            self.violations.push(Violation {
                promise,
                at: current_cpu::cursor(),
                cpu,
                what,
            });
        }
    }

    /// Checks that `cpu`, which works for another CPU as `what` describes, is not isolated.
    pub(crate) fn serves(&mut self, cpu: u32, what: impl FnOnce() -> String) {
        let is_isolated = self.isolated.get(cpu as usize) == Some(&true);
        let wrong = isolated_undisturbed::disturbed(is_isolated, what);
        self.check(Promise::IsolatedUndisturbed, cpu, wrong);
    }

    fn is_filed_finely(&mut self, cpu: u32, now: Tick, expiry: Tick, due: Tick) {
        let behind = self.late_max.0.div_ceil(self.tick.0);
        let wrong = bounded_late::filed(now, expiry, due, behind);
        self.check(Promise::BoundedLate, cpu, wrong);
    }

    fn is_soon_enough(&mut self, cpu: u32, late: Picos, whose: impl FnOnce() -> String) {
        let wrong = bounded_late::fires(late, self.late_max, whose);
        self.check(Promise::BoundedLate, cpu, wrong);
    }

    /// Reports the timers of `cpu` that were due before `oldest` and are still queued at `end`. The first of them was
    /// due at `first`.
    pub(crate) fn lost(
        &mut self,
        cpu: u32,
        first: Picos,
        (oldest, end): (Picos, Picos),
        clocks: &Clocks,
    ) {
        let tick = self.tick;
        let listed = self
            .ledger
            .as_ref()
            .map(|ledger| never_lost::listed(ledger, clocks, (cpu, tick), (oldest, end)));
        let mut lost = listed.unwrap_or_default();
        if lost.is_empty() {
            lost.push(first);
        }
        lost.sort_unstable();
        for due in lost {
            let wrong = never_lost::overdue(format_args!("a timer of {due}"), end - due);
            self.check(Promise::NeverLost, cpu, Some(wrong));
        }
    }

    /// Checks the number `found` of queued timers at the end of the run.
    pub(crate) fn ends_with(&mut self, found: usize) {
        let wrong = never_lost::miscounted(found as u64, self.pending);
        self.check(Promise::NeverLost, 0, wrong);
    }

    #[inline]
    pub(crate) fn event(&mut self, cpu: u32, at: Picos, value: u64) {
        self.counts.events += 1;
        self.log(Entry::Event, cpu, at, value);
    }

    /// Adds an event to the digest.
    #[inline]
    pub(crate) fn log(&mut self, entry: Entry, cpu: u32, at: Picos, value: u64) {
        let head = (entry as u64) << 32 | u64::from(cpu);
        for word in [at.0, head, value] {
            // FNV-1a over words instead of bytes, with a turn so that high bits count.
            self.digest = (self.digest ^ word)
                .wrapping_mul(0x0000_0100_0000_01B3)
                .rotate_left(23);
        }
    }

    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }

    /// Checks and counts an event of the core's trace.
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
                stood,
                hard,
                ..
            } => {
                if clock != Clock::Monotonic {
                    self.clock_of.insert(timer, clock);
                }
                self.counts.started(was_armed, stood);
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
        // The tick has to be over for the CPU, too, that counts the ticks.
        let over = self.tick * timeout.expiry.0.saturating_add(1);
        let at_tick = self.tick * timeout.now.0;
        let whose = || format!("a coarse timer for {:?}", timeout.expiry);
        let wrong = never_early::fires(over, at.min(at_tick), whose);
        self.check(Promise::NeverEarly, executing, wrong);
        let late = at - self.tick * timeout.due.0;
        let is_remote = timeout.cpu.0 != executing;
        self.tallies.coarse(executing, timeout.cpu.0, late);
        if is_remote {
            self.counts.remote_fires += 1;
            self.late_remote.note(late);
        } else {
            self.late_own.note(late);
        }
        if timeout.kind != WheelKind::Deferrable {
            let what = || format!("a coarse timer of CPU {}", timeout.cpu.0);
            self.is_soon_enough(executing, late, what);
        }
        if is_remote {
            let what = || format!("it runs a timer of CPU {}", timeout.cpu.0);
            self.serves(executing, what);
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
        let wrong = never_early::fires(moment(soft), at, || "an exact timer".to_owned());
        self.check(Promise::NeverEarly, cpu, wrong);
        self.exact_is_late(cpu, at - moment(hard));
    }

    #[inline]
    fn exact_is_late(&mut self, cpu: u32, late: Picos) {
        self.late_exact.note(late);
        self.tallies.exact(cpu, late);
        self.is_soon_enough(cpu, late, || "an exact timer".to_owned());
    }

    /// Checks a timer that fires on a clock that may be set. Its lateness counts from the last time at which it was
    /// truly due. It is early if it was not due when its CPU read the clock: another CPU may set the clock back between
    /// the reading and the firing.
    fn wall_fires(&mut self, cpu: u32, (clock, hard, soft): (Clock, i64, i64), clocks: &Clocks) {
        let at = current_cpu::cursor();
        self.log(Entry::ExactFire, cpu, at, hard.cast_unsigned());
        self.counts.wall_fires += 1;
        let now = clocks.shows(current_cpu::cpu(), at);
        let read = clocks.shows(current_cpu::cpu(), self.read_at);
        let shown = clocks.truly_shows(clock, read);
        let whose = || format!("a timer of the {clock:?} clock");
        let wrong = never_early::fires(soft, shown, whose);
        self.check(Promise::NeverEarly, cpu, wrong);
        // One with slack that fires before its deadline is not late.
        let late = clocks.due_for(clock, hard, now);
        self.exact_is_late(cpu, Picos::from_nanos(late.unwrap_or(0)));
    }
}

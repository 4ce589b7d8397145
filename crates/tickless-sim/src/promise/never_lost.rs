//! `never_lost`: what was armed fires, is cancelled, or waits for a time that has not come.
//!
//! Looked at when the world ends. Each timer that is lost counts, as in `tickless verify`.

use tickless_core::platform::CpuId;
use tickless_core::time::{Clock, Instant};

use super::Promise;
use crate::machine::machine::World;
use crate::model::current_cpu;
use crate::model::time::Picos;
use crate::promise::ledger::{Due, Queued};

impl World {
    /// Looks at what is left when the world ends at `end`: nothing may be overdue, and what was armed and neither fired
    /// nor was cancelled must be there.
    pub(crate) fn check_end(&mut self, end: Picos) {
        current_cpu::enter(current_cpu::NO_CPU, end);
        let host = self.timers.platform();
        // A clock that was set forward makes due what was not: give it the same time.
        let is_new = end - host.clocks.settled_at() < self.late_max;
        let mut pending = 0;
        for cpu in 0..u32::try_from(self.cpus.len()).unwrap_or(u32::MAX) {
            let id = CpuId(cpu);
            self.timers.assert_valid(id);
            pending += self.timers.wheel_pending(id) + self.timers.pending(id);
            let first = self.first_of(cpu);
            // Who is in the middle of something is not late yet.
            let is_busy = self.cpus[cpu as usize].cursor >= end;
            if first < self.oldest(end).instant() && !is_busy && !is_new {
                self.lost(cpu, first, end);
            }
        }
        if let Some(recorder) = &host.recorder {
            recorder.end(end, pending as u64);
        }
        let mut watch = host.watch.borrow_mut();
        let expected = watch.pending;
        if i64::try_from(pending) != Ok(expected) {
            let what = format!("{pending} timers are queued, and {expected} should be");
            watch.broken(Promise::NeverLost, 0, what);
        }
    }

    /// What is due before that is overdue at `end`.
    fn oldest(&self, end: Picos) -> Picos {
        let clocks = &self.timers.platform().clocks;
        clocks.shows_picos(current_cpu::NO_CPU, end) - self.late_max
    }

    /// When the first timer of `cpu` is due, by its queues.
    fn first_of(&self, cpu: u32) -> Instant {
        let now = self.timers.platform().count.now();
        let next = self.timers.wheel_next(CpuId(cpu), now.tick);
        let coarse = [next.local, next.global].into_iter().flatten().min();
        let began = |tick: u64| (self.period * tick).instant();
        let coarse = coarse.map_or(Instant::FOREVER, |tick| began(tick.0));
        coarse.min(self.timers.next_event(CpuId(cpu)))
    }

    /// Timers of `cpu` are overdue at `end`, the first of which was due at `first`.
    fn lost(&self, cpu: u32, first: Instant, end: Picos) {
        let first = Picos::of_instant(first);
        let mut lost = self.overdue(cpu, end).unwrap_or_default();
        if lost.is_empty() {
            lost.push(first);
        }
        lost.sort_unstable();
        let mut watch = self.timers.platform().watch.borrow_mut();
        for due in lost {
            let what = format!("a timer of {due} is queued still");
            watch.broken(Promise::NeverLost, cpu, what);
        }
    }

    /// When the timers of `cpu` were due that are overdue at `end`, if they are known one by one.
    fn overdue(&self, cpu: u32, end: Picos) -> Option<Vec<Picos>> {
        let watch = self.timers.platform().watch.borrow();
        let ledger = watch.ledger.as_ref()?;
        let oldest = self.oldest(end);
        let of_cpu = ledger.queued().filter(|queued| queued.cpu == cpu);
        let due = of_cpu.filter_map(|queued| self.due(*queued, end));
        Some(due.filter(|due| *due < oldest).collect())
    }

    /// When a timer was due, by the monotonic clock, if it is at `end`.
    fn due(&self, queued: Queued, end: Picos) -> Option<Picos> {
        match queued.due {
            Due::Tick(tick) => Some(self.period * tick.0),
            Due::At(Clock::Monotonic, nanos) => Some(Picos::of_instant(Instant::from_nanos(nanos))),
            Due::At(clock, nanos) => {
                let clocks = &self.timers.platform().clocks;
                let shown = clocks.shows(current_cpu::NO_CPU, end);
                let since = clocks.due_for(clock, nanos, shown)?;
                Some(Picos::of_instant(shown) - Picos::from_nanos(since))
            }
            Due::Never => None,
        }
    }
}

//! `never_lost`: what was armed fires, is cancelled, or waits for a time that has not come.
//!
//! Looked at when the world ends.

use tickless_core::platform::CpuId;
use tickless_core::time::Instant;

use super::Promise;
use crate::world::meter;
use crate::world::time::Picos;
use crate::world::world::World;

impl World {
    /// Looks at what is left when the world ends at `end`: nothing may be overdue, and what was armed and neither fired
    /// nor was cancelled must be there.
    pub(crate) fn check_end(&mut self, end: Picos) {
        meter::enter(meter::NOBODY, end);
        let now = self.timers.platform().count.now();
        let end_shown = self
            .timers
            .platform()
            .clocks
            .shows_picos(meter::NOBODY, end);
        let oldest = (end_shown - self.late_max).instant();
        // A clock that was set forward makes due what was not: give it the same time.
        let is_new = end - self.timers.platform().clocks.settled_at() < self.late_max;
        let mut pending = 0;
        for cpu in 0..u32::try_from(self.cpus.len()).unwrap_or(u32::MAX) {
            let id = CpuId(cpu);
            self.timers.assert_valid(id);
            pending += self.timers.wheel_pending(id) + self.timers.pending(id);
            let next = self.timers.wheel_next(id, now.tick);
            let began = |tick: u64| (self.period * tick).instant();
            let coarse = [next.local, next.global].into_iter().flatten().min();
            let coarse = coarse.map_or(Instant::FOREVER, |tick| began(tick.0));
            let first = coarse.min(self.timers.next_event(id));
            // Who is in the middle of something is not late yet.
            let is_busy = self.cpus[cpu as usize].cursor >= end;
            if first < oldest && !is_busy && !is_new {
                let what = format!("a timer of {} is queued still", Picos::of_instant(first));
                let mut watch = self.timers.platform().watch.borrow_mut();
                watch.broken(Promise::NeverLost, cpu, what);
            }
        }
        let host = self.timers.platform();
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
}

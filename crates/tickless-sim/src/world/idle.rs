//! Idle: the forecast, the governor, the commit, and the way back (spec 3.2 to 3.5).

use std::sync::atomic::Ordering;

use tickless_core::hrtimer::Start;
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;
use tickless_core::wheel::idle::{NextDue, TickTime, wake_times};

use super::baseline::SleepLength;
use super::meter;
use super::profile::IdleState;
use super::promise::Promise;
use super::time::Picos;
use super::world::World;

/// The deepest state that pays for a sleep of `length`, as far as the governor knows.
pub(crate) fn choose(states: &[IdleState], length: Picos) -> usize {
    let pays = |state: &IdleState| state.believed_residency <= length;
    let fitting = states.iter().rposition(pays);
    // Nothing fits a sleep that is too short for all: the shallowest.
    fitting.unwrap_or(0)
}

/// What a forecast says.
struct Forecast {
    /// When the CPU has to wake for its wheels and for others, if it idles now.
    wheels: Instant,
    /// When its first timer is due, whoever runs it.
    any: Instant,
    may_idle: bool,
}

impl World {
    /// Nothing is left to run on `cpu`, which executes. Called again after each interrupt that leaves it so.
    pub(crate) fn go_idle(&mut self, cpu: u32) {
        let id = CpuId(cpu);
        let at = self.tick_time();
        let exact = {
            let tick = &self.cpus[cpu as usize].tick;
            self.timers.next_event_without(id, tick.pinned())
        };
        let forecast = self.forecast(cpu, at);
        let horizon = meter::cursor().instant().saturating_add(at.period);
        let may_stop = forecast.may_idle && forecast.wheels > horizon && exact > horizon;
        let until = if may_stop {
            self.commit(cpu, at, horizon, forecast.wheels)
        } else {
            None
        };
        let wakes = match until {
            Some(until) => {
                self.stop_tick(cpu, until);
                until.min(exact)
            }
            None => {
                self.undo_stop(cpu);
                let next_tick = Picos((meter::cursor().0 / self.period.0 + 1) * self.period.0);
                exact.min(next_tick.instant())
            }
        };
        let now = meter::cursor();
        let state = &mut self.cpus[cpu as usize];
        state.wakes_at = Picos::of_instant(wakes);
        let length = match self.policy.sleep_length {
            SleepLength::Own => state.wakes_at,
            SleepLength::IncludingMovable => state.wakes_at.min(Picos::of_instant(forecast.any)),
        };
        state.idle = Some(choose(&self.states, length - now));
        state.idle_since = now;
        self.timers.platform().site(cpu).idle.set(true);
    }

    /// Side-effect free: the governor may decide to keep the tick.
    fn forecast(&self, cpu: u32, at: TickTime) -> Forecast {
        let next = self.timers.wheel_next(CpuId(cpu), at.tick);
        let times = wake_times(next, at);
        let instant = |due: Option<_>| due.map_or(Instant::FOREVER, |due| at.instant_of(due));
        let mut wheels = times.local;
        // Whoever sleeps already has said so; the commit only corrects it.
        if times.may_idle && !self.cpus[cpu as usize].stopped {
            wheels = wheels.min(self.tree.peek(CpuId(cpu), times.global));
        }
        Forecast {
            wheels,
            any: instant(next.local).min(instant(next.global)),
            may_idle: times.may_idle,
        }
    }

    /// Until when `cpu` sleeps without a tick; `None` if it stays awake after all.
    fn commit(
        &self,
        cpu: u32,
        at: TickTime,
        horizon: Instant,
        forecast: Instant,
    ) -> Option<Instant> {
        let id = CpuId(cpu);
        let forgets = self.breaks(Promise::Covered);
        let mut until = Instant::FOREVER;
        let sleeps = self.timers.wheel_enter_idle(id, at.tick, |next: NextDue| {
            let times = wake_times(next, at);
            until = times.local;
            if !times.may_idle {
                return false;
            }
            let global = if forgets {
                Instant::FOREVER
            } else {
                times.global
            };
            until = until.min(self.tree.enter_idle(id, global));
            if until > horizon {
                return true;
            }
            // Awake, as far as others are concerned (R60).
            self.tree.leave_idle(id);
            false
        });
        // The governor chose for the forecast: if something vanished since, the earlier time is kept (spec 3.3).
        sleeps.then(|| until.min(forecast))
    }

    fn stop_tick(&mut self, cpu: u32, until: Instant) {
        let until = if self.breaks(Promise::IdleStaysIdle) {
            let soon = meter::cursor() + self.period;
            until.min(soon.instant())
        } else {
            until
        };
        let state = &mut self.cpus[cpu as usize];
        if !state.stopped {
            let host = self.timers.platform();
            host.watch.borrow_mut().counts.idle_entries += 1;
        } else if state.until == until && state.tick.pinned().is_queued() != until.is_forever() {
            return;
        }
        state.stopped = true;
        state.until = until;
        state.tick_runs.store(false, Ordering::Relaxed);
        if until.is_forever() {
            state.tick.cancel();
        } else {
            state.tick.start(Start::at(until));
        }
    }

    /// `cpu` has its tick again, if it had stopped it.
    fn undo_stop(&mut self, cpu: u32) {
        if !std::mem::take(&mut self.cpus[cpu as usize].stopped) {
            return;
        }
        self.timers.wheel_leave_idle(CpuId(cpu));
        self.tree.leave_idle(CpuId(cpu));
        self.restart_tick(cpu);
    }

    /// `cpu`, which executes, runs something again.
    pub(crate) fn leave_idle(&mut self, cpu: u32) {
        self.undo_stop(cpu);
        self.cpus[cpu as usize].idle = None;
        self.timers.platform().site(cpu).idle.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::choose;
    use crate::world::profile::Profile;
    use crate::world::time::Picos;

    #[test]
    fn the_governor_takes_the_deepest_state_that_pays() {
        let skylake = Profile::embedded("skl-112").unwrap().idle;
        let name = |micros| {
            skylake[choose(&skylake, Picos::from_micros(micros))]
                .name
                .as_str()
        };
        assert_eq!(
            [1, 2, 19, 20, 599, 600, 1_000_000].map(name),
            ["poll", "C1", "C1", "C1E", "C1E", "C6", "C6"]
        );
    }
}

//! Idle: what the core says, what the governor chooses, and the way back (spec 3.2 to 3.5, 7.7).

use std::rc::Rc;

use tickless_core::event::Flush;
use tickless_core::hrtimer::Start;
use tickless_core::platform::CpuId;
use tickless_core::tick::{
    Dependencies, Dependency, StoppedTick, TickDependencies, first_dependency,
};
use tickless_core::time::{Instant, Offset, Span};

use crate::baseline::SleepLength;
use crate::machine::machine::World;
use crate::model::current_cpu;
use crate::model::governor::choose;
use crate::model::time::Picos;
use crate::promise::Promise;
use crate::record::Recorded;

impl World {
    /// Nothing is left to run on `cpu`, which executes. Called again after each interrupt that leaves it so.
    pub(crate) fn go_idle(&mut self, cpu: u32) {
        self.drop_slice(cpu);
        let ticks = Rc::clone(&self.ticks);
        let nohz = ticks.nohz();
        let mut tick = ticks.of(cpu);
        let timer = self.cpus[cpu as usize].tick.pinned();
        nohz.enter_idle(&mut tick);
        let forecast = nohz.forecast(&tick, TickDependencies::default());
        let now = self.timers.platform().shows();
        let sleep = nohz.sleep_length(&tick, timer, forecast, now);
        let mut length = picos(match self.policy.sleep_length {
            SleepLength::Own => sleep.own,
            SleepLength::IncludingMovable => sleep.including_movable,
        });
        // A governor that expects an interrupt within a tick lets it run (spec 7.7).
        let keeps = !tick.is_stopped() && length < self.period;
        let stopped = if keeps {
            None
        } else {
            nohz.stop(&mut tick, timer, forecast).ok()
        };
        let is_stopped = tick.is_stopped();
        drop(tick);
        self.arm_exactly(cpu);
        self.flush(cpu, Flush::KernelExit);
        let mut wakes_at = Picos::ZERO;
        if let Some(stopped) = stopped {
            self.stopped_tick(cpu, stopped);
            // Or for its exact timers.
            let own = Span::from_nanos(u64::try_from(sleep.own.as_nanos()).unwrap_or(0));
            wakes_at = self
                .timers
                .platform()
                .moment(stopped.wake.min(now.saturating_add(own)));
        } else if !is_stopped {
            // It has its tick, and asked for nothing else.
            let armed = self.timers.platform().base_of(cpu).armed();
            length = Picos::of_instant(armed) - Picos::of_instant(now);
        }
        self.cpus[cpu as usize].wakes_at = wakes_at;
        let chosen = self.without_counter(choose(&self.states, length));
        let idle = self.go_deep(cpu, chosen);
        let state = &mut self.cpus[cpu as usize];
        state.idle = Some(idle);
        state.idle_since = current_cpu::cursor();
        let host = self.timers.platform();
        host.site(cpu).idle.set(true);
        host.record(|| {
            let wakes = host.base_of(cpu).armed();
            Recorded::CpuIdle {
                state: Some(self.states[idle].name.clone()),
                wakes: (!wakes.is_forever()).then(|| wakes.as_nanos()),
            }
        });
    }

    fn stopped_tick(&self, cpu: u32, stopped: StoppedTick) {
        if stopped.was_ticking {
            let host = self.timers.platform();
            host.watch.borrow_mut().counts.idle_entries += 1;
        }
        if self.breaks(Promise::Covered) {
            // As if it had told nobody what it has.
            self.tree.leave_idle(CpuId(cpu));
            let _cover = self.tree.enter_idle(CpuId(cpu), Instant::FOREVER);
        }
        if self.breaks(Promise::IdleStaysIdle) {
            let soon = self.timers.platform().shows();
            let soon = soon.saturating_add(Span::from_nanos(self.period.as_nanos()));
            self.cpus[cpu as usize].tick.start(Start::at(soon));
        }
    }

    /// `cpu`, which executes, leaves idle, or a task without a tick: it has its tick.
    pub(crate) fn leave_idle(&mut self, cpu: u32) {
        let conditions = TickDependencies {
            reschedule: true,
            ..TickDependencies::default()
        };
        self.run_task(cpu, conditions);
    }

    /// `cpu`, which executes, goes on with its task, which may run without a tick.
    pub(crate) fn run_on(&mut self, cpu: u32) {
        let state = &self.cpus[cpu as usize];
        if state.waiting.is_empty() {
            state.dependencies.clear(Dependency::Scheduler);
        } else {
            // It looks at once.
            let _is_first = state.dependencies.set(Dependency::Scheduler);
        }
        let none = Dependencies::new();
        let task = state.current.map(|task| &self.tasks[task as usize]);
        let task = task.map_or(&none, |task| &task.dependencies);
        let dependency = first_dependency(&none, &state.dependencies, task, &none);
        let conditions = TickDependencies {
            dependency: dependency.is_some(),
            ..TickDependencies::default()
        };
        self.run_task(cpu, conditions);
    }

    /// `cpu`, which executes, runs something: it has its tick, if it had stopped it and needs it.
    pub(crate) fn run_task(&mut self, cpu: u32, conditions: TickDependencies) {
        let ticks = Rc::clone(&self.ticks);
        let mut tick = ticks.of(cpu);
        let state = &mut self.cpus[cpu as usize];
        let now = if tick.is_stopped() {
            self.timers.platform().read()
        } else {
            self.timers.platform().shows()
        };
        let _kept = ticks
            .nohz()
            .run_task(&mut tick, state.tick.pinned(), conditions, now);
        state.wakes_at = Picos::ZERO;
        state.idle = None;
        self.timers.platform().site(cpu).idle.set(false);
    }
}

/// A time that may be over.
fn picos(length: Offset) -> Picos {
    Picos::from_nanos(u64::try_from(length.as_nanos()).unwrap_or(0))
}

//! A CPU: what it does in an interrupt, at a tick, and on the way out.
//!
//! What an event makes a CPU do is executed as a whole, when the event comes, and moves the CPU's cursor as far as it
//! costs. What comes for that CPU meanwhile waits for the cursor.

use tickless_core::coarse::{Kind, PassEnd};
use tickless_core::event::Flush;
use tickless_core::hrtimer::Start;
use tickless_core::platform::CpuId;
use tickless_core::tick::TickDependencies;

use crate::baseline::{Rearm, Soft};
use crate::fault::FaultKind;
use crate::machine::fired::{self, Fired};
use crate::machine::machine::World;
use crate::machine::queue::What;
use crate::machine::scheduler::{Life, Next, TaskId};
use crate::machine::task_context::Turn;
use crate::model::current_cpu;
use crate::model::time::Picos;
use crate::promise::trace_checker::Entry;
use crate::record::{self, Recorded};

impl World {
    /// An interrupt of `cpu` at `at`.
    pub(crate) fn interrupt(&mut self, cpu: u32, at: Picos, what: What, argument: u32) {
        let charges = self.model.charges;
        let mut start = at;
        if what == What::Device {
            start += charges.device_fire;
        }
        start += self.wakes_from_idle(cpu, at);
        let left = self.cpus[cpu as usize].segment_ends - start;
        current_cpu::enter(cpu, start);
        self.timers.platform().site(cpu).idle.set(false);
        let name = record::name(what);
        let enters = || Recorded::IrqHandlerEntry { name };
        self.timers.platform().record(enters);
        self.leave_deep(cpu);
        self.counts_first(cpu, at);
        current_cpu::charge(if self.cpus[cpu as usize].current.is_some() {
            charges.irq_user
        } else {
            charges.irq_kernel
        });
        match what {
            What::Device => self.device_fires(cpu, at, false),
            What::Kick => {
                self.timers
                    .platform()
                    .site(cpu)
                    .trouble
                    .is_kicked
                    .set(false);
                self.timers.retrigger(CpuId(cpu));
            }
            What::Broadcast => self.broadcast_fires(cpu, at),
            What::Called => self.called(cpu, at),
            What::Activate => {
                self.heir_came();
                self.leave_idle(cpu);
            }
            What::Poke => self.soft_stage(cpu),
            What::Arrival => self.arrives(argument),
            What::Fault => self.hits(cpu, argument, left),
            What::ClockSet => self.tells_of_clock(),
            What::Spurious => self.device_fires_unasked(cpu, at, argument != 0),
            What::Reschedule => self.somebody_waits(cpu),
            What::Segment
            | What::Sample
            | What::Plan
            | What::Clock
            | What::ClockFault
            | What::Return
            | What::Continue => {}
        }
        self.handle_fired();
        let leaves = || Recorded::IrqHandlerExit { name };
        self.timers.platform().record(leaves);
        if self.cpus[cpu as usize].is_off {
            self.cpus[cpu as usize].cursor = current_cpu::leave();
            return;
        }
        self.leave_interrupt(cpu, at, start, left);
    }

    /// `cpu` leaves its idle state at `at`, if it is in one; how long that takes.
    fn wakes_from_idle(&mut self, cpu: u32, at: Picos) -> Picos {
        let state = &mut self.cpus[cpu as usize];
        let Some(idle) = state.idle.take() else {
            return Picos::ZERO;
        };
        let takes = state.wakes(&self.states, idle, at);
        let host = self.timers.platform();
        host.watch
            .borrow_mut()
            .tallies
            .count(cpu, |tally| tally.wakes += 1);
        let awake = || Recorded::CpuIdle {
            state: None,
            wakes: None,
        };
        host.record_at(cpu, at, awake);
        takes
    }

    /// A CPU without a tick counts before anything else happens in an interrupt that came at `at` (R33).
    fn counts_first(&self, cpu: u32, at: Picos) {
        let tick = self.ticks.of(cpu);
        if tick.is_stopped() {
            let _read = self.timers.platform().read();
            let shown = self.timers.platform().clocks.shows(cpu, at);
            self.ticks.nohz().interrupt(&tick, shown);
        }
    }

    pub(crate) fn device_fires(&mut self, cpu: u32, at: Picos, is_unasked: bool) {
        let site = self.timers.platform().site(cpu);
        site.fires.set(Picos::FOREVER);
        let is_held = !is_unasked && site.trouble.held_until.take() != Picos::ZERO;
        let is_early = site.trouble.is_early.replace(false);
        if is_early {
            self.count_fault(FaultKind::Early);
        }
        self.wakes_in_time(cpu, at, is_early || is_held || is_unasked);
        site.programmings.set(0);
        let _turn = self.timers.interrupt(CpuId(cpu));
        self.owe_rearm(cpu);
        if self.policy.rearm == Rearm::Immediate {
            self.flush(cpu, Flush::KernelExit);
        }
        let mut watch = self.timers.platform().watch.borrow_mut();
        watch.counts.interrupts += 1;
        watch.tallies.count(cpu, |tally| tally.interrupts += 1);
        drop(watch);
        if self.timers.platform().site(cpu).soft_raised.replace(false) {
            self.flush(cpu, Flush::SoftWork);
            let _soft = self.timers.soft_interrupt(CpuId(cpu));
        }
    }

    fn arrives(&mut self, task: TaskId) {
        let place = task as usize;
        if let Some(mut program) = self.tasks[place].program.take() {
            program.arrived(&mut Turn::new(self, task));
            self.tasks[place].program = Some(program);
        }
    }

    /// Looks at what fired in what the CPU just did.
    pub(crate) fn handle_fired(&mut self) {
        let mut fired = std::mem::take(&mut self.fired);
        loop {
            fired::take(&mut fired);
            if fired.is_empty() {
                break;
            }
            for one in fired.drain(..) {
                match one {
                    Fired::Tick {
                        wheel_is_due,
                        remote_is_due,
                    } => self.tick(wheel_is_due, remote_is_due),
                    Fired::Task(task) => self.wake(task),
                    Fired::Slice(cpu) => self.slice_fired(cpu),
                    Fired::Coarse { task, index } => self.coarse_fired(task, index),
                }
            }
        }
        self.fired = fired;
    }

    fn coarse_fired(&mut self, task: TaskId, index: u32) {
        let place = task as usize;
        if self.tasks[place].cpu != current_cpu::cpu() {
            let mut watch = self.timers.platform().watch.borrow_mut();
            watch.counts.ping_pongs += 1;
        }
        if let Some(mut program) = self.tasks[place].program.take() {
            program.expired(index, &mut Turn::new(self, task));
            self.tasks[place].program = Some(program);
        }
    }

    /// The tick of the CPU that executes fired, and found out what is due.
    fn tick(&mut self, wheel_is_due: bool, remote_is_due: bool) {
        let cpu = current_cpu::cpu();
        let charges = self.model.charges;
        current_cpu::charge(charges.tick);
        let host = self.timers.platform();
        host.watch.borrow_mut().counts.ticks += 1;
        current_cpu::charge(charges.soft_check);
        host.site(cpu).told.write(&self.model, 1);
        let runs = match self.policy.soft {
            Soft::FirstDue => wheel_is_due || remote_is_due,
            Soft::Unconditional => true,
            Soft::Bitmap => {
                remote_is_due || current_cpu::looking(|| self.timers.wheel_pending(CpuId(cpu))) > 0
            }
        };
        if runs {
            self.soft_stage(cpu);
        }
    }

    /// Runs what is due of the coarse timers of `cpu`, and of those that it looks after.
    pub(crate) fn soft_stage(&mut self, cpu: u32) {
        self.flush(cpu, Flush::SoftWork);
        let charges = self.model.charges;
        let vec = "TIMER";
        let enters = || Recorded::SoftirqEntry { vec };
        self.timers.platform().record(enters);
        current_cpu::charge(charges.soft_raise);
        current_cpu::charge(if self.real_time {
            charges.soft_thread
        } else {
            charges.soft_run
        });
        let host = self.timers.platform();
        host.watch.borrow_mut().counts.soft_stages += 1;
        let now = self.tick_time().tick;
        for kind in Kind::ALL {
            let pass = self.timers.run_wheel(CpuId(cpu), kind, now, u32::MAX);
            debug_assert!(pass.end != PassEnd::Budget, "there is no budget");
        }
        let now = self.tick_time().began;
        if self.tree.remote_work_due(CpuId(cpu), now) {
            let mut budget = u32::MAX;
            let _pull = self.tree.serve_remote(CpuId(cpu), now, &mut budget);
        }
        let leaves = || Recorded::SoftirqExit { vec };
        self.timers.platform().record(leaves);
    }

    /// `cpu`, which executes, has nothing left to run: whether it ran what is due of others.
    ///
    /// It will not tick any more. Were it left to whoever takes over, who may work for less than a tick too, and so on,
    /// what is due would wait for as many ticks.
    fn serves_others(&mut self, cpu: u32) -> bool {
        current_cpu::charge(self.model.charges.soft_check);
        let now = self.tick_time().began;
        let is_due = self.tree.remote_work_due(CpuId(cpu), now);
        if is_due {
            self.soft_stage(cpu);
            self.handle_fired();
        }
        is_due
    }

    /// Somebody filed a timer for `cpu` from another one: what a bitmap without a lock needs (baseline).
    pub(crate) fn filed_for(&self, cpu: u32) {
        if self.policy.soft == Soft::Bitmap
            && self.isolated[cpu as usize]
            && cpu != current_cpu::cpu()
        {
            self.timers.platform().send(cpu, What::Poke);
        }
    }

    /// Makes a task ready, wherever it is.
    pub(crate) fn wake(&mut self, task: TaskId) {
        let place = task as usize;
        current_cpu::charge(self.model.charges.wake);
        let sleeper = &mut self.tasks[place];
        if sleeper.life != Life::Blocked {
            sleeper.woken = true;
            return;
        }
        sleeper.life = Life::Ready;
        let (cpu, priority) = (sleeper.cpu, sleeper.priority);
        self.cpus[cpu as usize].waiting.put(task, priority, false);
        if cpu != current_cpu::cpu() {
            self.timers.platform().send(cpu, What::Reschedule);
        } else {
            self.somebody_waits(cpu);
        }
    }

    /// The way out of an interrupt that came at `at` and began at `start`, when the task that it interrupted had `left`
    /// to compute.
    fn leave_interrupt(&mut self, cpu: u32, at: Picos, start: Picos, left: Picos) {
        let place = cpu as usize;
        let current = self.cpus[place].current;
        if let Some(task) = current {
            let priority = self.tasks[task as usize].priority;
            let preempts = self.cpus[place].waiting.preempts(priority);
            if self.slice_is_over(cpu) || preempts {
                let state = &mut self.tasks[task as usize];
                if state.left != Picos::FOREVER {
                    state.left = left;
                }
                self.cpus[place].current = None;
                self.cpus[place].segment = self.cpus[place].segment.wrapping_add(1);
                self.cpus[place].waiting.put(task, priority, preempts);
                self.dispatch(cpu);
            } else {
                self.flush(cpu, Flush::UserExit);
                if self.tasks[task as usize].left != Picos::FOREVER {
                    self.cpus[place].segment_ends = current_cpu::cursor() + left;
                }
            }
            if self.tasks[task as usize].is_watched {
                self.note_theft(cpu, start);
            }
        } else if self.is_ahead(at) {
            self.flush(cpu, Flush::KernelExit);
            self.put_off(cpu);
            // What it waits for may be another thing by now.
            self.cpus[place].wakes_at = Picos::ZERO;
        } else {
            self.dispatch(cpu);
        }
        self.settle(cpu, at);
    }

    /// Whether the CPU that executes what came at `at` has gone on into another tick. Others have not come so far: they
    /// would go by a count that is ahead of them.
    fn is_ahead(&self, at: Picos) -> bool {
        current_cpu::cursor().0 / self.period.0 > at.0 / self.period.0
    }

    /// What is left to do is done in an event of its own.
    fn put_off(&mut self, cpu: u32) {
        self.cpus[cpu as usize].is_put_off = true;
        self.push(current_cpu::cursor(), What::Continue, cpu, 0);
    }

    /// The end of what `cpu` does for an event that came at `at`.
    pub(crate) fn settle(&mut self, cpu: u32, at: Picos) {
        if self.cpus[cpu as usize].current.is_some() && self.ticks.is_tickless(cpu) {
            if self.is_ahead(at) {
                self.put_off(cpu);
            } else {
                self.run_on(cpu);
            }
        }
        self.armed_in_time(cpu);
        self.cpus[cpu as usize].cursor = current_cpu::leave();
    }

    /// `cpu` goes on at `at` with what was put off, unless something came in between that did it.
    pub(crate) fn continues(&mut self, cpu: u32, at: Picos) {
        let state = &mut self.cpus[cpu as usize];
        let is_done = match state.current {
            Some(_) => !self.ticks.is_tickless(cpu),
            None => state.idle.is_some(),
        };
        if state.is_off || is_done {
            state.is_put_off = false;
            return;
        }
        let free = state.busy_until();
        if free > at {
            self.push(free, What::Continue, cpu, 0);
            return;
        }
        state.is_put_off = false;
        let was_idle = state.current.is_none();
        current_cpu::enter(cpu, at);
        if was_idle {
            self.dispatch(cpu);
            self.handle_fired();
        }
        self.settle(cpu, at);
    }

    pub(crate) fn note_theft(&mut self, cpu: u32, start: Picos) {
        let end = current_cpu::cursor();
        let state = &mut self.cpus[cpu as usize];
        let before = state.settle_theft(start);
        let from = state.theft.map_or(start, |(from, _)| from);
        state.theft = Some((from, end));
        if let Some(theft) = before {
            self.note("theft", theft);
        }
    }

    /// The task of `cpu` may have computed for as long as it wanted.
    pub(crate) fn segment_ends(&mut self, cpu: u32, at: Picos, segment: u32) {
        let state = &self.cpus[cpu as usize];
        if state.segment != segment {
            return;
        }
        if state.segment_ends > at {
            self.push(state.segment_ends, What::Segment, cpu, segment);
            return;
        }
        let Some(task) = state.current else {
            return;
        };
        self.tasks[task as usize].left = Picos::ZERO;
        {
            let mut watch = self.timers.platform().watch.borrow_mut();
            watch.counts.events += 1;
            watch.log(Entry::Event, cpu, at, (What::Segment as u64) << 32);
        }
        let at = at.max(state.cursor);
        current_cpu::enter(cpu, at);
        self.dispatch(cpu);
        self.handle_fired();
        self.settle(cpu, at);
    }

    /// Lets tasks of `cpu` take steps until one computes, or goes idle.
    pub(crate) fn dispatch(&mut self, cpu: u32) {
        let place = cpu as usize;
        let mut has_looked = false;
        loop {
            let Some(task) = self.cpus[place].current.or_else(|| self.pick(cpu)) else {
                if !std::mem::replace(&mut has_looked, true) && self.serves_others(cpu) {
                    continue;
                }
                self.go_idle(cpu);
                return;
            };
            let state = &mut self.tasks[task as usize];
            if state.left == Picos::FOREVER {
                return;
            }
            if state.left > Picos::ZERO {
                let ends = current_cpu::cursor() + state.left;
                let cpu_state = &mut self.cpus[place];
                cpu_state.segment = cpu_state.segment.wrapping_add(1);
                cpu_state.segment_ends = ends;
                let segment = cpu_state.segment;
                self.push(ends, What::Segment, cpu, segment);
                return;
            }
            self.step(cpu, task);
        }
    }

    fn pick(&mut self, cpu: u32) -> Option<TaskId> {
        let task = self.cpus[cpu as usize].waiting.take()?;
        self.run_task(cpu, TickDependencies::default());
        current_cpu::charge(self.model.charges.switch);
        let host = self.timers.platform();
        host.watch.borrow_mut().counts.switches += 1;
        host.record(|| Recorded::SchedSwitch {
            prev: None,
            next: Some(task),
        });
        let state = &mut self.cpus[cpu as usize];
        state.current = Some(task);
        state.changes += 1;
        self.begin_slice(cpu);
        self.flush(cpu, Flush::Switched);
        Some(task)
    }

    fn step(&mut self, cpu: u32, task: TaskId) {
        let place = task as usize;
        let mut program = self.tasks[place]
            .program
            .take()
            .expect("it does not step itself");
        let next = program.step(&mut Turn::new(self, task));
        let state = &mut self.tasks[place];
        state.program = Some(program);
        let woken = std::mem::take(&mut state.woken);
        match next {
            Next::Run(time) => state.left = time,
            Next::RunOn => {
                state.left = Picos::FOREVER;
                self.cpus[cpu as usize].segment_ends = Picos::FOREVER;
            }
            Next::Wait if woken => {}
            Next::Wait => self.block(cpu, task, Life::Blocked),
            Next::SleepUntil(until) => {
                let until = Picos::from_nanos(until.0.div_ceil(1_000));
                state.sleep.start(Start::at(until.instant()));
                self.block(cpu, task, Life::Blocked);
            }
            Next::Exit => self.block(cpu, task, Life::Done),
        }
        // Woken while it ran on: kept for the next time that it wants to wait.
        if matches!(next, Next::Run(_)) {
            self.tasks[place].woken = woken;
        }
    }

    fn block(&mut self, cpu: u32, task: TaskId, life: Life) {
        self.tasks[task as usize].life = life;
        self.timers.platform().record(|| Recorded::SchedSwitch {
            prev: Some(task),
            next: None,
        });
        let state = &mut self.cpus[cpu as usize];
        state.current = None;
        state.changes += 1;
        state.segment = state.segment.wrapping_add(1);
    }
}

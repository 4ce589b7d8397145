//! The main loop of a machine: takes the next event, and lets CPUs execute the work that follows from the event.
//!
//! The work that an event causes on a CPU is executed as a whole at the time of the event, and moves the CPU's cursor
//! by the cost of the work. Later events for that CPU wait for the cursor.

use tickless_core::event::Flush;
use tickless_core::hrtimer::Start;
use tickless_core::platform::CpuId;
use tickless_core::tick::TickDependencies;
use tickless_sched::Weight;
use tickless_sched::deadline::Reservation;

use crate::machine::fired::{self, Fired};
use crate::machine::machine::Machine;
use crate::machine::queue::{EventKind, SimEvent};
use crate::machine::scheduler::{Life, Next, TaskId};
use crate::machine::settings::Settings;
use crate::machine::task_context::{Program, TaskContext};
use crate::machine::timers::Operations;
use crate::machine::{broadcast, checks, clocks, expire, faults, hotplug, idle, rearm};
use crate::model::current_cpu;
use crate::model::time::Picos;
use crate::record::{MachineEvent, Recorder};

/// The interval at which the checkers inspect the whole machine.
const SAMPLES: Picos = Picos::from_millis(10);

/// A machine, and the programs of its tasks.
#[derive(Debug)]
pub(crate) struct Executor {
    // First, because programs have timers of the machine.
    programs: Vec<ProgramSlot>,
    machine: Machine,
    /// An empty list that is reused for its allocation.
    fired: Vec<Fired>,
}

/// The place of a program, which is empty while the program executes.
struct ProgramSlot(Option<Box<dyn Program>>);

impl std::fmt::Debug for ProgramSlot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = if self.0.is_some() {
            "waits"
        } else {
            "executes"
        };
        formatter.write_str(name)
    }
}

impl Executor {
    /// Makes a machine without tasks. The recorder, if there is one, receives every event.
    pub(crate) fn new(settings: &Settings, recorder: Option<Recorder>) -> Self {
        Self {
            programs: Vec::new(),
            machine: Machine::new(settings, recorder),
            fired: Vec::new(),
        }
    }

    pub(crate) const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the machine, to be changed while no CPU executes.
    pub(crate) const fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// Adds a task, which can run from the start.
    pub(crate) fn add_task(
        &mut self,
        program: Box<dyn Program>,
        cpu: u32,
        priority: u8,
        (weight, request, reservation): (Weight, Option<Picos>, Option<Reservation>),
    ) -> TaskId {
        self.programs.push(ProgramSlot(Some(program)));
        self.machine
            .add_task(cpu, priority, weight, request, reservation)
    }

    /// Executes all events before `end`.
    pub(crate) fn run(&mut self, end: Picos) {
        for cpu in 0..self.machine.cpus.len() {
            let number = u32::try_from(cpu).unwrap_or(current_cpu::NO_CPU);
            current_cpu::enter(number, self.machine.cpus[cpu].cursor);
            self.dispatch(number);
            self.settle(number, Picos::ZERO);
        }
        self.machine.push(SAMPLES, EventKind::Sample, 0, 0);
        faults::plan(&self.machine);
        loop {
            let event = self.machine.host().queue.borrow_mut().pop();
            match event {
                Some(event) if event.at < end => self.happen(event),
                _ => break,
            }
        }
        let machine = &mut self.machine;
        current_cpu::enter(current_cpu::NO_CPU, end);
        for cpu in 0..u32::try_from(machine.cpus.len()).unwrap_or(u32::MAX) {
            if let Some(task) = machine.cpus[cpu as usize].current {
                machine.settle_time(cpu, task);
            }
        }
        for cpu in &mut machine.cpus {
            cpu.settle_theft(Picos::FOREVER);
            if let Some(idle) = cpu.idle {
                cpu.wakes(&machine.states, idle, end);
            }
        }
        current_cpu::enter(current_cpu::NO_CPU, end);
    }

    fn happen(&mut self, event: SimEvent) {
        let SimEvent {
            at,
            kind,
            cpu,
            argument,
        } = event;
        let machine = &mut self.machine;
        machine.event_at = at;
        match kind {
            EventKind::Sample => {
                current_cpu::enter(current_cpu::NO_CPU, at);
                checks::sample(machine);
                machine.push(at + SAMPLES, EventKind::Sample, 0, 0);
                return;
            }
            EventKind::Plan => return faults::moment_comes(machine, at, argument),
            EventKind::Clock => return clocks::changed(machine, at, argument),
            EventKind::ClockFault => return clocks::fault_comes(machine, at, argument),
            EventKind::Segment => return self.segment_ends(cpu, at, argument),
            EventKind::Continue => return self.continues(cpu, at),
            EventKind::SectionEnd => return self.section_ends(cpu, at, argument),
            EventKind::Broadcast => {
                let wakener = machine.wakener.as_ref();
                if !wakener.is_some_and(|wakener| wakener.is_due(cpu, at)) {
                    return;
                }
            }
            EventKind::Device if !machine.host().device_is_due(cpu, at) => return,
            _ => {}
        }
        let state = &machine.cpus[cpu as usize];
        if state.is_off {
            if kind == EventKind::Return {
                self.comes_back(cpu, at);
            } else {
                hotplug::comes_while_off(machine, event);
            }
            return;
        }
        let cursor = state.busy_until();
        if cursor > at {
            // It is in the middle of something that cannot be interrupted.
            if kind == EventKind::Device {
                machine.host().ask_for_device(cpu, cursor);
            } else {
                machine.push(cursor, kind, cpu, argument);
            }
            return;
        }
        let value = (kind as u64) << 32 | u64::from(argument);
        machine.host().checker.borrow_mut().event(cpu, at, value);
        if kind != EventKind::Fault || !faults::hits_from_outside(machine, cpu, at, argument) {
            clocks::update(machine, at);
            self.interrupt(cpu, at, kind, argument);
        }
    }

    fn interrupt(&mut self, cpu: u32, at: Picos, kind: EventKind, argument: u32) {
        let machine = &mut self.machine;
        let charges = machine.model.charges;
        let mut start = at;
        if kind == EventKind::Device {
            start += charges.device_fire;
        }
        start += wakes_from_idle(machine, cpu, at);
        let left = machine.cpus[cpu as usize].segment_ends - start;
        current_cpu::enter(cpu, start);
        if let Some(precise) = &mut machine.cpus[cpu as usize].precise {
            precise.interrupt_begins(start);
        }
        machine.host().local(cpu).idle.set(false);
        let name = kind.name();
        machine
            .host()
            .record(|| MachineEvent::IrqHandlerEntry { name });
        broadcast::leave_deep(machine.wakener.as_deref(), &machine.timers, cpu);
        counts_first(machine, cpu, at);
        current_cpu::charge(if machine.cpus[cpu as usize].current.is_some() {
            charges.irq_user
        } else {
            charges.irq_kernel
        });
        match kind {
            EventKind::Device => expire::device_fires(machine, cpu, at, false),
            EventKind::Kick => {
                machine.host().local(cpu).fault.is_kicked.set(false);
                machine.timers.retrigger(CpuId(cpu));
            }
            EventKind::Broadcast => expire::broadcast_fires(machine, cpu, at),
            EventKind::Called => expire::called(machine, cpu, at),
            EventKind::Activate => {
                machine.heir_came();
                idle::leave(machine, cpu);
            }
            EventKind::Poke => expire::soft_stage(machine, cpu),
            EventKind::Arrival => {
                self.executes(argument, |program, context| program.arrived(context));
            }
            EventKind::Fault => faults::hits(machine, cpu, argument, left),
            EventKind::ClockSet => clocks::tell(machine),
            EventKind::Spurious => expire::device_fires_unasked(machine, cpu, at, argument != 0),
            EventKind::Reschedule => machine.task_waits(cpu),
            EventKind::Segment
            | EventKind::Sample
            | EventKind::Plan
            | EventKind::Clock
            | EventKind::ClockFault
            | EventKind::Return
            | EventKind::Continue
            | EventKind::SectionEnd => {}
        }
        self.handle_fired();
        let machine = &mut self.machine;
        machine
            .host()
            .record(|| MachineEvent::IrqHandlerExit { name });
        if let Some(precise) = &mut machine.cpus[cpu as usize].precise {
            precise.interrupt_ends();
        }
        if machine.cpus[cpu as usize].is_off {
            machine.cpus[cpu as usize].cursor = current_cpu::leave();
            return;
        }
        machine.replenish(cpu);
        self.leave_interrupt(cpu, at, start, left);
    }

    /// Lets the program of `task` execute `body`, unless the program executes already.
    #[inline]
    fn executes(
        &mut self,
        task: TaskId,
        body: impl FnOnce(&mut dyn Program, &mut TaskContext<'_>),
    ) {
        let place = task as usize;
        if let Some(mut program) = self.programs[place].0.take() {
            body(
                &mut *program,
                &mut TaskContext::new(&mut self.machine, task),
            );
            self.programs[place].0 = Some(program);
        }
    }

    /// Handles the timers that fired in the CPU's last call.
    #[inline]
    fn handle_fired(&mut self) {
        while fired::take(&mut self.fired) {
            self.handle_all_fired();
        }
    }

    fn handle_all_fired(&mut self) {
        let mut all = std::mem::take(&mut self.fired);
        for one in all.drain(..) {
            match one {
                Fired::Tick {
                    wheel_is_due,
                    remote_is_due,
                } => {
                    expire::tick(&self.machine, wheel_is_due, remote_is_due);
                    self.machine.account(current_cpu::cpu());
                }
                Fired::Task(task) => self.machine.wake(task),
                Fired::Slice(cpu) => self.machine.slice_fired(cpu),
                Fired::Bandwidth(cpu) => self.machine.bandwidth_fired(cpu),
                Fired::Coarse { task, index } => self.coarse_fired(task, index),
            }
        }
        self.fired = all;
    }

    fn coarse_fired(&mut self, task: TaskId, index: u32) {
        let machine = &self.machine;
        if machine.tasks[task as usize].cpu != current_cpu::cpu() {
            machine.host().checker.borrow_mut().counts.ping_pongs += 1;
        }
        self.executes(task, |program, context| program.expired(index, context));
    }

    /// Lets the executing `cpu`, which has nothing left to run, fire timers of other CPUs. Returns true if it fired
    /// any.
    ///
    /// The CPU will not tick any more. Left to the CPU that takes over, a due timer could wait for many ticks: that CPU
    /// may also work for less than a tick and pass the timer on.
    fn serves_others(&mut self, cpu: u32) -> bool {
        let machine = &mut self.machine;
        machine.end_decision(cpu);
        current_cpu::charge(machine.model.charges.soft_check);
        let now = machine.tick_time().began;
        let is_due = machine.tree.remote_work_due(CpuId(cpu), now);
        if is_due {
            expire::soft_stage(machine, cpu);
            self.handle_fired();
        }
        is_due
    }

    /// Leaves an interrupt that came at `at` and began at `start`. The task that the interrupt stopped had `left` to
    /// compute.
    fn leave_interrupt(&mut self, cpu: u32, at: Picos, start: Picos, left: Picos) {
        let machine = &mut self.machine;
        let place = cpu as usize;
        let current = machine.cpus[place].current;
        if let Some(task) = current {
            let preempts = machine.is_preempted(cpu, task);
            let makes_room = machine.slice_is_over(cpu) || machine.decision_is_due(cpu);
            let goes_on = !preempts && makes_room && machine.extends_slice(cpu, task);
            if preempts || (makes_room && !goes_on) {
                let state = &mut machine.tasks[task as usize];
                if state.left != Picos::FOREVER {
                    state.left = left;
                }
                machine.put_back(cpu, task, preempts);
                self.dispatch(cpu);
            } else {
                if !goes_on {
                    // Else the extension has paid (FLUSH-7).
                    rearm::pay_if_owed(&machine.timers, cpu, Flush::UserExit);
                    machine.put_off_section(cpu, current_cpu::cursor() - start);
                }
                if machine.tasks[task as usize].left != Picos::FOREVER {
                    machine.cpus[place].segment_ends = current_cpu::cursor() + left;
                }
            }
            if self.machine.tasks[task as usize].is_watched {
                self.machine.note_theft(cpu, start);
            }
        } else if machine.is_ahead(at) {
            rearm::pay_if_owed(&machine.timers, cpu, Flush::KernelExit);
            put_off(machine, cpu);
            // What it waits for may be another thing by now.
            machine.cpus[place].wakes_at = Picos::ZERO;
        } else {
            self.dispatch(cpu);
        }
        self.settle(cpu, at);
    }

    /// Ends the work of `cpu` for an event that came at `at`.
    fn settle(&mut self, cpu: u32, at: Picos) {
        let machine = &mut self.machine;
        if machine.cpus[cpu as usize].current.is_some() && machine.ticks.is_tickless(cpu) {
            if machine.is_ahead(at) {
                put_off(machine, cpu);
            } else {
                idle::run_on(machine, cpu);
            }
        }
        checks::armed_in_time(machine, cpu);
        machine.cpus[cpu as usize].cursor = current_cpu::leave();
    }

    /// Continues at `at` with the rest of the work of `cpu` that was put off, unless an event in between has done that
    /// work.
    fn continues(&mut self, cpu: u32, at: Picos) {
        let is_tickless = self.machine.ticks.is_tickless(cpu);
        let state = &mut self.machine.cpus[cpu as usize];
        let is_done = match state.current {
            Some(_) => !is_tickless,
            None => state.idle.is_some(),
        };
        if state.is_off || is_done {
            state.is_put_off = false;
            return;
        }
        let free = state.busy_until();
        if free > at {
            self.machine.push(free, EventKind::Continue, cpu, 0);
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

    fn comes_back(&mut self, cpu: u32, at: Picos) {
        let from = hotplug::bring_back(&mut self.machine, cpu, at);
        self.dispatch(cpu);
        self.handle_fired();
        self.settle(cpu, from);
    }

    /// Handles the end of a computation: the task of `cpu` may have computed for as long as it wanted.
    fn segment_ends(&mut self, cpu: u32, at: Picos, segment: u32) {
        let machine = &mut self.machine;
        let state = &machine.cpus[cpu as usize];
        if state.segment != segment {
            return;
        }
        if state.segment_ends > at {
            machine.push(state.segment_ends, EventKind::Segment, cpu, segment);
            return;
        }
        let Some(task) = state.current else {
            return;
        };
        let from = at.max(state.cursor);
        machine.tasks[task as usize].left = Picos::ZERO;
        let value = (EventKind::Segment as u64) << 32;
        machine.host().checker.borrow_mut().event(cpu, at, value);
        current_cpu::enter(cpu, from);
        self.dispatch(cpu);
        self.handle_fired();
        self.settle(cpu, from);
    }

    /// Handles the end of a critical section: the task of `cpu` may leave the section for which its slice was extended.
    fn section_ends(&mut self, cpu: u32, at: Picos, extension: u32) {
        let machine = &mut self.machine;
        let Some((task, ends)) = machine.section(cpu, extension) else {
            return;
        };
        if ends > at {
            machine.push(ends, EventKind::SectionEnd, cpu, extension);
            return;
        }
        let value = (EventKind::SectionEnd as u64) << 32;
        machine.host().checker.borrow_mut().event(cpu, at, value);
        current_cpu::enter(cpu, at);
        let left = machine.cpus[cpu as usize].segment_ends.saturating_sub(at);
        if machine.leaves_section(cpu) {
            let state = &mut machine.tasks[task as usize];
            if state.left != Picos::FOREVER {
                state.left = left;
            }
            machine.put_back(cpu, task, false);
            self.dispatch(cpu);
            self.handle_fired();
        }
        self.settle(cpu, at);
    }

    /// Lets tasks of `cpu` take steps until a task computes; the CPU goes idle if no task is left.
    fn dispatch(&mut self, cpu: u32) {
        // No interrupt comes in between.
        self.machine.piece_began = Some(current_cpu::cursor());
        self.take_steps(cpu);
        self.machine.piece_ends();
    }

    fn take_steps(&mut self, cpu: u32) {
        let place = cpu as usize;
        let mut has_looked = false;
        loop {
            if let Some(task) = self.machine.cpus[place].current
                && self.machine.decision_is_due(cpu)
            {
                let preempts = self.machine.is_preempted(cpu, task);
                self.machine.put_back(cpu, task, preempts);
            }
            let current = self.machine.cpus[place].current;
            let Some(task) = current.or_else(|| pick(&mut self.machine, cpu)) else {
                if !std::mem::replace(&mut has_looked, true) && self.serves_others(cpu) {
                    continue;
                }
                idle::enter(&mut self.machine, cpu);
                return;
            };
            let machine = &mut self.machine;
            if machine.tasks[task as usize].reserved.is_some() && machine.decision_is_due(cpu) {
                // The switch to it spent what it had left.
                continue;
            }
            let left = machine.tasks[task as usize].left;
            if left == Picos::FOREVER {
                return;
            }
            if left > Picos::ZERO {
                let ends = current_cpu::cursor() + left;
                let state = &mut machine.cpus[place];
                state.segment = state.segment.wrapping_add(1);
                state.segment_ends = ends;
                let segment = state.segment;
                machine.push(ends, EventKind::Segment, cpu, segment);
                return;
            }
            self.step(cpu, task);
        }
    }

    fn step(&mut self, cpu: u32, task: TaskId) {
        let mut next = None;
        self.executes(task, |program, context| next = Some(program.step(context)));
        let next = next.expect("a program does not step itself");
        let machine = &mut self.machine;
        let state = &mut machine.tasks[task as usize];
        let woken = std::mem::take(&mut state.woken);
        match next {
            Next::Run(time) => {
                state.left = time;
                // Woken while it ran on: kept for the next time that it wants to wait.
                state.woken = woken;
            }
            Next::RunOn => {
                state.left = Picos::FOREVER;
                machine.cpus[cpu as usize].segment_ends = Picos::FOREVER;
            }
            Next::Wait if woken => {}
            Next::Wait => block(machine, cpu, task, Life::Blocked),
            Next::SleepUntil(until) => {
                let until = Picos::from_nanos(until.0.div_ceil(1_000));
                state.sleep.start_movable(Start::at(until.instant()));
                block(machine, cpu, task, Life::Blocked);
            }
            Next::Exit => block(machine, cpu, task, Life::Done),
        }
    }
}

/// Takes `cpu` out of its idle state at `at`, if it is in one. Returns the time that the exit takes.
fn wakes_from_idle(machine: &mut Machine, cpu: u32, at: Picos) -> Picos {
    let state = &mut machine.cpus[cpu as usize];
    let Some(idle) = state.idle.take() else {
        return Picos::ZERO;
    };
    let takes = state.wakes(&machine.states, idle, at);
    let host = machine.host();
    let mut checker = host.checker.borrow_mut();
    checker.tallies.count(cpu, |tally| tally.wakes += 1);
    drop(checker);
    host.record_at(cpu, at, || MachineEvent::CpuIdle {
        state: None,
        wakes: None,
    });
    takes
}

/// Lets a CPU without a tick count ticks before anything else happens in an interrupt that came at `at` (R33).
fn counts_first(machine: &Machine, cpu: u32, at: Picos) {
    let tick = machine.ticks.of(cpu);
    if tick.is_stopped() {
        let _read = machine.host().read();
        let shown = machine.host().clocks.shows(cpu, at);
        machine.ticks.nohz().interrupt(&tick, shown);
    }
}

/// Queues an event for the rest of the work of `cpu`, which executes.
fn put_off(machine: &mut Machine, cpu: u32) {
    machine.cpus[cpu as usize].is_put_off = true;
    machine.push(current_cpu::cursor(), EventKind::Continue, cpu, 0);
}

/// Picks the next task of `cpu`, which executes, if a task waits.
fn pick(machine: &mut Machine, cpu: u32) -> Option<TaskId> {
    machine.enqueue_woken(cpu);
    machine.check_slice(cpu);
    if machine.cpus[cpu as usize].precise.is_some() {
        let owes = machine.host().local(cpu).owes_rearm.take();
        if let Some(precise) = &mut machine.cpus[cpu as usize].precise {
            precise.begin(owes);
        }
    }
    let now = machine.run_time(cpu, current_cpu::cursor());
    let mut task = machine.cpus[cpu as usize].waiting.take(now);
    if task.is_none()
        && let Some(pulled) = machine.pull(cpu)
    {
        machine.put(cpu, pulled, false);
        task = machine.cpus[cpu as usize].waiting.take(now);
    }
    let task = task?;
    let state = &mut machine.cpus[cpu as usize];
    if let Some(since) = state.workless_since.take() {
        state.sleeps.note(current_cpu::cursor() - since);
    }
    let precise = machine.cpus[cpu as usize].precise.as_mut();
    let is_same = precise.is_some_and(|precise| precise.previous.take() == Some(task));
    if is_same {
        machine.host().checker.borrow_mut().counts.picked_again += 1;
        machine.cpus[cpu as usize].current = Some(task);
        machine.begin_slice(cpu, true);
        rearm::pay_if_owed(&machine.timers, cpu, Flush::SameTask);
        return Some(task);
    }
    machine.run_task(cpu, TickDependencies::default());
    current_cpu::charge(machine.model.charges.switch);
    let host = machine.host();
    host.checker.borrow_mut().counts.switches += 1;
    host.record(|| MachineEvent::SchedSwitch {
        prev: None,
        next: Some(task),
    });
    machine.host().local(cpu).needs_reschedule.set(false);
    let state = &mut machine.cpus[cpu as usize];
    state.current = Some(task);
    state.changes += 1;
    machine.begin_slice(cpu, false);
    rearm::pay_if_owed(&machine.timers, cpu, Flush::Switched);
    Some(task)
}

/// Notes that the executing `cpu` no longer runs `task`.
fn block(machine: &mut Machine, cpu: u32, task: TaskId, life: Life) {
    machine.settle_time(cpu, task);
    machine.tasks[task as usize].life = life;
    let now = machine.run_time(cpu, current_cpu::cursor());
    machine.reserved_sleeps(cpu, task, now);
    let state = &mut machine.cpus[cpu as usize];
    let is_done = life == Life::Done;
    let carries = machine.tasks[task as usize].request;
    machine.longest_carried = machine.longest_carried.max(carries);
    state
        .waiting
        .stops(&machine.tasks[task as usize], is_done, now);
    machine.host().record(|| MachineEvent::SchedSwitch {
        prev: Some(task),
        next: None,
    });
    let state = &mut machine.cpus[cpu as usize];
    state.current = None;
    state.changes += 1;
    state.segment = state.segment.wrapping_add(1);
}

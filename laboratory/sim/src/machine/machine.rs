//! The state of a machine: its CPUs and tasks, and the operations on them that all parts of the machine share.

use std::collections::BTreeMap;
use std::rc::Rc;

use tickless_core::base::Timers;
use tickless_core::hierarchy::{Leaving, Presence};
use tickless_core::hrtimer::Restart;
use tickless_core::platform::CpuId;
use tickless_core::tick::{Dependencies, TickDependencies};
use tickless_core::time::Span;
use tickless_core::wheel::idle::TickTime;
use tickless_sched::deadline::Reservation;
use tickless_sched::{Entity, Request, RunTime, Weight};

use crate::baseline::search::Flags;
use crate::baseline::{DeadlineTick, Hrtick, Isolation, Policy, Scheduler, Target};
use crate::machine::broadcast::BroadcastWakener;
use crate::machine::cpu::Cpu;
use crate::machine::fair::{self, FairClass, Precise};
use crate::machine::fired::{self, Fired};
use crate::machine::host::Host;
use crate::machine::queue::EventKind;
use crate::machine::reentrant::Callbacks;
use crate::machine::reserved::DEADLINE;
use crate::machine::scheduler::{Fifo, Life, Task, TaskId};
use crate::machine::settings::Settings;
use crate::machine::slice::Slice;
use crate::machine::tables::{Tree, hierarchy};
use crate::machine::tick::Ticks;
use crate::machine::timers::Exact;
use crate::model::cost_model::{self, CostModel};
use crate::model::current_cpu;
use crate::model::profile::IdleState;
use crate::model::time::Picos;
use crate::promise::{Promise, lag_bounded, slice_ends};
use crate::record::Recorder;
use crate::record::distribution::Distribution;

/// A machine in virtual time, with its CPUs, its tasks and its timers.
pub(crate) struct Machine {
    // First, so that run queues go before the tasks in them, and timers before what they point to.
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Vec<Task>,
    /// The timers of faults, by the number of the fault and the CPU.
    pub(super) callbacks: BTreeMap<(u32, u32), Rc<Callbacks>>,
    pub(super) tree: Rc<Tree>,
    pub(super) ticks: Rc<Ticks>,
    /// The device or timer that wakes CPUs whose own device stops.
    pub(super) wakener: Option<Rc<BroadcastWakener>>,
    pub(crate) timers: Rc<Timers<Host>>,
    pub(super) model: Rc<CostModel>,
    pub(super) policy: Policy,
    pub(crate) isolated: Vec<bool>,
    pub(super) period: Picos,
    pub(super) real_time: bool,
    pub(crate) states: Vec<IdleState>,
    pub(super) late_max: Picos,
    pub(crate) series: BTreeMap<&'static str, Distribution>,
    /// The first CPU of the next sample.
    pub(super) looked_at: u32,
    /// The request of tasks without a request of their own.
    request: Request,
    longest_request: Picos,
    /// The longest request of tasks that slept: such tasks keep their lag, and bring it back when they wake.
    pub(super) longest_carried: Picos,
    /// The longest time for which tasks took steps without a decision in between.
    longest_piece: Picos,
    /// True if tasks exist that request an extension before they are preempted.
    pub(crate) extends_slices: bool,
    /// The time at which the CPU that executes began to take steps of tasks; `None` if it takes none.
    pub(super) piece_began: Option<Picos>,
    /// The time of the event that the CPU that executes handles.
    pub(super) event_at: Picos,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Machine")
            .field("cpus", &self.cpus.len())
            .finish_non_exhaustive()
    }
}

impl Machine {
    /// Makes a machine whose CPUs are all awake and do nothing yet. The recorder, if there is one, receives every
    /// event.
    pub(crate) fn new(settings: &Settings, recorder: Option<Recorder>) -> Self {
        let topology = &settings.topology;
        let model = Rc::new(CostModel::new(&settings.profile.costs, topology));
        cost_model::install(&model);
        fired::reset();
        let timers = Rc::new(Timers::new(settings.host(&model, recorder)));
        for cell in &timers.platform().bases {
            let placed = cell.set(Host::new_base(&timers));
            assert!(placed.is_ok(), "one base for each CPU");
        }
        let policy = settings.policy;
        let tree = Rc::new(hierarchy(&timers, topology, policy.handover.into()));
        let ticks = Ticks::new(&timers, &tree, &settings.tickless);
        let states = settings.profile.idle.clone();
        let slice = |cpu| Slice::new(&timers, policy.rearm, cpu);
        let cpu = |cpu: u32| {
            if policy.scheduler == Scheduler::Fair {
                let precise = Precise::new(&timers, ticks_of(policy), policy.rearm, cpu);
                let waiting = Box::new(FairClass::new());
                let ends = (None, Some(precise));
                return Cpu::new(ticks.timer(cpu), waiting, ends, states.len());
            }
            let waiting = Box::new(Fifo::new(settings.slice));
            let slice = settings.slice.map(|_| slice(cpu));
            Cpu::new(ticks.timer(cpu), waiting, (slice, None), states.len())
        };
        let cpus = (0..topology.cpus()).map(cpu).collect();
        let device = settings.profile.broadcast;
        let mut machine = Self {
            tasks: Vec::new(),
            callbacks: BTreeMap::new(),
            cpus,
            tree,
            ticks,
            wakener: device.map(|device| BroadcastWakener::new(&timers, device)),
            model,
            policy,
            isolated: settings.isolated.clone(),
            period: settings.tick,
            real_time: settings.real_time,
            states,
            late_max: settings.late_max,
            series: BTreeMap::new(),
            looked_at: 0,
            request: fair::request(settings.slice),
            longest_request: Picos::ZERO,
            longest_carried: Picos::ZERO,
            longest_piece: Picos::ZERO,
            extends_slices: false,
            piece_began: None,
            event_at: Picos::ZERO,
            timers,
        };
        if let Some(recorder) = &machine.host().recorder {
            recorder.open(&machine.tree);
        }
        for cpu in 0..topology.cpus() {
            let is_isolated = settings.isolated[cpu as usize];
            machine.host().local(cpu).is_isolated.set(is_isolated);
            machine.bring_up(cpu, Picos::ZERO);
        }
        machine
    }

    /// Brings `cpu` up in the timer subsystem at `at`, awake and with nothing to do.
    pub(super) fn bring_up(&mut self, cpu: u32, at: Picos) {
        let id = CpuId(cpu);
        current_cpu::enter(cpu, at);
        self.timers.wheel_online(id, self.tick_time().tick);
        self.timers.cpu_online(id);
        let is_excluded = self.isolated[cpu as usize]
            && self.policy.isolation == Isolation::Exclude
            && !self.breaks(Promise::IsolatedUndisturbed);
        if self.policy.target == Target::Local {
            let joined = self.tree.set_available(id, Presence::Awake);
            assert_eq!(joined, Ok(()), "it was prepared");
            if is_excluded {
                // The last one stays, whatever was asked for: a CPU has to look after the others.
                let _last = self.tree.clear_available(id, Leaving::Isolation);
            }
        }
        if let Some(wakener) = &self.wakener {
            wakener.online(cpu);
        }
        let timer = self.cpus[cpu as usize].tick.pinned();
        let now = self.host().shows();
        let nohz = self.ticks.nohz();
        nohz.online(&mut self.ticks.of(cpu), timer, now, Span::ZERO);
        self.cpus[cpu as usize].cursor = current_cpu::leave();
    }

    /// Adds a task, which can run from the start.
    pub(super) fn add_task(
        &mut self,
        cpu: u32,
        priority: u8,
        weight: Weight,
        request: Option<Picos>,
        reservation: Option<Reservation>,
    ) -> TaskId {
        let number = u32::try_from(self.tasks.len()).expect("fewer tasks than numbers");
        let sleep = Exact::new(&self.timers, move |_| {
            fired::note(Fired::Task(number));
            Restart::No
        });
        let request = request.map_or(self.request, |one| fair::request(Some(one)));
        let length = Picos::from_nanos(request.length().as_nanos());
        self.longest_request = self.longest_request.max(length);
        self.tasks.push(Task {
            cpu,
            priority,
            life: Life::Ready,
            entity: Box::pin(Entity::new(weight, request)),
            reserved: None,
            weight,
            request: length,
            had: Picos::ZERO,
            left: Picos::ZERO,
            woken: false,
            sleep,
            sections: None,
            dependencies: Dependencies::new(),
            is_watched: false,
        });
        if reservation.is_some_and(|one| self.reserve(cpu, number, one)) {
            self.tasks[number as usize].priority = DEADLINE;
        }
        self.put(cpu, number, false);
        number
    }

    /// Returns the host that the core uses.
    #[inline]
    pub(crate) fn host(&self) -> &Host {
        self.timers.platform()
    }

    /// Returns the tick in progress at the executing CPU's cursor.
    pub(super) fn tick_time(&self) -> TickTime {
        self.host().tick_time()
    }

    pub(super) fn breaks(&self, promise: Promise) -> bool {
        self.host().breaks(promise)
    }

    pub(super) fn note(&mut self, series: &'static str, value: Picos) {
        self.series.entry(series).or_default().note(value);
    }

    pub(super) fn push(&self, at: Picos, kind: EventKind, cpu: u32, argument: u32) {
        self.host().push(at, kind, cpu, argument);
    }

    /// Returns true if the CPU that executes the event of `at` has reached a later tick. Other CPUs are still before
    /// that tick, and would use a count that is ahead of them.
    pub(super) fn is_ahead(&self, at: Picos) -> bool {
        current_cpu::cursor().0 / self.period.0 > at.0 / self.period.0
    }

    /// Starts the tick of the executing `cpu`, which runs a task, if the tick is stopped and the CPU needs it.
    pub(super) fn run_task(&mut self, cpu: u32, conditions: TickDependencies) {
        let ticks = Rc::clone(&self.ticks);
        let mut tick = ticks.of(cpu);
        let state = &mut self.cpus[cpu as usize];
        let host = self.timers.platform();
        let now = if tick.is_stopped() {
            host.read()
        } else {
            host.shows()
        };
        let _kept = ticks
            .nohz()
            .run_task(&mut tick, state.tick.pinned(), conditions, now);
        state.wakes_at = Picos::ZERO;
        state.left_armed.set(None);
        state.idle = None;
        host.local(cpu).idle.set(false);
    }

    /// Makes a task ready, on whichever CPU it is.
    pub(super) fn wake(&mut self, task: TaskId) {
        let place = task as usize;
        current_cpu::charge(self.model.charges.wake);
        let sleeper = &mut self.tasks[place];
        if sleeper.life != Life::Blocked {
            sleeper.woken = true;
            return;
        }
        sleeper.life = Life::Ready;
        let cpu = self.place(task);
        if self.cpus[cpu as usize].current.is_none() {
            self.host().local(cpu).needs_reschedule.set(true);
        }
        let is_local = cpu == current_cpu::cpu();
        if let (Some(precise), false) = (&mut self.cpus[cpu as usize].precise, is_local) {
            // It files the task itself, by its own clock. One interrupt for all that come meanwhile.
            precise.woken.push(task);
            if precise.woken.len() == 1 {
                self.host().send(cpu, EventKind::Reschedule);
            }
            return;
        }
        self.put(cpu, task, false);
        if is_local {
            self.task_waits(cpu);
        } else {
            self.host().send(cpu, EventKind::Reschedule);
        }
    }

    /// Puts `task`, which can run, into the queue of `cpu`, which executes or has not started yet.
    pub(super) fn put(&mut self, cpu: u32, task: TaskId, preempted: bool) {
        let now = self.run_time(cpu, current_cpu::cursor());
        let state = &mut self.cpus[cpu as usize];
        let one = &self.tasks[task as usize];
        let runs = state.current.is_some();
        let preempts = state.waiting.put(task, one, preempted, now);
        if let Some(precise) = &mut state.precise {
            precise.is_decision_due |= runs && preempts;
        }
        self.reserved_queued(cpu, task, now);
    }

    /// Returns the time of the clock of the run queue of `cpu` at `at`.
    pub(super) fn run_time(&self, cpu: u32, at: Picos) -> RunTime {
        let precise = &self.cpus[cpu as usize].precise;
        precise
            .as_ref()
            .map_or(RunTime::ZERO, |precise| precise.shows(at))
    }

    /// Enqueues the tasks that other CPUs woke on `cpu`, which executes.
    pub(super) fn enqueue_woken(&mut self, cpu: u32) {
        loop {
            let precise = self.cpus[cpu as usize].precise.as_mut();
            let Some(task) = precise.and_then(|precise| precise.woken.pop()) else {
                return;
            };
            self.put(cpu, task, false);
            self.enqueued(cpu);
        }
    }

    /// Starts the tick for the running task of `cpu`, which executes, if needed: a task was enqueued, and the running
    /// task may have been alone before.
    fn enqueued(&mut self, cpu: u32) {
        let state = &mut self.cpus[cpu as usize];
        let (Some(precise), Some(fair)) = (&mut state.precise, state.waiting.fair()) else {
            return;
        };
        if let Some(slice) = fair.slice() {
            precise.enqueued(slice, fair.runnable());
        }
    }

    /// Charges the task of `cpu`, which executes, and checks whether another task should run.
    pub(super) fn account(&mut self, cpu: u32) {
        let now = self.run_time(cpu, current_cpu::cursor());
        let state = &mut self.cpus[cpu as usize];
        let Some(precise) = &mut state.precise else {
            return;
        };
        let deadline = state.waiting.deadline();
        precise.is_decision_due |= deadline.is_some_and(|one| one.account(now).is_due())
            && !self.timers.platform().breaks(Promise::RuntimeBounded);
        let fair = state.waiting.fair();
        precise.is_decision_due |= fair.is_some_and(|fair| fair.account(now).is_due());
        self.check_lag(cpu);
    }

    fn check_lag(&mut self, cpu: u32) {
        let state = &mut self.cpus[cpu as usize];
        let lag = state.waiting.fair().and_then(|fair| fair.current_lag());
        if let (Some(lag), Some(task)) = (lag, state.current) {
            self.check_lag_of(cpu, task, lag);
        }
    }

    /// Checks the lag of `task`, which is in the queue of `cpu`.
    pub(super) fn check_lag_of(&self, cpu: u32, task: TaskId, lag: i64) {
        if self.host().faults.is_some() {
            return;
        }
        let is_on = |precise: &Precise| precise.is_on();
        let is_precise = self.cpus[cpu as usize].precise.as_ref().is_some_and(is_on);
        // Without precise ends a task has until the next tick, and a tick may come late.
        let late = if is_precise {
            lag_bounded::SLOP
        } else {
            lag_bounded::SLOP + self.period
        };
        let late = late + self.longest_carried + self.longest_piece + self.longest_extension();
        let own = self.tasks[task as usize].request;
        let wrong = lag_bounded::exceeded(lag, own, self.longest_request, late);
        self.host().check(Promise::LagBounded, cpu, wrong);
    }

    /// Checks that a decision on `cpu`, which executes, is made in time.
    pub(super) fn check_slice(&self, cpu: u32) {
        let host = self.host();
        if let Some(precise) = &self.cpus[cpu as usize].precise
            && host.faults.is_none()
        {
            let now = current_cpu::cursor();
            let lost = precise.stolen(now) + self.longest_piece;
            let wrong = slice_ends::late(now, precise.decides_by, lost);
            host.check(Promise::SliceEnds, cpu, wrong);
        }
    }

    /// Handles the timer of the slice of `cpu`, which executes, after it fired.
    pub(super) fn slice_fired(&mut self, cpu: u32) {
        if let Some(slice) = &mut self.cpus[cpu as usize].slice {
            slice.fired();
            return;
        }
        self.account(cpu);
        let state = &mut self.cpus[cpu as usize];
        let is_fair = state.waiting.fair().is_some_and(|fair| fair.is_running());
        if let Some(precise) = &mut state.precise {
            precise.fired(is_fair);
        }
        // One that is not to make room has its tick again (TICK-13).
        self.begin_runtime(cpu);
    }

    /// Returns true if a task of a fair queue has to yield the CPU `cpu`.
    pub(super) fn decision_is_due(&self, cpu: u32) -> bool {
        if self.breaks(Promise::LagBounded) {
            return false;
        }
        let precise = &self.cpus[cpu as usize].precise;
        precise
            .as_ref()
            .is_some_and(|precise| precise.is_decision_due)
    }

    /// Returns true if a task that waits on `cpu` has precedence over `task`, which runs there.
    pub(super) fn is_preempted(&self, cpu: u32, task: TaskId) -> bool {
        let priority = self.tasks[task as usize].priority;
        self.cpus[cpu as usize].waiting.preempts(priority)
    }

    /// Puts the task that runs on `cpu`, which executes, back into its queue.
    pub(super) fn put_back(&mut self, cpu: u32, task: TaskId, preempted: bool) {
        self.settle_time(cpu, task);
        let state = &mut self.cpus[cpu as usize];
        state.current = None;
        state.segment = state.segment.wrapping_add(1);
        if let Some(precise) = &mut state.precise {
            precise.previous = Some(task);
        }
        self.put(cpu, task, preempted);
    }

    /// Notes the CPU time that `task` had since it was picked on `cpu`, which executes.
    pub(super) fn settle_time(&mut self, cpu: u32, task: TaskId) {
        let now = self.run_time(cpu, current_cpu::cursor());
        if let Some(precise) = &mut self.cpus[cpu as usize].precise {
            let had = now.saturating_since(precise.since);
            precise.since = now;
            let had = Picos::from_nanos(had.as_nanos());
            self.tasks[task as usize].had += had;
            self.reserved_had(cpu, task, had, now);
        }
    }

    /// Returns the time for which the task of `cpu` may run while others wait, counted from its pick.
    fn slice_of_current(&self, cpu: u32) -> Option<Picos> {
        let state = &self.cpus[cpu as usize];
        state.slice.as_ref()?;
        let task = state.current?;
        let priority = self.tasks[task as usize].priority;
        state.waiting.slice(priority)
    }

    /// Begins the slice of a task that was picked on `cpu`, which executes.
    pub(super) fn begin_slice(&mut self, cpu: u32, is_same: bool) {
        let now = self.run_time(cpu, current_cpu::cursor());
        let state = &mut self.cpus[cpu as usize];
        if let (Some(precise), Some(fair)) = (&mut state.precise, state.waiting.fair()) {
            precise.since = now;
            precise.picked_at = (now, current_cpu::cursor());
            if let Some(slice) = fair.slice() {
                let forgets = is_same && self.timers.platform().breaks(Promise::SliceEnds);
                precise.picked(slice, fair.runnable(), forgets);
            }
            self.begin_runtime(cpu);
            self.start_bandwidth(cpu);
            self.end_batch(cpu, is_same);
            self.check_lag(cpu);
            return;
        }
        let length = self.slice_of_current(cpu);
        if let Some(slice) = &mut self.cpus[cpu as usize].slice {
            slice.begin(length);
        }
    }

    /// Starts the tick for the task of `cpu`, which executes, if the task has a reservation and need not yield the CPU.
    fn begin_runtime(&mut self, cpu: u32) {
        let now = self.run_time(cpu, current_cpu::cursor());
        let state = &mut self.cpus[cpu as usize];
        let runs = |task: TaskId| self.tasks[task as usize].reserved.is_some();
        let runs = state.current.is_some_and(runs);
        if let (true, Some(precise), Some(queue)) =
            (runs, &mut state.precise, state.waiting.deadline())
        {
            let account = queue.account(now);
            if !account.is_due() {
                precise.picked_deadline(account.left());
            } else if !self.timers.platform().breaks(Promise::RuntimeBounded) {
                // The switch itself may have spent what was left.
                precise.is_decision_due = true;
            }
        }
    }

    /// Ends a decision of `cpu`, which executes, with a task that runs.
    fn end_batch(&mut self, cpu: u32, is_same: bool) {
        if let Some(precise) = &mut self.cpus[cpu as usize].precise {
            precise.end(is_same);
        }
    }

    /// Returns the longest time so far for which tasks took steps without a decision in between.
    pub(super) fn longest_piece(&self) -> Picos {
        let began = self.piece_began.unwrap_or(Picos::FOREVER);
        self.longest_piece
            .max(current_cpu::cursor().saturating_sub(began))
    }

    /// Notes that the CPU that executes has taken the last step of its tasks.
    pub(super) fn piece_ends(&mut self) {
        self.longest_piece = self.longest_piece();
        self.piece_began = None;
    }

    /// Notes a task that waits on `cpu`, which executes.
    pub(super) fn task_waits(&mut self, cpu: u32) {
        self.enqueue_woken(cpu);
        self.enqueued(cpu);
        let length = self.slice_of_current(cpu);
        if let (Some(slice), Some(length)) = (&self.cpus[cpu as usize].slice, length) {
            slice.count(length);
        }
    }

    /// Returns true if the task of `cpu`, which executes, has to yield the CPU to a task that waited long enough.
    pub(super) fn slice_is_over(&mut self, cpu: u32) -> bool {
        let length = self.slice_of_current(cpu);
        let slice = &mut self.cpus[cpu as usize].slice;
        slice.as_mut().is_some_and(|slice| slice.is_over(length))
    }

    /// Ends the slice of `cpu`, which executes and has nothing left to run, or goes offline.
    pub(super) fn end_slice(&mut self, cpu: u32) {
        self.start_bandwidth(cpu);
        if let Some(precise) = &mut self.cpus[cpu as usize].precise {
            if !precise.decides() {
                precise.begin(false);
            }
            precise.end_idle();
        }
        if let Some(slice) = &self.cpus[cpu as usize].slice {
            slice.end();
        }
    }

    /// Ends a decision of `cpu`, which executes, that found no task.
    pub(super) fn end_decision(&mut self, cpu: u32) {
        let precise = self.cpus[cpu as usize].precise.as_mut();
        if let Some(precise) = precise.filter(|precise| precise.decides()) {
            precise.end_idle();
        }
    }

    /// Notes that an interrupt of `cpu` that began at `start` kept a task from running that measures such times.
    pub(super) fn note_theft(&mut self, cpu: u32, start: Picos) {
        let end = current_cpu::cursor();
        let state = &mut self.cpus[cpu as usize];
        let before = state.settle_theft(start);
        let from = state.theft.map_or(start, |(from, _)| from);
        state.theft = Some((from, end));
        if let Some(theft) = before {
            self.note("theft", theft);
        }
    }

    /// Stalls `cpu`, which executes nothing from `at` on, for `amount`.
    pub(super) fn stall(&mut self, cpu: u32, at: Picos, amount: Picos) {
        let state = &mut self.cpus[cpu as usize];
        state.stalled_until = at + amount;
        let Some(task) = state.current else {
            return;
        };
        if self.tasks[task as usize].left != Picos::FOREVER {
            state.segment_ends += amount;
        }
        self.put_off_section(cpu, amount);
        if self.tasks[task as usize].is_watched {
            current_cpu::enter(cpu, at + amount);
            self.note_theft(cpu, at);
            let _cursor = current_cpu::leave();
        }
    }

    /// Notes that a CPU that was asked to expire timers of others has begun, or went offline.
    pub(super) fn heir_came(&self) {
        let heirs = &self.host().heirs;
        heirs.set(heirs.get() - 1);
    }
}

/// Returns the settings for when tasks of both classes stop.
const fn ticks_of(policy: Policy) -> (Hrtick, DeadlineTick) {
    (policy.hrtick, policy.deadline_hrtick)
}

impl Flags for Machine {
    fn cpus(&self) -> u32 {
        u32::try_from(self.cpus.len()).unwrap_or(u32::MAX)
    }

    fn is_busy(&self, cpu: u32) -> bool {
        self.cpus[cpu as usize].current.is_some()
    }

    fn is_isolated(&self, cpu: u32) -> bool {
        self.isolated[cpu as usize]
    }

    fn changes(&self, cpu: u32) -> u64 {
        self.cpus[cpu as usize].changes
    }
}

//! The state of a machine: its CPUs and tasks, and what every part of it does to them.

use std::collections::BTreeMap;
use std::rc::Rc;

use tickless_core::base::Timers;
use tickless_core::hierarchy::{Leaving, Presence};
use tickless_core::hrtimer::Restart;
use tickless_core::platform::CpuId;
use tickless_core::tick::{Dependencies, TickDependencies};
use tickless_core::time::Span;
use tickless_core::wheel::idle::TickTime;

use crate::baseline::search::Flags;
use crate::baseline::{Isolation, Policy, Target};
use crate::machine::broadcast::BroadcastWakener;
use crate::machine::cpu::Cpu;
use crate::machine::fired::{self, Fired};
use crate::machine::host::Host;
use crate::machine::queue::EventKind;
use crate::machine::reentrant::Callbacks;
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
use crate::promise::Promise;
use crate::record::Recorder;
use crate::record::distribution::Distribution;

/// A machine in virtual time.
pub(crate) struct Machine {
    // First, so that the timers go before what they point to.
    pub(crate) tasks: Vec<Task>,
    /// The timers of faults, by the number of the fault and the CPU.
    pub(super) callbacks: BTreeMap<(u32, u32), Rc<Callbacks>>,
    pub(crate) cpus: Vec<Cpu>,
    pub(super) tree: Rc<Tree>,
    pub(super) ticks: Rc<Ticks>,
    /// What wakes CPUs whose own device stops.
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
    /// Makes a machine whose CPUs are all awake and do nothing yet. The recorder, if there is one, is told what
    /// happens.
    pub(crate) fn new(settings: &Settings, recorder: Option<Recorder>) -> Self {
        crate::call::arm_mutant();
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
            let waiting = Box::new(Fifo::new(settings.slice));
            let slice = settings.slice.map(|_| slice(cpu));
            Cpu::new(ticks.timer(cpu), waiting, slice, states.len())
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

    /// Takes `cpu` into timing at `at`, awake and with nothing to do.
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
    pub(super) fn add_task(&mut self, cpu: u32, priority: u8) -> TaskId {
        let number = u32::try_from(self.tasks.len()).expect("fewer tasks than numbers");
        let sleep = Exact::new(&self.timers, move |_| {
            fired::note(Fired::Task(number));
            Restart::No
        });
        self.tasks.push(Task {
            cpu,
            priority,
            life: Life::Ready,
            left: Picos::ZERO,
            woken: false,
            sleep,
            dependencies: Dependencies::new(),
            is_watched: false,
        });
        self.cpus[cpu as usize].waiting.put(number, priority, false);
        number
    }

    /// The host that the core sees.
    #[inline]
    pub(crate) fn host(&self) -> &Host {
        self.timers.platform()
    }

    /// The tick in progress where the executing CPU is.
    pub(super) fn tick_time(&self) -> TickTime {
        self.host().tick_time()
    }

    pub(super) fn breaks(&self, promise: Promise) -> bool {
        self.host().breaks(promise)
    }

    /// Notes a value of a series.
    pub(super) fn note(&mut self, series: &'static str, value: Picos) {
        self.series.entry(series).or_default().note(value);
    }

    pub(super) fn push(&self, at: Picos, kind: EventKind, cpu: u32, argument: u32) {
        self.host().push(at, kind, cpu, argument);
    }

    /// Whether the CPU that executes what came at `at` has gone on into another tick. Others have not come so far: they
    /// would go by a count that is ahead of them.
    pub(super) fn is_ahead(&self, at: Picos) -> bool {
        current_cpu::cursor().0 / self.period.0 > at.0 / self.period.0
    }

    /// `cpu`, which executes, runs something: it has its tick, if it had stopped it and needs it.
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
        state.idle = None;
        host.local(cpu).idle.set(false);
    }

    /// Makes a task ready, wherever it is.
    pub(super) fn wake(&mut self, task: TaskId) {
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
            self.host().send(cpu, EventKind::Reschedule);
        } else {
            self.task_waits(cpu);
        }
    }

    /// How long the task of `cpu` may run, from when it was picked, for those that wait.
    fn slice_of_current(&self, cpu: u32) -> Option<Picos> {
        let state = &self.cpus[cpu as usize];
        state.slice.as_ref()?;
        let task = state.current?;
        let priority = self.tasks[task as usize].priority;
        state.waiting.slice(priority)
    }

    /// A task was picked on `cpu`, which executes.
    pub(super) fn begin_slice(&mut self, cpu: u32) {
        let length = self.slice_of_current(cpu);
        if let Some(slice) = &mut self.cpus[cpu as usize].slice {
            slice.begin(length);
        }
    }

    /// A task came to wait on `cpu`, which executes.
    pub(super) fn task_waits(&self, cpu: u32) {
        let length = self.slice_of_current(cpu);
        if let (Some(slice), Some(length)) = (&self.cpus[cpu as usize].slice, length) {
            slice.count(length);
        }
    }

    /// Whether the task of `cpu`, which executes, has to make room for one that waited long enough.
    pub(super) fn slice_is_over(&mut self, cpu: u32) -> bool {
        let length = self.slice_of_current(cpu);
        let slice = &mut self.cpus[cpu as usize].slice;
        slice.as_mut().is_some_and(|slice| slice.is_over(length))
    }

    /// Nothing is left to run on `cpu`, which executes, or it leaves.
    pub(super) fn end_slice(&self, cpu: u32) {
        if let Some(slice) = &self.cpus[cpu as usize].slice {
            slice.end();
        }
    }

    /// An interrupt of `cpu` that began at `start` keeps a task from running that measures it.
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

    /// `cpu` executes nothing from `at` on, for `amount`.
    pub(super) fn stall(&mut self, cpu: u32, at: Picos, amount: Picos) {
        let state = &mut self.cpus[cpu as usize];
        state.stalled_until = at + amount;
        let Some(task) = state.current else {
            return;
        };
        if self.tasks[task as usize].left != Picos::FOREVER {
            state.segment_ends += amount;
        }
        if self.tasks[task as usize].is_watched {
            current_cpu::enter(cpu, at + amount);
            self.note_theft(cpu, at);
            let _cursor = current_cpu::leave();
        }
    }

    /// A CPU that was asked to look after others does so now, or left.
    pub(super) fn heir_came(&self) {
        let heirs = &self.host().heirs;
        heirs.set(heirs.get() - 1);
    }
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

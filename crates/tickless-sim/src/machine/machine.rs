//! The world: its CPUs, its tasks, and the loop that lets it happen.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tickless_core::base::Timers;
use tickless_core::hierarchy::{Leaving, Presence};
use tickless_core::hrtimer::Restart;
use tickless_core::platform::CpuId;
use tickless_core::tick::{Dependencies, TickCount};
use tickless_core::time::{Instant, Span};
use tickless_core::wheel::idle::TickTime;

use crate::baseline::search::Searcher;
use crate::baseline::{Isolation, Policy, Target};
use crate::clock::{Clocks, CounterModel, Leap};
use crate::fault::{Fault, FaultKind, Injector, When};
use crate::machine::broadcast::Wakener;
use crate::machine::fired::{self, Fired};
use crate::machine::host::Host;
use crate::machine::queue::{Event, Queue, What};
use crate::machine::reentrant::Callbacks;
use crate::machine::scheduler::{Fifo, Life, Program, RunQueue, Task, TaskId};
use crate::machine::slice::Slice;
use crate::machine::tables::{Tree, hierarchy};
use crate::machine::tick::Ticks;
use crate::machine::timers::Exact;
use crate::model::cost_model::{self, CostModel};
use crate::model::current_cpu;
use crate::model::device::Device;
use crate::model::profile::{IdleState, Profile};
use crate::model::time::Picos;
use crate::model::topology::Topology;
use crate::promise::Promise;
use crate::promise::canary::Canary;
use crate::promise::ledger::Ledger;
use crate::promise::trace_checker::{Entry, Watch};
use crate::record::Recorder;
use crate::record::distribution::Distribution;
use crate::run::groups::Tallies;

/// How often the checkers look at the whole machine.
const SAMPLES: Picos = Picos::from_millis(10);

/// What a world is made of.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) profile: Profile,
    pub(crate) device: Device,
    pub(crate) topology: Topology,
    pub(crate) isolated: Vec<bool>,
    /// On which CPUs tasks run without a tick.
    pub(crate) tickless: Vec<bool>,
    pub(crate) policy: Policy,
    /// The length of a tick.
    pub(crate) tick: Picos,
    /// The soft stage is a thread.
    pub(crate) real_time: bool,
    /// The clock is the slow counter that all CPUs share.
    pub(crate) slow_counter: bool,
    pub(crate) counter: CounterModel,
    pub(crate) late_max: Picos,
    pub(crate) logs: bool,
    /// Each timer that is queued is kept, to count those that are lost.
    pub(crate) keeps_ledger: bool,
    /// The group of each CPU, for the figures.
    pub(crate) group_of: Vec<u32>,
    pub(crate) canary: Option<Canary>,
    /// How long a task runs while its equals wait.
    pub(crate) slice: Option<Picos>,
    /// What goes wrong, and the seed of what is random in it.
    pub(crate) faults: Rc<[Fault]>,
    pub(crate) fault_seed: u64,
}

impl Settings {
    /// Whether `cpu` is to be left alone.
    pub(crate) fn promised_isolation(&self, cpu: u32) -> bool {
        self.isolated[cpu as usize] && self.policy.isolation == Isolation::Exclude
    }
}

/// One CPU.
pub(crate) struct Cpu {
    /// What it executes is done up to here.
    pub(crate) cursor: Picos,
    pub(crate) current: Option<TaskId>,
    /// What is left of an interrupt is done in an event of its own.
    pub(crate) is_put_off: bool,
    /// A fault keeps it from executing anything before.
    pub(crate) stalled_until: Picos,
    /// A fault took it off.
    pub(crate) is_off: bool,
    pub(crate) waiting: Box<dyn RunQueue>,
    /// What keeps its tick, if its tasks run without one.
    pub(crate) dependencies: Dependencies,
    pub(crate) slice: Option<Slice>,
    /// The timer of its tick.
    pub(crate) tick: Exact,
    /// It sleeps without a tick, and asked its device to wake it then.
    pub(crate) wakes_at: Picos,
    /// The state it sleeps in, and since when.
    pub(crate) idle: Option<usize>,
    pub(crate) idle_since: Picos,
    pub(crate) residency: Vec<Picos>,
    /// When the task that runs is done with what it computes, and which event says so.
    pub(crate) segment_ends: Picos,
    pub(crate) segment: u32,
    /// From when to when the task was kept from running last.
    pub(crate) theft: Option<(Picos, Picos)>,
    pub(crate) longest_theft: Picos,
    /// How often it went idle or came back.
    pub(crate) changes: u64,
    pub(crate) searcher: Searcher,
}

/// A machine in virtual time.
pub(crate) struct World {
    // First, so that the timers go before what they point to.
    pub(crate) tasks: Vec<Task>,
    /// The timers of faults, by the number of the fault and the CPU.
    pub(crate) callbacks: BTreeMap<(u32, u32), Rc<Callbacks>>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tree: Rc<Tree>,
    pub(crate) ticks: Rc<Ticks>,
    /// What wakes CPUs whose own device stops.
    pub(crate) wakener: Option<Rc<Wakener>>,
    pub(crate) timers: Rc<Timers<Host>>,
    pub(crate) model: Rc<CostModel>,
    pub(crate) policy: Policy,
    pub(crate) isolated: Vec<bool>,
    pub(crate) period: Picos,
    pub(crate) real_time: bool,
    pub(crate) states: Vec<IdleState>,
    pub(crate) late_max: Picos,
    pub(crate) series: BTreeMap<&'static str, Distribution>,
    /// The first CPU of the next sample.
    pub(crate) looked_at: u32,
    /// Kept for its memory.
    pub(crate) fired: Vec<Fired>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("World")
            .field("cpus", &self.cpus.len())
            .finish_non_exhaustive()
    }
}

fn clocks(settings: &Settings) -> Clocks {
    let faults = settings.faults.iter();
    let leap = |fault: &Fault| match (fault.kind, fault.when) {
        (FaultKind::LeapSecond, When::At(at)) => Some(Leap {
            at: at.instant(),
            nanos: fault.nanos(),
        }),
        _ => None,
    };
    let mut leaps: Vec<Leap> = faults.clone().filter_map(leap).collect();
    leaps.sort_by_key(|leap| leap.at);
    let touches_rate = |kind| matches!(kind, FaultKind::Frequency | FaultKind::Suspend);
    let is_steered = faults.clone().any(|fault| touches_rate(fault.kind));
    let cpus = settings.topology.cpus() as usize;
    let seed = settings.fault_seed;
    let clocks = Clocks::new(
        settings.counter,
        is_steered,
        (cpus, seed),
        leaps,
        settings.tick,
    );
    if settings.device.is_told_delays(settings.slow_counter) {
        clocks.have_devices_of_their_own();
    }
    clocks
}

fn host(settings: &Settings, model: &Rc<CostModel>, recorder: Option<Recorder>) -> Host {
    let cpus = settings.topology.cpus() as usize;
    let promised = (0..settings.topology.cpus()).map(|cpu| settings.promised_isolation(cpu));
    let mut watch = Watch::new(
        settings.late_max,
        settings.tick,
        promised.collect(),
        settings.logs,
    );
    watch.tallies = Tallies::new(&settings.group_of);
    watch.ledger = settings.keeps_ledger.then(Ledger::default);
    let injector = |_| {
        RefCell::new(Injector::new(
            Rc::clone(&settings.faults),
            settings.fault_seed,
        ))
    };
    let clocks = Rc::new(clocks(settings));
    if let Some(recorder) = &recorder {
        recorder.goes_by(&clocks);
    }
    Host {
        model: Rc::clone(model),
        bases: (0..cpus).map(|_| OnceCell::new()).collect(),
        count: TickCount::new(Span::from_nanos(settings.tick.as_nanos()), Instant::ZERO),
        queue: RefCell::new(Queue::new(cpus)),
        watch: RefCell::new(watch),
        canary: settings.canary,
        device: settings.device.clone(),
        tree: settings.policy.tree,
        rearm: settings.policy.rearm,
        heirs: Cell::new(0),
        faults: settings.faults.first().map(injector),
        clocks,
        is_slow: Cell::new(settings.slow_counter),
        slow_until: Cell::new(Picos::ZERO),
        recorder,
    }
}

fn new_cpu(tick: Exact, settings: &Settings) -> Cpu {
    Cpu {
        cursor: Picos::ZERO,
        current: None,
        is_put_off: false,
        stalled_until: Picos::ZERO,
        is_off: false,
        waiting: Box::new(Fifo::new(settings.slice)),
        slice: None,
        dependencies: Dependencies::new(),
        tick,
        wakes_at: Picos::ZERO,
        idle: None,
        idle_since: Picos::ZERO,
        residency: vec![Picos::ZERO; settings.profile.idle.len()],
        segment_ends: Picos::ZERO,
        segment: 0,
        theft: None,
        longest_theft: Picos::ZERO,
        changes: 0,
        searcher: Searcher::default(),
    }
}

impl World {
    /// Makes a machine whose CPUs are all awake and do nothing yet. Whoever wants to know what happens is told.
    pub(crate) fn new(settings: &Settings, recorder: Option<Recorder>) -> Self {
        crate::call::arm_mutant();
        let topology = &settings.topology;
        let model = Rc::new(CostModel::new(&settings.profile.costs, topology));
        cost_model::install(&model);
        fired::reset();
        let timers = Rc::new(Timers::new(host(settings, &model, recorder)));
        for cell in &timers.platform().bases {
            let placed = cell.set(Host::new_base(&timers));
            assert!(placed.is_ok(), "one base for each CPU");
        }
        let handover = settings.policy.handover.into();
        let tree = Rc::new(hierarchy(&timers, topology, handover));
        let ticks = Ticks::new(&timers, &tree, &settings.tickless);
        let cpus = (0..topology.cpus()).map(|cpu| new_cpu(ticks.timer(cpu), settings));
        let stand_in = settings.profile.broadcast;
        let mut world = Self {
            tasks: Vec::new(),
            callbacks: BTreeMap::new(),
            cpus: cpus.collect(),
            tree,
            ticks,
            wakener: stand_in.map(|stand_in| Wakener::new(&timers, stand_in)),
            model,
            policy: settings.policy,
            isolated: settings.isolated.clone(),
            period: settings.tick,
            real_time: settings.real_time,
            states: settings.profile.idle.clone(),
            late_max: settings.late_max,
            series: BTreeMap::new(),
            looked_at: 0,
            fired: Vec::new(),
            timers,
        };
        if let Some(recorder) = &world.timers.platform().recorder {
            recorder.open(&world.tree);
        }
        for cpu in 0..topology.cpus() {
            let is_isolated = settings.isolated[cpu as usize];
            world
                .timers
                .platform()
                .site(cpu)
                .is_isolated
                .set(is_isolated);
            if settings.slice.is_some() {
                world.cpus[cpu as usize].slice = Some(world.new_slice(cpu));
            }
            world.bring_up(cpu, Picos::ZERO);
        }
        world
    }

    /// Takes `cpu` into timing at `at`, awake and with nothing to do.
    pub(crate) fn bring_up(&mut self, cpu: u32, at: Picos) {
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
                // The last one stays, whatever was asked for: somebody has to look after the others.
                let _last = self.tree.clear_available(id, Leaving::Isolation);
            }
        }
        if let Some(wakener) = &self.wakener {
            wakener.online(cpu);
        }
        let timer = self.cpus[cpu as usize].tick.pinned();
        let now = self.timers.platform().shows();
        let nohz = self.ticks.nohz();
        nohz.online(&mut self.ticks.of(cpu), timer, now, Span::ZERO);
        self.cpus[cpu as usize].cursor = current_cpu::leave();
    }

    /// Adds a task, which can run from the start.
    pub(crate) fn add_task(&mut self, program: Box<dyn Program>, cpu: u32, priority: u8) -> TaskId {
        let number = u32::try_from(self.tasks.len()).expect("fewer tasks than numbers");
        let sleep = Exact::new(&self.timers, move |_| {
            fired::note(Fired::Task(number));
            Restart::No
        });
        self.tasks.push(Task {
            program: Some(program),
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

    /// The tick in progress where the executing CPU is.
    pub(crate) fn tick_time(&self) -> TickTime {
        self.timers.platform().tick_time()
    }

    pub(crate) fn breaks(&self, promise: Promise) -> bool {
        self.timers.platform().breaks(promise)
    }

    /// Notes a value of a series.
    pub(crate) fn note(&mut self, series: &'static str, value: Picos) {
        self.series.entry(series).or_default().note(value);
    }

    /// Lets everything happen that happens before `end`.
    pub(crate) fn run(&mut self, end: Picos) {
        for cpu in 0..self.cpus.len() {
            let number = u32::try_from(cpu).unwrap_or(current_cpu::NO_CPU);
            current_cpu::enter(number, self.cpus[cpu].cursor);
            self.dispatch(number);
            self.settle(number, Picos::ZERO);
        }
        self.push(SAMPLES, What::Sample, 0, 0);
        self.plan_faults();
        loop {
            let event = self.timers.platform().queue.borrow_mut().pop();
            match event {
                Some(event) if event.at < end => self.happen(event),
                _ => break,
            }
        }
        for cpu in &mut self.cpus {
            cpu.settle_theft(Picos::FOREVER);
            if let Some(idle) = cpu.idle {
                cpu.wakes(&self.states, idle, end);
            }
        }
        current_cpu::enter(current_cpu::NO_CPU, end);
    }

    pub(crate) fn push(&self, at: Picos, what: What, cpu: u32, argument: u32) {
        let mut queue = self.timers.platform().queue.borrow_mut();
        queue.push(at, what, cpu, argument);
    }

    fn happen(&mut self, event: Event) {
        let Event {
            at,
            what,
            cpu,
            argument,
            ..
        } = event;
        match what {
            What::Sample => {
                current_cpu::enter(current_cpu::NO_CPU, at);
                self.sample();
                self.push(at + SAMPLES, What::Sample, 0, 0);
                return;
            }
            What::Plan => {
                self.plan_comes(at, argument);
                return;
            }
            What::Clock => {
                self.clocks_changed(at, argument);
                return;
            }
            What::ClockFault => {
                self.clock_fault_comes(at, argument);
                return;
            }
            What::Segment => {
                self.segment_ends(cpu, at, argument);
                return;
            }
            What::Continue => {
                self.continues(cpu, at);
                return;
            }
            What::Broadcast if !self.broadcast_is_due(cpu, at) => return,
            What::Device if !self.timers.platform().device_is_due(cpu, at) => return,
            _ => {}
        }
        let state = &self.cpus[cpu as usize];
        if state.is_off {
            self.comes_while_off(event);
            return;
        }
        let cursor = state.busy_until();
        if cursor > at {
            // It is in the middle of something that cannot be interrupted.
            if what == What::Device {
                self.timers.platform().ask_for_device(cpu, cursor);
            } else {
                self.push(cursor, what, cpu, argument);
            }
            return;
        }
        {
            let mut watch = self.timers.platform().watch.borrow_mut();
            watch.counts.events += 1;
            watch.log(
                Entry::Event,
                cpu,
                at,
                (what as u64) << 32 | u64::from(argument),
            );
        }
        if what != What::Fault || !self.hits_from_outside(cpu, at, argument) {
            self.update_clocks(at);
            self.interrupt(cpu, at, what, argument);
        }
    }
}

impl World {
    fn broadcast_is_due(&self, cpu: u32, at: Picos) -> bool {
        let wakener = self.wakener.as_ref();
        wakener.is_some_and(|wakener| wakener.is_due(cpu, at))
    }
}

impl Cpu {
    /// It executes nothing else before.
    pub(crate) fn busy_until(&self) -> Picos {
        self.cursor.max(self.stalled_until)
    }

    /// It sleeps in the state `idle` and is woken at `at`: what that takes.
    pub(crate) fn wakes(&mut self, states: &[IdleState], idle: usize, at: Picos) -> Picos {
        let slept = at - self.idle_since;
        let polled = slept.min(states[idle].polls_first);
        self.residency[0] += polled;
        self.residency[idle] += slept - polled;
        if slept < states[idle].polls_first {
            states[0].exit
        } else {
            states[idle].exit
        }
    }

    /// The theft in progress is over if the next one begins at `next`.
    pub(crate) fn settle_theft(&mut self, next: Picos) -> Option<Picos> {
        let (from, to) = self.theft.filter(|(_, to)| next > *to)?;
        self.theft = None;
        self.longest_theft = self.longest_theft.max(to - from);
        Some(to - from)
    }
}

//! The settings from which a machine is built.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use tickless_core::tick::TickCount;
use tickless_core::time::{Instant, Span};

use crate::baseline::{Isolation, Policy};
use crate::clock::{Clocks, CounterModel, Leap};
use crate::fault::inject::Injector;
use crate::fault::{Fault, FaultKind, When};
use crate::machine::host::Host;
use crate::machine::queue::EventQueue;
use crate::model::cost_model::CostModel;
use crate::model::device::Device;
use crate::model::profile::Profile;
use crate::model::time::Picos;
use crate::model::topology::Topology;
use crate::promise::canary::Canary;
use crate::promise::ledger::Ledger;
use crate::promise::trace_checker::TraceChecker;
use crate::record::Recorder;
use crate::record::tally::Tallies;

/// The parts of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) profile: Profile,
    pub(crate) device: Device,
    pub(crate) topology: Topology,
    pub(crate) isolated: Vec<bool>,
    /// True for each CPU on which tasks run without a tick.
    pub(crate) tickless: Vec<bool>,
    pub(crate) policy: Policy,
    pub(crate) tick: Picos,
    /// True if the soft stage is a thread.
    pub(crate) real_time: bool,
    /// True if the clock is the slow counter that all CPUs share.
    pub(crate) slow_counter: bool,
    pub(crate) counter: CounterModel,
    pub(crate) late_max: Picos,
    /// True if the run keeps each queued timer in the ledger, to count lost ones.
    pub(crate) keeps_ledger: bool,
    /// The group of each CPU, for the figures.
    pub(crate) group_of: Vec<u32>,
    pub(crate) canary: Option<Canary>,
    /// The time that a task runs while tasks of its priority wait.
    pub(crate) slice: Option<Picos>,
    /// The faults, and the seed of their random choices.
    pub(crate) faults: Rc<[Fault]>,
    pub(crate) fault_seed: u64,
}

impl Settings {
    /// Returns true if `cpu` is isolated by promise.
    pub(crate) fn promised_isolation(&self, cpu: u32) -> bool {
        self.isolated[cpu as usize] && self.policy.isolation == Isolation::Exclude
    }

    fn clocks(&self) -> Clocks {
        let faults = self.faults.iter();
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
        let cpus = self.topology.cpus() as usize;
        let seed = self.fault_seed;
        let clocks = Clocks::new(self.counter, is_steered, (cpus, seed), leaps, self.tick);
        if self.device.is_told_delays(self.slow_counter) {
            clocks.have_devices_of_their_own();
        }
        clocks
    }

    /// Makes the host of a machine with these settings, whose CPUs have no bases yet.
    pub(super) fn host(&self, model: &Rc<CostModel>, recorder: Option<Recorder>) -> Host {
        let cpus = self.topology.cpus() as usize;
        let promised = (0..self.topology.cpus()).map(|cpu| self.promised_isolation(cpu));
        let mut checker = TraceChecker::new(self.late_max, self.tick, promised.collect());
        checker.tallies = Tallies::new(&self.group_of);
        checker.ledger = self.keeps_ledger.then(Ledger::default);
        let injector = |_| RefCell::new(Injector::new(Rc::clone(&self.faults), self.fault_seed));
        let clocks = Rc::new(self.clocks());
        if let Some(recorder) = &recorder {
            recorder.goes_by(&clocks);
        }
        Host {
            model: Rc::clone(model),
            bases: (0..cpus).map(|_| OnceCell::new()).collect(),
            count: TickCount::new(Span::from_nanos(self.tick.as_nanos()), Instant::ZERO),
            queue: RefCell::new(EventQueue::new(cpus)),
            checker: RefCell::new(checker),
            canary: self.canary,
            device: self.device.clone(),
            tree: self.policy.tree,
            rearm: self.policy.rearm,
            migration: self.policy.migration,
            heirs: Cell::new(0),
            faults: self.faults.first().map(injector),
            clocks,
            is_slow: Cell::new(self.slow_counter),
            slow_counter: RefCell::default(),
            reads: self.policy.reads,
            recorder,
        }
    }
}

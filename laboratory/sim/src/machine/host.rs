//! The core's host on a machine. Each call costs the executing CPU a modelled time.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use tickless_conformance::tables::PlainLock;
use tickless_core::base::{CpuBase, Timers};
use tickless_core::clock::{CounterId, Offsets, SetSequence};
use tickless_core::coarse::Tick;
use tickless_core::event::{DeviceState, DeviceWrite, InPast};
use tickless_core::hrtimer::is_far;
use tickless_core::platform::{
    CpuId, Housekeeper, Platform, Port, ThisCpu, keep_local_by_table, pick_target_by_table,
};
use tickless_core::tick::TickCount;
use tickless_core::time::convert::Cycles;
use tickless_core::time::{Clock, Instant};
use tickless_core::trace::Event as Traced;
use tickless_core::wheel::idle::TickTime;
use tickless_sched::hrtick::Switches;

use crate::baseline::{
    DeadlineTick, Hrtick, Migration, Reads, Rearm, Tree, direct_reads, plain_tree, search,
};
use crate::clock::Clocks;
use crate::fault::inject::{FaultState, Injector, Spoilt, call_and_catch};
use crate::fault::{Fault, FaultKind};
use crate::machine::queue::{EventKind, EventQueue};
use crate::model::cost_model::{CacheLine, CostModel, CostedLock};
use crate::model::current_cpu;
use crate::model::device::{Device, Told};
use crate::model::slow_counter::SlowCounter;
use crate::model::time::Picos;
use crate::promise::canary::Canary;
use crate::promise::trace_checker::TraceChecker;
use crate::promise::{Promise, monotonic};
use crate::record::{MachineEvent, Recorder};

/// Lines of a base, besides that of its lock, that a CPU touches when it arms or cancels a timer there for another CPU:
/// the map of occupied slots, and the head of the slot.
const LINES_OF_BASE: u64 = 2;

/// Ticks by which the clock of a canary is ahead, so that it fires timers early.
const TICKS_AHEAD: u64 = 3;

/// The host's data for one CPU.
#[derive(Debug, Default)]
pub(crate) struct CpuLocal {
    /// The time at which the device fires.
    pub(crate) fires: Cell<Picos>,
    /// The time of the next simulator event for the device.
    asked: Cell<Picos>,
    /// True if the soft stage of the exact timers was raised.
    pub(crate) soft_raised: Cell<bool>,
    pub(crate) idle: Cell<bool>,
    /// True if the CPU sleeps in a state in which the CPU's device is stopped.
    pub(crate) is_deep: Cell<bool>,
    /// True if the CPU came back from a deep state late: its device is not programmed until the broadcast device has
    /// called the CPU.
    pub(crate) awaits_call: Cell<bool>,
    /// The lines of the base that a CPU writes when it arms a timer there.
    lines: CacheLine,
    /// The cache line with the wheels' next due times.
    pub(crate) told: CacheLine,
    /// The last time that the CPU read from the clock.
    last_read: Cell<i64>,
    /// The age of the last sample of the slow counter, at the time when the CPU got the sample.
    sample_age: Cell<Picos>,
    /// The last write of the device.
    pub(crate) written: Told,
    /// True if the device is about to be written, and no clock was read for that write so far.
    is_programming: Cell<bool>,
    /// The instant for which the device was programmed, if it was.
    pub(crate) asked_for: Cell<Option<Instant>>,
    /// The number of times that the device was programmed since its last interrupt began.
    pub(crate) programmings: Cell<u32>,
    /// True if the last interrupt left the programming of the device to a flush point.
    pub(crate) owes_rearm: Cell<bool>,
    /// True while the CPU is isolated.
    pub(crate) is_isolated: Cell<bool>,
    /// True while the tick of the CPU is stopped.
    pub(crate) is_tick_stopped: Cell<bool>,
    /// True if the CPU runs no task yet, but a task was woken for it.
    pub(crate) needs_reschedule: Cell<bool>,
    /// The other CPUs, the nearest first; computed at the first use.
    nearest: OnceCell<Box<[u32]>>,
    pub(crate) fault: FaultState,
    /// The number of queued exact timers, if a checker counts them.
    queued: Cell<u64>,
}

/// The host of the core on a machine.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) model: Rc<CostModel>,
    pub(crate) bases: Vec<OnceCell<CpuBase<Self>>>,
    pub(crate) count: TickCount<CostedLock>,
    pub(crate) queue: RefCell<EventQueue>,
    pub(crate) checker: RefCell<TraceChecker>,
    pub(crate) canary: Option<Canary>,
    pub(crate) clocks: Rc<Clocks>,
    /// True while the counter in use is the slow one that all CPUs share.
    pub(crate) is_slow: Cell<bool>,
    pub(crate) slow_counter: RefCell<SlowCounter>,
    /// The way to read the slow counter.
    pub(crate) reads: Reads,
    /// The kind of the CPUs' devices.
    pub(crate) device: Device,
    /// The data structure of the queues of exact timers.
    pub(crate) tree: Tree,
    /// The time of device writes.
    pub(crate) rearm: Rearm,
    /// The rule for the migration of exact timers.
    pub(crate) migration: Migration,
    /// The number of CPUs that were asked to expire timers of others and have not begun.
    pub(crate) heirs: Cell<u32>,
    pub(crate) faults: Option<RefCell<Injector>>,
    /// The recorder of all events, if the run is recorded.
    pub(crate) recorder: Option<Recorder>,
}

impl Host {
    pub(crate) fn base_of(&self, cpu: u32) -> &CpuBase<Self> {
        let base = self.bases[cpu as usize].get();
        base.expect("every CPU has a base")
    }

    pub(crate) fn local(&self, cpu: u32) -> &CpuLocal {
        self.base_of(cpu).local()
    }

    /// Returns the time on the clock of the CPU that executes, without a cost.
    #[inline]
    pub(crate) fn shows(&self) -> Instant {
        self.clocks.shows(current_cpu::cpu(), current_cpu::cursor())
    }

    /// Returns the time on the clock of the CPU that executes, as finely as it is known, without a cost.
    #[inline]
    pub(crate) fn shows_picos(&self) -> Picos {
        self.clocks
            .shows_picos(current_cpu::cpu(), current_cpu::cursor())
    }

    /// Returns the tick, of length `period`, at whose end the time `after` has passed.
    pub(crate) fn expiry(&self, after: Picos, period: Picos) -> Tick {
        Tick((self.shows_picos() + after).0 / period.0)
    }

    /// Returns the moment at which the clock of the CPU that executes shows `when`.
    pub(crate) fn moment(&self, when: Instant) -> Picos {
        self.clocks
            .moment(current_cpu::cpu(), when, current_cpu::cursor())
    }

    /// Returns the largest error of the device of `cpu` at `due`, see [`Clocks::slop`].
    pub(crate) fn slop(&self, cpu: u32, due: Picos) -> Picos {
        self.clocks.slop(due - self.local(cpu).written.at.get())
    }

    /// Returns true if the device of `cpu` was written before all CPUs knew of the last change of the clocks. After a
    /// change backwards the device is left as it is, and fires once without a due timer (spec TIM-32).
    pub(crate) fn is_armed_for_old_clock(&self, cpu: u32) -> bool {
        self.local(cpu).written.at.get() < self.clocks.settled_at()
    }

    /// Returns true if the machine breaks `promise` on purpose.
    pub(crate) fn breaks(&self, promise: Promise) -> bool {
        self.canary.is_some_and(|canary| canary.breaks(promise))
    }

    /// Reads the clock and charges the cost of the read.
    pub(crate) fn read(&self) -> Instant {
        let mut sampled = None;
        if current_cpu::cpu() != current_cpu::NO_CPU {
            let before = current_cpu::cursor();
            if self.is_slow.get() {
                sampled = self.read_slow_counter(before);
            } else {
                current_cpu::charge(self.model.charges.counter);
            }
            let mut checker = self.checker.borrow_mut();
            checker.counts.clock_reads += 1;
            let local = self.local(current_cpu::cpu());
            checker.counts.device_clock_reads += u64::from(local.is_programming.take());
            checker.counts.clock_reading += current_cpu::cursor() - before;
            checker.read_at = current_cpu::cursor();
        }
        let cpu = current_cpu::cpu();
        let sampled = sampled.unwrap_or_else(current_cpu::cursor);
        let mut shows = self.clocks.shows(cpu, sampled);
        if let Some(canary) = self.canary {
            shows = canary.clock(shows);
        }
        if cpu != current_cpu::NO_CPU {
            let now = shows.as_nanos();
            self.record(|| MachineEvent::ClockRead { now });
            let local = self.local(cpu);
            local.sample_age.set(current_cpu::cursor() - sampled);
            let last = local.last_read.replace(now);
            self.check(Promise::Monotonic, cpu, monotonic::goes_back(last, now));
        }
        shows
    }

    /// Reads the slow counter on the CPU that executes. Returns the time at which the sample was taken, if that was not
    /// just now.
    fn read_slow_counter(&self, now: Picos) -> Option<Picos> {
        let counter = &mut self.slow_counter.borrow_mut();
        match self.reads {
            Reads::Direct => {
                direct_reads::charge(&self.model.charges, counter);
                None
            }
            Reads::Combined => {
                let cpu = current_cpu::cpu();
                let (sampled, has) = counter.read_joined(&self.model, cpu, now);
                current_cpu::charge(has - now);
                Some(sampled)
            }
        }
    }

    /// Returns the tick in progress, as far as the CPU that executes can know. Other CPUs may have counted further.
    pub(crate) fn tick_time(&self) -> TickTime {
        let mut at = self.count.now();
        // Rounds down: the tick that the CPU is in.
        let shown = self.shows_picos();
        let in_progress = shown.as_nanos() / at.period.as_nanos();
        if at.tick.0 > in_progress {
            at.began = Picos::from_nanos(at.period.as_nanos() * in_progress).instant();
            at.tick = Tick(in_progress);
        }
        if self.breaks(Promise::NeverEarly) {
            at.tick = Tick(at.tick.0 + TICKS_AHEAD);
        }
        at
    }

    /// Requests an event for the time at which the device of `cpu` fires, unless an earlier event is pending.
    pub(crate) fn ask_for_device(&self, cpu: u32, not_before: Picos) {
        let local = self.local(cpu);
        let at = local.fires.get();
        if at == Picos::FOREVER {
            return;
        }
        let at = at.max(not_before);
        if at < local.asked.get() {
            local.asked.set(at);
            self.push(at, EventKind::Device, cpu, 0);
        }
    }

    /// Returns true if the device of `cpu` fires now, at its event at `at`.
    pub(crate) fn device_is_due(&self, cpu: u32, at: Picos) -> bool {
        let local = self.local(cpu);
        if local.asked.get() == at {
            local.asked.set(Picos::FOREVER);
        }
        let is_due = local.fires.get() <= at;
        if !is_due {
            self.ask_for_device(cpu, at);
            return false;
        }
        self.faults
            .as_ref()
            .is_none_or(|faults| self.comes_through(faults, cpu, at))
    }

    /// Returns true if the interrupt of `cpu`, which is due at `at`, comes now, and false if a fault keeps it.
    fn comes_through(&self, faults: &RefCell<Injector>, cpu: u32, at: Picos) -> bool {
        let local = self.local(cpu);
        let fault = &local.fault;
        if !fault.is_drawn.replace(true) {
            match faults.borrow_mut().due(cpu) {
                None => {}
                Some(Spoilt::Late(amount)) => fault.held_until.set(at + amount),
                Some(Spoilt::Lost(amount)) => {
                    local.fires.set(Picos::FOREVER);
                    let comes = at + amount;
                    fault.rescue.set(comes);
                    self.push(comes, EventKind::Spurious, cpu, 1);
                    return false;
                }
            }
        }
        let held_until = fault.held_until.get();
        if held_until > at {
            self.ask_for_device(cpu, held_until);
            return false;
        }
        true
    }

    /// Lets a fault make the device of `cpu` fire early, which was written to fire at `fires`.
    fn may_be_early(&self, faults: &RefCell<Injector>, cpu: u32, fires: Picos) {
        if fires == Picos::FOREVER {
            return;
        }
        let Some(amount) = faults.borrow_mut().early(cpu) else {
            return;
        };
        let early = fires - amount;
        // Or an interrupt would follow upon the other until it is time.
        if early > current_cpu::cursor() {
            let local = self.local(cpu);
            local.fires.set(early);
            local.fault.is_early.set(true);
        }
    }

    pub(crate) fn plan(&self) -> Rc<[Fault]> {
        self.faults.as_ref().map_or_else(
            || Rc::new([]) as Rc<[Fault]>,
            |faults| Rc::clone(&faults.borrow().plan),
        )
    }

    pub(crate) fn count_fault(&self, kind: FaultKind) {
        if let Some(faults) = &self.faults {
            faults.borrow_mut().count(kind);
        }
    }

    #[inline]
    pub(crate) fn push(&self, at: Picos, kind: EventKind, cpu: u32, argument: u32) {
        self.queue.borrow_mut().push(at, kind, cpu, argument);
    }

    /// Reports a violation `wrong` of `promise` on `cpu`, if there is one. Returns true if the promise was kept.
    #[inline]
    pub(crate) fn check(&self, promise: Promise, cpu: u32, wrong: Option<String>) -> bool {
        wrong.is_none() || self.checker.borrow_mut().check(promise, cpu, wrong)
    }

    /// Records an action of the CPU that executes, if there is a recorder.
    #[inline]
    pub(crate) fn record(&self, what: impl FnOnce() -> MachineEvent) {
        if let Some(recorder) = &self.recorder {
            recorder.take_from(what);
        }
    }

    /// Records an event of `cpu` at a time other than the cursor.
    #[inline]
    pub(crate) fn record_at(&self, cpu: u32, at: Picos, what: impl FnOnce() -> MachineEvent) {
        if let Some(recorder) = &self.recorder {
            recorder.take_from_at(cpu, at, what);
        }
    }

    /// Sends an inter-processor interrupt from the CPU that executes.
    pub(crate) fn send(&self, to: u32, what: EventKind) {
        let from = current_cpu::cpu();
        let charges = &self.model.charges;
        let mut latency = Picos::ZERO;
        if from != current_cpu::NO_CPU && from != to {
            current_cpu::charge(charges.ipi_send);
            let distance = self.model.distance(from, to);
            latency = charges.ipi_latency(distance, self.local(to).idle.get());
        }
        let mut checker = self.checker.borrow_mut();
        checker.counts.ipis += 1;
        checker.tallies.count(to, |tally| tally.ipis += 1);
        drop(checker);
        self.record(|| MachineEvent::IpiSendCpu {
            of_cpu: to,
            reason: what.name(),
        });
        if what == EventKind::Activate {
            self.heirs.set(self.heirs.get() + 1);
        }
        let mut at = current_cpu::cursor() + latency.saturating_sub(charges.ipi_send);
        if let Some(faults) = &self.faults {
            at += faults.borrow_mut().sent(to);
        }
        self.push(at, what, to, 0);
    }

    /// Returns the first CPU other than `cpu` that is online and not isolated; any CPU, if none is.
    pub(crate) fn housekeeper_but(&self, cpu: u32) -> u32 {
        let online = || {
            (0_u32..).zip(&self.bases).filter(move |(other, base)| {
                *other != cpu && base.get().is_some_and(CpuBase::is_online)
            })
        };
        let keeps = |(other, _): &(u32, _)| !self.local(*other).is_isolated.get();
        let first = online().find(keeps).or_else(|| online().next());
        first.map_or(0, |(other, _)| other)
    }

    /// Returns true if an exact timer that `cpu` starts stays on `cpu`.
    fn keeps_timers(&self, cpu: u32) -> bool {
        let local = self.local(cpu);
        keep_local_by_table(
            local.is_isolated.get(),
            local.is_tick_stopped.get(),
            local.needs_reschedule.get(),
        )
    }

    /// Returns the other CPUs, the nearest to `cpu` first, and by their numbers within each distance.
    pub(super) fn nearest(&self, cpu: u32) -> &[u32] {
        let sorted = || {
            let cpus = u32::try_from(self.bases.len()).unwrap_or(u32::MAX);
            let mut others: Box<[u32]> = (0..cpus).filter(|other| *other != cpu).collect();
            others.sort_by_key(|other| self.model.distance(cpu, *other) as u8);
            others
        };
        self.local(cpu).nearest.get_or_init(sorted)
    }

    /// Returns the state of the housekeeper `cpu`, for a CPU that searches for a target.
    pub(super) fn asked(&self, cpu: u32) -> Housekeeper {
        if self.keeps_timers(cpu) {
            Housekeeper::Awake(CpuId(cpu))
        } else {
            Housekeeper::Asleep(CpuId(cpu))
        }
    }

    /// Returns the CPU on which an exact timer is queued that `cpu`, which executes, starts and does not keep. Each
    /// look at another CPU costs as much as in a search (see [`search`]).
    fn takes_timer_of(&self, cpu: u32) -> CpuId {
        let charges = &self.model.charges;
        let keeps_house = |other: &u32| {
            current_cpu::charge(charges.search_step + charges.load * search::LOADS);
            self.base_of(*other).is_online() && !self.local(*other).is_isolated.get()
        };
        let others = self.nearest(cpu).iter().copied().filter(keeps_house);
        let is_isolated = self.local(cpu).is_isolated.get();
        pick_target_by_table(CpuId(cpu), is_isolated, others.map(|cpu| self.asked(cpu)))
    }

    pub(crate) fn new_base(timers: &Timers<Self>) -> CpuBase<Self> {
        let local = CpuLocal {
            fires: Cell::new(Picos::FOREVER),
            asked: Cell::new(Picos::FOREVER),
            // Nothing was read before.
            last_read: Cell::new(i64::MIN),
            ..CpuLocal::default()
        };
        let device = timers.platform().device.config();
        timers.new_base(device, local)
    }

    fn charge_event(&self, event: &Traced) {
        let charges = &self.model.charges;
        match *event {
            Traced::WheelArm { cpu, .. } => {
                let local = self.local(cpu.0);
                local.lines.write(&self.model, LINES_OF_BASE);
                local.told.write(&self.model, 1);
                current_cpu::charge(charges.wheel_arm);
            }
            Traced::WheelCancel { cpu, .. } => {
                self.local(cpu.0).lines.write(&self.model, LINES_OF_BASE);
                current_cpu::charge(charges.wheel_cancel);
            }
            Traced::WheelPass { cpu, .. } => {
                self.local(cpu.0).lines.write(&self.model, LINES_OF_BASE);
            }
            Traced::WheelExpire { .. } => current_cpu::charge(charges.wheel_expire),
            Traced::Start {
                cpu,
                clock,
                soft,
                was_armed,
                stood,
                ..
            } => {
                self.local(cpu.0).lines.write(&self.model, LINES_OF_BASE);
                let goes_far = !stood.is_kept()
                    && self.tree == Tree::Linked
                    && clock == Clock::Monotonic
                    && is_far(current_cpu::cursor().instant(), Instant::from_nanos(soft));
                current_cpu::charge(if goes_far {
                    charges.far_start()
                } else {
                    charges.start(was_armed, stood.is_kept())
                });
            }
            Traced::ExpireEntry { .. } | Traced::Cancel { .. } => {
                current_cpu::charge(charges.tree_erase);
            }
            _ => {}
        }
    }
}

impl Default for Hrtick {
    fn default() -> Self {
        if Switches::of::<Host>().fair {
            Self::On
        } else {
            Self::Off
        }
    }
}

impl Default for DeadlineTick {
    fn default() -> Self {
        if Switches::of::<Host>().deadline {
            Self::On
        } else {
            Self::Off
        }
    }
}

impl Port for Host {
    type Lock = CostedLock;
    /// A lock on which no CPU waits for a callback of another CPU, because each CPU executes its work at once.
    type ExpiryLock = PlainLock;
    type Local = CpuLocal;

    #[inline]
    fn this_cpu(&self) -> Option<ThisCpu<'_, Self>> {
        let base = self.bases.get(current_cpu::cpu() as usize)?.get()?;
        Some(ThisCpu { base, token: None })
    }

    #[inline]
    fn base(&self, cpu: CpuId) -> Option<&CpuBase<Self>> {
        self.bases.get(cpu.0 as usize)?.get()
    }

    fn now(&self) -> Instant {
        self.read()
    }

    fn write_device(&self, base: &CpuBase<Self>, write: DeviceWrite) -> Result<(), InPast> {
        let local = base.local();
        let cpu = base.cpu().0;
        let asked = current_cpu::cursor();
        let when = |shown| {
            let cursor = current_cpu::cursor();
            let reached = match write {
                DeviceWrite::Coupled(cycles) => self.clocks.reaches(cpu, cycles, (asked, cursor)),
                _ => None,
            };
            reached.unwrap_or_else(|| self.clocks.moment_of(cpu, shown, cursor))
        };
        local.is_programming.set(false);
        let charges = &self.model.charges;
        let clock = (self.clocks.step(), when);
        let written = local.written.write(&self.device, charges, write, clock);
        if self
            .canary
            .is_some_and(|canary| canary.loses_write(base.cpu().0))
        {
            local.fires.set(Picos::FOREVER);
            return Ok(());
        }
        let Ok(mut fires) = written else {
            self.checker.borrow_mut().counts.device_refused += 1;
            local.fires.set(Picos::FOREVER);
            return Err(InPast);
        };
        // A delay counts from now, and was reckoned from a sample that may be older.
        let late = &local.written.late;
        late.set(late.get() + local.sample_age.get());
        if let Some(canary) = self.canary {
            fires = canary.device(fires);
        }
        if let (DeviceWrite::Coupled(_), Some(asked_for)) = (write, local.asked_for.get()) {
            let cursor = current_cpu::cursor();
            let is_out = self.clocks.is_out_of_reach(cpu, asked_for, cursor);
            local.written.may_be_early.set(is_out);
        }
        let fires = local.fault.written(fires);
        local.fires.set(fires);
        local.awaits_call.set(false);
        if let Some(faults) = &self.faults {
            self.may_be_early(faults, base.cpu().0, fires);
        }
        self.ask_for_device(base.cpu().0, current_cpu::cursor());
        Ok(())
    }

    fn kick(&self, base: &CpuBase<Self>) {
        base.local().fault.is_kicked.set(true);
        self.send(base.cpu().0, EventKind::Kick);
    }
}

impl Platform for Host {
    const DEFERRED_REARM: bool = true;
    const TRACE: bool = true;

    fn now_and_offsets(&self, seen: SetSequence) -> (Instant, Option<(SetSequence, Offsets)>) {
        let now = self.read();
        (
            now,
            self.clocks
                .news(current_cpu::cpu(), current_cpu::cursor(), seen),
        )
    }

    fn set_device_state(&self, base: &CpuBase<Self>, state: DeviceState) {
        if state == DeviceState::OneshotStopped {
            self.device.stop(&self.model.charges);
        }
        if state != DeviceState::Oneshot {
            let local = base.local();
            local.fires.set(local.fault.written(Picos::FOREVER));
        }
    }

    fn cycles_at(&self, counter: CounterId, when: Instant) -> Option<Cycles> {
        // Another counter drives the clock.
        if self.is_slow.get() {
            return None;
        }
        if self.clocks.is_true() {
            return self.device.cycles_at(counter, when);
        }
        let at = current_cpu::cursor();
        self.clocks.cycles_at(counter, when, at)
    }

    fn raise_soft(&self, base: &CpuBase<Self>) {
        base.local().soft_raised.set(true);
    }

    fn call(&self, callback: &mut dyn FnMut()) {
        match &self.faults {
            None => callback(),
            Some(faults) => call_and_catch(faults, callback),
        }
    }

    fn keep_local(&self, this: &CpuBase<Self>) -> bool {
        // The mask, the state of the tick, and the flag of the run queue.
        current_cpu::charge(self.model.charges.load * search::LOADS);
        self.keeps_timers(this.cpu().0)
    }

    fn pick_target(&self, this: Option<CpuId>, pinned: bool) -> CpuId {
        match this {
            // No CPU asks for itself: the first one that keeps house.
            None => CpuId(self.housekeeper_but(current_cpu::NO_CPU)),
            Some(this) if pinned || !self.migration_enabled() => this,
            Some(this) => self.takes_timer_of(this.0),
        }
    }

    fn migration_enabled(&self) -> bool {
        self.migration == Migration::On
    }

    fn updates_in_place(&self) -> bool {
        self.tree == Tree::Linked
    }

    fn trace(&self, event: Traced) {
        if current_cpu::cpu() != current_cpu::NO_CPU {
            self.charge_event(&event);
            if self.tree == Tree::Plain
                && let Traced::Start { cpu, .. }
                | Traced::ExpireEntry { cpu, .. }
                | Traced::Cancel { cpu, .. } = event
            {
                plain_tree::charge(&self.model.charges, &self.local(cpu.0).queued, &event);
            }
        }
        match event {
            Traced::TickStop { cpu, .. } => self.local(cpu.0).is_tick_stopped.set(true),
            Traced::TickStart { cpu, .. } => self.local(cpu.0).is_tick_stopped.set(false),
            _ => {}
        }
        if let Traced::Rearm { cpu, next, .. } = event {
            let local = self.local(cpu.0);
            local.programmings.set(local.programmings.get() + 1);
            let asked_for = (!next.is_forever()).then_some(next);
            local.is_programming.set(asked_for.is_some());
            local.written.is_asked_again();
            local.asked_for.set(asked_for);
        }
        self.checker.borrow_mut().follow(&event, &self.clocks);
        if let Some(recorder) = &self.recorder {
            recorder.traced(event);
        }
    }
}

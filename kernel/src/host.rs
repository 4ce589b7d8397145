//! The kernel as a host of the core: the one implementation of [`Platform`], which a port copies.
//!
//! | the core asks for | the kernel has |
//! |---|---|
//! | a clock | two counters, behind the core's guard ([`clock`](crate::clock)) |
//! | a place for bases | a table by CPU number, filled before the CPU starts |
//! | an event device | the comparator or countdown of each CPU ([`arch`]) |
//! | a way to interrupt another CPU | an interrupt between CPUs, and a note which kind it is |
//! | a lock that masks | [`MaskingLock`] |
//! | flush points | the exit of each interrupt, and before its soft stage ([`interrupt`](crate::interrupt)) |
//!
//! # Ground rules
//!
//! The data in [`Local`] belongs to its CPU, but for the notes `is_kicked`, `must_leave_idle` and `job`, which other
//! CPUs set before they interrupt this one. Counters are written by their CPU alone and read by any CPU.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tickless_core::base::CpuBase;
use tickless_core::clock::{CounterId, Offsets, SetSequence};
use tickless_core::event::{
    DeviceConfig, DeviceKind, DeviceState, DeviceWrite, InPast, MinimumPolicy,
};
use tickless_core::link::lock::SpinLock;
use tickless_core::platform::{
    CpuId, Housekeeper, Platform, Port, ThisCpu, keep_local_by_table, pick_target_by_table,
};
use tickless_core::time::Instant;
use tickless_core::time::convert::{Cycles, Ticks};
use tickless_core::trace::Event;

#[cfg(not(feature = "conformance"))]
use crate::arch;
use crate::arch::CPUS_MAX;
use crate::clock::{Clock, OWN};
use crate::fault;
use crate::late::Late;
use crate::lock::MaskingLock;
use crate::note::{Count, Note};
#[cfg(feature = "conformance")]
use crate::played as arch;

/// The callbacks of one turn of the soft stage.
pub(crate) const SOFT_BUDGET: u32 = 16;

/// The kernel's data for one CPU.
#[derive(Debug, Default)]
pub(crate) struct Local {
    /// True if the core requested that this CPU looks at its queues. Set by any CPU.
    pub(crate) is_kicked: Note,
    /// True if another CPU requested the tick of this CPU's tasks. Set by any CPU.
    pub(crate) is_tick_kicked: Note,
    /// True if the hierarchy requested that this CPU leaves idle. Set by any CPU.
    pub(crate) must_leave_idle: Note,
    /// A function to call, as an address. Set by any CPU, taken by this CPU when it idles.
    pub(crate) job: AtomicU64,
    pub(crate) jobs: Count,
    /// True if the CPU has started.
    pub(crate) has_arrived: Note,
    /// True if the core's soft stage is to run.
    pub(crate) is_soft_raised: Note,
    /// True if a slice ended: another task is to be chosen at the end of the interrupt.
    pub(crate) must_decide: Note,
    /// True if a pass of the wheels is to run.
    pub(crate) is_pass_due: Note,
    /// True while the soft stage runs: an interrupt on top of it does not run another soft stage.
    pub(crate) is_in_soft: Note,
    /// True while the CPU sleeps, and while it handles the interrupt that ends its sleep.
    pub(crate) is_idle: Note,
    /// True if the last interrupt left the write of the device to a flush point.
    pub(crate) owes_rearm: Note,
    /// True if the CPU sleeps with its tick stopped. Other CPUs read it.
    pub(crate) is_tick_stopped: Note,
    /// True if the CPU is isolated: it receives no timers of other CPUs, and gives its own timers away.
    pub(crate) is_isolated: Note,
    /// True if the hierarchy refused this CPU's last change of isolation.
    pub(crate) is_refused: Note,
    /// The CPUs that served others right after this CPU's last change of isolation.
    pub(crate) available: Count,
    /// True if the CPU sleeps with its timer stopped. Set and taken by this CPU alone.
    #[cfg(target_arch = "x86_64")]
    pub(crate) is_deep: Note,
    /// True if the timers of this CPU are due and its own device is stopped. Set by the CPU that handles the broadcast
    /// device.
    #[cfg(target_arch = "x86_64")]
    pub(crate) is_called: Note,
    /// Sleeps with its timer stopped.
    #[cfg(target_arch = "x86_64")]
    pub(crate) deep_sleeps: Count,
    #[cfg(target_arch = "x86_64")]
    pub(crate) broadcasts: Count,
    /// Interrupts of any kind.
    pub(crate) interrupts: Count,
    pub(crate) timer_interrupts: Count,
    /// Interrupts of the device that came in front of an instruction of user mode.
    pub(crate) timer_in_user: Count,
    /// Interrupts of user mode that left a write of the device pending and chose the next task.
    pub(crate) decided_in_user: Count,
    /// Interrupts of other CPUs.
    pub(crate) calls: Count,
    /// Interrupts that no mask holds back.
    #[cfg(target_arch = "x86_64")]
    pub(crate) unmaskable: Count,
    /// The time that the last interrupt that no mask holds back read, in nanoseconds.
    #[cfg(target_arch = "x86_64")]
    pub(crate) unmaskable_time: Count,
    /// Machine checks after which the CPU continued.
    #[cfg(target_arch = "x86_64")]
    pub(crate) machine_checks: Count,
    /// The time that the last machine check read, in nanoseconds.
    #[cfg(target_arch = "x86_64")]
    pub(crate) machine_check_time: Count,
    /// Interrupts of no known source.
    pub(crate) strays: Count,
    pub(crate) device_writes: Count,
    /// Writes of the device's register by the timer interrupt in progress, up to its flush.
    pub(crate) writes_in_interrupt: Count,
    /// Timer interrupts whose device was not written exactly once.
    pub(crate) miswritten: Count,
    /// The counter at the entry of the last interrupt.
    pub(crate) entered: Count,
    /// Soft stages, passes of the wheels among them.
    pub(crate) soft_stages: Count,
    pub(crate) ticks: Count,
    /// Times that this CPU went to sleep.
    pub(crate) sleeps: Count,
}

/// The kernel as the host of the core: clock, table of bases, and data for each CPU.
#[derive(Debug)]
pub(crate) struct Host {
    bases: [Late<CpuBase<Self>>; CPUS_MAX],
    /// The counter's value when the clock was at zero.
    origin: u64,
    clock: Clock,
    /// True if queued timers are restarted in place where possible. For measurements.
    in_place: AtomicBool,
}

impl Host {
    /// Starts the clock of a machine with `cpus` CPUs at zero.
    pub(crate) fn new(cpus: u32) -> Self {
        let clock = Clock::new(cpus);
        let origin = clock.cycles_at(OWN, Instant::ZERO);
        Self {
            bases: [const { Late::new() }; CPUS_MAX],
            origin: origin.expect("the counter of the CPU drives the time").0,
            clock,
            in_place: AtomicBool::new(true),
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Sets whether queued timers are restarted in place where possible.
    pub(crate) fn set_in_place(&self, in_place: bool) {
        // Relaxed: it changes what a start costs, and nothing else.
        self.in_place.store(in_place, Ordering::Relaxed);
    }

    /// Keeps the base of the next CPU.
    pub(crate) fn keep(&self, base: alloc::boxed::Box<CpuBase<Self>>) {
        let cpu = base.cpu().0 as usize;
        self.bases[cpu].set(base);
    }

    /// Returns the kernel's data for the executing CPU.
    #[inline]
    pub(crate) fn here(&self) -> &Local {
        self.local(arch::cpu())
    }

    /// Returns the kernel's data for `cpu`, which has a base.
    #[inline]
    pub(crate) fn local(&self, cpu: usize) -> &Local {
        self.bases[cpu]
            .get()
            .expect("a CPU has a base before it starts")
            .local()
    }

    pub(crate) fn cpus(&self) -> impl Iterator<Item = (usize, &Local)> {
        let bases = self.bases.iter().map_while(Late::get);
        bases.map(CpuBase::local).enumerate()
    }

    /// Returns the time at which the counter shows `cycles`, computed without the library's conversions. Rounds down.
    pub(crate) fn time_of(&self, cycles: u64) -> Instant {
        let passed = u128::from(cycles - self.origin) * 1_000_000 / u128::from(arch::kilohertz().0);
        Instant::from_nanos(i64::try_from(passed).unwrap_or(i64::MAX))
    }
}

/// Returns the core's description of the machine's device.
pub(crate) fn device(is_relative: bool) -> DeviceConfig {
    let is_coupled = arch::is_coupled() && !is_relative;
    let device = arch::device(is_coupled);
    DeviceConfig {
        name: "cpu",
        kind: if is_coupled {
            DeviceKind::Coupled(OWN)
        } else {
            DeviceKind::Relative
        },
        hertz: device.hertz,
        min_ticks: Ticks(device.min),
        max_ticks: Ticks(device.max),
        can_stop: true,
        minimum: MinimumPolicy::Fixed,
    }
}

impl Port for Host {
    type Lock = MaskingLock;
    type ExpiryLock = SpinLock;
    type Local = Local;

    #[inline]
    fn this_cpu(&self) -> Option<ThisCpu<'_, Self>> {
        let base = self.bases[arch::cpu()].get()?;
        Some(ThisCpu { base, token: None })
    }

    #[inline]
    fn base(&self, cpu: CpuId) -> Option<&CpuBase<Self>> {
        self.bases.get(cpu.0 as usize)?.get()
    }

    #[inline]
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn write_device(&self, base: &CpuBase<Self>, write: DeviceWrite) -> Result<(), InPast> {
        debug_assert_eq!(
            base.cpu().0 as usize,
            arch::cpu(),
            "a device is its CPU's own"
        );
        match write {
            DeviceWrite::Coupled(cycles) => arch::write_coupled(fault::true_value(cycles.0)),
            DeviceWrite::Relative(ticks) => arch::write_relative(ticks.0),
            #[cfg(feature = "conformance")]
            DeviceWrite::Absolute(when) => {
                arch::write_absolute(when, |at| self.clock.timekeeper().now(|| Cycles(at)));
            }
            // The device is never told an instant: it is of another kind.
            #[cfg(not(feature = "conformance"))]
            DeviceWrite::Absolute(_) => return Err(InPast),
        }
        let local = base.local();
        local.device_writes.add(1);
        local.writes_in_interrupt.add(1);
        Ok(())
    }

    fn kick(&self, base: &CpuBase<Self>) {
        base.local().is_kicked.leave();
        arch::interrupt_cpu(base.cpu().0 as usize);
    }
}

impl Platform for Host {
    const DEFERRED_REARM: bool = !cfg!(feature = "immediate");
    const SOFT_BUDGET: u32 = SOFT_BUDGET;
    const TRACE: bool = cfg!(any(feature = "trace", feature = "conformance"));

    fn now_upper(&self) -> Instant {
        self.clock.now_upper()
    }

    fn now_and_offsets(&self, seen: SetSequence) -> (Instant, Option<(SetSequence, Offsets)>) {
        self.clock.now_and_offsets(seen)
    }

    #[inline]
    fn cycles_at(&self, counter: CounterId, when: Instant) -> Option<Cycles> {
        self.clock.cycles_at(counter, when)
    }

    fn set_device_state(&self, base: &CpuBase<Self>, state: DeviceState) {
        // One that is switched on again is written next, and needs no write of its own.
        if matches!(state, DeviceState::Shutdown | DeviceState::OneshotStopped) {
            arch::stop_device();
            let local = base.local();
            local.device_writes.add(1);
            local.writes_in_interrupt.add(1);
        }
    }

    fn raise_soft(&self, base: &CpuBase<Self>) {
        base.local().is_soft_raised.leave();
    }

    fn keep_local(&self, this: &CpuBase<Self>) -> bool {
        let local = this.local();
        keep_local_by_table(
            local.is_isolated.is_there(),
            local.is_tick_stopped.is_there(),
            false,
        )
    }

    fn pick_target(&self, this: Option<CpuId>, pinned: bool) -> CpuId {
        // A CPU that keeps its own timers takes one of another CPU's, too, that it starts (spec ).
        let keeps =
            |&this: &CpuId| pinned || self.base(this).is_some_and(|base| self.keep_local(base));
        if let Some(this) = this.filter(keeps) {
            return this;
        }
        let is_other = |base: &&CpuBase<Self>| {
            base.is_online() && Some(base.cpu()) != this && !base.local().is_isolated.is_there()
        };
        let mut others = self.bases.iter().map_while(Late::get).filter(is_other);
        let Some(this) = this else {
            // The executing CPU is offline. The last one online does not leave.
            return others.next().map_or(CpuId(0), CpuBase::cpu);
        };
        let others = others.map(|other| {
            if other.local().is_tick_stopped.is_there() {
                Housekeeper::Asleep(other.cpu())
            } else {
                Housekeeper::Awake(other.cpu())
            }
        });
        pick_target_by_table(this, self.here().is_isolated.is_there(), others)
    }

    #[inline]
    fn updates_in_place(&self) -> bool {
        // Relaxed: see `set_in_place`.
        self.in_place.load(Ordering::Relaxed)
    }

    fn trace(&self, event: Event) {
        crate::trace::take(|| self.clock.now(), event);
    }

    /// Passes some time by [`arch::relax`]: an emulator does not heed `spin_loop` of the core library on each machine.
    fn relax(&self, _attempt: u32) {
        arch::relax();
    }
}

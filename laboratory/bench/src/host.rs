//! A host for benchmarks, with CPUs that have no device. The lock of a base is the lock of user space, and the first
//! CPU owns the lock of its base. The figures do not include a host's own work, such as finding the current thread or
//! the current tick.

use std::cell::Cell;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::OnceLock;

use tickless::internals::Linux;
use tickless_core::base::{CpuBase, Timers};
use tickless_core::coarse::{Restart, Timeout, WheelKind, WheelTimer};
use tickless_core::event::{DeviceConfig, DeviceWrite, InPast};
use tickless_core::platform::{CpuId, Platform, Port, ThisCpu, Waiting};
use tickless_core::time::Instant;
use tickless_link::bias::{BiasedLock, Owner, REBIAS_AFTER};

/// A choice of the CPU for a coarse timer that may run on any CPU.
pub(crate) trait Choice: 'static {
    /// Returns the chosen CPU, or `None` for the CPU that arms the timer.
    fn choose(&self) -> Option<CpuId>;
}

impl Choice for () {
    #[inline]
    fn choose(&self) -> Option<CpuId> {
        None
    }
}

/// The simulated CPUs; the benchmark runs as the first CPU.
pub(crate) struct Host<C: Choice = ()> {
    bases: Vec<OnceLock<CpuBase<Self>>>,
    token: OnceLock<Owner>,
    /// The time that the clock shows.
    pub(crate) now: Cell<Instant>,
    choice: C,
}

impl<C: Choice> Port for Host<C> {
    type Lock = BiasedLock<Linux>;
    type ExpiryLock = BiasedLock<Linux>;
    type Local = ();

    fn this_cpu(&self) -> Option<ThisCpu<'_, Self>> {
        let (base, token) = (self.bases[0].get()?, self.token.get().copied());
        Some(ThisCpu { base, token })
    }
    fn base(&self, cpu: CpuId) -> Option<&CpuBase<Self>> {
        self.bases.get(cpu.0 as usize)?.get()
    }
    fn now(&self) -> Instant {
        self.now.get()
    }
    fn write_device(&self, _base: &CpuBase<Self>, _write: DeviceWrite) -> Result<(), InPast> {
        Ok(())
    }
    fn kick(&self, _base: &CpuBase<Self>) {}
}

impl<C: Choice> Platform for Host<C> {
    const WAITING: Waiting = Waiting::Sleep;
    fn pick_target(&self, _this: Option<CpuId>, _pinned: bool) -> CpuId {
        CpuId(0)
    }
    #[inline]
    fn housekeeper(&self, _this: &CpuBase<Self>) -> Option<CpuId> {
        self.choice.choose()
    }
}

/// Makes the timers of `cpus` CPUs. If `owns` is true, the lock of the first CPU is biased to that CPU, like the lock
/// of a worker.
pub(crate) fn timers<C: Choice>(cpus: u32, owns: bool, choice: C) -> Timers<Host<C>> {
    let timers = Timers::new(Host {
        bases: (0..cpus).map(|_| OnceLock::new()).collect(),
        token: OnceLock::new(),
        now: Cell::new(Instant::ZERO),
        choice,
    });
    for (cpu, place) in (0..).zip(&timers.platform().bases) {
        place.get_or_init(|| timers.new_base(DeviceConfig::software("none"), ()));
        timers.cpu_online(CpuId(cpu));
    }
    if owns {
        let base = timers.platform().base(CpuId(0)).expect("made above");
        let token = base.lock().claim().expect("no other CPU executes");
        timers.platform().token.get_or_init(|| token);
        for _ in 0..=REBIAS_AFTER {
            black_box(timers.wheel_pending(CpuId(0)));
        }
    }
    timers
}

/// A coarse timer that does nothing when it fires.
pub(crate) type Coarse = WheelTimer<fn(&mut Timeout) -> Restart>;

pub(crate) fn coarse(kind: WheelKind) -> Pin<Box<Coarse>> {
    Box::pin(WheelTimer::new(kind, |_| Restart::No))
}

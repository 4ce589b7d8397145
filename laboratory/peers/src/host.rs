//! A host for benchmarks, with one CPU that has no device. The lock of its base is the lock of user space, which the CPU
//! owns. The figures do not include a host's own work, such as finding the current thread or
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

/// One simulated CPU, on which the benchmark runs.
pub(crate) struct Host {
    base: OnceLock<CpuBase<Self>>,
    token: OnceLock<Owner>,
    /// The time that the clock shows.
    pub(crate) now: Cell<Instant>,
}

impl Port for Host {
    type Lock = BiasedLock<Linux>;
    type ExpiryLock = BiasedLock<Linux>;
    type Local = ();

    fn this_cpu(&self) -> Option<ThisCpu<'_, Self>> {
        let (base, token) = (self.base.get()?, self.token.get().copied());
        Some(ThisCpu { base, token })
    }
    fn base(&self, cpu: CpuId) -> Option<&CpuBase<Self>> {
        self.base.get().filter(|_| cpu == CpuId(0))
    }
    fn now(&self) -> Instant {
        self.now.get()
    }
    fn write_device(&self, _base: &CpuBase<Self>, _write: DeviceWrite) -> Result<(), InPast> {
        Ok(())
    }
    fn kick(&self, _base: &CpuBase<Self>) {}
}

impl Platform for Host {
    const WAITING: Waiting = Waiting::Sleep;
    fn pick_target(&self, _this: Option<CpuId>, _pinned: bool) -> CpuId {
        CpuId(0)
    }
    fn housekeeper(&self, _this: &CpuBase<Self>) -> Option<CpuId> {
        None
    }
}

/// Makes the timers of the CPU. Its lock is biased to it, like the lock of a worker.
pub(crate) fn timers() -> Timers<Host> {
    let timers = Timers::new(Host {
        base: OnceLock::new(),
        token: OnceLock::new(),
        now: Cell::new(Instant::ZERO),
    });
    let host = timers.platform();
    host.base
        .get_or_init(|| timers.new_base(DeviceConfig::software("none"), ()));
    timers.cpu_online(CpuId(0));
    let base = host.base(CpuId(0)).expect("made above");
    let token = base.lock().claim().expect("no other CPU executes");
    host.token.get_or_init(|| token);
    for _ in 0..=REBIAS_AFTER {
        black_box(timers.wheel_pending(CpuId(0)));
    }
    timers
}

/// A coarse timer that does nothing when it fires.
pub(crate) type Coarse = WheelTimer<fn(&mut Timeout) -> Restart>;

pub(crate) fn coarse(kind: WheelKind) -> Pin<Box<Coarse>> {
    Box::pin(WheelTimer::new(kind, |_| Restart::No))
}

//! The timer core alone, to measure the text and data that a kernel pays for it.
//!
//! It is linked and never runs: its host has an atomic for a counter and one for a device. Each entry point that a
//! kernel calls is called by a function here, and the first function, `_start`, refers to these functions. So the
//! linker keeps the code that they need and nothing else. The feature `size` has the entry points of exact timers;
//! `size-wheel` adds those of coarse timers, `size-hierarchy` those that move coarse timers between CPUs and stop
//! ticks. `kernel/size.sh` builds and measures all three.
//!
//! # Safety
//!
//! *Once*: the base is stored once, and stays.
#![no_std]
#![no_main]

use core::hint::black_box;
use core::mem::MaybeUninit;
use core::panic::PanicInfo;
use core::pin::Pin;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, Ordering};

use tickless_core::base::{CpuBase, Timers};
use tickless_core::event::{DeviceConfig, DeviceWrite, Flush, InPast};
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Start};
use tickless_core::link::lock::SpinLock;
use tickless_core::platform::{CpuId, Platform, Port, ThisCpu};
use tickless_core::time::{Instant, Monotonic};

#[cfg(feature = "size-hierarchy")]
mod hierarchy;
#[cfg(feature = "size-wheel")]
mod wheel;

/// The host: one CPU.
#[derive(Debug)]
pub struct Small {
    counter: AtomicI64,
    device: AtomicI64,
    is_kicked: AtomicBool,
    base: AtomicPtr<CpuBase<Self>>,
}

impl Port for Small {
    type Lock = SpinLock;
    type ExpiryLock = SpinLock;
    type Local = ();

    fn this_cpu(&self) -> Option<ThisCpu<'_, Self>> {
        let base = self.base(CpuId(0))?;
        Some(ThisCpu { base, token: None })
    }

    fn base(&self, _cpu: CpuId) -> Option<&CpuBase<Self>> {
        // Acquire: pairs with the store in `begin`.
        let base = self.base.load(Ordering::Acquire);
        // SAFETY: *once*.
        unsafe { base.as_ref() }
    }

    fn now(&self) -> Instant {
        // Relaxed: nothing counts it.
        Instant::from_nanos(self.counter.load(Ordering::Relaxed))
    }

    fn write_device(&self, _base: &CpuBase<Self>, write: DeviceWrite) -> Result<(), InPast> {
        if let DeviceWrite::Absolute(when) = write {
            // Relaxed: it stands for a register of this CPU.
            self.device.store(when.as_nanos(), Ordering::Relaxed);
        }
        Ok(())
    }

    fn kick(&self, _base: &CpuBase<Self>) {
        // Release: what the kick is for was written before; nothing takes it here.
        self.is_kicked.store(true, Ordering::Release);
    }
}

impl Platform for Small {
    const DEFERRED_REARM: bool = true;
}

type Core = &'static Timers<Small>;
type Function = fn(&mut Expired<'_, '_, Monotonic>) -> Restart;

/// Makes the core, and the CPU's base in `base`.
fn begin(
    core: &'static mut MaybeUninit<Timers<Small>>,
    base: &'static mut MaybeUninit<CpuBase<Small>>,
) {
    let core = core.write(Timers::new(Small {
        counter: AtomicI64::new(0),
        device: AtomicI64::new(0),
        is_kicked: AtomicBool::new(false),
        base: AtomicPtr::new(ptr::null_mut()),
    }));
    let base = core.emplace_base(base, DeviceConfig::software("cpu"), ());
    let base = ptr::from_mut(base.into_mut());
    // Release: pairs with the load in `base`.
    core.platform().base.store(base, Ordering::Release);
    core.cpu_online(CpuId(0));
}

fn start(core: Core, timer: &'static HrTimer<Function>, when: i64) {
    let _outcome = Pin::static_ref(timer).start(core, Start::at(Instant::from_nanos(when)));
}

fn cancel(core: Core, timer: &'static HrTimer<Function>) -> bool {
    Pin::static_ref(timer).cancel(core)
}

/// Handles an interrupt of the device, and ends it.
fn interrupt(core: Core) {
    let _report = core.interrupt(CpuId(0));
    core.flush_deferred(CpuId(0), Flush::KernelExit);
}

/// Handles an interrupt of another CPU.
fn kicked(core: Core) {
    core.retrigger(CpuId(0));
}

/// The first function: it refers to the others, so that the linker keeps them. It never runs.
#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    black_box([
        begin as *const (),
        start as *const (),
        cancel as *const (),
        interrupt as *const (),
        kicked as *const (),
    ]);
    #[cfg(feature = "size-wheel")]
    wheel::keep();
    #[cfg(feature = "size-hierarchy")]
    hierarchy::keep();
    halt()
}

fn halt() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    halt()
}

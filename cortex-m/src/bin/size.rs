//! A program with the exact queue of the core and nothing else, to measure the size of its code, by `size.sh`.
//!
//! The counter and the device are a word of memory each. The timers of the program are hidden from the compiler, so
//! that the compiler computes nothing in advance. The program is linked but not run.
#![no_std]
#![no_main]

use core::hint::black_box;
use core::panic::PanicInfo;
use core::pin::pin;
use core::sync::atomic::{AtomicU32, Ordering};

use cortex_m_rt::entry;
use once_cell::unsync::OnceCell;
use tickless_core::base::{CpuBase, Timers};
use tickless_core::event::{DeviceConfig, DeviceWrite, InPast};
use tickless_core::hrtimer::{HrTimer, Restart, Start};
use tickless_core::link::lock::SpinLock;
use tickless_core::platform::{CpuId, Platform, Port, ThisCpu};
use tickless_core::time::{Instant, Span};

const CPU: CpuId = CpuId(0);

/// The stand-ins for the counter, and for the register of the device.
static COUNTER: AtomicU32 = AtomicU32::new(0);
static REGISTER: AtomicU32 = AtomicU32::new(0);

#[derive(Debug, Default)]
struct Host {
    base: OnceCell<CpuBase<Self>>,
}

impl Port for Host {
    type Lock = SpinLock;
    type ExpiryLock = SpinLock;
    type Local = ();

    fn this_cpu(&self) -> Option<ThisCpu<'_, Self>> {
        self.base.get().map(|base| ThisCpu { base, token: None })
    }

    fn base(&self, _: CpuId) -> Option<&CpuBase<Self>> {
        self.base.get()
    }

    fn now(&self) -> Instant {
        // Relaxed: a register.
        Instant::from_nanos(i64::from(COUNTER.load(Ordering::Relaxed)))
    }

    fn write_device(&self, _: &CpuBase<Self>, write: DeviceWrite) -> Result<(), InPast> {
        if let DeviceWrite::Absolute(when) = write {
            // Relaxed: a register.
            REGISTER.store(when.as_nanos() as u32, Ordering::Relaxed);
        }
        Ok(())
    }

    fn kick(&self, _: &CpuBase<Self>) {}
}

impl Platform for Host {
    #[inline(always)]
    fn updates_in_place(&self) -> bool {
        false
    }

    #[inline(always)]
    fn migration_enabled(&self) -> bool {
        false
    }
}

#[entry]
fn start() -> ! {
    let timers = Timers::new(Host::default());
    let made = timers.new_base(DeviceConfig::software("word"), ());
    timers.platform().base.get_or_init(|| made);
    timers.cpu_online(CPU);
    let timer = pin!(HrTimer::new(|expired| {
        expired.forward_now(black_box(Span::from_millis(1)));
        black_box(Restart::Yes)
    }));
    let timer = timer.as_ref();
    loop {
        let _started = timer.start(&timers, Start::after(black_box(Span::from_millis(1))));
        let _started = timer.start(&timers, Start::at(black_box(Instant::ZERO)));
        black_box(timer.cancel(&timers));
        let _report = black_box(timers.interrupt(CPU));
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        cortex_m::asm::bkpt();
    }
}

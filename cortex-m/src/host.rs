//! The board as a host of the core: the one implementation of [`Platform`], which a port copies.
//!
//! | the core needs | the board has |
//! |---|---|
//! | a counter | `TIMER1`, whose periods its interrupt counts |
//! | a place for bases | a place for one |
//! | an event device | `TIMER0`, which is programmed with the number of counts that are left |
//! | a way to interrupt another CPU | the line of the device, made pending |
//! | a lock that masks interrupts | [`Masked`] |
//!
//! # Ground rules
//!
//! The board has one processor, so no other code runs while interrupts are masked. The interrupt of the device calls
//! the core, and callbacks run in this interrupt.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use cortex_m::register::primask;
use cortex_m_rt::exception;
use once_cell::sync::OnceCell;
use tickless_core::base::{CpuBase, Timers};
use tickless_core::event::{DeviceConfig, DeviceWrite, InPast};
use tickless_core::link::lock::RawLock;
use tickless_core::platform::{CpuId, Platform, Port, ThisCpu};
use tickless_core::time::{Instant, Span};

use crate::board::{self, Line};

/// The only CPU.
pub(crate) const CPU: CpuId = CpuId(0);

static TIMERS: OnceCell<Timers<Host>> = OnceCell::new();

/// True if the core has kicked this CPU: the next interrupt checks the queues.
static KICKED: AtomicBool = AtomicBool::new(false);
/// The number of interrupts of the device.
static INTERRUPTS: AtomicU32 = AtomicU32::new(0);
/// The lower half of the counter at the entry of the last interrupt. The lower half suffices, because it is compared
/// with values that are near.
static ENTERED: AtomicU32 = AtomicU32::new(0);

/// A lock for one processor, which masks interrupts while it is held. It needs no atomic exchange, an instruction that
/// some processors do not have.
#[derive(Debug, Default)]
pub(crate) struct Masked {
    /// True while the lock is held. Acquiring a held lock panics; other locks would wait for ever.
    held: AtomicBool,
}

// SAFETY: on one processor masked code runs to its end before any other, and a section inside of another one of the
// same lock panics.
unsafe impl RawLock for Masked {
    type Token = ();
    /// True if interrupts were enabled before the lock was acquired.
    type Acquired = bool;

    #[inline]
    fn acquire(&self, _token: Option<()>) -> bool {
        let before = primask::read().is_active();
        cortex_m::interrupt::disable();
        // Relaxed: masked, so nothing runs between the two.
        assert!(!self.held.load(Ordering::Relaxed), "a lock is held once");
        self.held.store(true, Ordering::Relaxed);
        before
    }

    #[inline]
    fn try_acquire(&self, token: Option<()>) -> Option<bool> {
        // Relaxed: the answer "held" can only come from code that this one interrupted, or is inside of.
        (!self.held.load(Ordering::Relaxed)).then(|| self.acquire(token))
    }

    #[inline]
    fn release(&self, before: &bool) {
        // Relaxed: masked. Unmasking is a barrier for the compiler.
        self.held.store(false, Ordering::Relaxed);
        if *before {
            // SAFETY: the section that masked them ends here, and they were let in before it.
            unsafe { cortex_m::interrupt::enable() };
        }
    }
}

/// The board as a platform of the core.
#[derive(Debug, Default)]
pub(crate) struct Host {
    base: OnceCell<CpuBase<Self>>,
}

impl Port for Host {
    type Lock = Masked;
    type ExpiryLock = Masked;
    type Local = ();

    #[inline]
    fn this_cpu(&self) -> Option<ThisCpu<'_, Self>> {
        let base = self.base.get()?;
        Some(ThisCpu { base, token: None })
    }

    #[inline]
    fn base(&self, cpu: CpuId) -> Option<&CpuBase<Self>> {
        self.base.get().filter(|_| cpu == CPU)
    }

    fn now(&self) -> Instant {
        now()
    }

    fn write_device(&self, _base: &CpuBase<Self>, write: DeviceWrite) -> Result<(), InPast> {
        match write {
            DeviceWrite::Absolute(when) if when == Instant::FOREVER => board::stop(),
            DeviceWrite::Absolute(when) => {
                let nanos = u64::try_from(when.as_nanos()).unwrap_or(0);
                if !board::fire_when(nanos.div_ceil(board::NANOS)) {
                    // That is over: it fires at once.
                    board::raise();
                }
            }
            // The device is told the instant alone: it is of that kind.
            DeviceWrite::Relative(_) | DeviceWrite::Coupled(_) => return Err(InPast),
        }
        Ok(())
    }

    fn kick(&self, _base: &CpuBase<Self>) {
        // Relaxed: the interrupt that takes it is of the same processor.
        KICKED.store(true, Ordering::Relaxed);
        board::raise();
    }
}

impl Platform for Host {
    fn now_upper(&self) -> Instant {
        now().saturating_add(Span::from_nanos(board::NANOS))
    }
}

/// Returns the time since the start, rounded down to a count.
pub(crate) fn now() -> Instant {
    time_of(board::counts())
}

pub(crate) fn time_of(counts: u64) -> Instant {
    Instant::from_nanos(i64::try_from(counts * board::NANOS).unwrap_or(i64::MAX))
}

/// Makes the timers, and starts the counter.
pub(crate) fn start() {
    board::start();
    let timers = TIMERS.get_or_init(|| Timers::new(Host::default()));
    let host = timers.platform();
    host.base
        .get_or_init(|| timers.new_base(DeviceConfig::software("TIMER0"), ()));
    timers.cpu_online(CPU);
}

/// Returns the timers of the board.
///
/// # Panics
///
/// If it is called before [`start`].
pub(crate) fn timers() -> &'static Timers<Host> {
    TIMERS.get().expect("the program started")
}

/// Handles each interrupt of the board, because the vector table has separate entries only for the faults of the
/// processor.
#[exception]
///
/// # Safety
///
/// Only the processor calls this function.
unsafe fn DefaultHandler(line: i16) {
    match line {
        _ if line == Line::Device as i16 => interrupt(),
        _ if line == Line::Counter as i16 => board::counter_interrupt(),
        _ => panic!("interrupt {line} came, which nothing asked for"),
    }
}

/// Handles the interrupt of the device: expires all due timers.
fn interrupt() {
    let entered = board::counts();
    // Relaxed: the interrupt alone writes both, and what it interrupts reads them when it is over.
    ENTERED.store(entered as u32, Ordering::Relaxed);
    INTERRUPTS.store(INTERRUPTS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    board::quiet();
    let timers = timers();
    // Relaxed: see `kick`. Nothing comes between the two: only this interrupt's own callbacks kick on top of it.
    if KICKED.load(Ordering::Relaxed) {
        KICKED.store(false, Ordering::Relaxed);
        timers.retrigger(CPU);
    }
    let _report = timers.interrupt(CPU);
    let _report = timers.soft_interrupt(CPU);
}

pub(crate) fn interrupts() -> u32 {
    // Relaxed: see `interrupt`.
    INTERRUPTS.load(Ordering::Relaxed)
}

/// Returns the counts from `deadline` to the entry of the last interrupt; negative if the entry was before it.
pub(crate) fn entered_behind(deadline: Instant) -> i32 {
    let due = u64::try_from(deadline.as_nanos())
        .unwrap_or(0)
        .div_ceil(board::NANOS);
    // Relaxed: see `interrupt`.
    ENTERED
        .load(Ordering::Relaxed)
        .wrapping_sub(due as u32)
        .cast_signed()
}

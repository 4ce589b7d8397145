//! The hardware of the board mps2-an385 that the program uses: two timers, which count down at 25 MHz.
//!
//! `TIMER1` never stops and is the counter, `TIMER0` counts once and is the event device. The counter interrupts each
//! time its 32 bits wrap around, every 172 s.
//!
//! # Ground rules
//!
//! `HIGH` is written by the interrupt of the counter alone, and read with interrupts masked. The event device is
//! written with interrupts masked.
//!
//! # Safety
//!
//! *Registers*: the board has a timer at each of the two addresses, and nothing but this module touches them.

use core::sync::atomic::{AtomicU32, Ordering};

use cortex_m::interrupt::InterruptNumber;
use cortex_m::peripheral::NVIC;

/// Nanoseconds between two counts.
pub(crate) const NANOS: u64 = 40;

/// Counts until the counter wraps around for the first time. They take only 2 ms, so that each run includes a wrap.
const FIRST_PERIOD: u32 = 50_000;
/// The greatest number of counts that the event device waits for.
const COUNTS_MAX: u64 = 0x7fff_ffff;

const ENABLE: u32 = 1;
const INTERRUPT: u32 = 1 << 3;

/// The number of periods of the counter that are over and whose interrupt was handled.
static HIGH: AtomicU32 = AtomicU32::new(0);

/// A timer of the board, by its address.
#[derive(Clone, Copy)]
struct Timer(usize);

const DEVICE: Timer = Timer(0x4000_0000);
const COUNTER: Timer = Timer(0x4000_1000);

/// A register of a timer, by its offset.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Register {
    Control = 0x0,
    Value = 0x4,
    Reload = 0x8,
    Interrupt = 0xc,
}

impl Timer {
    fn read(self, register: Register) -> u32 {
        // SAFETY: *registers*.
        unsafe { ((self.0 + register as usize) as *const u32).read_volatile() }
    }

    fn write(self, register: Register, value: u32) {
        // SAFETY: *registers*.
        unsafe { ((self.0 + register as usize) as *mut u32).write_volatile(value) }
    }
}

/// The interrupt lines that the program uses.
#[derive(Clone, Copy, Debug)]
#[repr(u16)]
pub(crate) enum Line {
    Device = 8,
    Counter = 9,
}

// SAFETY: the numbers are those of the board, one for each line, and no two are alike.
unsafe impl InterruptNumber for Line {
    fn number(self) -> u16 {
        self as u16
    }
}

/// Starts the counter at zero, and unmasks both interrupts.
pub(crate) fn start() {
    COUNTER.write(Register::Reload, u32::MAX);
    COUNTER.write(Register::Value, FIRST_PERIOD);
    COUNTER.write(Register::Control, ENABLE | INTERRUPT);
    for line in [Line::Device, Line::Counter] {
        // SAFETY: no section relies on these interrupts being masked here: nothing runs yet.
        unsafe { NVIC::unmask(line) };
    }
}

/// Returns the counts since the start. A later call never returns less.
pub(crate) fn counts() -> u64 {
    cortex_m::interrupt::free(|_| {
        let value = COUNTER.read(Register::Value);
        // Relaxed: masked.
        let high = HIGH.load(Ordering::Relaxed);
        if COUNTER.read(Register::Interrupt) & 1 == 0 {
            counts_of(high, value)
        } else {
            // The counter wrapped around, perhaps before the reading above. A new reading is of the next period.
            counts_of(high + 1, COUNTER.read(Register::Value))
        }
    })
}

/// Returns the counts since the start, from the number of finished periods and the value of the counter. A period
/// begins when the counter reaches 0; at that time the counter also interrupts.
fn counts_of(high: u32, value: u32) -> u64 {
    let low = u64::from(value.wrapping_neg());
    let all = (u64::from(high) << 32) + low;
    // The first period began with few counts left.
    all - u64::from(FIRST_PERIOD.wrapping_neg())
}

/// Handles the interrupt of the counter, which says that a period is over.
pub(crate) fn counter_interrupt() {
    cortex_m::interrupt::free(|_| {
        COUNTER.write(Register::Interrupt, 1);
        // Relaxed: written here alone, masked; `counts` reads it masked.
        HIGH.store(HIGH.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    });
}

/// Programs the event device for the time at which [`counts`] reaches `target`, or for an earlier time if `target` is
/// too far away. Returns false if `target` is already reached. Called with interrupts masked.
pub(crate) fn fire_when(target: u64) -> bool {
    DEVICE.write(Register::Control, 0);
    DEVICE.write(Register::Interrupt, 1);
    let left = target.saturating_sub(counts()).min(COUNTS_MAX);
    let Ok(left @ 1..) = u32::try_from(left) else {
        return false;
    };
    // Counts once.
    DEVICE.write(Register::Reload, 0);
    DEVICE.write(Register::Value, left);
    DEVICE.write(Register::Control, ENABLE | INTERRUPT);
    true
}

/// Stops the event device, and clears its interrupt. Called with interrupts masked.
pub(crate) fn stop() {
    DEVICE.write(Register::Control, 0);
    DEVICE.write(Register::Interrupt, 1);
}

/// Waits for an interrupt, unless `is_over` returns true.
pub(crate) fn wait_unless(is_over: impl Fn() -> bool) {
    cortex_m::interrupt::free(|_| {
        if !is_over() {
            // A masked interrupt ends the wait too, and is taken after it.
            cortex_m::asm::wfi();
        }
    });
}

/// Clears the interrupt of the device. Called at the entry of its handler.
pub(crate) fn quiet() {
    stop();
}

/// Makes the interrupt of the device pending, as if it had fired.
pub(crate) fn raise() {
    NVIC::pend(Line::Device);
}

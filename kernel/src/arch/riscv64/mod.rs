//! QEMU's `virt` machine with 64-bit RISC-V CPUs: Sstc, SBI, and the real-time clock as the watchdog.
//!
//! The device of a CPU is its `stimecmp`. The device is coupled: it compares with the counter that drives the time. A
//! comparator value in the past fires at once, and a value of all ones never fires. The pending state follows the
//! comparison, so a write that moves the comparator later withdraws an interrupt that was due while interrupts were
//! masked.
//!
//! # Safety
//!
//! *Registers*: the addresses belong to the machine's devices and to no memory of a program, and a register accepts any
//! value. *Instructions*: each instruction accesses the control register that it names, and no memory; the page tables
//! map each address to itself, so a CPU that turns on translation continues at the same address. *Firmware*: a call
//! changes `a0` and `a1` alone, and no memory of the kernel.

use core::arch::{asm, global_asm};
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicUsize, Ordering};

use tickless_core::time::convert::Kilohertz;

use super::interface::{Begins, Frame, Wait, beginning, load, store};
use super::pages::{self, Purpose};

global_asm!(include_str!("boot.s"));
global_asm!(include_str!("user.s"));

pub(crate) const NAME: &str = "riscv64 virt";
/// The nanoseconds from the instant at which the device fires to the reading of the counter at the entry of the
/// interrupt, where an instruction takes a nanosecond. The emulator adds whole counts to a time between two counts.
pub(crate) const ENTRY_LATENESS: RangeInclusive<u64> = 100..=300;
/// The nanoseconds by which two of these times differ at most: two counts.
pub(crate) const ENTRY_SPREAD: u64 = 200;
/// Frequency of the counter, and of the device.
pub(super) const KILOHERTZ: Kilohertz = Kilohertz(10_000);

pub(crate) const FRAME: Frame = Frame {
    words: 14,
    first: 1,
    second: 2,
    goes_on: 0,
};

const SERIAL: usize = 0x1000_0000;
const POWER: usize = 0x10_0000;
const CLOCK: usize = 0x10_1000;
const CONTROLLER: usize = 0x0c00_0000;
/// The interrupt of the real-time clock.
const WATCHDOG: usize = 11;

const SOFTWARE_BIT: u64 = 1 << 1;
const TIMER_BIT: u64 = 1 << 5;
const EXTERNAL_BIT: u64 = 1 << 9;
/// The bit that is set in the cause of a trap if the trap is an interrupt.
const INTERRUPT: u64 = 1 << 63;
pub(crate) const SOFTWARE: u64 = INTERRUPT | 1;
pub(crate) const TIMER: u64 = INTERRUPT | 5;
pub(crate) const EXTERNAL: u64 = INTERRUPT | 9;

/// The address of the first table of pages.
static ROOT: AtomicUsize = AtomicUsize::new(0);

/// The hart that the firmware started first: CPU 0. Hart 0 has its number.
static BOOT_HART: AtomicUsize = AtomicUsize::new(0);

macro_rules! read_register {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: *instructions*.
        unsafe { asm!(concat!("csrr {}, ", $name), out(reg) value, options(nostack)) };
        value
    }};
}

macro_rules! write_register {
    ($name:literal, $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: *instructions*.
        unsafe { asm!(concat!("csrw ", $name, ", {}"), in(reg) value, options(nostack)) };
    }};
}

/// Calls the firmware. Returns its error, 0 for none.
fn firmware(extension: usize, function: usize, arguments: [usize; 3]) -> i64 {
    let [first, second, third] = arguments;
    let error;
    // SAFETY: *firmware*. Not `nomem`: what another CPU is to find is in memory before.
    unsafe {
        asm!(
            "fence rw, rw",
            "ecall",
            inout("a0") first => error,
            inout("a1") second => _,
            in("a2") third,
            in("a6") function,
            in("a7") extension,
            options(nostack),
        );
    }
    error
}

fn hart_of(cpu: usize) -> usize {
    // Relaxed: written before any other CPU runs.
    let boot = BOOT_HART.load(Ordering::Relaxed);
    match cpu {
        0 => boot,
        cpu if cpu == boot => 0,
        cpu => cpu,
    }
}

#[inline]
pub(crate) fn cpu() -> usize {
    let value: usize;
    // SAFETY: *instructions*. The register is written once, before any Rust code runs on the CPU.
    unsafe { asm!("mv {}, tp", out(reg) value, options(nomem, nostack, pure)) };
    value
}

#[inline]
pub(crate) fn counter() -> u64 {
    read_register!("time")
}

/// Returns the counter that all CPUs share: the lower half of the real-time clock.
pub(crate) fn shared_counter() -> u64 {
    u64::from(load(CLOCK))
}

/// Returns the frequency of the shared counter, which counts nanoseconds.
pub(crate) const fn shared_kilohertz() -> Kilohertz {
    Kilohertz(1_000_000)
}

#[inline]
pub(crate) fn mask() -> u64 {
    let before: u64;
    // SAFETY: *instructions*. Not `nomem`: what follows must not be moved in front of it.
    unsafe { asm!("csrrci {}, sstatus, 2", out(reg) before, options(nostack)) };
    before & 2
}

pub(crate) fn is_masked() -> bool {
    read_register!("sstatus") & 2 == 0
}

#[inline]
pub(crate) fn restore(before: u64) {
    // SAFETY: *instructions*.
    unsafe { asm!("csrs sstatus, {}", in(reg) before, options(nostack)) };
}

#[inline]
pub(crate) fn unmask() {
    restore(2);
}

/// Sleeps until an interrupt is pending, takes the interrupt, and returns with interrupts masked. Called with
/// interrupts masked: an interrupt that came before the sleep ends the sleep, so no wake-up is lost.
///
/// The counter is read first, for an emulator that counts instructions (docs/kernel.md, "Exact time").
pub(crate) fn wait() {
    // SAFETY: *instructions*.
    unsafe {
        asm!(
            "csrr {}, time",
            "wfi",
            "csrsi sstatus, 2",
            "nop",
            "csrci sstatus, 2",
            out(reg) _,
            options(nostack)
        )
    };
}

pub(crate) const PAUSE_YIELDS: bool = false;

/// Sleeps until an interrupt is pending, and does not take it.
pub(crate) fn sleep_masked() {
    // SAFETY: *instructions*.
    unsafe { asm!("wfi", options(nostack)) };
}

#[inline]
pub(crate) fn relax() {
    core::hint::spin_loop();
}

pub(crate) fn write_coupled(cycles: u64) {
    write_register!("0x14d", cycles);
}

pub(crate) fn interrupt_cpu(cpu: usize) {
    let _error = firmware(0x73_5049, 0, [1, hart_of(cpu), 0]);
}

/// Returns an entry of the page tables that maps memory.
fn entry(address: usize, purpose: Purpose) -> u64 {
    const READ: u64 = 1 << 1;
    const WRITE: u64 = 1 << 2;
    const EXECUTE: u64 = 1 << 3;
    const USER: u64 = 1 << 4;
    /// Marks an entry as valid, accessed and written, so that no fault has to record the first access.
    const NOTED: u64 = 1 | 1 << 6 | 1 << 7;
    let may = match purpose {
        Purpose::Device => READ | WRITE,
        Purpose::Kernel => READ | WRITE | EXECUTE,
        Purpose::Code => USER | READ | EXECUTE,
        Purpose::Stack => USER | READ | WRITE,
    };
    (address as u64) >> 2 | NOTED | may
}

/// Brings up the interrupt controller, which sends the watchdog's interrupts to the first CPU, and the page tables.
pub(crate) fn init_machine() {
    let root = pages::write_all(256, entry, entry, |table| (table as u64) >> 2 | 1);
    // Relaxed: no other CPU runs.
    ROOT.store(root, Ordering::Relaxed);
    let context = 2 * hart_of(0) + 1;
    store(CONTROLLER + 4 * WATCHDOG, 1);
    store(CONTROLLER + 0x2000 + 0x80 * context, 1 << WATCHDOG);
    store(CONTROLLER + 0x20_0000 + 0x1000 * context, 0);
}

pub(crate) fn init_cpu() {
    // Relaxed: written before any other CPU runs. Addresses of 39 bits.
    let tables = 8 << 60 | ROOT.load(Ordering::Relaxed) as u64 >> 12;
    // SAFETY: *instructions*. The tables are in memory before they are used.
    unsafe { asm!("sfence.vma", "csrw satp, {}", "sfence.vma", in(reg) tables, options(nostack)) };
    // Never: the device is stopped.
    write_coupled(u64::MAX);
    write_register!("sie", SOFTWARE_BIT | TIMER_BIT | EXTERNAL_BIT);
}

/// Has the watchdog interrupt the first CPU when the counter reaches `cycles`. The watchdog is the alarm of the real-time clock, which the library does not use.
pub(crate) fn set_watchdog(cycles: u64) {
    let ahead = (cycles - counter()) * (1_000_000 / u64::from(KILOHERTZ.0));
    // The low half first: that latches the high one.
    let low = u64::from(load(CLOCK));
    let alarm = (u64::from(load(CLOCK + 4)) << 32 | low) + ahead;
    // The high half first: the write of the low one sets the alarm.
    store(CLOCK + 0xc, (alarm >> 32) as u32);
    store(CLOCK + 0x8, alarm as u32);
    store(CLOCK + 0x10, 1);
}

/// Returns the cycles of the counter until the lower half of the watchdog's clock is zero, rounded down.
pub(crate) fn until_watchdog_wraps() -> u64 {
    ((1 << 32) - u64::from(load(CLOCK))) / (1_000_000 / u64::from(KILOHERTZ.0))
}

/// Starts `cpu` on the stack that ends at `stack_top`.
///
/// # Errors
///
/// The answer of the firmware.
pub(crate) fn start_cpu(
    cpu: usize,
    stack_top: usize,
    begins: Begins,
    _wait: Wait,
) -> Result<(), i64> {
    let (entry, start) = beginning(cpu, stack_top, begins);
    match firmware(0x48_534d, 0, [hart_of(cpu), entry, start as usize]) {
        0 => Ok(()),
        error => Err(error),
    }
}

pub(crate) fn put(byte: u8) {
    // SAFETY: *registers*.
    unsafe { (SERIAL as *mut u8).write_volatile(byte) };
}

/// Ends the machine with `code`.
pub(crate) fn exit(code: u32) -> ! {
    loop {
        store(POWER, code << 16 | 0x3333);
    }
}

/// Notes the hart that the firmware started first. No other CPU runs.
pub(crate) fn begin(hart: usize) {
    // Relaxed: no other CPU runs.
    BOOT_HART.store(hart, Ordering::Relaxed);
}

/// Ends the interrupt that another CPU sent.
#[inline]
pub(crate) fn take_software() {
    // SAFETY: *instructions*.
    unsafe { asm!("csrc sip, {}", in(reg) SOFTWARE_BIT, options(nostack)) };
}

/// Ends the interrupt of the watchdog, at the interrupt controller and at the clock.
pub(crate) fn take_watchdog() {
    let claim = CONTROLLER + 0x20_0004 + 0x1000 * (2 * hart_of(0) + 1);
    let number = load(claim);
    store(CLOCK + 0x1c, 1);
    store(claim, number);
}

pub(crate) fn cause_fault() {
    // SAFETY: *instructions*: nothing is read, because the exception ends the run.
    unsafe { asm!("ld {0}, 0({0})", inout(reg) !7_u64 => _, options(nostack, readonly)) };
}

//! QEMU's `virt` machine with 64-bit ARM CPUs: generic timer, GICv3, PSCI, PL011, semihosting.
//!
//! The device of a CPU is the comparator of its virtual timer. The device is coupled: it compares with the counter that
//! drives the time. A comparator value in the past fires at once, and a value of all ones never fires. The interrupt
//! line is level-triggered, so a write that moves the comparator later withdraws an interrupt that was due while
//! interrupts were masked.
//!
//! # Safety
//!
//! *Registers*: the addresses belong to the machine's devices and to no memory of a program, and a register of the
//! interrupt controller or of the serial line accepts any value. *Instructions*: each instruction accesses the system
//! register that it names, and no memory. The page tables map each address to itself, so a CPU that turns on
//! translation continues at the same address.

use core::arch::{asm, global_asm};
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicUsize, Ordering};

use tickless_core::time::convert::Kilohertz;

use super::interface::{Begins, Frame, Wait, beginning, load, store};
use super::pages::{self, Purpose};

global_asm!(include_str!("boot.s"));
global_asm!(include_str!("user.s"));

pub(crate) const NAME: &str = "aarch64 virt";
/// The nanoseconds from the instant at which the device fires to the reading of the counter at the entry of the
/// interrupt, where an instruction takes a nanosecond.
pub(crate) const ENTRY_LATENESS: RangeInclusive<u64> = 16..=16;
/// The nanoseconds by which two of these times differ at most.
pub(crate) const ENTRY_SPREAD: u64 = 0;
/// Frequency of the counter, and of the device.
pub(super) const KILOHERTZ: Kilohertz = Kilohertz(62_500);

/// The counts by which the shared counter is ahead of the CPU's own, so that a value of one counter is never mistaken
/// for a value of the other.
const SHARED_AHEAD: u64 = 0x4000_0000;

pub(crate) const FRAME: Frame = Frame {
    words: 12,
    first: 0,
    second: 1,
    goes_on: 11,
};

const SERIAL: usize = 0x0900_0000;
const DISTRIBUTOR: usize = 0x0800_0000;
const REDISTRIBUTORS: usize = 0x080A_0000;
/// The first CPU whose redistributor lies in the second range of addresses.
const FIRST_FAR: usize = 123;
const REDISTRIBUTORS_FAR: usize = 0x40_0000_0000;
const REDISTRIBUTOR_SIZE: usize = 0x2_0000;

/// The interrupt that CPUs send to each other.
pub(crate) const IPI: u32 = 0;
/// The interrupt of the virtual timer.
pub(crate) const TIMER: u32 = 27;
/// The interrupt of the physical timer, which is the watchdog.
pub(crate) const WATCHDOG: u32 = 30;
/// The answer of the interrupt controller when no interrupt is pending.
pub(crate) const NONE: u32 = 1020;

/// The address of the first table of pages.
static ROOT: AtomicUsize = AtomicUsize::new(0);

macro_rules! read_register {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: *instructions*.
        unsafe { asm!(concat!("mrs {}, ", $name), out(reg) value, options(nostack)) };
        value
    }};
}

macro_rules! write_register {
    ($name:literal, $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: *instructions*.
        unsafe { asm!(concat!("msr ", $name, ", {}"), in(reg) value, options(nostack)) };
    }};
}

fn barrier() {
    // SAFETY: *instructions*.
    unsafe { asm!("isb", options(nostack)) };
}

#[inline]
pub(crate) fn cpu() -> usize {
    let value: usize;
    // SAFETY: *instructions*. The register is written once, before any Rust code runs on the CPU.
    unsafe { asm!("mrs {}, tpidr_el1", out(reg) value, options(nomem, nostack, pure)) };
    value
}

#[inline]
pub(crate) fn counter() -> u64 {
    // Not before what stands in front of it.
    barrier();
    read_register!("cntvct_el0")
}

/// Returns the counter that stands for a shared, slow one: the lower half of the physical counter, moved ahead.
pub(crate) fn shared_counter() -> u64 {
    barrier();
    read_register!("cntpct_el0").wrapping_add(SHARED_AHEAD) & u64::from(u32::MAX)
}

/// Returns the frequency of the shared counter.
pub(crate) const fn shared_kilohertz() -> Kilohertz {
    KILOHERTZ
}

#[inline]
pub(crate) fn mask() -> u64 {
    let before = read_register!("daif");
    // SAFETY: *instructions*. Not `nomem`: what follows must not be moved in front of it.
    unsafe { asm!("msr daifset, #2", options(nostack)) };
    before
}

pub(crate) fn is_masked() -> bool {
    read_register!("daif") & 0x80 != 0
}

#[inline]
pub(crate) fn restore(before: u64) {
    write_register!("daif", before);
}

#[inline]
pub(crate) fn unmask() {
    // SAFETY: *instructions*.
    unsafe { asm!("msr daifclr, #2", options(nostack)) };
}

/// Sleeps until an interrupt is pending, takes the interrupt, and returns with interrupts masked. Called with
/// interrupts masked: an interrupt that came before the sleep ends the sleep, so no wake-up is lost.
///
/// The counter is read first, for an emulator that counts instructions (docs/kernel.md, "Exact time").
pub(crate) fn wait() {
    // SAFETY: *instructions*.
    unsafe {
        asm!(
            "dsb sy",
            "mrs {}, cntvct_el0",
            "wfi",
            "msr daifclr, #2",
            "isb",
            "msr daifset, #2",
            out(reg) _,
            options(nostack)
        )
    };
}

pub(crate) const PAUSE_YIELDS: bool = true;

pub(crate) fn sleep_masked() {
    relax();
}

/// Passes some time on a CPU that polls. `yield` lets the emulator run other CPUs; `isb` would not.
#[inline]
pub(crate) fn relax() {
    // SAFETY: *instructions*.
    unsafe { asm!("yield", options(nostack)) };
}

pub(crate) fn write_coupled(cycles: u64) {
    write_register!("cntv_cval_el0", cycles);
    barrier();
}

pub(crate) fn interrupt_cpu(cpu: usize) {
    let (cluster, place) = (cpu / 16, cpu % 16);
    // What the other CPU is to find is in memory before it is interrupted.
    // SAFETY: *instructions*.
    unsafe { asm!("dsb sy", options(nostack)) };
    let value = (cluster as u64) << 16 | 1 << place | u64::from(IPI) << 24;
    write_register!("s3_0_c12_c11_5", value);
    barrier();
}

/// Returns an entry of the page tables, without its lowest two bits. The kernel can never execute a page that user mode
/// may write, whatever the entry says.
fn entry(address: usize, purpose: Purpose) -> u64 {
    const ACCESSED: u64 = 1 << 10;
    const NOT_BY_KERNEL: u64 = 1 << 53;
    const NOT_BY_USER: u64 = 1 << 54;
    /// Memory, whose kind is the second of `MAIR_EL1`, shared by all CPUs.
    const MEMORY: u64 = 1 << 2 | 0b11 << 8;
    let is = match purpose {
        Purpose::Device => NOT_BY_KERNEL | NOT_BY_USER,
        Purpose::Kernel => MEMORY | NOT_BY_USER,
        Purpose::Code => MEMORY | NOT_BY_KERNEL | 0b11 << 6,
        Purpose::Stack => MEMORY | NOT_BY_KERNEL | NOT_BY_USER | 0b01 << 6,
    };
    address as u64 | ACCESSED | is
}

/// Turns on the translation of addresses on the executing CPU: each address is mapped to itself, with the access rights
/// of user mode.
fn translate() {
    // Devices, and memory that is cached.
    write_register!("mair_el1", 0xff00);
    // 39 bits of address, of which the first table takes nine, pages of 4 KiB, tables in cached and shared memory; no
    // addresses at the upper end; 40 bits of physical address.
    let control = 25 | 0b01 << 8 | 0b01 << 10 | 0b11 << 12 | 1 << 23 | 0b010 << 32;
    write_register!("tcr_el1", control);
    // Relaxed: written before any other CPU runs.
    write_register!("ttbr0_el1", ROOT.load(Ordering::Relaxed) as u64);
    // SAFETY: *instructions*. The tables are in memory before they are used.
    unsafe {
        asm!(
            "dsb sy",
            "isb",
            "tlbi vmalle1",
            "dsb sy",
            "isb",
            options(nostack)
        )
    };
    // With caches.
    let system = read_register!("sctlr_el1") | 1 | 1 << 2 | 1 << 12;
    write_register!("sctlr_el1", system);
    barrier();
}

/// Brings up the shared part of the interrupt controller, and the page tables.
pub(crate) fn init_machine() {
    let block = |address, purpose| entry(address, purpose) | 0b01;
    let page = |address, purpose| entry(address, purpose) | 0b11;
    let root = pages::write_all(512, block, page, |table| table as u64 | 0b11);
    // Relaxed: no other CPU runs.
    ROOT.store(root, Ordering::Relaxed);
    // Both groups, affinity routing.
    store(DISTRIBUTOR, 0x33);
}

pub(crate) fn init_cpu() {
    translate();
    let redistributor = match cpu() {
        near if near < FIRST_FAR => REDISTRIBUTORS + near * REDISTRIBUTOR_SIZE,
        far => REDISTRIBUTORS_FAR + (far - FIRST_FAR) * REDISTRIBUTOR_SIZE,
    };
    let waker = redistributor + 0x14;
    store(waker, load(waker) & !2);
    while load(waker) & 4 != 0 {
        relax();
    }
    let private = redistributor + 0x1_0000;
    // All in group 1, one priority, and three of them enabled.
    store(private + 0x80, u32::MAX);
    for word in 0..8 {
        store(private + 0x400 + 4 * word, 0xa0a0_a0a0);
    }
    // The watchdog comes before a device that fires without end.
    let urgent = private + 0x400 + (WATCHDOG as usize & !3);
    store(urgent, load(urgent) & !(0xff << (WATCHDOG % 4 * 8)));
    store(private + 0x100, 1 << IPI | 1 << TIMER | 1 << WATCHDOG);
    write_register!("s3_0_c12_c12_5", 1); // ICC_SRE_EL1
    barrier();
    write_register!("s3_0_c4_c6_0", 0xff); // ICC_PMR_EL1
    write_register!("s3_0_c12_c12_7", 1); // ICC_IGRPEN1_EL1
    // Never: the device is stopped.
    write_coupled(u64::MAX);
    write_register!("cntv_ctl_el0", 1);
    barrier();
}

/// Has the watchdog interrupt the first CPU when the counter reaches `cycles`. The watchdog is the physical timer, which the library does not use.
pub(crate) fn set_watchdog(cycles: u64) {
    write_register!("cntp_cval_el0", cycles);
    write_register!("cntp_ctl_el0", 1);
    barrier();
}

/// Returns the cycles of the counter until the lower half of the watchdog's counter is zero.
pub(crate) fn until_watchdog_wraps() -> u64 {
    barrier();
    (1 << 32) - (read_register!("cntpct_el0") & u64::from(u32::MAX))
}

/// Starts `cpu` on the stack that ends at `stack_top`.
///
/// # Errors
///
/// The answer of PSCI.
pub(crate) fn start_cpu(
    cpu: usize,
    stack_top: usize,
    begins: Begins,
    _wait: Wait,
) -> Result<(), i64> {
    let (entry, start) = beginning(cpu, stack_top, begins);
    let affinity = ((cpu / 16) << 8) | (cpu % 16);
    let answer: i64;
    // SAFETY: PSCI starts the CPU at `entry`, on a stack that no other one uses; the call itself changes registers
    // alone.
    unsafe {
        asm!(
            "dsb sy",
            "hvc #0",
            inout("x0") 0xC400_0003_u64 => answer,
            in("x1") affinity,
            in("x2") entry,
            in("x3") start,
            clobber_abi("C"),
            options(nostack),
        );
    }
    if answer == 0 { Ok(()) } else { Err(answer) }
}

pub(crate) fn put(byte: u8) {
    store(SERIAL, u32::from(byte));
}

/// Ends the machine with `code`.
pub(crate) fn exit(code: u32) -> ! {
    let block: [u64; 2] = [0x2_0026, u64::from(code)];
    loop {
        // SAFETY: the emulator reads the block, and the machine ends.
        unsafe {
            asm!("hlt #0xf000", in("x0") 0x20, in("x1") block.as_ptr(), options(nostack));
        }
    }
}

/// Returns the counter, and the interrupt that the interrupt controller hands over.
#[inline]
pub(crate) fn take_interrupt() -> (u64, u64) {
    let entered = read_register!("cntvct_el0");
    (entered, read_register!("s3_0_c12_c12_0")) // ICC_IAR1_EL1
}

/// Signals the end of the interrupt that [`take_interrupt`] returned.
#[inline]
pub(crate) fn end_interrupt(which: u64) {
    write_register!("s3_0_c12_c12_1", which); // ICC_EOIR1_EL1
}

/// Switches the watchdog off.
pub(crate) fn stop_watchdog() {
    write_register!("cntp_ctl_el0", 0);
}

pub(crate) fn cause_fault() {
    // SAFETY: *instructions*: nothing is read, because the exception ends the run.
    unsafe { asm!("ldr {0}, [{0}]", inout(reg) !7_u64 => _, options(nostack, readonly)) };
}

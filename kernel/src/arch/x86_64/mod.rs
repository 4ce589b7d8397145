//! A PC with 64-bit processors: local APIC, HPET, I/O APIC, found by ACPI; entered by PVH.
//!
//! The device of a CPU is the timer of its local APIC. Where the processor announces the deadline mode, and is not
//! known to lose deadlines, the kernel programs the timer with a TSC value, and the device is coupled. Otherwise the
//! timer counts down. An interrupt that became due while interrupts were masked then still comes, even if the countdown
//! was ended meanwhile: such an interrupt is spurious.
//!
//! The watchdog is a comparator of the HPET, which interrupts the first CPU by an NMI, masked or not.
//!
//! # Safety
//!
//! *Registers*: the addresses belong to the machine's devices and to no memory of a program, and a register of the
//! interrupt controllers, the HPET or the serial line accepts any value. *Instructions*: each instruction accesses the
//! register that it names, and no memory. *Boot pages*: the first instructions write the page tables. The first CPU
//! writes them once more before it starts another CPU. Each address is mapped to itself all the time. *Low page*: the
//! page at 0x8000 holds nothing but the first instructions of a CPU that is started.

use core::arch::x86_64::{__cpuid, __cpuid_count, _rdtsc};
use core::arch::{asm, global_asm};
use core::fmt;
use core::hint::black_box;
use core::ops::RangeInclusive;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use tickless_core::time::convert::Kilohertz;
use tickless_kernel_pc::acpi::{self, Tables};
use tickless_kernel_pc::deadline::Processor;

use super::interface::{Begins, CPUS_MAX, Device, Frame, Wait};
use super::pages::{self, Purpose};

mod apic;
mod hpet;
mod instructions;
pub(crate) mod machine_check;
mod segments;

pub(crate) use apic::end as end_interrupt;
pub(crate) use instructions::{is_masked, mask, relax, restore, unmask};
pub(crate) use segments::Own;

use apic::Command;
use instructions::{read_msr, write_msr, write_port};
use segments::{GS_BASE, entry_machine_check, entry_nmi};

global_asm!(include_str!("boot.s"), options(att_syntax));
global_asm!(include_str!("user.s"), options(att_syntax));

/// The name of the machine in reports.
pub(crate) const NAME: &str = "x86_64 pc";
/// The nanoseconds from the instant at which the device fires to the reading of the counter at the entry of the
/// interrupt, where an instruction takes a nanosecond. A countdown begins after the reading of the clock, and counts in
/// steps of 16 ns.
pub(crate) const ENTRY_LATENESS: RangeInclusive<u64> = 1..=200;
/// The nanoseconds by which two of these times differ at most: less than a count, and the two instructions of a sleep
/// that follow its reading of the counter.
pub(crate) const ENTRY_SPREAD: u64 = 15 + 2;

/// The layout of the stack of a switched-out thread.
pub(crate) const FRAME: Frame = Frame {
    words: 7,
    first: 4,
    second: 3,
    goes_on: 6,
};

const TSC_ADJUST: u32 = 0x3b;
const SERIAL: u16 = 0x3f8;
/// The port whose values end the emulator.
const POWER: u16 = 0xf4;
/// The address of the first instructions that another CPU executes.
const LOW_PAGE: usize = 0x8000;
/// The fraction of a second for which the counters are compared: a fiftieth.
const COMPARED: u64 = 50;
/// The older interrupt of the second comparator.
const WATCHDOG_INTERRUPT: u8 = 8;
/// The older interrupt of the first comparator.
const BROADCAST_INTERRUPT: u8 = 0;
/// The TSC cycles of a tick of the deadline timer, when it is programmed with a delay.
const DIVISION: u64 = 8;

/// Frequencies in kilohertz, of the TSC and of the countdown's bus. Written before any other CPU runs.
static KILOHERTZ: AtomicU32 = AtomicU32::new(0);
static BUS_KILOHERTZ: AtomicU32 = AtomicU32::new(0);
/// Ticks of the HPET in a second.
static SHARED_HERTZ: AtomicU64 = AtomicU64::new(0);
static IS_DEADLINE: AtomicBool = AtomicBool::new(false);
/// The count at which the run ends.
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);
/// True if the CPU that was started runs, on its own stack.
static IS_STARTED: AtomicBool = AtomicBool::new(false);

/// The stack of the CPU that is started, with the data that belongs to this CPU.
#[unsafe(no_mangle)]
static secondary_stack: AtomicUsize = AtomicUsize::new(0);
#[unsafe(no_mangle)]
static secondary_local: AtomicPtr<Own> = AtomicPtr::new(ptr::null_mut());

unsafe extern "C" {
    static trampoline: u8;
    static trampoline_end: u8;
    static mute: u8;
    static mute_end: u8;
    static mut boot_pages: u8;
    fn sleep_once();
    fn interrupt_sleep_at(entry: unsafe extern "C" fn(), own: u64);
}

/// Returns the number of the CPU that executes.
#[inline]
pub(crate) fn cpu() -> usize {
    let value: usize;
    // SAFETY: *instructions*. What it reads is written before any other Rust code runs on the CPU.
    unsafe { asm!("mov {}, gs:[0]", out(reg) value, options(nostack, pure, readonly)) };
    value
}

/// Returns the counter, which is the same on all CPUs and has 64 bits.
#[inline]
pub(crate) fn counter() -> u64 {
    // Not before what stands in front of it.
    // SAFETY: *instructions*.
    unsafe { asm!("lfence", options(nostack)) };
    unfenced_counter()
}

/// Returns the counter; the processor may read it earlier or later than program order says.
#[inline]
fn unfenced_counter() -> u64 {
    // SAFETY: *instructions*.
    unsafe { _rdtsc() }
}

/// Returns the frequency of the counter.
#[inline]
pub(crate) fn kilohertz() -> Kilohertz {
    // Relaxed: written before any other CPU runs.
    Kilohertz(KILOHERTZ.load(Ordering::Relaxed))
}

/// Returns the register by which software moves the TSC of the executing CPU; `None` if the processor has none.
pub(crate) fn adjustment() -> Option<u64> {
    let has_it = __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ebx & 1 << 1 != 0;
    has_it.then(|| read_msr(TSC_ADJUST))
}

/// Writes the register that [`adjustment`] returned.
pub(crate) fn adjust(value: u64) {
    write_msr(TSC_ADJUST, value);
}

/// Returns true if the device compares with the counter that drives the time.
pub(crate) fn is_coupled() -> bool {
    // Relaxed: as above.
    IS_DEADLINE.load(Ordering::Relaxed)
}

/// Returns true if a write that moves the device later withdraws an interrupt that was due while interrupts were
/// masked.
pub(crate) fn takes_back() -> bool {
    false
}

/// Returns the resolution and range of the device for deadlines (`is_told_when`) or for delays.
pub(crate) fn device(is_told_when: bool) -> Device {
    let hertz = kilohertz().0.saturating_mul(1_000);
    if is_told_when {
        return Device {
            hertz,
            min: 0xf,
            max: u64::MAX,
        };
    }
    let (hertz, max) = if is_coupled() {
        (hertz / DIVISION as u32, u64::from(u32::MAX))
    } else {
        // Relaxed: as above.
        let bus = BUS_KILOHERTZ.load(Ordering::Relaxed).saturating_mul(1_000);
        (bus / apic::DIVISION as u32, 0x7fff_ffff)
    };
    Device { hertz, min: 1, max }
}

/// Returns the counter that all CPUs share: the lower half of the HPET's counter, which one access reads.
pub(crate) fn shared_counter() -> u64 {
    u64::from(hpet::lower())
}

/// Returns the frequency of the shared counter, rounded down.
pub(crate) fn shared_kilohertz() -> Kilohertz {
    // Relaxed: written before any other CPU runs.
    let hertz = SHARED_HERTZ.load(Ordering::Relaxed);
    Kilohertz(u32::try_from(hertz / 1_000).unwrap_or(u32::MAX))
}

/// Sleeps until an interrupt is pending, takes the interrupt, and returns with interrupts masked. Called with
/// interrupts masked: the processor unmasks them only after the first instruction of the sleep, so no wake-up is lost.
/// An interrupt that no mask holds back and that comes before this instruction lets the CPU pass the sleep.
///
/// The counter is read first, for an emulator that counts instructions (docs/kernel.md, "Exact time").
pub(crate) fn wait() {
    // SAFETY: *instructions*.
    unsafe { sleep_once() };
}

/// Executes the handler of an NMI, or of a machine check of this kind, as if it came when [`wait`] is about to sleep.
/// Called with interrupts masked, so that a CPU that slept then would not wake up.
pub(crate) fn interrupt_sleep(check: Option<machine_check::Raised>) {
    let entry = match check {
        Some(kind) => {
            machine_check::record(kind);
            entry_machine_check
        }
        None => entry_nmi,
    };
    // SAFETY: *instructions*. The stack has what the processor would push, and the handler leaves the registers of this
    // function as they were.
    unsafe { interrupt_sleep_at(entry, read_msr(GS_BASE)) };
}

/// True if [`relax`] lets an emulator that executes one CPU at a time switch to another CPU.
pub(crate) const PAUSE_YIELDS: bool = true;

/// Passes some time on a CPU with masked interrupts.
pub(crate) fn sleep_masked() {
    relax();
}

/// Makes the device of the executing CPU fire when the counter reaches `cycles`.
pub(crate) fn write_coupled(cycles: u64) {
    // 0 would stop it.
    apic::set_deadline(cycles.max(1));
}

/// Makes the device of the executing CPU fire after `ticks` ticks.
pub(crate) fn write_relative(ticks: u64) {
    if is_coupled() {
        // No fence: a deadline some counts off is of no matter to who counts in eights.
        let ahead = ticks.saturating_mul(DIVISION);
        apic::set_deadline(unfenced_counter().saturating_add(ahead));
    } else {
        apic::count_down(u32::try_from(ticks).unwrap_or(u32::MAX).max(1));
    }
}

/// Stops the device of the executing CPU.
pub(crate) fn stop_device() {
    if is_coupled() {
        apic::set_deadline(0);
    } else {
        apic::count_down(0);
    }
}

pub(crate) fn interrupt_cpu(cpu: usize) {
    if let Some(id) = apic::id_of(cpu) {
        apic::send(id, Command::Interrupt(segments::CALL));
    }
}

/// Sends an interrupt to `cpu`, on top of any other code of the executing CPU, which may be sending one.
pub(crate) fn interrupt_cpu_on_top(cpu: usize) {
    if let Some(id) = apic::id_of(cpu) {
        apic::send_on_top(id, Command::Interrupt(segments::CALL));
    }
}

/// Sends an interrupt to `cpu` that no mask holds back.
pub(crate) fn interrupt_masked(cpu: usize) {
    if let Some(id) = apic::id_of(cpu) {
        apic::send(id, Command::Nmi);
    }
}

/// Lets user mode execute its pages. The rest of the machine was brought up when its processors and timers were found.
pub(crate) fn init_machine() {
    const PRESENT: u64 = 1;
    const WRITE: u64 = 1 << 1;
    const USER: u64 = 1 << 2;
    let leaves = pages::write_leaves(|address, purpose| {
        let may = match purpose {
            Purpose::Kernel => WRITE,
            Purpose::Code => USER,
            Purpose::Stack => USER | WRITE,
        };
        address as u64 | PRESENT | may
    });
    let user = pages::user_start();
    // The way there: the first entry of all, that of the gigabyte, and that of the two megabytes.
    let way = [(0, 0), (1, user >> 30), (2, user >> 21)];
    let [root, gigabyte, huge] = way.map(|(table, entry)| {
        let first = ptr::addr_of_mut!(boot_pages).cast::<u64>();
        // SAFETY: *boot pages*: the tables have room for 4 GiB.
        unsafe { first.add(512 * table + entry) }
    });
    for entry in [root, gigabyte] {
        // SAFETY: *boot pages*.
        let is = unsafe { entry.read_volatile() };
        // SAFETY: *boot pages*.
        unsafe { entry.write_volatile(is | USER) };
    }
    let leaves = leaves.address() as u64 | PRESENT | WRITE | USER;
    // SAFETY: *boot pages*: the new pages are where the one was.
    unsafe { huge.write_volatile(leaves) };
    // What was translated before is forgotten.
    // SAFETY: *instructions*.
    unsafe { asm!("mov {0}, cr3", "mov cr3, {0}", out(reg) _, options(nostack)) };
}

/// Brings up the parts that belong to the executing CPU. Interrupts stay masked.
pub(crate) fn init_cpu() {
    machine_check::init();
    apic::init(segments::TIMER, is_coupled(), segments::STRAY);
    stop_device();
}

/// Has the watchdog interrupt the first CPU when the counter reaches `cycles`. The watchdog is a comparator of the HPET, which the library does not use.
pub(crate) fn set_watchdog(cycles: u64) {
    // Relaxed: the CPU that the watchdog interrupts is this one. Without a limit it leaves the comparator alone.
    LIMIT.store(u64::MAX, Ordering::Relaxed);
    compare_watchdog(cycles);
    LIMIT.store(cycles, Ordering::Relaxed);
}

/// Makes the watchdog check in `cycles` whether the limit is reached. Its NMI does not end the run before the limit.
pub(crate) fn watch_early(cycles: u64) {
    compare_watchdog(counter().saturating_add(cycles));
}

/// Returns the cycles of the counter until the lower half of the watchdog's counter is zero, rounded down.
pub(crate) fn until_watchdog_wraps() -> u64 {
    let ticks = (1 << 32) - u128::from(hpet::lower());
    // Relaxed: written before any other CPU runs.
    let hertz = u128::from(SHARED_HERTZ.load(Ordering::Relaxed));
    let cycles = ticks * u128::from(kilohertz().0) * 1_000 / hertz;
    u64::try_from(cycles).unwrap_or(u64::MAX)
}

/// Sets whether a write of a comparator takes as long as that of a real device does, a microsecond or more.
pub(crate) fn set_slow_comparators(is_slow: bool) {
    hpet::set_slow(is_slow);
}

/// Has the comparator for deep idle interrupt the first CPU in `nanos`, rounded up, or not at all.
pub(crate) fn set_broadcast(nanos: Option<u64>) {
    let Some(nanos) = nanos else {
        hpet::stop(hpet::BROADCAST);
        return;
    };
    // Relaxed: written before any other CPU runs.
    let hertz = u128::from(SHARED_HERTZ.load(Ordering::Relaxed));
    let ticks = (u128::from(nanos) * hertz).div_ceil(1_000_000_000);
    let mut ahead = u64::try_from(ticks).unwrap_or(u64::MAX);
    loop {
        let when = hpet::counter().saturating_add(ahead + 1);
        hpet::compare(hpet::BROADCAST, when);
        // A real comparator looks for equality: one that was passed while it was written would fire a round later.
        if hpet::counter() < when {
            return;
        }
        ahead = ahead.saturating_mul(2).max(16);
    }
}

fn compare_watchdog(cycles: u64) {
    let ahead = u128::from(cycles.saturating_sub(counter()));
    // Relaxed: written before any other CPU runs.
    let ticks = ahead * u128::from(SHARED_HERTZ.load(Ordering::Relaxed))
        / (u128::from(kilohertz().0) * 1_000);
    let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
    hpet::compare(hpet::WATCHDOG, hpet::counter().saturating_add(ticks + 1));
}

/// Starts `cpu` on the stack that ends at `stack_top`. The next CPU is started after this one is online.
///
/// # Errors
///
/// 1 if the machine has no such CPU.
pub(crate) fn start_cpu(
    cpu: usize,
    stack_top: usize,
    begins: Begins,
    wait: Wait,
) -> Result<(), i64> {
    let id = apic::id_of(cpu).ok_or(1)?;
    let own: *mut Own = Own::leak(cpu);
    // Relaxed: the new CPU reads them behind what it is sent; the one before it has read its own.
    secondary_stack.store(stack_top, Ordering::Relaxed);
    secondary_local.store(own, Ordering::Relaxed);
    let (code, end) = match begins {
        Begins::Kernel => (ptr::addr_of!(trampoline), ptr::addr_of!(trampoline_end)),
        Begins::Mute => (ptr::addr_of!(mute), ptr::addr_of!(mute_end)),
    };
    let length = end.addr() - code.addr();
    // SAFETY: *low page*.
    unsafe { ptr::copy_nonoverlapping(code, LOW_PAGE as *mut u8, length) };
    // Relaxed: what the new CPU stores comes behind what it is sent.
    IS_STARTED.store(false, Ordering::Relaxed);
    apic::send(id, Command::Init);
    wait(200, &|| false);
    let start = Command::Start((LOW_PAGE / 4096) as u8);
    apic::send(id, start);
    // Acquire: pairs with the store of the new CPU.
    let is_started = || IS_STARTED.load(Ordering::Acquire);
    wait(200, &is_started);
    // The first one may be lost, says the maker.
    if !is_started() {
        apic::send(id, start);
    }
    Ok(())
}

/// Writes a byte to the serial line.
pub(crate) fn put(byte: u8) {
    let is_full = || {
        let status: u8;
        // SAFETY: *registers*.
        unsafe { asm!("in al, dx", in("dx") SERIAL + 5, out("al") status, options(nostack)) };
        status & 0x20 == 0
    };
    while is_full() {
        relax();
    }
    write_port(SERIAL, byte);
}

/// Ends the machine with `code`, which is odd.
pub(crate) fn exit(code: u32) -> ! {
    loop {
        // SAFETY: the emulator ends.
        unsafe { asm!("out dx, eax", in("dx") POWER, in("eax") code / 2, options(nostack)) };
    }
}

/// Memory, at the addresses that the first table of pages maps.
struct Mapped;

impl acpi::Memory for Mapped {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let Some(end) = address.checked_add(into.len() as u64) else {
            return false;
        };
        if address == 0 || end > 1 << 32 {
            return false;
        }
        for (place, byte) in (address..).zip(into) {
            // SAFETY: *registers*: all below 4 GiB is mapped, and reading it changes nothing that the kernel uses.
            *byte = unsafe { (place as *const u8).read_volatile() };
        }
        true
    }
}

/// The reason why the kernel cannot use a machine.
#[derive(Debug)]
pub(crate) enum Unusable {
    Tables(acpi::Broken),
    NoHpet,
    /// The femtoseconds of a tick of the HPET.
    Period(u32),
    Unrouted,
}

impl fmt::Display for Unusable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tables(broken) => broken.fmt(formatter),
            Self::NoHpet => formatter.write_str("it has no HPET"),
            Self::Period(period) => write!(formatter, "a tick of its HPET takes {period} fs"),
            Self::Unrouted => formatter.write_str("its HPET reaches no interrupt controller"),
        }
    }
}

/// Finds the machine's processors and timers.
fn discover(start_info: usize) -> Result<(), Unusable> {
    // The older interrupt controllers stay silent.
    for port in [0x21, 0xa1] {
        write_port(port, 0xff);
    }
    let said = (start_info + 32) as *const u64;
    // SAFETY: the loader enters with the address of its record, whose fifth field is the root pointer.
    let said = unsafe { said.read_volatile() };
    let root = if said == 0 {
        acpi::find(&Mapped)
    } else {
        Some(said)
    };
    let root = root.ok_or(acpi::Broken::NoRoot);
    let tables = root.and_then(|root| acpi::walk(&Mapped, root));
    let tables = tables.map_err(Unusable::Tables)?;
    let place = tables.hpet.ok_or(Unusable::NoHpet)?;
    let basic = __cpuid(1);
    apic::choose(tables.registers, basic.ecx & 1 << 21 != 0);
    apic::init(segments::TIMER, false, segments::STRAY);
    let boot = apic::id();
    name_all(&tables, boot);
    let shared = hpet::init(place).map_err(Unusable::Period)?;
    let is_virtual = basic.ecx & 1 << 31 != 0;
    let (tsc, bus) = measure(shared);
    // Relaxed: no other CPU runs.
    SHARED_HERTZ.store(shared, Ordering::Relaxed);
    KILOHERTZ.store(said_kilohertz(is_virtual).unwrap_or(tsc), Ordering::Relaxed);
    BUS_KILOHERTZ.store(bus, Ordering::Relaxed);
    let is_announced = basic.ecx & 1 << 24 != 0;
    // A hypervisor plays the timer itself.
    let is_kept = is_virtual || processor(basic.eax).keeps_deadlines();
    IS_DEADLINE.store(is_announced && is_kept, Ordering::Relaxed);
    if let Some((controller, input)) = tables.input_of(BROADCAST_INTERRUPT) {
        let command = Command::Interrupt(segments::BROADCAST);
        apic::route(controller, input, boot, command);
    }
    let watchdog = tables.input_of(WATCHDOG_INTERRUPT);
    let (controller, input) = watchdog.ok_or(Unusable::Unrouted)?;
    apic::route(controller, input, boot, Command::Nmi);
    Ok(())
}

/// Returns the identification of the executing processor, whose leaf 1 begins with `signature`.
fn processor(signature: u32) -> Processor {
    const MICROCODE: u32 = 0x8b;
    let maker = __cpuid(0);
    let mut name = [0; 12];
    for (place, word) in name
        .chunks_exact_mut(4)
        .zip([maker.ebx, maker.edx, maker.ecx])
    {
        place.copy_from_slice(&word.to_le_bytes());
    }
    // The processor writes the revision when leaf 1 is read, over a zero.
    write_msr(MICROCODE, 0);
    let _leaf = __cpuid(1);
    Processor {
        maker: name,
        signature,
        microcode: (read_msr(MICROCODE) >> 32) as u32,
    }
}

/// Numbers the CPUs: the one that executes is the first.
fn name_all(tables: &Tables, boot: u32) {
    apic::name(0, boot);
    let others = tables.processors.iter().filter(|&&id| id != boot);
    for (cpu, &id) in (1..CPUS_MAX).zip(others) {
        apic::name(cpu, id);
    }
}

/// Returns the frequency of the TSC, if a hypervisor reports it.
fn said_kilohertz(is_virtual: bool) -> Option<u32> {
    const FIRST: u32 = 0x4000_0000;
    const TIMING: u32 = FIRST + 0x10;
    let is_said = is_virtual && (TIMING..FIRST + 0x1000).contains(&__cpuid(FIRST).eax);
    let kilohertz = is_said.then(|| __cpuid_count(TIMING, 0).eax)?;
    (kilohertz != 0).then_some(kilohertz)
}

/// Compares the TSC and the countdown with the HPET; returns the frequencies of both, in kilohertz.
fn measure(shared: u64) -> (u32, u32) {
    apic::count_down(u32::MAX);
    let begin = edge();
    // Nothing else runs yet, and an emulator that counts instructions takes long for each reading and each pause.
    while hpet::counter() - begin.0 < shared / COMPARED {
        for round in 0..1_000 {
            black_box(round);
        }
    }
    let end = edge();
    apic::count_down(0);
    let passed = u128::from(end.0 - begin.0);
    let kilohertz = |counts: u64| {
        let scaled = u128::from(counts) * u128::from(shared) / passed;
        u32::try_from((scaled + 500) / 1_000).unwrap_or(u32::MAX)
    };
    let bus = u64::from(begin.2 - end.2) * apic::DIVISION;
    (kilohertz(end.1 - begin.1), kilohertz(bus))
}

/// Returns the HPET, the TSC and the rest of the countdown, read right after a tick of the HPET. The closest of several
/// readings is taken, because a host may execute other programs in between.
fn edge() -> (u64, u64, u32) {
    let mut best = (u64::MAX, (0, 0, 0));
    for _ in 0..8 {
        let before = hpet::counter();
        let mut began = counter();
        let mut now = hpet::counter();
        while now == before {
            began = counter();
            now = hpet::counter();
        }
        let reading = (now, counter(), apic::left());
        let took = counter() - began;
        if took < best.0 {
            best = (took, reading);
        }
    }
    best.1
}

/// Brings up what a CPU needs before it enters the kernel. `own` is null on the first CPU, which finds the machine.
///
/// # Errors
///
/// The reason why the kernel cannot use the machine.
pub(crate) fn begin(own: *mut Own, start_info: usize) -> Result<(), Unusable> {
    let is_first = own.is_null();
    let own = if is_first {
        ptr::from_mut(Own::leak(0))
    } else {
        own
    };
    segments::find_own(own);
    if is_first {
        segments::write_table();
    }
    // SAFETY: it was made for this CPU.
    unsafe { segments::load(own) };
    if is_first {
        discover(start_info)?;
    }
    // Release: pairs with the loads in `start_cpu`.
    IS_STARTED.store(true, Ordering::Release);
    Ok(())
}

/// Returns true if the limit of the watchdog is reached, in an NMI. Otherwise programs the comparator again, because
/// the one of an emulator may be early.
pub(crate) fn is_limit_over() -> bool {
    // Relaxed: see `set_watchdog`.
    let limit = LIMIT.load(Ordering::Relaxed);
    let is_over = counter() >= limit;
    if !is_over && limit != u64::MAX && cpu() == 0 {
        compare_watchdog(limit);
    }
    is_over
}

/// Reads memory that is not there.
pub(crate) fn cause_fault() {
    // SAFETY: *instructions*: nothing is read, because the exception ends the run.
    unsafe { asm!("mov {0}, [{0}]", inout(reg) 1_u64 << 46 => _, options(nostack, readonly)) };
}

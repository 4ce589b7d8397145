//! The local interrupt controller of each CPU, accessed by registers in memory (xAPIC) or in the processor (x2APIC),
//! and the shared controller, which routes the interrupts of devices.
//!
//! Both access modes have the same registers: in memory, register `n` is 16 bytes after register `n - 1`; in the
//! processor, it is number `0x800 + n`. The modes differ in the command by which CPUs interrupt each other: it is one
//! write in x2APIC mode, and two in xAPIC mode. No interrupt that writes the command register, too, may come between
//! these two writes.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use super::super::interface::CPUS_MAX;
use super::instructions::{fence, mask, read_msr, relax, restore, write_msr};
use crate::arch::interface::{load, store};

const BASE: u32 = 0x1b;
const ENABLED: u64 = 1 << 11;
const EXTENDED: u64 = 1 << 10;

const ID: usize = 0x02;
const END: usize = 0x0b;
const SPURIOUS: usize = 0x0f;
const COMMAND: usize = 0x30;
const COMMAND_HIGH: usize = 0x31;
const TIMER: usize = 0x32;
const PINS: [usize; 2] = [0x35, 0x36];
const INITIAL: usize = 0x38;
const CURRENT: usize = 0x39;
const DIVISOR: usize = 0x3e;

const MASKED: u32 = 1 << 16;
/// The timer compares with the TSC.
const DEADLINE: u32 = 2 << 17;
const DEADLINE_REGISTER: u32 = 0x6e0;
/// The divisor of the countdown: one count is so many ticks of the bus, so that 32 bits of counts last a minute, and
/// not four seconds.
pub(super) const DIVISION: u64 = 16;

/// The address of the registers in memory. Written before any other CPU runs.
static REGISTERS: AtomicUsize = AtomicUsize::new(0xfee0_0000);
static IS_EXTENDED: AtomicBool = AtomicBool::new(false);
/// The number by which the interrupt controller knows each CPU.
static IDS: [AtomicU32; CPUS_MAX] = [const { AtomicU32::new(u32::MAX) }; CPUS_MAX];

fn is_extended() -> bool {
    // Relaxed: written before any other CPU runs.
    IS_EXTENDED.load(Ordering::Relaxed)
}

fn register(number: usize) -> usize {
    // Relaxed: as above.
    REGISTERS.load(Ordering::Relaxed) + 16 * number
}

fn read(number: usize) -> u32 {
    if is_extended() {
        read_msr(0x800 + number as u32) as u32
    } else {
        load(register(number))
    }
}

fn write(number: usize, value: u32) {
    if is_extended() {
        // More than 32 bits are refused.
        write_msr(0x800 + number as u32, u64::from(value));
    } else {
        store(register(number), value);
    }
}

/// Sets where the registers are and in which way they are used.
pub(super) fn choose(registers: u64, extended: bool) {
    // Relaxed: no other CPU runs.
    REGISTERS.store(registers as usize, Ordering::Relaxed);
    IS_EXTENDED.store(extended, Ordering::Relaxed);
}

/// Turns on the controller of the executing CPU, and masks all of its interrupt sources except the timer.
pub(super) fn init(timer: u8, is_deadline: bool, stray: u8) {
    let base = read_msr(BASE) | ENABLED;
    write_msr(BASE, base);
    if is_extended() {
        write_msr(BASE, base | EXTENDED);
    }
    for pin in PINS {
        write(pin, MASKED);
    }
    write(SPURIOUS, 0x100 | u32::from(stray));
    // Divided by 16.
    write(DIVISOR, 0b0011);
    write(
        TIMER,
        u32::from(timer) | if is_deadline { DEADLINE } else { 0 },
    );
    // A write to memory is not in order with one to the register of the deadline.
    fence();
}

/// Signals the end of the interrupt in progress to the controller.
pub(crate) fn end() {
    write(END, 0);
}

/// Starts a countdown of `ticks`; 0 stops the countdown.
pub(super) fn count_down(ticks: u32) {
    write(INITIAL, ticks);
}

/// Returns the ticks that remain of the countdown.
pub(super) fn left() -> u32 {
    read(CURRENT)
}

/// Sets the timer to fire when the TSC is at `deadline`; 0 stops the timer.
pub(super) fn set_deadline(deadline: u64) {
    write_msr(DEADLINE_REGISTER, deadline);
}

/// Returns the number by which the interrupt controller knows the executing CPU.
pub(super) fn id() -> u32 {
    if is_extended() {
        read(ID)
    } else {
        read(ID) >> 24
    }
}

/// Returns the number by which the interrupt controller knows `cpu`; `None` if the machine has no such CPU.
pub(super) fn id_of(cpu: usize) -> Option<u32> {
    // Relaxed: as above.
    let id = IDS.get(cpu)?.load(Ordering::Relaxed);
    (id != u32::MAX).then_some(id)
}

/// Records the number by which the interrupt controller knows `cpu`.
pub(super) fn name(cpu: usize, id: u32) {
    // Relaxed: no other CPU runs.
    IDS[cpu].store(id, Ordering::Relaxed);
}

/// Commands to another CPU, or to the executing one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    Interrupt(u8),
    Nmi,
    Init,
    /// Starts the CPU in 16-bit mode at the beginning of this page.
    Start(u8),
}

/// Sends `command` to the CPU with the number `id`.
pub(super) fn send(id: u32, command: Command) {
    let low = match command {
        Command::Interrupt(vector) => u32::from(vector),
        Command::Nmi => 0x400,
        Command::Init => 0x500,
        Command::Start(page) => 0x600 | u32::from(page),
    } | 1 << 14;
    if is_extended() {
        // What the other CPU is to find is in memory before it is interrupted: a write to a register does not wait.
        fence();
        write_msr(0x800 + COMMAND as u32, u64::from(id) << 32 | u64::from(low));
        return;
    }
    let before = mask();
    while read(COMMAND) & 1 << 12 != 0 {
        relax();
    }
    write(COMMAND_HIGH, id << 24);
    write(COMMAND, low);
    restore(before);
}

/// Does as [`send`] on top of any other code, which finds the register for the addressee as it left it: an NMI may come
/// between the two writes of `send`.
pub(super) fn send_on_top(id: u32, command: Command) {
    if is_extended() {
        send(id, command);
        return;
    }
    let before = read(COMMAND_HIGH);
    send(id, command);
    write(COMMAND_HIGH, before);
}

/// Routes `pin` of the shared controller at `place`, so that it interrupts the CPU `id`. An NMI has no vector.
pub(super) fn route(place: u64, pin: u32, id: u32, command: Command) {
    let place = place as usize;
    let set = |register: u32, value: u32| {
        store(place, register);
        store(place + 0x10, value);
    };
    let low = match command {
        Command::Interrupt(vector) => u32::from(vector),
        _ => 0x400,
    };
    set(0x10 + 2 * pin, MASKED);
    set(0x11 + 2 * pin, id << 24);
    set(0x10 + 2 * pin, low);
}

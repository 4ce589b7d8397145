//! Instructions of a PC: registers of devices and of the processor, ports, and the mask of interrupts.
//!
//! # Safety
//!
//! *Registers* and *instructions*, of the [machine](super).

use core::arch::asm;

pub(super) fn read_msr(number: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: *instructions*.
    unsafe {
        asm!("rdmsr", in("ecx") number, out("eax") low, out("edx") high, options(nostack));
    }
    u64::from(high) << 32 | u64::from(low)
}

pub(super) fn write_msr(number: u32, value: u64) {
    let (low, high) = (value as u32, (value >> 32) as u32);
    // SAFETY: *instructions*.
    unsafe {
        asm!("wrmsr", in("ecx") number, in("eax") low, in("edx") high, options(nostack));
    }
}

pub(super) fn write_port(port: u16, value: u8) {
    // SAFETY: *registers*.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nostack)) };
}

/// Orders all earlier memory accesses before all later ones.
pub(super) fn fence() {
    // SAFETY: *instructions*.
    unsafe { asm!("mfence", "lfence", options(nostack)) };
}

/// Masks interrupts; returns the earlier mask, for [`restore`].
#[inline]
pub(crate) fn mask() -> u64 {
    let before: u64;
    // SAFETY: *instructions*. Not `nomem`: what follows must not be moved in front of it.
    unsafe { asm!("pushfq", "pop {}", "cli", out(reg) before) };
    before & 0x200
}

/// Returns true if interrupts are masked.
pub(crate) fn is_masked() -> bool {
    let flags: u64;
    // SAFETY: *instructions*.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags) };
    flags & 0x200 == 0
}

/// Restores the mask that a call of [`mask`] returned.
#[inline]
pub(crate) fn restore(before: u64) {
    if before != 0 {
        unmask();
    }
}

/// Unmasks interrupts.
#[inline]
pub(crate) fn unmask() {
    // SAFETY: *instructions*.
    unsafe { asm!("sti", options(nostack)) };
}

/// Passes some time on a CPU that polls.
#[inline]
pub(crate) fn relax() {
    core::hint::spin_loop();
}

//! The counter of the processor: the time-stamp counter of x86-64, and the virtual counter of AArch64.
//!
//! [`read`] is not ordered with neighbouring instructions: the processor may read the counter before the preceding
//! instructions have finished. It serves bounds within one thread, which allow for this. [`read_ordered`] waits for the
//! instructions before it, and stores after it become visible later: it serves times that threads compare. On x86-64 it
//! costs about two thirds more than [`read`].
//!
//! There is no counter on other processors, in Miri and on the portable host.
#![cfg_attr(
    all(
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(any(miri, portable_host))
    ),
    expect(unsafe_code, reason = "a host calls its system (decision 3)")
)]

pub(super) use processor::{SOURCE, is_invariant};
pub(crate) use processor::{read, read_ordered};

#[cfg(all(target_arch = "x86_64", not(any(miri, portable_host))))]
mod processor {
    use core::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc, CpuidResult};

    /// The name of the kernel's clock source that is this counter; [`None`] if there is no counter.
    pub(in crate::host::clock) const SOURCE: Option<&str> = Some("tsc");

    /// Reads the counter, not ordered.
    #[inline]
    pub(crate) fn read() -> u64 {
        // SAFETY: the instruction exists on every x86-64 processor and touches no memory. A process may be forbidden to
        // use it (PR_SET_TSC), which kills the process, as it does for every user of the vDSO's clock.
        unsafe { _rdtsc() }
    }

    /// Reads the counter, ordered.
    ///
    /// An `lfence` begins when all instructions before it have finished, and no instruction after it begins before the
    /// `lfence` ends. `lfence` and `rdtsc` together take less time than `rdtscp`, which waits for the instructions
    /// before it too.
    #[inline]
    pub(crate) fn read_ordered() -> u64 {
        fence();
        read()
    }

    #[allow(
        unused_unsafe,
        clippy::allow_attributes,
        reason = "newer compilers know that the intrinsic is safe"
    )]
    #[inline]
    fn fence() {
        // SAFETY: the instruction exists on every x86-64 processor, and touches no memory.
        unsafe { _mm_lfence() }
    }

    /// Returns whether the processor promises a constant rate in all its states: CPUID 8000_0007h, EDX bit 8.
    ///
    /// The function asks the processor itself: a file of the kernel has this fact too, but some processes cannot read
    /// files.
    pub(in crate::host::clock) fn is_invariant() -> bool {
        const HIGHEST: u32 = 0x8000_0000;
        const POWER: u32 = 0x8000_0007;
        leaf(HIGHEST).eax >= POWER && leaf(POWER).edx & (1 << 8) != 0
    }

    #[allow(
        unused_unsafe,
        clippy::allow_attributes,
        reason = "newer compilers know that the intrinsic is safe"
    )]
    fn leaf(number: u32) -> CpuidResult {
        // SAFETY: the instruction exists on every x86-64 processor and touches no memory.
        unsafe { __cpuid(number) }
    }
}

#[cfg(all(target_arch = "aarch64", not(any(miri, portable_host))))]
mod processor {
    use core::arch::asm;

    pub(in crate::host::clock) const SOURCE: Option<&str> = Some("arch_sys_counter");

    /// Reads the counter, not ordered.
    #[inline]
    pub(crate) fn read() -> u64 {
        let value;
        // SAFETY: the register can be read at EL0, as the vDSO reads it, or the kernel emulates the reading; it touches
        // no memory.
        unsafe {
            asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack, preserves_flags));
        }
        value
    }

    /// Reads the counter, ordered.
    ///
    /// The `dsb` ends when the loads before it have, and an `isb` when the instructions before it have: so the counter
    /// is read after what the thread has seen, and before the stores that follow.
    #[inline]
    pub(crate) fn read_ordered() -> u64 {
        let value;
        // SAFETY: as in `read`; without `nomem` the compiler moves no access of memory across.
        unsafe {
            asm!(
                "dsb ishld",
                "isb",
                "mrs {}, cntvct_el0",
                "isb",
                out(reg) value,
                options(nostack, preserves_flags)
            );
        }
        value
    }

    /// Returns true: the architecture promises one counter of a constant rate for all processors (Arm Architecture
    /// Reference Manual, the Generic Timer).
    pub(in crate::host::clock) const fn is_invariant() -> bool {
        true
    }
}

#[cfg(any(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    miri,
    portable_host
))]
mod processor {
    pub(in crate::host::clock) const SOURCE: Option<&str> = None;

    #[inline]
    pub(crate) fn read() -> u64 {
        0
    }

    #[inline]
    pub(crate) fn read_ordered() -> u64 {
        0
    }

    pub(in crate::host::clock) const fn is_invariant() -> bool {
        false
    }
}

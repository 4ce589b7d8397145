//! The time-stamp counter of the processor.
//!
//! [`read`] is not ordered with neighbouring instructions: the processor may read the counter before the preceding
//! instructions have finished. It serves bounds within one thread, which allow for this. [`read_ordered`] waits for the
//! instructions before it, and stores after it become visible later: it serves times that threads compare. It costs
//! about two thirds more than [`read`].
//!
//! The counter exists only on 64-bit x86. There is none on other processors, in Miri and on the portable host.
#![cfg_attr(
    all(target_arch = "x86_64", not(any(miri, portable_host))),
    expect(unsafe_code, reason = "a host calls its system (decision 3)")
)]

#[cfg(all(target_arch = "x86_64", not(any(miri, portable_host))))]
pub(crate) use x86::{read, read_ordered};

#[cfg(all(target_arch = "x86_64", not(any(miri, portable_host))))]
pub(super) use x86::{EXISTS, is_invariant};

#[cfg(all(target_arch = "x86_64", not(any(miri, portable_host))))]
mod x86 {
    use core::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc, CpuidResult};

    /// True if this module has a counter for the processor.
    pub(in crate::host::clock) const EXISTS: bool = true;

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

#[cfg(not(all(target_arch = "x86_64", not(any(miri, portable_host)))))]
pub(crate) use none::{read, read_ordered};

#[cfg(not(all(target_arch = "x86_64", not(any(miri, portable_host)))))]
pub(super) use none::{EXISTS, is_invariant};

#[cfg(not(all(target_arch = "x86_64", not(any(miri, portable_host)))))]
mod none {
    pub(in crate::host::clock) const EXISTS: bool = false;

    #[inline]
    pub(crate) fn read() -> u64 {
        0
    }

    #[inline]
    pub(crate) fn read_ordered() -> u64 {
        0
    }

    pub(in crate::host::clock) fn is_invariant() -> bool {
        false
    }
}

//! The types that all machines share, and the access to registers in memory.
//!
//! # Safety
//!
//! *Registers*, of each machine.

/// The most CPUs that the kernel starts.
pub(crate) const CPUS_MAX: usize = 256;

/// The instruction before which an interrupt came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interrupted {
    /// Address of the instruction.
    pub(crate) at: usize,
    /// True if the instruction belongs to user mode, as the processor reports.
    pub(crate) was_user: bool,
}

/// The resolution and range of a timer device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    /// The ticks of the device in a second.
    pub(crate) hertz: u32,
    /// The shortest and the longest delay, in ticks.
    pub(crate) min: u64,
    pub(crate) max: u64,
}

/// The layout of a stack that `switch_stacks` left: the number of words, and the places of two registers that a call
/// keeps and of the return address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) words: usize,
    pub(crate) first: usize,
    pub(crate) second: usize,
    pub(crate) goes_on: usize,
}

/// The first instructions of a CPU that is started.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Begins {
    /// The CPU enters the kernel.
    Kernel,
    /// The CPU halts with its interrupts masked, and never enters the kernel. For a test.
    Mute,
}

/// A function that sleeps until an interrupt made the condition true, for the given number of microseconds at most.
pub(crate) type Wait = fn(u64, &dyn Fn() -> bool);

pub(super) fn load(address: usize) -> u32 {
    // SAFETY: *registers*.
    unsafe { (address as *const u32).read_volatile() }
}

pub(super) fn store(address: usize, value: u32) {
    // SAFETY: *registers*.
    unsafe { (address as *mut u32).write_volatile(value) };
}

/// Returns the first instruction of a CPU that is started, and the two words that it reads: the end of its stack, and
/// its number.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn beginning(cpu: usize, stack_top: usize, begins: Begins) -> (usize, *const usize) {
    unsafe extern "C" {
        fn _secondary();
        fn _mute();
    }
    let entry = match begins {
        Begins::Kernel => _secondary as *const () as usize,
        Begins::Mute => _mute as *const () as usize,
    };
    let start = alloc::boxed::Box::leak(alloc::boxed::Box::new([stack_top, cpu]));
    (entry, start.as_ptr())
}

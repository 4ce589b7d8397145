//! The types that all machines share.

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

//! The result of a run, as the emulator passes it on. Never 0: a machine that resets itself ends with that.

/// The result that a run passes to the emulator.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum Code {
    /// All tests passed.
    Passed = 33,
    /// A test failed.
    Failed = 35,
    /// The kernel panicked.
    Panicked = 37,
    /// The guest time of the run was over.
    Wedged = 39,
    /// The machine reported an exception.
    Fault = 41,
    /// No test has the name that was asked for, or a CPU did not start.
    Unusable = 43,
}

//! The number of a CPU.

/// The number of a CPU: its place in the host's table of bases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u32);

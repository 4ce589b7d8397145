//! The barrier that one thread makes all other threads of the process execute: membarrier(2).

use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};

/// Registers the process for the kernel's barriers; `false` if the kernel has none, or a filter of system calls refuses
/// them.
pub(crate) fn register() -> bool {
    !cfg!(miri)
        && membarrier_query().contains(MembarrierQuery::PRIVATE_EXPEDITED)
        && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
}

/// Executes a full barrier on every running thread of the process, between call and return; `false` if the kernel
/// refused.
pub(crate) fn execute() -> bool {
    membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}

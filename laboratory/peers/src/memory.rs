//! Queries of the available memory and of the memory that this process has allocated.
#![expect(unsafe_code, reason = "it counts what is allocated (docs/testing.md)")]

use std::fs;

/// The memory that the largest subject takes for a timer, with the memory that an allocator keeps of timers that were
/// freed.
const FOR_A_TIMER: u64 = 400;

/// Returns the number of bytes that may still be used: the smaller of the available memory according to the kernel and
/// the rest of the limit of this control group.
///
/// Returns `None` if the system does not report it.
#[must_use]
pub fn available() -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let line = info
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    let machine = kibibytes * 1024;
    let number = |name: &str| -> Option<u64> {
        let text = fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?;
        text.trim().parse().ok()
    };
    let left = number("memory.max")
        .map(|most| most.saturating_sub(number("memory.current").unwrap_or_default()));
    Some(left.map_or(machine, |left| left.min(machine)))
}

/// Returns the number of bytes that a run with `pending` pending timers may take.
#[must_use]
pub fn needed(pending: u64) -> u64 {
    pending.saturating_mul(FOR_A_TIMER)
}

/// Returns the number of bytes that this process has allocated, in Rust, C and C++.
///
/// Returns `None` if the C library does not report it.
pub(crate) fn allocated() -> Option<u64> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: it takes no arguments and reads the allocator's own counts under the allocator's locks.
        let info = unsafe { libc::mallinfo2() };
        u64::try_from(info.uordblks + info.hblkhd).ok()
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

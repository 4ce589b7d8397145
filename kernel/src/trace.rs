//! The kernel's trace: each CPU records the events of the core in a ring, and a test writes the rings out as the file
//! that `tickless verify` reads.
//!
//! Without the feature `trace` the core reports nothing, and no ring exists.
//!
//! # Ground rules
//!
//! A CPU writes to its own ring alone, with interrupts masked: the core reports under the lock of a base, or from a
//! callback that an interrupt may interrupt. One counter numbers the entries, so a cause always has a smaller number
//! than its effect: an event that one CPU reports under a lock has a smaller number than an event that the next holder
//! reports.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use tickless_core::link::lock::Lock;
use tickless_core::time::Instant;
use tickless_core::trace::Event;

use crate::arch;
use crate::arch::CPUS_MAX;
use crate::lock::MaskingLock;
use crate::note::Note;

/// Entries of a ring: more than one test makes on a CPU. Later entries are only counted, and the test fails.
const ENTRIES: usize = 4_096;
/// An event, its place in the order of all events, and its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    number: u64,
    pub(crate) time: Instant,
    pub(crate) cpu: usize,
    pub(crate) event: Event,
}

/// The entries of one CPU.
struct Ring {
    entries: Vec<Entry>,
    lost: u64,
}

static RINGS: [Lock<MaskingLock, Ring>; CPUS_MAX] = [const {
    Lock::new(
        MaskingLock::new(),
        Ring {
            entries: Vec::new(),
            lost: 0,
        },
    )
}; CPUS_MAX];
/// The number of the next entry.
static NEXT: AtomicU64 = AtomicU64::new(0);
/// True while events are kept.
static IS_ON: Note = Note::new();

/// Keeps an event, which is reported at the time that `now` reads.
pub(crate) fn take(now: impl FnOnce() -> Instant, event: Event) {
    #[cfg(feature = "conformance")]
    if crate::played::keep(event) {
        return;
    }
    if !IS_ON.is_there() {
        return;
    }
    let cpu = arch::cpu();
    let mut ring = RINGS[cpu].lock(None);
    if ring.entries.len() == ring.entries.capacity() {
        ring.lost += 1;
        return;
    }
    // Relaxed: what orders two events of different CPUs is the lock that both hold while they report.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let time = now();
    ring.entries.push(Entry {
        number,
        time,
        cpu,
        event,
    });
}

/// Begins to keep events, on `cpus` CPUs. No timer may be queued.
pub(crate) fn begin(cpus: usize) {
    for ring in &RINGS[..cpus] {
        ring.lock(None).entries.reserve_exact(ENTRIES);
    }
    IS_ON.leave();
}

/// Stops keeping events. Returns those of the first `cpus` CPUs, in their order, and the number of lost ones.
pub(crate) fn end(cpus: usize) -> (Vec<Entry>, u64) {
    IS_ON.set(false);
    let mut entries = Vec::new();
    let mut lost = 0;
    for ring in &RINGS[..cpus] {
        let mut ring = ring.lock(None);
        lost += core::mem::take(&mut ring.lost);
        entries.append(&mut ring.entries);
    }
    entries.sort_unstable_by_key(|entry| entry.number);
    (entries, lost)
}

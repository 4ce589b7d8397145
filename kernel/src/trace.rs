//! The kernel's trace: each CPU records the events of the core in a ring, and the kernel writes the rings out as the
//! file that `tickless verify` reads.
//!
//! Without the feature `trace` the core reports nothing, and no ring exists.
//!
//! # Ground rules
//!
//! A CPU writes to its own ring alone, with interrupts masked: the core reports under the lock of a base, or from a
//! callback that an interrupt may interrupt. One counter numbers the entries, so a cause always has a smaller number
//! than its effect: an event that one CPU reports under a lock has a smaller number than an event that the next holder
//! reports.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use tickless_core::hierarchy::{Hierarchy, HierarchyHost, WIDTH_DEFAULT};
use tickless_core::link::lock::Lock;
use tickless_core::time::Instant;
use tickless_core::trace::line::{FORMAT, Line, Number, Subject, VERSION};
use tickless_core::trace::{Event, TimerId};

use crate::arch;
use crate::console::say;
use crate::host::{CPUS_MAX, Host, Note};
use crate::lock::MaskingLock;
use crate::machine::{Machine, PERIOD};

/// Entries of a ring: more than one test makes on a CPU. Later entries are only counted, and the test fails.
const ENTRIES: usize = 4_096;
/// The latest that a timer may be, in nanoseconds: a slot of the second level and a tick.
const LATE_MAX: u64 = 10_000_000;

/// An event, its place in the order of all events, and its time.
#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u64,
    time: Instant,
    cpu: usize,
    event: Event,
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

/// Keeps an event.
pub(crate) fn take(host: &Host, event: Event) {
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
    let time = host.clock().now();
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

/// Stops keeping events, and writes them out. Returns the number of events, and the number of lost ones.
pub(crate) fn end(machine: &Machine) -> (usize, u64) {
    let (cpus, now, tree) = (machine.cpus(), machine.now(), &machine.tree);
    IS_ON.set(false);
    let mut entries = Vec::new();
    let mut lost = 0;
    for ring in &RINGS[..cpus] {
        let mut ring = ring.lock(None);
        lost += core::mem::take(&mut ring.lost);
        entries.append(&mut ring.entries);
    }
    entries.sort_unstable_by_key(|entry| entry.number);
    say!(
        "trace: {{\"format\":\"{FORMAT}\",\"version\":{VERSION},\"unit\":\"ns\",\"scenario\":\"kernel\",\
         \"profile\":\"{}\",\"seed\":0,\"library\":\"{}\",\"cpus\":{cpus},\"tick\":{},\
         \"late_max\":{LATE_MAX},\"isolated\":[]}}",
        arch::NAME,
        env!("CARGO_PKG_VERSION"),
        PERIOD.as_nanos(),
    );
    let mut numbers = Numbers::default();
    let began = entries.first().map_or(now, |entry| entry.time);
    let mut lines = 2 + write_tree(tree, began.as_nanos());
    for entry in &entries {
        lines += u64::from(write(entry, &mut numbers));
    }
    let time = now.as_nanos();
    say!("trace: {{\"time\":{time},\"event\":\"end\",\"lines\":{lines},\"queued\":0}}");
    (entries.len(), lost)
}

/// The numbers of timers, by the address of each timer.
#[derive(Default)]
struct Numbers(BTreeMap<usize, Number>);

impl Numbers {
    fn of(&mut self, timer: TimerId, is_exact: bool) -> Number {
        let number = self.0.len() as u64 + 1;
        *self.0.entry(timer.0).or_insert(Number { number, is_exact })
    }
}

/// Writes the line of an entry; false if the file has no such event, or the timer is not known.
fn write(entry: &Entry, numbers: &mut Numbers) -> bool {
    let timer = match entry.event.subject() {
        Some(Subject::Exact(timer)) => numbers.of(timer, true),
        Some(Subject::Coarse(timer)) => numbers.of(timer, false),
        Some(Subject::Either(timer)) => match numbers.0.get(&timer.0) {
            Some(known) => *known,
            None => return false,
        },
        None => Number::NONE,
    };
    if !entry.event.has_line() {
        return false;
    }
    let line = Line {
        time: entry.time.as_nanos(),
        cpu: u32::try_from(entry.cpu).ok(),
        event: &entry.event,
        timer,
    };
    say!("trace: {line}");
    true
}

/// Writes the lines of the hierarchy, which does not grow while events are kept. Returns how many there are.
fn write_tree(tree: &Hierarchy<impl HierarchyHost<WIDTH_DEFAULT>>, time: i64) -> u64 {
    let mut lines = 0;
    tree.for_each_setting(|setting| {
        say!("trace: {}", setting.line(0, time));
        lines += 1;
    });
    lines
}

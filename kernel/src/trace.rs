//! The kernel's trace: what the core reports, in a ring of each CPU, written out as the file that `tickless verify`
//! reads.
//!
//! Without the feature `trace` the core reports nothing, and no ring exists.
//!
//! # Ground rules
//!
//! A CPU writes to its own ring alone, masked: the core reports under the lock of a base, or from a callback that an
//! interrupt may come on top of. The numbers of the entries are drawn from one counter, so the order of the numbers is
//! an order of causes: what one CPU reports under a lock has a smaller number than what the next holder reports.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use tickless_core::coarse::Kind;
use tickless_core::link::lock::Lock;
use tickless_core::time::{Clock, Instant};
use tickless_core::trace::{Event, Placement, TimerId};

use crate::arch;
use crate::console::say;
use crate::host::{CPUS_MAX, Host, Note};
use crate::lock::MaskingLock;
use crate::machine::PERIOD;

/// Entries of a ring: more than one test makes on a CPU. What comes behind them is counted, and the test fails.
const ENTRIES: usize = 4_096;
/// The latest that a timer may be, in nanoseconds: a slot of the second level and a tick.
const LATE_MAX: u64 = 10_000_000;

/// An event, its place in the order of all of them, and the time.
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

/// Begins to keep events, on so many CPUs. No timer is queued.
pub(crate) fn begin(cpus: usize) {
    for ring in &RINGS[..cpus] {
        ring.lock(None).entries.reserve_exact(ENTRIES);
    }
    IS_ON.leave();
}

/// Ends to keep events, and writes them out. Returns how many there were, and how many were lost.
pub(crate) fn end(cpus: usize, now: Instant) -> (usize, u64) {
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
        "trace: {{\"format\":\"tickless-trace\",\"version\":1,\"unit\":\"ns\",\"scenario\":\"kernel\",\
         \"profile\":\"{}\",\"seed\":0,\"library\":\"{}\",\"cpus\":{cpus},\"tick\":{},\
         \"late_max\":{LATE_MAX},\"isolated\":[]}}",
        arch::NAME,
        env!("CARGO_PKG_VERSION"),
        PERIOD.as_nanos(),
    );
    let mut numbers = Numbers::default();
    let mut lines = 2;
    for entry in &entries {
        lines += u64::from(write(entry, &mut numbers));
    }
    let time = now.as_nanos();
    say!("trace: {{\"time\":{time},\"event\":\"end\",\"lines\":{lines},\"queued\":0}}");
    (entries.len(), lost)
}

/// The numbers of timers: by the address of each, and whether it is exact.
#[derive(Default)]
struct Numbers(BTreeMap<usize, (usize, bool)>);

impl Numbers {
    fn of(&mut self, timer: TimerId, is_exact: bool) -> usize {
        let next = self.0.len() + 1;
        self.0.entry(timer.0).or_insert((next, is_exact)).0
    }

    fn known(&self, timer: TimerId) -> Option<(usize, bool)> {
        self.0.get(&timer.0).copied()
    }
}

/// An instant as a number, or `null` for never.
struct OrNever(Instant);

impl fmt::Display for OrNever {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_forever() {
            return formatter.write_str("null");
        }
        write!(formatter, "{}", self.0.as_nanos())
    }
}

/// Writes the line of an entry; false if the file has no such event.
fn write(entry: &Entry, numbers: &mut Numbers) -> bool {
    let line = |name: &str, keys: fmt::Arguments<'_>| {
        let (time, cpu) = (entry.time.as_nanos(), entry.cpu);
        say!("trace: {{\"time\":{time},\"cpu\":{cpu},\"event\":\"{name}\",{keys}}}");
        true
    };
    match entry.event {
        Event::ExpireExit { timer } => match numbers.known(timer) {
            Some((id, true)) => line("hrtimer_expire_exit", format_args!("\"hrtimer\":{id}")),
            Some((id, false)) => line("timer_expire_exit", format_args!("\"timer\":{id}")),
            None => false,
        },
        Event::Move { timer, from, to } => match numbers.known(timer) {
            Some((id, _)) => line(
                "timer_move",
                format_args!("\"timer\":{id},\"from_cpu\":{},\"of_cpu\":{}", from.0, to.0),
            ),
            None => false,
        },
        Event::Start { .. } | Event::Cancel { .. } | Event::ExpireEntry { .. } => {
            write_exact(entry, numbers, line)
        }
        Event::WheelArm { .. } | Event::WheelCancel { .. } | Event::WheelExpire { .. } => {
            write_coarse(entry, numbers, line)
        }
        Event::Rearm {
            cpu,
            next,
            deferred,
        } => line(
            "hrtimer_rearm",
            format_args!(
                "\"of_cpu\":{},\"next\":{},\"deferred\":{deferred}",
                cpu.0,
                OrNever(next)
            ),
        ),
        Event::WrittenLate { cpu, event } => line(
            "hrtimer_written_late",
            format_args!("\"of_cpu\":{},\"next\":{}", cpu.0, event.as_nanos()),
        ),
        Event::Spurious { cpu } => line("hrtimer_spurious", format_args!("\"of_cpu\":{}", cpu.0)),
        Event::TickStop { cpu, wake } => line(
            "tick_stop",
            format_args!("\"of_cpu\":{},\"wake\":{}", cpu.0, OrNever(wake)),
        ),
        Event::TickStart { cpu, due } => line(
            "tick_start",
            format_args!("\"of_cpu\":{},\"due\":{}", cpu.0, OrNever(due)),
        ),
        _ => false,
    }
}

/// Writes the line of an exact timer.
fn write_exact(
    entry: &Entry,
    numbers: &mut Numbers,
    line: impl Fn(&str, fmt::Arguments<'_>) -> bool,
) -> bool {
    match entry.event {
        Event::Start {
            cpu,
            timer,
            clock,
            hard,
            soft,
            was_armed,
            stood,
            ..
        } => line(
            "hrtimer_start",
            format_args!(
                "\"hrtimer\":{},\"of_cpu\":{},\"clock\":\"{}\",\"expires\":{hard},\"softexpires\":{soft},\
                 \"was_armed\":{was_armed},\"place\":\"{}\"",
                numbers.of(timer, true),
                cpu.0,
                match clock {
                    Clock::Monotonic => "monotonic",
                    Clock::Realtime => "realtime",
                    Clock::Boottime => "boottime",
                    Clock::Tai => "tai",
                },
                match stood {
                    Placement::Moved => "moved",
                    Placement::InPlace => "in-place",
                    Placement::FiledEarly => "filed-early",
                    Placement::FarSlot => "far-slot",
                },
            ),
        ),
        Event::Cancel { cpu, timer } => line(
            "hrtimer_cancel",
            format_args!(
                "\"hrtimer\":{},\"of_cpu\":{}",
                numbers.of(timer, true),
                cpu.0
            ),
        ),
        Event::ExpireEntry {
            cpu,
            timer,
            now,
            hard,
            soft,
            ..
        } => line(
            "hrtimer_expire_entry",
            format_args!(
                "\"hrtimer\":{},\"of_cpu\":{},\"now\":{now},\"expires\":{hard},\"softexpires\":{soft}",
                numbers.of(timer, true),
                cpu.0
            ),
        ),
        _ => false,
    }
}

/// Writes the line of a coarse timer.
fn write_coarse(
    entry: &Entry,
    numbers: &mut Numbers,
    line: impl Fn(&str, fmt::Arguments<'_>) -> bool,
) -> bool {
    match entry.event {
        Event::WheelArm {
            cpu,
            kind,
            timer,
            now,
            expiry,
            due,
            was_armed,
            ..
        } => line(
            "timer_start",
            format_args!(
                "\"timer\":{},\"of_cpu\":{},\"flags\":\"{}\",\"now\":{},\"expires\":{},\"bucket_expiry\":{},\
                 \"was_armed\":{was_armed}",
                numbers.of(timer, false),
                cpu.0,
                match kind {
                    Kind::Local => "pinned",
                    Kind::Global => "global",
                    Kind::Deferrable => "deferrable",
                },
                now.0,
                expiry.0,
                due.0,
            ),
        ),
        Event::WheelCancel { cpu, timer, .. } => line(
            "timer_cancel",
            format_args!(
                "\"timer\":{},\"of_cpu\":{}",
                numbers.of(timer, false),
                cpu.0
            ),
        ),
        Event::WheelExpire { timer, timeout, .. } => line(
            "timer_expire_entry",
            format_args!(
                "\"timer\":{},\"of_cpu\":{},\"now\":{},\"expires\":{},\"bucket_expiry\":{}",
                numbers.of(timer, false),
                timeout.cpu.0,
                timeout.now.0,
                timeout.expiry.0,
                timeout.due.0,
            ),
        ),
        _ => false,
    }
}

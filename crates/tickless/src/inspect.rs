//! The present state of all timers of the process, as text and as data.
//!
//! [`dump`] writes the state in the layout of `/proc/timer_list`, and [`snapshot`] returns the same state as values.
//! Each thread counts as a CPU. Number 0 is the expiry thread, which has the role of the broadcast device in that file:
//! it fires the timers of threads that do not fire their own.
//!
//! ```
//! use std::pin::pin;
//! use tickless::hrtimer::{HrTimer, Restart, Span, Start};
//! use tickless::inspect::{Queued, snapshot};
//!
//! let timer = pin!(HrTimer::new(|_| Restart::No));
//! let _ = timer.as_ref().start(Start::after(Span::from_secs(3600)));
//! let timers = snapshot().threads.into_iter().flat_map(|thread| thread.timers);
//! let far = timers.filter(|timer| matches!(timer.queued, Queued::Far { .. }));
//! assert!(far.count() >= 1);
//! ```
//!
//! # Limits
//!
//! Other threads continue to run during a snapshot: the facts of one thread are of one moment, the facts of two threads
//! are not. Timers are copied 32 at a time with their thread's queue locked, so a timer that moves meanwhile may be
//! missing or may be shown twice.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use tickless_core::hierarchy::{Child, GroupId, HierarchyHost};
use tickless_core::inspect::DumpHost;
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;

use crate::host::clock::CLOCK;
use crate::host::registry::{base, bases, timers};
use crate::host::remote::reactors::{self, Reactor as HostReactor};
use crate::host::remote::trees;
use crate::host::thread::{self as host_thread, ThreadBase, ThreadKind, with_thread};
use crate::host::{tick, wake};
use crate::shown::Shown;
use crate::stats::clock;

pub use tickless_core::coarse::{Tick, WheelKind};
pub use tickless_core::inspect::{CpuReport, DeviceReport, Queued, WAKES, WheelReport};

/// A snapshot of all timers, threads and hierarchies. The parts of the snapshot are read one after the other, not at
/// one instant.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// The time of the snapshot on the monotonic clock of the timers, in nanoseconds. All other times of the snapshot
    /// are on that clock.
    pub now: i64,
    /// The tick of coarse timers in progress.
    pub tick: Tick,
    /// The length of a tick.
    pub tick_period: Duration,
    /// The threads that have or had timers; number 0 is the expiry thread.
    pub threads: Vec<Thread>,
    /// The state of the expiry thread, with its next wake-up.
    pub expiry_thread: ExpiryThread,
    /// The hierarchy of threads that do not fire their own timers, and the hierarchy of workers. The hierarchies of
    /// runtimes are in [`reactors`](Self::reactors).
    pub hierarchies: [Hierarchy; 2],
    /// The runtimes that are or were attached. The reactor of such a runtime wakes for the timers of the runtime's
    /// threads.
    pub reactors: Vec<Reactor>,
}

/// A thread and its timers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Thread {
    /// The number of the thread, which counts as the number of a CPU.
    pub number: u32,
    /// The thread that fires the timers of this thread.
    pub role: Role,
    /// The system's number of the thread.
    pub id: Option<u32>,
    /// The name of the thread, of which the system keeps the first 15 bytes; control characters are escaped. `None` if
    /// the name cannot be read, and for threads that have ended.
    pub name: Option<String>,
    /// True if the thread is an isolated worker, which other threads do not disturb.
    pub is_isolated: bool,
    /// The number of the [reactor](Reactor::number) that wakes for the thread's timers, if the thread is a worker of an
    /// attached runtime.
    pub reactor: Option<u32>,
    /// The state and the counters of the thread's queues and device.
    pub state: CpuReport,
    /// The pending timers of the thread.
    pub timers: Vec<Timer>,
}

/// The thread that fires the timers of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// The expiry thread, because the thread does not fire its own timers.
    Foreign,
    /// The thread itself, a [`Worker`](crate::Worker).
    Worker,
    /// The thread itself, with a [`Driver`](crate::Driver).
    Driver,
    /// The expiry thread, whose own timers these are.
    ExpiryThread,
    /// The runtime of a virtual clock, which fires the timers with callbacks on that clock. No thread has the number.
    VirtualClock,
    /// The thread has ended; another thread may take its number.
    Ended,
}

impl Role {
    /// Returns the name of the role in dumps.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Foreign => "foreign",
            Self::Worker => "worker",
            Self::Driver => "driver",
            Self::ExpiryThread => "background",
            Self::VirtualClock => "virtual",
            Self::Ended => "ended",
        }
    }

    pub(crate) fn of(base: &ThreadBase) -> Self {
        match base.local().kind() {
            ThreadKind::Free => Self::Ended,
            ThreadKind::Foreign => Self::Foreign,
            ThreadKind::Worker => Self::Worker,
            ThreadKind::EventLoop => Self::Driver,
            ThreadKind::ExpiryThread => Self::ExpiryThread,
            ThreadKind::VirtualClock => Self::VirtualClock,
        }
    }
}

/// A pending timer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Timer {
    /// The type of the timer's callback; [`WAKES`] for a timer that wakes a task.
    pub callback: &'static str,
    /// True if the timer was started again while its callback is still running.
    pub is_running: bool,
    /// The queue that holds the timer, and its deadline.
    pub queued: Queued,
}

/// The expiry thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExpiryThread {
    /// True if the thread is running.
    pub is_running: bool,
    /// The time until which the thread sleeps, in nanoseconds; `None` while it is awake or sleeps without an end.
    pub sleeps_until: Option<i64>,
}

/// A runtime that is or was attached.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reactor {
    /// The number of the reactor.
    pub number: u32,
    /// The thread that fires the timers of the runtime's threads.
    pub served_by: ServedBy,
    /// The time of the next expiry, in nanoseconds; `None` if no timer is pending, and during an expiry.
    pub rings_at: Option<i64>,
    /// The number of timers that fired because the reactor woke for them.
    pub expired: u64,
    /// The number of timers that the expiry thread fired in place of the reactor.
    pub expired_by_fallback: u64,
    /// The hierarchy of the runtime's threads; its member with the number 0 is the thread that fires their timers.
    pub hierarchy: Hierarchy,
}

/// The thread that fires the timers of a runtime's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServedBy {
    /// A thread of the runtime, when the runtime's reactor wakes for the timers.
    Reactor,
    /// The expiry thread, until the runtime polls its reactor again.
    FallbackWhileStalled,
    /// The expiry thread, because the runtime was dropped or detached.
    FallbackForEver,
}

impl ServedBy {
    /// Returns the name of the value in dumps.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reactor => "reactor",
            Self::FallbackWhileStalled => "background, stalled",
            Self::FallbackForEver => "background, detached",
        }
    }

    fn of(reactor: &HostReactor) -> Self {
        if !reactor.is_attached() {
            Self::FallbackForEver
        } else if reactor.is_stalled() {
            Self::FallbackWhileStalled
        } else {
            Self::Reactor
        }
    }
}

/// A tree through which threads find due timers of other threads.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Hierarchy {
    /// The name of the threads for which the hierarchy exists.
    pub name: &'static str,
    /// The number of members that can fire the timers of other members.
    pub available: u32,
    /// The groups of the hierarchy.
    pub groups: Vec<Group>,
}

/// A group of threads, or of groups.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Group {
    /// The number of the group.
    pub number: u32,
    /// The level of the group; groups of threads are on level 0.
    pub level: usize,
    /// The group's parent, and the group's place in it; `None` for the root.
    pub parent: Option<(u32, u8)>,
    /// The places of the children that are awake.
    pub active: Vec<u8>,
    /// The place of the migrator: the awake child that fires the timers of idle children.
    pub migrator: Option<u8>,
    /// A lower bound for the time of the group's first event, in nanoseconds.
    pub first_event: Option<i64>,
    /// The threads in the group.
    pub members: Vec<Member>,
}

/// A thread in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// The number of the thread.
    pub thread: u32,
    /// The place of the thread in its group.
    pub place: u8,
    /// True if the thread can fire the timers of other threads.
    pub is_available: bool,
    /// True if the thread counts as idle, so that other threads fire its timers.
    pub is_idle: bool,
    /// The time at which the thread has promised to wake up for the timers of all members, in nanoseconds.
    pub wakeup: Option<i64>,
}

/// Returns a snapshot of all timers, threads and hierarchies.
///
/// The function locks each thread's queue for short times. If a thread has fewer than 32 timers, they are shown as of
/// one moment, each of them once. If it has more, a timer that moves meanwhile may be shown twice or not at all.
#[must_use]
pub fn snapshot() -> Snapshot {
    note_own_thread();
    let now = CLOCK.now();
    let threads = bases().filter_map(thread);
    Snapshot {
        now: now.as_nanos(),
        tick: tick::tick_of(now),
        tick_period: Duration::from_nanos(tick::TICK),
        threads: threads.collect(),
        expiry_thread: ExpiryThread {
            is_running: wake::is_running(),
            sleeps_until: wake::SLEEPS_UNTIL.sleeps_until(),
        },
        hierarchies: all_trees().map(|(name, tree)| hierarchy(name, tree)),
        reactors: reactors::all().map(reactor).collect(),
    }
}

/// Writes the live state of all queues in the layout of `/proc/timer_list`. Each thread counts as a CPU; number 0 is
/// the expiry thread.
///
/// A callback is shown by the name of its type. Addresses are shown as zero. Lines of the kernel's file have the
/// kernel's form; the additional facts of this library are on lines of their own.
///
/// # Errors
///
/// The errors of `out`.
pub fn dump(out: &mut dyn fmt::Write) -> fmt::Result {
    note_own_thread();
    timers().dump(&Text { addresses: false }, out)
}

/// Writes [`dump`] with the addresses of timers and of their callbacks' code. Use the function to debug this process,
/// not for logs that other people read, because addresses help attackers.
///
/// # Errors
///
/// The errors of `out`.
pub fn dump_with_addresses(out: &mut dyn fmt::Write) -> fmt::Result {
    note_own_thread();
    timers().dump(&Text { addresses: true }, out)
}

/// Returns the trees, and the names of the threads to which they belong.
fn all_trees() -> [(&'static str, &'static trees::Tree); 2] {
    [
        ("foreign threads", trees::foreign()),
        ("workers", trees::workers()),
    ]
}

fn reactor(reactor: &HostReactor) -> Reactor {
    let [expired, expired_by_fallback] = reactor.fired();
    Reactor {
        number: reactor.number().get(),
        served_by: ServedBy::of(reactor),
        rings_at: reactor.rings_at(),
        expired,
        expired_by_fallback,
        hierarchy: hierarchy(THREADS_OF_A_RUNTIME, reactor.tree()),
    }
}

/// The name of the tree of a reactor.
const THREADS_OF_A_RUNTIME: &str = "threads of a runtime";

/// Records the system's number of the calling thread. Only the thread itself knows the number for sure, because a fork
/// changes it.
fn note_own_thread() {
    if let Some(own) = with_thread(host_thread::Thread::base) {
        own.local().note_thread();
    }
}

fn finite(when: Instant) -> Option<i64> {
    (!when.is_forever()).then(|| when.as_nanos())
}

fn thread(base: &ThreadBase) -> Option<Thread> {
    let state = timers().report(base.cpu())?;
    let mut pending = Vec::new();
    let seen = timers().for_each_pending(base.cpu(), |timer| {
        pending.push(Timer {
            callback: timer.callback,
            is_running: timer.is_running,
            queued: timer.queued,
        });
        Ok(())
    });
    debug_assert!(seen.is_ok(), "nothing fails");
    let role = Role::of(base);
    if role == Role::Ended && pending.is_empty() {
        return None;
    }
    let id = base.local().thread_id();
    Some(Thread {
        number: base.cpu().0,
        role,
        id,
        name: id.and_then(thread_name),
        is_isolated: is_isolated(base),
        reactor: base.local().remote.reactor().map(NonZeroU32::get),
        state,
        timers: pending,
    })
}

fn is_isolated(base: &ThreadBase) -> bool {
    base.local().kind() == ThreadKind::Worker && !trees::takes_part(base)
}

/// Returns the name that the system keeps for a thread of this process, as it is shown.
pub(crate) fn thread_name(id: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/self/task/{id}/comm")).ok()?;
    let name = String::from_utf8_lossy(&name);
    Some(Shown(name.strip_suffix('\n').unwrap_or(&name)).to_string())
}

fn hierarchy(name: &'static str, tree: &trees::Tree) -> Hierarchy {
    let group = |id: GroupId| {
        let group = tree.host().group(id);
        let state = group.state();
        let members = tree.children(id).filter_map(|child| match child {
            Child::Cpu(cpu) => tree.host().node(cpu),
            Child::Group(_) => None,
        });
        Group {
            number: id.0,
            level: group.level(),
            parent: group
                .parent()
                .map(|parent| (parent.0, group.slot().number())),
            active: state.active().map(|slot| slot.number()).collect(),
            migrator: state.migrator().map(|slot| slot.number()),
            first_event: finite(group.first()),
            members: members
                .map(|node| Member {
                    thread: node.cpu().0,
                    place: node.slot().number(),
                    is_available: node.is_available(),
                    is_idle: node.is_idle(),
                    wakeup: finite(node.wakeup()),
                })
                .collect(),
        }
    };
    Hierarchy {
        name,
        available: tree.available_cpus(),
        groups: (0..tree.groups()).map(GroupId).map(group).collect(),
    }
}

/// The lines that the host adds to the core's dump.
struct Text {
    addresses: bool,
}

impl DumpHost for Text {
    fn addresses(&self) -> bool {
        self.addresses
    }

    fn name(&self, cpu: CpuId, out: &mut dyn fmt::Write) -> fmt::Result {
        let Some(base) = base(cpu) else {
            return Ok(());
        };
        let id = base.local().thread_id();
        match id.and_then(thread_name) {
            Some(name) => write!(out, "  .thread         : {name}, ")?,
            None => write!(out, "  .thread         : ")?,
        }
        if let Some(id) = id {
            write!(out, "thread {id}, ")?;
        }
        writeln!(out, "{}", Role::of(base).name())
    }

    fn tick(&self, cpu: CpuId, out: &mut dyn fmt::Write) -> fmt::Result {
        let Some(base) = base(cpu) else {
            return Ok(());
        };
        let deadline = base.local().device.programmed().as_nanos();
        writeln!(out, "  .isolated       : {}", u8::from(is_isolated(base)))?;
        writeln!(out, "  .deadline       : {deadline} nsecs")?;
        writeln!(out, "  .tick_period    : {} nsecs", tick::TICK)?;
        writeln!(out, "jiffies: {}", tick::now().0)
    }

    fn broadcast(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let until = wake::SLEEPS_UNTIL.sleeps_until().unwrap_or(i64::MAX);
        writeln!(out, "Tick Device: mode:     1")?;
        writeln!(out, "Broadcast device")?;
        writeln!(out, "Clock Event Device: background-thread")?;
        // The kernel's numbers: 0 is detached, 3 one-shot.
        let mode = if wake::is_running() { 3 } else { 0 };
        writeln!(out, " mode:           {mode}")?;
        writeln!(out, " next_event:     {until} nsecs")?;
        let covered: Vec<String> = bases()
            .filter(|base| Role::of(base) == Role::Foreign)
            .map(|base| base.cpu().0.to_string())
            .collect();
        writeln!(out, "tick_broadcast_list: {}", covered.join(","))?;
        writeln!(out)
    }

    fn hierarchy(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        all_trees()
            .iter()
            .try_for_each(|(name, tree)| tree.dump(name, out))?;
        for each in reactors::all() {
            let [expired, fallback] = each.fired();
            let until = each.rings_at().unwrap_or(i64::MAX);
            let (number, by) = (each.number(), ServedBy::of(each).name());
            writeln!(
                out,
                "reactor {number}: served by {by}, next_event: {until} nsecs"
            )?;
            writeln!(out, "  .expired        : {expired}")?;
            writeln!(out, "  .by_background  : {fallback}")?;
            each.tree().dump(THREADS_OF_A_RUNTIME, out)?;
        }
        let wall = &timers().platform().wall;
        if let Some(last) = clock::last_set() {
            let sets = wall.sets();
            writeln!(
                out,
                "clock sets: {sets}, the last at {} nsecs: {last}",
                last.noticed
            )?;
        }
        Ok(())
    }
}

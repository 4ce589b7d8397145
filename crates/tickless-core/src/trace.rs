//! The events of a trace, for trace files, checkers and counters.
//!
//! The events have the names and the meaning of the kernel's `timer:hrtimer_*` events (spec ), so that existing
//! tools can be used. A host that sets [`Platform::TRACE`](crate::platform::Platform::TRACE) to `false` pays nothing.
//! [`line`](mod@line) writes the events as the lines of a trace file.

use crate::cpu::CpuId;
use crate::event::flush::Flush;
use crate::hierarchy::step::Step;
use crate::slots::geometry::Tick;
use crate::time::{Clock, Instant};
use crate::wheel::family::{Timeout, WheelKind};

pub use crate::exact::family::Placement;
pub use keep::KeepReason;

mod keep;
pub mod line;

/// The identity of a timer in a trace: its address, which is never dereferenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub usize);

/// The options of a start, for traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartMode {
    /// True if the time was relative to the start.
    pub relative: bool,
    /// True if the timer must be on the CPU that executes the start.
    pub pinned: bool,
    /// True if the start refuses a time in the past.
    pub checked: bool,
}

/// An event of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A timer was started or restarted. A restart is one event, whether the timer keeps its place or not (spec TR-1).
    Start {
        /// The CPU of the base on which the timer is now.
        cpu: CpuId,
        /// The timer.
        timer: TimerId,
        /// The address of its callback's code.
        code: usize,
        /// The clock of the times.
        clock: Clock,
        /// The latest time at which the timer should fire, in nanoseconds of its clock.
        hard: i64,
        /// The earliest time at which the timer may fire, in nanoseconds of its clock.
        soft: i64,
        /// The options of the start.
        mode: StartMode,
        /// True if the timer was pending before.
        was_armed: bool,
        /// The effect on the timer's place in the queue.
        stood: Placement,
    },
    /// A checked start found the time in the past (spec ). The event follows the `Start` event of that call.
    StartExpired {
        /// The timer.
        timer: TimerId,
    },
    /// A callback begins. The base is not locked.
    ExpireEntry {
        /// The CPU of the base on which the timer was.
        cpu: CpuId,
        /// The timer.
        timer: TimerId,
        /// The address of its callback's code.
        code: usize,
        /// The time of the pass that found the timer due, in nanoseconds of the timer's clock.
        now: i64,
        /// The latest time at which the timer should have fired, in nanoseconds of its clock.
        hard: i64,
        /// The earliest time at which the timer could have fired, in nanoseconds of its clock.
        soft: i64,
    },
    /// A callback ended. The timer may have been freed, so the event contains only its address (spec OBJ-12).
    ExpireExit {
        /// The timer.
        timer: TimerId,
    },
    /// A pending timer was removed by a cancel.
    Cancel {
        /// The CPU of the base on which the timer was.
        cpu: CpuId,
        /// The timer.
        timer: TimerId,
    },
    /// The device is written (spec TR-2).
    Rearm {
        /// CPU of the device.
        cpu: CpuId,
        /// Time of the next event.
        next: Instant,
        /// True if a flush point writes the device.
        deferred: bool,
    },
    /// The next event was before the beginning of the monotonic clock. The device is programmed for that beginning, and
    /// fires at once (spec Q-22). The trace contains this event each time that the core finds such a next event.
    Clamped {
        /// The CPU.
        cpu: CpuId,
        /// The time at which the event was due, which is negative.
        event: Instant,
    },
    /// The event had passed when the device was programmed, so the device was programmed for its shortest delay. This
    /// event follows the `Rearm` event of the write.
    WrittenLate {
        /// CPU of the device.
        cpu: CpuId,
        /// The time at which the event was due.
        event: Instant,
    },
    /// A deferred rearm was carried out (spec TR-3).
    Flush {
        /// The CPU.
        cpu: CpuId,
        /// Flush point.
        reason: Flush,
        /// True if the queues had changed since the interrupt.
        stale: bool,
    },
    /// A CPU that goes idle found its next coarse event before the beginning of the tick in progress: a pass over its
    /// wheels, or over those of CPUs that it looks after, is late.
    TickOverdue {
        /// The CPU.
        cpu: CpuId,
        /// The time at which the event was due.
        due: Instant,
    },
    /// An interrupt found nothing to do (spec IRQ-9).
    Spurious {
        /// The CPU.
        cpu: CpuId,
    },
    /// An interrupt gave up after three passes (spec IRQ-2).
    Hang {
        /// The CPU.
        cpu: CpuId,
        /// The length of the interrupt in nanoseconds.
        nanos: u64,
    },
    /// A CPU was requested to check its queues.
    Kick {
        /// The CPU that was kicked.
        cpu: CpuId,
    },
    /// A coarse timer was armed, modified, or moved from an offline CPU.
    WheelArm {
        /// The CPU on which the timer is now.
        cpu: CpuId,
        /// The wheel.
        kind: WheelKind,
        /// The timer.
        timer: TimerId,
        /// The address of the callback's code; 0 when the timer's own callback armed it.
        code: usize,
        /// The tick in progress.
        now: Tick,
        /// The tick that must be over when the timer fires.
        expiry: Tick,
        /// The tick at which the timer's slot is due.
        due: Tick,
        /// True if the timer was pending before.
        was_armed: bool,
    },
    /// A pending coarse timer was cancelled.
    WheelCancel {
        /// The CPU on which the timer was.
        cpu: CpuId,
        /// The wheel.
        kind: WheelKind,
        /// The timer.
        timer: TimerId,
    },
    /// A pass of a wheel begins.
    WheelPass {
        /// CPU of the wheel.
        cpu: CpuId,
        /// Kind of the wheel.
        kind: WheelKind,
        /// The tick in progress.
        now: Tick,
    },
    /// A coarse timer fires. An `ExpireExit` follows. The base is not locked.
    WheelExpire {
        /// The timer.
        timer: TimerId,
        /// The address of its callback's code.
        code: usize,
        /// The argument of the timer's callback.
        timeout: Timeout,
    },
    /// The tick of a CPU was stopped. The event is not repeated while the tick is stopped.
    TickStop {
        /// The CPU.
        cpu: CpuId,
        /// The time at which the CPU wakes up.
        wake: Instant,
    },
    /// The tick of a CPU runs again.
    TickStart {
        /// The CPU.
        cpu: CpuId,
        /// The time of the next tick.
        due: Instant,
    },
    /// A CPU enters its idle loop: from now on its tick may be stopped.
    IdleBegin {
        /// The CPU.
        cpu: CpuId,
    },
    /// A CPU leaves its idle loop.
    IdleEnd {
        /// The CPU.
        cpu: CpuId,
    },
    /// An evaluation found that the CPU keeps its tick, or, where that is stopped, that the CPU should not sleep now.
    TickKept {
        /// The CPU.
        cpu: CpuId,
        /// The reason.
        keep: KeepReason,
    },
    /// An evaluation found that the tick stays stopped until `wake`; follows the `TickStop` where it ran until then.
    TickLeft {
        /// The CPU.
        cpu: CpuId,
        /// The time at which the CPU wakes up.
        wake: Instant,
    },
    /// A step in the migration hierarchy. The host reports it, by [`HierarchyHost::step`], because the hierarchy knows
    /// no platform.
    ///
    /// [`HierarchyHost::step`]: crate::hierarchy::HierarchyHost::step
    Hierarchy {
        /// The number of the hierarchy; 0 on a host with one.
        tree: u32,
        /// The step.
        step: Step,
    },
    /// A timer moved to another base.
    Move {
        /// The timer.
        timer: TimerId,
        /// The CPU from which the timer moves.
        from: CpuId,
        /// The CPU to which the timer moves.
        to: CpuId,
    },
}

//! The present state of the timers: the pending timers of each queue, and each CPU with its device.
//!
//! [`Timers::report`] and [`Timers::for_each_pending`] return records for programs; [`Timers::dump`] prints the records
//! in the layout of `/proc/timer_list` (spec ). These functions allocate no memory and change no state.
//!
//! # Limits
//!
//! Each record was true when it was copied. Timers are copied [`BATCH`] at a time with the base of their CPU locked: a
//! CPU with fewer timers shows each of them once, whatever is started or fires meanwhile. Each further batch walks past
//! the timers before it. So a queue that changes meanwhile may show a timer twice or not at all, and a queue with very
//! many timers keeps its CPU waiting for as long as a walk through the queue takes.

use core::fmt;

use tickless_link::entry::EntryRef;
use tickless_link::sync::Ordering;

use crate::base::cpu_base::CpuBase;
use crate::base::state::{BaseState, DeferredRearm};
use crate::base::stats::Stats;
use crate::base::timers::Timers;
use crate::cpu::CpuId;
use crate::event::{DeviceKind, DeviceState, EventDevice, Programmed};
use crate::exact::family::{ExpiryRange, Hr, Tag};
use crate::exact::far_wheel;
use crate::exact::queues::QUEUES;
use crate::hrtimer::timer::Stage;
use crate::platform::Platform;
use crate::slots::geometry::{Slot, Tick};
use crate::time::convert::Scale;
use crate::time::{Clock, Deadline, Instant, Offset, Span};
use crate::trace::TimerId;
use crate::wheel::cpu_wheel::CpuWheel;
use crate::wheel::family::{Coarse, WheelKind};

mod dump;

pub use crate::base::sleeper::WAKES;
pub(crate) use dump::At;
pub use dump::{DumpHost, Plain};

/// The number of timers that are copied under the lock at a time (spec DMP-2).
pub const BATCH: usize = 32;

/// A timer that is pending.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PendingTimer {
    /// The timer's identity in traces: its address, which is never dereferenced. An address helps attackers, so do not
    /// show it to untrusted readers.
    pub id: TimerId,
    /// The address of the callback's code. Do not show it to untrusted readers either.
    pub code: usize,
    /// The type of the callback; [`WAKES`] for a timer that wakes a task.
    pub callback: &'static str,
    /// True if the callback executes at this moment, and the timer was started again meanwhile.
    pub is_running: bool,
    /// The queue that holds the timer, and its deadline.
    pub queued: Queued,
}

/// The queue that holds a timer, and its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Queued {
    /// The timer is in the sorted queue of a clock and a stage.
    Sorted {
        /// The clock of the times.
        clock: Clock,
        /// The stage in which the timer fires: hard or soft.
        stage: Stage,
        /// The earliest time at which the timer may fire, in nanoseconds of its clock.
        soft: i64,
        /// The latest time at which the timer should fire, in nanoseconds of its clock.
        hard: i64,
        /// The key by which the timer is sorted. It is not after `hard`.
        filed: i64,
        /// True if the timer is lazy: the device is not written for it when it moves later or is cancelled.
        lazy: bool,
    },
    /// The timer is in the far wheel: unsorted, in a bucket that is due before the timer may fire. It is a hard timer
    /// on the monotonic clock.
    Far {
        /// The earliest time at which the timer may fire, in nanoseconds.
        soft: i64,
        /// The latest time at which the timer should fire, in nanoseconds.
        hard: i64,
        /// The time at which its bucket is due. At this time the timer moves to a finer bucket, or is sorted.
        filed: i64,
    },
    /// The timer is on a wheel.
    Wheel {
        /// The kind of the wheel.
        kind: WheelKind,
        /// The tick that must be over when the timer fires.
        expiry: Tick,
        /// The time at which its slot is due.
        due: Tick,
    },
}

impl Queued {
    /// Returns the part of its CPU's queues that holds the timer.
    #[must_use]
    pub const fn part(self) -> Part {
        match self {
            Self::Sorted { clock, stage, .. } => {
                Part::Sorted(clock as usize + if matches!(stage, Stage::Soft) { 4 } else { 0 })
            }
            Self::Far { .. } => Part::Far,
            Self::Wheel { kind, .. } => Part::Wheel(kind),
        }
    }
}

/// A part of the queues of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The sorted queue of that number: the number of its clock, and four more for the soft stage.
    Sorted(usize),
    /// The far wheel.
    Far,
    /// A wheel.
    Wheel(WheelKind),
}

impl Part {
    /// Returns all parts, in the order in which a dump shows them.
    pub fn all() -> impl Iterator<Item = Self> {
        let sorted = (0..QUEUES).map(Self::Sorted);
        sorted
            .chain([Self::Far])
            .chain(WheelKind::ALL.map(Self::Wheel))
    }
}

/// The state of a wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WheelReport {
    /// The kind of the wheel.
    pub kind: WheelKind,
    /// The first tick that the wheel has not processed yet.
    pub clock: Tick,
    /// A tick before which no timer is due; `None` if the wheel is empty.
    pub first_due: Option<Tick>,
    /// The number of timers on the wheel.
    pub pending: usize,
    /// True if a CPU executes a pass over the wheel.
    pub is_running: bool,
}

/// The abilities and the state of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceReport {
    /// The name of the device.
    pub name: &'static str,
    /// The way in which the device is programmed.
    pub kind: DeviceKind,
    /// The state of the device.
    pub state: DeviceState,
    /// The shortest delay.
    pub min_delay: Span,
    /// The longest delay.
    pub max_delay: Span,
    /// The scale from nanoseconds to its ticks.
    pub scale: Scale,
    /// The event that was programmed last.
    pub programmed: Programmed,
    /// The instant that was requested last.
    pub next_event: Instant,
    /// The number of failed attempts to program the minimum.
    pub retries: u64,
}

impl DeviceReport {
    /// Returns the abilities and the state of `device`.
    #[must_use]
    pub const fn of(device: &EventDevice) -> Self {
        Self {
            name: device.config().name,
            kind: device.config().kind,
            state: device.state(),
            min_delay: device.min_delay(),
            max_delay: device.max_delay(),
            scale: device.scale(),
            programmed: device.programmed(),
            next_event: device.next_event(),
            retries: device.retries(),
        }
    }
}

/// The state of a CPU at one moment.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CpuReport {
    /// The number of the CPU.
    pub cpu: CpuId,
    /// True if the CPU takes part in timing.
    pub is_online: bool,
    /// The time for which the device is programmed; [`Instant::FOREVER`] if the device is not programmed, while the
    /// interrupt handler runs, or while a rearm is deferred.
    pub armed: Instant,
    /// True if the last interrupt gave up, so that the device fires later than the first timer.
    pub is_backing_off: bool,
    /// True if the soft stage was raised and has not finished.
    pub soft_pending: bool,
    /// The time at which the soft stage has to be raised.
    pub soft_next: Instant,
    /// True if the CPU is noted as sleeping until its first wheel is due.
    pub wheels_sleep: bool,
    /// The number of timers in sorted queues.
    pub sorted: usize,
    /// The number of timers in the far wheel.
    pub far: usize,
    /// The offsets of the CPU's clocks from the monotonic clock, in the order of [`Clock::ALL`].
    pub offsets: [Offset; 4],
    /// The wheels of the CPU, by [`WheelKind`].
    pub wheels: [WheelReport; WheelKind::COUNT],
    /// The device of the CPU.
    pub device: DeviceReport,
    /// The counters of the CPU.
    pub stats: Stats,
    deferred: DeferredRearm,
}

impl CpuReport {
    /// Returns true if a write of the device is deferred, or if a running interrupt will write the device.
    #[must_use]
    pub fn owes_rearm(&self) -> bool {
        self.deferred != DeferredRearm::Clear
    }
}

impl<P: Platform> Timers<P> {
    /// Returns the state of `cpu`; `None` if the host has no such CPU.
    ///
    /// # Cost
    ///
    /// One lock.
    pub fn report(&self, cpu: CpuId) -> Option<CpuReport> {
        let held = self.lock(cpu)?;
        Some(report(held.base, &held.state))
    }

    /// Calls `visit` for every pending timer of `cpu`, without holding a lock. The parts come in the order of
    /// [`Part::all`]. Within a part, sorted timers come in the order of their keys, and other timers in the order of
    /// their slots.
    ///
    /// # Errors
    ///
    /// The first error of `visit`, which ends the walk.
    pub fn for_each_pending(
        &self,
        cpu: CpuId,
        mut visit: impl FnMut(&PendingTimer) -> fmt::Result,
    ) -> fmt::Result {
        // The part that is copied next, and how many of it were shown.
        let (mut next, mut shown) = (0, 0);
        loop {
            let Some(held) = self.lock(cpu) else {
                return Ok(());
            };
            let mut batch = Batch::new(shown);
            // All parts that there is room for, as of one moment: a timer may be on its way from one to another.
            for part in Part::all().skip(next) {
                shown += batch.copy(&held.state, part);
                if batch.is_full() {
                    break;
                }
                (next, shown) = (next + 1, 0);
            }
            drop(held);
            for timer in &batch.timers[..batch.count] {
                visit(timer)?;
            }
            if !batch.is_full() {
                return Ok(());
            }
        }
    }

    /// Calls `visit` for every timer that is queued on `cpu` at one moment. The second argument is true for an exact
    /// timer. A trace that begins now uses the function. `visit` is called with the base locked, and must not use
    /// timers.
    ///
    /// # Cost
    ///
    /// One lock, held for a walk through all these timers.
    pub fn for_each_queued(&self, cpu: CpuId, mut visit: impl FnMut(TimerId, bool)) {
        let Some(held) = self.lock(cpu) else { return };
        let state = &*held.state;
        for part in Part::all() {
            match part {
                Part::Sorted(index) => state.queues[index].tree.for_each(0, |entry, _, _| {
                    visit(TimerId(entry.address()), true);
                    true
                }),
                Part::Far => state.far.buckets().for_each(|entry, _, _| {
                    visit(TimerId(entry.address()), true);
                    true
                }),
                Part::Wheel(kind) => {
                    state.wheels[kind as usize]
                        .buckets
                        .for_each(|entry, _, ()| {
                            visit(TimerId(entry.address()), false);
                            true
                        });
                }
            }
        }
    }
}

fn report<P: Platform>(base: &CpuBase<P>, state: &BaseState) -> CpuReport {
    CpuReport {
        cpu: base.cpu(),
        is_online: base.is_online(),
        armed: base.armed(),
        is_backing_off: state.hang,
        soft_pending: state.soft_pending,
        soft_next: state.soft_next,
        // Relaxed: written with the base locked, or by the CPU when it wakes, which is not waited for.
        wheels_sleep: base.wheel_idle.load(Ordering::Relaxed),
        sorted: state.queues.pending(),
        far: state.far.buckets().len(),
        offsets: core::array::from_fn(|clock| state.queues[clock].offset),
        wheels: WheelKind::ALL.map(|kind| report_wheel(&state.wheels[kind as usize], kind)),
        device: DeviceReport::of(&state.device),
        stats: state.stats.told(),
        deferred: state.deferred,
    }
}

fn report_wheel(wheel: &CpuWheel, kind: WheelKind) -> WheelReport {
    let due = wheel.next_expiry();
    WheelReport {
        kind,
        clock: wheel.pending_map.clock(),
        first_due: (due != u64::MAX).then_some(Tick(due)),
        pending: wheel.buckets.len(),
        is_running: wheel.has_pass(),
    }
}

/// The records of timers that are copied with the lock held.
struct Batch {
    timers: [PendingTimer; BATCH],
    count: usize,
    /// The number of entries that earlier batches showed.
    skip: usize,
}

impl Batch {
    fn new(skip: usize) -> Self {
        let none = PendingTimer {
            id: TimerId(0),
            code: 0,
            callback: "",
            is_running: false,
            queued: Queued::Far {
                soft: 0,
                hard: 0,
                filed: 0,
            },
        };
        Self {
            timers: [none; BATCH],
            count: 0,
            skip,
        }
    }

    fn is_full(&self) -> bool {
        self.count == BATCH
    }

    /// Copies timers of a part until the batch is full. Returns the number of copied timers.
    fn copy(&mut self, state: &BaseState, part: Part) -> usize {
        let before = self.count;
        match part {
            Part::Sorted(index) => {
                let skip = core::mem::take(&mut self.skip);
                let tree = &state.queues[index].tree;
                tree.for_each(skip, |entry, filed, head| {
                    self.take_exact(entry, |tag| sorted(tag, filed, *head))
                });
            }
            Part::Far => state.far.buckets().for_each(|entry, list, head| {
                let due = far_wheel::instant_of(state.far.due_of(Slot::numbered(list)));
                self.take_exact(entry, |_| Queued::Far {
                    soft: head.earliest().as_nanos(),
                    hard: head.deadline().as_nanos(),
                    filed: due.as_nanos(),
                })
            }),
            Part::Wheel(kind) => self.copy_wheel(kind, &state.wheels[kind as usize]),
        }
        // It counts for the first part alone, which may have got shorter.
        self.skip = 0;
        self.count - before
    }

    fn copy_wheel(&mut self, kind: WheelKind, wheel: &CpuWheel) {
        // Those that are pending for the pass come first, and carry the numbers of lists that may be in use again.
        let mut pending = wheel.buckets.pending_len();
        wheel.buckets.for_each(|entry, list, ()| {
            let due = if pending > 0 {
                pending -= 1;
                wheel.pending_due()
            } else {
                wheel.pending_map.due_of(Slot::numbered(list))
            };
            self.take_coarse(entry, kind, due)
        });
    }

    fn take_exact(&mut self, entry: EntryRef<'_, Hr>, queued: impl FnOnce(Tag) -> Queued) -> bool {
        self.take(|| PendingTimer {
            id: TimerId(entry.address()),
            code: entry.code_address(),
            callback: entry.callback_name(),
            is_running: entry.state().is_running(),
            queued: queued(entry.tag()),
        })
    }

    fn take_coarse(&mut self, entry: EntryRef<'_, Coarse>, kind: WheelKind, due: Tick) -> bool {
        self.take(|| PendingTimer {
            id: TimerId(entry.address()),
            code: entry.code_address(),
            callback: entry.callback_name(),
            is_running: entry.state().is_running(),
            queued: Queued::Wheel {
                kind,
                expiry: entry.shared().get(),
                due,
            },
        })
    }

    /// Skips or copies another timer. Returns true if the batch is not full.
    fn take(&mut self, timer: impl FnOnce() -> PendingTimer) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return true;
        }
        self.timers[self.count] = timer();
        self.count += 1;
        !self.is_full()
    }
}

fn sorted(tag: Tag, filed: Deadline, head: ExpiryRange) -> Queued {
    Queued::Sorted {
        clock: tag.clock(),
        stage: if tag.is_soft() {
            Stage::Soft
        } else {
            Stage::Hard
        },
        soft: head.earliest().as_nanos(),
        hard: head.deadline().as_nanos(),
        filed: filed.as_nanos(),
        lazy: tag.is_lazy(),
    }
}

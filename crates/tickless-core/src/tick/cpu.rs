//! The tick of one CPU: if it runs, and when the next one is (spec C-7.3 to C-7.5).

use super::count::SeenCounts;
use crate::cpu::CpuId;
use crate::time::forward::forward;
use crate::time::{Deadline, Instant, Monotonic, Span};

/// The role of a CPU: it may run tasks without a tick, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The CPU may count ticks for all.
    Housekeeping,
    /// The CPU's tasks run without a tick where nothing [depends](super::Dependencies) on one (spec C-5.5). It never
    /// has the duty of counting.
    TicklessTasks,
}

/// The activity of a CPU, as far as its tick is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// The CPU is offline.
    Offline,
    /// The CPU runs work.
    Task,
    /// The CPU is in its idle loop, or in an interrupt of that.
    Idle,
}

/// State of the tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The next one is due then.
    Ticking { due: Instant },
    StoppedTick {
        /// The tick that was due next when it was stopped: its phase is kept for ever.
        resumes: Instant,
        /// Time that its timer was started for last, [`Instant::FOREVER`] for nothing; `None` when that is used up
        /// (R36).
        programmed: Option<Instant>,
    },
}

/// The state of a CPU's tick.
///
/// It belongs to its CPU: only that CPU, with timer delivery masked, may use it. The host keeps it where that is so.
#[derive(Debug)]
pub struct CpuTick {
    cpu: CpuId,
    role: Role,
    pub(super) context: Context,
    pub(super) mode: Mode,
    pub(super) watch: SeenCounts,
}

impl CpuTick {
    /// Makes the record of a CPU that is not online.
    #[must_use]
    pub fn new(cpu: CpuId, role: Role) -> Self {
        Self {
            cpu,
            role,
            context: Context::Offline,
            mode: Mode::Ticking {
                due: Instant::FOREVER,
            },
            watch: SeenCounts::default(),
        }
    }

    /// Returns the CPU of the tick.
    #[must_use]
    pub const fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// Returns the purpose of the CPU.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Returns the activity of the CPU.
    #[must_use]
    pub const fn context(&self) -> Context {
        self.context
    }

    /// Returns true if the tick is stopped.
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        matches!(self.mode, Mode::StoppedTick { .. })
    }

    /// Returns the time of the next tick. If the tick is stopped, returns the time for which its timer is started
    /// instead, if that is known.
    #[must_use]
    pub const fn next(&self) -> Option<Instant> {
        match self.mode {
            Mode::Ticking { due } => Some(due),
            Mode::StoppedTick { programmed, .. } => programmed,
        }
    }

    /// Stops the tick, or notes that it wakes up at another time: the time for which its timer is to be started, `None`
    /// if the timer was started for that last.
    pub(super) fn stop(&mut self, wake: Instant) -> Option<Instant> {
        let (resumes, before) = match self.mode {
            Mode::Ticking { due } => (due, None),
            Mode::StoppedTick {
                resumes,
                programmed,
            } => (resumes, programmed),
        };
        self.mode = Mode::StoppedTick {
            resumes,
            programmed: Some(wake),
        };
        (before != Some(wake)).then_some(wake)
    }

    /// Lets the tick run again, in the phase that it had; returns when the next one is due. `None` if it runs.
    pub(super) fn resume(&mut self, now: Instant, period: Span) -> Option<Instant> {
        let Mode::StoppedTick { resumes, .. } = self.mode else {
            return None;
        };
        let due = after(resumes, now, period).0;
        self.mode = Mode::Ticking { due };
        Some(due)
    }

    /// The timer of the tick fired at `now`: when it is due next, and how many ticks were left out before. A stopped
    /// one is not started: whatever it was for is used up.
    pub(super) fn fired(&mut self, now: Instant, period: Span) -> (Option<Instant>, u64) {
        match &mut self.mode {
            Mode::Ticking { due } => {
                let (next, passed) = after(*due, now, period);
                *due = next;
                // One of them is this one.
                (Some(next), passed.saturating_sub(1))
            }
            Mode::StoppedTick { programmed, .. } => {
                *programmed = None;
                (None, 0)
            }
        }
    }
}

/// The first instant of the phase of `due` that is after `now`, not before `due` itself, and by how many periods it was
/// moved on (spec C-7.5).
fn after(due: Instant, now: Instant, period: Span) -> (Instant, u64) {
    let mut deadline = Deadline::new(due);
    let mut earliest = deadline;
    let passed = forward(&mut deadline, &mut earliest, Deadline::new(now), period);
    (deadline.instant::<Monotonic>(), passed)
}

/// Returns by how much the tick of `cpu`, one of `cpus`, is behind the count: half a period, spread over all CPUs, so
/// that not all want the same locks at once (spec C-7.2). Rounds down. A host without this skew uses [`Span::ZERO`].
#[must_use]
pub fn skew(cpu: CpuId, cpus: u32, period: Span) -> Span {
    let half = period.as_nanos() / 2;
    let share = half.checked_div(u64::from(cpus)).unwrap_or(0);
    Span::from_nanos(share.saturating_mul(u64::from(cpu.0)))
}

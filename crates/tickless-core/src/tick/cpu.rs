//! The tick of one CPU: whether it runs or is stopped, and the time of the next tick (spec C-7.3 to C-7.5).

use super::count::SeenCounts;
use crate::cpu::CpuId;
use crate::time::forward::forward;
use crate::time::{Deadline, Instant, Monotonic, Span};

/// The role of a CPU, which decides whether the CPU may run tasks without a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The CPU may have the duty of counting ticks for all CPUs.
    Housekeeping,
    /// The CPU's tasks run without a tick while none of them [depends](super::Dependencies) on the tick (spec C-5.5).
    /// The CPU never has the duty of counting.
    TicklessTasks,
}

/// The activity of a CPU, as far as its tick is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// The CPU is offline.
    Offline,
    /// The CPU runs work.
    Task,
    /// The CPU is in its idle loop, or in an interrupt of the idle loop.
    Idle,
}

/// The state of the tick: it runs or is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The tick runs. The next tick is at `due`.
    Ticking { due: Instant },
    StoppedTick {
        /// The time of the next tick at the moment of the stop. The tick keeps the phase of this time for ever.
        resumes: Instant,
        /// The time for which the timer of the tick was last started; [`Instant::FOREVER`] if the timer is not needed.
        /// `None` after the timer fired (R36).
        programmed: Option<Instant>,
    },
}

/// The state of a CPU's tick.
///
/// Only the CPU itself, with timer delivery masked, may use the state. The host stores the state so that this holds.
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

    /// Returns the role of the CPU.
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

    /// Returns the time of the next tick. If the tick is stopped, returns the time for which the timer of the tick is
    /// started, if that time is known.
    #[must_use]
    pub const fn next(&self) -> Option<Instant> {
        match self.mode {
            Mode::Ticking { due } => Some(due),
            Mode::StoppedTick { programmed, .. } => programmed,
        }
    }

    /// Stops the tick, or changes the wake-up time of a stopped tick. Returns the time for which the timer of the tick
    /// has to be started; `None` if the timer was last started for this time.
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

    /// Lets the tick run again, in its old phase. Returns the time of the next tick; `None` if the tick was not
    /// stopped.
    pub(super) fn resume(&mut self, now: Instant, period: Span) -> Option<Instant> {
        let Mode::StoppedTick { resumes, .. } = self.mode else {
            return None;
        };
        let due = after(resumes, now, period).0;
        self.mode = Mode::Ticking { due };
        Some(due)
    }

    /// Notes that the timer of the tick fired at `now`. Returns the time of the next tick, and the number of ticks that
    /// were skipped. The timer of a stopped tick is not started again.
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

/// Returns the first instant of the phase of `due` that is after `now` and not before `due`, and the number of periods
/// from `due` to that instant (spec C-7.5).
fn after(due: Instant, now: Instant, period: Span) -> (Instant, u64) {
    let mut deadline = Deadline::new(due);
    let mut earliest = deadline;
    let passed = forward(&mut deadline, &mut earliest, Deadline::new(now), period);
    (deadline.instant::<Monotonic>(), passed)
}

/// Returns the delay of the tick of `cpu` relative to the count of ticks. The delays spread half a period over all
/// `cpus` CPUs, so that the CPUs do not take the same locks at the same time (spec C-7.2). Rounds down. A host without
/// this skew uses [`Span::ZERO`].
#[must_use]
pub fn skew(cpu: CpuId, cpus: u32, period: Span) -> Span {
    let half = period.as_nanos() / 2;
    let share = half.checked_div(u64::from(cpus)).unwrap_or(0);
    Span::from_nanos(share.saturating_mul(u64::from(cpu.0)))
}

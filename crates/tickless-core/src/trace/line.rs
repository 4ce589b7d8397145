//! The lines of a trace file, as `tickless verify` reads it: one JSON object for each event.
//!
//! `docs/trace.md` has the format. A host assigns a number to each timer and a time to each event. The code here
//! allocates no memory.

use core::fmt;

use super::{Event, Placement, TimerId};
use crate::time::{Clock, Instant};
use crate::wheel::family::WheelKind;

mod hierarchy;

pub use hierarchy::Setting;

/// The name of the format, in the first line of a file.
pub const FORMAT: &str = "tickless-trace";
/// The version of the format.
pub const VERSION: u32 = 1;

/// The timer that an event concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An exact timer.
    Exact(TimerId),
    /// A coarse timer.
    Coarse(TimerId),
    /// A timer of either kind. Earlier events of the timer determine the kind.
    Either(TimerId),
}

/// The number of a timer in a file, and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// The number of the timer.
    pub number: u64,
    /// True if the timer is an exact timer.
    pub is_exact: bool,
}

impl Number {
    /// A placeholder for the timer of an event that concerns no timer; its line does not show the number.
    pub const NONE: Self = Self {
        number: 0,
        is_exact: false,
    };
}

/// The line of an event, without its end.
#[derive(Clone, Copy, Debug)]
pub struct Line<'e> {
    /// The time, in nanoseconds of the monotonic clock.
    pub time: i64,
    /// The CPU that executed; `None` for an event of the machine itself.
    pub cpu: Option<u32>,
    /// The event. [`Event::has_line`] must return true for it.
    pub event: &'e Event,
    /// The number of the timer that [`Event::subject`] returns. Ignored for an event without a subject.
    pub timer: Number,
}

impl Event {
    /// Returns the timer that the event concerns.
    #[must_use]
    pub const fn subject(&self) -> Option<Subject> {
        match *self {
            Self::Start { timer, .. }
            | Self::StartExpired { timer }
            | Self::ExpireEntry { timer, .. }
            | Self::Cancel { timer, .. } => Some(Subject::Exact(timer)),
            Self::WheelArm { timer, .. }
            | Self::WheelCancel { timer, .. }
            | Self::WheelExpire { timer, .. } => Some(Subject::Coarse(timer)),
            Self::ExpireExit { timer } | Self::Move { timer, .. } => Some(Subject::Either(timer)),
            _ => None,
        }
    }

    /// Returns true if a trace file has lines for events of this type.
    #[must_use]
    pub const fn has_line(&self) -> bool {
        match self {
            Self::Kick { .. } | Self::WheelPass { .. } => false,
            Self::Hierarchy { step, .. } => hierarchy::has_line(step),
            _ => true,
        }
    }
}

/// Returns the flags of a wheel in a trace file.
#[must_use]
pub const fn flags(kind: WheelKind) -> &'static str {
    match kind {
        WheelKind::Local => "pinned",
        WheelKind::Global => "global",
        WheelKind::Deferrable => "deferrable",
    }
}

/// Returns the name of a clock in a trace file.
#[must_use]
pub const fn clock_name(clock: Clock) -> &'static str {
    match clock {
        Clock::Monotonic => "monotonic",
        Clock::Realtime => "realtime",
        Clock::Boottime => "boottime",
        Clock::Tai => "tai",
    }
}

/// Returns the name of a [`Placement`] in a trace file.
#[must_use]
pub const fn place(stood: Placement) -> &'static str {
    match stood {
        Placement::Moved => "moved",
        Placement::InPlace => "in-place",
        Placement::FiledEarly => "filed-early",
        Placement::FarSlot => "far-slot",
    }
}

/// An instant as a number, or `null` for never.
struct OrNever(Instant);

impl fmt::Display for OrNever {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_forever() {
            return out.write_str("null");
        }
        write!(out, "{}", self.0.as_nanos())
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{{\"time\":{},\"cpu\":", self.time)?;
        match self.cpu {
            Some(cpu) => write!(out, "{cpu}")?,
            None => out.write_str("null")?,
        }
        match self.event.subject() {
            Some(Subject::Exact(_)) => self.exact(out)?,
            Some(Subject::Coarse(_)) => self.coarse(out)?,
            Some(Subject::Either(_)) => self.either(out)?,
            None => self.of_cpu(out)?,
        }
        out.write_str("}")
    }
}

impl Line<'_> {
    fn exact(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.timer.number;
        match *self.event {
            Event::Start {
                cpu,
                clock,
                hard,
                soft,
                was_armed,
                stood,
                ..
            } => write!(
                out,
                ",\"event\":\"hrtimer_start\",\"hrtimer\":{id},\"of_cpu\":{},\"clock\":\"{}\",\"expires\":{hard},\
                 \"softexpires\":{soft},\"was_armed\":{was_armed},\"place\":\"{}\"",
                cpu.0,
                clock_name(clock),
                place(stood)
            ),
            // A checked start took back what it had queued.
            Event::StartExpired { .. } => {
                write!(out, ",\"event\":\"hrtimer_cancel\",\"hrtimer\":{id}")
            }
            Event::Cancel { cpu, .. } => write!(
                out,
                ",\"event\":\"hrtimer_cancel\",\"hrtimer\":{id},\"of_cpu\":{}",
                cpu.0
            ),
            Event::ExpireEntry {
                cpu,
                now,
                hard,
                soft,
                ..
            } => write!(
                out,
                ",\"event\":\"hrtimer_expire_entry\",\"hrtimer\":{id},\"of_cpu\":{},\"now\":{now},\
                 \"expires\":{hard},\"softexpires\":{soft}",
                cpu.0
            ),
            _ => Ok(()),
        }
    }

    fn coarse(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.timer.number;
        match *self.event {
            Event::WheelArm {
                cpu,
                kind,
                now,
                expiry,
                due,
                was_armed,
                ..
            } => write!(
                out,
                ",\"event\":\"timer_start\",\"timer\":{id},\"of_cpu\":{},\"flags\":\"{}\",\"now\":{},\
                 \"expires\":{},\"bucket_expiry\":{},\"was_armed\":{was_armed}",
                cpu.0,
                flags(kind),
                now.0,
                expiry.0,
                due.0
            ),
            Event::WheelCancel { cpu, .. } => write!(
                out,
                ",\"event\":\"timer_cancel\",\"timer\":{id},\"of_cpu\":{}",
                cpu.0
            ),
            Event::WheelExpire { timeout, .. } => write!(
                out,
                ",\"event\":\"timer_expire_entry\",\"timer\":{id},\"of_cpu\":{},\"now\":{},\"expires\":{},\
                 \"bucket_expiry\":{}",
                timeout.cpu.0, timeout.now.0, timeout.expiry.0, timeout.due.0
            ),
            _ => Ok(()),
        }
    }

    fn either(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Number { number, is_exact } = self.timer;
        match *self.event {
            Event::ExpireExit { .. } if is_exact => write!(
                out,
                ",\"event\":\"hrtimer_expire_exit\",\"hrtimer\":{number}"
            ),
            Event::ExpireExit { .. } => {
                write!(out, ",\"event\":\"timer_expire_exit\",\"timer\":{number}")
            }
            Event::Move { from, to, .. } => write!(
                out,
                ",\"event\":\"timer_move\",\"timer\":{number},\"from_cpu\":{},\"of_cpu\":{}",
                from.0, to.0
            ),
            _ => Ok(()),
        }
    }

    fn of_cpu(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self.event {
            Event::TickStop { cpu, wake } => write!(
                out,
                ",\"event\":\"tick_stop\",\"of_cpu\":{},\"wake\":{}",
                cpu.0,
                OrNever(wake)
            ),
            Event::TickStart { cpu, due } => write!(
                out,
                ",\"event\":\"tick_start\",\"of_cpu\":{},\"due\":{}",
                cpu.0,
                OrNever(due)
            ),
            Event::TickOverdue { cpu, due } => write!(
                out,
                ",\"event\":\"tick_overdue\",\"of_cpu\":{},\"due\":{}",
                cpu.0,
                due.as_nanos()
            ),
            Event::IdleBegin { cpu } => {
                write!(out, ",\"event\":\"tick_idle_begin\",\"of_cpu\":{}", cpu.0)
            }
            Event::IdleEnd { cpu } => {
                write!(out, ",\"event\":\"tick_idle_end\",\"of_cpu\":{}", cpu.0)
            }
            Event::TickKept { cpu, keep } => write!(
                out,
                ",\"event\":\"tick_evaluate\",\"of_cpu\":{},\"kept\":\"{}\",\"wake\":null",
                cpu.0,
                keep.name()
            ),
            Event::TickLeft { cpu, wake } => write!(
                out,
                ",\"event\":\"tick_evaluate\",\"of_cpu\":{},\"kept\":null,\"wake\":{}",
                cpu.0,
                OrNever(wake)
            ),
            Event::Hierarchy { tree, ref step } => {
                hierarchy::write(step, out)?;
                hierarchy::write_tree(tree, out)
            }
            _ => self.of_device(out),
        }
    }

    fn of_device(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self.event {
            Event::Rearm {
                cpu,
                next,
                deferred,
            } => write!(
                out,
                ",\"event\":\"hrtimer_rearm\",\"of_cpu\":{},\"next\":{},\"deferred\":{deferred}",
                cpu.0,
                OrNever(next)
            ),
            Event::Clamped { cpu, event } => write!(
                out,
                ",\"event\":\"hrtimer_clamped\",\"of_cpu\":{},\"next\":{}",
                cpu.0,
                event.as_nanos()
            ),
            Event::WrittenLate { cpu, event } => write!(
                out,
                ",\"event\":\"hrtimer_written_late\",\"of_cpu\":{},\"next\":{}",
                cpu.0,
                event.as_nanos()
            ),
            Event::Spurious { cpu } => {
                write!(out, ",\"event\":\"hrtimer_spurious\",\"of_cpu\":{}", cpu.0)
            }
            Event::Hang { cpu, nanos } => write!(
                out,
                ",\"event\":\"hrtimer_hang\",\"of_cpu\":{},\"nanos\":{nanos}",
                cpu.0
            ),
            Event::Flush { cpu, reason, stale } => write!(
                out,
                ",\"event\":\"hrtimer_flush\",\"of_cpu\":{},\"point\":\"{}\",\"stale\":{stale}",
                cpu.0,
                reason.name()
            ),
            _ => Ok(()),
        }
    }
}

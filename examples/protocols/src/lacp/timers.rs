//! The timers of a port, as deadlines: pure state that a host mirrors.

use tickless_core::time::{Instant, Span};

/// `Fast_Periodic_Time` (clause 6.4.4, as the others).
pub const FAST_PERIODIC_TIME: Span = Span::from_secs(1);
/// `Slow_Periodic_Time`.
pub const SLOW_PERIODIC_TIME: Span = Span::from_secs(30);
/// `Short_Timeout_Time`.
pub const SHORT_TIMEOUT_TIME: Span = Span::from_secs(3);
/// `Long_Timeout_Time`.
pub const LONG_TIMEOUT_TIME: Span = Span::from_secs(90);
/// `Aggregate_Wait_Time`.
pub const AGGREGATE_WAIT_TIME: Span = Span::from_secs(2);
/// `Churn_Detection_Time`.
pub const CHURN_DETECTION_TIME: Span = Span::from_secs(60);

/// The timers of a port (clause 6.4.10), and one of the Transmit machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimerKind {
    /// `current_while_timer`: how long what the partner said last is believed.
    CurrentWhile = 0,
    /// `periodic_timer`: when the next LACPDU is sent unasked.
    Periodic,
    /// `wait_while_timer`: how long others are waited for that may attach too.
    WaitWhile,
    /// `actor_churn_timer`.
    ActorChurn,
    /// `partner_churn_timer`.
    PartnerChurn,
    /// The timer that ends the pause after three LACPDUs within a second (clause 6.4.16).
    Transmit,
}

impl TimerKind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::CurrentWhile,
        Self::Periodic,
        Self::WaitWhile,
        Self::ActorChurn,
        Self::PartnerChurn,
        Self::Transmit,
    ];
    /// The number of kinds.
    pub const COUNT: usize = Self::ALL.len();

    const fn index(self) -> usize {
        self as usize
    }
}

/// A change of a timer that the host has not been sent yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Started(Instant),
    Stopped,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// The deadline while the timer runs.
    deadline: Option<Instant>,
    /// The deadline that passed, until its machine looks.
    expired: Option<Instant>,
    is_changed: bool,
}

/// The timers of one port.
///
/// An expiry that comes late, for a timer that was restarted or stopped meanwhile, counts for nothing: what counts is
/// the deadline here.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    entries: [Entry; TimerKind::COUNT],
}

impl Timers {
    pub(super) fn start(&mut self, kind: TimerKind, deadline: Instant) {
        self.entries[kind.index()] = Entry {
            deadline: Some(deadline),
            expired: None,
            is_changed: true,
        };
    }

    pub(super) fn stop(&mut self, kind: TimerKind) {
        let entry = &mut self.entries[kind.index()];
        entry.is_changed |= entry.deadline.is_some();
        entry.deadline = None;
        entry.expired = None;
    }

    pub(super) fn deadline(&self, kind: TimerKind) -> Option<Instant> {
        self.entries[kind.index()].deadline
    }

    /// Notes that the host's timer fired; says whether its time is over indeed.
    pub(super) fn fired(&mut self, kind: TimerKind, now: Instant) -> bool {
        let entry = &mut self.entries[kind.index()];
        let Some(deadline) = entry.deadline.filter(|deadline| *deadline <= now) else {
            return false;
        };
        entry.deadline = None;
        entry.expired = Some(deadline);
        // The host's timer is idle already.
        entry.is_changed = false;
        true
    }

    /// The deadline that passed, once.
    pub(super) fn take_expired(&mut self, kind: TimerKind) -> Option<Instant> {
        self.entries[kind.index()].expired.take()
    }

    /// Returns the change that the host has to make to its timer, once.
    pub(super) fn take_change(&mut self, kind: TimerKind) -> Option<Change> {
        let entry = &mut self.entries[kind.index()];
        if !std::mem::take(&mut entry.is_changed) {
            return None;
        }
        Some(entry.deadline.map_or(Change::Stopped, Change::Started))
    }
}

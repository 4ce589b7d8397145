//! The timers of a port as deadlines, which are pure state that a host mirrors.

use tickless_core::time::{Instant, Span};

/// `Fast_Periodic_Time` (clause 6.4.4, which defines all times of this module).
pub const FAST_PERIODIC_TIME: Span = Span::from_secs(1);
/// `Slow_Periodic_Time`.
pub const SLOW_PERIODIC_TIME: Span = Span::from_secs(30);
/// `Short_Timeout_Time`.
pub(super) const SHORT_TIMEOUT_TIME: Span = Span::from_secs(3);
/// `Long_Timeout_Time`.
pub(super) const LONG_TIMEOUT_TIME: Span = Span::from_secs(90);
/// `Aggregate_Wait_Time`.
pub(super) const AGGREGATE_WAIT_TIME: Span = Span::from_secs(2);
/// `Churn_Detection_Time`.
pub(super) const CHURN_DETECTION_TIME: Span = Span::from_secs(60);

/// The timers of a port (clause 6.4.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimerKind {
    /// `current_while_timer`: the time for which the last LACPDU of the partner is valid.
    CurrentWhile = 0,
    /// `periodic_timer`: the time of the next periodic LACPDU.
    Periodic,
    /// `wait_while_timer`: the time for which a port waits for other ports that may attach too.
    WaitWhile,
    /// `actor_churn_timer`.
    ActorChurn,
    /// `partner_churn_timer`.
    PartnerChurn,
}

impl TimerKind {
    /// All kinds of timers.
    pub const ALL: [Self; 5] = [
        Self::CurrentWhile,
        Self::Periodic,
        Self::WaitWhile,
        Self::ActorChurn,
        Self::PartnerChurn,
    ];
    /// The number of kinds of timers.
    pub const COUNT: usize = Self::ALL.len();
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// The deadline while the timer runs.
    deadline: Option<Instant>,
    /// The deadline that passed, until the machine of the timer takes it.
    expired: Option<Instant>,
    is_changed: bool,
}

/// The timers of one port.
///
/// A late expiry of the host's timer, for a timer that was restarted or stopped meanwhile, has no effect: only the
/// deadline in this structure counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    entries: [Entry; TimerKind::COUNT],
}

impl Timers {
    pub(super) fn start(&mut self, kind: TimerKind, deadline: Instant) {
        self.entries[kind as usize] = Entry {
            deadline: Some(deadline),
            expired: None,
            is_changed: true,
        };
    }

    pub(super) fn stop(&mut self, kind: TimerKind) {
        let entry = &mut self.entries[kind as usize];
        entry.is_changed |= entry.deadline.is_some();
        entry.deadline = None;
        entry.expired = None;
    }

    pub(super) fn deadline(&self, kind: TimerKind) -> Option<Instant> {
        self.entries[kind as usize].deadline
    }

    /// Notes that the host's timer fired; returns true if its deadline has really passed.
    pub(super) fn fired(&mut self, kind: TimerKind, now: Instant) -> bool {
        let entry = &mut self.entries[kind as usize];
        let Some(deadline) = entry.deadline.filter(|deadline| *deadline <= now) else {
            return false;
        };
        entry.deadline = None;
        entry.expired = Some(deadline);
        // The host's timer is idle already.
        entry.is_changed = false;
        true
    }

    /// Returns the deadline that passed, once.
    pub(super) fn take_expired(&mut self, kind: TimerKind) -> Option<Instant> {
        self.entries[kind as usize].expired.take()
    }

    /// Returns the timers that the host has to start or to stop, each change once.
    pub(super) fn take_changes(&mut self) -> impl Iterator<Item = (TimerKind, Option<Instant>)> {
        let changed = |(kind, entry): (_, &mut Entry)| {
            std::mem::take(&mut entry.is_changed).then_some((kind, entry.deadline))
        };
        TimerKind::ALL
            .into_iter()
            .zip(&mut self.entries)
            .filter_map(changed)
    }
}

//! The possible lives of timers, against which a trace is checked.

use alloc::collections::BTreeMap;

use tickless_core::trace::{Event, TimerId};

/// The state of one timer according to the trace.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    queued: bool,
    running: bool,
}

/// A checker that follows a trace and checks that every timer in it has a possible life (ORACLE-6). A timer is started,
/// and fires or is cancelled. A restart is one event, which says whether the timer was pending (spec TR-1).
#[derive(Debug, Default)]
pub struct Grammar {
    lives: BTreeMap<TimerId, Life>,
    rearms: u64,
    last_start: Option<TimerId>,
}

impl Grammar {
    /// Makes a checker for a trace that begins with all timers idle.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of device writes so far.
    #[must_use]
    pub const fn rearms(&self) -> u64 {
        self.rearms
    }

    /// Checks the next part of the trace.
    ///
    /// # Panics
    ///
    /// Panics on an event that is not possible at its place in the trace.
    pub fn follow(&mut self, trace: &[Event]) {
        for event in trace {
            let last_start = self.last_start.take();
            match *event {
                Event::Start {
                    timer,
                    was_armed,
                    stood,
                    hard,
                    soft,
                    ..
                } => {
                    let life = self.lives.entry(timer).or_default();
                    assert_eq!(life.queued, was_armed, "TR-1: {event:?} after {life:?}");
                    assert!(
                        was_armed || !stood.is_kept(),
                        "only what is queued has a place"
                    );
                    assert!(soft <= hard, "OBJ-8: slack is not negative");
                    life.queued = true;
                    self.last_start = Some(timer);
                }
                Event::StartExpired { timer } => {
                    assert_eq!(last_start, Some(timer), "it follows the start it refuses");
                    self.lives.entry(timer).or_default().queued = false;
                }
                Event::ExpireEntry {
                    timer, now, soft, ..
                } => {
                    let life = self.lives.entry(timer).or_default();
                    assert!(life.queued, "a timer fires that is not queued");
                    assert!(!life.running, "a callback runs twice at once");
                    assert!(now >= soft, "A4: a timer fires early");
                    *life = Life {
                        queued: false,
                        running: true,
                    };
                }
                Event::ExpireExit { timer } => {
                    let life = self.lives.entry(timer).or_default();
                    assert!(life.running, "a callback ends that has not begun");
                    life.running = false;
                }
                Event::Cancel { timer, .. } => {
                    let life = self.lives.entry(timer).or_default();
                    assert!(life.queued, "a cancel is traced for a pending timer only");
                    assert!(!life.running, "a running timer is not cancelled");
                    life.queued = false;
                }
                Event::Rearm { .. } => self.rearms += 1,
                _ => {}
            }
        }
    }
}

//! The promises, looked at from outside.

use std::collections::BTreeMap;

use tickless_core::platform::CpuId;
use tickless_core::trace::{Event, TimerId};

use crate::machine::{Config, Machine};

/// Everything that must hold whenever no base is locked and no interrupt is under way (spec 4.7), against the devices.
///
/// # Panics
///
/// When something does not hold.
pub fn invariants<C: Config>(machine: &Machine<C>) {
    for cpu in 0..machine.cpus() {
        machine.timers().assert_valid(CpuId(cpu));
        armed_not_later_than_first(machine, cpu);
        assert_eq!(
            machine.stats(cpu).missed_flushes,
            0,
            "S6: an interrupt of CPU {cpu} found a rearm that an earlier one still owed"
        );
    }
}

/// INV-1, against the device itself: it fires when the first timer is due, or before.
fn armed_not_later_than_first<C: Config>(machine: &Machine<C>, cpu: u32) {
    let state = machine.cpu(cpu);
    let base = state.base.get().expect("every CPU has a base");
    if !base.is_online() || state.rearm_owed.get() || state.depth.get() > 0 || state.kicked.get() {
        return;
    }
    if machine.timers().is_backing_off(CpuId(cpu)) {
        return;
    }
    let first = machine.timers().next_event(CpuId(cpu));
    if first.is_forever() {
        return;
    }
    let fires = machine.fires_at(cpu);
    let shows = fires.map(|at| machine.monotonic_at(at));
    let due = first.as_nanos().max(machine.monotonic().as_nanos());
    let latest = due.saturating_add(state.device.tolerance());
    assert!(
        shows.is_some_and(|shows| shows <= latest),
        "INV-1: the first timer of CPU {cpu} is due at {first:?}, but its device fires at {shows:?}"
    );
}

/// What the trace says of one timer.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    queued: bool,
    running: bool,
}

/// Follows a trace and checks that every timer in it has a possible life (oracle O6): it is started, fires or is
/// cancelled, and a restart is one event that knows whether the timer was pending (spec TR-1).
#[derive(Debug, Default)]
pub struct Grammar {
    lives: BTreeMap<TimerId, Life>,
    rearms: u64,
    last_start: Option<TimerId>,
}

impl Grammar {
    /// Starts with timers that are all idle.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes to devices so far.
    #[must_use]
    pub const fn rearms(&self) -> u64 {
        self.rearms
    }

    /// Follows the trace on.
    ///
    /// # Panics
    ///
    /// When an event cannot come where it stands.
    pub fn follow(&mut self, trace: &[Event]) {
        for event in trace {
            let last_start = self.last_start.take();
            match *event {
                Event::Start {
                    timer,
                    was_armed,
                    in_place,
                    hard,
                    soft,
                    ..
                } => {
                    let life = self.lives.entry(timer).or_default();
                    assert_eq!(life.queued, was_armed, "TR-1: {event:?} after {life:?}");
                    assert!(was_armed || !in_place, "only what is queued has a place");
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

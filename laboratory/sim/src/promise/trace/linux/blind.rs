//! What a recorder sees of each CPU.

use std::collections::BTreeMap;

use super::Record;

/// The events that only the idle task writes, outside of interrupts.
const OF_IDLE: [&str; 5] = [
    "tick_stop",
    "timer_base_idle",
    "cpu_idle",
    "tmigr_cpu_idle",
    "tmigr_cpu_active",
];

/// The number of events in interrupts of an idle task from which on it must have written others, too. An idle task that
/// was interrupted was entered before.
const ENOUGH: u64 = 20;

/// The longest silence of a CPU before the end of the trace that is not taken for lost events, in nanoseconds.
const SILENCE: i64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    inside: u64,
    outside: u64,
    last: i64,
}

/// The events of each CPU.
#[derive(Debug, Default)]
pub(super) struct Sight(BTreeMap<u32, Seen>);

impl Sight {
    /// Takes an event.
    pub(super) fn see(&mut self, record: &Record<'_>) {
        let seen = self.0.entry(record.cpu).or_default();
        seen.last = record.time;
        if record.pid != 0 {
            return;
        }
        let is_inside = match record.context {
            Some(context) => context != b'.',
            None => matches!(record.event, "hrtimer_expire_entry" | "local_timer_entry"),
        };
        seen.inside += u64::from(is_inside);
        seen.outside += u64::from(record.context == Some(b'.') || OF_IDLE.contains(&record.event));
    }

    /// Returns the time of the last event of a CPU.
    pub(super) fn last(&self, cpu: u32) -> Option<i64> {
        self.0.get(&cpu).map(|seen| seen.last)
    }

    /// Returns the CPUs whose idle task the recorder does not see.
    pub(super) fn blind(&self) -> Vec<u32> {
        let is_blind = |seen: &Seen| seen.outside == 0 && seen.inside >= ENOUGH;
        self.those(is_blind)
    }

    /// Returns the CPUs without an event for a long time before `end`.
    pub(super) fn silent(&self, end: i64) -> Vec<u32> {
        self.those(|seen| end.saturating_sub(seen.last) > SILENCE)
    }

    fn those(&self, are: impl Fn(&Seen) -> bool) -> Vec<u32> {
        let all = self.0.iter().filter(|(_, seen)| are(seen));
        all.map(|(cpu, _)| *cpu).collect()
    }
}

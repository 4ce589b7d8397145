//! `never_lost`: an armed timer fires, is cancelled, or waits for a time that has not come.
//!
//! Checked at the end of the run. Each lost timer counts, as in `tickless verify`.

use std::fmt::Display;

use tickless_core::time::{Clock, Instant};

use crate::clock::Clocks;
use crate::model::current_cpu;
use crate::model::time::Picos;
use crate::promise::ledger::{Due, Ledger, Queued};

/// Describes the violation if `found` timers are queued and `expected` should be.
pub(super) fn miscounted(found: u64, expected: i64) -> Option<String> {
    (i64::try_from(found) != Ok(expected))
        .then(|| format!("{found} timers are queued at the end, and {expected} should be"))
}

/// Describes the violation for an overdue timer, described by `whose`.
pub(super) fn overdue(whose: impl Display, late: impl Display) -> String {
    format!("{whose} is queued still, {late} late")
}

/// Returns the due times, as known at `end`, of the timers of `cpu` in the ledger that were due before `oldest`.
pub(super) fn listed(
    ledger: &Ledger,
    clocks: &Clocks,
    (cpu, tick): (u32, Picos),
    (oldest, end): (Picos, Picos),
) -> Vec<Picos> {
    let of_cpu = ledger.queued().filter(|queued| queued.cpu == cpu);
    let due = of_cpu.filter_map(|queued| due(*queued, clocks, tick, end));
    due.filter(|due| *due < oldest).collect()
}

/// Returns the time at which a timer was due, by the monotonic clock, if it is due at `end`.
fn due(queued: Queued, clocks: &Clocks, tick: Picos, end: Picos) -> Option<Picos> {
    match queued.due {
        Due::Tick(number) => Some(tick * number.0),
        Due::At(Clock::Monotonic, nanos) => Some(Picos::of_instant(Instant::from_nanos(nanos))),
        Due::At(clock, nanos) => {
            let shown = clocks.shows(current_cpu::NO_CPU, end);
            let since = clocks.due_for(clock, nanos, shown)?;
            Some(Picos::of_instant(shown) - Picos::from_nanos(since))
        }
        Due::Never => None,
    }
}

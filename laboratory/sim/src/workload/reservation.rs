//! Reservations of workloads: the guaranteed share of its CPU that each task has.

use serde::Serialize;
use tickless_core::time::Span;
use tickless_sched::deadline::Reservation;
use toml::Spanned;

use super::{Placed, RawWorkload, Workload};
use crate::machine::fair::RESERVED_MOST;
use crate::machine::reserved::DEADLINE;
use crate::model::input::{InputError, Source};
use crate::model::time::Picos;

/// The reservation of a task: an amount of runtime in each period, before a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Reserves {
    /// The runtime in each period.
    pub runtime: Picos,
    /// The time from the beginning of a period to its deadline.
    pub deadline: Picos,
    /// The time from the beginning of one period to the beginning of the next.
    pub period: Picos,
}

impl Reserves {
    /// Returns the reservation in whole nanoseconds, in the form that a run queue takes.
    pub(super) fn reservation(self) -> Option<Reservation> {
        let span = |time: Picos| Span::from_nanos(time.as_nanos());
        Reservation::new(span(self.runtime), span(self.deadline), span(self.period)).ok()
    }

    /// Returns the share of a CPU that the reservation takes until its deadline, in parts of 2^20.
    const fn density(self) -> u64 {
        self.runtime
            .as_nanos()
            .saturating_mul(1 << 20)
            .div_ceil(self.deadline.as_nanos())
    }
}

/// Reads the reservation of each task of a workload, if the file has one.
pub(super) fn read(source: &Source<'_>, raw: &RawWorkload) -> Result<Option<Reserves>, InputError> {
    if raw.priority == Some(DEADLINE) {
        let wrong = "no priority is so high";
        return Err(source.error(raw.kind.span(), wrong, format!("{} at most", DEADLINE - 1)));
    }
    let Some(runtime) = &raw.runtime else {
        let other = raw
            .runtime_deadline
            .as_ref()
            .or(raw.runtime_period.as_ref());
        return match other {
            None => Ok(None),
            Some(other) => {
                let wrong = "a time for no runtime";
                Err(source.error(other.span(), wrong, "say the runtime, too"))
            }
        };
    };
    let Some(period) = &raw.runtime_period else {
        let wrong = "a runtime in no period";
        return Err(source.error(runtime.span(), wrong, "say runtime_period, too"));
    };
    let deadline = raw.runtime_deadline.as_ref().unwrap_or(period);
    let reserves = Reserves {
        runtime: source.time(runtime)?,
        deadline: source.time(deadline)?,
        period: source.time(period)?,
    };
    if reserves.reservation().is_none() {
        let wrong = "a task cannot have that";
        let right = "10 us <= runtime <= runtime_deadline <= runtime_period <= 1 h";
        return Err(source.error(runtime.span(), wrong, right));
    }
    if matches!(raw.kind.get_ref().as_str(), "dbench" | "hackbench") {
        let wrong = "how many of its tasks a CPU has is not said";
        return Err(source.error(runtime.span(), wrong, "no runtime"));
    }
    Ok(Some(reserves))
}

/// Refuses reservations that together exceed the share that a CPU can guarantee.
pub(crate) fn fit(
    source: &Source<'_>,
    raw: &[Spanned<RawWorkload>],
    placed: &[Placed],
    cpus: u32,
) -> Result<(), InputError> {
    let mut densities = vec![0_u64; cpus as usize];
    for (raw, placed) in raw.iter().zip(placed) {
        let Some(reserves) = placed.reserves else {
            continue;
        };
        let tasks = match placed.workload {
            Workload::Daemons { tasks, .. } => tasks,
            _ => 1,
        };
        for cpu in &placed.cpus {
            let density = &mut densities[*cpu as usize];
            *density = density.saturating_add(reserves.density().saturating_mul(u64::from(tasks)));
            if *density > RESERVED_MOST.get() {
                let wrong = format!("CPU {cpu} cannot keep all of its reservations");
                let right = format!("{RESERVED_MOST} at most until their deadlines");
                return Err(source.error(raw.get_ref().kind.span(), wrong, right));
            }
        }
    }
    Ok(())
}

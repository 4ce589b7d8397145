//! The counts of the running load, which the load's tasks update.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hdrhistogram::Histogram;

use crate::histogram;

/// A distribution of lateness, in nanoseconds.
#[derive(Debug)]
pub(crate) struct Lateness {
    late: Mutex<Histogram<u64>>,
    early: AtomicU64,
}

impl Lateness {
    fn new() -> Self {
        Self {
            late: Mutex::new(histogram::new()),
            early: AtomicU64::new(0),
        }
    }

    /// Records an event that was due at `deadline` and happened at `now`.
    pub(crate) fn record(&self, deadline: Instant, now: Instant) {
        match now.checked_duration_since(deadline) {
            Some(late) => histogram::record(&mut self.histogram(), late),
            // Relaxed: a count.
            None => drop(self.early.fetch_add(1, Ordering::Relaxed)),
        }
    }

    pub(crate) fn histogram(&self) -> MutexGuard<'_, Histogram<u64>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn early(&self) -> u64 {
        // Relaxed: a count.
        self.early.load(Ordering::Relaxed)
    }
}

/// A count that several threads add to.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        // Relaxed: a count.
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // Relaxed: a count.
        self.0.load(Ordering::Relaxed)
    }
}

/// The counts of one round.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) paced: Lateness,
    pub(crate) idle: Lateness,
    pub(crate) header: Lateness,
    /// The time from writing a request to the last byte of its response.
    pub(crate) latency: Lateness,
    pub(crate) clients: ClientCounts,
    /// Nanoseconds for each push of a deadline, one figure a batch.
    pub(crate) push: Mutex<Vec<f64>>,
    /// Nanoseconds for each timeout that is armed and dropped, one figure a batch.
    pub(crate) arm: Mutex<Vec<f64>>,
    /// Datagrams of the paced sender that the kernel accepted, and datagrams that were received at the other end.
    pub(crate) sent: Count,
    pub(crate) received: Count,
}

/// The counters of a server. Its connections may live longer than a round, so they read the tally of the current round
/// here.
#[derive(Debug)]
pub(crate) struct Desk {
    tally: Mutex<Arc<Tally>>,
    pub(crate) connections: Count,
    pub(crate) requests: Count,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self {
            tally: Mutex::new(Arc::new(Tally::new())),
            connections: Count::default(),
            requests: Count::default(),
        }
    }

    /// Returns the tally of the current round.
    pub(crate) fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn begin_round(&self, tally: &Arc<Tally>) {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(tally);
    }
}

/// The counts of the load's clients.
#[derive(Debug, Default)]
pub(crate) struct ClientCounts {
    pub(crate) silent: Episodes,
    pub(crate) slow: Episodes,
    /// Answers that take longer than the idle timeout: requests that the server received, and answers that came to
    /// their ends, which is `closed`.
    pub(crate) patient: Episodes,
    /// Active clients whose connection was closed, because their next request came too late.
    pub(crate) dropped: Count,
    /// Responses with wrong content.
    pub(crate) wrong: Count,
    /// Connections that could not be made.
    pub(crate) refused: Count,
}

/// Clients that have to be closed by a timeout.
#[derive(Debug, Default)]
pub(crate) struct Episodes {
    /// Clients that waited for their timeout.
    pub(crate) expected: Count,
    /// Clients that were closed.
    pub(crate) closed: Count,
    /// Clients that were closed before their timeout.
    pub(crate) early: Count,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            paced: Lateness::new(),
            idle: Lateness::new(),
            header: Lateness::new(),
            latency: Lateness::new(),
            clients: ClientCounts::default(),
            push: Mutex::default(),
            arm: Mutex::default(),
            sent: Count::default(),
            received: Count::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Desk, Lateness, Tally};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    #[test]
    fn early_and_late_are_kept_apart() {
        let lateness = Lateness::new();
        let due = Instant::now();
        let tick = Duration::from_nanos(1);
        lateness.record(due, due);
        lateness.record(due, due + Duration::from_micros(7));
        lateness.record(due + tick, due);
        assert_eq!((lateness.histogram().len(), lateness.early()), (2, 1));
        assert_eq!(lateness.histogram().max(), 7_003, "to three digits");
    }

    #[test]
    fn what_a_connection_of_an_old_round_counts_goes_into_the_new_one() {
        let desk = Desk::new();
        let first = desk.tally();
        let second = Arc::new(Tally::new());
        desk.begin_round(&second);
        desk.tally().clients.wrong.add(1);
        assert_eq!(
            (first.clients.wrong.get(), second.clients.wrong.get()),
            (0, 1)
        );
    }
}

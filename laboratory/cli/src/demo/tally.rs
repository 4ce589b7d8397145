//! The counts of the load: those of a part of the run, and the sums of a column.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::subject::Arm;
use super::threads::Usage;
use crate::histogram;
use crate::spread::Spread;

/// A distribution of lateness in nanoseconds, and the number of early events.
#[derive(Clone, Debug)]
pub(crate) struct Late {
    pub(crate) histogram: Histogram<u64>,
    pub(crate) early: u64,
}

impl Default for Late {
    fn default() -> Self {
        Self {
            histogram: histogram::new(),
            early: 0,
        }
    }
}

impl Late {
    /// Records an event that was due at `deadline` and happened at `now`.
    pub(crate) fn record(&mut self, deadline: Instant, now: Instant) {
        match now.checked_duration_since(deadline) {
            Some(late) => histogram::record(&mut self.histogram, late),
            None => self.early += 1,
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.histogram.len() + self.early
    }

    /// Returns the lateness that `share` of all events stay below; `None` if too few events were recorded for one to be
    /// above.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        histogram::quantile(&self.histogram, share).map(|nanos| nanos as f64)
    }

    pub(crate) fn max(&self) -> Option<f64> {
        (!self.histogram.is_empty()).then(|| self.histogram.max() as f64)
    }
}

impl AddAssign<&Self> for Late {
    fn add_assign(&mut self, other: &Self) {
        self.histogram += &other.histogram;
        self.early += other.early;
    }
}

/// Clients whose connection a timeout has to close, or whose answer has to come to its end.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Episodes {
    /// Clients that waited.
    pub(crate) expected: u64,
    /// Clients for which it happened.
    pub(crate) closed: u64,
    /// Clients for which it happened too early.
    pub(crate) early: u64,
}

impl Episodes {
    pub(crate) fn note(&mut self, closed: bool, in_time: bool) {
        self.closed += u64::from(closed);
        self.early += u64::from(closed && !in_time);
    }
}

impl AddAssign for Episodes {
    fn add_assign(&mut self, other: Self) {
        self.expected += other.expected;
        self.closed += other.closed;
        self.early += other.early;
    }
}

/// The counters over the time of the full load.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    pub(crate) length: Duration,
    pub(crate) requests: u64,
    pub(crate) usage: Usage,
}

/// The counts of a column in one round, or in all rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub(crate) paced: Late,
    pub(crate) idle: Late,
    pub(crate) header: Late,
    /// The time from writing a request to the last byte of its response.
    pub(crate) latency: Late,
    pub(crate) silent: Episodes,
    pub(crate) slow: Episodes,
    /// Answers that take longer than the idle timeout: requests that the server received, and answers that came to
    /// their ends.
    pub(crate) patient: Episodes,
    /// Active clients whose connection was closed, because their next request came too late.
    pub(crate) dropped: u64,
    /// Responses with wrong content.
    pub(crate) wrong: u64,
    /// Connections that could not be made.
    pub(crate) refused: u64,
    /// Nanoseconds for each push of a deadline, one figure a batch.
    pub(crate) push: Vec<f64>,
    /// Nanoseconds for each timeout that is armed and dropped, one figure a batch.
    pub(crate) arm: Vec<f64>,
    pub(crate) window: Window,
}

impl Part {
    /// Forgets the clients that still waited when the part was ended early.
    pub(crate) fn cut(&mut self) {
        for episodes in [&mut self.silent, &mut self.slow, &mut self.patient] {
            episodes.expected = episodes.closed;
        }
    }

    /// Returns a count of the window as a rate in a second.
    pub(crate) fn rate(&self, count: u64) -> Option<f64> {
        let length = self.window.length.as_secs_f64();
        (length > 0.0).then(|| count as f64 / length)
    }

    /// Returns the processor time of the server's threads, in percent of one CPU.
    pub(crate) fn load(&self) -> Option<f64> {
        let length = self.window.length.as_secs_f64();
        (length > 0.0).then(|| 100.0 * self.window.usage.busy.as_secs_f64() / length)
    }
}

impl AddAssign<&Self> for Part {
    fn add_assign(&mut self, other: &Self) {
        self.paced += &other.paced;
        self.idle += &other.idle;
        self.header += &other.header;
        self.latency += &other.latency;
        self.silent += other.silent;
        self.slow += other.slow;
        self.patient += other.patient;
        self.dropped += other.dropped;
        self.wrong += other.wrong;
        self.refused += other.refused;
        self.push.extend(&other.push);
        self.arm.extend(&other.arm);
        self.window.length += other.window.length;
        self.window.requests += other.window.requests;
        self.window.usage += other.window.usage;
    }
}

/// A column over all its rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Total {
    pub(crate) sum: Part,
    pub(crate) parts: Vec<Part>,
}

/// All columns, in the order of [`Arm::ALL`].
pub(crate) type Totals = [Total; Arm::COUNT];

impl Total {
    pub(crate) fn add(&mut self, part: Part) {
        self.sum += &part;
        self.parts.push(part);
    }

    /// Returns the spread of a figure over the rounds that have it: short rounds have no rare percentiles.
    pub(crate) fn spread(&self, of: fn(&Part) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.parts.iter().filter_map(of))
    }
}

/// Returns the middle sample; `None` if there are no samples.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// The counts of the running part, which the tasks of the load update.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Part>);

impl Tally {
    pub(crate) fn part(&self) -> MutexGuard<'_, Part> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The counters of a server. Its connections may live longer than a round, so they read the tally of the current round
/// here.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    tally: Mutex<Arc<Tally>>,
    requests: AtomicU64,
}

impl Desk {
    /// Returns the tally of the current round.
    pub(crate) fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn begin_round(&self, tally: &Arc<Tally>) {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(tally);
    }

    pub(crate) fn count_request(&self) {
        // Relaxed: a count.
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn requests(&self) -> u64 {
        // Relaxed: a count.
        self.requests.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Desk, Late, Part, Tally, Totals, Window, median};
    use crate::demo::threads::Usage;
    use crate::spread::Spread;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    #[test]
    fn early_and_late_are_kept_apart() {
        let mut late = Late::default();
        let due = Instant::now();
        late.record(due, due);
        late.record(due, due + Duration::from_micros(7));
        late.record(due + Duration::from_nanos(1), due);
        assert_eq!((late.count(), late.early), (3, 1));
        assert_eq!(late.max(), Some(7_003.0), "to three digits");
    }

    #[test]
    fn what_a_connection_of_an_old_round_counts_goes_into_the_new_one() {
        let desk = Desk::default();
        let first = desk.tally();
        let second = Arc::new(Tally::default());
        desk.begin_round(&second);
        desk.tally().part().wrong += 1;
        assert_eq!((first.part().wrong, second.part().wrong), (0, 1));
    }

    #[test]
    fn rounds_add_up_and_a_cut_one_expects_no_more() {
        let mut part = Part::default();
        assert_eq!((part.rate(7), part.load()), (None, None), "nothing has run");
        (part.silent.expected, part.silent.closed) = (3, 2);
        part.push = vec![10.0];
        part.window = Window {
            length: Duration::from_secs(2),
            requests: 100,
            usage: Usage {
                busy: Duration::from_secs(1),
                wakeups: 50,
            },
        };
        let [mut total, ..] = Totals::default();
        total.add(part.clone());
        part.cut();
        total.add(part);
        let sum = &total.sum;
        assert_eq!((sum.silent.expected, sum.silent.closed), (5, 4));
        assert_eq!(sum.rate(sum.window.requests), Some(50.0));
        assert_eq!((sum.load(), sum.push.len()), (Some(50.0), 2));
        let spread = total.spread(|part| median(&part.push));
        assert_eq!(spread, Spread::of([10.0, 10.0]));
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    }
}

//! The totals of an arm over all its rounds.

use std::sync::PoisonError;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::subject::Arm;
use super::tally::{Episodes, Lateness, Tally};
use super::threads::Usage;
use crate::histogram;
use crate::spread::Spread;

/// The totals of all arms, in the order of [`Arm::ALL`].
pub(crate) type Totals = [Total; Arm::COUNT];

/// Returns the totals of a run that has not begun.
pub(crate) fn none() -> Totals {
    std::array::from_fn(|_| Total::new())
}

/// The totals of one arm over all of its rounds.
#[derive(Clone, Debug)]
pub(crate) struct Total {
    pub(crate) paced: Late,
    pub(crate) idle: Late,
    pub(crate) header: Late,
    pub(crate) latency: Late,
    pub(crate) silent: Closed,
    pub(crate) slow: Closed,
    pub(crate) patient: Closed,
    pub(crate) dropped: u64,
    pub(crate) wrong: u64,
    pub(crate) refused: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) push: Vec<f64>,
    pub(crate) arm: Vec<f64>,
    pub(crate) window: Window,
    pub(crate) rounds: Vec<Round>,
    /// System calls of the server's threads in a second, if they could be counted.
    pub(crate) syscalls: Option<f64>,
    /// Each round by itself, for the spread of every figure.
    pub(crate) parts: Vec<Self>,
}

/// A distribution of lateness, and the number of early events.
#[derive(Clone, Debug)]
pub(crate) struct Late {
    pub(crate) histogram: Histogram<u64>,
    pub(crate) early: u64,
}

/// Clients that a timeout has to close.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Closed {
    pub(crate) expected: u64,
    pub(crate) closed: u64,
    pub(crate) early: u64,
}

/// The counters over the time of the full load.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    pub(crate) length: Duration,
    pub(crate) requests: u64,
    /// Times that the library set a timer file descriptor of a runtime.
    pub(crate) sets: u64,
    pub(crate) usage: Usage,
}

/// A few figures of a round, for their spread over the rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Round {
    pub(crate) paced_p50_ns: Option<u64>,
    pub(crate) paced_p99_ns: Option<u64>,
    pub(crate) idle_p50_ns: Option<u64>,
    pub(crate) idle_p99_ns: Option<u64>,
    pub(crate) request_p50_ns: Option<u64>,
    pub(crate) request_p99_ns: Option<u64>,
    pub(crate) push_ns: Option<f64>,
    pub(crate) arm_and_drop_ns: Option<f64>,
    pub(crate) cpu_percent: Option<f64>,
    pub(crate) wakeups_per_second: Option<f64>,
}

impl Late {
    fn new() -> Self {
        Self {
            histogram: histogram::new(),
            early: 0,
        }
    }

    fn absorb(&mut self, lateness: &Lateness) {
        self.histogram += &*lateness.histogram();
        self.early += lateness.early();
    }

    /// Returns the lateness that `share` of all events stay below; `None` if too few events were recorded for one to be
    /// above.
    pub(crate) fn quantile(&self, share: f64) -> Option<u64> {
        histogram::quantile(&self.histogram, share)
    }

    pub(crate) fn max(&self) -> Option<u64> {
        (!self.histogram.is_empty()).then(|| self.histogram.max())
    }
}

impl Closed {
    fn absorb(&mut self, episodes: &Episodes) {
        self.expected += episodes.expected.get();
        self.closed += episodes.closed.get();
        self.early += episodes.early.get();
    }

    /// Adds counts as [`absorb`](Self::absorb) does, for a part that was ended early: clients that still waited for
    /// their timeout do not count as expected.
    fn absorb_cut(&mut self, episodes: &Episodes) {
        self.expected += episodes.closed.get();
        self.closed += episodes.closed.get();
        self.early += episodes.early.get();
    }
}

impl Total {
    pub(crate) fn new() -> Self {
        Self {
            paced: Late::new(),
            idle: Late::new(),
            header: Late::new(),
            latency: Late::new(),
            silent: Closed::default(),
            slow: Closed::default(),
            patient: Closed::default(),
            dropped: 0,
            wrong: 0,
            refused: 0,
            sent: 0,
            received: 0,
            push: Vec::new(),
            arm: Vec::new(),
            window: Window::default(),
            rounds: Vec::new(),
            syscalls: None,
            parts: Vec::new(),
        }
    }

    /// Adds a round; `cut` is true if the round was ended early.
    pub(crate) fn absorb(&mut self, tally: &Tally, window: Window, cut: bool) {
        let mut part = Self::new();
        part.add(tally, window, cut);
        self.rounds.push(part.in_short());
        self.parts.push(part);
        self.add(tally, window, cut);
    }

    fn in_short(&self) -> Round {
        Round {
            paced_p50_ns: self.paced.quantile(0.5),
            paced_p99_ns: self.paced.quantile(0.99),
            idle_p50_ns: self.idle.quantile(0.5),
            idle_p99_ns: self.idle.quantile(0.99),
            request_p50_ns: self.latency.quantile(0.5),
            request_p99_ns: self.latency.quantile(0.99),
            push_ns: median(&self.push),
            arm_and_drop_ns: median(&self.arm),
            cpu_percent: self.load(),
            wakeups_per_second: self.rate(self.window.usage.wakeups),
        }
    }

    fn add(&mut self, tally: &Tally, window: Window, cut: bool) {
        self.paced.absorb(&tally.paced);
        self.idle.absorb(&tally.idle);
        self.header.absorb(&tally.header);
        self.latency.absorb(&tally.latency);
        let clients = &tally.clients;
        if cut {
            self.silent.absorb_cut(&clients.silent);
            self.slow.absorb_cut(&clients.slow);
            self.patient.absorb_cut(&clients.patient);
        } else {
            self.silent.absorb(&clients.silent);
            self.slow.absorb(&clients.slow);
            self.patient.absorb(&clients.patient);
        }
        self.dropped += clients.dropped.get();
        self.wrong += clients.wrong.get();
        self.refused += clients.refused.get();
        self.sent += tally.sent.get();
        self.received += tally.received.get();
        for (samples, more) in [(&mut self.push, &tally.push), (&mut self.arm, &tally.arm)] {
            samples.extend(more.lock().unwrap_or_else(PoisonError::into_inner).iter());
        }
        self.window.length += window.length;
        self.window.requests += window.requests;
        self.window.sets += window.sets;
        self.window.usage += window.usage;
    }

    /// Returns the spread of a figure over the rounds that have it: short rounds have no rare percentiles, and no
    /// measuring round counts system calls.
    pub(crate) fn spread(&self, of: impl Fn(&Self) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.parts.iter().filter_map(of))
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

/// Returns the middle sample; `None` if there are no samples.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::{Total, Window, median};
    use crate::demo::tally::Tally;
    use crate::demo::threads::Usage;
    use crate::spread::Spread;
    use std::time::{Duration, Instant};

    fn tally() -> Tally {
        let tally = Tally::new();
        let due = Instant::now();
        tally.idle.record(due, due + Duration::from_micros(5));
        tally.clients.silent.expected.add(3);
        tally.clients.silent.closed.add(2);
        tally.push.lock().expect("no thread panicked").push(10.0);
        tally
    }

    fn window() -> Window {
        Window {
            length: Duration::from_secs(2),
            requests: 100,
            sets: 10,
            usage: Usage {
                busy: Duration::from_secs(1),
                wakeups: 50,
                preempted: 0,
            },
        }
    }

    #[test]
    fn rounds_add_up() {
        let mut total = Total::new();
        assert_eq!(
            (total.rate(7), total.load()),
            (None, None),
            "nothing has run"
        );
        for _ in 0..2 {
            total.absorb(&tally(), window(), false);
        }
        assert_eq!((total.silent.expected, total.silent.closed), (6, 4));
        assert_eq!(total.idle.histogram.len(), 2);
        assert_eq!(total.rate(total.window.requests), Some(50.0));
        assert_eq!(total.rate(total.window.sets), Some(5.0));
        assert_eq!(total.load(), Some(50.0));
        assert_eq!(total.rounds[1].wakeups_per_second, Some(25.0));
        assert_eq!((total.push.len(), total.rounds.len()), (2, 2));
        assert_eq!(total.parts.len(), 2);
        let spread = total.spread(|total| median(&total.push));
        assert_eq!(spread, Spread::of([10.0, 10.0]));
        total.syscalls = Some(1.0);
        let of_none = total.spread(|total| total.syscalls);
        assert_eq!(of_none, None, "no round has what only the whole has");
    }

    #[test]
    fn who_still_waits_when_a_run_is_cut_expects_nothing() {
        let mut total = Total::new();
        total.absorb(&tally(), window(), true);
        assert_eq!((total.silent.expected, total.silent.closed), (2, 2));
    }

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    }
}

//! The results of a run, runtime by runtime.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::mix::entitlements;
use super::nanos;
use super::runtime::{Missing, Subject};
use super::stage::{Notes, Stage};
use crate::histogram;
use crate::spread::Spread;

/// The results of one runtime.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) subject: Subject,
    /// The reason why the runtime does not run here.
    pub(super) missing: Option<Missing>,
    /// The parts of the rounds, in order.
    pub(super) parts: Vec<Part>,
}

/// One runtime's part of a round.
#[derive(Debug)]
pub(super) struct Part {
    /// The shares of the tasks that compute.
    pub(super) shares: Vec<Share>,
    pub(super) servers: Histogram<u64>,
    pub(super) periodic: Histogram<u64>,
    /// Ticks that came before their time.
    pub(super) early: u64,
    /// Processor time, as a number of CPUs.
    pub(super) processors: f64,
    /// The computing time of tasks, as a share of the processor time.
    pub(super) work: f64,
    /// The longest time of a chunk; `None` if no task computed.
    pub(super) longest: Option<Duration>,
}

/// The share of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share {
    pub(super) weight: u32,
    /// The part of the time of all computing tasks to which the task was entitled; `got` is the part that it got.
    pub(super) entitled: f64,
    pub(super) got: f64,
    /// The largest distance of the task from its entitlement, in nanoseconds.
    pub(super) lag: f64,
}

impl Share {
    /// Returns the deviation from the entitlement, relative to the entitlement.
    pub(super) fn error(&self) -> f64 {
        (self.got / self.entitled - 1.0).abs()
    }
}

impl Part {
    /// Collects the notes of the tasks on `stage`. The stage took the time `passed`, and the processor time `used`.
    pub(super) fn new(stage: &Stage, passed: Duration, used: Duration) -> Self {
        let mix = stage.mix();
        let notes = stage.notes();
        let weights = mix.weights();
        let shares = shares(&weights, mix.workers, &notes);
        let chunks: u64 = notes.hogs.iter().flatten().map(|hog| hog.chunks).sum();
        let computed = chunks as f64 * mix.chunk.as_secs_f64() + notes.sleepers.as_secs_f64();
        // What watches may wake late at either end: rates, each over its own time, can be compared all the same.
        let is_whole = Instant::now() >= stage.end();
        let computing = if is_whole { stage.duration() } else { passed };
        let rate = computed / computing.as_secs_f64().max(f64::MIN_POSITIVE);
        let processors = used.as_secs_f64() / passed.as_secs_f64().max(f64::MIN_POSITIVE);
        Self {
            shares,
            processors,
            work: rate / processors.max(f64::MIN_POSITIVE),
            longest: notes.hogs.iter().flatten().map(|hog| hog.longest).max(),
            servers: notes.servers,
            periodic: notes.periodic,
            early: notes.early,
        }
    }

    /// Returns the largest relative deviation of a task; `None` if there is nothing to share.
    pub(super) fn worst(&self) -> Option<f64> {
        self.shares.iter().map(Share::error).reduce(f64::max)
    }

    /// Returns the largest relative deviation of the tasks of one weight together.
    pub(super) fn worst_weight(&self) -> Option<f64> {
        let mut weights = BTreeMap::<u32, Share>::new();
        for share in &self.shares {
            let sum = weights.entry(share.weight).or_insert(Share {
                entitled: 0.0,
                got: 0.0,
                ..*share
            });
            sum.entitled += share.entitled;
            sum.got += share.got;
        }
        weights.values().map(Share::error).reduce(f64::max)
    }

    /// Returns the mean of the relative deviations of tasks.
    fn mean(&self) -> Option<f64> {
        let sum: f64 = self.shares.iter().map(Share::error).sum();
        (!self.shares.is_empty()).then(|| sum / self.shares.len() as f64)
    }

    fn lag(&self) -> Option<f64> {
        self.shares.iter().map(|share| share.lag).reduce(f64::max)
    }
}

fn shares(weights: &[u32], workers: usize, notes: &Notes) -> Vec<Share> {
    let total: Duration = notes.hogs.iter().flatten().map(|hog| hog.time).sum();
    let total = nanos(total).max(1) as f64;
    let entitled = entitlements(weights, workers);
    let each = weights.iter().zip(entitled).zip(&notes.hogs);
    each.map(|((&weight, entitled), hog)| {
        let hog = hog.unwrap_or_default();
        Share {
            weight,
            entitled,
            got: nanos(hog.time) as f64 / total,
            // Lag is noted by the task itself: one that never ran is behind by all that it was entitled to.
            lag: hog.lag.max(entitled * total - nanos(hog.time) as f64),
        }
    })
    .collect()
}

impl Row {
    pub(super) fn new(subject: Subject) -> Self {
        Self {
            subject,
            missing: None,
            parts: Vec::new(),
        }
    }

    /// Returns the sentence about a runtime that is missing: `missing: smol, because ...`.
    pub(super) fn complaint(&self) -> Option<String> {
        let why = self.missing.as_ref()?;
        Some(format!("missing: {}, because {why}", self.subject.name()))
    }

    /// Returns true if the checks hold.
    pub(super) fn holds(&self) -> bool {
        let is_fair = !self.subject.has_slices() || self.starved() == 0;
        !self.subject.is_ours() || (self.early() == 0 && is_fair)
    }

    pub(super) fn early(&self) -> u64 {
        self.parts.iter().map(|part| part.early).sum()
    }

    /// Returns the number of tasks that got nothing in at least one round.
    pub(super) fn starved(&self) -> usize {
        let shares = self.parts.iter().flat_map(|part| &part.shares);
        shares.filter(|share| share.got <= 0.0).count()
    }

    pub(super) fn worst(&self) -> Option<Spread> {
        Spread::of(self.parts.iter().filter_map(Part::worst))
    }

    pub(super) fn worst_weight(&self) -> Option<Spread> {
        Spread::of(self.parts.iter().filter_map(Part::worst_weight))
    }

    pub(super) fn mean(&self) -> Option<Spread> {
        Spread::of(self.parts.iter().filter_map(Part::mean))
    }

    pub(super) fn lag(&self) -> Option<Spread> {
        Spread::of(self.parts.iter().filter_map(Part::lag))
    }

    pub(super) fn processors(&self) -> Option<Spread> {
        Spread::of(self.parts.iter().map(|part| part.processors))
    }

    pub(super) fn work(&self) -> Option<Spread> {
        Spread::of(self.parts.iter().map(|part| part.work))
    }

    /// Returns the longest time of a chunk, which includes the time in which the machine executed other programs.
    pub(super) fn longest(&self) -> Option<Spread> {
        let longest = self.parts.iter().filter_map(|part| part.longest);
        Spread::of(longest.map(|longest| nanos(longest) as f64))
    }

    /// Returns the distribution of all rounds together.
    pub(super) fn merged(&self, of: Late) -> Histogram<u64> {
        let mut all = histogram::new();
        for part in &self.parts {
            all += of(part);
        }
        all
    }

    /// Returns the spread of a percentile, round by round.
    pub(super) fn quantile(&self, of: Late, share: f64) -> Option<Spread> {
        let values = self.parts.iter().map(of);
        let values = values.filter_map(|late| histogram::quantile(late, share));
        Spread::of(values.map(|nanos| nanos as f64))
    }
}

/// A function that returns one of the two lateness distributions of a part.
pub(super) type Late = fn(&Part) -> &Histogram<u64>;

pub(super) const SERVERS: Late = |part| &part.servers;
pub(super) const PERIODIC: Late = |part| &part.periodic;

#[cfg(test)]
mod tests {
    use super::{Part, Share, shares};
    use crate::fair::stage::{Hog, Notes};
    use crate::histogram;
    use std::time::Duration;

    fn notes(hogs: Vec<Option<Hog>>) -> Notes {
        Notes {
            hogs,
            servers: histogram::new(),
            periodic: histogram::new(),
            early: 0,
            sleepers: Duration::ZERO,
        }
    }

    #[test]
    fn a_share_is_compared_with_its_entitlement() {
        let hog = |millis| {
            Some(Hog {
                time: Duration::from_millis(millis),
                chunks: millis,
                lag: 5.0,
                longest: Duration::from_millis(1),
            })
        };
        let shares = shares(&[3, 1], 1, &notes(vec![hog(60), hog(40)]));
        let expected = Share {
            weight: 3,
            entitled: 0.75,
            got: 0.6,
            // It is behind by as much at the end.
            lag: 15e6,
        };
        assert_eq!(shares[0], expected);
        assert!((shares[0].error() - 0.2).abs() < 1e-9);
        assert!((shares[1].error() - 0.6).abs() < 1e-9);
    }

    #[test]
    fn tasks_of_one_weight_are_judged_together_as_well() {
        let share = |weight, entitled, got| Share {
            weight,
            entitled,
            got,
            lag: 0.0,
        };
        let part = Part {
            shares: vec![
                share(1, 0.2, 0.18),
                share(2, 0.3, 0.312),
                share(1, 0.2, 0.208),
                share(2, 0.3, 0.3),
            ],
            servers: histogram::new(),
            periodic: histogram::new(),
            early: 0,
            processors: 1.0,
            work: 1.0,
            longest: None,
        };
        let close =
            |error: Option<f64>, to: f64| error.is_some_and(|error| (error - to).abs() < 1e-9);
        assert!(close(part.worst(), 0.1), "{:?}", part.worst());
        assert!(
            close(part.worst_weight(), 0.03),
            "{:?}",
            part.worst_weight()
        );
    }

    #[test]
    fn a_task_that_never_ran_got_nothing() {
        let ran = Hog {
            time: Duration::from_millis(100),
            chunks: 1,
            lag: 0.0,
            longest: Duration::from_millis(100),
        };
        let shares = shares(&[1, 1], 1, &notes(vec![Some(ran), None]));
        assert_eq!((shares[1].got, shares[1].error()), (0.0, 1.0));
        assert_eq!(shares[1].lag, 50e6);
    }
}

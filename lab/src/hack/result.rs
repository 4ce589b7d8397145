//! The results of a run, configuration by configuration.

use std::time::Duration;

use serde::Serialize;

use super::features::Features;
use crate::spread::Spread;

/// The executor's counters in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    /// Polls of a different task than the poll before.
    pub(super) switches: u64,
    /// Programmings of the device, and its signals.
    pub(super) device_writes: u64,
    pub(super) signals: u64,
    /// Timer interrupts, and the number of these that found nothing due.
    pub(super) interrupts: u64,
    pub(super) spurious: u64,
    /// Starts of timers, and the number of these whose timer was queued already.
    pub(super) starts: u64,
    pub(super) updates: u64,
    /// Updates that kept the timer between its neighbours, after a check of the neighbours.
    pub(super) in_place: u64,
    /// Updates that left the timer in its place: queued for an earlier time, or in a slot of the far wheel.
    pub(super) filed_early: u64,
    pub(super) far_in_slot: u64,
}

/// One run of a configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    pub(super) took: Duration,
    pub(super) counts: Counts,
    /// The cycles of the time-stamp counter for a start of the tick; one start in sixteen is measured.
    pub(super) start_cycles: Option<f64>,
}

impl Ran {
    pub(super) fn seconds(&self) -> f64 {
        self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// A configuration with its runs, one for each round.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) features: Features,
    pub(super) runs: Vec<Ran>,
}

impl Row {
    /// Returns the row of a configuration.
    pub(super) fn find(rows: &[Self], features: Features) -> Option<&Self> {
        rows.iter().find(|row| row.features == features)
    }

    pub(super) fn new(features: Features) -> Self {
        Self {
            features,
            runs: Vec::new(),
        }
    }

    fn of(&self, figure: impl Fn(&Ran) -> f64) -> Option<Spread> {
        Spread::of(self.runs.iter().map(figure))
    }

    /// Returns one count as a share of another, from the runs in which the other is not zero.
    fn share(&self, part: fn(&Counts) -> u64, of: fn(&Counts) -> u64) -> Option<Spread> {
        let runs = self.runs.iter().map(|run| &run.counts);
        let runs = runs.filter(|counts| of(counts) > 0);
        Spread::of(runs.map(|counts| part(counts) as f64 / of(counts) as f64))
    }

    pub(super) fn seconds(&self) -> Option<Spread> {
        self.of(Ran::seconds)
    }

    pub(super) fn device_writes(&self) -> Option<Spread> {
        self.of(|run| run.counts.device_writes as f64)
    }

    pub(super) fn device_writes_per_s(&self) -> Option<Spread> {
        self.of(|run| run.counts.device_writes as f64 / run.seconds())
    }

    pub(super) fn switches_per_s(&self) -> Option<Spread> {
        self.of(|run| run.counts.switches as f64 / run.seconds())
    }

    pub(super) fn spurious(&self) -> Option<Spread> {
        self.share(|counts| counts.spurious, |counts| counts.interrupts)
    }

    pub(super) fn in_place(&self) -> Option<Spread> {
        self.share(|counts| counts.in_place, |counts| counts.updates)
    }

    pub(super) fn filed_early(&self) -> Option<Spread> {
        self.share(|counts| counts.filed_early, |counts| counts.updates)
    }

    pub(super) fn far_in_slot(&self) -> Option<Spread> {
        self.share(|counts| counts.far_in_slot, |counts| counts.updates)
    }

    pub(super) fn signals(&self) -> Option<Spread> {
        self.of(|run| run.counts.signals as f64)
    }

    pub(super) fn start_cycles(&self) -> Option<Spread> {
        Spread::of(self.runs.iter().filter_map(|run| run.start_cycles))
    }

    pub(super) fn starts(&self) -> Option<Spread> {
        self.of(|run| run.counts.starts as f64)
    }

    pub(super) fn updates(&self) -> Option<Spread> {
        self.of(|run| run.counts.updates as f64)
    }
}

/// The ratio of the writes with everything on to the writes with everything off, for the same messages: below 1 is
/// better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Ratio {
    pub(super) all_off: f64,
    pub(super) all_on: f64,
    pub(super) ratio: f64,
}

impl Ratio {
    /// Returns the ratio of the configurations with precise slices; `None` unless both ran and the device was written.
    pub(super) fn of(rows: &[Row]) -> Option<Self> {
        let writes = |on: bool| {
            let wanted = Features::all(on, true);
            let row = Row::find(rows, wanted)?;
            row.device_writes().map(|writes| writes.median)
        };
        let (all_off, all_on) = (writes(false)?, writes(true)?);
        (all_off > 0.0).then(|| Self {
            all_off,
            all_on,
            ratio: all_on / all_off,
        })
    }
}

/// A baseline that took part, and its run times.
#[derive(Clone, Debug)]
pub(super) struct Other {
    pub(super) name: &'static str,
    pub(super) what: String,
    pub(super) seconds: Vec<f64>,
    /// The reason why the baseline did not run.
    pub(super) missing: Option<String>,
}

impl Other {
    pub(super) fn new(name: &'static str, what: String) -> Self {
        Self {
            name,
            what,
            seconds: Vec::new(),
            missing: None,
        }
    }

    pub(super) fn spread(&self) -> Option<Spread> {
        Spread::of(self.seconds.iter().copied())
    }

    /// Returns the sentence about a baseline that is missing: `missing: hackbench, because ...`.
    pub(super) fn complaint(&self) -> Option<String> {
        let why = self.missing.as_ref()?;
        Some(format!("missing: {}, because {why}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, Features, Ran, Ratio, Row};
    use std::time::Duration;

    fn row(features: Features, writes: &[u64]) -> Row {
        let run = |&device_writes| Ran {
            took: Duration::from_millis(500),
            counts: Counts {
                device_writes,
                interrupts: 8,
                spurious: 2,
                starts: 40,
                updates: if device_writes > 1 { 20 } else { 0 },
                in_place: if device_writes > 1 { 9 } else { 0 },
                ..Counts::default()
            },
            start_cycles: (device_writes > 100).then_some(device_writes as f64),
        };
        Row {
            runs: writes.iter().map(run).collect(),
            ..Row::new(features)
        }
    }

    #[test]
    fn the_ratio_is_that_of_both_ends_with_precise_slices() {
        let rows = [
            row(Features::all(false, false), &[7]),
            row(Features::all(false, true), &[900, 1_000, 1_200]),
            row(Features::all(true, true), &[20, 40, 50]),
        ];
        let ratio = Ratio::of(&rows).expect("both ends ran");
        assert_eq!(
            (ratio.all_off, ratio.all_on, ratio.ratio),
            (1_000.0, 40.0, 0.04)
        );
        assert_eq!(Ratio::of(&rows[..2]), None);
        let rows = [
            row(Features::all(false, true), &[30]),
            row(Features::all(true, true), &[0]),
        ];
        assert_eq!(Ratio::of(&rows).map(|ratio| ratio.ratio), Some(0.0));
    }

    #[test]
    fn shares_need_something_to_be_a_share_of() {
        let row = row(Features::all(true, true), &[1, 1]);
        assert_eq!(row.spurious().map(|share| share.median), Some(0.25));
        assert_eq!(row.in_place(), None, "no queued timer was started");
        assert_eq!(row.start_cycles(), None, "none was timed");
        assert_eq!(row.device_writes_per_s().map(|rate| rate.median), Some(2.0));
    }

    #[test]
    fn what_keeps_its_place_is_a_share_of_updates() {
        let row = row(Features::all(true, true), &[7, 8]);
        assert_eq!(row.in_place().map(|share| share.median), Some(0.45));
        assert_eq!(row.starts().map(|starts| starts.median), Some(40.0));
    }
}

//! The marks of the executor in the prepared mixes, and the result for each mark.

use super::arguments::Plan;
use super::mix::Preset;
use super::result::{Part, Row};
use super::runtime::Subject;
use crate::histogram::quantile;
use crate::mark::{Mark, ratios};
use crate::spread::{Outcome, ROUNDS_MIN, Spread};
use crate::units;

/// A function that returns a figure of a part of a round.
type Of = fn(&Part) -> Option<f64>;

const WORST: Of = Part::worst;
const WORST_WEIGHT: Of = Part::worst_weight;
const P99: Of = |part| quantile(&part.periodic, 0.99).map(|nanos| nanos as f64);
const P999: Of = |part| quantile(&part.periodic, 0.999).map(|nanos| nanos as f64);
/// Reads the processor time for the same work, because tasks that compute use all the time that exists.
const TIME: Of = |part| (part.work > 0.0).then(|| 1.0 / part.work);

/// Returns the marks of the selected mix, for each runtime of this library with precise slices. Ratios are taken round
/// by round.
pub(super) fn of(plan: &Plan, rows: &[Row]) -> Vec<Mark> {
    let has_marks = |subject: &Subject| subject.is_ours() && subject.has_slices();
    let mut ours: Vec<Subject> = plan.subjects.iter().copied().filter(has_marks).collect();
    if ours.is_empty() {
        // So that it is said that it did not run.
        ours.push(Subject::Tickless);
    }
    let measured = Measured { plan, rows };
    let marks = ours.iter().map(|&subject| match plan.preset {
        Preset::One | Preset::Ten | Preset::Many => vec![measured.shares(subject)],
        Preset::Periodic => vec![
            measured.periodic(subject, Subject::Tokio),
            measured.periodic(subject, Subject::TokioYield),
        ],
        Preset::Queues => measured.queues(subject),
        Preset::Servers => Vec::new(),
    });
    marks.flatten().collect()
}

/// The figures by which marks are judged.
#[derive(Clone, Copy)]
struct Measured<'m> {
    plan: &'m Plan,
    rows: &'m [Row],
}

impl Measured<'_> {
    fn shares(self, subject: Subject) -> Mark {
        Mark::at_most(
            0.02,
            format!(
                "{}: each weight's share within 2 % of its entitlement over {}",
                subject.name(),
                units::time(self.plan.duration)
            ),
            self.figure(subject, WORST_WEIGHT),
            units::percent,
        )
    }

    /// Judges the lateness of periodic wake-ups against `other`: tokio's multi-thread runtime, in one of its two modes
    /// at checkpoints.
    fn periodic(self, subject: Subject, other: Subject) -> Mark {
        Mark::at_most(
            0.05,
            format!(
                "{}: p99.9 of periodic wake-ups at most 0.05 of that of {}",
                subject.name(),
                other.name()
            ),
            self.ratio(subject, other, P999),
            times,
        )
    }

    fn queues(self, subject: Subject) -> Vec<Mark> {
        let (name, other) = (subject.name(), Subject::Clockworker);
        let at_most_half = |what: &str, of| {
            Mark::at_most(
                0.5,
                format!("{name}: {what} at most 0.5 of clockworker's"),
                self.ratio(subject, other, of),
                times,
            )
        };
        vec![
            at_most_half("error of the worst task's share", WORST),
            at_most_half("p99 of the small task", P99),
            self.no_more(subject, other),
        ]
    }

    /// Judges a cost; the mark is missed only if each round costs more than each round of the other runtime.
    fn no_more(self, subject: Subject, other: Subject) -> Mark {
        let ratio = self.ratio(subject, other, TIME);
        let rounds = self.pairs(subject, other, TIME).map(|pairs| pairs.len());
        let ratio = ratio.and_then(|ratio| match rounds {
            Ok(0..ROUNDS_MIN) => Err(format!("it takes {ROUNDS_MIN} rounds to have a spread")),
            _ => Ok(ratio),
        });
        let figures = self
            .figure(subject, TIME)
            .ok()
            .zip(self.figure(other, TIME).ok());
        let is_more =
            figures.is_some_and(|(mine, theirs)| matches!(mine.compare(&theirs), Outcome::More(_)));
        Mark::new(
            format!(
                "{}: no more processor time for the same work than {}, within the spread of rounds",
                subject.name(),
                other.name()
            ),
            ratio,
            times,
            |_| !is_more,
        )
    }

    /// Returns the parts of a runtime in all rounds, if marks can be judged by them.
    fn parts(&self, subject: Subject) -> Result<&[Part], String> {
        if !self.plan.has_preset_tasks() {
            return Err(format!(
                "the tasks of the mix {} were changed",
                self.plan.preset.name()
            ));
        }
        let row = self.rows.iter().find(|row| row.subject == subject);
        let name = subject.name();
        match row {
            Some(Row {
                missing: Some(why), ..
            }) => Err(format!("{name} is missing, because {why}")),
            Some(row) if !row.parts.is_empty() => Ok(&row.parts),
            _ => Err(format!("{name} did not run")),
        }
    }

    fn figure(self, subject: Subject, of: Of) -> Result<Spread, String> {
        let parts = self.parts(subject)?;
        Spread::of(parts.iter().filter_map(of))
            .ok_or_else(|| format!("no round of {} was long enough", subject.name()))
    }

    /// Returns a figure of two runtimes, round by round.
    fn pairs(self, one: Subject, other: Subject, of: Of) -> Result<Vec<(f64, f64)>, String> {
        let pairs = self.parts(one)?.iter().zip(self.parts(other)?);
        Ok(pairs
            .filter_map(|(one, other)| of(one).zip(of(other)))
            .collect())
    }

    /// Returns the ratio of one subject's figure to another's.
    fn ratio(self, one: Subject, other: Subject, of: Of) -> Result<Spread, String> {
        let ratio = ratios(self.pairs(one, other, of)?);
        ratio.ok_or_else(|| {
            format!(
                "no round was long enough for both {} and {}",
                one.name(),
                other.name()
            )
        })
    }
}

fn times(ratio: f64) -> String {
    units::ratio(ratio)
}

#[cfg(test)]
mod tests;

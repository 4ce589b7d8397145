//! The rounds of a measurement: in each round every subject has its turn, in an order that rotates.
//!
//! The figures of one round belong together: ratios are taken round by round, so that a change of the machine's speed
//! changes no ratio.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::operation::{Family, Operation};

/// The median, the least and the greatest figure of the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median; with an even number of rounds, the greater of the two middle figures.
    pub median: f64,
    /// The least figure.
    pub min: f64,
    /// The greatest figure.
    pub max: f64,
}

impl Spread {
    /// Returns the spread of the figures; without figures it is not a number.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        Self {
            median: at(values.len() / 2),
            min: at(0),
            max: at(values.len().saturating_sub(1)),
        }
    }

    /// Returns the spread of the ratios of two subjects' figures, round by round.
    #[must_use]
    pub fn of_ratios(ones: &[f64], others: &[f64]) -> Self {
        let pairs = ones.iter().zip(others);
        Self::of(pairs.map(|(one, other)| one / other).collect())
    }

    /// Returns true if the greatest figure is more than twice the least, so that the median says little.
    #[must_use]
    pub fn is_wide(&self) -> bool {
        self.max > 2.0 * self.min
    }
}

/// The caller's part in a run: it may end the run early, and is notified of the progress.
pub trait Watch {
    /// Returns true if the run is to end now, with the figures measured so far.
    fn is_over(&self) -> bool;
    /// Announces the next measurement.
    fn next(&mut self, what: &str);
}

/// The columns of a row to the left of the subject: operation, part of it, pending timers, threads.
pub(crate) type Case = (Operation, &'static str, u64, u32);

/// The figures of all rounds of a subject.
pub(crate) struct Figures {
    pub(crate) subject: &'static str,
    pub(crate) family: Family,
    pub(crate) values: Vec<f64>,
}

/// The figures of a run, for each case and the number of each subject.
#[derive(Default)]
pub(crate) struct Table(pub(crate) BTreeMap<(Case, usize), Figures>);

impl Table {
    pub(crate) fn push(
        &mut self,
        case: Case,
        (number, subject, family): (usize, &'static str, Family),
        value: f64,
    ) {
        let empty = || Figures {
            subject,
            family,
            values: Vec::new(),
        };
        let figures = self.0.entry((case, number)).or_insert_with(empty);
        figures.values.push(value);
    }
}

/// Gives each of `count` subjects a turn in each of `rounds` rounds: `turn` gets the round and the number of the
/// subject. Returns false if `is_over` ended it.
pub(crate) fn rotate(rounds: u32, count: usize, mut turn: impl FnMut(u32, usize) -> bool) -> bool {
    // The first subject finds another machine than the last one does.
    (0..rounds).all(|round| (0..count).all(|place| turn(round, (place + round as usize) % count)))
}

/// A subject of a group: its name, and a function that is called once a round and returns the nanoseconds for one
/// operation of each of `N` parts.
pub(crate) type Subject<'a, const N: usize> = (&'static str, Box<dyn FnMut() -> [f64; N] + 'a>);

/// Makes a list of subjects that measure one part: `subjects! { NAME => MEASUREMENT, ... }`.
macro_rules! subjects {
    ($($name:expr => $measure:expr),+ $(,)?) => {
        vec![$(($name, Box::new(|| [$measure]) as Box<dyn FnMut() -> [f64; 1] + '_>)),+]
    };
}
pub(crate) use subjects;

/// A group of subjects with measurements of their own, which have one operation and share its settings.
pub(crate) struct Group<'a> {
    pub(crate) operation: Operation,
    pub(crate) rounds: u32,
    pub(crate) repeats: u64,
    pub(crate) watch: &'a mut dyn Watch,
    pub(crate) table: &'a mut Table,
    pub(crate) is_over: bool,
}

/// The number of repetitions for which the groups name their operations.
const REPEATS: u64 = 200_000;

impl Group<'_> {
    /// Returns how many of `operations` a run with fewer repetitions executes.
    pub(crate) fn operations(&self, operations: u64) -> u64 {
        (operations.saturating_mul(self.repeats) / REPEATS).max(10)
    }

    /// Measures all subjects round by round. One more round at the beginning warms up and is not counted.
    pub(crate) fn measure<const N: usize>(
        &mut self,
        parts: [(&'static str, u64, u32); N],
        mut subjects: Vec<Subject<'_, N>>,
    ) {
        let (operation, count) = (self.operation, subjects.len());
        let turn = |round: u32, number: usize| {
            let (subject, measure) = &mut subjects[number];
            if self.watch.is_over() {
                return false;
            }
            self.watch.next(&format!("{}: {subject}", operation.name()));
            for ((part, pending, threads), value) in parts.into_iter().zip(measure()) {
                if round > 0 {
                    let of = (number, *subject, Family::of(subject));
                    self.table
                        .push((operation, part, pending, threads), of, value);
                }
            }
            true
        };
        self.is_over |= !rotate(self.rounds + 1, count, turn);
    }
}

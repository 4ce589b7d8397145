//! The harness of the benchmark: interleaved rounds, and the medians and ratios of their figures.

use std::time::Instant;

use tickless_peers::Spread;

/// The number of rounds and operations to measure.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) rounds: u32,
    pub(crate) quick: bool,
}

impl Options {
    /// Returns `operations`, or a hundredth of it in a quick run.
    pub(crate) fn operations(&self, operations: u64) -> u64 {
        if self.quick {
            (operations / 100).max(10)
        } else {
            operations
        }
    }
}

/// A row of the JSON output.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Row {
    pub(crate) op: String,
    pub(crate) pending: u64,
    pub(crate) threads: u32,
    pub(crate) subject: String,
    pub(crate) ns: Spread,
    /// Our figure divided by the subject's: below 1 is better.
    pub(crate) ratio: Spread,
}

/// A measured subject: its name, and a function that is called once a round and returns the nanoseconds for one
/// operation.
pub(crate) type Subject<'a> = (&'static str, Box<dyn FnMut() -> f64 + 'a>);

/// Makes a list of subjects: `subjects! { NAME => MEASUREMENT, ... }`.
macro_rules! subjects {
    ($($name:expr => $measure:expr),+ $(,)?) => {
        vec![$(($name, Box::new(|| $measure) as Box<dyn FnMut() -> f64 + '_>)),+]
    };
}
pub(crate) use subjects;

/// A promised limit to a figure.
#[derive(Debug)]
enum Mark {
    /// `tickless` takes at most `limit` times as long as the subject.
    Ratio { subject: &'static str, limit: f64 },
    /// The subject takes at most `limit` times as long as another subject.
    Of {
        subject: &'static str,
        limit: f64,
        of: &'static str,
    },
    /// The subject takes at most `limit` nanoseconds.
    Nanos { subject: &'static str, limit: f64 },
}

/// A function that takes each group as soon as it is measured.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(Group);

/// A group of subjects that were measured together.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) operation: String,
    pending: u64,
    threads: u32,
    /// The name of each subject, with the figure of each round.
    measured: Vec<(&'static str, Vec<f64>)>,
    marks: Vec<Mark>,
}

impl Group {
    /// Measures all subjects in turn, round after round. The first subject must be `tickless`. One more round at the
    /// beginning warms up and is not counted.
    pub(crate) fn measure(
        operation: impl Into<String>,
        pending: u64,
        options: &Options,
        mut subjects: Vec<Subject<'_>>,
    ) -> Self {
        let mut measured: Vec<_> = subjects
            .iter()
            .map(|(name, _)| (*name, Vec::new()))
            .collect();
        for round in 0..=options.rounds {
            for ((_, measure), (_, values)) in subjects.iter_mut().zip(&mut measured) {
                let value = measure();
                if round > 0 {
                    values.push(value);
                }
            }
        }
        Self::of_rounds(operation, pending, measured)
    }

    /// Makes a group of figures that were measured already, round by round.
    pub(crate) fn of_rounds(
        operation: impl Into<String>,
        pending: u64,
        measured: Vec<(&'static str, Vec<f64>)>,
    ) -> Self {
        Self {
            operation: operation.into(),
            pending,
            threads: 1,
            measured,
            marks: Vec::new(),
        }
    }

    pub(crate) fn threads(mut self, threads: u32) -> Self {
        self.threads = threads;
        self
    }

    /// Promises that `tickless` takes at most `limit` times as long as `subject`.
    pub(crate) fn at_most(mut self, limit: f64, subject: &'static str) -> Self {
        self.marks.push(Mark::Ratio { subject, limit });
        self
    }

    /// Promises that `subject` takes at most `limit` times as long as `of`.
    pub(crate) fn at_most_of(
        mut self,
        subject: &'static str,
        limit: f64,
        of: &'static str,
    ) -> Self {
        self.marks.push(Mark::Of { subject, limit, of });
        self
    }

    /// Promises that `subject` takes at most `limit` nanoseconds.
    pub(crate) fn at_most_nanos(mut self, subject: &'static str, limit: f64) -> Self {
        self.marks.push(Mark::Nanos { subject, limit });
        self
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> {
        let ours = &self.measured[0].1;
        self.measured.iter().map(move |(subject, values)| Row {
            op: self.operation.clone(),
            pending: self.pending,
            threads: self.threads,
            subject: (*subject).to_owned(),
            ns: Spread::of(values.clone()),
            ratio: ratios(ours, values),
        })
    }

    /// Describes each mark and its result.
    pub(crate) fn marks(&self) -> impl Iterator<Item = String> {
        self.marks.iter().map(|mark| {
            let figure = match *mark {
                Mark::Ratio { subject, limit } => self
                    .ratio_of(self.measured[0].0, subject)
                    .map(|spread| (spread, limit, format!("{limit} of {subject}"))),
                Mark::Of { subject, limit, of } => self
                    .ratio_of(subject, of)
                    .map(|spread| (spread, limit, format!("{limit} of {of} for {subject}"))),
                Mark::Nanos { subject, limit } => self.of(subject).map(|values| {
                    let of = format!("{limit} ns for {subject}");
                    (Spread::of(values.to_vec()), limit, of)
                }),
            };
            let (spread, limit, of) = match figure {
                Ok(figure) => figure,
                Err(subject) => return format!("mark: {subject} was not measured, MISSED"),
            };
            let verdict = if spread.median <= limit {
                "holds"
            } else {
                "MISSED"
            };
            let Spread { median, min, max } = spread;
            format!("mark: at most {of}: {median:.2} ({min:.2} to {max:.2}), {verdict}")
        })
    }

    /// Returns the figures of a subject's rounds, or the subject's name if it was not measured.
    fn of(&self, subject: &'static str) -> Result<&[f64], &'static str> {
        let measured = self.measured.iter().find(|(name, _)| *name == subject);
        measured.map(|(_, values)| &values[..]).ok_or(subject)
    }

    /// Returns the ratio of one subject to another, round by round.
    fn ratio_of(&self, subject: &'static str, of: &'static str) -> Result<Spread, &'static str> {
        Ok(ratios(self.of(subject)?, self.of(of)?))
    }

    /// Returns the name of the measured operation and the conditions of the measurement.
    pub(crate) fn title(&self) -> String {
        let mut title = self.operation.clone();
        if self.pending > 1 {
            title += &format!(", {} pending", self.pending);
        }
        if self.threads > 1 {
            title += &format!(", {} threads", self.threads);
        }
        title
    }
}

/// Divides the figures of two subjects round by round, and returns the median and spread of the ratios.
fn ratios(ones: &[f64], others: &[f64]) -> Spread {
    let pairs = ones.iter().zip(others);
    Spread::of(pairs.map(|(one, other)| one / other).collect())
}

/// Calls `body`, which executes `operations` operations, and returns the nanoseconds for one operation.
pub(crate) fn time(operations: u64, body: impl FnOnce()) -> f64 {
    let start = Instant::now();
    body();
    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    {
        start.elapsed().as_nanos() as f64 / operations as f64
    }
}

/// Executes `operation` as often as `operations` says, and returns the nanoseconds for one execution.
pub(crate) fn each(operations: u64, mut operation: impl FnMut()) -> f64 {
    time(operations, || {
        for _ in 0..operations {
            operation();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_round_by_round() {
        let options = Options {
            rounds: 3,
            quick: false,
        };
        let speed = std::cell::Cell::new(1.0);
        let group = Group::measure(
            "x",
            0,
            &options,
            vec![
                ("tickless", Box::new(|| speed.replace(speed.get() * 2.0))),
                ("other", Box::new(|| speed.get() * 3.0)),
            ],
        )
        .at_most(0.2, "other")
        .at_most(0.1, "other")
        .at_most_of("other", 6.0, "tickless")
        .at_most_of("other", 5.9, "tickless")
        .at_most_of("other", 6.0, "who was not asked");
        let rows: Vec<_> = group.rows().collect();
        // A machine that gets slower and slower changes no ratio.
        assert!((rows[1].ratio.median - 1.0 / 6.0).abs() < 1e-9);
        assert!((rows[1].ratio.max - 1.0 / 6.0).abs() < 1e-9);
        let marks: Vec<_> = group.marks().collect();
        assert_eq!(
            marks,
            [
                "mark: at most 0.2 of other: 0.17 (0.17 to 0.17), holds",
                "mark: at most 0.1 of other: 0.17 (0.17 to 0.17), MISSED",
                "mark: at most 6 of tickless for other: 6.00 (6.00 to 6.00), holds",
                "mark: at most 5.9 of tickless for other: 6.00 (6.00 to 6.00), MISSED",
                "mark: who was not asked was not measured, MISSED",
            ]
        );
    }
}

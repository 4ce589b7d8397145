//! Marks: promised figures, and the result for each. A mark that is missed changes no exit code.

use serde::Serialize;

use crate::spread::Spread;

/// The verdict on a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MarkVerdict {
    Holds,
    Missed,
    NotMeasured,
}

/// A promised figure, with the measured one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Mark {
    /// The mark in words.
    pub(crate) mark: String,
    pub(crate) verdict: MarkVerdict,
    pub(crate) figure: Option<Spread>,
    /// The reason why the figure was not measured.
    pub(crate) why: Option<String>,
    /// The figure as text for people.
    #[serde(skip)]
    shown: String,
}

impl Mark {
    /// Judges `figure` by `holds`; if there is no figure, its error is the reason.
    pub(crate) fn new(
        mark: impl Into<String>,
        figure: Result<Spread, String>,
        show: impl Fn(f64) -> String,
        holds: impl FnOnce(&Spread) -> bool,
    ) -> Self {
        let verdict = match &figure {
            Ok(figure) if holds(figure) => MarkVerdict::Holds,
            Ok(_) => MarkVerdict::Missed,
            Err(_) => MarkVerdict::NotMeasured,
        };
        let shown = figure.as_ref().map(|figure| figure.show(show));
        let shown = shown.unwrap_or_default();
        let (figure, why) = match figure {
            Ok(figure) => (Some(figure), None),
            Err(why) => (None, Some(why)),
        };
        Self {
            mark: mark.into(),
            verdict,
            figure,
            why,
            shown,
        }
    }

    /// Makes a mark that holds if the median of the figure is `limit` at most.
    pub(crate) fn at_most(
        limit: f64,
        mark: impl Into<String>,
        figure: Result<Spread, String>,
        show: impl Fn(f64) -> String,
    ) -> Self {
        Self::new(mark, figure, show, |figure| figure.median <= limit)
    }

    /// Formats the mark as a line: `mark: at most 100 cycles for a start: 92.0 (90.1 to 95.0), holds`.
    pub(crate) fn line(&self) -> String {
        let (mark, shown) = (&self.mark, &self.shown);
        match self.verdict {
            MarkVerdict::Holds => format!("mark: {mark}: {shown}, holds"),
            MarkVerdict::Missed => format!("mark: {mark}: {shown}, MISSED"),
            MarkVerdict::NotMeasured => {
                let why = self.why.as_deref().unwrap_or("it did not run");
                format!("mark: {mark}: not measured: {why}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mark;
    use crate::spread::Spread;

    fn shown(value: f64) -> String {
        format!("{value:.1}")
    }

    fn figure(values: &[f64]) -> Result<Spread, String> {
        Spread::of(values.iter().copied()).ok_or_else(|| "nothing ran".to_owned())
    }

    #[test]
    fn the_median_decides_and_a_limit_that_is_just_met_holds() {
        let at_most = Mark::at_most(2.0, "at most 2", figure(&[1.0, 2.0, 9.0]), shown);
        assert_eq!(at_most.line(), "mark: at most 2: 2.0 (1.0 to 9.0), holds");
        let at_most = Mark::at_most(2.0, "at most 2", figure(&[2.1]), shown);
        assert_eq!(at_most.line(), "mark: at most 2: 2.1, MISSED");
    }

    #[test]
    fn what_was_not_measured_says_why() {
        let mark = Mark::at_most(2.0, "at most 2", figure(&[]), shown);
        assert_eq!(mark.line(), "mark: at most 2: not measured: nothing ran");
        let document = serde_json::to_value(&mark).expect("plain data");
        let expected = serde_json::json!({
            "mark": "at most 2",
            "verdict": "not-measured",
            "figure": null,
            "why": "nothing ran",
        });
        assert_eq!(document, expected);
    }
}

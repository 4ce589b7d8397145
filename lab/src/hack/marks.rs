//! The marks of the executor under hackbench's load, and the result for each mark.

use super::arguments::Device;
use super::features::Features;
use super::result::{Ran, Row};
use crate::mark::{Mark, ratios};
use crate::spread::{Outcome, ROUNDS_MIN, Spread};
use crate::units;

/// The features of a run with precise slices.
const ALL_ON: Features = Features::all(true, true);
const ALL_OFF: Features = Features::all(false, true);

/// Returns the marks, in the order of the table. Ratios are taken round by round.
pub(super) fn of(rows: &[Row], device: Device) -> Vec<Mark> {
    vec![
        Mark::at_most(
            0.04,
            "device writes with everything on at most 0.04 of those with everything off",
            fewer_writes(rows, device),
            times,
        ),
        run_time(rows),
        Mark::at_most(
            0.25,
            "at most 25 % of timer interrupts spurious",
            figure(rows, Row::spurious, "there was no timer interrupt"),
            units::percent,
        ),
        Mark::at_least(
            0.35,
            "at least 35 % of updates in place",
            figure(rows, Row::in_place, "no timer was started that was queued"),
            units::percent,
        ),
        Mark::at_most(
            100.0,
            "at most 100 cycles for a start, 50 ns at 0.5 ns each",
            figure(rows, Row::start_cycles, "no start was timed"),
            units::digits,
        ),
    ]
}

/// Returns the row of a configuration, if the configuration ran.
fn row(rows: &[Row], features: Features) -> Result<&Row, String> {
    let row = Row::find(rows, features);
    row.filter(|row| !row.runs.is_empty()).ok_or_else(|| {
        format!(
            "the configuration \"{}\" with hrtick did not run",
            features.name()
        )
    })
}

/// Returns a figure of the configuration with everything on. If the configuration ran without the figure, `missing` is
/// the reason.
fn figure(rows: &[Row], of: fn(&Row) -> Option<Spread>, missing: &str) -> Result<Spread, String> {
    of(row(rows, ALL_ON)?).ok_or_else(|| missing.to_owned())
}

/// Returns a ratio of the configurations with everything on and everything off, round by round.
fn ends(rows: &[Row], ratio: impl Fn(&Ran, &Ran) -> (f64, f64)) -> Result<(Spread, usize), String> {
    let (on, off) = (row(rows, ALL_ON)?, row(rows, ALL_OFF)?);
    let pairs = on.runs.iter().zip(&off.runs);
    let rounds = pairs.len();
    let ratios = ratios(pairs.map(|(on, off)| ratio(on, off)));
    let ratios = ratios.ok_or_else(|| "there was no round".to_owned())?;
    Ok((ratios, rounds))
}

fn fewer_writes(rows: &[Row], device: Device) -> Result<Spread, String> {
    if device == Device::Counter {
        return Err("checkpoints compare the counter, so there is no device to write".to_owned());
    }
    let off = row(rows, ALL_OFF)?;
    if off.runs.iter().all(|run| run.counts.device_writes == 0) {
        return Err("nothing was written with everything off".to_owned());
    }
    let writes = |run: &Ran| run.counts.device_writes as f64;
    let (ratio, _) = ends(rows, |on, off| (writes(on), writes(off)))?;
    Ok(ratio)
}

/// Judges the run time; the mark is missed only if each round with everything on is longer than each with everything
/// off.
fn run_time(rows: &[Row]) -> Mark {
    let ratio = ends(rows, |on, off| (on.seconds(), off.seconds()));
    let ratio = ratio.and_then(|(ratio, rounds)| match rounds {
        0..ROUNDS_MIN => Err(format!("it takes {ROUNDS_MIN} rounds to have a spread")),
        _ => Ok(ratio),
    });
    let seconds = |features| row(rows, features).ok().and_then(Row::seconds);
    let is_longer = seconds(ALL_ON)
        .zip(seconds(ALL_OFF))
        .is_some_and(|(on, off)| matches!(on.compare(&off), Outcome::More(_)));
    Mark::new(
        "run time with everything on no longer than with everything off, within the spread of rounds",
        ratio,
        times,
        |_| !is_longer,
    )
}

fn times(ratio: f64) -> String {
    units::ratio(ratio)
}

#[cfg(test)]
mod tests {
    use super::{ALL_OFF, ALL_ON, of};
    use crate::hack::arguments::Device;
    use crate::hack::result::{Counts, Ran, Row};
    use crate::mark::MarkVerdict::{self, Holds, Missed, NotMeasured};
    use std::time::Duration;

    /// The figures of a run: milliseconds, writes, spurious interrupts, in-place updates of 100 each, and cycles of a
    /// start.
    type Figures = (u64, u64, u64, u64, f64);

    const GOOD: Figures = (400, 40, 25, 35, 100.0);
    const OFF: Figures = (410, 1_000, 0, 0, 300.0);

    fn row(features: super::Features, runs: &[Figures]) -> Row {
        let run = |&(millis, device_writes, spurious, in_place, cycles)| Ran {
            took: Duration::from_millis(millis),
            counts: Counts {
                device_writes,
                interrupts: 100,
                spurious,
                starts: 1_000,
                updates: 100,
                in_place,
                ..Counts::default()
            },
            start_cycles: Some(cycles),
        };
        Row {
            runs: runs.iter().map(run).collect(),
            ..Row::new(features)
        }
    }

    fn verdicts(on: &[Figures], off: &[Figures]) -> Vec<MarkVerdict> {
        let rows = [row(ALL_OFF, off), row(ALL_ON, on)];
        let marks = of(&rows, Device::Signal);
        marks.iter().map(|mark| mark.verdict).collect()
    }

    #[test]
    fn a_mark_that_is_just_met_holds_and_one_beyond_is_missed() {
        assert_eq!(verdicts(&[GOOD; 3], &[OFF; 3]), [Holds; 5]);
        let bad = (413, 41, 26, 34, 100.1);
        assert_eq!(verdicts(&[bad; 3], &[OFF; 3]), [Missed; 5]);
    }

    #[test]
    fn run_times_that_overlap_are_the_same() {
        let (shorter, longer) = ((400, 40, 0, 50, 50.0), (450, 40, 0, 50, 50.0));
        assert_eq!(verdicts(&[shorter, longer, longer], &[OFF; 3])[1], Holds);
        assert_eq!(verdicts(&[longer; 2], &[OFF; 2])[1], NotMeasured);
    }

    #[test]
    fn what_did_not_run_is_not_measured() {
        assert_eq!(verdicts(&[], &[OFF]), [NotMeasured; 5]);
        let [writes, time, rest @ ..] = &verdicts(&[GOOD; 2], &[])[..] else {
            panic!("there are five");
        };
        assert_eq!((*writes, *time), (NotMeasured, NotMeasured));
        assert_eq!(rest, [Holds; 3]);
        let nothing = Row::new(ALL_ON);
        let marks = of(&[nothing], Device::Signal);
        assert_eq!(
            marks[2].line(),
            "mark: at most 25 % of timer interrupts spurious: not measured: the configuration \"all on\" with hrtick \
             did not run"
        );
    }

    #[test]
    fn the_counter_has_no_device_to_write() {
        let rows = [row(ALL_OFF, &[OFF; 2]), row(ALL_ON, &[GOOD; 2])];
        let marks = of(&rows, Device::Counter);
        assert_eq!(marks[0].verdict, NotMeasured);
        assert!(marks[0].line().ends_with("no device to write"), "{marks:?}");
        let lines: Vec<String> = of(&rows, Device::Signal)
            .iter()
            .map(|mark| mark.line())
            .collect();
        assert_eq!(
            lines[0],
            "mark: device writes with everything on at most 0.04 of those with everything off: 0.04, holds"
        );
    }
}

//! The report of `tickless sim predict`: predictions next to measurements.

use maud::html;
use tickless_sim::{ProcessCounts, Profile};

use super::{Both, Row};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::page::figure;
use crate::plot::{self, Bar, OTHERS, TICKLESS};
use crate::report::{Graphic, Report};
use crate::table::Grid;
use crate::{shown, units};

/// Returns the findings of the run.
pub(super) fn of(machine: &Machine, profile: &Profile, rows: &[Row]) -> Result<Report, Failure> {
    let missed = rows.iter().filter(|row| !row.holds);
    let lead = format!("{}: {}", profile.name, profile.about);
    Ok(Report {
        heading: "Predicted",
        lead: shown::line(lead.trim_end_matches('.')).into_owned(),
        machine: machine.summary(),
        tables: vec![
            ("Times".into(), times(rows)),
            ("Counts".into(), counts(rows)),
        ],
        conclusions: missed
            .map(|row| {
                let timers = units::count(row.timers as u64);
                format!(
                    "The time of \"{}\", {timers} timers, does not hold: the prediction leaves out {}.",
                    row.workload, row.leaves_out
                )
            })
            .collect(),
        graphic: Graphic {
            plots: Some(plots(rows)?),
            ..Graphic::default()
        },
        ..Report::default()
    })
}

fn plots(rows: &[Row]) -> Result<maud::Markup, Failure> {
    let panels = rows.iter().map(|row| {
        let bar = |ink, name: &str, value: f64| Bar {
            ink,
            name: name.to_owned(),
            value,
            text: units::nanos(value),
        };
        let bars = [
            bar(OTHERS[3], "predicted", row.ns.predicted),
            bar(TICKLESS[0], "measured", row.ns.measured),
        ];
        let timers = units::count(row.timers as u64);
        let caption = html! { (row.workload) ", " (timers) " timers" };
        plot::bars(&bars).map(|drawn| figure(drawn, &caption))
    });
    let panels = panels.collect::<Result<Vec<_>, _>>()?;
    Ok(html! { div.panels { @for panel in panels { (panel) } } })
}

fn times(rows: &[Row]) -> Grid {
    let cells = rows.iter().map(|row| {
        vec![
            row.workload.to_owned(),
            row.made_of.to_owned(),
            units::count(row.timers as u64),
            units::nanos(row.ns.predicted),
            units::nanos(row.ns.measured),
            row.measured_spread.map(units::nanos).join(" to "),
            format!("{:.2}", row.ratio),
            if row.holds { "holds" } else { "does not hold" }.to_owned(),
            if row.counts_equal { "equal" } else { "DIFFER" }.to_owned(),
        ]
    });
    Grid {
        head: vec![
            "workload",
            "made of",
            "timers",
            "predicted",
            "measured",
            "spread",
            "ratio",
            "within 25 %",
            "counts",
        ],
        left: 2,
        rows: cells.collect(),
        note: "",
    }
}

fn counts(rows: &[Row]) -> Grid {
    let cells = rows.iter().map(|row| {
        let Both {
            predicted,
            measured,
        } = &row.counts;
        let pairs = figures(predicted).into_iter().zip(figures(measured));
        let cell = |(predicted, measured): (u64, u64)| {
            if predicted == measured {
                units::count(measured)
            } else {
                format!("{} / {}", units::count(predicted), units::count(measured))
            }
        };
        let mut cells = vec![row.workload.to_owned(), units::count(row.timers as u64)];
        cells.extend(pairs.map(cell));
        cells
    });
    Grid {
        head: vec![
            "workload",
            "timers",
            "inserts",
            "erases",
            "in place",
            "device writes",
            "sleeps",
            "spurious",
            "filed",
            "in slot",
            "taken out",
        ],
        left: 1,
        rows: cells.collect(),
        note: "Predicted and measured are the same unless two numbers stand there.",
    }
}

fn figures(counts: &ProcessCounts) -> [u64; 9] {
    [
        counts.inserts,
        counts.erases,
        counts.in_place,
        counts.device_writes,
        counts.wakes,
        counts.spurious,
        counts.coarse_files,
        counts.coarse_in_slot,
        counts.coarse_takes,
    ]
}

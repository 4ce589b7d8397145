//! The page with predictions beside measurements.

use maud::html;
use tickless_sim::Profile;

use super::{HEAD, Row, cells};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::page::{figure, page};
use crate::plot::{self, Bar, OTHERS, TICKLESS};
use crate::{table, units};

/// The whole page.
pub(super) fn of(machine: &Machine, profile: &Profile, rows: &[Row]) -> Result<String, Failure> {
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
    let missed: Vec<&Row> = rows.iter().filter(|row| !row.holds).collect();
    let body = html! {
        p.lead { b { (profile.name) } ": " (profile.about) }
        (table::html(&HEAD, 1, &cells(rows)))
        @if !missed.is_empty() {
            h2 { "Where a time does not hold, the prediction leaves out" }
            table.facts { tbody { @for row in &missed {
                tr { th scope="row" { (row.workload) ", " (units::count(row.timers as u64)) }
                    td { (row.leaves_out) } }
            } } }
        }
        h2 { "Predicted and measured" }
        div.panels { @for panel in panels { (panel) } }
        h2 { "What ran" }
        p { (machine.summary()) }
    };
    Ok(page("Predicted", &body))
}

//! The outcome of a simulation as an HTML page.

use maud::{Markup, html};
use tickless_sim::{Outcome, Promise, Scenario};

use super::timeline::Picture;
use super::{summary, timeline};
use crate::page::page;
use crate::shown;
use crate::units;

/// Returns the whole page. `twice` is true if determinism was checked, too.
pub(super) fn of(
    scenario: &Scenario,
    outcome: &Outcome,
    picture: Option<&Picture>,
    twice: bool,
) -> String {
    let deep = outcome.residency.iter().filter(|state| state.deep);
    let deep: Vec<String> = deep.map(|state| state.state.clone()).collect();
    let machine = &scenario.profile;
    let body = html! {
        p.lead {
            (outcome.duration) " of virtual time on " (units::counted(outcome.cpus.into(), "CPU")) " of "
            b { (shown::line(&outcome.profile)) } ", " (machine.about) ". Seed " (outcome.seed) "."
        }
        h2 { "Promises" }
        (promises(outcome, twice))
        h2 { "What each workload did" }
        (summary::workloads(scenario, outcome).html())
        (summary::did(outcome).html())
        (summary::late(scenario, outcome).html())
        p.note { "CPUs stand together on which the same workloads may run. Of others, by others: coarse timers of \
            idle CPUs that an awake one runs. Exact timers include the tick of each CPU. Theft: for how long \
            interrupts kept a task from running that measures it." }
        @if let Some(picture) = picture {
            style { (timeline::STYLE_SHEET) }
            (timeline::section(picture, &deep))
        }
        p.note { "The same seed gives the same figures, to the byte." }
    };
    page(&format!("Simulated: {}", outcome.scenario), &body)
}

fn promises(outcome: &Outcome, twice: bool) -> Markup {
    let checked = Promise::ALL.into_iter();
    let checked = checked.filter(|promise| twice || *promise != Promise::Deterministic);
    html! {
        @if outcome.holds() {
            p { "Every promise was kept: "
                @for (place, promise) in checked.enumerate() { @if place > 0 { ", " } code { (promise.name()) } } "." }
        } @else {
            ul.checks { @for promise in checked {
                @let times = outcome.broken.get(&promise).copied().unwrap_or(0);
                li.held[times == 0].failed[times > 0] {
                    code { (promise.name()) }
                    @if times > 0 { " was broken " (units::counted(times, "time")) }
                }
            } }
            pre { (summary::broken(outcome)) }
        }
    }
}

//! The outcome of a simulation as an HTML page.

use maud::{Markup, html};
use tickless_sim::{Distribution, Group, Outcome, Picos, Promise, Scenario};

use super::timeline::Picture;
use super::{summary, timeline};
use crate::failure::Failure;
use crate::page::{figure, page};
use crate::plot::{self, Bar, Curve, OTHERS, TICKLESS};
use crate::shown;
use crate::units;

/// Returns the whole page. `twice` is true if determinism was checked, too.
pub(super) fn of(
    scenario: &Scenario,
    outcome: &Outcome,
    picture: Option<&Picture>,
    twice: bool,
) -> Result<String, Failure> {
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
        (late(outcome)?)
        @if let Some(picture) = picture {
            style { (timeline::STYLE) }
            (timeline::section(picture, &deep))
        }
        h2 { "How the CPUs spent their time" }
        div.panels { @for group in &outcome.groups { (residency(outcome, group)?) } }
        h2 { "What it costs" }
        @if outcome.groups.iter().any(|group| group.isolated) {
            p.legend { span.tickless { "housekeeping" } span.tickless-2 { "isolated" } }
        }
        div.panels { (costs(outcome)?) }
        p.note { "The same seed gives the same figures, to the byte." }
    };
    Ok(page(&format!("Simulated: {}", outcome.scenario), &body))
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

/// Returns, for each time, the share of all events that were at least as late: in steps, because there may be few
/// different times.
fn tail(times: &Distribution) -> Vec<(f64, f64)> {
    let total = times.count() as f64;
    let mut above = times.count();
    // What is below a nanosecond has no place on a logarithmic axis.
    let mut before = 1.0;
    let mut points = Vec::new();
    for (value, count) in times.values() {
        let at = (value.0 as f64 / 1e3).max(before);
        let share = above as f64 / total;
        points.extend([(before, share), (at, share)]);
        before = at;
        above -= count;
    }
    points
}

/// Draws the lateness of timers, and the records of the workloads, as curves.
fn late(outcome: &Outcome) -> Result<Markup, Failure> {
    let curves = |all: &[(&str, &Distribution)]| -> Vec<Curve> {
        let all = all.iter().zip(TICKLESS);
        let all = all.map(|((name, times), ink)| Curve {
            name: (*name).to_owned(),
            ink,
            points: tail(times),
        });
        all.filter(|curve| !curve.points.is_empty()).collect()
    };
    let timers = curves(&[
        ("exact", &outcome.late_exact),
        ("coarse, run by their CPU", &outcome.late_own),
        ("coarse, run by another", &outcome.late_remote),
    ]);
    let noted = outcome
        .series
        .iter()
        .map(|(name, times)| (*name, curves(&[(*name, times)])));
    let noted: Vec<(&str, Vec<Curve>)> = noted.filter(|(_, curves)| !curves.is_empty()).collect();
    if timers.is_empty() && noted.is_empty() {
        return Ok(html! {});
    }
    let all = noted.iter().flat_map(|(_, curves)| curves);
    let all: Vec<Curve> = timers.iter().chain(all).cloned().collect();
    let across = plot::times(&all);
    Ok(html! {
        h2 { "How late" }
        @if !timers.is_empty() {
            p.legend {
                span.tickless { "exact" } span.tickless-2 { "coarse, run by their CPU" }
                span.tickless-3 { "coarse, run by another" }
            }
            (figure(plot::tails(&timers, &across)?, &html! { "The share of timers that fired at least so late. Coarse \
                ones are counted from the tick at which they are due." }))
        }
        @for (name, curves) in &noted {
            p.legend { span.tickless { (name) } }
            (figure(plot::tails(curves, &across)?, &html! { "What the workloads noted as " code { (name) }
                ": the share that was at least so long." }))
        }
    })
}

fn share(part: Picos, all: u128) -> f64 {
    part.0 as f64 * 100.0 / all.max(1) as f64
}

/// Shortens the name of a group to the space next to a bar.
fn label(group: &Group) -> String {
    const LONGEST: usize = 13;
    let name = summary::ranges(&group.cpus);
    if name.len() <= LONGEST {
        return name;
    }
    let first = name.split(',').next().unwrap_or("");
    format!("{first},…")
}

fn residency(outcome: &Outcome, group: &Group) -> Result<Markup, Failure> {
    let all = u128::from(outcome.duration.0) * group.cpus.len() as u128;
    let idle = group
        .residency
        .iter()
        .fold(Picos::ZERO, |sum, time| sum + *time);
    let bar = |name: &str, ink, time: Picos| {
        let value = share(time, all);
        Bar {
            ink,
            name: name.to_owned(),
            value,
            text: format!("{value:.2} %"),
        }
    };
    let whole = Picos(u64::try_from(all).unwrap_or(u64::MAX));
    let mut bars = vec![bar("awake", TICKLESS[0], whole - idle)];
    for (state, time) in outcome.residency.iter().zip(&group.residency) {
        let ink = OTHERS[usize::from(state.deep)];
        bars.push(bar(&state.state, ink, *time));
    }
    let isolated = if group.isolated { ", isolated" } else { "" };
    let caption = html! { "CPUs " (summary::short_ranges(&group.cpus)) (isolated) };
    Ok(figure(plot::bars(&bars)?, &caption))
}

/// Draws a panel for each cost, with a bar for each group.
fn costs(outcome: &Outcome) -> Result<Markup, Failure> {
    type Of = fn(&Group) -> u64;
    let panels: [(&str, Of); 4] = [
        ("Writes to event devices", |group| group.tally.device_writes),
        ("Timer interrupts", |group| group.tally.interrupts),
        ("Wake-ups from idle", |group| group.tally.wakes),
        ("Inter-processor interrupts", |group| group.tally.ipis),
    ];
    let seconds = outcome.duration.0 as f64 / 1e12;
    let mut drawn = Vec::new();
    for (caption, of) in panels {
        let bars = outcome.groups.iter().map(|group| {
            let value = of(group) as f64 / seconds / group.cpus.len().max(1) as f64;
            Bar {
                ink: TICKLESS[usize::from(group.isolated)],
                name: label(group),
                value,
                text: units::digits(value),
            }
        });
        let bars: Vec<Bar> = bars.collect();
        let caption = html! { (caption) ", a second and CPU" };
        drawn.push(figure(plot::bars(&bars)?, &caption));
    }
    Ok(html! { @for panel in drawn { (panel) } })
}

#[cfg(test)]
mod tests {
    use super::tail;
    use tickless_sim::{Distribution, Picos};

    #[test]
    fn a_tail_begins_with_all_and_ends_with_the_latest() {
        let mut times = Distribution::default();
        for nanos in [10, 10, 10, 400] {
            times.note(Picos::from_nanos(nanos));
        }
        let points = tail(&times);
        let tenth = points[1].0;
        assert!((10.0..11.3).contains(&tenth), "{tenth}");
        assert_eq!(
            points,
            [(1.0, 1.0), (tenth, 1.0), (tenth, 0.25), (400.0, 0.25)]
        );
        assert!(tail(&Distribution::default()).is_empty());
    }
}

//! The last sentences, by rule: every comparison that is lost is named.
//!
//! A row is lost when the cheapest timer of this library takes more than the cheapest of the others. It is lost *beyond
//! the spread* when it took more in each round than that one in any.

use tickless_peers::{Family, Operation, Row};

use super::Finished;
use super::groups::{self, Group, unit};
use crate::units;

/// Returns the conclusions of the run, one sentence each.
pub(super) fn sentences(finished: &Finished) -> Vec<String> {
    let groups = groups::all(finished);
    let compared: Vec<_> = { groups.iter() }
        .filter_map(|group| {
            let ours = group.best(|row| row.family == Family::Tickless)?;
            Some((group, ours, group.best_peer()?))
        })
        .collect();
    let mut sentences = Vec::new();
    if compared.is_empty() {
        return sentences;
    }
    let lost = |ours: &Row, theirs: &Row| ours.figure().median > theirs.figure().median;
    let (mut within, mut lost_count) = (Vec::new(), 0);
    for (group, ours, theirs) in &compared {
        if !lost(ours, theirs) {
            continue;
        }
        lost_count += 1;
        if is_beyond_the_spread(ours, theirs) {
            sentences.push(sentence(group, ours, theirs, "takes"));
        } else {
            within.push(group.title());
        }
    }
    let count = |count: usize| units::count(count as u64);
    sentences.insert(
        0,
        format!(
            "Tickless is first in {} of {} comparisons with the cheapest peer.",
            count(compared.len() - lost_count),
            count(compared.len())
        ),
    );
    if !within.is_empty() {
        sentences.push(format!("Behind, within the spread: {}.", within.join("; ")));
    }
    sentences.extend(against_tokio(&groups));
    sentences.extend(unsteady(finished));
    sentences
}

fn is_beyond_the_spread(ours: &Row, theirs: &Row) -> bool {
    ours.figure().min > theirs.figure().max
}

fn sentence(group: &Group<'_>, ours: &Row, theirs: &Row, verb: &str) -> String {
    let unit = unit(group.operation);
    format!(
        "{}: {} {verb} {} {unit} and {} {} {unit}, {} as much, more than the spread.",
        group.title(),
        ours.subject,
        units::digits(ours.figure().median),
        theirs.subject,
        units::digits(theirs.figure().median),
        groups::ratio(ours, Some(theirs))
    )
}

/// Each timer of this library that a user of tokio would lose with, operation by operation.
fn against_tokio(groups: &[Group<'_>]) -> Vec<String> {
    let worse = |operation: Operation| {
        let mut worse: Vec<String> = Vec::new();
        for group in groups.iter().filter(|group| group.operation == operation) {
            let Some(tokio) = group.tokio() else { continue };
            let ours = group
                .rows
                .iter()
                .filter(|row| row.family == Family::Tickless);
            for row in ours.filter(|row| is_beyond_the_spread(row, tokio)) {
                let (ratio, with) = (groups::ratio(row, Some(tokio)), group.conditions());
                worse.push(format!("{} {ratio} ({with})", row.subject));
            }
        }
        worse
    };
    Operation::ALL
        .into_iter()
        .map(|operation| (operation, worse(operation)))
        .filter(|(_, worse)| !worse.is_empty())
        .map(|(operation, worse)| {
            let (name, list) = (operation.name(), worse.join(", "));
            format!("Worse than tokio beyond the spread, {name}: {list}.")
        })
        .collect()
}

/// Figures that say little.
fn unsteady(finished: &Finished) -> Option<String> {
    let rows = &finished.results.rows;
    let wide = rows.iter().filter(|row| row.figure().is_wide()).count();
    (wide > 0).then(|| {
        format!(
            "UNSTEADY: {} of {} figures (with a star) differ by more than twice between rounds: the machine did other \
             work. Their medians say little.",
            units::count(wide as u64),
            units::count(rows.len() as u64)
        )
    })
}

#[cfg(test)]
pub(super) mod tests {
    use tickless_peers::{Plan, Results, Spread, TOKIO};

    use super::{Family, Finished, Operation, Row, sentences};
    use crate::machine::Machine;

    pub(in super::super) fn row(subject: &'static str, family: Family, ns: [f64; 3]) -> Row {
        let [min, median, max] = ns;
        Row {
            op: Operation::Churn.name(),
            pending: 1_000,
            threads: 1,
            subject,
            ns: Some(Spread { median, min, max }),
            bytes: None,
            operation: Operation::Churn,
            family,
        }
    }

    fn of(rows: Vec<Row>) -> Vec<String> {
        sentences(&finished(rows))
    }

    /// A run that measured that.
    pub(in super::super) fn finished(rows: Vec<Row>) -> Finished {
        Finished {
            plan: Plan {
                operations: Vec::new(),
                pending: Vec::new(),
                rounds: 1,
                repeats: 1,
                seed: 1,
                subjects: None,
            },
            machine: Machine::read(),
            results: Results {
                rows,
                faults: Vec::new(),
                is_complete: true,
            },
            missing: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_row_that_is_lost_is_named_with_its_ratio() {
        let said = of(vec![
            row("ours", Family::Tickless, [39.0, 40.0, 41.0]),
            row("heap", Family::Peer, [9.0, 10.0, 11.0]),
            row(TOKIO, Family::Tokio, [19.0, 20.0, 21.0]),
            row("limit", Family::Limit, [1.0, 1.0, 1.0]),
        ]);
        assert_eq!(
            said,
            [
                "Tickless is first in 0 of 1 comparisons with the cheapest peer.",
                "churn, 1,000 pending: ours takes 40.0 ns and heap 10.0 ns, 4.00x as much, more than the spread.",
                "Worse than tokio beyond the spread, churn: ours 2.00x (1,000 pending).",
            ]
        );
    }

    #[test]
    fn the_spread_of_either_side_excuses() {
        let said = of(vec![
            row("ours", Family::Tickless, [39.0, 40.0, 41.0]),
            row("heap", Family::Peer, [30.0, 35.0, 39.0]),
        ]);
        assert_eq!(said.len(), 2);
        assert_eq!(said[1], "Behind, within the spread: churn, 1,000 pending.");
    }

    #[test]
    fn who_is_first_has_nothing_to_explain_and_a_limit_is_no_peer() {
        let said = of(vec![
            row("ours", Family::Tickless, [9.0, 10.0, 11.0]),
            row("heap", Family::Peer, [30.0, 35.0, 39.0]),
            row("limit", Family::Limit, [1.0, 1.0, 1.0]),
        ]);
        assert_eq!(
            said,
            ["Tickless is first in 1 of 1 comparisons with the cheapest peer."]
        );
        assert!(of(vec![row("ours", Family::Tickless, [1.0; 3])]).is_empty());
    }

    #[test]
    fn rounds_that_differ_by_more_than_twice_are_called_unsteady() {
        let said = of(vec![
            row("ours", Family::Tickless, [9.0, 10.0, 18.5]),
            row("heap", Family::Peer, [30.0, 35.0, 59.0]),
        ]);
        assert!(said[1].starts_with("UNSTEADY: 1 of 2 figures"), "{said:?}");
    }
}

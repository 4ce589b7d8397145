//! The result of a benchmark run as text for the terminal.

use tickless_peers::Operation;

use super::closing;
use super::groups::{self, Finished, Group, RATIO_NOTE, figure, ratio, unit};
use crate::table::{Align, table};
use crate::units;

/// Returns the whole report, without the first line about the machine.
pub(super) fn report(finished: &Finished) -> String {
    let groups = groups::all(finished);
    let mut text = String::new();
    for operation in Operation::ALL {
        let groups: Vec<_> = { groups.iter() }
            .filter(|group| group.operation == operation)
            .collect();
        if !groups.is_empty() {
            text.push_str(&of(operation, &groups));
        }
    }
    if !text.is_empty() {
        text.push_str(&format!("\n{RATIO_NOTE}\n"));
    }
    let mut paragraph = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            text.push_str(&format!("\n{title}\n"));
            for line in lines {
                text.push_str(&format!("  {line}\n"));
            }
        }
    };
    let missing = finished.missing.iter();
    paragraph(
        "Missing",
        missing
            .map(|missing| format!("{}: {}", missing.subject, missing.why))
            .collect(),
    );
    let faults = finished.results.faults.iter();
    paragraph(
        "FAILED, and left out",
        faults
            .map(|fault| format!("{}: {}", fault.subject, fault.what))
            .collect(),
    );
    paragraph("Notes", finished.notes.clone());
    paragraph("What it says", closing::sentences(finished));
    text
}

/// Formats one operation: a line for each subject, a column for each number of pending timers.
fn of(operation: Operation, groups: &[&Group<'_>]) -> String {
    let mut head = vec!["subject".to_owned()];
    head.extend(groups.iter().map(|group| column(group)));
    let last = groups[groups.len() - 1];
    head.extend(["/ tokio".to_owned(), "/ best peer".to_owned()]);
    let rows = names(groups).into_iter().map(|name| {
        let mut cells = vec![name.to_owned()];
        let cell = |group: &&Group<'_>| group.of(name).map_or_else(|| "-".to_owned(), figure);
        cells.extend(groups.iter().map(cell));
        let in_last = last.of(name);
        for to in [last.tokio(), last.best_peer()] {
            cells.push(in_last.map_or_else(|| "-".to_owned(), |row| ratio(row, to)));
        }
        cells
    });
    let rows: Vec<_> = rows.collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    format!(
        "\n{}: {} ({})\n{}",
        operation.name(),
        operation.explanation(),
        unit(operation),
        table(&head, &[Align::Left], rows)
    )
}

/// Returns the heading of a group's column.
pub(super) fn column(group: &Group<'_>) -> String {
    match (group.operation.is_on_threads(), group.threads) {
        (true, 1) => "1 thread".to_owned(),
        (true, threads) => format!("{threads} threads"),
        (false, _) => units::count(group.pending),
    }
}

/// Returns the subjects that occur in the groups, in their order.
pub(super) fn names<'r>(groups: &[&Group<'r>]) -> Vec<&'r str> {
    tickless_peers::subjects()
        .into_iter()
        .filter_map(|(name, _)| groups.iter().find_map(|group| group.of(name)))
        .map(|row| row.subject)
        .collect()
}

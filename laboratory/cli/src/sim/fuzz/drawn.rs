//! The number of scenarios of each class that the fuzzer drew.

use std::collections::BTreeMap;

use serde::Serialize;
use tickless_sim::draw::{Class, Draft};

use crate::table::{Align, table};
use crate::units;

/// The number of times that a class was drawn, and the number of times that it broke a promise.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    drawn: u64,
    broke: u64,
}

/// The counts of a class, as the output shows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Row {
    what: &'static str,
    which: String,
    drawn: u64,
    broke: u64,
}

/// The counts of all drafts so far.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    drafts: u64,
    /// The kinds of classes, in the order in which a draft lists them.
    kinds: Vec<&'static str>,
    classes: BTreeMap<Class, Count>,
}

impl Drawn {
    /// Counts `draft`; `holds` is true if it kept its promises.
    pub(super) fn count(&mut self, draft: &Draft, holds: bool) {
        self.drafts += 1;
        let mut classes = draft.classes();
        classes.sort();
        // A draft with two workloads of a kind has that kind once.
        classes.dedup();
        for class in draft.classes() {
            if !self.kinds.contains(&class.what) {
                self.kinds.push(class.what);
            }
        }
        for class in classes {
            let count = self.classes.entry(class).or_default();
            count.drawn += 1;
            count.broke += u64::from(!holds);
        }
    }

    /// Returns one row for each class, grouped by kind.
    pub(super) fn rows(&self) -> Vec<Row> {
        let of_kind = |kind: &&'static str| {
            let kind = *kind;
            let classes = self.classes.iter();
            classes.filter(move |(class, _)| class.what == kind)
        };
        let row = |(class, count): (&Class, &Count)| Row {
            what: class.what,
            which: class.which.clone(),
            drawn: count.drawn,
            broke: count.broke,
        };
        self.kinds.iter().flat_map(of_kind).map(row).collect()
    }

    /// Formats the counts for people.
    pub(super) fn table(&self) -> String {
        let rows = self.rows().into_iter().map(|row| {
            let share = row.drawn as f64 * 100.0 / self.drafts.max(1) as f64;
            vec![
                row.what.to_owned(),
                row.which,
                units::count(row.drawn),
                format!("{share:.1} %"),
                units::count(row.broke),
            ]
        });
        let head = ["drawn", "", "seeds", "share", "broke"];
        table(&head, &[Align::Left, Align::Left], rows.collect())
    }
}

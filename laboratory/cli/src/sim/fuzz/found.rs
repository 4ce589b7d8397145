//! All scenarios that failed, grouped by the broken promise and the class of machine, and the directory that stores
//! them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::failed::{Cause, Failed};
use crate::failure::Failure;
use crate::output::{OutFile, Place};
use crate::table::table;
use crate::units;

/// The number of seeds of a group that are shown; the files have the others.
const SHOWN: usize = 8;

/// Failures with the same cause.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Group {
    wrong: &'static str,
    machine: String,
    seeds: Vec<u64>,
}

/// The seeds of all failures so far, by cause.
#[derive(Debug, Default)]
pub(super) struct Found(BTreeMap<Cause, Vec<u64>>);

impl Found {
    /// Records that `seed` failed. Returns true if it is the first failure with this cause.
    pub(super) fn note(&mut self, cause: Cause, seed: u64) -> bool {
        let seeds = self.0.entry(cause).or_default();
        seeds.push(seed);
        seeds.len() == 1
    }

    /// Returns the number of failures.
    pub(super) fn len(&self) -> u64 {
        self.0.values().map(|seeds| seeds.len() as u64).sum()
    }

    pub(super) fn groups(&self) -> Vec<Group> {
        let group = |(cause, seeds): (&Cause, &Vec<u64>)| Group {
            wrong: cause.wrong,
            machine: cause.machine.clone(),
            seeds: seeds.clone(),
        };
        self.0.iter().map(group).collect()
    }

    /// Formats the failures for people.
    pub(super) fn table(&self) -> String {
        let rows = self.groups().into_iter().map(|group| {
            let shown: Vec<String> = group.seeds.iter().take(SHOWN).map(u64::to_string).collect();
            let more = if group.seeds.len() > SHOWN {
                " ..."
            } else {
                ""
            };
            vec![
                group.wrong.to_owned(),
                group.machine,
                units::count(group.seeds.len() as u64),
                format!("{}{more}", shown.join(" ")),
            ]
        });
        let head = ["broken", "machine", "seeds", "which"];
        let left = crate::table::Align::Left;
        let right = crate::table::Align::Right;
        table(&head, &[left, left, right, left], rows.collect())
    }
}

/// The directory in which failed scenarios are stored.
#[derive(Debug)]
pub(super) struct Directory(PathBuf);

impl Directory {
    /// Creates the directory if it does not exist.
    pub(super) fn prepare(directory: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(directory).map_err(|error| {
            let directory = directory.display();
            Failure::Input(format!("cannot make the directory {directory}: {error}"))
        })?;
        Ok(Self(directory.to_owned()))
    }

    /// Stores a scenario as drawn, and its smallest form if the scenario was made smaller.
    pub(super) fn keep(&self, failed: &Failed) -> Result<(), Failure> {
        for (ending, text) in failed.files() {
            let name = format!("{}-{}{ending}.toml", failed.wrong(), failed.seed());
            let file = OutFile::prepare(&Place::File(self.0.join(name)))?;
            file.write(text.as_bytes())?;
        }
        Ok(())
    }
}

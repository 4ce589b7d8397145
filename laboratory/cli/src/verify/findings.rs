//! The findings of a verification: the promises that were checked, and the violations.

use std::collections::BTreeMap;

use serde::Serialize;

use super::PROMISES;

/// The largest number of violations that are described; further violations are only counted.
const STORIES_MAX: usize = 20;

/// An event that broke a promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Violation {
    pub(super) line: u64,
    pub(super) promise: &'static str,
    pub(super) time: i64,
    pub(super) cpu: Option<u32>,
    pub(super) what: String,
}

/// A promise, the number of its checks, and the number of its violations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Kept {
    pub(super) promise: &'static str,
    pub(super) checks: u64,
    pub(super) broken: u64,
}

/// All findings of a verification.
#[derive(Debug)]
pub(super) struct Findings {
    kept: [Kept; PROMISES.len()],
    pub(super) violations: Vec<Violation>,
    /// The names of the events that this version does not know, and the number of each.
    pub(super) unknown: BTreeMap<String, u64>,
    /// The number of the line that the reader is at.
    pub(super) line: u64,
    pub(super) time: i64,
    pub(super) cpu: Option<u32>,
}

impl Findings {
    pub(super) fn new() -> Self {
        Self {
            kept: PROMISES.map(|promise| Kept {
                promise,
                checks: 0,
                broken: 0,
            }),
            violations: Vec::new(),
            unknown: BTreeMap::new(),
            line: 0,
            time: 0,
            cpu: None,
        }
    }

    /// Counts a check of the promise at this place in the list.
    pub(super) const fn check(&mut self, promise: usize) {
        self.kept[promise].checks += 1;
    }

    /// Records a violation of the promise at this place in the list.
    pub(super) fn broken(&mut self, promise: usize, what: String) {
        self.kept[promise].broken += 1;
        if self.violations.len() < STORIES_MAX {
            self.violations.push(Violation {
                line: self.line,
                promise: PROMISES[promise],
                time: self.time,
                cpu: self.cpu,
                what,
            });
        }
    }

    pub(super) const fn kept(&self) -> &[Kept] {
        &self.kept
    }

    pub(super) fn holds(&self) -> bool {
        self.kept.iter().all(|one| one.broken == 0)
    }
}

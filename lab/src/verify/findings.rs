//! The findings of a verification: the checks, and those that failed.

use std::collections::BTreeMap;

use serde::Serialize;

use super::PROMISES;

/// Violations that are told; more are only counted.
const STORIES_MAX: usize = 20;

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Violation {
    pub(super) line: u64,
    pub(super) promise: &'static str,
    pub(super) time: i64,
    pub(super) cpu: Option<u32>,
    pub(super) what: String,
}

/// A promise, how often it was looked at, and how often it was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Kept {
    pub(super) promise: &'static str,
    pub(super) checks: u64,
    pub(super) broken: u64,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Findings {
    kept: [Kept; PROMISES.len()],
    pub(super) violations: Vec<Violation>,
    /// Events that this version does not know, and how many.
    pub(super) unknown: BTreeMap<String, u64>,
    /// The reader's line number.
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

    /// Looks at the promise with this place in the list.
    pub(super) const fn check(&mut self, promise: usize) {
        self.kept[promise].checks += 1;
    }

    /// Records that the promise was broken.
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

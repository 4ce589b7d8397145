//! The findings of a check: the promises that were checked, and the violations.

use std::collections::BTreeMap;

use serde::Serialize;

/// The promises that a trace can show, by name.
pub const PROMISES: [&str; 11] = [
    "never_early",
    "never_lost",
    "bounded_late",
    "one_migrator",
    "covered",
    "isolated_undisturbed",
    "cancel_means_not_running",
    "monotonic",
    "ticks_in_turn",
    "flushed_once",
    "in_context",
];
pub(super) const EARLY: usize = 0;
pub(super) const LOST: usize = 1;
pub(super) const LATE: usize = 2;
pub(super) const MIGRATOR: usize = 3;
pub(super) const COVERED: usize = 4;
pub(super) const ISOLATED: usize = 5;
pub(super) const CANCEL: usize = 6;
pub(super) const MONOTONIC: usize = 7;
pub(super) const TICKS: usize = 8;
pub(super) const FLUSHED: usize = 9;
pub(super) const CONTEXT: usize = 10;

/// The largest number of violations that are described; further violations are only counted.
const STORIES_MAX: usize = 20;

/// An event that broke a promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The number of the line, from 1 on.
    pub line: u64,
    /// The name of the promise.
    pub promise: &'static str,
    /// The time in nanoseconds.
    pub time: i64,
    /// The CPU that executed.
    pub cpu: Option<u32>,
    /// The description of the violation.
    pub what: String,
}

/// A promise, the number of its checks, and the number of its violations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// The name of the promise.
    pub promise: &'static str,
    /// The number of checks.
    pub checks: u64,
    /// The number of violations.
    pub broken: u64,
    /// The number of checks that failed, perhaps only because the recorder missed an event.
    pub unsure: u64,
}

/// The CPUs whose missing events may explain a failed check, or [`HIDDEN`] or [`ANY`].
pub(super) type Witnesses = [Option<u32>; 3];

/// In the place of a CPU: the tasks that the recorder does not see, if there are any.
pub(super) const HIDDEN: u32 = u32::MAX;
/// In the place of a CPU: any CPU whose events may be missing.
pub(super) const ANY: u32 = u32::MAX - 1;

/// All findings of a check.
#[derive(Debug)]
pub struct Findings {
    kept: [Kept; PROMISES.len()],
    violations: Vec<Violation>,
    /// The failed checks, perhaps for missing events of these CPUs: their numbers, and the first ones.
    suspects: BTreeMap<(usize, Witnesses), (u64, Vec<Violation>)>,
    /// The names of the events that this version does not know, and the number of each.
    pub unknown: BTreeMap<String, u64>,
    /// The number of the line that the reader is at.
    pub(super) line: u64,
    pub(super) time: i64,
    pub(super) cpu: Option<u32>,
}

impl Default for Findings {
    fn default() -> Self {
        Self {
            kept: PROMISES.map(|promise| Kept {
                promise,
                checks: 0,
                broken: 0,
                unsure: 0,
            }),
            violations: Vec::new(),
            suspects: BTreeMap::new(),
            unknown: BTreeMap::new(),
            line: 0,
            time: 0,
            cpu: None,
        }
    }
}

impl Findings {
    /// Counts a check of a promise, and the violation if it failed.
    pub(super) fn check(&mut self, promise: usize, wrong: Option<String>) {
        self.kept[promise].checks += 1;
        if let Some(what) = wrong {
            self.kept[promise].broken += 1;
            let story = self.story(promise, what);
            keep(&mut self.violations, story);
        }
    }

    /// Counts a check whose failure may come from events of these CPUs that were not recorded. Without any CPU it counts
    /// as [`check`](Self::check) does.
    pub(super) fn suspect(&mut self, promise: usize, of: Witnesses, wrong: Option<String>) {
        match wrong {
            Some(what) if of != [None; 3] => {
                self.kept[promise].checks += 1;
                let story = self.story(promise, what);
                let (count, stories) = self.suspects.entry((promise, of)).or_default();
                *count += 1;
                keep(stories, story);
            }
            wrong => self.check(promise, wrong),
        }
    }

    fn story(&self, promise: usize, what: String) -> Violation {
        Violation {
            line: self.line,
            promise: PROMISES[promise],
            time: self.time,
            cpu: self.cpu,
            what,
        }
    }

    /// Decides about the failed checks that may come from missing events: events of a CPU that `is_blind` may be missing.
    pub(super) fn settle(&mut self, is_blind: impl Fn(u32) -> bool) {
        for ((promise, of), (count, stories)) in std::mem::take(&mut self.suspects) {
            if of.into_iter().flatten().any(&is_blind) {
                self.kept[promise].unsure += count;
            } else {
                self.kept[promise].broken += count;
                self.violations.extend(stories);
            }
        }
        self.violations.sort_by_key(|one| one.line);
        self.violations.truncate(STORIES_MAX);
    }

    /// Returns the promises, in the order of [`PROMISES`].
    #[must_use]
    pub const fn kept(&self) -> &[Kept] {
        &self.kept
    }

    /// Returns the first violations.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Returns true if no promise was broken.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.kept.iter().all(|one| one.broken == 0)
    }

    /// Returns the number of checks that failed, perhaps only because the recorder missed an event.
    #[must_use]
    pub fn unsure(&self) -> u64 {
        self.kept.iter().map(|one| one.unsure).sum()
    }
}

fn keep(stories: &mut Vec<Violation>, story: Violation) {
    if stories.len() < STORIES_MAX {
        stories.push(story);
    }
}

//! A scenario that broke a promise, as drawn and in its smallest form.

use serde::Serialize;
use tickless_sim::draw::Draft;
use tickless_sim::{Canary, Outcome, Promise, Scenario};

use super::super::parallel::{self, Done};
use super::super::summary;

/// The options for running each draft.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) twice: bool,
    pub(super) canary: Option<Canary>,
}

impl Trial {
    /// Runs `draft` on the calling thread.
    pub(super) fn outcome(self, draft: &Draft) -> Outcome {
        let scenario = Scenario::from_toml(&draft.to_toml(), "drawn.toml");
        let mut scenario =
            scenario.unwrap_or_else(|error| panic!("a wrong file was drawn: {error}"));
        scenario.canary = self.canary;
        if self.twice {
            tickless_sim::run_twice(&scenario, draft.seed)
        } else {
            tickless_sim::run(&scenario, draft.seed)
        }
    }
}

/// The kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// The first promise that was broken.
    Broken(Promise),
    Panicked,
}

impl Wrong {
    fn of(result: &Done<Outcome>) -> Option<Self> {
        match result {
            Ok(outcome) => {
                let first = outcome.violations.first().map(|story| story.promise);
                let any = outcome.broken.first_key_value();
                first.or(any.map(|(promise, _)| *promise)).map(Self::Broken)
            }
            Err(_) => Some(Self::Panicked),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Broken(promise) => promise.name(),
            Self::Panicked => "panicked",
        }
    }

    /// Returns true if another run failed in the same way, possibly among other failures.
    fn is_in(self, result: &Done<Outcome>) -> bool {
        match (self, result) {
            (Self::Broken(promise), Ok(outcome)) => outcome.broken.contains_key(&promise),
            (Self::Panicked, Err(_)) => true,
            _ => false,
        }
    }
}

/// The properties that failures with the same cause are likely to share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cause {
    /// The promise that was broken, or `panicked`.
    pub(super) wrong: &'static str,
    /// The class of the machine.
    pub(super) machine: String,
}

/// A scenario that failed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Failed {
    seed: u64,
    /// The promise that was broken, or `panicked`.
    wrong: &'static str,
    /// A description of the failure.
    story: String,
    /// The class of the failed scenario's machine.
    machine: String,
    /// The scenario as it was drawn.
    scenario: String,
    /// The smallest scenario with the same failure; it is searched for the first failure of each cause only.
    #[serde(flatten)]
    least: Option<Least>,
}

/// The smallest scenario with the same failure.
#[derive(Clone, Debug, Serialize)]
struct Least {
    smallest: String,
    /// A description of the failure of the smallest scenario.
    smallest_story: String,
    workloads: usize,
    cpus: u32,
}

impl Failed {
    pub(super) fn of(draft: &Draft, result: &Done<Outcome>) -> Self {
        Self {
            seed: draft.seed,
            wrong: Wrong::of(result).unwrap_or(Wrong::Panicked).name(),
            story: story(result),
            machine: draft.machine(),
            scenario: draft.to_toml(),
            least: None,
        }
    }

    /// Makes the scenario, which failed with `result`, as small as possible.
    pub(super) fn shrink(&mut self, draft: &Draft, trial: Trial, result: &Done<Outcome>) {
        let wrong = Wrong::of(result).unwrap_or(Wrong::Panicked);
        let again = |draft: &Draft| parallel::apart(|| trial.outcome(draft));
        let smallest = draft.shrunk(|less| wrong.is_in(&again(less)));
        self.least = Some(Least {
            smallest: smallest.to_toml(),
            smallest_story: story(&again(&smallest)),
            workloads: smallest.workloads(),
            cpus: smallest.cpus(),
        });
    }

    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) const fn wrong(&self) -> &'static str {
        self.wrong
    }

    /// Returns the properties that this failure is likely to share with failures of the same cause.
    pub(super) fn cause(&self) -> Cause {
        Cause {
            wrong: self.wrong,
            machine: self.machine.clone(),
        }
    }

    /// Returns the scenarios as files: the suffixes of their names, and their text.
    pub(super) fn files(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let least = self
            .least
            .as_ref()
            .map(|least| (".least", &*least.smallest));
        [("", &*self.scenario)].into_iter().chain(least)
    }

    /// Formats the failure for people: in full if the scenario was made smaller, else on one line.
    pub(super) fn text(&self, trial: Trial) -> String {
        let Self {
            seed,
            wrong,
            machine,
            ..
        } = self;
        let Some(least) = &self.least else {
            return format!("Seed {seed}: {wrong} again ({machine})\n");
        };
        let twice = if trial.twice { " --twice" } else { "" };
        let (canary, file) = match trial.canary {
            // What is broken on purpose is not in the file.
            Some(canary) => (format!(" --canary {}", canary.0.name()), String::new()),
            None => (
                String::new(),
                format!(
                    "or, with either scenario in a file:\n  tickless sim run FILE.toml --seed {seed}{twice}\n"
                ),
            ),
        };
        format!(
            "\nSeed {seed}: {wrong}\n{}\n{}\nThe least that shows it:\n\n{}\n{}\n\
             The same again:\n  tickless sim fuzz --seeds 1 --from {seed}{twice}{canary}\n{file}\n",
            indented(&self.story),
            indented(&self.scenario),
            indented(&least.smallest),
            indented(&least.smallest_story),
        )
    }
}

fn story(result: &Done<Outcome>) -> String {
    match result {
        Ok(outcome) => summary::broken(outcome),
        Err(story) => format!("the simulator panicked: {story}\n"),
    }
}

fn indented(text: &str) -> String {
    let line = |line: &str| {
        if line.is_empty() {
            "\n".to_owned()
        } else {
            format!("  {line}\n")
        }
    };
    text.lines().map(line).collect()
}

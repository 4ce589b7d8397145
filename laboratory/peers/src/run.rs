//! The rounds of a run: each round measures every subject in turn, in an order that rotates.

use std::sync::{Mutex, PoisonError};
use std::thread;

use serde::Serialize;

use crate::groups;
use crate::measure::{FEW, Turn};
use crate::operation::{Family, Operation, Setting};
use crate::rounds::{Case, Group, Spread, Table, Watch, rotate};
use crate::subjects::{self, Entry};

/// The settings of a run.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The operations to measure, in any order.
    pub operations: Vec<Operation>,
    /// The numbers of pending timers with which the operations are measured.
    pub pending: Vec<u64>,
    /// The number of turns of each subject.
    pub rounds: u32,
    /// The number of repetitions of an operation in a turn.
    pub repeats: u64,
    /// The seed of the random delays.
    pub seed: u64,
    /// The names of the queues to measure; `None` for all. Operations of their own have all their subjects.
    pub subjects: Option<Vec<&'static str>>,
}

/// The most timers that can be pending at once. The numbers of slots have 32 bits, which would be enough for more.
pub const MOST_PENDING: u64 = 1_000_000_000;
/// The most timers that are fired at once. A measurement with more would show nothing new and take minutes.
const MOST_DUE: u64 = 1_000_000;

/// One figure of one subject.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The name of the operation.
    pub op: &'static str,
    /// The part of the operation; empty for most.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub part: &'static str,
    /// The number of timers that are pending during the operation, or due at once.
    pub pending: u64,
    /// The number of threads that execute the operation.
    pub threads: u32,
    /// The name of the subject.
    pub subject: &'static str,
    /// Nanoseconds for one operation; `None` for the operation `memory`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns: Option<Spread>,
    /// Bytes for one timer; `None` unless the operation is `memory`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Spread>,
    /// The figure of each round.
    #[serde(skip)]
    pub rounds: Vec<f64>,
    /// The operation that was measured.
    #[serde(skip)]
    pub operation: Operation,
    /// The family of the subject.
    #[serde(skip)]
    pub family: Family,
}

impl Row {
    /// Returns the figure, in nanoseconds or bytes.
    ///
    /// # Panics
    ///
    /// Never: each row has one of the two figures.
    #[must_use]
    pub fn figure(&self) -> Spread {
        self.ns.or(self.bytes).expect("a row has one of both")
    }

    /// Returns the ratio to another row, round by round.
    #[must_use]
    pub fn ratio(&self, to: &Self) -> Spread {
        Spread::of_ratios(&self.rounds, &to.rounds)
    }
}

/// The figures of a run.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The figures, sorted by operation, pending timers and threads, with the subjects in the order of [`subjects()`].
    pub rows: Vec<Row>,
    /// Subjects that did not do the measured operation; their figures are left out.
    pub faults: Vec<Fault>,
    /// True if all rounds of all settings were run.
    pub is_complete: bool,
}

/// A subject that did not do the measured operation.
#[derive(Clone, Debug, Serialize)]
pub struct Fault {
    /// The name of the subject.
    pub subject: &'static str,
    /// A description of the fault.
    pub what: String,
}

/// Returns the names and families of the subjects that this program can measure.
#[must_use]
pub fn subjects() -> Vec<(&'static str, Family)> {
    let all = subjects::all();
    all.iter().map(|entry| (entry.name, entry.family)).collect()
}

struct Run<'a> {
    plan: &'a Plan,
    entries: Vec<Entry>,
    table: Table,
    faults: Vec<Fault>,
    watch: &'a mut dyn Watch,
}

/// A lock that allows one run at a time in a process, because two runs would disturb each other.
static RUNNING: Mutex<()> = Mutex::new(());

/// Runs all measurements of the plan, until `watch` ends the run.
pub fn run(plan: &Plan, watch: &mut dyn Watch) -> Results {
    let _alone = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut run = Run {
        plan,
        entries: { subjects::all().into_iter() }
            .filter(|entry| {
                let wanted = plan.subjects.as_ref();
                wanted.is_none_or(|names| names.contains(&entry.name))
            })
            .collect(),
        table: Table::default(),
        faults: Vec::new(),
        watch,
    };
    let has_queues = plan.operations.iter().any(|operation| !operation.is_own());
    let is_complete = (!has_queues || run.prove() && run.settings()) && run.groups();
    run.results(is_complete)
}

impl Run<'_> {
    /// Checks that each subject fires its due timers and no others, and leaves out subjects that fail. Returns true if
    /// all subjects were checked before the run was ended.
    fn prove(&mut self) -> bool {
        for index in 0..self.entries.len() {
            let entry = &self.entries[index];
            let (name, proof) = (entry.name, entry.proof);
            if self.watch.is_over() {
                return false;
            }
            self.watch.next(&format!("{name}: does it fire?"));
            if let Some(Err(what)) = proof.map(|proof| alone(proof).and_then(|proven| proven)) {
                self.fault(name, what);
            }
        }
        true
    }

    fn fault(&mut self, subject: &'static str, what: String) {
        self.faults.push(Fault { subject, what });
    }

    fn is_out(&self, index: usize) -> bool {
        let name = self.entries[index].name;
        self.faults.iter().any(|fault| fault.subject == name)
    }

    fn of(&self, setting: Setting) -> Vec<Operation> {
        let wanted = |operation: &Operation| {
            operation.setting() == setting && self.plan.operations.contains(operation)
        };
        Operation::ALL.into_iter().filter(wanted).collect()
    }

    /// Measures one setting after the other. Returns true if all settings were measured before the run was ended.
    fn settings(&mut self) -> bool {
        let plan = self.plan;
        let mut is_complete = true;
        for &pending in &plan.pending {
            let mut operations = self.of(Setting::Pending);
            operations.retain(|operation| pending > 0 || !operation.needs_pending());
            if !operations.is_empty() {
                is_complete &= self.rounds(Setting::Pending, &operations, pending);
            }
        }
        for &pending in plan
            .pending
            .iter()
            .filter(|pending| (1..=MOST_DUE).contains(*pending))
        {
            let operations = self.of(Setting::Due);
            if !operations.is_empty() {
                is_complete &= self.rounds(Setting::Due, &operations, pending);
            }
        }
        for (setting, pending) in [(Setting::Alone, 0), (Setting::Threads, FEW as u64)] {
            let operations = self.of(setting);
            if !operations.is_empty() {
                is_complete &= self.rounds(setting, &operations, pending);
            }
        }
        is_complete
    }

    fn rounds(&mut self, setting: Setting, operations: &[Operation], pending: u64) -> bool {
        rotate(self.plan.rounds, self.entries.len(), |round, index| {
            if self.watch.is_over() {
                return false;
            }
            if !self.is_out(index) {
                self.tell(operations, pending, round, index);
                self.turn(setting, operations, pending, round, index);
            }
            true
        })
    }

    /// Measures the operations whose subjects have measurements of their own. Returns true if all were measured before
    /// the run was ended.
    fn groups(&mut self) -> bool {
        self.of(Setting::Own).into_iter().all(|operation| {
            let mut group = Group {
                operation,
                rounds: self.plan.rounds,
                repeats: self.plan.repeats,
                watch: self.watch,
                table: &mut self.table,
                is_over: false,
            };
            groups::measure(&mut group);
            !group.is_over
        })
    }

    fn tell(&mut self, operations: &[Operation], pending: u64, round: u32, index: usize) {
        let name = self.entries[index].name;
        let names: Vec<_> = operations
            .iter()
            .map(|operation| operation.name())
            .collect();
        let what = match *names {
            [one] => one.to_owned(),
            _ => format!("{} operations", names.len()),
        };
        self.watch.next(&format!(
            "{pending} pending, {what}, round {} of {}: {name}",
            round + 1,
            self.plan.rounds
        ));
    }

    fn turn(
        &mut self,
        setting: Setting,
        operations: &[Operation],
        pending: u64,
        round: u32,
        index: usize,
    ) {
        let entry = &self.entries[index];
        let turn = Turn {
            operations,
            pending: usize::try_from(pending).unwrap_or(usize::MAX),
            repeats: self.plan.repeats,
            seed: self.plan.seed.wrapping_add(round.into()),
        };
        let one = |operation, threads, value| ((operation, "", pending, threads), value);
        let measured = alone(|| -> Result<Vec<(Case, f64)>, String> {
            Ok(match setting {
                Setting::Pending => { (entry.pending)(turn)?.into_iter() }
                    .map(|(operation, value)| one(operation, 1, value))
                    .collect(),
                Setting::Due => match entry.expire {
                    Some(expire) => vec![one(Operation::Expire, 1, expire(turn)?)],
                    None => Vec::new(),
                },
                Setting::Alone => { entry.unpolled.iter() }
                    .map(|unpolled| one(Operation::DropUnpolled, 1, unpolled(turn)))
                    .collect(),
                Setting::Threads => {
                    let mut both = Vec::new();
                    for count in [1, 2] {
                        let measured = (entry.threads)(turn, count)?.into_iter();
                        both.extend(measured.map(|(what, value)| one(what, count, value)));
                    }
                    both
                }
                // Measured by its group.
                Setting::Own => Vec::new(),
            })
        });
        let (name, family) = (entry.name, entry.family);
        match measured.and_then(|measured| measured) {
            Ok(measured) => {
                for (case, value) in measured {
                    self.table.push(case, (index, name, family), value);
                }
            }
            Err(what) => self.fault(name, format!("{what} ({pending} pending)")),
        }
    }

    fn results(self, is_complete: bool) -> Results {
        let is_out = |subject| self.faults.iter().any(|fault| fault.subject == subject);
        let mut rows = Vec::new();
        for (((operation, part, pending, threads), _), figures) in self.table.0 {
            if is_out(figures.subject) {
                continue;
            }
            let spread = Some(Spread::of(figures.values.clone()));
            let is_memory = operation == Operation::Memory;
            rows.push(Row {
                op: operation.name(),
                pending,
                threads,
                part,
                subject: figures.subject,
                rounds: figures.values,
                ns: spread.filter(|_| !is_memory),
                bytes: spread.filter(|_| is_memory),
                operation,
                family: figures.family,
            });
        }
        Results {
            rows,
            faults: self.faults,
            is_complete,
        }
    }
}

/// Calls `body` on a thread of its own.
fn alone<R: Send>(body: impl FnOnce() -> R + Send) -> Result<R, String> {
    thread::scope(|scope| {
        let started = thread::Builder::new().spawn_scoped(scope, body);
        let handle = started.map_err(|error| format!("no thread can be started: {error}"))?;
        handle.join().map_err(|_| "its thread panicked".to_owned())
    })
}

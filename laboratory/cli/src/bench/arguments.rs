//! The options of `tickless bench`.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use tickless_peers::{MOST_PENDING, Operation, Plan, available, needed, plan_of_marks};

use crate::failure::Failure;
use crate::{output, units};

/// Cost of timers, against other libraries and against the least that is possible.
///
/// All subjects run in this process, one after the other, round after round, in rotating order. The same seed gives all
/// of them the same operations: random delays of 1 ms to 60 s, computed from a clock that is read once in 1,024
/// operations or, where the output says so, each time. A worker takes its pending turns once in 1,024 operations, too.
/// The output shows the median over the rounds; a star marks figures whose greatest value is more than twice the least.
///
/// Checked: every subject fires the due timers and no others, and has as many pending timers as were armed.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Use small numbers, to see that everything runs; the figures are not to be quoted
    #[arg(long)]
    quick: bool,

    /// Measure only these operations: one, or several with commas between them
    #[arg(long, value_name = "OP", value_delimiter = ',', value_parser = operation)]
    only: Vec<Operation>,

    /// Measure only queues of timers whose names contain one of these, with commas between them
    #[arg(long, value_name = "TEXT", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    subjects: Vec<String>,

    /// Numbers of other pending timers, with commas between them [default: 0,1000,100000,1000000,10000000, the last
    /// where memory allows; with --quick 0,1000,100000]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = pending)]
    pending: Vec<u64>,

    /// Rounds, in each of which every subject has its turn [default: 5, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1001))]
    rounds: Option<u32>,

    /// Repetitions of each operation in a turn [default: 200000, with --quick 20000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    repeats: Option<u64>,

    /// Seed of the delays and of the order in which timers are taken
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Measure what has a mark, print which marks hold, and measure nothing else [11 rounds, with --quick 3]
    #[arg(long, conflicts_with_all = ["only", "subjects", "pending"])]
    marks: bool,

    #[command(flatten)]
    pub(super) output: output::Options,
}

const EXAMPLES: &str = "\
Examples:
  tickless bench --quick
      Everything, in about a minute.
  tickless bench --json bench.json
      With up to ten million pending timers, on a machine that does nothing else: takes most of an hour.
  tickless bench --only push-small,churn --pending 1000000
      Two operations, with a million others pending.
  tickless bench --subjects Worker,'plain thread','tokio, multi','each bucket' --only churn,push-idle,expire \
      --pending 1000,100000,1000000 --rounds 9
      Timers of this library against tokio's and the limit, where the caches hold them and where not: some minutes.
  tickless bench --marks
      What the project promises of itself, and whether it holds: some minutes.
  tickless bench --quick --json - | jq '.rows[] | select(.op == \"arm-cancel\") | {pending, subject, ns: .ns.median}'

Libraries of C and C++ are measured if this command was built with --features c-peers and the system has them. What is
missing is named, with what brings it.

Exit codes: 0 done and every check held, 1 a subject did not fire what it must, or something else, 2 bad arguments, 3
the machine lacks the memory. Ctrl-C ends the run after the turn that is going on, with what was measured.";

/// Numbers of pending timers that are measured unless the user names others. The last one is left out where memory does
/// not allow it.
const SIZES: [u64; 5] = [0, 1_000, 100_000, 1_000_000, 10_000_000];
const QUICK_SIZES: [u64; 3] = [0, 1_000, 100_000];

/// The share of the available memory that a run may take; the rest is for the pages of the system.
const SHARE: (u64, u64) = (4, 5);

fn operation(text: &str) -> Result<Operation, String> {
    Operation::named(text).ok_or_else(|| {
        let names = Operation::ALL.map(Operation::name);
        format!(
            "there is no such operation; there are: {}",
            names.join(", ")
        )
    })
}

fn pending(text: &str) -> Result<u64, String> {
    let count: u64 = text
        .parse()
        .map_err(|_| "write whole numbers, such as 0,1000,1000000".to_owned())?;
    if count > MOST_PENDING {
        return Err(format!(
            "at most {} can be pending",
            units::count(MOST_PENDING)
        ));
    }
    Ok(count)
}

impl Arguments {
    /// Returns the measurements to make, and a sentence about each measurement that is left out.
    pub(super) fn settle(&self) -> Result<(Plan, Vec<String>), Failure> {
        let memory = available().map(|bytes| bytes / SHARE.1 * SHARE.0);
        let is_too_much = |pending: u64| memory.is_some_and(|memory| needed(pending) > memory);
        let lack = |pending: u64| {
            format!(
                "{} pending timers may take {}, and {} are to be had",
                units::count(pending),
                units::bytes(needed(pending)),
                units::bytes(memory.unwrap_or_default())
            )
        };
        let mut notes = Vec::new();
        let mut sizes = self.pending.clone();
        if self.marks {
            let rounds = self.rounds.unwrap_or(if self.quick { 3 } else { 11 });
            return Ok((plan_of_marks(rounds, self.repeats(), self.seed), notes));
        }
        if let Some(&most) = sizes.iter().max().filter(|most| is_too_much(**most)) {
            return Err(Failure::Machine(format!("--pending: {}", lack(most))));
        }
        if sizes.is_empty() {
            sizes = if self.quick {
                QUICK_SIZES.to_vec()
            } else {
                SIZES.to_vec()
            };
            for &size in sizes.iter().filter(|size| is_too_much(**size)) {
                notes.push(format!("{}: left out.", lack(size)));
            }
            sizes.retain(|size| !is_too_much(*size));
        }
        sizes.sort_unstable();
        sizes.dedup();
        let mut operations = self.only.clone();
        if operations.is_empty() {
            operations = Operation::ALL.to_vec();
        }
        let subjects = self.meant()?;
        let plan = Plan {
            operations,
            pending: sizes,
            rounds: self.rounds.unwrap_or(if self.quick { 3 } else { 5 }),
            repeats: self.repeats(),
            seed: self.seed,
            subjects,
        };
        Ok((plan, notes))
    }

    fn repeats(&self) -> u64 {
        let usual = if self.quick { 20_000 } else { 200_000 };
        self.repeats.unwrap_or(usual)
    }

    /// Returns the names of the subjects to measure; `None` if all subjects are to be measured.
    fn meant(&self) -> Result<Option<Vec<&'static str>>, Failure> {
        if self.subjects.is_empty() {
            return Ok(None);
        }
        let all: Vec<_> = { tickless_peers::subjects().into_iter() }
            .map(|(name, _)| name)
            .collect();
        let mut meant = Vec::new();
        for text in &self.subjects {
            let before = meant.len();
            meant.extend(all.iter().filter(|name| name.contains(text.as_str())));
            if meant.len() == before {
                return Err(Failure::Input(format!(
                    "--subjects: no name contains \"{text}\"; there are: {}",
                    all.join("; ")
                )));
            }
        }
        Ok(Some(meant))
    }
}

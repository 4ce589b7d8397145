//! `cargo laboratory -p tickless-peers --features c-peers --bin c-table`: a comparison of the C interface with the
//! timers of other C and C++ libraries, and with the Rust calls that the C interface makes.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;
use tickless_peers::{
    CHECKS_IN_C, COARSE, COARSE_IN_C, EXACT, EXACT_IN_C, Family, LOOP_IN_C, Operation, Plan,
    Results, Spread, Watch, missing, run, subjects,
};

/// Measures arm + cancel, push-out and expiry through C, subject by subject in interleaved rounds.
///
/// Figures are nanoseconds for one operation: the median of the rounds, followed by the least and the greatest. Less is
/// better.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The numbers of pending timers.
    #[arg(long, value_delimiter = ',', default_value = "1000,100000,1000000",
        value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pending: Vec<u64>,
    /// The number of turns of each subject.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// The number of repetitions of an operation in a turn.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    repeats: u64,
}

/// The operations in the order of the table columns; the column heads of [`markdown`] have the same order.
const OPERATIONS: [Operation; 4] = [
    Operation::ArmCancel,
    Operation::PushIdle,
    Operation::PushRandom,
    Operation::Expire,
];

/// Subjects of this library that are called from C.
const OURS: [&str; 3] = [EXACT_IN_C, LOOP_IN_C, COARSE_IN_C];

/// The most that a call through C may take, as a multiple of the Rust call.
const CROSSING: f64 = 1.15;
/// The most that a push-out may take at the greatest number of pending timers, as a multiple of the push-out of the
/// best peer.
const PUSH: f64 = 0.2;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let names: Vec<_> = { subjects().into_iter() }
        .filter(|(name, family)| is_in_the_table(name, *family))
        .map(|(name, _)| name)
        .collect();
    if !names.contains(&EXACT_IN_C) {
        tell("error: build with --features c-peers; there are no shims in C");
        return ExitCode::from(2);
    }
    let mut results = Results::default();
    // One run for each number: a subject that cannot have a million timers has its figures of fewer.
    for &pending in &arguments.pending {
        let plan = Plan {
            operations: OPERATIONS.to_vec(),
            pending: vec![pending],
            rounds: arguments.rounds,
            repeats: arguments.repeats,
            seed: 1,
            subjects: Some(names.clone()),
        };
        let of_one = run(&plan, &mut Telling);
        results.rows.extend(of_one.rows);
        results.faults.extend(of_one.faults);
    }
    for &pending in &arguments.pending {
        println!("{}", markdown(&results, pending, &names));
    }
    print_marks(&results, &arguments.pending);
    for missing in missing() {
        if !missing.subject.starts_with("tokio") {
            println!("not measured: {}: {}", missing.subject, missing.why);
        }
    }
    for fault in &results.faults {
        println!("not measured: {}: {}", fault.subject, fault.what);
    }
    ExitCode::SUCCESS
}

/// Returns true for timers of C and C++, and for the Rust timers on which the C timers of this library are built.
fn is_in_the_table(name: &str, family: Family) -> bool {
    const RUST: [&str; 5] = [
        "tokio-util",
        "async-io",
        "BTreeMap",
        "binary heap",
        "futures",
    ];
    match family {
        Family::Tickless => OURS.contains(&name) || name == EXACT || name == COARSE,
        Family::Peer => !RUST.iter().any(|start| name.starts_with(start)),
        Family::Limit => name == CHECKS_IN_C,
        Family::Tokio => false,
    }
}

/// A watcher that prints the current measurement, because a run takes minutes.
struct Telling;

impl Watch for Telling {
    fn is_over(&self) -> bool {
        false
    }

    fn next(&mut self, what: &str) {
        tell(what);
    }
}

fn tell(what: &str) {
    // Nothing can be done about a closed output.
    let _closed = writeln!(std::io::stderr(), "{what}");
}

fn figure(results: &Results, operation: Operation, pending: u64, subject: &str) -> Option<Spread> {
    let row = results
        .rows
        .iter()
        .find(|row| row.operation == operation && row.pending == pending && row.subject == subject);
    row.map(tickless_peers::Row::figure)
}

/// Formats the figures of one number of pending timers as `docs/capi.md` has them: a row for each subject.
///
/// A subject that cannot have that many timers has dashes in its row.
fn markdown(results: &Results, pending: u64, names: &[&str]) -> String {
    let mut text = format!(
        "| {pending} pending, ns | arm + cancel | push idle out | any other deadline | expiry |\n\
         |---|---:|---:|---:|---:|\n"
    );
    for name in names {
        let cells = OPERATIONS.map(|operation| {
            figure(results, operation, pending, name).map_or("-".to_owned(), |spread| {
                let [median, min, max] = [spread.median, spread.min, spread.max].map(short);
                format!("{median} ({min} to {max})")
            })
        });
        // Writing to a string succeeds.
        let _written = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    text
}

/// Rounds a figure to the digits that are significant in one run.
fn short(ns: f64) -> String {
    let digits = usize::from(ns < 100.0);
    format!("{ns:.digits$}")
}

/// Returns the peer with the least median, and this median.
fn best_peer(results: &Results, operation: Operation, pending: u64) -> Option<(&'static str, f64)> {
    let rows = results.rows.iter().filter(|row| {
        row.operation == operation && row.pending == pending && row.family == Family::Peer
    });
    let figures = rows.map(|row| (row.subject, row.figure().median));
    figures.min_by(|(_, one), (_, other)| one.total_cmp(other))
}

fn print_marks(results: &Results, pending: &[u64]) {
    println!("marks: a ratio is ours divided by theirs, below 1 is better");
    for (ours, below) in [(EXACT_IN_C, EXACT), (COARSE_IN_C, COARSE)] {
        for &count in pending {
            let of = |name| figure(results, Operation::ArmCancel, count, name);
            if let (Some(ours_ns), Some(below_ns)) = (of(ours), of(below)) {
                let ratio = ours_ns.median / below_ns.median;
                let verdict = verdict(ratio <= CROSSING);
                println!(
                    "{verdict}: {ours} at {count}: arm + cancel {ratio:.2}x of {below} (at most {CROSSING}x)"
                );
            }
        }
    }
    let most = pending.iter().max().copied().unwrap_or_default();
    for operation in OPERATIONS {
        for &count in pending {
            let Some((peer, peer_ns)) = best_peer(results, operation, count) else {
                continue;
            };
            let is_push = matches!(operation, Operation::PushIdle | Operation::PushRandom);
            let wanted = if is_push && count == most { PUSH } else { 1.0 };
            for ours in OURS {
                if let Some(ours_ns) = figure(results, operation, count, ours) {
                    let ratio = ours_ns.median / peer_ns;
                    let verdict = verdict(ratio <= wanted);
                    let name = operation.name();
                    println!(
                        "{verdict}: {ours} at {count}: {name} {ratio:.2}x of {peer} (at most {wanted}x)"
                    );
                }
            }
        }
    }
}

const fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "missed" }
}

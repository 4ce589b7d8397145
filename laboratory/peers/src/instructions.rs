//! The measurement of the number of instructions that an operation executes. The load and the speed of
//! the machine hardly change this number.
//!
//! Valgrind's `callgrind` executes this command again for each operation and counts only within `counted`, so that
//! the figure excludes the creation and the end of the timers that an operation needs. The count is dumped after each
//! round, and the figure is the median of the rounds. The median is needed because in valgrind a program runs fifty
//! times slower: every tenth operation reads the kernel's clock there, but only every thousandth natively. For tasks
//! the figure is the 5th percentile of the rounds. A task reads the clock so often that on a busy machine most rounds
//! read the kernel's clock, and the least of all rounds may have taken another path. The loop around an operation is
//! counted separately and subtracted.
//!
//! The figures belong to one build on one kind of processor. Compare them only with the figures of another commit on
//! the same machine. `--write` writes the figures into the page (`page`), and `--check`
//! compares new figures with the page.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

mod faces;
mod operation;
mod page;
mod raw;
mod tasks;

use operation::{Aim, COUNTED, Line, Operation, counted};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/performance.md");

/// The greatest excess of an operation over the figure of the table that the check accepts, in percent.
const TOLERANCE: u64 = 3;

/// The greatest accepted excess of an operation of the executor, in percent. An ordinary lock instead of a biased lock
/// adds 15 % to a switch, and it depends on the load of the machine whether one round in twenty has a biased lock.
const TOLERANCE_OF_TASKS: u64 = 25;

/// The number of counts that must exceed the table before the excess is reported: on a busy machine the library may
/// give up following the kernel's clock, and then every operation of that process pays for reading the kernel's clock.
const ATTEMPTS: u32 = 3;

/// The name of the empty loop, which is counted like an operation.
const NOTHING: &str = "nothing";

fn operations() -> Vec<Operation> {
    let raw = raw::EXACT.iter().chain(&raw::COARSE).map(|name| Operation {
        name,
        batch: raw::OWN,
        peer: None,
        aim: Aim::None,
    });
    let faces = faces::operations().into_iter();
    faces.chain(tasks::operations()).chain(raw).collect()
}

/// A meter, which subtracts the instructions of the loop around an operation.
struct Meter {
    /// The empty loop's instructions, for each length of a batch.
    nothing: [(u64, u64); 2],
}

impl Meter {
    fn new() -> Result<Self, String> {
        let nothing = |batch| Ok::<_, String>((batch, count(NOTHING, batch)?));
        Ok(Self {
            nothing: [nothing(1)?, nothing(raw::OWN)?],
        })
    }

    /// Returns the instructions of one operation, in tenths: the least of `attempts`.
    fn tenths(&self, name: &str, batch: u64, attempts: u32) -> Result<u64, String> {
        let around = self
            .nothing
            .iter()
            .find(|(of, _)| *of == batch.min(raw::OWN));
        let around = around.map_or(0, |(_, count)| *count);
        let mut least = u64::MAX;
        for _ in 0..attempts {
            least = least.min(count(name, batch)?.saturating_sub(around) * 10 / batch);
        }
        Ok(least)
    }
}

/// Counts the instructions of each operation, and those of tokio if `with_peers` is true.
fn measure(
    meter: &Meter,
    operations: Vec<Operation>,
    with_peers: bool,
    attempts: u32,
) -> Result<Vec<Line>, String> {
    let tenths = |name: &str, batch: u64| meter.tenths(name, batch, attempts);
    operations
        .into_iter()
        .map(|operation| {
            let peer = operation.peer.filter(|_| with_peers);
            Ok(Line {
                tenths: tenths(operation.name, operation.batch)?,
                peer_tenths: peer.map(|(name, batch)| tenths(name, batch)).transpose()?,
                operation,
            })
        })
        .collect()
}

/// Measures like [`measure`], but without peers and two at a time: instruction counts do not depend on other load.
fn measure_side_by_side(
    meter: &Meter,
    mut operations: Vec<Operation>,
) -> Result<Vec<Line>, String> {
    let others = operations.split_off(operations.len() / 2);
    thread::scope(|threads| {
        let beside = threads.spawn(|| measure(meter, others, false, 1));
        let lines = measure(meter, operations, false, 1);
        let others = beside
            .join()
            .map_err(|_panic| "the second half could not be counted")?;
        let mut lines = lines?;
        lines.extend(others?);
        Ok(lines)
    })
}

/// Returns a table of the instructions of each operation.
///
/// # Errors
///
/// Valgrind is missing, or counted nothing.
pub fn count_all() -> Result<String, String> {
    Ok(page::table(&measure(
        &Meter::new()?,
        operations(),
        true,
        1,
    )?))
}

/// Writes the instructions of each operation into the page, `docs/performance.md`.
///
/// # Errors
///
/// As [`count_all`], or the page cannot be written.
pub fn write() -> Result<(), String> {
    let lines = measure(&Meter::new()?, operations(), true, ATTEMPTS)?;
    page::write(Path::new(PAGE), &lines)
}

/// Compares new counts with the page.
///
/// # Errors
///
/// An operation exceeds its figure there by more than the accepted excess.
pub fn check() -> Result<String, String> {
    let known = page::read(Path::new(PAGE))?;
    let meter = Meter::new()?;
    let mut complaints = Vec::new();
    for line in measure_side_by_side(&meter, operations())? {
        let name = line.operation.name;
        let Some(before) = known.iter().find(|(known, _)| known == name) else {
            complaints.push(format!("\"{name}\" is not in the table"));
            continue;
        };
        let tolerance = if name.starts_with(tasks::PREFIX) {
            TOLERANCE_OF_TASKS
        } else {
            TOLERANCE
        };
        // Half an instruction is what rounding may do to the smallest.
        let is_more = |tenths: u64| tenths * 100 > before.1 * (100 + tolerance) + 500;
        let mut tenths = line.tenths;
        if is_more(tenths) {
            tenths = meter.tenths(name, line.operation.batch, ATTEMPTS)?;
        }
        if is_more(tenths) {
            let (now, before) = (page::number(tenths), page::number(before.1));
            complaints.push(format!("\"{name}\" takes {now} instructions, not {before}"));
        }
    }
    if complaints.is_empty() {
        return Ok(format!(
            "no operation takes {TOLERANCE} % more instructions than its table says, \
             and none of the executor {TOLERANCE_OF_TASKS} % more\n"
        ));
    }
    Err(format!(
        "{}; if that is meant: cargo laboratory -p tickless-peers -- --write",
        complaints.join(", ")
    ))
}

/// Returns the instructions of one round of `operation`: the median of the rounds; for tasks, the 5th percentile.
fn count(operation: &str, batch: u64) -> Result<u64, String> {
    static COUNTS: AtomicU32 = AtomicU32::new(0);
    let (process, number) = (std::process::id(), COUNTS.fetch_add(1, Ordering::Relaxed));
    let dumps = std::env::temp_dir().join(format!("tickless-instructions-{process}-{number}"));
    let counted = fs::create_dir_all(&dumps)
        .map_err(|error| format!("{}: {error}", dumps.display()))
        .and_then(|()| count_into(&dumps, operation, batch));
    // What stays behind in the directory for temporary files is removed by others.
    let _removed = fs::remove_dir_all(&dumps);
    counted
}

fn count_into(dumps: &Path, operation: &str, batch: u64) -> Result<u64, String> {
    let failed = |error: std::io::Error| format!("valgrind: {error}");
    let output = Command::new("valgrind")
        // Two threads that never wait: an unfair scheduler may leave one of them out for minutes.
        .args(["--tool=callgrind", "--fair-sched=yes"])
        .args(["--collect-atstart=no", "--dump-line=no"])
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(format!("--dump-after={COUNTED}"))
        .arg(format!(
            "--callgrind-out-file={}",
            dumps.join("dump").display()
        ))
        .arg(std::env::current_exe().map_err(failed)?)
        .args(["--execute", operation, &batch.to_string()])
        .output()
        .map_err(failed)?;
    let mut rounds: Vec<u64> = fs::read_dir(dumps)
        .map_err(failed)?
        .filter_map(|file| {
            let text = fs::read_to_string(file.ok()?.path()).ok()?;
            let total = text
                .lines()
                .find_map(|line| line.strip_prefix("totals: "))?;
            total.trim().parse().ok()
        })
        .filter(|count| *count > 0)
        .collect();
    rounds.sort_unstable();
    let place = if operation.starts_with(tasks::PREFIX) {
        rounds.len() / 20
    } else {
        rounds.len() / 4
    };
    let figure = rounds.get(place).copied();
    figure.filter(|_| output.status.success()).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("valgrind counted nothing of \"{operation}\":\n{said}")
    })
}

/// Executes the rounds of `operation`, whose instructions valgrind counts.
pub fn execute(operation: &str, batch: u64) {
    if operation == NOTHING {
        (0..32).for_each(|_| {
            counted(&mut || (0..batch).for_each(|index| _ = black_box(index)));
        });
    } else if operation.starts_with("core, ") {
        raw::execute(operation);
    } else if operation.starts_with(tasks::PREFIX) {
        tasks::execute(operation, batch);
    } else {
        faces::execute(operation);
    }
}

//! The number of cache lines that an operation touches, which determines the cost of the operation if the timers do not
//! fit into the caches.
//!
//! Valgrind's `lackey` prints each access of a program that fills a queue and then repeats one operation. The program
//! stores to `MARK` between two operations, and the reader of the trace counts the distinct lines of 64 bytes between
//! two marks. A line that one of the previous `RECENT` operations touched too is *warm*: the lock, the clock, the
//! bitmap, the stack. Other lines are *cold*: the timer and its neighbours. The counts do not depend on the machine,
//! except for the accesses of other threads that a subject has.
//!
//! Timers that are due at once expire in a few passes over all of them, so a single expiry has no marks. All expiries
//! are counted between two marks, and the count is divided by the number of timers. Here a line is cold if it is not
//! among the `CACHED` lines that were touched last, as many as a first-level cache holds. It counts as written if it
//! was written before it left these lines.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io::{BufRead, Write as _};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::operation::Operation;
use crate::subjects;

/// The word to which the program stores between two operations.
static MARK: AtomicU64 = AtomicU64::new(0);
/// The text that precedes the address of `MARK` in the trace.
const ANNOUNCED: &str = "tickless-mark ";
/// A line is warm if one of this many previous operations touched it.
const RECENT: usize = 16;
/// The number of counted operations; `RECENT` operations before them are not counted.
pub(crate) const COUNTED: u64 = 64;
/// The size of a cache line, in bytes.
const LINE: u64 = 64;
/// The number of lines that stay warm while timers expire: 32 KiB.
const CACHED: usize = 512;
/// The most timers that expire: several times `CACHED`, but few, because arming one timer takes a millisecond in
/// valgrind.
pub(crate) const EXPIRING: usize = 2_000;

/// The numbers of cache lines that one operation touches, on average over the counted operations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lines {
    /// All lines that the operation touches.
    pub touched: f64,
    /// Cold lines, which no recent operation touched.
    pub cold: f64,
    /// Cold lines that are written.
    pub cold_written: f64,
}

/// Marks the end of an operation.
pub(crate) fn mark() {
    MARK.fetch_add(1, Ordering::SeqCst);
}

/// Writes the address of the marks for the reader of the trace, in one call, because accesses are traced between two
/// calls.
pub(crate) fn announce() {
    let text = format!("\n{ANNOUNCED}{:x}\n", MARK.as_ptr().addr());
    // A reader that is gone counts nothing.
    let _closed = std::io::stderr().write_all(text.as_bytes());
}

/// Returns the operations whose lines can be counted: those among pending timers on one thread, and the expiry.
#[must_use]
pub fn operations() -> Vec<Operation> {
    let counts = |operation: &Operation| {
        *operation == Operation::Expire
            || operation.is_among_pending() && *operation != Operation::PushSmallClock
    };
    Operation::ALL.into_iter().filter(counts).collect()
}

/// Returns the names of the subjects with pending timers.
#[must_use]
pub fn names() -> Vec<&'static str> {
    { subjects::all().into_iter() }
        .map(|entry| entry.name)
        .collect()
}

/// Executes operations for [`count`], which starts the program again with these arguments.
///
/// # Errors
///
/// The subject does not exist, or has no pending timers.
pub fn execute(subject: &str, operation: Operation, pending: usize) -> Result<(), String> {
    let entry = subjects::all()
        .into_iter()
        .find(|entry| entry.name == subject);
    let entry = entry.ok_or_else(|| format!("there is no subject \"{subject}\""))?;
    (entry.lines)(operation, pending);
    Ok(())
}

/// Counts the lines of an operation, by a command that calls [`execute`] with as many pending timers.
///
/// # Errors
///
/// Valgrind is missing, or the command failed under it.
pub fn count(command: &mut Command, operation: Operation, pending: usize) -> Result<Lines, String> {
    let failed = |error: std::io::Error| format!("valgrind: {error}");
    let mut traced = Command::new("valgrind");
    traced.args(["--tool=lackey", "--trace-mem=yes"]);
    traced.arg(command.get_program()).args(command.get_args());
    let mut child = { traced.stdout(Stdio::null()).stderr(Stdio::piped()) }
        .spawn()
        .map_err(failed)?;
    let trace = child.stderr.take().ok_or("the trace is not piped")?;
    let trace = std::io::BufReader::with_capacity(1 << 20, trace);
    let lines = if operation == Operation::Expire {
        read_expiry(trace, pending.min(EXPIRING))
    } else {
        read(trace)
    };
    let lines = lines.map_err(failed)?;
    let status = child.wait().map_err(failed)?;
    match lines {
        Some(lines) if status.success() => Ok(lines),
        _ => Err(format!("valgrind counted nothing: {status}")),
    }
}

/// Calls `body` with each access of the trace after the announcement. The first argument is true if the access is a
/// mark.
fn each_access(
    mut trace: impl BufRead,
    mut body: impl FnMut(bool, (bool, u64, u64)),
) -> std::io::Result<()> {
    let mut mark = None;
    let mut line = String::new();
    while trace.read_line(&mut line)? > 0 {
        if let Some(address) = line.strip_prefix(ANNOUNCED) {
            mark = u64::from_str_radix(address.trim(), 16).ok();
        } else if let Some((is_write, address, size)) = access(&line)
            && mark.is_some()
        {
            body(
                Some(address) == mark && is_write,
                (is_write, address / LINE, (address + size.max(1) - 1) / LINE),
            );
        }
        line.clear();
    }
    Ok(())
}

/// Counts the lines of the operations in a trace; returns `None` if the trace has too few marks.
fn read(trace: impl BufRead) -> std::io::Result<Option<Lines>> {
    let mut recent: VecDeque<HashSet<u64>> = VecDeque::new();
    let mut present: Option<HashMap<u64, bool>> = None;
    let (mut counted, mut sums) = (0, [0_usize; 3]);
    each_access(trace, |is_mark, (is_write, first, last)| {
        if is_mark {
            if let Some(touched) = present.take() {
                if recent.len() == RECENT {
                    let is_cold = |line: &u64| !recent.iter().any(|before| before.contains(line));
                    let cold = touched.iter().filter(|(line, _)| is_cold(line));
                    sums[0] += touched.len();
                    sums[1] += cold.clone().count();
                    sums[2] += cold.filter(|(_, is_written)| **is_written).count();
                    counted += 1;
                    recent.pop_front();
                }
                recent.push_back(touched.into_keys().collect());
            }
            present = Some(HashMap::new());
        } else if let Some(present) = &mut present {
            for line in first..=last {
                *present.entry(line).or_insert(false) |= is_write;
            }
        }
    })?;
    Ok((counted > 0).then(|| mean(sums, counted)))
}

/// The lines that were touched last, each with a mark if it was written.
#[derive(Default)]
struct Cache {
    /// The number of the last access of each line, and true if an access wrote to the line.
    lines: HashMap<u64, (u64, bool)>,
    /// The lines in the order of their last accesses.
    order: BTreeMap<u64, u64>,
    accesses: u64,
    cold: usize,
    cold_written: usize,
}

impl Cache {
    fn touch(&mut self, line: u64, is_write: bool) {
        self.accesses += 1;
        let known = self.lines.insert(line, (self.accesses, is_write));
        self.order.insert(self.accesses, line);
        if let Some((before, was_written)) = known {
            self.order.remove(&before);
            self.lines
                .insert(line, (self.accesses, is_write | was_written));
            return;
        }
        self.cold += 1;
        if self.lines.len() > CACHED
            && let Some((_, left)) = self.order.pop_first()
            && let Some((_, true)) = self.lines.remove(&left)
        {
            self.cold_written += 1;
        }
    }
}

/// Counts the lines of the expiry of `timers` timers, between the first two marks; returns `None` if there are too few
/// marks.
fn read_expiry(trace: impl BufRead, timers: usize) -> std::io::Result<Option<Lines>> {
    let mut cache = Cache::default();
    let mut touched = HashSet::new();
    let mut marks = 0;
    each_access(trace, |is_mark, (is_write, first, last)| {
        marks += u32::from(is_mark);
        if marks == 1 && !is_mark {
            for line in first..=last {
                touched.insert(line);
                cache.touch(line, is_write);
            }
        }
    })?;
    let still = cache.lines.values().filter(|(_, is_written)| *is_written);
    let sums = [
        touched.len(),
        cache.cold,
        cache.cold_written + still.count(),
    ];
    Ok((marks > 1).then(|| mean(sums, timers)))
}

#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn mean(sums: [usize; 3], counted: usize) -> Lines {
    let mean = |sum: usize| sum as f64 / counted as f64;
    Lines {
        touched: mean(sums[0]),
        cold: mean(sums[1]),
        cold_written: mean(sums[2]),
    }
}

/// Parses a line of the trace (` S 1ffe,8`). Returns three values: true for a write, the address, and the number of
/// bytes. Returns `None` for an instruction, `I`.
fn access(line: &str) -> Option<(bool, u64, u64)> {
    let (kind, rest) = line.strip_prefix(' ')?.split_once(' ')?;
    let is_write = match kind {
        "L" => false,
        "S" | "M" => true,
        _ => return None,
    };
    let (address, size) = rest.trim().split_once(',')?;
    Some((
        is_write,
        u64::from_str_radix(address, 16).ok()?,
        size.parse().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::{ANNOUNCED, CACHED, LINE, Lines, RECENT, access, read, read_expiry};

    #[test]
    fn accesses_are_read() {
        assert_eq!(access(" L 1ffe,8\n"), Some((false, 0x1ffe, 8)));
        assert_eq!(access(" M 40,4\n"), Some((true, 0x40, 4)));
        assert_eq!(access("I  04001000,3\n"), None);
        assert_eq!(access("==12== lackey\n"), None);
    }

    /// Each operation reads a line that all operations read, and writes a value of its own across the border of two
    /// lines.
    #[test]
    fn what_recent_operations_touched_is_warm() {
        let mut trace = format!("{ANNOUNCED}ff00\n S ff00,8\n");
        for operation in 0..RECENT as u64 + 3 {
            let own = 0x10_0000 + operation * 4 * LINE;
            trace += &format!(
                " L 40,8\n S {:x},8\n L {own:x},4\nI  40,3\n M ff00,8\n",
                own + LINE - 4
            );
        }
        let lines = read(trace.as_bytes()).unwrap();
        let expected = Lines {
            touched: 3.0,
            cold: 2.0,
            cold_written: 2.0,
        };
        assert_eq!(lines, Some(expected));
        assert_eq!(read(" L 40,8\n".as_bytes()).unwrap(), None);
    }

    /// Two passes over more lines than the cache holds. The second pass writes, and every step reads one common line.
    #[test]
    fn a_line_that_left_the_cache_is_cold_again() {
        let timers = CACHED as u64 * 2;
        let mut trace = format!(" L 10,8\n{ANNOUNCED}ff00000\n L 20,8\n S ff00000,8\n");
        for kind in ["L", "S"] {
            for timer in 0..timers {
                trace += &format!(" L 40,8\n {kind} {:x},8\n", (timer + 8) * LINE);
            }
        }
        trace += " M ff00000,8\n L 123450,8\n";
        let lines = read_expiry(trace.as_bytes(), CACHED * 2).unwrap().unwrap();
        let near = |is: f64, should: f64| (is - should).abs() < 0.01;
        assert!(
            near(lines.cold, 2.0) && near(lines.cold_written, 1.0),
            "{lines:?}"
        );
        assert!(near(lines.touched, 1.0), "{lines:?}");
        let unfinished = format!("{ANNOUNCED}ff00000\n S ff00000,8\n L 40,8\n");
        assert_eq!(read_expiry(unfinished.as_bytes(), 1).unwrap(), None);
    }
}

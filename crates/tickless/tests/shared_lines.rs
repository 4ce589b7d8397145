//! A test that threads with timers of their own write no cache line that another such thread uses.
//!
//! The test runs itself under valgrind, whose tool `lackey` prints the address of each access to memory. Two threads
//! use their timers alternately. If one thread writes a line in its turns and the other thread accesses this line in
//! its own turns, the line is shared. A shared line costs both threads a cache miss for each operation, which no count
//! of instructions shows.
//!
//! The test checks an optimised program without debug assertions, as users build it: accesses of debug assertions cost
//! users nothing, and the trace of an unoptimised program takes four times as long.
//!
//! The test ignores the memory of the clock. One of the threads that read the clock reads the kernel's clock each 50
//! µs, and publishes the reading to the other threads; under valgrind nearly every operation takes longer than 50 µs.
//!
//! The trace does not say which thread accesses memory. The thread that ends its turn executes a few more instructions
//! before it sleeps, and these may come in the turn of the other thread. So the test tells the threads apart by their
//! stacks: a thread executes from an access to its stack until an access to the other stack.

#![cfg(not(debug_assertions))]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use support::{poll_idly, process_of_its_own, well_done};
use tickless::coarse;
use tickless::hrtimer::{HrTimer, Restart};
use tickless::internals::addresses_of_the_clock;
use tickless::time::{Instant, sleep, sleep_until};

const HOUR: Duration = Duration::from_secs(3600);

/// The number of turns of each thread. A line counts if it is used in all turns, because other threads of the process
/// may run in between.
const TURNS: usize = 6;

/// Words that the threads write when a turn begins or ends, so that the trace shows the turns.
#[repr(align(128))]
struct Marks([AtomicU64; 3]);

const END: usize = 2;

static MARKS: Marks = Marks([const { AtomicU64::new(0) }; 3]);

/// The text that the process prints before the address of the marks and the addresses of the beginning and end of the
/// clock.
const HERE: &str = "marks and clock: ";

/// The text that each of the threads prints before its number and the addresses of the beginning and end of its stack.
const STACK: &str = "stack: ";

fn mark(which: usize) {
    MARKS.0[which].store(1, Ordering::SeqCst);
}

/// Keeps some timers of a thread pending, and uses other timers again and again.
fn use_timers(pushed: &mut dyn FnMut(u64), round: u64) {
    for number in 0..8 {
        let mut sleep = pin!(sleep(HOUR));
        assert!(poll_idly(sleep.as_mut()).is_pending());
        let mut coarse = pin!(coarse::sleep(HOUR));
        assert!(poll_idly(coarse.as_mut()).is_pending());
        pushed(round * 8 + number);
    }
}

/// Runs a thread with timers of its own; the same timer has the earliest deadline all the time.
fn thread_with_timers(own: usize, order: &Barrier, is_worker: bool) {
    say(STACK, &[own, stack().start, stack().end]);
    let _worker = is_worker.then(support::worker);
    let begin = Instant::now();
    let mut first = pin!(sleep(Duration::from_secs(1800)));
    assert!(poll_idly(first.as_mut()).is_pending());
    let mut first_coarse = pin!(coarse::sleep(Duration::from_secs(1800)));
    assert!(poll_idly(first_coarse.as_mut()).is_pending());
    let mut later = pin!(sleep_until(begin + 2 * HOUR));
    assert!(poll_idly(later.as_mut()).is_pending());
    let timer = pin!(HrTimer::new(|_| Restart::No));
    let timer = timer.as_ref();
    let mut push = |number: u64| {
        later
            .as_mut()
            .reset(begin + 2 * HOUR + Duration::from_micros(number));
        let _ = timer.start(HOUR + Duration::from_micros(number));
        let _ = timer.start(2 * HOUR);
        timer.cancel();
    };
    // What is done for the first time may be told to others.
    use_timers(&mut push, 0);
    for turn in 0..2 * TURNS {
        order.wait();
        if turn % 2 == own {
            mark(own);
            use_timers(&mut push, turn as u64);
            mark(END);
        }
        order.wait();
    }
}

/// Runs two threads with timers, in the process that valgrind traces.
fn two_threads(is_worker: bool) -> ! {
    let clock = addresses_of_the_clock();
    say(HERE, &[(&raw const MARKS).addr(), clock.start, clock.end]);
    let order = Barrier::new(2);
    thread::scope(|scope| {
        for own in 0..2 {
            let order = &order;
            scope.spawn(move || thread_with_timers(own, order, is_worker));
        }
    });
    well_done();
}

/// Prints three numbers where the trace goes, so that they come in order, and in one piece.
fn say(what: &str, numbers: &[usize; 3]) {
    let [one, two, three] = numbers;
    let said = format!("\n{what}{one:x} {two:x} {three:x}\n");
    std::io::stderr()
        .write_all(said.as_bytes())
        .expect("a pipe");
}

/// Returns the addresses of the part of the stack that the executing thread uses, from a place near its upper end.
fn stack() -> Range<usize> {
    let here = 0;
    let here = (&raw const here).addr();
    here - (512 << 10)..here + (4 << 10)
}

/// The lines that one of the threads used in a turn.
#[derive(Default)]
struct Used {
    read: BTreeSet<u64>,
    written: BTreeSet<u64>,
}

/// Returns the turns of both threads, read from the trace.
fn turns(trace: impl Read) -> [Vec<Used>; 2] {
    let mut places = None;
    let mut turns = [Vec::new(), Vec::new()];
    let mut stacks = [0..0, 0..0];
    // The thread whose turn it is, and the thread that executes.
    let mut at: Option<usize> = None;
    let mut executing = None;
    let mut trace = BufReader::new(trace);
    let mut line = Vec::new();
    while {
        line.clear();
        trace.read_until(b'\n', &mut line).expect("a pipe") > 0
    } {
        let Some((kind, address)) = access(&line) else {
            if let Some([own, start, end]) = said(STACK, &line) {
                stacks[usize::try_from(own).expect("one of two")] = start..end;
            } else if let Some([marks, start, end]) = said(HERE, &line) {
                places = Some((marks, start..end));
            }
            continue;
        };
        let of_stack = stacks.iter().position(|stack| stack.contains(&address));
        executing = of_stack.or(executing);
        let Some((marks, clock)) = &places else {
            continue;
        };
        let is_write = kind != b'L';
        if is_write && (*marks..marks + 24).contains(&address) {
            let which = usize::try_from((address - marks) / 8).expect("one of three");
            at = (which != END).then_some(which);
            executing = at.or(executing);
            if let Some(own) = at {
                turns[own].push(Used::default());
            }
        } else if clock.contains(&address) {
            // See above.
        } else if at != executing {
            // The other thread: the end of its turn.
        } else if let Some(used) = at.and_then(|own| turns[own].last_mut()) {
            let lines = if is_write {
                &mut used.written
            } else {
                &mut used.read
            };
            lines.insert(address / 64);
        }
    }
    turns
}

/// Parses a line like ` S 1ffefff7b8,8`; returns `None` for lines of instructions.
fn access(line: &[u8]) -> Option<(u8, u64)> {
    let text = std::str::from_utf8(line).ok()?;
    let kind = *text.strip_prefix(' ')?.as_bytes().first()?;
    let (address, _) = text[2..].trim_start().split_once(',')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    matches!(kind, b'L' | b'S' | b'M').then_some((kind, address))
}

/// Returns the three numbers that the process printed after `what`.
fn said(what: &str, line: &[u8]) -> Option<[u64; 3]> {
    let text = std::str::from_utf8(line).ok()?;
    let numbers = text.trim_end().strip_prefix(what)?.split(' ');
    let mut numbers = numbers.map_while(|number| u64::from_str_radix(number, 16).ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

/// Returns the cache lines that `pick` returns for all turns.
fn in_all(turns: &[Used], pick: impl Fn(&Used) -> Vec<u64>) -> BTreeSet<u64> {
    let mut counts = BTreeMap::<u64, usize>::new();
    for turn in turns {
        for line in pick(turn) {
            *counts.entry(line).or_default() += 1;
        }
    }
    counts.retain(|_, count| *count == turns.len());
    counts.into_keys().collect()
}

fn nothing_is_shared(test: &str, is_worker: bool) {
    let Some(own) = process_of_its_own(test) else {
        two_threads(is_worker);
    };
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=lackey", "--trace-mem=yes", "--log-fd=2"])
        .arg(own.get_program())
        .args(own.get_args())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    for (name, value) in own.get_envs() {
        valgrind.env(name, value.expect("it is set"));
    }
    let Ok(mut process) = valgrind.spawn() else {
        support::skip("lines that threads share", "there is no valgrind");
        return;
    };
    let trace = process.stderr.take().expect("it is piped");
    let [one, other] = turns(trace);
    support::assert_well_done(process.wait().expect("it runs"));
    assert_eq!([one.len(), other.len()], [TURNS; 2]);
    let written = |used: &Used| used.written.iter().copied().collect();
    let touched = |used: &Used| (&used.read | &used.written).into_iter().collect();
    let both = |writer: &[Used], user: &[Used]| &in_all(writer, written) & &in_all(user, touched);
    let own_lines = in_all(&one, written);
    assert!(own_lines.len() > 10, "the trace shows what is written");
    let shared = &both(&one, &other) | &both(&other, &one);
    let shared: Vec<_> = shared
        .iter()
        .map(|line| format!("{:x}", line * 64))
        .collect();
    assert!(shared.is_empty(), "lines that both use: {shared:?}");
}

#[test]
fn threads_with_their_own_timers_write_no_shared_line() {
    nothing_is_shared("threads_with_their_own_timers_write_no_shared_line", false);
}

#[test]
fn workers_with_their_own_timers_write_no_shared_line() {
    nothing_is_shared("workers_with_their_own_timers_write_no_shared_line", true);
}

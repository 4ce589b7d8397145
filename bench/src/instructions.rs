//! `--instructions`: how many instructions an operation executes, which a busy machine changes as little as a slow one.
//!
//! Valgrind's `callgrind` executes this command again for each operation and counts within [`counted`] alone, so that
//! neither the timers that an operation needs nor what becomes of them afterwards is in its figure. The loop around an
//! operation is counted by itself and taken off. What is counted are the instructions of one build on one kind of
//! processor: figures are to be compared with those that the same machine gives for another commit.

use std::hint::black_box;
use std::io;
use std::pin::{Pin, pin};
use std::process::Command;
use std::task::{Context, Waker};
use std::time::Duration;

use tickless_core::base::Timers;
use tickless_core::coarse::{Kind, Tick};
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Start};
use tickless_core::platform::CpuId;
use tickless_core::time::{Instant, Monotonic, Span};

use crate::groups::worker;
use crate::host::{self, Coarse, Host};

/// The operations, by name.
const OPERATIONS: [&str; 12] = [
    "exact: start",
    "exact: restart in place",
    "exact: restart with a move",
    "exact: cancel",
    "exact: expire",
    "coarse: start",
    "coarse: restart in its bucket",
    "coarse: restart with a move",
    "coarse: cancel",
    "coarse: expire",
    "exact sleep on a worker: first poll and drop",
    "coarse sleep on a worker: first poll and drop",
];
/// The loop alone.
const NOTHING: &str = "nothing";

/// Timers that are pending besides those that an operation is executed on.
const PENDING: u64 = 1_000;
/// Timers that an operation is executed on, in each of the rounds.
const OWN: u64 = 64;
const ROUNDS: u64 = 32;

/// Prints the instructions of each operation.
pub(crate) fn print() -> Result<(), String> {
    println!("instructions of one operation, {PENDING} timers pending");
    let nothing = count(NOTHING)?;
    for operation in OPERATIONS {
        let tenths = (count(operation)? - nothing) * 10 / (OWN * ROUNDS);
        println!("  {operation:<46} {:>6}.{}", tenths / 10, tenths % 10);
    }
    Ok(())
}

/// The instructions of all rounds of `operation`.
fn count(operation: &str) -> Result<u64, String> {
    let failed = |error: io::Error| format!("valgrind: {error}");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args([
            "--collect-atstart=no",
            "--toggle-collect=*instructions*counted*",
        ])
        .arg(std::env::current_exe().map_err(failed)?)
        .args(["--execute", operation])
        .output()
        .map_err(failed)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    let collected = collected.and_then(|(_, count)| count.trim().parse().ok());
    collected
        .filter(|count| output.status.success() && *count > 0)
        .ok_or_else(|| format!("valgrind counted nothing of \"{operation}\":\n{said}"))
}

/// What callgrind counts.
#[inline(never)]
fn counted(body: &mut dyn FnMut()) {
    body();
    // A call that is the last thing of a function is a jump, which callgrind does not see the end of.
    black_box(());
}

/// Executes the rounds of `operation`, of which valgrind counts the instructions.
pub(crate) fn execute(operation: &str) {
    let step = |name: &str, body: &mut dyn FnMut()| {
        if name == operation {
            counted(body);
        } else {
            body();
        }
    };
    match operation.split(':').next() {
        Some("exact") => exact(&step),
        Some("coarse") => coarse(&step),
        Some("exact sleep on a worker") => sleeps(|| {
            black_box(
                pin!(tickless::time::sleep(SLEEP))
                    .poll(&mut context())
                    .is_pending(),
            );
        }),
        Some("coarse sleep on a worker") => sleeps(|| {
            black_box(
                pin!(tickless::coarse::sleep(SLEEP))
                    .poll(&mut context())
                    .is_pending(),
            );
        }),
        _ => (0..ROUNDS).for_each(|_| {
            counted(&mut || (0..OWN).for_each(|index| _ = black_box(index)));
        }),
    }
}

/// Executes a part of a round, which is counted if it has the name of the operation.
type Step<'a> = &'a dyn Fn(&str, &mut dyn FnMut());

/// One of a million places, another for each number.
const fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44
}

type Exact = HrTimer<fn(&mut Expired<'_, '_, Monotonic>) -> Restart>;

fn exact(step: Step<'_>) {
    let timers = host::timers(1, true, ());
    let new = |_| -> Pin<Box<Exact>> { Box::pin(HrTimer::new(|_| Restart::No)) };
    let (waiting, own): (Vec<_>, Vec<_>) =
        ((0..PENDING).map(new).collect(), (0..OWN).map(new).collect());
    let start = |timer: &Pin<Box<Exact>>, at: Instant| {
        _ = timer.as_ref().start(&timers, Start::at(at));
    };
    let cancel = |timer: &Pin<Box<Exact>>| _ = black_box(timer.as_ref().try_cancel(&timers));
    // So far ahead that none of them fires.
    let among_others = |number| after(Instant::from_nanos(1 << 60), scattered(number));
    for (timer, number) in waiting.iter().zip(0..) {
        start(timer, among_others(number));
    }
    for round in 1..=ROUNDS {
        let numbered = || own.iter().zip(round * PENDING..);
        step("exact: start", &mut || {
            numbered().for_each(|(timer, number)| start(timer, among_others(number)));
        });
        step("exact: restart in place", &mut || {
            let later = |at: Instant| at.saturating_add(Span::from_nanos(1));
            numbered().for_each(|(timer, number)| start(timer, later(among_others(number))));
        });
        step("exact: restart with a move", &mut || {
            numbered().for_each(|(timer, number)| start(timer, among_others(number + OWN)));
        });
        step("exact: cancel", &mut || own.iter().for_each(cancel));
        let now = &timers.platform().now;
        for (timer, number) in numbered() {
            start(timer, after(now.get(), scattered(number)));
        }
        now.set(after(now.get(), 1 << 20));
        step("exact: expire", &mut || {
            let fired = timers.interrupt(CpuId(0)).fired;
            assert_eq!(u64::from(fired), OWN);
        });
    }
    waiting.iter().for_each(cancel);
}

fn after(at: Instant, micros: u64) -> Instant {
    at.saturating_add(Span::from_nanos(micros * 1_000))
}

fn coarse(step: Step<'_>) {
    let timers: Timers<Host> = host::timers(1, true, ());
    let new = |_| host::coarse(Kind::Local);
    let (waiting, own): (Vec<_>, Vec<_>) =
        ((0..PENDING).map(new).collect(), (0..OWN).map(new).collect());
    let mut now = Tick(1);
    let modify = |timer: &Pin<Box<Coarse>>, now: Tick, after: u64| {
        _ = black_box(timer.as_ref().modify(&timers, now, Tick(now.0 + after)));
    };
    let delete = |timer: &Pin<Box<Coarse>>| _ = black_box(timer.as_ref().delete(&timers));
    // So far ahead that none of them fires, on the level whose buckets are 32,768 ticks.
    let far = |number| (1 << 20) + (scattered(number) & !0x7FFF) + 1_000;
    for (timer, number) in waiting.iter().zip(0..) {
        modify(timer, now, far(number));
    }
    for round in 1..=ROUNDS {
        let numbered = || own.iter().zip(round * PENDING..);
        step("coarse: start", &mut || {
            numbered().for_each(|(timer, number)| modify(timer, now, far(number)));
        });
        step("coarse: restart in its bucket", &mut || {
            numbered().for_each(|(timer, number)| modify(timer, now, far(number) + 1));
        });
        step("coarse: restart with a move", &mut || {
            numbered().for_each(|(timer, number)| modify(timer, now, far(number + OWN)));
        });
        step("coarse: cancel", &mut || own.iter().for_each(delete));
        for (timer, number) in numbered() {
            modify(timer, now, 100 + scattered(number) % 4_000);
        }
        now.0 += 10_000;
        step("coarse: expire", &mut || {
            let fired = timers.run_wheel(CpuId(0), Kind::Local, now, u32::MAX).fired;
            assert_eq!(u64::from(fired), OWN);
        });
    }
    waiting.iter().for_each(delete);
}

const SLEEP: Duration = Duration::from_secs(500);

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Makes sleeps on a worker: the way of users, reading the clock and finding the own base included.
fn sleeps(poll_and_drop: impl Fn()) {
    let _worker = worker();
    for _ in 0..ROUNDS {
        counted(&mut || (0..OWN).for_each(|_| poll_and_drop()));
    }
}

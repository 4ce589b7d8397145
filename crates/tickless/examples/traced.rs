//! Records the events of a program's timers, and writes the file that `tickless verify` checks.
//!
//! ```sh
//! cargo run --release -p tickless --features tracepoints --example traced my.jsonl
//! cargo tickless verify my.jsonl --chrome my.json
//! ```
//!
//! Five threads have exact and coarse timers, as futures and as callbacks. Some timers fire, some are moved, and most
//! of the timeouts are cancelled. Two of the threads are workers that rest most of the time: the trace shows which of
//! them looks after the timers of the other. A second argument limits the events of each thread: then some events are
//! lost, and `verify` reports that the trace is incomplete.
#![expect(clippy::print_stdout, reason = "an example shows something")]

use std::error::Error;
use std::fs::File;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use tickless::hrtimer::{HrTimer, Restart, Span, Start};
use tickless::tracepoints::{self, Options};
use tickless::{Worker, coarse, time};

const ROUNDS: u32 = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "my.jsonl".to_owned());
    let mut options = Options::new().name("traced");
    if let Some(events) = arguments.next() {
        options = options.events_per_thread(events.parse()?);
    }

    let recording = tracepoints::start(&options)?;
    thread::scope(|scope| {
        scope.spawn(|| block_on(naps()));
        scope.spawn(|| block_on(requests()));
        scope.spawn(beats);
        scope.spawn(|| rests(Duration::from_millis(3)));
        scope.spawn(|| rests(Duration::from_millis(5)));
    });
    let trace = recording.stop();

    trace.write(File::create(&path)?)?;
    println!(
        "{path}: {} events, {} lost; now: cargo tickless verify {path}",
        trace.events(),
        trace.lost()
    );
    Ok(())
}

/// Sleeps until several timers fire, on a thread whose timers the library's expiry thread fires.
async fn naps() {
    for round in 0..ROUNDS {
        time::sleep(Duration::from_micros(u64::from(round))).await;
    }
}

/// Limits requests by timeouts; all requests but one are answered in time.
async fn requests() {
    for _ in 0..ROUNDS {
        let answer = time::sleep(Duration::from_micros(20));
        let _ = coarse::timeout(Duration::from_secs(30), answer).await;
    }
    let _ = coarse::timeout(Duration::from_millis(2), std::future::pending::<()>()).await;
}

/// Rests on a worker, again and again.
fn rests(rest: Duration) {
    let Ok(worker) = Worker::new() else {
        return;
    };
    worker.block_on(async {
        for _ in 0..ROUNDS / 5 {
            coarse::sleep(rest).await;
        }
    });
}

/// Starts a timer whose callback restarts it, on a thread that fires its own timers.
fn beats() {
    let Ok(worker) = Worker::new() else {
        return;
    };
    let beats = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&beats);
    let beat = pin!(HrTimer::new(move |firing| {
        // Relaxed: a count, of this thread alone.
        if counted.fetch_add(1, Ordering::Relaxed) + 1 == ROUNDS {
            return Restart::No;
        }
        firing.forward(firing.now(), Span::from_micros(50));
        Restart::Yes
    }));
    let _ = beat.as_ref().start(Start::after(Span::from_micros(50)));
    while beats.load(Ordering::Relaxed) < ROUNDS {
        let _ = worker.park();
    }
}

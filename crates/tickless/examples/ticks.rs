//! Twenty ticks, one every 200 µs, on `tokio::time` and on `tickless::time`, with a picture of the time of each tick.
//!
//! Each character of the picture stands for 50 µs. A digit is the number of ticks that fired in that time, `+` stands
//! for ten or more. The lines below the picture show the lateness of the ticks of one second.
//!
//! `cargo run --release -p tickless --example ticks`
#![expect(clippy::print_stdout, reason = "it shows what it measures")]

use std::error::Error;
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_micros(200);
const COLUMN: Duration = Duration::from_micros(50);
const COLUMNS: usize = 80;
const SHOWN: u32 = 20;
const MEASURED: u32 = 5_000;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let theirs = runtime.block_on(late(MEASURED, |due| tokio::time::sleep_until(due.into())));
    let ours = runtime.block_on(late(MEASURED, |due| {
        tickless::time::sleep_until(tickless::time::Instant::from_std(due))
    }));

    println!("one tick every {PERIOD:?}, one character for each {COLUMN:?}:\n");
    println!("due       {}", picture(&[Duration::ZERO; SHOWN as usize]));
    println!("tokio     {}", picture(middle(&theirs)));
    println!("tickless  {}", picture(middle(&ours)));
    println!("\nlate, of {MEASURED} ticks     p50      p99");
    for (name, mut late) in [("tokio::time", theirs), ("tickless::time", ours)] {
        late.sort_unstable();
        let at = |hundredth: usize| late[(late.len() - 1) * hundredth / 100].as_micros();
        println!("{name:<18} {:>6} µs {:>5} µs", at(50), at(99));
    }
    Ok(())
}

/// Waits for `ticks` deadlines at a distance of [`PERIOD`], and returns the lateness of each wait.
async fn late<S: Future<Output = ()>>(ticks: u32, wait: impl Fn(Instant) -> S) -> Vec<Duration> {
    let start = Instant::now() + PERIOD;
    let mut late = Vec::new();
    for tick in 0..ticks {
        let due = start + PERIOD * tick;
        wait(due).await;
        late.push(due.elapsed());
    }
    late
}

/// Returns the part of the run that is shown: its middle, where all caches are warm.
fn middle(late: &[Duration]) -> &[Duration] {
    &late[late.len() / 2..][..SHOWN as usize]
}

/// Draws the number of ticks in each column.
fn picture(late: &[Duration]) -> String {
    let mut columns = [0_u32; COLUMNS];
    for (tick, late) in (0..).zip(late) {
        let came = PERIOD * tick + *late;
        let column = came.as_nanos() / COLUMN.as_nanos();
        if let Some(count) = usize::try_from(column)
            .ok()
            .and_then(|at| columns.get_mut(at))
        {
            *count += 1;
        }
    }
    let sign = |count| match count {
        0 => '.',
        count => char::from_digit(count, 10).unwrap_or('+'),
    };
    columns.into_iter().map(sign).collect()
}

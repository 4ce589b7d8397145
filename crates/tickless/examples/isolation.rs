//! Shows what interrupts a thread that never sleeps: a worker that polls, on a CPU that should have no other work.
//!
//! `taskset -c 3 cargo run --release -p tickless --example isolation`
//!
//! The thread polls its worker and reads the clock, again and again. The time between two readings is the time of one
//! turn of the loop, some tens of nanoseconds. If it is longer, an interrupt or another thread had the CPU. The program
//! prints how many turns were how long, and which share of the time went by in turns of more than a microsecond.
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::pin::pin;
use std::time::{Duration, Instant};

use tickless::hrtimer::{HrTimer, Restart, Span, Start};
use tickless::{Parking, StartError, Worker};

/// The distance of the timer that fires on the worker while it polls.
const PERIOD: Span = Span::from_micros(200);

/// The turns of the loop. Bucket `n` counts turns of less than `2^n` nanoseconds that no earlier bucket counts.
#[derive(Debug)]
pub(crate) struct Turns {
    buckets: [u64; 65],
    longest: u64,
    total: u64,
    /// The time of turns of more than a microsecond.
    taken: u64,
    /// Expiries of the timer, all of them on this thread.
    pub(crate) fired: u64,
    /// Wake-ups of this worker by other threads.
    pub(crate) unparks: u64,
}

impl Turns {
    fn note(&mut self, nanos: u64) {
        self.buckets[(u64::BITS - nanos.leading_zeros()) as usize] += 1;
        self.longest = self.longest.max(nanos);
        self.total += nanos;
        if nanos > 1_000 {
            self.taken += nanos;
        }
    }
}

/// Polls a worker for `length`, and measures each turn of the loop.
pub(crate) fn run(length: Duration) -> Result<Turns, StartError> {
    let worker = Worker::with_parking(Parking::Spin)?;
    // The stalls of this thread are what is measured: no other thread expires its timers meanwhile.
    worker.set_helped(false);
    let timer = pin!(HrTimer::new(|expired| {
        let _periods = expired.forward_now(PERIOD);
        Restart::Yes
    }));
    let _ = timer.as_ref().start(Start::after(PERIOD));
    let mut turns = Turns {
        buckets: [0; 65],
        longest: 0,
        total: 0,
        taken: 0,
        fired: 0,
        unparks: 0,
    };
    let start = Instant::now();
    let mut last = Duration::ZERO;
    while last < length {
        if worker.is_due() {
            turns.fired += u64::from(worker.turn().fired);
        }
        turns.unparks += u64::from(worker.was_unparked());
        let now = start.elapsed();
        turns.note(u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX));
        last = now;
    }
    Ok(turns)
}

fn main() -> Result<(), StartError> {
    let turns = run(Duration::from_secs(10))?;
    println!("turns of less than");
    for (power, count) in turns.buckets.iter().enumerate() {
        if *count > 0 {
            println!("{:>18?}  {count}", Duration::from_nanos(1 << power.min(63)));
        }
    }
    println!(
        "longest {:?}; in turns of more than 1 µs went by {:.4} % of the time",
        Duration::from_nanos(turns.longest),
        turns.taken as f64 * 100.0 / turns.total.max(1) as f64
    );
    println!(
        "the timer fired {} times here; other threads woke the worker {} times",
        turns.fired, turns.unparks
    );
    Ok(())
}

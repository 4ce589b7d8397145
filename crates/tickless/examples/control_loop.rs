//! A control loop of 1 kHz, with locked memory, a real-time priority, and a count of late periods.
//!
//! `cargo run --release -p tickless --example control_loop`
//!
//! Without the permission for a real-time priority or for locked memory the program reports that and runs on.
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::error::Error;
use std::io;
use std::time::Duration;

use tickless::Worker;
use tickless::time::{Instant, MissedTickBehavior, interval};

const PERIOD: Duration = Duration::from_millis(1);
/// The priority of the loop: above all other programs, below the kernel's threads that serve devices.
const PRIORITY: u8 = 80;

/// Locks all memory of the process in RAM, because loading a page takes longer than a period.
#[cfg(target_os = "linux")]
fn lock_memory() -> io::Result<()> {
    use rustix::mm::{MlockAllFlags, mlockall};
    Ok(mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)?)
}

#[cfg(not(target_os = "linux"))]
fn lock_memory() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A plant with one state, and a controller that drives the state to its target.
struct Loop {
    state: f64,
}

impl Loop {
    fn step(&mut self, seconds: f64) {
        let force = 5.0 * (1.0 - self.state);
        self.state += force * seconds;
    }
}

/// Runs `periods` of the loop and prints how late they were.
pub(crate) fn run(periods: usize) -> Result<(), Box<dyn Error>> {
    if let Err(error) = lock_memory() {
        println!("memory is not locked: {error}");
    }
    let worker = Worker::new()?;
    if let Err(error) = worker.set_realtime_priority(Some(PRIORITY)) {
        println!("no real-time priority: {error}");
    }
    // All memory is taken before the loop begins.
    let mut late = Vec::with_capacity(periods);
    let mut plant = Loop { state: 0.0 };
    let missed = worker.block_on(async {
        let mut ticks = interval(PERIOD);
        // What was missed is over: a burst of steps would not bring it back.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        for _ in 0..periods {
            let due = ticks.tick().await;
            late.push(Instant::now() - due);
            plant.step(PERIOD.as_secs_f64());
        }
        ticks.missed_ticks()
    });
    late.sort_unstable();
    let of = |part: usize| {
        late.get(late.len() * part / 1000)
            .copied()
            .unwrap_or_default()
    };
    println!(
        "{periods} periods of {PERIOD:?}; missed: {missed}; the plant is at {:.3}",
        plant.state
    );
    println!(
        "late: median {:?}, 99 % {:?}, 99.9 % {:?}, most {:?}",
        of(500),
        of(990),
        of(999),
        of(1000).max(of(999))
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    run(2_000)
}

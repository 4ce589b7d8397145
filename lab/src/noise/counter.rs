//! The counter that threads spin on: the time-stamp counter if the library trusts it, else the kernel's clock.

use std::time::{Duration, Instant};

use tickless::clock::{Refusal, time_stamp_counter};
use tickless::{Parking, Worker};

use super::gaps::Rate;
use crate::failure::Failure;

/// The time limit for the library to measure the counter's rate. The measurement takes 20 ms unless the thread does not
/// get the CPU.
const PATIENCE: Duration = Duration::from_secs(1);

/// The counter that the loop reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    TimeStamps(Rate),
    /// The kernel's clock, in nanoseconds, and the reason why the time-stamp counter is not used.
    KernelClock(Refusal),
}

impl Counter {
    /// Chooses the counter. The calling thread must not be a worker.
    pub(super) fn choose() -> Result<Self, Failure> {
        let worker = worker()?;
        let start = Instant::now();
        loop {
            match time_stamp_counter() {
                Ok(hertz) => return Ok(Self::TimeStamps(Rate::from_hertz(hertz))),
                Err(Refusal::Calibrating) if start.elapsed() < PATIENCE => {
                    // Reads the clock, which is what calibrates it.
                    let _nothing_armed = worker.is_due();
                }
                Err(refusal) => return Ok(Self::KernelClock(refusal)),
            }
        }
    }

    pub(super) fn rate(&self) -> Rate {
        match self {
            Self::TimeStamps(rate) => *rate,
            Self::KernelClock(_) => Rate::from_hertz(1_000_000_000),
        }
    }
}

/// Makes the calling thread a polling worker whose timers no other thread expires, because its own stalls are measured.
pub(super) fn worker() -> Result<Worker, Failure> {
    let worker = Worker::with_parking(Parking::Spin)
        .map_err(|error| Failure::Machine(format!("cannot make a worker: {error}")))?;
    worker.set_helped(false);
    Ok(worker)
}

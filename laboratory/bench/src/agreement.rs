//! The measurement `--agreement` of the distance between the clocks of user space and the kernel's clock, over a
//! minute.
//!
//! Two threads read each clock between two readings of the kernel's clock, directly after a sleep and while they are
//! busy. The report has two errors. The certain error is the distance by which a reading lies outside the two kernel
//! readings around it. The other one is the largest possible error. If the two kernel readings lie more than [`WIDE`]
//! apart, the comparison was interrupted and says little: it is counted, and only its certain error is checked.

use std::io::{self, Write};
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The distance between two readings of the kernel's clock, in nanoseconds, above which the largest possible error of a
/// comparison is not counted.
const WIDE: i64 = 200;
/// The number of readings of each clock after each pause.
const IN_A_ROW: u32 = 3;
/// The number of pairs of readings by which a clock is tied to the kernel's clock; the closest pair is taken.
const TIES: u32 = 10_000;

fn kernel() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// A function that reads a clock, in nanoseconds of the kernel's clock.
type Read = Box<dyn Fn() -> i64 + Send + Sync>;

/// Ties a clock that only measures durations to the kernel's clock.
fn tied<I: Copy + Send + Sync + 'static>(now: fn() -> I, since: fn(&I, I) -> Duration) -> Read {
    let take = |_| {
        let before = kernel();
        let origin = now();
        let behind = kernel();
        (behind - before, origin, i64::midpoint(before, behind))
    };
    let closest = (0..TIES).map(take).min_by_key(|(width, ..)| *width);
    let (_, origin, nanos) = closest.unwrap_or_else(|| (0, now(), kernel()));
    Box::new(move || nanos + i64::try_from(since(&now(), origin).as_nanos()).unwrap_or(i64::MAX))
}

/// The comparisons of one clock.
#[derive(Clone, Copy, Default)]
struct Tally {
    readings: u64,
    interrupted: u64,
    backwards: u64,
    outside: i64,
    at_most: i64,
}

impl Tally {
    fn take(&mut self, before: i64, now: i64, behind: i64) {
        self.readings += 1;
        self.outside = self.outside.max(before - now).max(now - behind);
        if behind - before > WIDE {
            self.interrupted += 1;
        } else {
            self.at_most = self
                .at_most
                .max((now - before).abs())
                .max((now - behind).abs());
        }
    }

    fn with(self, other: &Self) -> Self {
        Self {
            readings: self.readings + other.readings,
            interrupted: self.interrupted + other.interrupted,
            backwards: self.backwards + other.backwards,
            outside: self.outside.max(other.outside),
            at_most: self.at_most.max(other.at_most),
        }
    }
}

/// A clock, with the latest time that a thread published to the other threads.
struct Subject {
    name: &'static str,
    clock: Read,
    told: AtomicI64,
}

impl Subject {
    fn read(&self, tally: &mut Tally) {
        // Acquire, and Release below: what a thread told was read before this reading begins.
        let told = self.told.load(Ordering::Acquire);
        let before = kernel();
        let now = (self.clock)();
        let behind = kernel();
        self.told.fetch_max(now, Ordering::AcqRel);
        tally.backwards += u64::from(now < told);
        tally.take(before, now, behind);
    }
}

/// Returns the clocks to compare. The kernel's own clock is among them and shows the error of the comparison itself.
fn subjects() -> [Subject; 5] {
    let clocks: [(_, Read); 5] = [
        (
            "tickless::time::Instant",
            Box::new(|| {
                tickless_core::time::Instant::from(tickless::time::Instant::now()).as_nanos()
            }),
        ),
        (
            "std::time::Instant",
            tied(Instant::now, Instant::duration_since),
        ),
        (
            "quanta",
            tied(quanta::Instant::now, quanta::Instant::duration_since),
        ),
        (
            "fastant",
            tied(fastant::Instant::now, fastant::Instant::duration_since),
        ),
        (
            "minstant",
            tied(minstant::Instant::now, minstant::Instant::duration_since),
        ),
    ];
    clocks.map(|(name, clock)| Subject {
        name,
        clock,
        told: AtomicI64::new(i64::MIN),
    })
}

/// Compares the clocks for `seconds` seconds, and prints the result.
pub(crate) fn print(seconds: u64) -> io::Result<()> {
    let subjects = subjects();
    // The counter is in use before anything is compared.
    thread::sleep(Duration::from_millis(50));
    let end = Instant::now() + Duration::from_secs(seconds);
    let compare = || {
        let mut tallies = [Tally::default(); 5];
        while Instant::now() < end {
            for _ in 0..IN_A_ROW {
                for (subject, tally) in subjects.iter().zip(&mut tallies) {
                    subject.read(tally);
                }
            }
            thread::sleep(Duration::from_micros(40));
        }
        tallies
    };
    let all = thread::scope(|scope| {
        let threads = [scope.spawn(compare), scope.spawn(compare)];
        threads.map(|thread| thread.join().unwrap_or_default())
    });
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "agreement with CLOCK_MONOTONIC over {seconds} s, two threads (ns)\n{:<26} {:>10} {:>12} {:>10} {:>10} {:>10}",
        "", "readings", "interrupted", "backwards", "off", "at most"
    )?;
    for (index, subject) in subjects.iter().enumerate() {
        let tally = all
            .iter()
            .fold(Tally::default(), |sum, tallies| sum.with(&tallies[index]));
        writeln!(
            out,
            "{:<26} {:>10} {:>12} {:>10} {:>10} {:>10}",
            subject.name,
            tally.readings,
            tally.interrupted,
            tally.backwards,
            tally.outside,
            tally.at_most
        )?;
    }
    match tickless::clock::time_stamp_counter() {
        Ok(hertz) => writeln!(
            out,
            "the counter runs at {hertz} Hz, and is within {} ns at present",
            tickless::clock::error()
        ),
        Err(refusal) => writeln!(out, "the counter is not used: {refusal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_outside_is_an_error_and_what_was_interrupted_says_little() {
        let mut tally = Tally::default();
        tally.take(100, 120, 150);
        assert_eq!((tally.outside, tally.at_most), (0, 30));
        tally.take(100, 90, 150);
        tally.take(100, 157, 150);
        assert_eq!(
            (tally.outside, tally.at_most, tally.interrupted),
            (10, 60, 0)
        );
        tally.take(0, 5_000, 10_000);
        assert_eq!(
            (tally.outside, tally.at_most, tally.interrupted),
            (10, 60, 1)
        );
    }
}
